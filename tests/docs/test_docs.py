"""What the documentation says is run and looked up, so that it cannot go stale unnoticed."""

from __future__ import annotations

import io
import json
import re
import tokenize
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from fedcox.data.synthetic import simulate_hospitals
from fedcox.engines.in_process import InProcess
from fedcox.errors import LateEventsWarning
from fedcox.study.fit import fit
from fedcox.study.fit_file import fit_text
from fedcox.study.simulation import clinical_study
from fedcox.study.study import Study
from tests.docs.commands_page import COMMANDS, PAGE, commands_page
from tests.docs.pages import DOCS, ROOT, Page, all_pages, page
from tests.docs.running import Reader

PAGES = all_pages()
MATHEMATICS = DOCS / "mathematics.md"
every_page = pytest.mark.parametrize("shown", PAGES, ids=lambda shown: shown.name)

#: What a fragment of a study file is put into, to see whether it is one.
SMALLEST_STUDY = {
    "outcome": {"time": "time", "event": "status"},
    "covariates": ["age"],
    "grid": {"width": 30},
}
ONE_EQUATION = re.compile(r"(?<![\w.`)])\((\d{1,2})\)")


@every_page
def test_what_a_page_says_runs_and_prints_what_it_shows(
    shown: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    reader = Reader(shown, monkeypatch)
    reader.read()
    meant = [
        block
        for block in shown.blocks
        if block.language in ("python", "console") and not block.remark.startswith("minutes")
    ]
    assert bool(reader.ran) == bool(meant)


@every_page
def test_every_toml_block_is_a_study_or_a_part_of_one(shown: Page) -> None:
    for block in shown.blocks:
        if block.language == "toml":
            tables = tomllib.loads(block.text)
            whole = {"outcome", "covariates"} <= set(tables)
            Study.parse(block.text) if whole else Study(**{**SMALLEST_STUDY, **tables})


@every_page
def test_every_link_to_a_page_or_heading_resolves(shown: Page) -> None:
    for link in shown.links:
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = (shown.path.parent / file).resolve() if file else shown.path
        assert target.is_relative_to(ROOT), link
        assert target.exists(), link
        if anchor:
            assert anchor in page(target).anchors, link


@every_page
def test_every_file_and_test_that_is_named_exists(shown: Page) -> None:
    for piece in shown.code:
        if re.fullmatch(r"(src|tests|docs|benchmarks)/[\w./-]+(::\w+)?", piece):
            file, _, name = piece.partition("::")
            assert (ROOT / file).exists(), piece
            if name:
                assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), piece
        elif re.fullmatch(r"(analysis|data|engines|federation|solvers|survival)/.+\.py", piece):
            assert (ROOT / "src" / "fedcox" / piece).exists(), piece


@every_page
def test_formulas_are_closed_and_survive_markdown(shown: Page) -> None:
    formulas = [block.text for block in shown.blocks if block.language == "math"]
    for paragraph in re.split(r"\n\s*\n", re.sub(r"`[^`\n]*`", "", shown.prose)):
        assert paragraph.count("$") % 2 == 0, paragraph
        inline = re.findall(r"\$([^$]+)\$", paragraph)
        # An underscore after a bracket would begin an emphasis; a bar would end a table's cell.
        assert not [formula for formula in inline if re.search(r"[)}\]]_|\|", formula)]
        formulas += inline
    for formula in formulas:
        plain = re.sub(r"\\[{}]", "", formula)
        assert plain.count("{") == plain.count("}"), formula
        assert formula.count(r"\begin{") == formula.count(r"\end{"), formula


def test_equations_are_numbered_in_order() -> None:
    assert numbers_of_equations() == list(range(1, len(numbers_of_equations()) + 1))


def test_every_equation_that_is_cited_exists() -> None:
    known = set(numbers_of_equations())
    assert set(map(int, ONE_EQUATION.findall(page(MATHEMATICS).prose))) <= known
    for shown in PAGES:
        cited = re.findall(r"[Ee]quations? (\(\d+\)(?:(?: to | and |, )\(\d+\))*)", shown.prose)
        assert {int(n) for part in cited for n in re.findall(r"\d+", part)} <= known, shown.name
    for file in sorted((ROOT / "src").rglob("*.py")):
        cited = ONE_EQUATION.findall(words_of(file))
        assert set(map(int, cited)) <= known, file.name


def numbers_of_equations() -> list[int]:
    blocks = [block.text for block in page(MATHEMATICS).blocks if block.language == "math"]
    return [int(number) for text in blocks for number in re.findall(r"\\tag\{(\d+)\}", text)]


def words_of(file: Path) -> str:
    """Comments and texts of a module: where an equation may be cited."""
    tokens = tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline)
    wanted = (tokenize.COMMENT, tokenize.STRING)
    return "\n".join(token.string for token in tokens if token.type in wanted)


def test_the_page_of_commands_is_what_help_prints() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written.split() == commands_page().split(), "python -m tests.docs.commands_page"


def test_the_page_of_commands_has_all_of_them() -> None:
    from fedcox.cli.main import app

    named = _names(app)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        name = str(group.typer_instance.info.name)
        named += [name, *(f"{name} {command}" for command in _names(group.typer_instance))]
    assert sorted(named) == sorted(COMMANDS)


def _names(app: typer.Typer) -> list[str]:
    return [
        str(command.name or getattr(command.callback, "__name__", "")).replace("_", "-")
        for command in app.registered_commands
    ]


@pytest.fixture(scope="module")
def fit_json() -> dict[str, Any]:
    study = Study(**{**clinical_study().to_dict(), "grid": {"horizon": 1000}})
    frame = simulate_hospitals(300, 3, rng=np.random.default_rng(1)).frame
    with pytest.warns(LateEventsWarning):
        fitted = fit(study, InProcess.from_frame(study, frame, center="hospital"))
    record: dict[str, Any] = json.loads(fit_text(fitted))
    return record


def test_every_field_of_fit_json_is_documented_and_no_other(fit_json: dict[str, Any]) -> None:
    documented = fields_by_heading(DOCS / "reference" / "fit-json.md")
    found = {"Top level": list(fit_json)}
    for heading in documented.keys() - found.keys():
        value = fit_json[heading]
        rows = value if isinstance(value, list) else [value]
        assert rows, heading
        found[heading] = list(rows[0])
    assert documented == found


def fields_by_heading(path: Path) -> dict[str, list[str]]:
    """First columns of the tables, under their headings."""
    fields: dict[str, list[str]] = {}
    heading = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif row := re.match(r"\| `(\w+)` \|", line):
            fields.setdefault(heading, []).append(row[1])
    return fields


def test_every_page_is_listed() -> None:
    listed = {
        (index.path.parent / link).resolve()
        for index in (page(DOCS / "index.md"), page(DOCS / "decisions" / "README.md"))
        for link in index.links
    }
    pages = {shown.path for shown in PAGES if DOCS in shown.path.parents}
    assert pages - {DOCS / "index.md"} <= listed
