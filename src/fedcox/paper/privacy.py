"""What does privacy cost? C-index, error and intervals against epsilon.

The paper says that generic methods for privacy apply to its model and leaves that open. Here
the default model is fitted under noise (`[privacy.noise]`), with secure sums and with noise at
each center. It is judged by patients it has not seen, and by the coefficients that they were
drawn from.

Nothing here was chosen on these patients: the settings of the fit come from others
(docs/decisions/0034).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from fedcox.data.synthetic import simulate_paper_cohort, split_uniformly
from fedcox.engines.in_process import InProcess
from fedcox.errors import FedcoxWarning
from fedcox.evaluation.comparison import Claim
from fedcox.evaluation.result import library_versions
from fedcox.evaluation.seeds import derived_generator, derived_seed
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.paper.reproduction import Progress, index_of, mean_and_error, silent
from fedcox.privacy.noise import SeededRandomnessForSimulations
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.scaling import linear_predictor

CENTERS = 5
DELTA = 1e-5
EPSILONS = (1.0, 3.0, 10.0, 30.0)
PATIENTS, TESTED = 5000, 1000
COLUMNS = (6, 20)
#: The median survival of a patient with covariates of zero, which the simulation fixes: the
#: horizon is known without a look at patients. About so many have the event before it.
_HORIZON, _WITH_EVENT = math.log(2.0), 0.3
#: Covariates are within so many of their standard deviations, which are public, too.
_REACH = 5.0
_STUDIES, _QUICK_STUDIES = 20, 2
#: Of a normal distribution: 95 % lie within.
_NORMAL = 1.959963984540054

SECURE, EACH_CENTER, NO_NOISE = "noise under secure sums", "noise at each center", "no noise"


@dataclass(frozen=True)
class Judged:
    """One way of fitting: a number for every simulated study.

    `errors` are root mean squares over the coefficients. `covered` says what part of the 95 %
    intervals holds the truth, and `prices` how much larger standard errors are than without
    noise: both of those fits alone that arrived, since the others have no intervals.
    """

    method: str
    columns: int
    epsilon: float | None
    c_indices: tuple[float, ...]
    errors: tuple[float, ...]
    covered: tuple[float, ...]
    prices: tuple[float, ...]

    @property
    def arrived(self) -> int:
        return len(self.covered)


@dataclass(frozen=True)
class PrivacyStudy:
    """Every way of fitting, by covariates and epsilon."""

    studies: int
    judged: tuple[Judged, ...]
    versions: Mapping[str, str]
    patients: int = PATIENTS
    tested: int = TESTED
    centers: int = CENTERS
    delta: float = DELTA
    columns: tuple[int, ...] = COLUMNS
    epsilons: tuple[float, ...] = EPSILONS

    def judgement(self, method: str, columns: int, epsilon: float | None = None) -> Judged:
        by_fit = {(one.method, one.columns, one.epsilon): one for one in self.judged}
        return by_fit[method, columns, epsilon]

    def lost(self, method: str, columns: int, epsilon: float | None) -> tuple[float, float]:
        """C-index below that without noise, on the same patients: mean and standard error."""
        exact = np.array(self.judgement(NO_NOISE, columns).c_indices)
        return mean_and_error(exact - self.judgement(method, columns, epsilon).c_indices)

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON, with what the study was made to find out."""
        return {**asdict(self), "claims": [asdict(claim) for claim in claims(self)]}


def run_privacy(
    quick: bool = False, progress: Progress = silent, seed: int = 0
) -> PrivacyStudy:
    """Simulate studies and fit each under every epsilon; `quick` takes fewer of them."""
    studies = _QUICK_STUDIES if quick else _STUDIES
    total = len(COLUMNS) * studies
    figures_by_fit: dict[tuple[str, int, float | None], list[tuple[float, ...]]] = {}
    for done, (columns, number) in enumerate(product(COLUMNS, range(studies))):
        progress(done, total, f"P = {columns}, study {number + 1}")
        study = SimulatedStudy.of(columns, seed=derived_seed(seed, number))
        for (method, epsilon), figures in study.judged().items():
            figures_by_fit.setdefault((method, columns, epsilon), []).append(figures)
    progress(total, total, "")
    judged = tuple(_together(key, figures) for key, figures in figures_by_fit.items())
    return PrivacyStudy(studies, judged, library_versions())


def _together(
    key: tuple[str, int, float | None], figures: Sequence[tuple[float, ...]]
) -> Judged:
    of_each = np.array(figures).T
    known = [tuple(values[~np.isnan(values)].tolist()) for values in of_each]
    return Judged(*key, *known)


@dataclass(frozen=True, eq=False)
class SimulatedStudy:
    """The paper's patients to learn from, and others to judge by."""

    train: Cohort
    test: Cohort
    truth: FloatArray
    seed: int

    @classmethod
    def of(
        cls, columns: int, *, seed: int, patients: int = PATIENTS, tested: int = TESTED
    ) -> SimulatedStudy:
        """Censoring is uniform up to one median survival for everybody."""
        drawn = simulate_paper_cohort(
            patients,
            columns,
            rng=derived_generator(seed, "c-index against epsilon", patients, columns),
            censoring_bound="population",
        )
        reach, rows = _reach(columns), np.arange(patients)
        covariates = np.clip(drawn.cohort.covariates, -reach, reach)
        cohort = Cohort(covariates, drawn.cohort.time, drawn.cohort.event)
        train, test = (cohort.take(some) for some in (rows[tested:], rows[:tested]))
        return cls(train, test, drawn.coefficients, seed)

    def judged(self) -> dict[tuple[str, float | None], tuple[float, ...]]:
        """C-index, error, coverage and price of every way of fitting, by name and epsilon."""
        exact = self.fitted(NO_NOISE, None)
        figures: dict[tuple[str, float | None], tuple[float, ...]] = {
            (NO_NOISE, None): self._figures(exact, exact)
        }
        for epsilon, method in product(EPSILONS, (SECURE, EACH_CENTER)):
            figures[method, epsilon] = self._figures(self.fitted(method, epsilon), exact)
        return figures

    def fitted(self, method: str, epsilon: float | None) -> FittedStudy:
        """The study as it is run by this method."""
        privacy: dict[str, Any] = {}
        if epsilon is not None:
            patients = self.train.patients
            public = {"patients": patients, "events": round(_WITH_EVENT * patients)}
            noise = {"epsilon": epsilon, "delta": DELTA, **public}
            privacy = {"secure_sums": method == SECURE, "noise": noise}
        reach = _reach(self.train.columns)
        number = {"type": "number", "min": -reach, "max": reach}
        study = Study(
            outcome={"time": "time", "event": "event"},
            covariates={f"x{column}": dict(number) for column in range(self.train.columns)},
            grid={"horizon": _HORIZON},
            privacy=privacy,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FedcoxWarning)  # that it did not arrive is counted
            return fit(study, self._federation(epsilon))

    def _figures(self, fitted: FittedStudy, exact: FittedStudy) -> tuple[float, ...]:
        coefficients, errors = _columns_of(fitted)
        off = coefficients - self.truth
        return (
            self.c_index(coefficients),
            float(np.sqrt(np.mean(off**2))),
            float(np.mean(np.abs(off) <= _NORMAL * errors)) if fitted.inferred else math.nan,
            float(np.mean(errors / _columns_of(exact)[1])),
        )

    def _federation(self, epsilon: float | None) -> InProcess:
        rng = derived_generator(self.seed, "centers", CENTERS)
        center = split_uniformly(self.train.patients, CENTERS, rng=rng)
        return InProcess(
            [
                Center(
                    f"center {k + 1}",
                    self.train.take(center == k),
                    noise=NoisedReplies(
                        "simulation",
                        DELTA,
                        randomness=SeededRandomnessForSimulations(
                            derived_seed(self.seed, "noise", repr(epsilon), k)
                        ),
                    ),
                )
                for k in range(CENTERS)
            ]
        )

    def c_index(self, coefficients: FloatArray) -> float:
        """On the patients who were kept for it."""
        return index_of(linear_predictor(self.test.covariates, coefficients), self.test)


def _reach(columns: int) -> float:
    """The paper's covariates are N(0, 1/P)."""
    return _REACH / math.sqrt(columns)


def _columns_of(fitted: FittedStudy) -> FloatArray:
    """Coefficients and their standard errors, NaN where there are none: (2, columns)."""
    rows = [(row.coef, row.se) for row in fitted.coefficients]
    return np.array(rows, dtype=np.float64).T


def claims(study: PrivacyStudy) -> tuple[Claim, ...]:
    """What the study was made to find out, and whether it is so."""
    few, many = study.columns
    every = list(product(study.columns, study.epsilons))
    fits = [study.judgement(SECURE, *each) for each in every]
    covered = _mean([share for fit in fits for share in fit.covered])
    lost = [study.lost(SECURE, few, 3.0)[0], study.lost(SECURE, many, 10.0)[0]]
    arrived = [
        study.judgement(SECURE, few, 1.0).arrived,
        study.judgement(SECURE, many, 3.0).arrived,
    ]
    prices, alone = (
        [_mean(study.judgement(method, columns, 30.0).prices) for columns in study.columns]
        for method in (SECURE, EACH_CENTER)
    )
    return (
        Claim(
            f"Under secure sums the c-index is within 0.005 of that without noise at epsilon 3 "
            f"for P = {few}, at 10 for P = {many}.",
            f"{lost[0]:.4f} and {lost[1]:.4f} below",
            max(lost) <= 0.005,
        ),
        Claim(
            "Under secure sums 95 % intervals hold the truth in 93 to 97 % of cases.",
            f"{100 * covered:.1f} %",
            0.93 <= covered <= 0.97,
        ),
        Claim(
            "At epsilon 30 standard errors are at most 1.05 times those without noise.",
            " and ".join(f"{price:.3f} times" for price in prices),
            max(prices) <= 1.05,
        ),
        Claim(
            f"So few patients bear neither epsilon 1 for P = {few} nor 3 for P = {many}: no "
            "fit arrives, and none has intervals.",
            f"{arrived[0]} and {arrived[1]} of {study.studies} arrived",
            not any(arrived),
        ),
        Claim(
            "Noise at each center costs more than under secure sums: at epsilon 30 standard "
            "errors are larger by it.",
            " and ".join(f"{price:.3f} times" for price in alone),
            all(apart > once for apart, once in zip(alone, prices, strict=True)),
        ),
    )


def _mean(values: Sequence[float]) -> float:
    """NaN where nobody arrived."""
    return float(np.mean(values)) if values else math.nan
