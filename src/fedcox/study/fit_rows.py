"""The rows of what a fit gives back: coefficients, baseline, centers, rounds, notices."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fedcox.survival.cohort import FloatArray

if TYPE_CHECKING:
    import pandas as pd


NORMAL_975 = 1.959963984540054  # the normal quantile of a 95 % interval


@dataclass(frozen=True)
class Coefficient:
    """One column of the design matrix, on its own scale; None where it cannot be estimated.

    `note` is "aliased" or "constant" for a column left out of the fit, "separated" for one
    whose numbers are only where the search stopped, else empty.
    """

    name: str
    coef: float | None
    se: float | None
    z: float | None
    p: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    mean: float
    sd: float
    note: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ratio's 95 % interval; an end beyond all numbers is zero or infinite."""
        if self.coef is None or self.se is None:
            return None
        low = 0.0 if self.ratio_low is None else self.ratio_low
        return low, np.inf if self.ratio_high is None else self.ratio_high


@dataclass(frozen=True)
class BaselineInterval:
    """One interval of the grid at covariates zero; alpha is None where hazard is 0 or 1.

    With the log link the hazard is per unit of time, with the others per interval.
    """

    interval_end: float
    alpha: float | None
    hazard: float
    at_risk: float | None  # who reach it; None where counts would break a guarantee
    events: int | None


@dataclass(frozen=True)
class CenterRow:
    """What is known of one center: sums over its patients, per interval where asked for.

    Where only sums over centers are seen, that is its name.
    """

    name: str
    patients: int | None = None
    events: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    interval_at_risk: Sequence[float] | None = None
    interval_events: Sequence[float] | None = None
    filled: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RiskRow:
    """Patients still under observation after a time, and events up to it, over all centers."""

    time: float
    at_risk: int
    events: int


@dataclass(frozen=True)
class RoundRow:
    """One round of the solver: the loss there and the decrement it stops on."""

    round: int
    loss: float
    decrement: float | None


@dataclass(frozen=True)
class Guarantee:
    """Differential privacy of a fit: what one patient's presence can change, at most.

    `epsilon` and `delta` hold for the whole fit, `releases` noisy sums of it, with one patient
    added or removed. `noise` is the noise's standard deviation over the most that one patient
    moves a sum by; `sampling_rate` is the chance of a patient to be in one of the sums.
    `masked` says that the noise was added once to sums over centers, not by each center. Then
    `epsilon_against_centers` is larger: against all other centers together, who can take
    their parts of the noise off again. None in files that do not say it. `price` is the factor
    by which noise makes standard errors larger; None where nothing is inferred.
    """

    epsilon: float
    delta: float
    releases: int
    noise: float
    sampling_rate: float
    masked: bool
    epsilon_against_centers: float | None = None
    price: float | None = None


@dataclass(frozen=True)
class Notice:
    """A warning the reader must see; `name` is the warning's class."""

    name: str
    text: str


def summary_table(rows: Sequence[Coefficient]) -> pd.DataFrame:
    """Coefficients as a table under lifelines' column names."""
    import pandas as pd

    coef = _column([row.coef for row in rows])
    se = _column([row.se for row in rows])
    p = _column([row.p for row in rows])
    with np.errstate(divide="ignore"):  # p = 0 reads as infinitely many bits
        bits = -np.log2(p)
    columns = {
        "coef": coef,
        "exp(coef)": _column([row.ratio for row in rows]),
        "se(coef)": se,
        "coef lower 95%": coef - NORMAL_975 * se,
        "coef upper 95%": coef + NORMAL_975 * se,
        "exp(coef) lower 95%": _column([row.ratio_low for row in rows]),
        "exp(coef) upper 95%": _column([row.ratio_high for row in rows]),
        "cmp to": np.zeros(len(rows)),
        "z": _column([row.z for row in rows]),
        "p": p,
        "-log2(p)": bits,
    }
    return pd.DataFrame(columns, index=pd.Index([row.name for row in rows], name="covariate"))


def _column(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def versions() -> dict[str, str]:
    """Of fedcox, of Python, and of what the numbers come from."""
    return {
        "fedcox": version("fedcox"),
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
