"""How many threads is a network over slides worth? One, unless slides have many tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from statistics import fmean

from fedcox.models.architecture import check_torch
from fedcox.survival.cohort import Cohort

#: Mean tiles of a slide from which on threads pay. Below, they wait for each other longer than
#: they work: 40 times as long where other programs use the cores too.
_LARGE = 2000


@contextmanager
def threads_for(cohorts: Iterable[Cohort], large: int | None = None) -> Iterator[None]:
    """As many threads as these slides are worth, until the end of the block.

    For large slides `large` of them, or as many as torch has taken.
    """
    check_torch()
    import torch

    bags = [cohort.bags for cohort in cohorts if cohort.bags is not None]
    tiles = [slide.shape[0] for own in bags for slides in own.slides for slide in slides]
    before = torch.get_num_threads()
    is_large = bool(tiles) and fmean(tiles) >= _LARGE
    torch.set_num_threads((large or before) if is_large else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
