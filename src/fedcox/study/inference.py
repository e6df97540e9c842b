"""From information to what is reported: standard errors, intervals, tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.special import chdtrc, ndtr

from fedcox.errors import NoInferenceError
from fedcox.solvers.solver import Problem, Solution
from fedcox.study.agreement import Agreement
from fedcox.study.fit_rows import NORMAL_975, Coefficient
from fedcox.study.plan import Plan
from fedcox.survival.cohort import BoolArray, FloatArray
from fedcox.survival.event_pieces import cut_by_events
from fedcox.survival.information import solve_alpha
from fedcox.survival.survival_curve import CurveError
from fedcox.survival.weighted_events import WeightedEvents

#: Where errors of curves are kept: so many points at most, so many events between two.
_CURVE_POINTS, _CURVE_EVENTS, _CURVE_DIGITS = 48, 10, 5
#: Information that is below rounding counts as this part of the largest.
_LEAST = 1e-15


@dataclass(frozen=True, eq=False)
class Inference:
    """Coefficients and their covariance, on the covariates as given."""

    coefficients: FloatArray  # (kept columns,)
    covariance: FloatArray  # (kept columns, kept columns)
    penalty: float  # ½ ridge Σ β², part of the solver's loss
    curve_error: CurveError | None  # of exact time; grouped time has none

    @property
    def standard_errors(self) -> FloatArray:
        return np.asarray(np.sqrt(np.diag(self.covariance)))


def infer(agreement: Agreement, problem: Problem, solution: Solution) -> Inference:
    """Invert the expected information on β, as in a generalised linear model on the stack.

    With a ridge the information includes the penalty, as R and lifelines have it. A weighted
    loss is no likelihood, so there is nothing to infer from it.
    """
    if isinstance(agreement.setting.link, WeightedEvents):
        raise NoInferenceError(
            "Events were weighted, so the loss is no likelihood: its coefficients rank "
            "patients and have no ratios, intervals or p-values. Fit without weights to get "
            "those."
        )
    scaling = agreement.setting.scaling
    covariance = inverse_information(solution.on_beta)
    return Inference(
        scaling.coefficients(solution.beta),
        scaling.covariance(covariance),
        0.5 * float(problem.ridge @ solution.beta**2),
        None if agreement.setting.link.grouped else _curve_error(agreement, solution),
    )


def _curve_error(agreement: Agreement, solution: Solution) -> CurveError:
    """At the ends of all pieces if they are few, or of some with enough events between them.

    At more of them the means would be those of single patients. For the same reason not all
    digits are kept, of which a band needs two.
    """
    information, setting = solution.information, agreement.setting
    if information.cross is None:
        raise ValueError("Curves need the full information.")
    alpha = setting.alpha(solution.alpha)
    last = np.arange(alpha.size)
    if last.size > _CURVE_POINTS:
        last = cut_by_events(agreement.events, most=_CURVE_POINTS, least=_CURVE_EVENTS)[1:] - 1
    hazard = np.exp(alpha)
    if setting.basis is None:
        weight = solve_alpha(information, hazard)
        ends = pairwise(np.append(0, last + 1))  # there may be many pieces between two points
        between = [weight[one:other] @ information.cross[one:other] for one, other in ends]
        variance, mean = np.cumsum(hazard * weight)[last], np.cumsum(between, axis=0)
    else:  # by how much each number of the spline moves the hazard summed up to a point
        slopes = np.cumsum(hazard[:, None] * setting.basis, axis=0)[last]
        solved = solve_alpha(information, slopes.T)
        variance, mean = np.sum(slopes.T * solved, axis=0), solved.T @ information.cross
    return CurveError(
        _rounded(np.cumsum(hazard)[last]),
        _rounded(variance),
        _rounded(mean * setting.scaling.spread),
        every=last.size == alpha.size and setting.basis is None,
    )


def _rounded(values: FloatArray) -> FloatArray:
    """Each to a few digits, and zero in front: nothing has happened yet."""
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-300)))
    unit = 10.0 ** (size - _CURVE_DIGITS)
    zero = np.zeros((1, *values.shape[1:]))
    return np.concatenate([zero, np.where(values == 0, 0.0, np.rint(values / unit) * unit)])


def inverse_information(information: FloatArray) -> FloatArray:
    """The covariance that an information on β gives, finite even where there is none."""
    if not information.size:
        return information
    try:
        factor = cho_factor(information)
    except np.linalg.LinAlgError:
        # Separation to the last digit: finite numbers, under the warning that says so. Large
        # ones: a direction without information must never look like a well-known one.
        values, directions = eigh(information)
        values = np.maximum(values, _LEAST * values[-1])
        return np.asarray((directions / values) @ directions.T)
    return np.asarray(cho_solve(factor, np.eye(len(information))))


def coefficient_rows(
    plan: Plan, agreement: Agreement, inference: Inference, separated: BoolArray
) -> tuple[Coefficient, ...]:
    """One row per column of the design matrix, in the study's order."""
    keep = agreement.setting.scaling.keep
    place = {int(column): place for place, column in enumerate(keep)}
    errors = inference.standard_errors
    rows = []
    for column, name in enumerate(plan.columns):
        mean, sd = float(agreement.mean[column]), float(agreement.spread[column])
        if column in place:
            coef, se = inference.coefficients[place[column]], errors[place[column]]
            row = estimated(name, float(coef), float(se), mean, sd)
            rows.append(replace(row, note="separated") if separated[place[column]] else row)
        else:
            note = "constant" if agreement.constant[column] else "aliased"
            rows.append(Coefficient(name, *(None,) * 7, mean, sd, note))
    return tuple(rows)


def estimated(name: str, coef: float, se: float, mean: float, sd: float) -> Coefficient:
    """One row of the table: everything else follows from coefficient and standard error."""
    z = coef / se
    with np.errstate(over="ignore"):  # a separated coefficient has an infinite bound
        ratio, low, high = np.exp(coef + NORMAL_975 * se * np.array([0.0, -1.0, 1.0])).tolist()
    return Coefficient(
        name, coef, se, z, 2.0 * float(ndtr(-abs(z))), ratio, low, high, mean, sd, ""
    )


def likelihood_ratio(
    plan: Plan, log_likelihood: float, null: float, agreement: Agreement, *, converged: bool
) -> dict[str, float] | None:
    """All coefficients against none, where the likelihood is at its maximum.

    A penalised fit is not there, and neither is one that was left before its optimum.
    """
    freedom = agreement.setting.columns
    if plan.ridge or not converged or not freedom:
        return None
    statistic = max(0.0, 2.0 * (log_likelihood - null))  # where it is zero but for rounding
    return {
        "statistic": statistic,
        "df": freedom,
        "p": float(chdtrc(freedom, statistic)),
    }
