"""`fedcox reproduce communication`: what leaves a center in every method."""

from __future__ import annotations

from fedcox.cli.reproduce.options import Out, Overwrite, Quick
from fedcox.cli.reproduce.small_study import run_study


def communication(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """Section 5.2: numbers and bytes that leave a center, for every method.

    fedcox reproduce communication --quick --out communication
    """
    from fedcox.paper.communication import run_communication
    from fedcox.paper.communication_page import write_communication_page

    run_study(
        out, "communication", overwrite, quick, run_communication, write_communication_page
    )
