"""`fedcox audit`: how many patients whoever runs a study could read off the replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedcox.cli.patient_files import (
    CenterColumn,
    CenterFiles,
    DataFile,
    StudyFile,
    given_files,
)
from fedcox.cli.progress import progress_bar

if TYPE_CHECKING:
    from fedcox.evaluation.audit import Audit

FILE = "audit.json"
NO_PROOF = (
    "Zero means: not by these attacks. It is not a proof; only differential privacy gives one."
)

CenterPolicies = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]FILE",
        help="A center's own limits (policy.toml), or those of all centers; repeat. "
        "The default limits stand for centers without one.",
    ),
]


def audit(
    study: StudyFile,
    data: DataFile = None,
    center_column: CenterColumn = None,
    center: CenterFiles = None,
    policy: CenterPolicies = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN", help="A folder to write audit.json into."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an audit that is there already.")
    ] = False,
) -> None:
    """Attack a study's own messages, and count the patients who are recovered.

    Runs the study on these files under each protection - none, the hospitals'
    limits, secure sums, both, and differential privacy if the study has it -
    and plays a coordinator who reads every message, and one who cheats. A
    patient is recovered if every covariate is found to within a hundredth of
    its spread. Shows counts, never a patient's value; nothing leaves this
    machine.

    Exit status 1 if anybody is recovered under both limits and secure sums, or
    if replies hold less noise than the claimed epsilon needs.

    fedcox audit study.toml --data all.csv --center-column hospital

    fedcox audit study.toml --center A=a.csv --center B=b.csv --center C=c.csv
    --policy B=b_policy.toml --out run
    """
    from fedcox.analysis.atomic_folder import check_folder
    from fedcox.analysis.center_policies import policies_by_center
    from fedcox.analysis.study import Study
    from fedcox.cli.fit import given_policies, read_shown
    from fedcox.evaluation.audit import audit as run
    from fedcox.evaluation.protection import Protection

    files = given_files(data, center_column, center or [])
    if out is not None:
        check_folder(
            out, overwrite=overwrite, is_ours=lambda path: path.name == FILE, what="audit"
        )
    limits = given_policies(policy or [])
    plan = Study.read(study)
    centers = read_shown(plan, files, center_column).centers
    policies = policies_by_center(limits, [center.name for center in centers])
    with _watching() as watch:
        found = run(plan, centers, policies, watch=watch)
    if out is not None:
        _write(found, out)
    _show(found)
    if found.recovered(Protection.BOTH) or not found.claims_stand:
        raise typer.Exit(1)


@contextmanager
def _watching() -> Iterator[Callable[[str], None]]:
    """A line that names the attack at work."""
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_bar(*columns) as progress:
        task = progress.add_task("reading", total=None)
        yield lambda told: progress.update(task, description=told)


def _write(found: Audit, folder: Path) -> None:
    import json

    from fedcox.analysis.atomic_file import write_atomically
    from fedcox.analysis.atomic_folder import whole_folder

    with whole_folder(folder) as part:
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False)
        write_atomically(part / FILE, text + "\n")


def _show(found: Audit) -> None:
    from rich.markup import escape

    from fedcox.cli.terminal import Terminal
    from fedcox.evaluation.protection import Protection
    from fedcox.reports.audit_table import audit_table, noise_line

    console = Terminal()
    console.print(audit_table(found))
    console.print(f"Of {found.patients:,} patients in {found.centers} centers. {NO_PROOF}")
    for protection, reason in found.left_out.items():
        console.print(f"Not tried: {protection.value}, since {escape(reason)}.")
    if Protection.NOISE in found.protections and not found.noise:
        console.print("Differential privacy: not audited, since nothing was sent under noise.")
    for noise in found.noise:
        console.print(noise_line(noise))
