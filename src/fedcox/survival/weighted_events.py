"""A link around a link: every event counts more than once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedcox.survival.cohort import FloatArray
from fedcox.survival.link import AbstractLink, Terms

#: What weights of events do not change.
_AS_THE_LINK = (
    *("name", "title", "multiplies", "grouped", "series", "series_radius", "smoothness"),
    *("information_series", "information_radius"),
)


@dataclass(frozen=True)
class WeightedEvents(AbstractLink):
    """`link` with every event counted `weight` times: the label-balanced loss.

    Most cells are without an event. Weighting the few with one by the ratio of cells without
    to cells with an event gives both kinds the same say in the loss (the paper, appendix C).
    What is minimised is then no likelihood: it ranks patients, and has no ratios or standard
    errors. It calls itself canonical so that its information is the observed Hessian, the only
    curvature such a loss has.
    """

    link: AbstractLink
    weight: float

    canonical = True
    numbers = 2
    ratio_name = "score of a weighted loss"

    def __post_init__(self) -> None:
        for name in _AS_THE_LINK:
            object.__setattr__(self, name, getattr(self.link, name))
        if self.link.log_events is not None:
            object.__setattr__(self, "log_events", self.weight * self.link.log_events)

    def cost(self, v: FloatArray) -> FloatArray:
        return self.link.cost(v)

    def at_risk(self, v: FloatArray) -> Terms:
        return self.link.at_risk(v)

    def at_risk_sum(
        self,
        v: FloatArray,
        room: tuple[FloatArray, FloatArray] | None = None,
        weight: FloatArray | None = None,
    ) -> tuple[float, FloatArray, FloatArray]:
        return self.link.at_risk_sum(v, room, weight)

    def event(self, v: FloatArray) -> Terms:
        cost, slope, curvature = self.link.event(v)
        return Terms(self.weight * cost, self.weight * slope, self.weight * curvature)

    def information(self, v: FloatArray, out: FloatArray | None = None) -> FloatArray:
        return self.link.information(v, out)

    def hazard(self, theta: FloatArray) -> FloatArray:
        return self.link.hazard(theta)

    def intercept(self, hazard: FloatArray) -> FloatArray:
        """The θ that is best for cells of which the share `hazard` have the event."""
        weighted = self.weight * hazard
        if not self.grouped:  # an event's time at risk is counted beside it, and but once
            return self.link.intercept(weighted)
        return self.link.intercept(weighted / (1.0 - hazard + weighted))

    def null_loss(self, at_risk: FloatArray, events: FloatArray) -> float:
        """The weighted loss without covariates, at its optimum."""
        more = (self.weight - 1.0) * events
        if not self.grouped:
            return self.link.null_loss(at_risk, np.asarray(events + more))
        return self.link.null_loss(np.asarray(at_risk + more), np.asarray(events + more))
