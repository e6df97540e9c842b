"""`fedcox reproduce compression`: gradients in fewer bytes."""

from __future__ import annotations

from fedcox.cli.reproduce.options import Out, Overwrite, Quick
from fedcox.cli.reproduce.small_study import run_study


def compression(out: Out, quick: Quick = False, overwrite: Overwrite = False) -> None:
    """C-index against bytes, which the paper leaves open: gradients in fewer bytes.

    Five ways of compressing them, with and without error feedback, for 20 and
    200 covariates.

    fedcox reproduce compression --quick --out compression
    """
    from fedcox.evaluation.workers import one_thread_each

    with one_thread_each():
        from fedcox.paper.compression import run_compression
        from fedcox.paper.compression_page import write_compression_page

        run_study(out, "compression", overwrite, quick, run_compression, write_compression_page)
