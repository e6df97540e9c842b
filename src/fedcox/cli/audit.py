"""`fedcox audit`: who could read patients out of a study, tried with every attack there is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fedcox.cli.options import (
    CenterColumn,
    CenterFiles,
    DataFile,
    StudyFile,
    given_files,
    to_replace,
)
from fedcox.cli.terminal import Terminal, say, show_page, spinner

if TYPE_CHECKING:
    from fedcox.evaluation.audit import Audit
    from fedcox.federation.center import Center
    from fedcox.study.study import Study


def audit(
    study: StudyFile,
    data: DataFile = None,
    center_column: CenterColumn = None,
    center: CenterFiles = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="How long each attack may take.")
    ] = 60.0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="RUN", help="A folder to write audit.json and audit.html into."
        ),
    ] = None,
    overwrite: Annotated[bool, to_replace("an audit")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Attack a study's own messages, and count the patients who are recovered.

    Runs the study on these files under each protection - exact sums, exact secure
    sums, noise at each hospital, secure sums and noise - and plays a coordinator who
    reads every message, one who cheats, other hospitals, and a reader of the results.
    Of noise, a guess whether one patient took part proves a least epsilon. Shows
    counts, never a patient's value; nothing leaves this machine.

    A study without a word on noise is audited with the usual noise: a price of 5 %.

    Exit status 1 if anybody is recovered under noise, or if a claimed epsilon is wrong.

    fedcox audit study.toml --data all.csv --center-column hospital

    fedcox audit study.toml --center A=a.csv --center B=b.csv --center C=c.csv
    --out run
    """
    from fedcox.cli.fit import read_with_progress
    from fedcox.files.writing import json_text
    from fedcox.reports.audit_page import audit_html
    from fedcox.reports.page import PageFolder
    from fedcox.study.study import Study

    files = given_files(data, center_column, center or [])
    folder = PageFolder("audit", "audit")
    if out is not None:
        folder.check(out, overwrite=overwrite)
    plan = Study.read(study)
    centers = read_with_progress(plan, files, center_column).centers
    result = _attacked(plan, centers, seconds)
    if out is not None:
        folder.write(out, result.to_dict(), audit_html(result))
    if json:
        say(json_text(result.to_dict()))
    else:
        _show(result)
        if out is not None:
            show_page(out / folder.page)
    if result.recovered_under_noise or not result.claims_stand:
        raise typer.Exit(1)


def _attacked(plan: Study, centers: Sequence[Center], seconds: float) -> Audit:
    """The audit, with a line that names the attack at work."""
    from fedcox.evaluation.audit import audit as run

    with spinner() as progress:
        task = progress.add_task("reading", total=None)

        def watch(attack: str) -> None:
            progress.update(task, description=attack)

        return run(plan, centers, seconds=seconds, watch=watch)


def _show(result: Audit) -> None:
    from fedcox.reports.audit_page import (
        NO_PROOF,
        attack_table,
        attacker_table,
        claim_line,
        claims,
        headline,
        not_tried,
        weak_promise,
    )

    console = Terminal(highlight=False)
    console.print(attacker_table(result))
    console.print(attack_table(result))
    console.print(Text(f"{headline(result)} {NO_PROOF}"))
    for claim in claims(result):
        console.print(Text(claim_line(claim), "" if claim.stands else "bold red"))
    if result.membership and weak_promise(result):
        console.print(Text(weak_promise(result)))
    for line in not_tried(result):
        console.print(Text.assemble(("Not tried. ", "bold"), line))
