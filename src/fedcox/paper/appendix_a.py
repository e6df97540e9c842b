"""How near is the discrete-time model to Cox's? Its optimum as intervals shrink (appendix A).

On simulated patients in one center, under both links and all three readings of a patient
censored inside an interval. Two kinds of censoring, since they matter more than the link:
uniform up to one time for everybody, and uniform up to each patient's own median survival,
which high risks reach earlier. Cox's model is fitted with Breslow's ties; there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from fedcox.data.synthetic import CensoringBound, simulate_paper_cohort
from fedcox.engines.in_process import InProcess
from fedcox.evaluation.seeds import derived_generator
from fedcox.evaluation.versions import library_versions
from fedcox.solvers.newton import Newton
from fedcox.study.cox import CoxFit, fit_cox
from fedcox.study.fit import estimate
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.link import LINKS, LinkName
from fedcox.survival.time_grid import CensoredInterval

#: Hears how many of how many simulated studies are done, and which comes next.
Progress = Callable[[int, int, str], None]

BOUNDS: tuple[CensoringBound, ...] = ("population", "patient")
LINK_NAMES: tuple[LinkName, ...] = ("cloglog", "logit")
READINGS: tuple[CensoredInterval, ...] = ("include", "exclude", "half")
#: Into how many intervals the whole follow-up is cut; the last grid has every event time.
INTERVALS: tuple[int | None, ...] = (5, 10, 20, 50, 100, 200, 500, 1000, None)

#: Link, reading and number of intervals.
Fit = tuple[LinkName, CensoredInterval, int | None]
FITS: tuple[Fit, ...] = tuple(product(LINK_NAMES, READINGS, INTERVALS))
_COLUMNS = 5


@dataclass(frozen=True)
class Approach:
    """One link, reading and grid: the medians over simulated studies.

    `intervals` None stands for every distinct event time. `ratio` is the discrete-time
    coefficient vector's length along Cox's, Cox's being one. `difference` is that of the
    coefficient farthest from Cox's, in Cox's standard errors.
    """

    bound: CensoringBound
    link: LinkName
    reading: CensoredInterval
    intervals: int | None
    ratio: float
    difference: float


@dataclass(frozen=True)
class AppendixA:
    """All grids, under both kinds of censoring; `event_times` is the mean number of those."""

    patients: int
    columns: int
    runs: int
    seed: int
    event_times: float
    approaches: tuple[Approach, ...]
    versions: Mapping[str, str]

    def along(
        self, bound: CensoringBound, link: LinkName, reading: CensoredInterval
    ) -> tuple[Approach, ...]:
        """From the widest intervals to every event time."""
        wanted = bound, link, reading
        return tuple(
            found
            for found in self.approaches
            if (found.bound, found.link, found.reading) == wanted
        )

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> AppendixA:
        """The result whose JSON this is."""
        approaches = tuple(Approach(**found) for found in record["approaches"])
        return cls(**{**record, "approaches": approaches})


def run_appendix_a(
    quick: bool = False, progress: Progress = lambda done, total, words: None, seed: int = 0
) -> AppendixA:
    """Simulate studies and fit both models to each; `quick` takes fewer and smaller ones."""
    patients, runs = (1000, 4) if quick else (2000, 20)
    found: dict[CensoringBound, list[FloatArray]] = {bound: [] for bound in BOUNDS}
    event_times = []
    for done, (bound, run) in enumerate(product(BOUNDS, range(runs))):
        progress(done, 2 * runs, f"censoring bound: {bound}, study {run + 1}")
        cohort = simulate_paper_cohort(
            patients,
            _COLUMNS,
            rng=derived_generator(seed, "appendix A", bound, run),
            censoring_bound=bound,
        ).cohort
        found[bound].append(distances(cohort))
        event_times.append(int(cohort.event.sum()))
    progress(2 * runs, 2 * runs, "")
    return AppendixA(
        patients,
        _COLUMNS,
        runs,
        seed,
        float(np.mean(event_times)),
        tuple(
            Approach(bound, link, reading, intervals, float(ratio), float(difference))
            for bound in BOUNDS
            for (link, reading, intervals), (ratio, difference) in zip(
                FITS, np.median(found[bound], axis=0), strict=True
            )
        ),
        library_versions(),
    )


def distances(cohort: Cohort, fits: Sequence[Fit] = FITS) -> FloatArray:
    """Ratio and largest difference to Cox's coefficients, (fits, 2)."""
    federation = InProcess.from_cohorts({"all": cohort})
    cox = fit_cox(federation, ties="breslow")
    return np.array(
        [
            _distance(_coefficients(federation, link, reading, intervals), cox)
            for link, reading, intervals in fits
        ]
    )


def _coefficients(
    federation: InProcess, link: LinkName, reading: CensoredInterval, intervals: int | None
) -> FloatArray:
    cohort = federation.centers[0].cohort
    horizon = float(cohort.time.max())
    plan = Plan(
        columns=tuple(f"x{number}" for number in range(1, cohort.columns + 1)),
        link=LINKS[link],
        reading=reading,
        width=None if intervals is None else horizon / intervals,
        horizon=None if intervals is None else horizon,
        ridge=0.0,
        solver=Newton(),
    )
    return estimate(plan, federation).inference.coefficients


def _distance(coefficients: FloatArray, cox: CoxFit) -> tuple[float, float]:
    reference = cox.coefficients
    ratio = float(coefficients @ reference / (reference @ reference))
    difference = np.abs(coefficients - reference) / cox.standard_errors
    return ratio, float(difference.max())
