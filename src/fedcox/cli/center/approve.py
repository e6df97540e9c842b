"""`fedcox center approve`: the data manager's word on a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedcox.cli.center.start import CenterHome


def approve(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="The study's code.")
    ] = None,
    folder: CenterHome = Path("center"),
    decline: Annotated[
        bool, typer.Option("--decline", help="Say no to it, or take an approval back.")
    ] = False,
    unseen: Annotated[
        bool,
        typer.Option("--unseen", help="Approve a study that was not shown here: unattended."),
    ] = False,
) -> None:
    """Approve a study, or show those that wait for it.

    A code that was never shown here is refused. With --unseen it is approved before anybody
    here has read the study; the center's log says so.

    Example: fedcox center approve 3f2a-91bc-0d44-5e67-8a90-b1c2-d3e4-f506
    """
    from fedcox.cli.terminal import Terminal
    from fedcox.deployment.approval import Approvals, read_code
    from fedcox.deployment.center_folder import CenterFolder
    from fedcox.deployment.client import approve_unseen
    from fedcox.deployment.study_words import request_lines

    home = CenterFolder.read(folder)
    approvals, console = Approvals(home.pending, home.approved), Terminal(highlight=False)
    if code is None:
        waiting = approvals.waiting()
        for request in waiting:
            for line in request_lines(request, home):
                console.print(line, markup=False, soft_wrap=True)
            console.rule()
        if not waiting:
            console.print("No study waits for approval.")
        return
    given = read_code(code)
    known = approvals.find(given)
    if known is None and unseen and not decline:
        console.print(approve_unseen(home, given), markup=False, style="yellow")
        return
    approvals.decide(given, approve=not decline)
    name = "A study that was not shown here yet" if known is None else f"“{known.name}”"
    console.print(f"{name} is {'declined' if decline else 'approved'}.", markup=False)
