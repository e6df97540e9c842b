"""From the hospitals' files to centers in this process, with what reading them had to say."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedcox.data.cohort_file import read_cohort, read_table
from fedcox.data.encoding import LoadedCohort, cohort_from_frame, cohorts_by_center
from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError, FedcoxWarning
from fedcox.federation.policy import Policy
from fedcox.study.admission import check_policies, policies_by_center
from fedcox.study.fit_rows import Notice
from fedcox.study.study import Study

_File = tuple[str, Path]


def read_centers(
    plan: Study,
    files: Mapping[str, Path] | Path,
    center_column: str | None = None,
    limits: Mapping[str | None, Policy] | None = None,
    each: Callable[[Iterable[_File]], Iterable[_File]] = lambda files: files,
) -> InProcess:
    """Centers from one file for all, or one for each, if their policies let the study run.

    Without a `center_column` the patients of one file are one center. `each` hears of every
    file before it is read.
    """
    loaded = _read(plan, files, center_column, each)
    federation = InProcess.from_loaded(loaded, policies_by_center(limits or {}, loaded))
    check_policies(plan, federation.centers)
    return federation


def _read(
    plan: Study,
    files: Mapping[str, Path] | Path,
    center_column: str | None,
    each: Callable[[Iterable[_File]], Iterable[_File]],
) -> dict[str, LoadedCohort]:
    """Read every file; the faults of all of them are told at once."""
    if isinstance(files, Path):
        table, source = read_table(files), str(files)
        if center_column is None:
            return {"all": cohort_from_frame(table, plan.schema, source=source)}
        return cohorts_by_center(table, plan.schema, center=center_column, source=source)
    loaded, faulty = {}, []
    for name, file in each(files.items()):
        try:
            loaded[name] = read_cohort(file, plan.schema, center=name)
        except CohortError as error:
            faulty.append(error)
    if len(faulty) == 1:
        raise faulty[0]
    if faulty:
        faults = [line for error in faulty for line in (error.subject, *error.faults)]
        raise CohortError(f"{len(faulty)} of {len(files)} centers cannot be used.", faults)
    return loaded


@contextmanager
def reading_notices(plan: Study) -> Iterator[list[Notice]]:
    """Catch the warnings of reading; afterwards the list has those that may be shown."""
    notices: list[Notice] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FedcoxWarning)
        yield notices
    # Under noise, that anybody was left out may be about one patient: `check` tells it.
    if not plan.privacy.noised:
        notices += [Notice(each.category.__name__, str(each.message)) for each in caught]
