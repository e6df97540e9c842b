"""What survival models do alike as scikit-learn estimators, whatever their settings."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from fedcox.errors import CohortError, StudyError, not_fitted
from fedcox.study.estimator_input import (
    check_times,
    is_finite_number,
    missing_values,
    names_of,
    notices_of_filled,
    outcome,
    refuse_unsupported,
    table_of,
)
from fedcox.study.fit_rows import Coefficient, Notice, summary_table
from fedcox.study.inference import coefficient_rows
from fedcox.study.notices import notices, warn_of
from fedcox.study.plan import Plan
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, column_sums
from fedcox.survival.concordance import concordance_index
from fedcox.survival.link import AbstractLink
from fedcox.survival.scaling import linear_predictor
from fedcox.survival.survival_curve import (
    HazardCurve,
    PiecewiseHazard,
    StepFunction,
    cumulative_hazard,
    interval_hazard,
)
from fedcox.survival.survival_curve import survival as survival_at_ends
from fedcox.survival.threads import at_most

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from fedcox.federation.queries.interval_counts import Counts
    from fedcox.study.fit import Estimate

    Objects = np.ndarray[Any, np.dtype[np.object_]]


Missing = Literal["refuse", "drop", "mean"]
_CAUTIONS = ("RidgeWarning", "LateEventsWarning", "FilledCellsWarning")


class AbstractSurvivalEstimator(ABC):
    """What every estimator here does alike; each one has settings and makes a `_plan` of them.

    Settings are the parameters of `__init__`, each kept under its own name and looked at when
    fitting. What a fit learns has a name that ends in an underscore.
    """

    missing: Missing
    threads: int | None
    n_features_in_: int
    feature_names_in_: Objects  # where X had names
    dropped_: int  # patients left out for a missing value
    mean_: FloatArray  # of each column, which fills what is missing
    coef_: FloatArray
    standard_errors_: FloatArray
    covariance_: FloatArray
    aliased_: BoolArray
    edges_: FloatArray
    alpha_: FloatArray
    horizon_: float
    log_likelihood_: float
    converged_: bool
    rounds_: int
    bytes_up_: int
    bytes_down_: int
    _link: AbstractLink
    _coefficients: tuple[Coefficient, ...]
    _counts: Counts
    _cautions: list[Notice]  # for readers of z, p and intervals
    #: Of the fit, with outcomes that nobody can change, until their c-index is counted.
    _patients: tuple[Cohort, FloatArray, BoolArray] | None
    _concordance: float

    @abstractmethod
    def _plan(self, columns: tuple[str, ...]) -> Plan:
        """The settings as objects; a StudyError names every one that cannot be used."""

    def fit(self, X: ArrayLike, y: Any, **unsupported: Any) -> Self:  # noqa: N803
        """Fit on patients X (patients, columns) with outcomes y; returns the estimator."""
        from fedcox.engines.in_process import InProcess
        from fedcox.study.fit import estimate

        refuse_unsupported(unsupported)
        names = names_of(X)
        plan = self._plan(names)
        with at_most(self.threads):
            given = Cohort(table_of(X), *outcome(y))
            check_times(given, plan)
            cohort = self._without_missing(given)
            found = estimate(plan, InProcess.from_cohorts({"all": cohort}))
        told = (
            *notices_of_filled(names, found.agreement.filled),
            *notices(plan, found.agreement, found.solution),
        )
        # Of what was asked for: said where it is read, not in every fit of a search.
        self._cautions = [notice for notice in told if notice.name in _CAUTIONS]
        warn_of(notice for notice in told if notice not in self._cautions)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(names, dtype=object)
        self.dropped_ = given.patients - cohort.patients
        self._learn(found, cohort)
        return self

    def _learn(self, found: Estimate, cohort: Cohort) -> None:
        """One entry per column of X: zero for one left out of the fit, and NaN as its error."""
        from fedcox.study.fit import baseline_alpha

        agreement, inference, columns = found.agreement, found.inference, cohort.columns
        setting = agreement.setting
        keep = setting.scaling.keep
        self.n_features_in_ = columns
        self.mean_ = agreement.mean
        self.coef_ = np.zeros(columns)
        self.coef_[keep] = inference.coefficients
        self.standard_errors_ = np.full(columns, np.nan)
        self.standard_errors_[keep] = inference.standard_errors
        self.covariance_ = np.full((columns, columns), np.nan)
        self.covariance_[np.ix_(keep, keep)] = inference.covariance
        self.aliased_ = ~np.isin(np.arange(columns), keep)
        self.edges_ = agreement.grid.edges
        # An interval without an event has α = −∞, one with events only +∞: hazard 0 and 1.
        self.alpha_ = baseline_alpha(agreement, found.alpha)
        self.horizon_ = float(self.edges_[-1])
        if found.plan.link.grouped:  # nothing happens after the last event time
            longest, end = float(cohort.time.max()), found.plan.horizon
            self.horizon_ = max(self.horizon_, longest if end is None else min(longest, end))
        self.log_likelihood_, self.converged_ = found.log_likelihood, found.solution.converged
        self.rounds_ = found.rounds
        self.bytes_up_, self.bytes_down_ = found.bytes_up, found.bytes_down
        self._link = found.plan.link
        self._coefficients = coefficient_rows(
            found.plan, agreement, inference, found.solution.separated
        )
        self._counts = agreement.counts
        self._patients = cohort, cohort.time.copy(), cohort.event.copy()
        self._concordance = np.nan

    @property
    def summary_(self) -> pd.DataFrame:
        """One row per column of X, under lifelines' names: coef, exp(coef), se(coef), …, p."""
        self._check_fitted()
        warn_of(self._cautions)
        return summary_table(self._coefficients)

    @property
    def baseline_(self) -> pd.DataFrame:
        """One row per interval, under its end: hazard and survival at X = 0, and counts.

        The hazard is per unit of time, in grouped time per interval.
        """
        import pandas as pd

        self._check_fitted()
        columns = {
            "hazard": self._hazard(),
            "survival": survival_at_ends(self.alpha_, np.zeros(1), link=self._link)[0],
            "at_risk": self._counts.reached,
            "events": self._counts.events.astype(np.int64),
        }
        return pd.DataFrame(columns, index=pd.Index(self.edges_, name="interval_end"))

    @property
    def concordance_index_(self) -> float:
        """Harrell's c-index on the patients of the fit, counted when first asked for.

        NaN where no two can be compared, or where X was changed in the meantime.
        """
        self._check_fitted()
        if self._patients is not None:
            (cohort, time, event), self._patients = self._patients, None
            totals = column_sums(cohort.covariates)
            if np.array_equal(totals, cohort.totals, equal_nan=True):
                risk = linear_predictor(self._filled(cohort.covariates), self.coef_)
                index = concordance_index(time, event, risk).index
                self._concordance = np.nan if index is None else index
        return self._concordance

    def predict(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """Log risk of each patient: higher is worse."""
        return linear_predictor(self._checked(X), self.coef_)

    def score(self, X: ArrayLike, y: Any) -> float:  # noqa: N803
        """Harrell's concordance index, on true times."""
        risk = self.predict(X)
        index = concordance_index(*outcome(y), risk).index
        if index is None:
            raise CohortError("No two patients can be compared: the c-index does not exist.")
        return index

    def predict_survival_function(
        self,
        X: ArrayLike,  # noqa: N803
        return_array: bool = False,
    ) -> FloatArray | Objects:
        """S(t | x) for each patient: functions, or (patients, intervals) at `edges_`.

        A function has a `domain`, from 0 to `horizon_`, and raises a ValueError outside. In
        grouped time it is a step function; otherwise it follows the model between the edges.
        """
        risk = self.predict(X)
        if return_array:
            return survival_at_ends(self.alpha_, risk, link=self._link)
        return self._curves(risk, survival=True)

    def predict_cumulative_hazard_function(
        self,
        X: ArrayLike,  # noqa: N803
        return_array: bool = False,
    ) -> FloatArray | Objects:
        """−log S(t | x), as `predict_survival_function`."""
        risk = self.predict(X)
        if return_array:
            return cumulative_hazard(self.alpha_, risk, link=self._link)
        return self._curves(risk, survival=False)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings by name, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; returns the estimator."""
        known = self.get_params()
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise ValueError(
                f"{', '.join(unknown)}: no such setting. There are {', '.join(known)}."
            )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know before it puts this into a pipeline."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(allow_nan=self.missing == "mean"),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __getstate__(self) -> dict[str, Any]:
        """What is stored and sent on: never a patient of the fit."""
        if self.__sklearn_is_fitted__():
            _ = self.concordance_index_  # counted now, since it cannot be later
        return dict(self.__dict__)

    def __repr__(self) -> str:
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if repr(getattr(self, name)) != repr(parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _check_settings(
        self,
        *,
        choices: Mapping[str, Sequence[str]],
        positive: Sequence[str],
        whole: Sequence[str] = (),
    ) -> None:
        """Name every setting that is none of its choices, or no positive number or None."""
        choices = {**choices, "missing": ("refuse", "drop", "mean")}
        faults = [
            f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}."
            for name, allowed in choices.items()
            if getattr(self, name) not in allowed
        ]
        faults += [
            f"{name} is {getattr(self, name)!r}; it must be a positive number or None."
            for name in positive
            if getattr(self, name) is not None
            and not (is_finite_number(getattr(self, name)) and getattr(self, name) > 0)
        ]
        faults += [
            f"{name} is {getattr(self, name)!r}; it must be a whole number above zero or None."
            for name in whole
            if getattr(self, name) is not None
            and (
                not isinstance(getattr(self, name), Integral)
                or isinstance(getattr(self, name), bool)
                or getattr(self, name) < 1
            )
        ]
        ridge = getattr(self, "ridge", 0.0)
        if not (is_finite_number(ridge) and ridge >= 0):
            faults.append(f"ridge is {ridge!r}; it must be zero or a positive number.")
        if faults:
            raise StudyError("These settings cannot be used.", faults)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise not_fitted(
                f"This {type(self).__name__} instance is not fitted yet; call fit first."
            )

    def _without_missing(self, cohort: Cohort) -> Cohort:
        """The patients to fit on, with a missing value only where it is to be filled."""
        if cohort.complete or self.missing == "mean":
            return cohort
        incomplete = np.asarray(np.isnan(cohort.covariates).any(axis=1))
        if self.missing == "drop":
            return cohort.take(~incomplete)
        raise missing_values(int(incomplete.sum()))

    def _checked(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """New patients as the fit's, nothing missing."""
        self._check_fitted()
        table = table_of(X)
        if table.shape[1] != self.n_features_in_:
            raise CohortError(
                f"X has {table.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and hasattr(X, "columns") and names_of(X) != tuple(known):
            raise CohortError(
                "The feature names should match those that were passed during fit: X has other "
                "columns, or the same in another order.",
                [f"The fit had {', '.join(known)}."],
            )
        if np.isfinite(table).all():
            return table
        if np.isinf(table).any():
            raise CohortError("X has infinite values (inf).", ["Give numbers that are finite."])
        if self.missing != "mean":
            raise missing_values(int(np.isnan(table).any(axis=1).sum()))
        return self._filled(table)

    def _filled(self, table: FloatArray) -> FloatArray:
        gaps = np.isnan(table)
        return np.where(gaps, self.mean_, table) if gaps.any() else table

    def _curves(self, risk: FloatArray, *, survival: bool) -> Objects:
        curves = np.empty(risk.size, dtype=object)
        if not self._link.grouped:
            # At the means: at X = 0 a hazard may be beyond any number.
            centre = float(self.mean_ @ self.coef_)
            hazard = np.exp(self.alpha_ + centre) / np.diff(self.edges_, prepend=0.0)
            baseline = PiecewiseHazard(np.append(0.0, self.edges_), hazard)
            for i, log_risk in enumerate((risk - centre).tolist()):
                curves[i] = HazardCurve(baseline, log_risk, survival)
            return curves
        steps = (survival_at_ends if survival else cumulative_hazard)(
            self.alpha_, risk, link=self._link
        )
        for i, values in enumerate(steps):
            curves[i] = StepFunction(self.edges_, values, float(survival), self.horizon_)
        return curves

    def _hazard(self) -> FloatArray:
        """At X = 0: per unit of time, or in grouped time per interval."""
        if self._link.grouped:
            return np.asarray(interval_hazard(self.alpha_, np.zeros(1), link=self._link)[0])
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self.alpha_) / np.diff(self.edges_, prepend=0.0))
