"""What of a fit leaves for a file: numbers with the digits that they can stand for, no more.

An estimate is uncertain by its standard error, and digits far below that tell nothing about
the disease. They do tell about patients: the fits of two studies that differ by one patient
can be subtracted. So each number keeps a thousandth of its standard error, and whatever is
computed from several of them, such as the risk of a patient, at most half as much is off. It
makes such a difference coarse, and is no guarantee (docs/reference/fit-json.md).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.linalg import eigh
from scipy.special import chdtrc

from fedcox.study.fit_rows import BaselineInterval, Coefficient, RoundRow
from fedcox.study.fitted import FittedStudy
from fedcox.study.inference import estimated
from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import LINKS

#: So much of a standard error is kept.
_PART = 1e-3
#: Digits of a standard error, and of a number whose standard error is not known.
_ERROR_DIGITS, _USUAL_DIGITS = 4, 6
#: Of a log-likelihood: tests look at its differences, which vary by about one.
_LIKELIHOOD = 1e-3
#: The least variance in any direction, beside the largest.
_LEAST = 1e-12


def released(fitted: FittedStudy) -> FittedStudy:
    """The same fit as it is written to files. What is rounded once stays as it is."""
    coefficients = _coefficients(fitted)
    log_likelihood = _to(fitted.log_likelihood, _LIKELIHOOD)
    null = _to(fitted.null_log_likelihood, _LIKELIHOOD)
    rounded = replace(
        fitted,
        coefficients=coefficients,
        coefficient_covariance=_covariance(fitted.coefficient_covariance),
        log_likelihood=log_likelihood,
        null_log_likelihood=null,
        likelihood_ratio=_likelihood_ratio(fitted, log_likelihood, null),
        convergence=tuple(map(_round_row, fitted.convergence)),
        concordance=_concordance(fitted),
    )
    return replace(rounded, baseline=_baseline(fitted, rounded))


def _coefficients(fitted: FittedStudy) -> tuple[Coefficient, ...]:
    covariance, names = fitted.coefficient_covariance, [row.name for row in fitted.estimated]
    errors = {}
    if covariance is not None and covariance.size:
        parts = _PART * _alone(covariance) / len(covariance)
        errors = dict(zip(names, parts.tolist(), strict=True))
    return tuple(
        _coefficient(row, errors.get(row.name, math.nan), fitted.patients)
        for row in fitted.coefficients
    )


def _coefficient(row: Coefficient, error: float, patients: int | None) -> Coefficient:
    of_mean = math.nan if patients is None else _PART * row.sd / math.sqrt(max(patients, 1))
    mean, sd = _to(row.mean, of_mean), _to(row.sd, of_mean)
    if row.coef is None:
        return replace(row, mean=mean, sd=sd)
    coef = _to(row.coef, error)
    if row.se is None:
        with np.errstate(over="ignore"):
            return replace(row, coef=coef, ratio=float(np.exp(coef)), mean=mean, sd=sd)
    se = _significant(row.se, _ERROR_DIGITS)
    return replace(estimated(row.name, coef, se, mean, sd), note=row.note)


def _alone(covariance: FloatArray) -> FloatArray:
    """Standard errors of the coefficients, each as if all others were known.

    Columns that are alike have large standard errors, and small ones of what they say together.
    If each of P coefficients moves by less than a P-th part of this, no combination of them
    moves by more than that part of its own standard error: the inverse of the covariance, in
    these units, has ones on its diagonal, and so no eigenvalue above P.
    """
    errors = np.sqrt(np.diag(covariance))
    values, directions = eigh(covariance / np.outer(errors, errors))
    values = np.maximum(values, _LEAST * values[-1])
    return np.asarray(errors / np.sqrt(np.sum(directions**2 / values, axis=1)))


def _covariance(covariance: FloatArray | None) -> FloatArray | None:
    """By the same rule: the variance of no combination moves by more than a part of itself."""
    if covariance is None or not covariance.size:
        return covariance
    alone = _alone(covariance)
    errors = _PART * np.outer(alone, alone) / len(alone) ** 2
    return np.asarray(np.vectorize(_to)(covariance, errors), dtype=np.float64)


def _baseline(fitted: FittedStudy, rounded: FittedStudy) -> tuple[BaselineInterval, ...]:
    """Rounded where the covariates are at their means: at zero there may be nobody near."""
    link, at, to = LINKS[fitted.link], fitted.at_means, rounded.at_means
    rows = []
    for row in fitted.baseline:
        if row.alpha is None:
            rows.append(row)
            continue
        error = math.nan if row.events is None else _PART / math.sqrt(max(row.events, 1))
        alpha = _to(row.alpha + at, error) - to
        with np.errstate(over="ignore"):
            hazard = float(link.hazard(np.array([alpha]))[0])
        rows.append(replace(row, alpha=alpha, hazard=hazard))
    return tuple(rows)


def _likelihood_ratio(
    fitted: FittedStudy, log_likelihood: float, null: float
) -> dict[str, float] | None:
    if fitted.likelihood_ratio is None:
        return None
    freedom = fitted.likelihood_ratio["df"]
    statistic = _to(max(0.0, 2.0 * (log_likelihood - null)), _LIKELIHOOD)
    return {"statistic": statistic, "df": freedom, "p": float(chdtrc(freedom, statistic))}


def _round_row(row: RoundRow) -> RoundRow:
    decrement = row.decrement
    if decrement is not None:
        decrement = _significant(decrement, _ERROR_DIGITS)
    return replace(row, loss=_to(row.loss, _LIKELIHOOD), decrement=decrement)


def _concordance(fitted: FittedStudy) -> float | None:
    """By the error of a share of the events."""
    if fitted.concordance is None or fitted.events is None:
        return fitted.concordance
    return _to(fitted.concordance, 0.5 * _PART / math.sqrt(max(fitted.events, 1)))


def _to(value: float, error: float) -> float:
    """Rounded so that it is off by less than this; to the usual digits where that is NaN."""
    if not math.isfinite(value):
        return value
    if math.isnan(error):
        return _significant(value, _USUAL_DIGITS)
    if not 0.0 < error < math.inf:
        return value
    return round(float(value), math.ceil(-math.log10(error)))


def _significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")
