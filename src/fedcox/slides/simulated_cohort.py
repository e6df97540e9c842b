"""Who is in a simulated cohort of slides: center, slides, planted share, survival."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from fedcox.errors import InputError

MOST_PLANTED = 0.6
_CENSORED = 0.4
_MEAN_DAYS = 700.0
_TWO_SLIDES = 1 / 6
_NEXT_CENTER = 0.6


@dataclass(frozen=True, eq=False)
class SimulatedCohort:
    """One entry per patient; nobody is one.

    `share` is the planted share of the patient's tissue, `center` counts from 0, `slides` is 1
    or 2, `days` is follow-up.
    """

    share: NDArray[np.float64]
    center: NDArray[np.int64]
    slides: NDArray[np.int64]
    days: NDArray[np.int64]
    event: NDArray[np.bool_]


def simulate_cohort(
    patients: int, centers: int, *, effect: float, rng: np.random.Generator
) -> SimulatedCohort:
    """Hazard exp(effect · (share − mean share)), share uniform from 0 to 0.6.

    About 40 % are censored; centers are of unequal size, none empty; a sixth of the patients
    have two slides.
    """
    if not 1 <= centers <= patients:
        raise InputError(
            f"{patients} patients cannot be in {centers} centers.",
            ["Needed is at least one center, and one patient for each."],
        )
    share = rng.uniform(0.0, MOST_PLANTED, patients)
    rate = np.exp(effect * (share - MOST_PLANTED / 2)) / _MEAN_DAYS
    dropping = _censoring_rate(rate)
    survived, seen = rng.exponential(1 / rate), rng.exponential(1 / dropping, patients)
    slides = np.ones(patients, np.int64)
    slides[rng.permutation(patients)[: round(_TWO_SLIDES * patients)]] = 2
    return SimulatedCohort(
        share,
        rng.permutation(np.repeat(np.arange(centers), _sizes(patients, centers))),
        slides,
        np.ceil(np.minimum(survived, seen)).astype(np.int64).clip(1),
        survived <= seen,
    )


def _censoring_rate(rate: NDArray[np.float64]) -> float:
    """Of exponential censoring, such that the expected share of the censored is as wanted."""
    return float(
        np.exp(
            brentq(
                lambda log: float(np.mean(np.exp(log) / (np.exp(log) + rate))) - _CENSORED,
                np.log(rate.min()) - 5.0,
                np.log(rate.max()) + 5.0,
            )
        )
    )


def _sizes(patients: int, centers: int) -> NDArray[np.int64]:
    """Each center 0.6 of the one before, at least one patient, together all."""
    weight = _NEXT_CENTER ** np.arange(centers)
    wanted = (patients - centers) * weight / weight.sum()
    sizes: NDArray[np.int64] = np.floor(wanted).astype(np.int64) + 1
    sizes[np.argsort(sizes - 1 - wanted, kind="stable")[: patients - sizes.sum()]] += 1
    return sizes
