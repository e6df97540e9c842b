"""How a hazard depends on its linear predictor: the log, complementary log-log and logit link.

All are functions of v = exp(α_m + β·x_i). A cell (patient i at risk in interval m) costs f(v)
without the event and g(v) with it; primes below are derivatives in θ = log v:

    log        f = v               g = −log v                 rate v over the piece
    cloglog    f = v               g = −log(1 − exp(−v))      hazard 1 − exp(−v)
    logit      f = log(1 + v)      g = log(1 + 1/v)           hazard v / (1 + v)

cloglog and logit are grouped time: an event's interval costs g and nothing else. With log the
hazard is constant within a piece, and a patient who leaves inside it, with the event or
without, is at risk by that part of it: part · f, and g beside it for the event.

For small v, f is a power series Σ c_k v^k (f' = Σ k c_k v^k, f'' = Σ k² c_k v^k), which turns
sums over all pairs of patient and interval into products of sums over patients and over
intervals. For cloglog the series is f itself.

A new link is a class and its place in `LINKS`. Of a grouped one f and its derivatives say all:
what an event costs, and what a cell weighs, follow from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import bernoulli, expit, xlog1py, xlogy
from scipy.special import factorial as _factorial

from fedcox.survival.cohort import FloatArray

_TERMS = 14
_TINY = 1e-300  # stands for zero in a denominator
_LOG_CHUNK = 16  # factors 1 / (1 + v) multiplied before one logarithm is taken


class Terms(NamedTuple):
    """A cost and its first two derivatives in log v, cell by cell."""

    cost: FloatArray
    slope: FloatArray
    curvature: FloatArray


class AbstractLink(ABC):
    """One link: what a cell costs without and with the event, and the name of its ratio.

    Sums over many cells take the short ways that `series` and `smoothness` promise; without
    such a promise every cell is computed.
    """

    name: str
    #: as it is spoken of: the … link.
    title: str
    ratio_name: str
    #: what a covariate multiplies, by the ratio.
    multiplies = "hazard"
    #: whether time inside an interval is lost: every event is put at the interval's end.
    grouped = True
    #: how often −log v counts where an event costs just that; None where it costs otherwise.
    log_events: float | None = None
    #: how many numbers describe it to a center: its name, if nothing else.
    numbers = 1
    #: c_1, c_2, … of f, and up to which v that many terms are exact to rounding.
    series: FloatArray = np.empty(0)
    series_radius: float = 0.0
    #: whether observed and expected information are the same, as for a canonical link.
    canonical = False
    #: the series for the weight of a cell in the expected information.
    information_series: FloatArray = np.empty(0)
    information_radius: float = 0.0
    #: how far from any α the nearest pole of a cell's terms is, logit's being at one.
    smoothness: float = 0.0
    #: up to how many intervals computing every cell is the cheaper way, measured.
    few_intervals: float = np.inf

    @property
    def additive(self) -> bool:
        """Whether f is v itself: passing several intervals costs the sum of their v."""
        return self.series.size == 1

    @property
    def score_name(self) -> str:
        """What a predictor's values are: logarithms of what the ratio is of."""
        return f"log {self.ratio_name.removesuffix(' ratio')}"

    @abstractmethod
    def at_risk(self, v: FloatArray) -> Terms:
        """f, f', f'' of each cell; zero where v is, and v may be as large as it likes."""

    @abstractmethod
    def intercept(self, hazard: FloatArray) -> FloatArray:
        """The θ that gives this hazard; the inverse of `hazard`."""

    def cost(self, v: FloatArray) -> FloatArray:
        """The cost f of each cell: minus the log of the chance to survive it."""
        return self.at_risk(v).cost

    def at_risk_sum(
        self,
        v: FloatArray,
        room: tuple[FloatArray, FloatArray] | None = None,
        weight: FloatArray | None = None,
    ) -> tuple[float, FloatArray, FloatArray]:
        """Σ f over the block `v` (intervals, patients), with f' and f'' cell by cell.

        These may be written into `room` if it is given; either may be `v` itself. With `weight`
        each interval counts so often in the sum.
        """
        cost, slope, curvature = self.at_risk(v)
        of_interval = np.add.reduce(cost, 1)
        total = np.add.reduce(of_interval) if weight is None else weight @ of_interval
        return float(total), slope, curvature

    def event(self, v: FloatArray) -> Terms:
        """The cost g, g', g'' of each event: of grouped time g = −log(1 − exp(−f))."""
        cost, slope, curvature = self.at_risk(v)
        certain = np.expm1(np.minimum(cost, 700.0))
        ratio = slope / certain
        return Terms(
            -np.log(-np.expm1(-cost)), -ratio, ratio * (slope + ratio) - curvature / certain
        )

    def information(self, v: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Weight of a cell in the expected information, as in a generalised linear model.

        It is −f'·g'; it is written into `out` if that is given, which may not be `v` itself.
        """
        some = np.maximum(v, _TINY)
        return np.multiply(self.at_risk(some).slope, -self.event(some).slope, out=out)

    def hazard(self, theta: FloatArray) -> FloatArray:
        """Probability of the event in an interval, given θ = α_m + β·x_i."""
        return np.asarray(-np.expm1(-self.cost(np.exp(theta))), dtype=np.float64)

    def null_loss(self, at_risk: FloatArray, events: FloatArray) -> float:
        """Negative log-likelihood without covariates, at its optimum: hazards d_m / n_m."""
        hazard = np.divide(events, at_risk, out=np.zeros_like(at_risk), where=at_risk > 0)
        return -float((xlogy(events, hazard) + xlog1py(at_risk - events, -hazard)).sum())


def _log_sums(values: FloatArray) -> FloatArray:
    """Σ log of each row, by few logarithms: those of products."""
    rows, size = values.shape
    part = size // _LOG_CHUNK
    whole = part * _LOG_CHUNK
    products = np.multiply.reduce(values[:, :whole].reshape(rows, _LOG_CHUNK, part), axis=1)
    total = np.add.reduce(np.log(products), 1)
    if whole < size:
        total += np.add.reduce(np.log(values[:, whole:]), 1)
    return np.asarray(total)


@dataclass(frozen=True)
class Logit(AbstractLink):
    """The paper's link: exp(β) is a ratio of odds of the interval hazard, no hazard ratio."""

    name = "logit"
    title = "logit"
    ratio_name = "hazard odds ratio"
    multiplies = "odds"
    few_intervals = 300
    canonical = True
    series = np.array([(-1.0) ** (k + 1) / k for k in range(1, _TERMS + 1)])
    series_radius = 0.05
    information_series = np.array([(-1.0) ** (k + 1) * k for k in range(1, _TERMS + 1)])
    information_radius = 0.05
    smoothness = 1.0

    def cost(self, v: FloatArray) -> FloatArray:
        return np.asarray(np.log1p(v))

    def at_risk(self, v: FloatArray) -> Terms:
        survives = 1.0 / (1.0 + v)
        hazard = v * survives
        return Terms(self.cost(v), hazard, hazard * survives)

    def at_risk_sum(
        self,
        v: FloatArray,
        room: tuple[FloatArray, FloatArray] | None = None,
        weight: FloatArray | None = None,
    ) -> tuple[float, FloatArray, FloatArray]:
        slope, survives = (np.empty_like(v), np.empty_like(v)) if room is None else room
        np.add(v, 1.0, out=survives)
        np.divide(1.0, survives, out=survives)
        np.multiply(v, survives, out=slope)
        cost = -_log_sums(survives)
        survives *= slope
        return float(np.add.reduce(cost) if weight is None else weight @ cost), slope, survives

    def event(self, v: FloatArray) -> Terms:
        survives = 1.0 / (1.0 + v)
        return Terms(np.log1p(1.0 / v), -survives, survives * (1.0 - survives))

    def information(self, v: FloatArray, out: FloatArray | None = None) -> FloatArray:
        return np.divide(v, (1.0 + v) ** 2, out=out)

    def hazard(self, theta: FloatArray) -> FloatArray:
        return np.asarray(expit(theta), dtype=np.float64)

    def intercept(self, hazard: FloatArray) -> FloatArray:
        return np.asarray(np.log(hazard) - np.log1p(-hazard), dtype=np.float64)


class AbstractAdditiveLink(AbstractLink):
    """A link whose f is v itself."""

    series = np.array([1.0])
    series_radius = np.inf

    def cost(self, v: FloatArray) -> FloatArray:
        return v

    def at_risk(self, v: FloatArray) -> Terms:
        return Terms(v, v, v)

    def at_risk_sum(
        self,
        v: FloatArray,
        room: tuple[FloatArray, FloatArray] | None = None,
        weight: FloatArray | None = None,
    ) -> tuple[float, FloatArray, FloatArray]:
        return float(v.sum() if weight is None else weight @ np.add.reduce(v, 1)), v, v


@dataclass(frozen=True)
class Log(AbstractAdditiveLink):
    """Hazard constant within a piece: exp(β) is a hazard ratio, as in Cox's model.

    v is the hazard summed over a whole piece, so that no unit of time enters.
    """

    name = "log"
    title = "log"
    ratio_name = "hazard ratio"
    grouped = False
    log_events = 1.0
    canonical = True
    information_series = np.array([1.0])
    information_radius = np.inf
    smoothness = np.inf

    def event(self, v: FloatArray) -> Terms:
        return Terms(-np.log(v), np.full_like(v, -1.0), np.zeros_like(v))

    def information(self, v: FloatArray, out: FloatArray | None = None) -> FloatArray:
        return np.positive(v, out=out)

    def hazard(self, theta: FloatArray) -> FloatArray:
        """Events expected of somebody at risk over the whole piece."""
        return np.asarray(np.exp(theta), dtype=np.float64)

    def intercept(self, hazard: FloatArray) -> FloatArray:
        return np.asarray(np.log(hazard), dtype=np.float64)

    def null_loss(self, at_risk: FloatArray, events: FloatArray) -> float:
        """Negative log-likelihood without covariates, at its optimum: rates d_k / E_k."""
        rate = np.divide(events, at_risk, out=np.zeros_like(at_risk), where=at_risk > 0)
        return float((events - xlogy(events, rate)).sum())


@dataclass(frozen=True)
class ComplementaryLogLog(AbstractAdditiveLink):
    """The grouped proportional-hazards link: a hazard ratio where intervals are narrow."""

    name = "cloglog"
    title = "complementary log-log"
    ratio_name = "hazard ratio"
    few_intervals = 60
    # v²/(exp(v) − 1) = Σ B_k v^(k+1) / k!, with B_k the Bernoulli numbers (B_1 = −1/2).
    information_series = bernoulli(_TERMS - 1) / _factorial(np.arange(_TERMS))
    information_radius = 0.5
    smoothness = 0.35  # of the information: f itself has no pole

    def event(self, v: FloatArray) -> Terms:
        # g' = −v/(exp(v) − 1); beyond 700 that is zero, and exp(v) no number.
        near = np.minimum(v, 700.0)
        ratio = near / np.expm1(near)
        return Terms(-np.log(-np.expm1(-v)), -ratio, ratio * (near + ratio - 1.0))

    def information(self, v: FloatArray, out: FloatArray | None = None) -> FloatArray:
        # v · v/(exp(v) − 1), which is zero both at v = 0 and from where exp(v) is no number.
        near = v if v.max(initial=0.0) <= 700.0 else np.minimum(v, 700.0)
        weight = np.maximum(near, _TINY, out=out)
        np.expm1(weight, out=weight)
        np.divide(near, weight, out=weight)
        weight *= near
        return weight

    def hazard(self, theta: FloatArray) -> FloatArray:
        return np.asarray(-np.expm1(-np.exp(theta)), dtype=np.float64)

    def intercept(self, hazard: FloatArray) -> FloatArray:
        return np.asarray(np.log(-np.log1p(-hazard)), dtype=np.float64)


LINKS: dict[str, AbstractLink] = {
    link.name: link for link in (Log(), ComplementaryLogLog(), Logit())
}

if TYPE_CHECKING:
    LinkName: TypeAlias = str
else:
    LinkName = Literal[tuple(LINKS)]
