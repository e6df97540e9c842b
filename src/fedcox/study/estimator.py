"""Survival models as scikit-learn estimators, for one table of patients."""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

import fedcox.errors as errors
from fedcox.errors import CohortError, StudyError, not_fitted
from fedcox.study.fitted import Coefficient, Notice, summary_table
from fedcox.study.inference import coefficient_rows
from fedcox.study.notices import notices
from fedcox.study.plan import SOLVERS, Plan
from fedcox.study.study_rules import grid_faults
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, column_sums
from fedcox.survival.concordance import concordance_index
from fedcox.survival.link import LINKS, AbstractLink
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

        _refuse(unsupported)
        names = _names(X)
        plan = self._plan(names)
        with at_most(self.threads):
            given = Cohort(_table(X), *outcome(y))
            _check_times(given, plan)
            cohort = self._without_missing(given)
            found = estimate(plan, InProcess.from_cohorts({"all": cohort}))
        told = (
            *_filled_cells(names, found.agreement.filled),
            *notices(plan, found.agreement, found.solution),
        )
        # Of what was asked for: said where it is read, not in every fit of a search.
        self._cautions = [notice for notice in told if notice.name in _CAUTIONS]
        _warn(notice for notice in told if notice not in self._cautions)
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
        _warn(self._cautions)
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
            and not (_is_number(getattr(self, name)) and getattr(self, name) > 0)
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
        if not (_is_number(ridge) and ridge >= 0):
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
        raise _missing_values(int(incomplete.sum()))

    def _checked(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """New patients as the fit's, nothing missing."""
        self._check_fitted()
        table = _table(X)
        if table.shape[1] != self.n_features_in_:
            raise CohortError(
                f"X has {table.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and hasattr(X, "columns") and _names(X) != tuple(known):
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
            raise _missing_values(int(np.isnan(table).any(axis=1).sum()))
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


class ProportionalHazards(AbstractSurvivalEstimator):
    """Proportional hazards, λ(t | x) = λ_k exp(β·x) within piece k of time: Cox's answer.

    pieces      how many pieces of time, with about equally many events in each; None takes one
                for every event time, where the model is Cox's with Efron's ties, up to 400
    edges       where pieces end, in place of `pieces`; the first begins at zero
    horizon     end of follow-up; None takes the longest
    ridge       ridge / 2 · Σ coef² on the covariates as given
    missing     "refuse", "drop" or "mean": what becomes of a patient without some value in X
    threads     how many at most; None takes OMP_NUM_THREADS, or one for every core

    `y` is scikit-survival's structured array, a (time, event) pair, or two columns time, event.
    After `fit`, `coef_` and `covariance_` have the coefficients and their covariance matrix,
    `summary_` and `baseline_` are tables, `concordance_index_` is these patients' c-index.

    >>> model = ProportionalHazards().fit([[1.0], [0.0], [1.0], [0.0]],
    ...                                   ([1, 2, 3, 4], [1, 1, 1, 0]))
    >>> model.coef_.round(3)
    array([0.941])
    """

    def __init__(
        self,
        pieces: int | None = None,
        edges: Sequence[float] | None = None,
        horizon: float | None = None,
        ridge: float = 0.0,
        missing: Missing = "refuse",
        threads: int | None = None,
    ) -> None:
        self.pieces = pieces
        self.edges = edges
        self.horizon = horizon
        self.ridge = ridge
        self.missing = missing
        self.threads = threads

    def _plan(self, columns: tuple[str, ...]) -> Plan:
        self._check_settings(choices={}, positive=("horizon",), whole=("pieces", "threads"))
        edges = _edges(self.edges)
        grid = {"pieces": self.pieces, "edges": edges, "horizon": self.horizon}
        faults = list(grid_faults(grid))
        if faults:
            raise StudyError("These settings cannot be used.", faults)
        return Plan(
            columns=columns,
            link=LINKS["log"],
            reading="include",
            width=None,
            horizon=self.horizon,
            ridge=self.ridge,
            solver=SOLVERS["newton"](),
            pieces=self.pieces,
            edges=edges,
        )


class DiscreteTimeCox(AbstractSurvivalEstimator):
    """The paper's discrete-time Cox regression, on grouped time.

    Near a Cox model where intervals are narrow, and possibly far from it where they are wide;
    `ProportionalHazards` counts the time inside them, too.

    width       interval width in the unit of time; None takes every distinct event time
    horizon     end of follow-up; None takes the longest
    link        "cloglog" (exp(coef) is a hazard ratio) or "logit" (a hazard odds ratio)
    censored_interval   "include", "exclude" or "half": a patient censored inside an interval
    ridge       ridge / 2 · Σ coef² on the covariates as given
    solver      "newton", "lbfgs" or "adam"
    missing     "refuse", "drop" or "mean": what becomes of a patient without some value in X
    threads     how many at most; None takes OMP_NUM_THREADS, or one for every core

    `y` is scikit-survival's structured array, a (time, event) pair, or two columns time, event.
    After `fit`, `coef_` and `covariance_` have the coefficients and their covariance matrix,
    `summary_` and `baseline_` are tables, `concordance_index_` is these patients' c-index.

    >>> model = DiscreteTimeCox().fit([[1.0], [0.0], [1.0], [0.0]],
    ...                               ([1, 2, 3, 4], [1, 1, 1, 0]))
    >>> model.coef_.round(3)
    array([1.267])
    """

    def __init__(
        self,
        width: float | None = None,
        horizon: float | None = None,
        link: Literal["cloglog", "logit"] = "cloglog",
        censored_interval: Literal["include", "exclude", "half"] = "include",
        ridge: float = 0.0,
        solver: Literal["newton", "lbfgs", "adam"] = "newton",
        missing: Missing = "refuse",
        threads: int | None = None,
    ) -> None:
        self.width = width
        self.horizon = horizon
        self.link = link
        self.censored_interval = censored_interval
        self.ridge = ridge
        self.solver = solver
        self.missing = missing
        self.threads = threads

    def _plan(self, columns: tuple[str, ...]) -> Plan:
        self._check_settings(
            choices={
                "link": tuple(name for name, link in LINKS.items() if link.grouped),
                "solver": ("newton", "lbfgs", "adam"),  # the others need several centers
                "censored_interval": ("include", "exclude", "half"),
            },
            positive=("width", "horizon"),
            whole=("threads",),
        )
        return Plan(
            columns=columns,
            link=LINKS[self.link],
            reading=self.censored_interval,
            width=self.width,
            horizon=self.horizon,
            ridge=self.ridge,
            solver=SOLVERS[self.solver](),
        )


def _warn(told: Iterable[Notice]) -> None:
    for notice in told:
        warnings.warn(getattr(errors, notice.name)(notice.text), stacklevel=3)


def _is_number(value: object) -> bool:
    """A finite one, of Python or numpy."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return False
    return bool(np.isfinite(value))


def _refuse(unsupported: Mapping[str, Any]) -> None:
    """What other estimators take beside X and y."""
    if unsupported.get("sample_weight") is not None:
        raise CohortError(
            "sample_weight is not supported: every patient counts once.",
            ["Leave sample_weight out."],
        )
    others = sorted(set(unsupported) - {"sample_weight"})
    if others:
        raise TypeError(f"fit takes X and y, and no {', '.join(others)}.")


def _edges(edges: Sequence[float] | None) -> tuple[float, ...] | None:
    try:
        return None if edges is None else tuple(float(edge) for edge in edges)
    except (TypeError, ValueError):
        fault = f"edges is {edges!r}; it must be a list of numbers or None."
        raise StudyError("These settings cannot be used.", [fault]) from None


def _filled_cells(names: Sequence[str], filled: FloatArray) -> list[Notice]:
    """What the mean stands for."""
    columns = [f"{int(n)} of {name}" for name, n in zip(names, filled, strict=True) if n]
    if not columns:
        return []
    cells = f"Cells of X filled with the mean: {', '.join(columns)}."
    return [Notice("FilledCellsWarning", f"{cells} Standard errors take them for measured.")]


def _check_times(cohort: Cohort, plan: Plan) -> None:
    nothing = int(np.count_nonzero(cohort.time <= 0))
    if nothing and not plan.link.grouped:
        raise CohortError(
            f"{nothing} patient(s) have a follow-up time of zero.",
            ["Record some time, or leave them out: nobody is at risk for no time."],
        )


def _missing_values(patients: int) -> CohortError:
    return CohortError(
        f"X has missing values (NaN), in {patients} patient(s).",
        [
            "Fill them or leave these patients out; or fit with missing='mean', which puts a "
            "column's mean for what is missing, in new patients too."
        ],
    )


def _table(x: Any) -> FloatArray:
    if hasattr(x, "toarray"):  # scipy's, which need not be loaded for it
        raise CohortError(
            "X is a sparse matrix, and sparse input is not supported.",
            ["Call X.toarray() first."],
        )
    try:
        array = np.asarray(x)
        if array.dtype.kind == "O" and hasattr(x, "to_numpy"):  # pandas' own missing values
            array = x.to_numpy(dtype=np.float64, na_value=np.nan)
        table = array.astype(np.float64, copy=False) if array.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        table = None
    if table is None:
        raise CohortError(
            "X has columns that are not numbers.",
            ["Encode categories as indicators first. Complex data not supported."],
        )
    if table.ndim != 2:
        raise CohortError(
            f"X has {table.ndim} dimension(s); it needs two: patients, columns.",
            ["Reshape your data: X.reshape(-1, 1) is one column, X.reshape(1, -1) one row."],
        )
    return table


def _names(x: Any) -> tuple[str, ...]:
    if hasattr(x, "columns"):
        return tuple(str(name) for name in x.columns)
    return tuple(f"x{j}" for j in range(np.shape(x)[1])) if np.ndim(x) == 2 else ()


def outcome(y: Any) -> tuple[FloatArray, BoolArray]:
    """Time and event from a structured array, a (time, event) pair, or two columns."""
    if y is None:
        raise CohortError("Survival requires y to be passed, but the target y is None.")
    if isinstance(y, np.ndarray) and y.dtype.names is not None:
        event_name = next((n for n in y.dtype.names if y.dtype[n] == np.bool_), None)
        time_name = next((n for n in y.dtype.names if n != event_name), None)
        if event_name is None or time_name is None or len(y.dtype.names) != 2:
            raise CohortError(
                "A structured y needs two fields: a boolean event and a numeric time."
            )
        time, event = y[time_name], y[event_name]
    elif isinstance(y, tuple) and len(y) == 2:
        time, event = np.asarray(y[0]), np.asarray(y[1])
    elif np.ndim(y) == 2 and np.shape(y)[1] == 2:
        table = np.asarray(y)
        time, event = table[:, 0], table[:, 1]
    else:
        raise CohortError(
            "y must be a structured array (event, time), a pair (time, event), or two columns."
        )
    flags = np.asarray(event)
    if flags.dtype != np.bool_ and not np.isin(flags, (0, 1)).all():
        raise CohortError("The event in y must be true or false, or 1 or 0.")
    try:
        return np.asarray(time, dtype=np.float64), flags.astype(np.bool_)
    except (TypeError, ValueError):
        raise CohortError("The time in y must be numbers, in the unit of the study.") from None
