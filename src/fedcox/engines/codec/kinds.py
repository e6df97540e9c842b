"""Which questions may travel, of what they are made, and what the reply to each must be.

A question that is not here is neither sent nor answered. To add one, write a row of QUESTIONS;
to let it hold something new, a row of PARTS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fedcox.engines.codec import network_rules, rules
from fedcox.engines.codec.rules import Rule, nothing
from fedcox.federation.batch import (
    CellBatch,
    EpochBatch,
    EpochCells,
    HeldOut,
    PatientBatch,
)
from fedcox.federation.compression import (
    AbstractCodec,
    EightBit,
    ErrorFeedback,
    Float32,
    RandomPlaces,
    Sign,
    TopK,
)
from fedcox.federation.network_setting import NetworkSetting
from fedcox.federation.queries.baseline_slopes import BaselineSlopesAt
from fedcox.federation.queries.bounded_sums import (
    AbstractBoundedSum,
    NoisedEventMoments,
    NoisedInformationAt,
    NoisedLifeTable,
    NoisedMoments,
    NoisedProducts,
    NoisedScoreAt,
)
from fedcox.federation.queries.clipped_network_gradient import (
    ClippedNetworkGradientAt,
    ClippedNetworkSum,
)
from fedcox.federation.queries.compressed_gradient import CompressedGradientAt, RandomEntriesAt
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import ColumnSums, CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.follow_up import LongestFollowUp
from fedcox.federation.queries.interval_counts import Counts, IntervalCounts
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.queries.local_steps import LocalEnds, LocalSteps, LocalTraining
from fedcox.federation.queries.network_gradient import NetworkGradientAt
from fedcox.federation.queries.network_loss import HeldOutLoss, NetworkLossAt
from fedcox.federation.queries.network_steps import NetworkEnds, NetworkSteps, NetworkTraining
from fedcox.federation.queries.outcome_counts import OutcomeCounts, Outcomes
from fedcox.federation.queries.recorded_unit import (
    UNITS,
    CommonUnit,
    FractionalTimes,
    RecordedUnit,
    WholeTimes,
)
from fedcox.federation.queries.stratified_cox import CoxSetting, StratifiedCoxAt
from fedcox.federation.queries.tile_counts import PatientsAndTiles, TileCounts
from fedcox.federation.queries.tile_moments import TileMoments, TileMomentSums
from fedcox.federation.query import AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.models.architecture import (
    AbstractArchitecture,
    Perceptron,
    TileScorer,
    TileScorerWithTable,
)
from fedcox.models.network_sum import NetworkSum
from fedcox.privacy.noise import GaussianRelease
from fedcox.survival.bounded_shares import ScoreMetric
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Curvature, Derivatives, Detail
from fedcox.survival.event_pieces import EXACT
from fedcox.survival.link import AbstractLink, ComplementaryLogLog, Log, Logit
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import Pieces, TimeGrid

#: What questions refer to: a center gets it once, and knows it by name from then on.
Shared: TypeAlias = (
    Setting | LocalTraining | CoxSetting | NetworkSetting | NetworkTraining | ErrorFeedback
)
SHARED: tuple[type[Shared], ...] = (
    Setting,
    LocalTraining,
    CoxSetting,
    NetworkSetting,
    NetworkTraining,
    ErrorFeedback,
)

#: Which classes may stand where an abstract one is declared.
FINAL: Mapping[type, tuple[type, ...]] = {
    AbstractLink: (Log, ComplementaryLogLog, Logit),
    AbstractCodec: (Float32, EightBit, Sign, TopK),
    AbstractArchitecture: (TileScorer, TileScorerWithTable, Perceptron),
}

#: All numbers are finite but these.
MAY_BE_INFINITE: frozenset[tuple[type, str]] = frozenset({(EventTimes, "horizon")})

#: A reply's arrays by the names of their fields, "" for a reply that is one array: the shape of
#: each, any length where it says None, or None for an array that must not be there.
Shapes: TypeAlias = Mapping[str, tuple[int | None, ...] | None]

PARTS: Mapping[type, Rule] = {
    TimeGrid: rules.of_grid,
    Pieces: rules.of_pieces,
    Scaling: rules.of_scaling,
    Setting: rules.of_setting,
    CoxSetting: nothing,
    LocalTraining: rules.of_training,
    ErrorFeedback: nothing,
    Log: nothing,
    ComplementaryLogLog: nothing,
    Logit: nothing,
    PatientBatch: rules.of_patient_batch,
    CellBatch: rules.of_cell_batch,
    EpochBatch: network_rules.of_epoch_batch,
    EpochCells: network_rules.of_epoch_cells,
    HeldOut: network_rules.of_held_out,
    TileScorer: network_rules.of_tile_scorer,
    TileScorerWithTable: network_rules.of_tile_scorer,
    Perceptron: network_rules.of_perceptron,
    NetworkSetting: network_rules.of_setting,
    NetworkTraining: network_rules.of_training,
    GaussianRelease: rules.of_release,
    ScoreMetric: rules.of_metric,
    RandomPlaces: rules.of_places,
    Float32: nothing,
    EightBit: nothing,
    Sign: nothing,
    TopK: nothing,
    Derivatives: nothing,
    Curvature: nothing,
    ColumnSums: rules.of_column_sums,
    Counts: rules.of_counts,
    CommonUnit: nothing,
    WholeTimes: rules.of_whole_times,
    Outcomes: rules.of_outcomes,
    LocalEnds: rules.of_local_ends,
    NetworkSum: nothing,
    HeldOutLoss: network_rules.of_counted,
    NetworkEnds: network_rules.of_counted,
    ClippedNetworkSum: nothing,
    PatientsAndTiles: rules.of_patients_and_tiles,
    TileMomentSums: rules.of_patients_and_tiles,
}


def _no_arrays(query: object, columns: int | None) -> Shapes:
    return {}


def _any_reply(query: object, reply: object) -> Iterator[str]:
    return iter(())


@dataclass(frozen=True)
class Kind:
    """One kind of question.

    `rule` says what must agree in it. `reply` is the type of what comes back, `shapes` the
    shapes of its arrays for a question and the patients' number of columns, and `fits` what
    else of a reply must agree with the question.
    """

    rule: Rule
    reply: Any
    shapes: Callable[[Any, int | None], Shapes] = _no_arrays
    fits: Callable[[Any, Any], Iterator[str]] = _any_reply


def _derivatives(
    intervals: int, columns: int, detail: Detail, *, spline: bool = False
) -> Shapes:
    gradient: Shapes = {"alpha": (intervals,), "beta": (columns,)}
    if detail is Detail.GRADIENT:
        return {**gradient, "curvature": None}
    whole = detail in (Detail.HESSIAN, Detail.INFORMATION)
    return {
        **gradient,
        "curvature: alpha": (intervals, intervals) if whole and spline else (intervals,),
        "curvature: cross": (intervals, columns) if whole else None,
        "curvature: beta": (columns,) if detail is Detail.DIAGONAL else (columns, columns),
    }


def _of_point(query: Any, columns: int | None) -> Shapes:
    return {"alpha": query.alpha.shape, "beta": query.beta.shape}


def _of_bounded_sum(query: AbstractBoundedSum, columns: int | None) -> Shapes:
    return {"": (query.size,)}


def _of_intervals(query: IntervalCounts, columns: int | None) -> Shapes:
    return dict.fromkeys(("reached", "at_risk", "events"), query.grid.edges.shape)


def _times(query: EventTimes, reply: FloatArray) -> Iterator[str]:
    if not ((reply > 0) & (reply <= query.horizon)).all() or (np.diff(reply) <= 0).any():
        yield "the times must increase, from above zero to the horizon"


def _unit(query: RecordedUnit, reply: CommonUnit) -> Iterator[str]:
    if (reply.unit < 0 and reply.unit != EXACT) or reply.longest < 0:
        yield "a unit or a time is not below zero"


def _follow_up(query: LongestFollowUp, reply: float) -> Iterator[str]:
    if reply < 0:
        yield "a time is not below zero"


def _cell(query: LastInterval, reply: int) -> Iterator[str]:
    if not 0 <= reply <= query.cells:
        yield "there is no such interval"


QUESTIONS: Mapping[type[AbstractQuery[Any]], Kind] = {
    CovariateSums: Kind(
        nothing,
        ColumnSums,
        lambda query, columns: dict.fromkeys(("present", "total"), (columns,)),
    ),
    CovariateScatter: Kind(
        rules.of_scatter, FloatArray, lambda query, columns: {"": 2 * query.mean.shape}
    ),
    IntervalCounts: Kind(nothing, Counts, _of_intervals),
    OutcomeCounts: Kind(nothing, Outcomes),
    EventTimes: Kind(
        rules.of_event_times, FloatArray, lambda query, columns: {"": (None,)}, _times
    ),
    LongestFollowUp: Kind(nothing, float, fits=_follow_up),
    LastInterval: Kind(nothing, int, fits=_cell),
    RecordedUnit: Kind(nothing, CommonUnit, fits=_unit),
    FractionalTimes: Kind(
        nothing,
        WholeTimes,
        lambda query, columns: dict.fromkeys(("whole", "even"), (len(UNITS),)),
    ),
    DerivativesAt: Kind(
        rules.of_derivatives_at,
        Derivatives,
        lambda query, columns: _derivatives(
            query.alpha.size,
            query.beta.size,
            query.detail,
            spline=query.agreed.basis is not None,
        ),
    ),
    StratifiedCoxAt: Kind(
        rules.of_cox,
        Derivatives,
        lambda query, columns: _derivatives(0, query.beta.size, query.detail),
    ),
    LocalSteps: Kind(rules.of_local_steps, LocalEnds, _of_point),
    NoisedLifeTable: Kind(nothing, FloatArray, _of_bounded_sum),
    NoisedMoments: Kind(rules.of_moments, FloatArray, _of_bounded_sum),
    NoisedProducts: Kind(rules.of_capped, FloatArray, _of_bounded_sum),
    NoisedEventMoments: Kind(rules.of_capped, FloatArray, _of_bounded_sum),
    NoisedInformationAt: Kind(rules.of_information, FloatArray, _of_bounded_sum),
    NoisedScoreAt: Kind(rules.of_score, FloatArray, _of_bounded_sum),
    CompressedGradientAt: Kind(rules.of_compressed, bytes),
    RandomEntriesAt: Kind(rules.of_compressed, bytes),
    NetworkGradientAt: Kind(
        network_rules.of_gradient, NetworkSum, network_rules.network_shapes
    ),
    NetworkLossAt: Kind(network_rules.of_point, HeldOutLoss, fits=network_rules.held_out_fits),
    NetworkSteps: Kind(network_rules.of_steps, NetworkEnds, network_rules.network_shapes),
    ClippedNetworkGradientAt: Kind(
        network_rules.of_point, ClippedNetworkSum, network_rules.network_shapes
    ),
    BaselineSlopesAt: Kind(
        network_rules.of_baseline,
        Derivatives,
        lambda query, columns: _derivatives(query.alpha.size, 1, query.detail),
    ),
    TileCounts: Kind(nothing, PatientsAndTiles),
    TileMoments: Kind(
        rules.of_tile_moments,
        TileMomentSums,
        lambda query, columns: {"upper": (query.features * (query.features + 1) // 2,)},
    ),
}

RULES: Mapping[type, Rule] = {
    **PARTS,
    **{question: kind.rule for question, kind in QUESTIONS.items()},
}
