"""How a page is made from a template."""

from __future__ import annotations

from dataclasses import replace

from fedcox.reports.plan_page import plan_html
from fedcox.study.study_plan import plan
from tests.study.test_study_plan import study


def test_what_a_terminal_would_obey_is_shown_by_its_number() -> None:
    """Also on a page, which somebody may print on one."""
    planned = replace(plan(study(), patients=1500, events=700), name="a\x1b[2J\u202e<b>")
    page = plan_html(planned)
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert r"a\u001b[2J\u202e&lt;b&gt;" in page
