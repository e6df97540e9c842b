"""Simulated patients with known coefficients, the paper's and a clinical study's, in centers.

Nobody here is a patient. Randomness comes from the generator handed in. A split returns the
center's number, from 0, of every patient; every center gets at least one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from fedcox.errors import InputError
from fedcox.survival.cohort import Cohort, FloatArray, IntArray

CensoringBound = Literal["patient", "population"]

STAGES = ("I", "II", "III", "IV")
#: As a laboratory would know it: under noise a study names the range of every number.
HIGHEST_MARKER = 20.0
# The truth behind `simulate_hospitals`, per year of age and per unit of the marker.
TRUE_LOG_HAZARD_RATIOS: Mapping[str, float] = {
    "age": 0.03,
    "sex_male": 0.25,
    "stage_II": 0.45,
    "stage_III": 0.95,
    "stage_IV": 1.70,
    "marker": 0.20,
}
_WEIBULL_SHAPE = 1.2
_WEIBULL_SCALE = 2_600.0  # days, for a woman of 62 in stage I with a marker of 1.5
_RECRUITMENT = 1_095.0  # days over which patients enter
_STUDY_END = 1_825.0  # days after the first patient entered
_LOSS_TO_FOLLOW_UP = 5_000.0  # days, mean
Split = Literal["uniform", "time", "covariate", "dirichlet"]
_CLASSES = 10


@dataclass(frozen=True, eq=False)
class SimulatedCohort:
    """Simulated patients as arrays, with the coefficients they were drawn from."""

    cohort: Cohort
    coefficients: FloatArray


@dataclass(frozen=True, eq=False)
class SimulatedTable:
    """Simulated patients as a table with a column `hospital`, and the true coefficients."""

    frame: pd.DataFrame
    log_hazard_ratios: Mapping[str, float]


def simulate_paper_cohort(
    patients: int,
    columns: int,
    *,
    rng: np.random.Generator,
    censoring_bound: CensoringBound = "patient",
) -> SimulatedCohort:
    """The paper's section 6.1: x ~ N(0, I/P), β ~ N(0, I), unit baseline hazard.

    Censoring is uniform up to the median survival Ψ⁻¹(1/2), which the paper leaves open:
    `patient` takes each patient's own median, ln 2 / exp(β·x), which makes censoring depend on
    the covariates; `population` takes one median for everybody.
    """
    _check_size(patients, columns)
    coefficients = rng.standard_normal(columns)
    covariates = rng.standard_normal((patients, columns)) / np.sqrt(columns)
    hazard = np.exp(covariates @ coefficients)
    survival = rng.exponential(size=patients) / hazard
    bound = np.log(2.0) / hazard if censoring_bound == "patient" else _joint_median(hazard)
    censoring = rng.uniform(size=patients) * bound
    cohort = Cohort(covariates, np.minimum(survival, censoring), survival <= censoring)
    return SimulatedCohort(cohort, coefficients)


def paper_table(simulated: SimulatedCohort, hospital: IntArray) -> SimulatedTable:
    """The paper's simulated patients as a table: patient, hospital, time, status, x1 … xP.

    `hospital` is a split of the patients, as `center_split` makes them.
    """
    cohort = simulated.cohort
    names = [f"x{number}" for number in range(1, cohort.columns + 1)]
    frame = pd.DataFrame(cohort.covariates, columns=names)
    frame.insert(0, "patient", _identifiers(cohort.patients))
    frame.insert(1, "hospital", _hospital_names(hospital))
    frame.insert(2, "time", cohort.time)
    frame.insert(3, "status", cohort.event.astype(np.int64))
    return SimulatedTable(frame, dict(zip(names, simulated.coefficients.tolist(), strict=True)))


def simulate_hospitals(
    patients: int = 1500, centers: int = 5, *, rng: np.random.Generator
) -> SimulatedTable:
    """A simulated cancer study in hospitals of unequal size and case mix.

    Columns: patient, hospital, age (years), sex, stage, marker, time (whole days, at least 1)
    and status (1 event, 0 censored). The hazard is Weibull with the coefficients returned;
    patients enter over three years, the study ends after five, and a few are lost before.
    """
    sizes = unequal_sizes(patients, centers, rng=rng)
    hospital = np.repeat(np.arange(centers, dtype=np.int64), sizes)
    age_shift = rng.normal(0.0, 3.0, centers)[hospital]
    severity = rng.normal(0.0, 0.5, centers)[hospital]
    marker_shift = rng.normal(0.0, 0.15, centers)[hospital]
    age = np.clip(np.rint(rng.normal(62.0 + age_shift, 10.0)), 18, 95)
    male = rng.uniform(size=patients) < 0.55
    # A latent severity cut at fixed points: hospitals with more of it see later stages.
    stage = np.digitize(rng.logistic(severity, 1.0), [-0.4, 0.5, 1.6])
    marker = np.exp(rng.normal(0.2 + marker_shift, 0.6)).round(2).clip(max=HIGHEST_MARKER)
    log_ratio = _clinical_log_ratio(age, male, stage, marker)
    time, event = _clinical_follow_up(log_ratio, rng)
    frame = pd.DataFrame(
        {
            "patient": _identifiers(patients),
            "hospital": _hospital_names(hospital),
            "age": age.astype(np.int64),
            "sex": np.where(male, "male", "female"),
            "stage": np.array(STAGES)[stage],
            "marker": marker,
            "time": time,
            "status": event.astype(np.int64),
        }
    )
    return SimulatedTable(frame, dict(TRUE_LOG_HAZARD_RATIOS))


def _clinical_log_ratio(
    age: FloatArray, male: np.ndarray, stage: np.ndarray, marker: FloatArray
) -> FloatArray:
    truth = TRUE_LOG_HAZARD_RATIOS
    by_stage = np.array([0.0, *(truth[f"stage_{name}"] for name in STAGES[1:])])
    log_ratio: FloatArray = (
        truth["age"] * (age - 62.0)
        + truth["sex_male"] * male
        + by_stage[stage]
        + truth["marker"] * (marker - 1.5)
    )
    return log_ratio


def _clinical_follow_up(
    log_ratio: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, np.ndarray]:
    """Whole days under observation, rounded up, and whether the event ended them."""
    draws = rng.exponential(size=log_ratio.size)
    survival = _WEIBULL_SCALE * (draws / np.exp(log_ratio)) ** (1.0 / _WEIBULL_SHAPE)
    administrative = _STUDY_END - rng.uniform(0.0, _RECRUITMENT, log_ratio.size)
    lost = rng.exponential(_LOSS_TO_FOLLOW_UP, log_ratio.size)
    censoring = np.minimum(administrative, lost)
    time = np.ceil(np.minimum(survival, censoring)).astype(np.int64)
    return np.maximum(time, 1), survival <= censoring


def _joint_median(hazard: FloatArray) -> float:
    """The time u by which half have had the event: 1 − mean(exp(−u·hazard)) = ½."""
    low, high = 0.0, float(np.log(2.0) / hazard.min())
    for _ in range(200):
        middle = 0.5 * (low + high)
        if -np.expm1(-middle * hazard).mean() < 0.5:
            low = middle
        else:
            high = middle
    return high


def _identifiers(patients: int) -> list[str]:
    return [f"S{number:06d}" for number in range(1, patients + 1)]


def _hospital_names(hospital: IntArray) -> list[str]:
    """Names that sort like the centers' numbers."""
    digits = len(str(int(hospital.max()) + 1)) if hospital.size else 1
    return [f"hospital_{number + 1:0{digits}d}" for number in hospital]


def _check_size(patients: int, columns: int) -> None:
    if patients < 1 or columns < 1:
        raise InputError(
            "These patients cannot be simulated.",
            [f"One patient and one covariate are the least, not {patients} and {columns}."],
        )


def split_cohort(
    cohort: Cohort,
    centers: int,
    split: Split,
    *,
    rng: np.random.Generator,
    concentration: float = 0.5,
) -> IntArray:
    """Any of the splits by its name; `concentration` is that of "dirichlet"."""
    if split == "time":
        return split_by_value(cohort.time, centers)
    if split == "covariate":
        return split_by_value(cohort.covariates[:, 0], centers)
    if split == "dirichlet":
        return split_by_dirichlet(cohort.time, centers, concentration=concentration, rng=rng)
    return split_uniformly(cohort.patients, centers, rng=rng)


def split_uniformly(patients: int, centers: int, *, rng: np.random.Generator) -> IntArray:
    """At random, into centers of equal size (paper, section 6.1, first experiment)."""
    return rng.permutation(_in_order(even_sizes(patients, centers)))


def split_by_value(values: FloatArray, centers: int) -> IntArray:
    """In order of a value: the smallest to the first center, the largest to the last.

    By follow-up time this is the paper's second experiment; by a covariate, centers with a
    case mix of their own.
    """
    assignment = np.empty(values.size, dtype=np.int64)
    assignment[np.argsort(values, kind="stable")] = _in_order(even_sizes(values.size, centers))
    return assignment


def split_by_dirichlet(
    values: FloatArray, centers: int, *, concentration: float, rng: np.random.Generator
) -> IntArray:
    """Each tenth of the patients, by a value, spread over centers in shares of its own.

    Shares are drawn from a Dirichlet distribution: a `concentration` of 100 is almost uniform,
    at 0.1 nearly every tenth lies in one center. A center that got nobody takes one patient
    from the largest.
    """
    _check(values.size, centers)
    if not 0 < concentration < np.inf:
        raise InputError(
            "These simulated patients cannot be split.",
            [f"The concentration is {concentration:g}; it must be a positive number."],
        )
    tenth = split_by_value(values, min(_CLASSES, values.size))
    assignment = np.empty(values.size, dtype=np.int64)
    for number in range(int(tenth.max()) + 1):
        members = rng.permutation(np.flatnonzero(tenth == number))
        shares = rng.dirichlet(np.full(centers, concentration))
        ends = np.rint(np.cumsum(shares) * members.size).astype(np.int64)
        assignment[members] = np.searchsorted(ends, np.arange(members.size), side="right")
    for empty in np.flatnonzero(np.bincount(assignment, minlength=centers) == 0):
        largest = int(np.bincount(assignment).argmax())
        assignment[rng.choice(np.flatnonzero(assignment == largest))] = empty
    return assignment


def even_sizes(patients: int, centers: int) -> IntArray:
    """Sizes that differ by one patient at most."""
    _check(patients, centers)
    whole, rest = divmod(patients, centers)
    sizes: IntArray = np.full(centers, whole, dtype=np.int64)
    sizes[:rest] += 1
    return sizes


def unequal_sizes(patients: int, centers: int, *, rng: np.random.Generator) -> IntArray:
    """Sizes that fall off from the largest center to the smallest, at least one each."""
    _check(patients, centers)
    weights = np.sort(rng.gamma(2.0, size=centers))[::-1]
    shares = (patients - centers) * weights / weights.sum()
    sizes: IntArray = 1 + np.floor(shares).astype(np.int64)
    sizes[: patients - int(sizes.sum())] += 1  # what rounding left over, one by one
    return sizes


def _in_order(sizes: IntArray) -> IntArray:
    return np.repeat(np.arange(sizes.size, dtype=np.int64), sizes)


def _check(patients: int, centers: int) -> None:
    if centers < 1 or patients < centers:
        raise InputError(
            "These simulated patients cannot be split.",
            [
                f"There are {patients} patients for {centers} centers; at least one center, "
                "and one patient in each, is needed."
            ],
        )
