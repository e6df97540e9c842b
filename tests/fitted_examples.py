"""Fitted studies made by hand: plausible numbers of any shape, without a fit."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
from scipy.stats import norm

from fedcox.federation.ledger import LedgerRow
from fedcox.study.fit_rows import (
    NORMAL_975,
    BaselineInterval,
    CenterRow,
    Coefficient,
    Guarantee,
    Notice,
    RoundRow,
)
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from fedcox.survival.cohort import FloatArray

LUNG = """\
# The lung study over five hospitals.
[study]
name = "Advanced lung cancer"

[outcome]
time = "time"
event = "status"
event_value = 2
unit = "days"

[covariates]
age = { type = "number", min = 0, max = 120 }
sex = { type = "category", levels = ["male", "female"], reference = "male" }
"ph.ecog" = { type = "category", levels = ["0", "1", "2", "3"], reference = "0" }
"wt.loss" = { type = "number" }

[grid]
width = 30
horizon = 1080
"""

PUBLIC_WEIGHT_LOSS = '"wt.loss" = { type = "number", min = -30, max = 70 }'


def estimated(name: str, coef: float, se: float, *, mean: float, sd: float) -> Coefficient:
    z = coef / se
    return Coefficient(
        name=name,
        coef=coef,
        se=se,
        z=z,
        p=float(2 * norm.sf(abs(z))),
        ratio=_exp(coef),
        ratio_low=_exp(coef - NORMAL_975 * se),
        ratio_high=_exp(coef + NORMAL_975 * se),
        mean=mean,
        sd=sd,
    )


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def not_estimated(name: str, note: str, *, mean: float = 1.0) -> Coefficient:
    return Coefficient(name, None, None, None, None, None, None, None, mean, 0.0, note)


def indicator(name: str, coef: float, se: float, *, share: float) -> Coefficient:
    return estimated(name, coef, se, mean=share, sd=math.sqrt(share * (1 - share)))


def lung(*, link: str = "cloglog") -> FittedStudy:
    """Five hospitals, 36 intervals of 30 days, six columns."""
    coefficients = (
        estimated("age", 0.0135, 0.0094, mean=62.4, sd=9.1),
        indicator("sex_female", -0.5512, 0.1678, share=0.394),
        indicator("ph.ecog_1", 0.4093, 0.1996, share=0.498),
        indicator("ph.ecog_2", 0.9182, 0.2278, share=0.219),
        indicator("ph.ecog_3", 1.9512, 1.0290, share=0.004),
        estimated("wt.loss", -0.0092, 0.0067, mean=9.83, sd=13.1),
    )
    return fitted_study(LUNG, coefficients, np.arange(30.0, 1081.0, 30.0), link=link)


def wide(columns: int = 60, *, centers: int = 5) -> FittedStudy:
    """Many covariates, some of them aliased or constant, with names that need escaping."""
    rng = np.random.default_rng(7)
    names = [f"gene <{i}> & co" for i in range(columns)]
    rows = [
        estimated(name, float(rng.normal(0, 0.4)), float(rng.uniform(0.05, 0.4)), mean=0, sd=1)
        for name in names
    ]
    rows[3] = not_estimated(names[3], "aliased")
    rows[4] = not_estimated(names[4], "constant")
    return fitted_study(
        _numbers_study(names), tuple(rows), np.arange(30.0, 361.0, 30.0), centers=centers
    )


def nothing_estimable() -> FittedStudy:
    """Every column constant, one center, one interval."""
    rows = (not_estimated("age", "constant", mean=60.0),)
    study = fitted_study(_numbers_study(["age"]), rows, np.array([365.0]), centers=1)
    return replace(
        study, likelihood_ratio=None, concordance=None, converged=False, convergence=()
    )


def separated() -> FittedStudy:
    """One ratio beyond all bounds, one interval without events and one of events only."""
    rows = (
        estimated("dose", 18.2, 4100.0, mean=0.4, sd=0.2),
        indicator("treated", -19.0, 2900.0, share=0.3),
    )
    # As it comes back from fit.json, which knows no infinity.
    rows = (replace(rows[0], ratio_high=None), rows[1])
    fitted = fitted_study(_numbers_study(["dose", "treated"]), rows, np.array([1.0, 2.0, 5.0]))
    baseline = (
        replace(fitted.baseline[0], alpha=None, hazard=0.0, events=0),
        fitted.baseline[1],
        replace(fitted.baseline[2], alpha=None, hazard=1.0),
    )
    notices = (
        Notice("SeparationWarning", "dose and treated grow without bound."),
        Notice("EmptyIntervalsWarning", "1 interval has no event: its hazard is zero."),
    )
    return replace(fitted, baseline=baseline, notices=notices)


def every_event_time(intervals: int = 28_000, *, centers: int = 4) -> FittedStudy:
    """A grid of distinct event times."""
    rng = np.random.default_rng(11)
    ends = np.sort(rng.exponential(700.0, intervals)) + np.arange(1, intervals + 1) * 1e-6
    rows = (
        estimated("age", 0.021, 0.002, mean=61.0, sd=8.0),
        indicator("smoker", 0.41, 0.05, share=0.31),
    )
    text = _numbers_study(["age", "smoker"], grid='times = "events"')
    return fitted_study(text, rows, ends, centers=centers, patients=2 * intervals)


def many_centers(centers: int = 1000) -> FittedStudy:
    """As many small hospitals as there may be."""
    rows = (estimated("age", 0.021, 0.002, mean=61.0, sd=8.0),)
    ends = np.arange(1.0, 21.0)
    return fitted_study(_numbers_study(["age"]), rows, ends, centers=centers, patients=20_000)


def under_secure_sums(fitted: FittedStudy) -> FittedStudy:
    """The same fit where only sums over centers were seen."""
    return replace(
        fitted,
        centers=tuple(CenterRow(row.name) for row in fitted.centers),
        concordance=None,
        ledger=tuple(
            row._replace(
                query={"longest follow-up": "last interval"}.get(row.query, row.query),
                bytes_up=row.bytes_up + 40,
                protection="masks",
            )
            for row in fitted.ledger
        ),
    )


def under_differential_privacy(
    fitted: FittedStudy, *, epsilon: float = 1.0, masked: bool = True
) -> FittedStudy:
    """The same coefficients, of a fit on noisy sums that did not arrive."""
    columns, steps = len(fitted.coefficients), 11
    numbers = len(fitted.baseline) + columns
    ledger = tuple(
        LedgerRow(
            step,
            row.name,
            "noised score",
            numbers,
            8 * numbers,
            numbers + 7,
            8 * (numbers + 7),
            "masks and noise" if masked else "noise",
            epsilon,
        )
        for step in range(1, steps + 1)
        for row in fitted.centers
    )
    return replace(
        fitted,
        centers=tuple(CenterRow(row.name) for row in fitted.centers),
        patients=None,
        events=None,
        coefficients=tuple(
            replace(row, se=None, z=None, p=None, ratio_low=None, ratio_high=None)
            for row in fitted.coefficients
        ),
        baseline=tuple(replace(row, at_risk=None, events=None) for row in fitted.baseline),
        log_likelihood=math.nan,
        null_log_likelihood=math.nan,
        likelihood_ratio=None,
        converged=False,
        rounds=steps,
        bytes_up=sum(row.bytes_up for row in ledger),
        bytes_down=sum(row.bytes_down for row in ledger),
        concordance=None,
        convergence=tuple(RoundRow(step, math.nan, None) for step in range(1, steps + 1)),
        ledger=ledger,
        guarantee=Guarantee(epsilon, 1e-5, steps, 38.25, 1.0, masked, 1.83 * epsilon),
    )


def secure_sums() -> FittedStudy:
    """The lung study under masks."""
    return under_secure_sums(lung())


def differentially_private() -> FittedStudy:
    """The lung study under masks and noise, on public ranges."""
    text = LUNG.replace('"wt.loss" = { type = "number" }', PUBLIC_WEIGHT_LOSS)
    return under_differential_privacy(replace(lung(), study=Study.parse(text)))


def fitted_study(
    text: str,
    coefficients: tuple[Coefficient, ...],
    ends: FloatArray,
    *,
    link: str = "cloglog",
    centers: int = 5,
    patients: int = 1200,
) -> FittedStudy:
    """Counts, baseline, convergence and ledger to go with coefficients and intervals."""
    rng = np.random.default_rng(2020)
    shares = rng.dirichlet(np.full(centers, 2.0))
    sizes = np.maximum(1, np.rint(shares * patients)).astype(int)
    hazard = np.minimum(0.5, 2.2 * np.diff(ends, prepend=0.0) / (ends[-1] + ends))
    at_risk, events = _follow_up(sizes, hazard, rng)
    at_mean = np.log(-np.log1p(-hazard)) if link == "cloglog" else np.log(hazard / (1 - hazard))
    alpha = at_mean - sum(row.mean * (row.coef or 0.0) for row in coefficients)
    names = [f"Hospital {i + 1}" if centers < 100 else f"C{i + 1:04}" for i in range(centers)]
    rounds = tuple(
        RoundRow(i + 1, 3210.0 + 400 * 0.1 ** (i + 1), 250.0 * 10.0 ** -(2**i - 1))
        for i in range(5)
    )
    ledger = _ledger(names, len(ends), len(coefficients))
    return FittedStudy(
        study=Study.parse(text),
        centers=tuple(
            CenterRow(
                name=name,
                patients=int(sizes[i]),
                events=int(events[i].sum()),
                dropped={"missing values": i % 7} if i % 2 else {},
                interval_at_risk=at_risk[i].astype(float).tolist(),
                interval_events=events[i].tolist(),
            )
            for i, name in enumerate(names)
        ),
        patients=int(sizes.sum()),
        events=int(events.sum()),
        edges=ends,
        resolution=None,
        every_event_time=False,
        link=link,
        ratio_name="hazard ratio" if link == "cloglog" else "hazard odds ratio",
        coefficients=coefficients,
        baseline=tuple(
            BaselineInterval(
                interval_end=float(ends[m]),
                alpha=float(alpha[m]),
                hazard=float(-np.expm1(-np.exp(alpha[m]))),
                at_risk=float(at_risk[:, m].sum()),
                events=int(events[:, m].sum()),
            )
            for m in range(ends.size)
        ),
        log_likelihood=-3210.25,
        null_log_likelihood=-3229.75,
        likelihood_ratio={"statistic": 39.0, "df": float(len(coefficients)), "p": 7.1e-7},
        converged=True,
        rounds=5,
        bytes_up=sum(row.bytes_up for row in ledger),
        bytes_down=sum(row.bytes_down for row in ledger),
        concordance=0.6437,
        convergence=rounds,
        notices=(),
        versions={"fedcox": "0.1.0", "numpy": np.__version__, "python": "3.11.7"},
        ledger=ledger,
    )


def _follow_up(
    sizes: np.ndarray[tuple[int], np.dtype[np.int64]],
    hazard: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """At risk and events per center and interval; one in thirty leaves between intervals."""
    at_risk = np.zeros((sizes.size, hazard.size))
    events = np.zeros_like(at_risk)
    remaining = sizes.copy()
    leaving = min(0.03, 1.0 / hazard.size)
    for m, chance in enumerate(hazard):
        at_risk[:, m] = remaining
        events[:, m] = rng.binomial(remaining, chance)
        remaining = remaining - events[:, m].astype(int)
        remaining = remaining - rng.binomial(remaining, leaving)
    return at_risk, events


def _ledger(names: list[str], intervals: int, columns: int) -> tuple[LedgerRow, ...]:
    curvature = (
        1 + intervals + columns + intervals * (columns + 1) + columns * (columns + 1) // 2
    )
    asked = [
        (1, "longest follow-up", 1, 0),
        (2, "interval counts", 2 * intervals, 2),
        (2, "covariate sums", 2 * columns, 0),
        *((2 + i, "hessian", curvature, intervals + columns) for i in range(1, 6)),
    ]
    return tuple(
        LedgerRow(
            number,
            name,
            query,
            up,
            8 * up,
            down,
            8 * down,
        )
        for number, query, up, down in asked
        for name in names
    )


def _numbers_study(names: list[str], *, grid: str = "width = 30") -> str:
    return (
        '[study]\nname = "Example <study> & more"\n'
        '[outcome]\ntime = "time"\nevent = "status"\nunit = "days"\n'
        "[covariates]\n"
        + "".join(f'{json.dumps(name)} = {{ type = "number" }}\n' for name in names)
        + f"[grid]\n{grid}\n"
    )
