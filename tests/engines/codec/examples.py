"""Real questions of every kind, and replies to them, that tests of the codec draw from."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from fedcox.engines.codec.questions import decode_questions, encode_questions
from fedcox.engines.codec.replies import decode_reply, encode_reply
from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.federation.batch import CellBatch, PatientBatch
from fedcox.federation.compression import (
    AbstractCodec,
    EightBit,
    ErrorFeedback,
    Float32,
    RandomPlaces,
    Sign,
    TopK,
)
from fedcox.federation.queries.bounded_sums import (
    NoisedEventMoments,
    NoisedInformationAt,
    NoisedLifeTable,
    NoisedMoments,
    NoisedProducts,
    NoisedScoreAt,
)
from fedcox.federation.queries.compressed_gradient import CompressedGradientAt, RandomEntriesAt
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.follow_up import LongestFollowUp
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.queries.local_steps import LocalLooks, LocalSteps, LocalTraining
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.queries.recorded_unit import FractionalTimes, RecordedUnit
from fedcox.federation.queries.stratified_cox import CoxSetting, StratifiedCoxAt
from fedcox.federation.queries.tile_counts import TileCounts
from fedcox.federation.queries.tile_moments import TileMoments
from fedcox.federation.query import AbstractQuery, Shared
from fedcox.federation.setting import Setting
from fedcox.privacy.noise import GaussianRelease
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.bounded_shares import ScoreMetric
from fedcox.survival.cohort import Cohort
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import Pieces, TimeGrid
from tests.engines.codec.network_questions import network_questions
from tests.problems import LINK_NAMES, READINGS, grids, simulated

PATIENTS, COLUMNS = 60, 3
COHORT = simulated(PATIENTS, COLUMNS, seed=4)
FEATURES = 4


def with_slides(cohort: Cohort) -> Cohort:
    """The same patients, each with one or two slides of a few tiles."""
    rng = np.random.default_rng(5)
    slides = tuple(
        tuple(
            SlideArray(rng.normal(size=(tiles, FEATURES)).astype(np.float16))
            for tiles in rng.integers(1, 6, rng.integers(1, 3))
        )
        for _ in range(cohort.patients)
    )
    return replace(cohort, bags=Bags(slides, FEATURES))


#: None at all, one alone, and some with values missing.
_COHORTS = {
    "sixty": COHORT,
    "nobody": Cohort(np.empty((0, COLUMNS)), np.empty(0), np.empty(0, dtype=np.bool_)),
    "one": Cohort(COHORT.covariates[:1], COHORT.time[:1], np.array([True])),
    "some missing": Cohort(
        np.where(np.arange(30)[:, None] % 7 == [0, 3, 5], np.nan, COHORT.covariates[:30]),
        COHORT.time[:30],
        COHORT.event[:30],
    ),
}
COHORTS = {name: with_slides(cohort) for name, cohort in _COHORTS.items()}
REGULAR = TimeGrid.regular(20.0, 150.0)  # the last interval ends early
GRIDS = {
    **grids(COHORT),
    "whole numbers": TimeGrid.regular(30, 120),
    "tenths": TimeGrid.regular(0.1, 1.7),
    "joined": TimeGrid(REGULAR.edges[1::3], 20.0, np.array([2, 5, 8])),
    "joined to the end": TimeGrid(REGULAR.edges[3::4], 20.0, np.array([4, 8])),
}
PIECES = Pieces(np.array([0.0, 3.0, 11.0, 40.0, 90.0, 150.0]), 1.0)
EXACT = {
    "pieces": PIECES,
    "exact pieces": Pieces(np.array([0.0, 2.5, 60.25])),
    "event times": Pieces(np.array([0.0, 3.0, 4.0, 50.0, 51.0]), 1.0).with_ties(
        np.array([0.0, 2.0, 0.0, 5.0])
    ),
}
SCALING = Scaling(np.array([0, 2]), np.array([0.1, -0.2]), np.array([1.1, 0.9]))
RELEASE = GaussianRelease(1.3, 0.5, sampling_rate=0.25, releases=40, fewest_centers=3)
#: Of one kind of several, which are accounted for together.
SHARED = GaussianRelease(2.6, 0.5, releases=2, fewest_centers=3, whole=1.3)
CODECS: tuple[AbstractCodec, ...] = (Float32(), EightBit(), Sign(), TopK(0.3))


def setting(**changed: Any) -> Setting:
    grid = changed.pop("grid", REGULAR)
    active = np.arange(grid.intervals) % 5 != 4
    if isinstance(grid, Pieces) and grid.ties is not None:
        active = grid.ties > 0
    return replace(Setting(grid, active, "half", LINKS["logit"], SCALING), **changed)


def point(agreed: Setting) -> tuple[Any, Any]:
    baseline = np.linspace(-2.5, -1.5, agreed.baseline_size)
    return baseline, np.linspace(-0.3, 0.4, agreed.columns)


def at(agreed: Setting, detail: Detail = Detail.GRADIENT, batch: Any = None) -> DerivativesAt:
    return DerivativesAt(agreed, *point(agreed), detail, batch)


def _settings() -> dict[str, Setting]:
    found = {
        f"{link}, {reading}": setting(link=LINKS[link], reading=reading)
        for link, reading in product(LINK_NAMES, READINGS)
    }
    found |= {f"on {name}": setting(grid=grid) for name, grid in GRIDS.items()}
    found |= {
        f"log, {name}": setting(grid=grid, link=LINKS["log"], reading="include")
        for name, grid in EXACT.items()
    }
    smooth = found["log, pieces"]
    found["log, smooth"] = setting(
        grid=PIECES,
        link=LINKS["log"],
        reading="include",
        basis=np.linspace(-1.0, 1.0, 3 * smooth.intervals).reshape(-1, 3),
    )
    found["all columns"] = setting(scaling=Scaling.none(COLUMNS))
    return found


SETTINGS = _settings()


def _bounded_sums() -> dict[str, AbstractQuery[Any]]:
    agreed = SETTINGS["log, pieces"]
    metric = ScoreMetric(
        np.linspace(3.0, 9.0, agreed.intervals),
        np.linspace(-0.3, 0.1, 2 * agreed.intervals).reshape(-1, 2),
        np.array([[0.3, 0.01], [0.01, 0.2]]),
    )
    return {
        "noised life table": NoisedLifeTable(PIECES, replace(SHARED, releases=1)),
        "noised life table, exact times": NoisedLifeTable(EXACT["exact pieces"], SHARED),
        "noised moments": NoisedMoments(SCALING, np.array([True, False]), SHARED),
        "noised products": NoisedProducts(SCALING, 2.4, SHARED),
        "noised event moments": NoisedEventMoments(agreed, 2.4, SHARED),
        "noised score": NoisedScoreAt(agreed, *point(agreed), metric, 0.4, SHARED),
        "noised information": NoisedInformationAt(
            agreed, *point(agreed), metric, 0.4, 0.7, SHARED
        ),
    }


def _questions() -> dict[str, AbstractQuery[Any]]:
    agreed = SETTINGS["cloglog, half"]
    arrays = np.array([0.1, 0.0]), np.ones(agreed.intervals + 2)
    training = LocalTraining(agreed, "sgd", LocalLooks(3), *arrays)
    drawn = LocalLooks(3, cells=50)
    cells = replace(training, descent="adam", plan=drawn, seed=2**100, setting_sent=True)
    cox = CoxSetting(SCALING, "efron")
    patients = PatientBatch(1, 2, 50, PATIENTS)
    some = CellBatch(2**70, 3, 400, PATIENTS, agreed.intervals)
    beta = np.array([0.3, -0.4])
    return {
        "sums": CovariateSums(),
        "scatter": CovariateScatter(np.array([0.5, -0.25, -1e30])),
        **{f"counts on {name}": IntervalCounts(grid, "half") for name, grid in GRIDS.items()},
        **{f"counts, {reading}": IntervalCounts(REGULAR, reading) for reading in READINGS},
        "outcomes": OutcomeCounts(),
        "event times": EventTimes(),
        "event times up to": EventTimes(90),
        "follow-up": LongestFollowUp(),
        "last interval": LastInterval(REGULAR),
        "last piece": LastInterval(PIECES),
        "recorded unit": RecordedUnit(),
        "fractional times": FractionalTimes(),
        "counts on pieces": IntervalCounts(PIECES, "include"),
        **{
            f"{detail.value} by {name}": at(each, detail)
            for (name, each), detail in product(SETTINGS.items(), Detail)
        },
        "of patients": at(agreed, Detail.HESSIAN, patients),
        "of cells": at(agreed, Detail.GRADIENT, some),
        **{f"Cox {detail.value}": StratifiedCoxAt(cox, beta, detail) for detail in Detail},
        "Cox, a batch": StratifiedCoxAt(
            CoxSetting(SCALING, "breslow"), beta, Detail.GRADIENT, patients
        ),
        "local steps": LocalSteps(training, *point(agreed), 0.25, 7),
        "local steps on cells": LocalSteps(cells, *point(agreed), 1e-3, 1),
        **_bounded_sums(),
        **{
            f"compressed by {type(codec).__name__}": CompressedGradientAt(
                at(agreed, batch=patients), 9, codec
            )
            for codec in CODECS
        },
        "compressed, what is lost comes later": CompressedGradientAt(
            at(agreed), 1, EightBit(), ErrorFeedback()
        ),
        "random entries": RandomEntriesAt(
            at(agreed), 1, RandomPlaces(0.3, 2**64), ErrorFeedback()
        ),
        "tile counts": TileCounts(),
        "tile moments": TileMoments(FEATURES),
        **network_questions(agreed, RELEASE, population=PATIENTS, columns=COLUMNS),
    }


QUESTIONS = _questions()


def question_message(*queries: AbstractQuery[Any]) -> bytes:
    return to_bytes(encode_questions(queries, ()))


def questions_in(
    message: bytes, settings: dict[bytes, Shared] | None = None
) -> list[AbstractQuery[Any]]:
    return decode_questions(
        from_bytes(message), {} if settings is None else settings, columns=COLUMNS
    )


def reply_message(query: AbstractQuery[Any], answer: Any) -> bytes:
    return to_bytes(encode_reply(query, answer))


def reply_in(query: AbstractQuery[Any], message: bytes) -> Any:
    return decode_reply(query, from_bytes(message), COLUMNS)


def parts_of(value: Any) -> list[Any]:
    """The public parts of a question, a setting or a reply; none of a plain value."""
    if is_dataclass(value):
        names = [part.name for part in fields(value) if not part.name.startswith("_")]
        return [getattr(value, name) for name in names]
    return list(value) if isinstance(value, tuple) else []


def bits(value: Any) -> Any:
    """Every bit of a value, and the types of its parts."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return struct.pack("<d", value)
    if is_dataclass(value) or isinstance(value, tuple):
        return type(value).__name__, [bits(part) for part in parts_of(value)]
    return type(value).__name__, value


def outline(value: Any) -> Any:
    """A value without its numbers: classes, and shapes of arrays."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape
    return type(value).__name__, [outline(part) for part in parts_of(value)]
