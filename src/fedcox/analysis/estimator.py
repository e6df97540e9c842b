"""The discrete-time Cox model as a scikit-learn estimator, for one table of patients."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

import fedcox.errors as errors
from fedcox.analysis.notices import notices
from fedcox.analysis.plan import SOLVERS, Plan
from fedcox.errors import CohortError
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray
from fedcox.survival.concordance import concordance_index
from fedcox.survival.linear_predictor import linear_predictor
from fedcox.survival.link import LINKS
from fedcox.survival.step_function import StepFunction
from fedcox.survival.survival_curve import cumulative_hazard, survival

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class DiscreteTimeCox:
    """Discrete-time Cox regression: scikit-learn's grammar, lifelines' numbers.

    width       interval width in the unit of time; None takes every distinct event time
    horizon     end of follow-up; None takes the longest
    link        "cloglog" (exp(coef) is a hazard ratio) or "logit" (a hazard odds ratio)
    censored_interval   "include", "exclude" or "half": a patient censored inside an interval
    ridge       ridge / 2 · Σ coef² on the covariates as given
    solver      "newton", "lbfgs" or "adam"

    `y` is scikit-survival's structured array, a (time, event) pair, or two columns time, event.

    >>> model = DiscreteTimeCox(width=1).fit([[0.0], [1.0], [0.0], [1.0]],
    ...                                      ([3, 1, 2, 2], [1, 1, 0, 1]))
    >>> model.coef_.round(3)
    array([1.331])
    """

    def __init__(
        self,
        width: float | None = None,
        horizon: float | None = None,
        link: Literal["cloglog", "logit"] = "cloglog",
        censored_interval: Literal["include", "exclude", "half"] = "include",
        ridge: float = 0.0,
        solver: Literal["newton", "lbfgs", "adam"] = "newton",
    ) -> None:
        self.width = width
        self.horizon = horizon
        self.link = link
        self.censored_interval = censored_interval
        self.ridge = ridge
        self.solver = solver

    def fit(self, X: ArrayLike, y: Any) -> Self:  # noqa: N803
        """Fit on patients X (patients, columns) with outcomes y; returns the estimator."""
        from fedcox.analysis.fit import estimate
        from fedcox.engines.in_process import InProcess

        names = _names(X)
        time, event = outcome(y)
        cohort = Cohort(_table(X), time, event)
        if not cohort.complete:
            raise CohortError("X has missing values.", ["Fill or drop them before fitting."])
        plan = self._plan(names)
        found = estimate(plan, InProcess.from_cohorts({"all": cohort}))
        for notice in notices(plan, found.agreement, found.solution):
            warnings.warn(getattr(errors, notice.name)(notice.text), stacklevel=2)
        setting = found.agreement.setting
        keep = setting.scaling.keep
        self.n_features_in_ = cohort.columns
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(names, dtype=object)
        self.coef_ = np.zeros(cohort.columns)
        self.coef_[keep] = found.inference.coefficients
        self.standard_errors_ = np.full(cohort.columns, np.nan)
        self.standard_errors_[keep] = found.inference.standard_errors
        self.covariance_ = np.full((cohort.columns,) * 2, np.nan)
        self.covariance_[np.ix_(keep, keep)] = found.inference.covariance
        self.aliased_ = ~np.isin(np.arange(cohort.columns), keep)
        self.edges_ = setting.grid.edges
        # An interval without an event has α = −∞, one with events only +∞: hazard 0 and 1.
        self.alpha_ = np.where(found.agreement.counts.events > 0, np.inf, -np.inf)
        self.alpha_[setting.active] = found.alpha
        self.log_likelihood_ = found.log_likelihood
        self.converged_ = found.solution.converged
        self.rounds_, self.bytes_up_, self.bytes_down_ = (
            found.rounds,
            found.bytes_up,
            found.bytes_down,
        )
        return self

    def predict(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        """Log risk of each patient: higher is worse."""
        return linear_predictor(self._checked(X), self.coef_)

    def score(self, X: ArrayLike, y: Any) -> float:  # noqa: N803
        """Harrell's concordance index, on true times."""
        time, event = outcome(y)
        index = concordance_index(time, event, self.predict(X)).index
        if index is None:
            raise CohortError("No two patients can be compared: the c-index does not exist.")
        return index

    def predict_survival_function(
        self,
        X: ArrayLike,  # noqa: N803
        return_array: bool = False,
    ) -> FloatArray | np.ndarray[Any, np.dtype[np.object_]]:
        """S(t | x) for each patient: step functions, or (patients, intervals) at `edges_`."""
        curves = survival(self.alpha_, self.predict(X), link=LINKS[self.link])
        return curves if return_array else self._steps(curves, before=1.0)

    def predict_cumulative_hazard_function(
        self,
        X: ArrayLike,  # noqa: N803
        return_array: bool = False,
    ) -> FloatArray | np.ndarray[Any, np.dtype[np.object_]]:
        """−log S(t | x), as `predict_survival_function`."""
        curves = cumulative_hazard(self.alpha_, self.predict(X), link=LINKS[self.link])
        return curves if return_array else self._steps(curves, before=0.0)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings by name, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in _settings()}

    def set_params(self, **params: Any) -> Self:
        """Change settings by name; returns the estimator."""
        unknown = sorted(set(params) - set(_settings()))
        if unknown:
            raise ValueError(
                f"{', '.join(unknown)}: no such setting. There are {', '.join(_settings())}."
            )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know before it puts this into a pipeline."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=True))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __repr__(self) -> str:
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if getattr(self, name) != parameter.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _plan(self, names: tuple[str, ...]) -> Plan:
        faults = [
            f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}."
            for name, allowed in (
                ("link", LINKS),
                ("solver", ("newton", "lbfgs", "adam")),  # the others need several centers
                ("censored_interval", ("include", "exclude", "half")),
            )
            if getattr(self, name) not in allowed
        ]
        faults += [
            f"{name} is {getattr(self, name)!r}; it must be a positive number or None."
            for name in ("width", "horizon")
            if getattr(self, name) is not None and not 0 < getattr(self, name) < np.inf
        ]
        if not 0 <= self.ridge < np.inf:
            faults.append(f"ridge is {self.ridge!r}; it must be zero or a positive number.")
        if faults:
            raise errors.StudyError("These settings cannot be used.", faults)
        return Plan(
            columns=names,
            link=LINKS[self.link],
            reading=self.censored_interval,
            width=self.width,
            horizon=self.horizon,
            ridge=self.ridge,
            solver=SOLVERS[self.solver](),
        )

    def _checked(self, X: ArrayLike) -> FloatArray:  # noqa: N803
        if not hasattr(self, "coef_"):
            raise AttributeError("This DiscreteTimeCox is not fitted yet; call fit first.")
        table = _table(X)
        if table.shape[1] != self.n_features_in_:
            raise CohortError(
                f"X has {table.shape[1]} columns; the fit had {self.n_features_in_}."
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and hasattr(X, "columns") and _names(X) != tuple(known):
            raise CohortError(
                "X has other columns than the fit, or the same in another order.",
                [f"The fit had {', '.join(known)}."],
            )
        if np.isnan(table.sum()):
            raise CohortError(
                "X has missing values.", ["Fill them; nobody is predicted by halves."]
            )
        return table

    def _steps(
        self, curves: FloatArray, before: float
    ) -> np.ndarray[Any, np.dtype[np.object_]]:
        steps = np.empty(len(curves), dtype=object)
        for i, curve in enumerate(curves):
            steps[i] = StepFunction(self.edges_, curve, before)
        return steps


def _settings() -> list[str]:
    return list(inspect.signature(DiscreteTimeCox).parameters)


def _table(x: ArrayLike) -> FloatArray:
    try:
        table = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise CohortError(
            "X has columns that are not numbers.", ["Encode categories as indicators first."]
        ) from None
    if table.ndim != 2:
        raise CohortError(f"X has {table.ndim} dimension(s); it needs two: patients, columns.")
    return table


def _names(x: Any) -> tuple[str, ...]:
    if hasattr(x, "columns"):
        return tuple(str(name) for name in x.columns)
    return tuple(f"x{j}" for j in range(np.shape(x)[1])) if np.ndim(x) == 2 else ()


def outcome(y: Any) -> tuple[FloatArray, BoolArray]:
    """Time and event from a structured array, a (time, event) pair, or two columns."""
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
    return np.asarray(time, dtype=np.float64), flags.astype(np.bool_)
