"""Every center in this process: simulation, tests, or one analyst who has all files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedcox.errors import CohortError
from fedcox.federation.center import Center
from fedcox.federation.ledger import Ledger
from fedcox.federation.query import (
    AbstractFederation,
    AbstractPrivateQuery,
    AbstractQuery,
    AbstractSumQuery,
    Answer,
)
from fedcox.survival.cohort import Cohort

if TYPE_CHECKING:
    import pandas as pd

    from fedcox.data.encoding import LoadedCohort
    from fedcox.data.schema import CohortSchema
    from fedcox.federation.policy import Policy

#: Up to this many centers, each answers for itself.
_FEW = 64
#: A group is full at this many patients: enough for fast sums, few enough for the cache.
_FULL = 8192


class HasSchema(Protocol):
    """A study, as far as reading patients is concerned."""

    @property
    def schema(self) -> CohortSchema: ...


class InProcess(AbstractFederation):
    """A federation whose centers are in this process: a simulation, or one analyst's files.

    Each question goes to every center; their answers, sums over patients as a rule, are added
    up in the order of the centers' names.

    centers     one object each; `from_frame` makes them of tables, `from_cohorts` of arrays
    apart       every center replies for itself however many there are, as between hospitals:
                the same bits as there. Otherwise more than 64 are summed over in groups, which
                is faster and equal up to rounding

    `names` are the centers; `ledger` has what was asked and what left each of them so far.

    >>> import numpy as np
    >>> import fedcox
    >>> from fedcox.data.synthetic import simulate_hospitals
    >>> patients = simulate_hospitals(600, 3, rng=np.random.default_rng(1)).frame
    >>> study = fedcox.Study(
    ...     outcome={"time": "time", "event": "status"}, covariates=["age", "marker"]
    ... )
    >>> hospitals = fedcox.InProcess.from_frame(study, patients, center="hospital")
    >>> hospitals.names
    ('hospital_1', 'hospital_2', 'hospital_3')
    >>> sum(center.cohort.patients for center in hospitals.centers)
    600

    Next: `fedcox.fit(study, hospitals)`; without `center` it is the pooled analysis, which
    gives the same. Machines of their own: docs/how-to-deploy.md.
    """

    shows_centers = True
    centers: tuple[Center, ...]

    def __init__(self, centers: Sequence[Center], *, apart: bool = False) -> None:
        faults = _faults(centers)
        if faults:
            raise CohortError("These centers do not make a federation.", faults)
        self.centers = numbered_through(sorted(centers, key=lambda center: center.name))
        self.names = tuple(center.name for center in self.centers)
        self.ledger = Ledger()
        # Centers with a policy, or asked one by one, are hospitals in rehearsal.
        self.in_one_process = not apart and all(center.gate is None for center in centers)
        self._groups = self.centers if apart else center_groups(self.centers)
        self.cohorts = [group.cohort for group in self._groups]

    @classmethod
    def from_cohorts(cls, cohorts: Mapping[str, Cohort], *, apart: bool = False) -> InProcess:
        """One center per named cohort: `{"A": cohort, "B": other}`."""
        return cls([Center(name, cohort) for name, cohort in cohorts.items()], apart=apart)

    @classmethod
    def from_frame(
        cls,
        study: HasSchema,
        frames: pd.DataFrame | Mapping[str, pd.DataFrame],
        center: str | None = None,
        *,
        apart: bool = False,
    ) -> InProcess:
        """One table with the centers in column `center`, or one table per named center.

        The study says which columns are read; every fault of a table is named at once. Without
        `center` a single table is a single center.
        """
        from fedcox.data.encoding import cohort_from_frame, cohorts_by_center

        if isinstance(frames, Mapping):
            loaded = {
                name: cohort_from_frame(frame, study.schema, source=f"center {name}")
                for name, frame in frames.items()
            }
        elif center is None:
            loaded = {"all": cohort_from_frame(frames, study.schema, source="the table")}
        else:
            loaded = cohorts_by_center(frames, study.schema, center=center, source="the table")
        return cls.from_loaded(loaded, apart=apart)

    @classmethod
    def from_loaded(
        cls,
        loaded: Mapping[str, LoadedCohort],
        policies: Mapping[str, Policy] | None = None,
        *,
        apart: bool = False,
    ) -> InProcess:
        """Cohorts as they come from tables or files, each under its hospital's policy."""
        from fedcox.federation.policy import Gate

        gates = {name: Gate(policy) for name, policy in (policies or {}).items()}
        return cls(
            [
                Center(name, part.cohort, part.dropped, part.filled, gate=gates.get(name))
                for name, part in loaded.items()
            ],
            apart=apart,
        )

    def ask_together(
        self,
        queries: Sequence[AbstractQuery[Any]],
        each: Sequence[AbstractQuery[Any]] = (),
    ) -> list[Any]:
        self.ledger.open_round()
        combined = [self._combined(query) for query in queries]
        return combined + [dict(zip(self.names, self._replies(q), strict=True)) for q in each]

    def _combined(self, query: AbstractQuery[Answer]) -> Answer:
        if len(self._groups) == len(self.centers) or not isinstance(query, AbstractSumQuery):
            return reduce(query.combine, self._replies(query))
        for center in self.centers:  # each decides for itself, though they sum together
            center.admit(query)
        total: Answer = reduce(query.combine, (group.answer(query) for group in self._groups))
        size = query.numbers_in(total), query.bytes_in(total)
        record = self._recorder(query)
        for center in self.centers:  # sums have one shape: each sends what the total holds
            record(center, *size)
        return total

    def _replies(self, query: AbstractQuery[Answer]) -> Iterator[Answer]:
        """One reply at a time, so that a thousand of them need the memory of two."""
        record = self._recorder(query)
        for center in self.centers:
            answer = center.answer(query)
            record(center, query.numbers_in(answer), query.bytes_in(answer))
            yield answer

    def _recorder(self, query: AbstractQuery[Answer]) -> Callable[[Center, int, int], None]:
        """What writes one center's reply down; all that is the same for every center is known.

        There may be a thousand of them, each with little to say.
        """
        name, down = query.name, self.ledger.numbers_down(query)
        private = isinstance(query, AbstractPrivateQuery)
        protection = "noise" if private else "none"

        def record(center: Center, up: int, bytes_up: int) -> None:
            self.ledger.record(
                center.name,
                name,
                up,
                down,
                bytes_up=bytes_up,
                protection=protection,
                epsilon=center.epsilon(query) if private else None,
            )

        return record


def _faults(centers: Sequence[Center]) -> list[str]:
    if not centers:
        return ["There is no center. Give at least one."]
    names = Counter(center.name for center in centers)
    faults = [
        f"Center {name!r} is given {times} times; give each center once."
        for name, times in sorted(names.items())
        if times > 1
    ]
    columns = sorted({center.cohort.columns for center in centers})
    if len(columns) > 1:
        faults.append(
            "Centers have different numbers of covariates "
            f"({', '.join(map(str, columns))}); all must have the study's columns."
        )
    return faults


def center_groups(centers: Sequence[Center]) -> tuple[Center, ...]:
    """Neighbouring centers joined until a group is full; few centers stay apart.

    A thousand simulated clinics of a hundred patients would cost more in calls than in
    arithmetic. What a fit needs of them are sums, and the sum over several centers is the
    answer of their union; so the engine that holds them all anyway asks groups of neighbours.
    Few centers are never joined: there every reply is its own, and rounding is that of a real
    deployment.
    """
    if len(centers) <= _FEW:
        return tuple(centers)
    joined: list[Center] = []
    waiting: list[Center] = []
    patients = 0
    for center in centers:
        waiting.append(center)
        patients += center.cohort.patients
        if patients >= _FULL:
            joined.append(_join(waiting))
            waiting, patients = [], 0
    return tuple(joined + ([_join(waiting)] if waiting else []))


def _join(centers: Sequence[Center]) -> Center:
    if len(centers) == 1:
        # The center has admitted the question already, and would count it twice.
        return replace(centers[0], gate=None)
    union = Cohort.joined([center.cohort for center in centers])
    return Center(f"{centers[0].name} to {centers[-1].name}", union)


def numbered_through(centers: Sequence[Center]) -> tuple[Center, ...]:
    """Patients numbered 0, 1, … over all centers, unless they are already.

    Cohorts cut from one table keep that table's numbers, so that batches drawn over all
    patients do not depend on the cut.
    """
    numbers = np.concatenate([center.cohort.number for center in centers])
    counted = np.diff(numbers, prepend=-1) == 1  # most often in order, and then no sort
    if counted.all() or np.array_equal(np.sort(numbers), np.arange(numbers.size)):
        return tuple(centers)
    ends = np.cumsum([center.cohort.patients for center in centers])
    return tuple(
        replace(
            center,
            cohort=replace(center.cohort, number=np.arange(end - center.cohort.patients, end)),
        )
        for center, end in zip(centers, ends.tolist(), strict=True)
    )
