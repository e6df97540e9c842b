"""`fedcox reproduce privacy`: what differential privacy costs."""

from __future__ import annotations

from fedcox.cli.reproduce.options import Out, Overwrite, Quick
from fedcox.cli.reproduce.small_study import run_study


def privacy(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """C-index, error and intervals against epsilon, which the paper leaves open.

    Noise under secure sums and at each center, for 6 and 20 covariates.

    fedcox reproduce privacy --quick --out privacy
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():
        from fedcox.paper.privacy import run_privacy
        from fedcox.paper.privacy_page import write_privacy_page

        run_study(out, "privacy", overwrite, quick, run_privacy, write_privacy_page)
