"""`fedcox reproduce appendix-a`: the discrete-time model against Cox's."""

from __future__ import annotations

from fedcox.cli.reproduce.options import Out, Overwrite, Quick
from fedcox.cli.reproduce.small_study import run_study


def appendix_a(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """Appendix A: the discrete-time model against Cox's, as intervals shrink.

    fedcox reproduce appendix-a --quick --out appendix-a
    """
    from fedcox.paper.appendix_a import run_appendix_a
    from fedcox.paper.appendix_page import write_appendix_page

    run_study(out, "appendix-a", overwrite, quick, run_appendix_a, write_appendix_page)
