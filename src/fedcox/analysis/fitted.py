"""What a fit gives back: ratios, baseline, counts, and survival for new patients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedcox.data.wording import counted, listed
from fedcox.federation.ledger import LedgerRow
from fedcox.survival.cohort import FloatArray
from fedcox.survival.linear_predictor import linear_predictor
from fedcox.survival.link import LINKS
from fedcox.survival.survival_curve import median_time, survival

if TYPE_CHECKING:
    import pandas as pd

    from fedcox.analysis.study import Study

NORMAL_975 = 1.959963984540054  # the normal quantile of a 95 % interval
_NAMES_SHOWN = 3


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
    """One interval of the grid at covariates zero; alpha is None where hazard is 0 or 1."""

    interval_end: float
    alpha: float | None
    hazard: float
    at_risk: float | None  # None where counts would break a guarantee
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
    their parts of the noise off again. None in files that do not say it.
    """

    epsilon: float
    delta: float
    releases: int
    noise: float
    sampling_rate: float
    masked: bool
    epsilon_against_centers: float | None = None


@dataclass(frozen=True)
class Notice:
    """A warning the reader must see; `name` is the warning's class."""

    name: str
    text: str


@dataclass(frozen=True, eq=False)
class FittedStudy:
    """A study and everything its fit found; complete when made, and never changed."""

    study: Study
    centers: tuple[CenterRow, ...]
    patients: int | None  # None where a count would break a guarantee
    events: int | None
    edges: FloatArray
    link: str
    ratio_name: str
    coefficients: tuple[Coefficient, ...]
    baseline: tuple[BaselineInterval, ...]
    log_likelihood: float
    null_log_likelihood: float
    likelihood_ratio: Mapping[str, float] | None
    converged: bool
    rounds: int
    bytes_up: int
    bytes_down: int
    concordance: float | None
    convergence: tuple[RoundRow, ...]
    notices: tuple[Notice, ...]
    versions: Mapping[str, str]
    ledger: tuple[LedgerRow, ...] = ()
    command: str | None = None  # the command line that made this, for reproduction
    guarantee: Guarantee | None = None  # differential privacy, and then no inference
    deployed: bool = False  # every center answered from a machine of its own

    @property
    def interval_ends(self) -> FloatArray:
        return np.array([row.interval_end for row in self.baseline], dtype=np.float64)

    @property
    def means(self) -> FloatArray:
        """The mean of each column of the design matrix over all centers."""
        return np.array([row.mean for row in self.coefficients], dtype=np.float64)

    @property
    def typical(self) -> FloatArray:
        """The means, but zero for separated indicators, which stand for nobody in between."""
        return np.array(
            [
                0.0 if row.note == "separated" and 0 <= row.mean <= 1 else row.mean
                for row in self.coefficients
            ],
            dtype=np.float64,
        )

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Columns whose coefficient grows without bound: there is no optimum to be reached."""
        return tuple(row.name for row in self.coefficients if row.note == "separated")

    @property
    def ending(self) -> str:
        """How the fit ended, in words; `converged` alone does not tell of unbounded growth.

        Under noise a fit ends when the sums that were planned are used up.
        """
        if self.guarantee is not None:
            return f"{counted(self.guarantee.releases, 'noisy sum')} used, as planned"
        rounds = counted(self.rounds, "round")
        ended = f"converged in {rounds}" if self.converged else f"not converged after {rounds}"
        if not self.unbounded:
            return ended
        names, more = self.unbounded[:_NAMES_SHOWN], len(self.unbounded) - _NAMES_SHOWN
        which = listed([*names, f"{more} more"] if more > 0 else names)
        one = len(self.unbounded) == 1
        grows = f"coefficient of {which} grows" if one else f"coefficients of {which} grow"
        return f"{ended}, {'but' if self.converged else 'and'} the {grows} without bound"

    @property
    def summary(self) -> pd.DataFrame:
        """One row per covariate, under lifelines' column names."""
        return summary_table(self.coefficients)

    def save(self, path: str | Path) -> None:
        """Write everything but the ledger as fit.json, numbers at full precision."""
        from fedcox.analysis.fit_file import write_fit

        write_fit(self, path)

    @classmethod
    def read(cls, path: str | Path) -> FittedStudy:
        """Read a fit.json back; the ledger has its own file and stays empty here."""
        from fedcox.analysis.fit_file import read_fit

        return read_fit(path)

    def survival_at(self, x: FloatArray) -> FloatArray:
        """S at each interval end for one patient's encoded covariates, (columns,)."""
        curve: FloatArray = self._survival(self._log_risk(np.atleast_2d(x)))[0]
        return curve

    def predict_log_risk(self, frame: pd.DataFrame) -> pd.Series[float]:
        """Coefficients times covariates: higher is worse; zero is the baseline patient."""
        import pandas as pd

        return pd.Series(self._log_risk(self._encode(frame)), frame.index, name="log_risk")

    def predict_survival(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The chance of no event by each interval end: one row a patient, one column an end."""
        import pandas as pd

        ends = pd.Index(self.interval_ends, name="time")
        curves = self._survival(self._log_risk(self._encode(frame)))
        return pd.DataFrame(curves, index=frame.index, columns=ends)

    def predict_median(self, frame: pd.DataFrame) -> pd.Series[float]:
        """The first interval end with survival of a half or less; NaN where not reached."""
        import pandas as pd

        curves = self._survival(self._log_risk(self._encode(frame)))
        return pd.Series(median_time(curves, self.interval_ends), frame.index, name="median")

    def _encode(self, frame: pd.DataFrame) -> FloatArray:
        from fedcox.data.encoding import encode_covariates

        x = encode_covariates(frame, self.study.schema, source="the new patients")
        if self.study.schema.missing == "mean":
            return np.where(np.isnan(x), self.means, x)
        return x

    def _log_risk(self, x: FloatArray) -> FloatArray:
        # Of zero, a column left out of the fit does not spread its missing values either.
        return linear_predictor(x, np.array([row.coef or 0.0 for row in self.coefficients]))

    def _survival(self, log_risk: FloatArray) -> FloatArray:
        return survival(self._alpha(), log_risk, link=LINKS[self.link])

    def _alpha(self) -> FloatArray:
        return np.array([_extended_alpha(row) for row in self.baseline], dtype=np.float64)


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


def _extended_alpha(row: BaselineInterval) -> float:
    if row.alpha is not None:
        return row.alpha
    return -np.inf if row.hazard == 0 else np.inf


def _column(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
