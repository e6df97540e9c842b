"""How well do patients rank under differential privacy? C-index against epsilon.

The paper says that generic methods for privacy apply to its model and leaves that open. Here
the model is fitted under patient-level differential privacy and judged on patients it has not
seen: with the noise added once to a sum, as under secure sums, and with all of it added by each
of a few centers. What is claimed of epsilon is audited by an attack.

Nothing here was chosen on these patients: the solver's settings come from others, drawn by
other seeds (docs/decisions/0016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from fedcox.analysis.fit import estimate
from fedcox.analysis.plan import Plan
from fedcox.data.center_split import split_uniformly
from fedcox.data.synthetic import simulate_paper_cohort
from fedcox.engines.in_process import InProcess
from fedcox.evaluation.privacy_audit import (
    PrivacyAudit,
    audit_patient_clipping,
    audit_row_clipping,
)
from fedcox.evaluation.reproduction import Claim
from fedcox.evaluation.seeds import derived_generator, derived_seed
from fedcox.evaluation.versions import library_versions
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.setting import Setting
from fedcox.privacy.noise import SeededRandomnessForSimulations
from fedcox.privacy.release import GaussianRelease
from fedcox.solvers.newton import Newton
from fedcox.solvers.private_descent import PrivateDescent
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.concordance import concordance_index
from fedcox.survival.linear_predictor import linear_predictor
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import TimeGrid

#: Hears how many of how many simulated studies are done, and which comes next.
Progress = Callable[[int, int, str], None]

CENTERS = 5
INTERVALS = 10
DELTA = 1e-5
EPSILONS = (0.5, 1.0, 3.0, 10.0)
PATIENTS, TESTED = 5000, 1000
COLUMNS = (20, 200)
#: The median survival of a patient with covariates of zero, which the simulation fixes: the
#: grid's horizon is known without a look at patients.
_HORIZON = math.log(2.0)
_STUDIES, _QUICK_STUDIES = 10, 2
_AUDITED_RUNS, _QUICK_RUNS = 100_000, 20_000
_AUDITED_NOISE = (1.0, 3.0)

ONCE, EACH_CENTER, NO_NOISE, TRUTH = (
    "noise once",
    "noise at each center",
    "no noise",
    "true coefficients",
)


@dataclass(frozen=True)
class Judged:
    """One way of fitting: the c-index on unseen patients of every simulated study."""

    method: str
    columns: int
    epsilon: float | None
    c_indices: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.c_indices))

    @property
    def spread(self) -> float:
        """The standard deviation over studies."""
        return float(np.std(self.c_indices, ddof=1))


@dataclass(frozen=True)
class Audited:
    """One audit: how shares were clipped, under which noise, and what the attack proved."""

    clipped: str
    noise_multiplier: float
    claimed: float
    lower_bound: float
    moved: float
    runs: int

    @property
    def caught(self) -> bool:
        return self.lower_bound > self.claimed


@dataclass(frozen=True)
class PrivacyStudy:
    """Every way of fitting, by covariates and epsilon; and the audits."""

    studies: int
    judged: tuple[Judged, ...]
    audits: tuple[Audited, ...]
    versions: Mapping[str, str]
    patients: int = PATIENTS
    tested: int = TESTED
    centers: int = CENTERS
    intervals: int = INTERVALS
    delta: float = DELTA
    columns: tuple[int, ...] = COLUMNS
    epsilons: tuple[float, ...] = EPSILONS

    def found(self, method: str, columns: int, epsilon: float | None = None) -> Judged:
        wanted = method, columns, epsilon
        for judged in self.judged:
            if (judged.method, judged.columns, judged.epsilon) == wanted:
                return judged
        raise KeyError(wanted)

    def lost(self, method: str, columns: int, epsilon: float | None) -> tuple[float, float]:
        """C-index below that without noise, on the same patients: mean and standard error."""
        exact = np.array(self.found(NO_NOISE, columns).c_indices)
        gaps = exact - self.found(method, columns, epsilon).c_indices
        return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(gaps.size))

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON, with what the study was made to find out."""
        return {**asdict(self), "claims": [asdict(claim) for claim in claims(self)]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> PrivacyStudy:
        """The study whose JSON this is."""
        read = {
            "judged": tuple(
                Judged(**{**found, "c_indices": tuple(found["c_indices"])})
                for found in record["judged"]
            ),
            "audits": tuple(Audited(**found) for found in record["audits"]),
            "columns": tuple(record["columns"]),
            "epsilons": tuple(record["epsilons"]),
        }
        kept = {name: value for name, value in record.items() if name != "claims"}
        return cls(**{**kept, **read})


def run_privacy(
    quick: bool = False, progress: Progress = lambda done, total, words: None, seed: int = 0
) -> PrivacyStudy:
    """Simulate studies and fit each under every epsilon; `quick` takes fewer of them."""
    studies = _QUICK_STUDIES if quick else _STUDIES
    total = len(COLUMNS) * studies + 1
    found: dict[tuple[str, int, float | None], list[float]] = {}
    for done, (columns, number) in enumerate(product(COLUMNS, range(studies))):
        progress(done, total, f"P = {columns}, study {number + 1}")
        study = SimulatedStudy.of(columns, seed=derived_seed(seed, number))
        for (method, epsilon), c_index in study.judged().items():
            found.setdefault((method, columns, epsilon), []).append(c_index)
    progress(total - 1, total, "audits")
    audits = tuple(_audits(_QUICK_RUNS if quick else _AUDITED_RUNS, seed))
    progress(total, total, "")
    judged = tuple(Judged(*key, tuple(indices)) for key, indices in found.items())
    return PrivacyStudy(studies, judged, audits, library_versions())


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
        rows = np.arange(patients)
        train, test = (drawn.cohort.take(some) for some in (rows[tested:], rows[:tested]))
        return cls(train, test, drawn.coefficients, seed)

    def judged(self) -> dict[tuple[str, float | None], float]:
        """The c-index of every way of fitting, by its name and epsilon."""
        found: dict[tuple[str, float | None], float] = {
            (TRUTH, None): self.c_index(self.truth),
            (NO_NOISE, None): self.c_index(self.without_noise()),
        }
        for epsilon, method in product(EPSILONS, (ONCE, EACH_CENTER)):
            found[method, epsilon] = self.c_index(self.private(epsilon, method))
        return found

    def without_noise(self) -> FloatArray:
        """The coefficients at the optimum, by Newton's method."""
        columns = tuple(f"x{k}" for k in range(self.train.columns))
        plan = Plan(
            columns,
            LINKS["logit"],
            "include",
            _HORIZON / INTERVALS,
            _HORIZON,
            0.0,
            Newton(),
        )
        return estimate(
            plan, InProcess.from_cohorts({"all": self.train})
        ).inference.coefficients

    def private(self, epsilon: float, method: str) -> FloatArray:
        """The coefficients under differential privacy.

        Noise once: one center with all patients adds what several would add in parts.
        """
        columns = self.train.columns
        descent = PrivateDescent(patients=self.train.patients, standardise=False)
        release = descent.release(epsilon, DELTA, columns=columns)
        federation = self._federation(epsilon, 1 if method == ONCE else CENTERS)
        setting = public_setting(columns)
        point = descent.train(federation, setting, release)
        return setting.scaling.coefficients(point.beta)

    def _federation(self, epsilon: float, centers: int) -> InProcess:
        rng = derived_generator(self.seed, "centers", centers)
        center = split_uniformly(self.train.patients, centers, rng=rng)
        return InProcess(
            [
                Center(
                    f"center {k + 1}",
                    self.train.take(center == k),
                    noise=NoisedReplies(
                        "simulation",
                        DELTA,
                        randomness=SeededRandomnessForSimulations(
                            derived_seed(self.seed, "noise", repr(epsilon), centers, k)
                        ),
                    ),
                )
                for k in range(centers)
            ]
        )

    def c_index(self, coefficients: FloatArray) -> float:
        """On the patients who were kept for it."""
        risk = linear_predictor(self.test.covariates, coefficients)
        index = concordance_index(self.test.time, self.test.event, risk).index
        return float("nan") if index is None else index


def public_setting(columns: int) -> Setting:
    """What is known without a look at patients: covariates are N(0, 1/P)."""
    grid = TimeGrid.regular(_HORIZON / INTERVALS, _HORIZON)
    spread = np.full(columns, 1.0 / math.sqrt(columns))
    scaling = Scaling(np.arange(columns), np.zeros(columns), spread)
    active = np.ones(grid.intervals, dtype=np.bool_)
    return Setting(grid, active, "include", LINKS["logit"], scaling)


def _audits(runs: int, seed: int) -> list[Audited]:
    kinds: dict[str, Callable[..., PrivacyAudit]] = {
        "patient": audit_patient_clipping,
        "row": audit_row_clipping,
    }
    found = []
    for (kind, audit), multiplier in product(kinds.items(), _AUDITED_NOISE):
        randomness = SeededRandomnessForSimulations(
            derived_seed(seed, "audit", kind, repr(multiplier))
        )
        result = audit(
            GaussianRelease(multiplier, 1.0), delta=DELTA, runs=runs, randomness=randomness
        )
        found.append(
            Audited(
                kind, multiplier, result.claimed, result.lower_bound, result.moved, result.runs
            )
        )
    return found


def claims(study: PrivacyStudy) -> tuple[Claim, ...]:
    """What the study was made to find out, and whether it is so."""
    few, many = study.columns

    def lost(columns: int, epsilon: float, method: str = ONCE) -> float:
        return study.lost(method, columns, epsilon)[0]

    dearer = [
        lost(columns, epsilon, EACH_CENTER) - lost(columns, epsilon)
        for columns, epsilon in product(study.columns, study.epsilons)
        if epsilon <= 1.0
    ]
    by_patient = [audit for audit in study.audits if audit.clipped == "patient"]
    by_row = [audit for audit in study.audits if audit.clipped == "row"]
    return (
        Claim(
            f"P = {few}: at epsilon 1 the c-index is within 0.01 of that without noise.",
            f"{lost(few, 1.0):.4f} below",
            lost(few, 1.0) <= 0.01,
        ),
        Claim(
            f"P = {many}: at epsilon 3 the c-index is within 0.02 of that without noise.",
            f"{lost(many, 3.0):.4f} below",
            lost(many, 3.0) <= 0.02,
        ),
        Claim(
            f"P = {many} needs more: at epsilon 0.5 it loses more than 0.05, P = {few} less "
            "than 0.02.",
            f"{lost(many, 0.5):.4f} and {lost(few, 0.5):.4f}",
            lost(many, 0.5) > 0.05 and lost(few, 0.5) < 0.02,
        ),
        Claim(
            "Noise at each center costs more than noise once, at every epsilon up to 1.",
            f"{min(dearer):.4f} to {max(dearer):.4f} more",
            min(dearer) > 0,
        ),
        Claim(
            "The audit finds nothing against clipping by patient, and catches it by row.",
            f"{_proofs(by_patient)}; {_proofs(by_row)}",
            not any(audit.caught for audit in by_patient)
            and all(audit.caught for audit in by_row),
        ),
    )


def _proofs(audits: list[Audited]) -> str:
    pairs = " and ".join(f"{found.lower_bound:.2f} ({found.claimed:.2f})" for found in audits)
    return f"by {audits[0].clipped} {pairs} proven (claimed)"
