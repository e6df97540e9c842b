"""What whoever runs a study sees: every center's replies or only their sum, point by point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from fedcox.federation.ledger import Ledger
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.interval_counts import Counts
from fedcox.federation.query import AbstractFederation, AbstractQuery, Answer, Federation
from fedcox.federation.setting import Setting
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail

#: The source of a reply where only the sum over centers is seen.
ALL_CENTERS = "all centers"
#: Points of a long fit that are looked at; more tell little that is new.
MOST_POINTS = 400


@dataclass(frozen=True, eq=False)
class ObservedAnswers:
    """One question, and what came back from each source."""

    query: AbstractQuery[Any]
    replies: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Observer:
    """A coordinator that looks at replies as closely as it can.

    Where centers are shown, each of them is a source; else there is one, their sum. A center
    that refuses raises `RefusedError`.
    """

    federation: Federation

    def replies(self, query: AbstractQuery[Answer]) -> dict[str, Answer]:
        """The replies to one question by source: one round."""
        if not self.federation.shows_centers:
            return {ALL_CENTERS: self.federation.ask(query)}
        (by_center,) = self.federation.ask_together([], each=[query])
        return dict(by_center)


@dataclass(frozen=True, eq=False)
class Recorder(AbstractFederation):
    """A federation around a federation that keeps every message an ordinary fit gets.

    `settings` holds what was agreed on, refused questions included.
    """

    federation: Federation
    exchanges: list[ObservedAnswers] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return self.federation.names

    @property
    def ledger(self) -> Ledger:
        return self.federation.ledger

    @property
    def shows_centers(self) -> bool:
        return self.federation.shows_centers

    def ask_together(
        self, queries: Sequence[AbstractQuery[Any]], each: Sequence[AbstractQuery[Any]] = ()
    ) -> list[Any]:
        agreed = (query.setting for query in (*queries, *each))
        self.settings.extend(setting for setting in agreed if isinstance(setting, Setting))
        if not self.shows_centers:
            totals = self.federation.ask_together(queries, each)
            for query, total in zip(queries, totals, strict=True):
                self._keep(query, {ALL_CENTERS: total})
            return totals
        # Whoever sees every reply adds them up; asking for all of them shows no more.
        by_query = self.federation.ask_together([], [*queries, *each])
        for query, replies in zip([*queries, *each], by_query, strict=True):
            self._keep(query, replies)
        totals = [
            reduce(query.combine, replies.values())
            for query, replies in zip(queries, by_query, strict=False)
        ]
        return totals + by_query[len(queries) :]

    def _keep(self, query: AbstractQuery[Any], replies: Mapping[str, Any]) -> None:
        self.exchanges.append(ObservedAnswers(query, dict(replies)))


@dataclass(frozen=True, eq=False)
class LifeTable:
    """At risk and events in each fitted interval, of one source."""

    patients: int
    at_risk: FloatArray  # (intervals,)
    events: IntArray  # (intervals,)

    @classmethod
    def of(cls, counts: Counts, setting: Setting) -> LifeTable:
        active = setting.active
        events = np.rint(counts.events[active]).astype(np.int64)
        return cls(counts.patients, counts.at_risk[active], events)

    @property
    def leaving(self) -> FloatArray:
        """How many are at risk in an interval and no longer in the next fitted one."""
        return np.asarray(self.at_risk - np.append(self.at_risk[1:], 0.0))


@dataclass(frozen=True, eq=False)
class ObservedSums:
    """Sums at many points, stacked; curvature only where it was sent.

    `curved` and `crossed` are the points with α's curvature and with the time × covariate
    block; `expected` marks points whose curvature is the expected information.
    """

    alpha: FloatArray  # (points, intervals)
    beta: FloatArray  # (points, columns)
    slope: FloatArray  # (points, intervals)
    beta_slope: FloatArray  # (points, columns)
    expected: BoolArray  # (points,)
    curved: IntArray
    curvature: FloatArray  # (curved, intervals)
    crossed: IntArray
    cross: FloatArray  # (crossed, intervals, columns)

    @property
    def points(self) -> int:
        return int(self.alpha.shape[0])

    def less(self, other: ObservedSums) -> ObservedSums:
        """These sums without those of patients who are known already."""
        return replace(
            self,
            slope=self.slope - other.slope,
            beta_slope=self.beta_slope - other.beta_slope,
            curvature=self.curvature - other.curvature,
            cross=self.cross - other.cross,
        )


@dataclass(frozen=True, eq=False)
class ObservedSource:
    """One center, or all of them together, as the coordinator knows it after a fit."""

    setting: Setting
    table: LifeTable
    sums: ObservedSums


def sources(
    exchanges: Sequence[ObservedAnswers], setting: Setting, tables: Mapping[str, LifeTable]
) -> dict[str, ObservedSource]:
    """Put a fit's messages together, source by source.

    Points that were asked for a batch of patients are left out: see `single_patients.py`.
    """
    asked = [exchange for exchange in exchanges if _whole(exchange, setting)]
    if len(asked) > MOST_POINTS:
        chosen = np.linspace(0, len(asked) - 1, MOST_POINTS).astype(int)
        asked = [asked[number] for number in chosen]
    if not asked:
        return {}
    return {
        name: ObservedSource(setting, table, _stacked_sums(asked, name))
        for name, table in tables.items()
    }


def _whole(exchange: ObservedAnswers, setting: Setting) -> bool:
    query = exchange.query
    return isinstance(query, DerivativesAt) and query.agreed is setting and query.batch is None


def _stacked_sums(asked: Sequence[ObservedAnswers], name: str) -> ObservedSums:
    points = [point for exchange in asked if (point := exchange.query.point) is not None]
    sums: list[Derivatives] = [exchange.replies[name] for exchange in asked]
    intervals, columns = points[0][0].size, points[0][1].size
    curvatures: list[Curvature | None] = [part.curvature for part in sums]
    curved = [(at, part) for at, part in enumerate(curvatures) if part is not None]
    crossed = [(at, part.cross) for at, part in curved if part.cross is not None]
    return ObservedSums(
        alpha=np.array([alpha for alpha, _ in points]),
        beta=np.array([beta for _, beta in points]),
        slope=np.array([part.alpha for part in sums]),
        beta_slope=np.array([part.beta for part in sums]),
        expected=np.array([_expected(exchange) for exchange in asked]),
        curved=np.array([at for at, _ in curved], dtype=np.int64),
        curvature=np.array([part.alpha for _, part in curved]).reshape(-1, intervals),
        crossed=np.array([at for at, _ in crossed], dtype=np.int64),
        cross=np.array([part for _, part in crossed]).reshape(-1, intervals, columns),
    )


def _expected(exchange: ObservedAnswers) -> bool:
    query = exchange.query
    return isinstance(query, DerivativesAt) and query.detail is Detail.INFORMATION
