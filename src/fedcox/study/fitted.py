"""What a fit gives back: ratios, baseline, counts, and survival for new patients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedcox.data.wording import counted, listed
from fedcox.errors import StudyError
from fedcox.federation.ledger import LedgerRow
from fedcox.study.fit_rows import (
    NORMAL_975,
    BaselineInterval,
    CenterRow,
    Coefficient,
    Guarantee,
    Notice,
    RiskRow,
    RoundRow,
    summary_table,
)
from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import linear_predictor
from fedcox.survival.survival_curve import (
    CurveError,
    PiecewiseHazard,
    places_of_ends,
    quantile_time,
    survival,
)

if TYPE_CHECKING:
    import pandas as pd

    from fedcox.study.study import Study

_NAMES_SHOWN = 3


@dataclass(frozen=True, eq=False)
class FittedStudy:
    """What `fedcox.fit` found; complete when made, and never changed.

        S(t | x) = exp(−Λ(t) · exp(β·x)),    Λ(t) the sum of λ_k · (time in piece k up to t)

    That is with the link "log"; grouped time is as in `fedcox.DiscreteTimeCox`.

    summary             a row for each covariate: coef, ratio, interval, p; lifelines' names
    ratio_name          what exp(coef) is: "hazard ratio", or of a logit "hazard odds ratio"
    covariance          of the coefficients, by their names
    baseline            each piece of time: its end, hazard per unit of time, at risk, events
    concordance         Harrell's c-index, where all patients are in this process
    centers, ledger     patients and events of each center, and each answer that left it
    notices             what a reader must know; `ending`, in words, how the fit ended
    guarantee           differential privacy, where the study asks for noise

    >>> import numpy as np
    >>> import fedcox
    >>> from fedcox.data.synthetic import simulate_hospitals
    >>> patients = simulate_hospitals(600, 3, rng=np.random.default_rng(1)).frame
    >>> study = fedcox.Study(
    ...     outcome={"time": "time", "event": "status"}, covariates=["age", "marker"]
    ... )
    >>> hospitals = fedcox.InProcess.from_frame(study, patients, center="hospital")
    >>> fitted = fedcox.fit(study, hospitals)
    >>> new = patients.head(2)
    >>> fitted.predict_survival(new, times=[365, 730]).round(2).to_numpy().tolist()
    [[0.7, 0.5], [0.76, 0.6]]
    >>> fitted.predict_median(new).round(-1).tolist()
    [730.0, 1010.0]

    Next: `predict_survival_band` for 95 % bands, `save("fit.json")`, which
    `FittedStudy.read` reads back; `fedcox report` makes the page of a folder with it.
    """

    study: Study
    centers: tuple[CenterRow, ...]
    patients: int | None  # None where a count would break a guarantee
    events: int | None
    edges: FloatArray
    resolution: float | None  # the unit in which times are recorded; None: exact, or grouped
    every_event_time: bool  # a piece for each, so that this is Cox's model with Efron's ties
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
    coefficient_covariance: FloatArray | None = None  # of those that are `estimated`
    curve_error: CurveError | None = None  # what bands of curves come from
    risk_table: tuple[RiskRow, ...] = ()  # at round times; empty for grouped time
    followed_longer: int = 0  # patients whose follow-up goes on after the horizon
    ledger: tuple[LedgerRow, ...] = ()
    command: str | None = None  # the command line that made this, for reproduction
    guarantee: Guarantee | None = None  # differential privacy
    deployed: bool = False  # every center answered from a machine of its own

    @property
    def interval_ends(self) -> FloatArray:
        """Where the pieces or intervals end, in the unit of time."""
        return np.array([row.interval_end for row in self.baseline], dtype=np.float64)

    @property
    def grouped(self) -> bool:
        """Whether time is grouped, so that survival is known at interval ends alone."""
        return LINKS[self.link].grouped

    @property
    def intervals(self) -> int:
        """How many intervals of grouped time there are, or pieces with a hazard."""
        if self.grouped:
            return len(self.baseline)
        return sum(row.alpha is not None for row in self.baseline)

    @property
    def estimated(self) -> tuple[Coefficient, ...]:
        """The coefficients that the data could tell, which `covariance` is about."""
        return tuple(row for row in self.coefficients if row.coef is not None)

    @property
    def covariance(self) -> pd.DataFrame | None:
        """The covariance matrix of the coefficients by their names; None without inference."""
        import pandas as pd

        if self.coefficient_covariance is None:
            return None
        names = pd.Index([row.name for row in self.estimated], name="covariate")
        return pd.DataFrame(self.coefficient_covariance, names, names)

    @property
    def horizon(self) -> float:
        """Until when anything is said of survival."""
        return float(self.interval_ends[-1])

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
    def inferred(self) -> bool:
        """Whether there are standard errors, and what follows from them."""
        return self.guarantee is None or self.guarantee.price is not None

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
            used = f"{counted(self.guarantee.releases, 'noisy sum')} used"
            return f"{used}, as planned" if self.inferred else f"did not arrive, {used}"
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
        """Write everything but the ledger as fit.json.

        Numbers get the digits that their standard errors leave them (`released`).
        """
        from fedcox.study.fit_file import write_fit

        write_fit(self, path)

    @classmethod
    def read(cls, path: str | Path) -> FittedStudy:
        """Read a fit.json back; the ledger has its own file and stays empty here."""
        from fedcox.study.fit_file import read_fit

        return read_fit(path)

    def survival(self, x: FloatArray, times: ArrayLike | None = None) -> FloatArray:
        """S at `times`, or at each interval end, for encoded covariates: (patients, times).

        NaN beyond the horizon. Grouped time knows survival at the interval ends alone.
        """
        log_risk = self._log_risk(x)
        if self.grouped:
            curves = survival(self._alpha(), log_risk, link=LINKS[self.link])
            if times is None:
                return curves
            ends = places_of_ends(self.interval_ends, self._times(times), link=self.link)
            return curves[:, ends]
        at = self._times(times)
        return self._hazard.survival(log_risk - self.at_means, at)

    def survival_band(
        self, x: FloatArray, times: ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray] | None:
        """The 95 % band of `survival` by the delta method, low and high; None without one.

        On the scale of log(−log S), so that it stays between zero and one.
        """
        if self.curve_error is None or self.coefficient_covariance is None:
            return None
        at = self._times(times)
        fitted = [i for i, row in enumerate(self.coefficients) if row.coef is not None]
        centered = np.asarray(x)[:, fitted] - self.means[fitted]
        hazard = self._hazard.cumulative(at)
        error = self.curve_error.relative(hazard, centered, self.coefficient_covariance)
        log_survival = np.log(self.survival(x, at))
        with np.errstate(over="ignore"):
            factor = np.exp(NORMAL_975 * error)
        return np.exp(log_survival * factor), np.exp(log_survival / factor)

    def median(self, x: FloatArray, share: float = 0.5) -> FloatArray:
        """When survival falls to `share`, for encoded covariates; NaN where it does not.

        In grouped time the first interval end with so little survival, or less.
        """
        if not 0 < share < 1:
            raise StudyError(
                "A share of survival lies between zero and one.",
                ["Give share=0.5 for the median, 0.25 for when a quarter survives."],
            )
        if self.grouped:
            return quantile_time(self.survival(x), self.interval_ends, share)
        at_means = self.at_means
        return self._hazard.time_at(-np.log(share) * np.exp(at_means - self._log_risk(x)))

    def predict_log_risk(self, frame: pd.DataFrame) -> pd.Series[float]:
        """Coefficients times covariates: higher is worse; zero is the baseline patient."""
        import pandas as pd

        return pd.Series(self._log_risk(self._encode(frame)), frame.index, name="log_risk")

    def predict_survival(
        self, frame: pd.DataFrame, times: ArrayLike | None = None
    ) -> pd.DataFrame:
        """The chance of no event by each time: one row a patient, one column a time.

        Without `times`, at every end of an interval. NaN beyond the horizon, where nothing is
        known. Grouped links know survival at the interval ends alone.
        """
        import pandas as pd

        curves = self.survival(self._encode(frame), times)
        at = self._times(times)
        return pd.DataFrame(curves, frame.index, pd.Index(at, name="time"))

    def predict_survival_band(
        self, frame: pd.DataFrame, times: ArrayLike | None = None
    ) -> tuple[pd.DataFrame, pd.DataFrame] | None:
        """The 95 % band of `predict_survival`, low and high; None where the fit has none."""
        import pandas as pd

        band = self.survival_band(self._encode(frame), times)
        if band is None:
            return None
        at = self._times(times)
        low, high = (pd.DataFrame(b, frame.index, pd.Index(at, name="time")) for b in band)
        return low, high

    def predict_median(self, frame: pd.DataFrame, share: float = 0.5) -> pd.Series[float]:
        """When survival falls to one half, or to another `share`; NaN where it does not."""
        import pandas as pd

        return pd.Series(self.median(self._encode(frame), share), frame.index, name="median")

    def _encode(self, frame: pd.DataFrame) -> FloatArray:
        from fedcox.data.encoding import encode_covariates

        x = encode_covariates(frame, self.study.schema, source="the new patients")
        if self.study.schema.missing == "mean":
            return np.where(np.isnan(x), self.means, x)
        return x

    def _log_risk(self, x: FloatArray) -> FloatArray:
        # Of zero, a column left out of the fit does not spread its missing values either.
        return linear_predictor(x, np.array([row.coef or 0.0 for row in self.coefficients]))

    def _times(self, times: ArrayLike | None) -> FloatArray:
        """Times that can be asked for: those given, or every interval's end."""
        if times is None:
            return self.interval_ends
        at = np.atleast_1d(np.asarray(times, dtype=np.float64))
        if at.ndim != 1 or not (at >= 0).all():
            raise StudyError(
                "Survival is asked for at a list of times from zero on.",
                ["Give times=[365, 730], in the unit of the study's outcome."],
            )
        return at

    @property
    def at_means(self) -> float:
        """The log risk of mean covariates: at zero a hazard may be beyond any number."""
        return float(np.nansum(self.means * [row.coef or 0.0 for row in self.coefficients]))

    @property
    def _hazard(self) -> PiecewiseHazard:
        """At mean covariates."""
        hazard = np.exp(self._alpha() + self.at_means)
        return PiecewiseHazard(np.append(0.0, self.interval_ends), hazard)

    def _alpha(self) -> FloatArray:
        return np.array([_extended_alpha(row) for row in self.baseline], dtype=np.float64)


def _extended_alpha(row: BaselineInterval) -> float:
    if row.alpha is not None:
        return row.alpha
    return -np.inf if row.hazard == 0 else np.inf
