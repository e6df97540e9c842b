"""`fedcox plan`: what a study would cost and could tell, before anybody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fedcox.cli.options import StudyFile, to_replace
from fedcox.cli.terminal import Terminal, say, show_page

if TYPE_CHECKING:
    from fedcox.study.study_plan import StudyPlan

Patients = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="About how many take part in all centers. Default: as the study says.",
    ),
]
Events = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="About how many of them have the event. Default: as the study says, or half.",
    ),
]
Share = Annotated[
    list[float] | None,
    typer.Option(
        metavar="PART",
        help="The part of patients with the level of a category whose effect is looked "
        "for; repeat for others. Default: 0.5.",
    ),
]


def plan(
    study: StudyFile,
    patients: Patients = None,
    events: Events = None,
    centers: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many centers take part.")
    ] = 5,
    share: Share = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="A folder to write plan.html and plan.json into."
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print plan.json instead of the tables.")
    ] = False,
    overwrite: Annotated[bool, to_replace("a plan")] = False,
) -> None:
    """Tell what a study would cost and could find, before anybody is asked.

    From the study file and public numbers alone: epsilon, by what factor noise makes
    standard errors larger, and the smallest hazard ratio that is found with 80 % power at
    a two-sided level of 5 %, with and without noise, for this number of patients and for
    others. No patient is asked and no epsilon is spent.

    A study without a word on noise is planned as hospitals run it: with secure sums, and
    noise that makes standard errors 5 % larger.

    fedcox plan study.toml --patients 1500 --events 700

    fedcox plan study.toml --patients 1500 --events 700 --share 0.1 --out plan
    """
    from fedcox.files.writing import json_text
    from fedcox.reports.page import PageFolder
    from fedcox.reports.plan_page import plan_html
    from fedcox.study.study import Study
    from fedcox.study.study_plan import plan as make

    folder = PageFolder("plan", "plan")
    if out is not None:
        folder.check(out, overwrite=overwrite)
    made = make(
        Study.read(study),
        patients=patients,
        events=events,
        centers=centers,
        shares=share or (0.5,),
    )
    if out is not None:
        folder.write(out, made.to_dict(), plan_html(made))
    if json:
        say(json_text(made.to_dict()))
    else:
        _show(made)
        if out is not None:
            show_page(out / folder.page)


def _show(made: StudyPlan) -> None:
    from fedcox.reports.guarantee_words import epsilon_explained
    from fedcox.reports.plan_page import choice_table, notes, readings, size_table

    console = Terminal(highlight=False)
    console.print(choice_table(made))
    console.print(size_table(made))
    for note in notes(made):
        console.print(Text.assemble(("Note: ", "bold yellow"), note))
    for reading in readings(made):
        console.print(Text(reading))
    for part in epsilon_explained(made.delta):
        console.print(Text.assemble((f"{part.title}. ", "bold"), part.text))
