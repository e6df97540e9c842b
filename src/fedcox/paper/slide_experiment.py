"""Folds of patients with slides: reduce, train and judge, each fold without its test patients.

The reducer is fitted on the training folds alone. Second moments of tile features add up, so
every fold's are asked for once and the other folds' are added: the same sums as of a question
to the training patients, at a fifth of the work.

DT-FL is trained over the centers; MINI, the paper's baseline, is the same tile scorer under
Cox's loss on minibatches of pooled slides.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from time import perf_counter

import numpy as np

from fedcox.engines.in_process import InProcess
from fedcox.errors import CohortError
from fedcox.evaluation.folds import TestSet, fold_numbers, fold_test_set
from fedcox.evaluation.held_out import held_out_patients, training_federation
from fedcox.evaluation.result import Row
from fedcox.evaluation.scheme import TrainingTraffic
from fedcox.evaluation.seeds import derived_seed
from fedcox.federation.queries.tile_moments import TileMoments, TileMomentSums
from fedcox.models.architecture import TileScorer
from fedcox.paper.reproduction import Progress, silent
from fedcox.paper.slide_study import DISCRETE, MINI
from fedcox.slides.feature_files import LARGEST_FEATURE
from fedcox.slides.reduction import (
    Reducer,
    ReducerFacts,
    Reduction,
    check_numbers,
    reducer_from_moments,
)
from fedcox.slides.tile_scores import ScoreScale
from fedcox.solvers.adam import NetworkAdam
from fedcox.study.plan import NetworkPlan
from fedcox.study.training import threads_for, train_network
from fedcox.survival.bags import Bags, SlideArray, SlideFeatures
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.concordance import concordance_index
from fedcox.survival.descent import AdamDescent


@dataclass(frozen=True)
class SlideMinibatch:
    """How MINI is trained; the numbers are the paper's.

    Batches of 30 slides without replacement, 20 epochs, Adam with a learning rate of 0.001.
    Every slide is a sample of its own; the risk set of an event is what the batch holds of it.
    A batch without an event teaches nothing and moves nothing.
    """

    epochs: int = 20
    batch_size: int = 30
    learning_rate: float = 1e-3
    hidden: int = 128

    def train(self, patients: Cohort, *, seed: int) -> TileRisk:
        """Adam on all patients' slides; `seed` decides the start and the batches."""
        from fedcox.models.modules import start
        from fedcox.models.neural import NeuralModel

        slides = _slide_by_slide(patients)
        if not slides.event.any():
            raise CohortError("No training patient has an event.")
        architecture = TileScorer(_bags(slides).features, self.hidden)
        model = NeuralModel(architecture, "logit", 0)
        samples = model.lay_out(slides, None)
        theta = start(architecture, seed)
        adam, rng = AdamDescent(theta.size), np.random.default_rng(seed)
        for _ in range(self.epochs):
            order = rng.permutation(slides.patients)
            for first in range(0, slides.patients, self.batch_size):
                batch = order[first : first + self.batch_size]
                if slides.event[batch].any():
                    gradient = model.cox_gradient(theta, samples, batch)
                    adam.step(theta, gradient.beta / batch.size, self.learning_rate)
        return TileRisk(architecture, theta)


@dataclass(frozen=True, eq=False)
class TileRisk:
    """A trained tile scorer: risk of patients, scores of tiles, both times `slope`."""

    architecture: TileScorer
    theta: FloatArray
    slope: float = 1.0

    def tile_scores(self, slides: Sequence[SlideFeatures]) -> list[FloatArray]:
        """The exact score of every tile, one array for each slide."""
        from fedcox.models.tile_scorer import tile_scores

        return [
            self.slope * tile_scores(slide.read(), self.architecture, self.theta)
            for slide in slides
        ]

    def risk(self, patients: Cohort) -> FloatArray:
        """The mean over a patient's slides of the mean over their tiles; higher is worse."""
        means = [
            [float(scores.mean()) for scores in self.tile_scores(slides)]
            for slides in _bags(patients).slides
        ]
        return np.array([np.mean(slides) for slides in means])


def _slide_by_slide(patients: Cohort) -> Cohort:
    """Every slide as if it were a patient of its own, with the patient's outcome."""
    bags = _bags(patients)
    owner = [row for row, slides in enumerate(bags.slides) for _ in slides]
    return Cohort(
        np.empty((len(owner), 0)),
        patients.time[owner],
        patients.event[owner],
        bags=Bags(tuple((slide,) for slides in bags.slides for slide in slides), bags.features),
    )


def _bags(patients: Cohort) -> Bags:
    if patients.bags is None:
        raise CohortError("These patients have no slides.")
    return patients.bags


@dataclass(frozen=True)
class SlideRecipe:
    """How a fold is reduced and trained; the numbers are the paper's, appendix C.3.

    The paper's batches hold 100 stacked rows, one for each slide and interval at risk. Batches
    here hold patients, as many as have `batch_rows` rows on average: the same number of steps
    with the network computed once per slide.
    """

    width: float = 30.0
    epochs: int = 25
    batch_rows: int = 100
    learning_rate: float = 1e-3
    reduced: int = 256
    whitened: bool = False
    mini: SlideMinibatch = field(default_factory=SlideMinibatch)

    def batch_size(self, cohorts: Mapping[str, Cohort]) -> int:
        """Patients whose slides have about `batch_rows` stacked rows."""
        rows = patients = 0
        for cohort in cohorts.values():
            patients += cohort.patients
            slides = [len(each) for each in _slides(cohort)]
            rows += int(np.dot(np.ceil(cohort.time / self.width), slides)) if slides else 0
        return max(1, round(self.batch_rows * patients / max(rows, 1)))


@dataclass(frozen=True, eq=False)
class SlidePatients:
    """Patients of every center with the encoder's features, and the names of their slides."""

    cohorts: Mapping[str, Cohort]
    slide_ids: Mapping[str, tuple[tuple[str, ...], ...]]

    @property
    def features(self) -> int:
        """Numbers that the encoder gives for a tile."""
        for cohort in self.cohorts.values():
            if cohort.bags is not None:
                return cohort.bags.features
        raise CohortError("These patients have no slides.")

    def held_out(self, test_set: TestSet) -> dict[str, SlideFeatures]:
        """The slides of a test set, by name."""
        return {
            slide_id: slide
            for name, cohort in self.cohorts.items()
            if cohort.bags is not None
            for row in np.flatnonzero(test_set[name])
            for slide_id, slide in zip(
                self.slide_ids[name][row], cohort.bags.slides[row], strict=True
            )
        }


@dataclass(frozen=True, eq=False)
class JudgedFold:
    """One fold: a row for each scheme, and DT-FL's tile scores of the test patients' slides.

    `scale` is that of the training patients' tiles.
    """

    seed: int
    fold: int
    rows: tuple[Row, Row]
    scores: Mapping[str, FloatArray]
    scale: ScoreScale
    seconds: Mapping[str, float]


def judged_folds(
    patients: SlidePatients,
    recipe: SlideRecipe,
    *,
    folds: int,
    seeds: Sequence[int],
    progress: Progress = silent,
) -> Iterator[JudgedFold]:
    """Every fold of every run, one after the other."""
    total, done = folds * len(seeds), 0
    for seed in seeds:
        numbers = fold_numbers(patients.cohorts, folds, seed=seed)
        tests = [fold_test_set(numbers, fold) for fold in range(1, folds + 1)]
        progress(done, total, f"run {seed + 1}: moments of tiles")
        begun = perf_counter()
        moments = [_moments(patients, test) for test in tests]
        share = (perf_counter() - begun) / folds
        for fold, test in enumerate(tests, 1):
            progress(done, total, f"run {seed + 1}, fold {fold}: reducing")
            begun = perf_counter()
            others = moments[: fold - 1] + moments[fold:]
            reduced = with_reduced(
                patients, _reducer(reduce(operator.add, others), recipe, patients)
            )
            reducing = share + perf_counter() - begun

            def tell(words: str, done: int = done, fold: int = fold, seed: int = seed) -> None:
                progress(done, total, f"run {seed + 1}, fold {fold}: {words}")

            with threads_for(reduced.cohorts.values(), os.cpu_count()):
                judged = _judged(reduced, recipe, test, (seed, fold), tell)
            yield replace(judged, seconds={"reduce": reducing, **judged.seconds})
            done += 1
    progress(total, total, "")


def _moments(patients: SlidePatients, test: TestSet) -> TileMomentSums:
    """Of the patients of one fold, asked of the centers that have any."""
    parts = {name: cohort.take(test[name]) for name, cohort in patients.cohorts.items()}
    federation = InProcess.from_cohorts({n: part for n, part in parts.items() if part.patients})
    return federation.ask(TileMoments(patients.features))


def _reducer(sums: TileMomentSums, recipe: SlideRecipe, patients: SlidePatients) -> Reducer:
    plan = Reduction(patients.features, recipe.reduced, recipe.whitened)
    check_numbers(plan, sums.patients, sums.tiles)
    facts = ReducerFacts(patients=sums.patients, whitened=recipe.whitened)
    return reducer_from_moments(sums.second, sums.tiles, recipe.reduced, facts)


def with_reduced(patients: SlidePatients, reducer: Reducer) -> SlidePatients:
    """The same patients with reduced features, in memory as half floats, as files keep them."""
    cohorts = {}
    for name, cohort in patients.cohorts.items():
        slides = tuple(
            tuple(_half(reducer, slide) for slide in slides) for slides in _slides(cohort)
        )
        cohorts[name] = replace(cohort, bags=Bags(slides, reducer.size))
    return SlidePatients(cohorts, patients.slide_ids)


def _half(reducer: Reducer, slide: SlideFeatures) -> SlideArray:
    reduced = reducer.apply(slide.read())
    if np.abs(reduced).max() > LARGEST_FEATURE:
        raise CohortError(
            "Reduced features are larger than a half float holds.",
            ["Use an encoder whose features are scaled."],
        )
    return SlideArray(reduced.astype(np.float16))


def _judged(
    patients: SlidePatients,
    recipe: SlideRecipe,
    test: TestSet,
    place: tuple[int, int],
    tell: Callable[[str], None],
) -> JudgedFold:
    """Train both schemes outside the test set and compare them inside."""
    seed, fold = place
    federation = training_federation(patients.cohorts, test)
    tested = held_out_patients(patients.cohorts, test)
    tell(MINI)
    begun = perf_counter()
    pooled = Cohort.joined([center.cohort for center in federation.centers])
    mini = recipe.mini.train(pooled, seed=derived_seed(seed, "folds", fold, MINI))
    middle = perf_counter()
    tell(DISCRETE)
    ours, traffic = _discrete(federation, recipe, derived_seed(seed, "folds", fold, DISCRETE))
    seconds = {MINI: middle - begun, DISCRETE: perf_counter() - middle}
    nothing = TrainingTraffic(0, 0, 0)
    rows = (
        _row(MINI, mini, tested, pooled.patients, place, seconds[MINI], nothing),
        _row(DISCRETE, ours, tested, pooled.patients, place, seconds[DISCRETE], traffic),
    )
    slides = patients.held_out(test)
    scores = ours.tile_scores([*slides.values()])
    trained = [slide for each in _slides(pooled) for slide in each]
    scale = ScoreScale.of(ours.tile_scores(trained))
    return JudgedFold(seed, fold, rows, dict(zip(slides, scores, strict=True)), scale, seconds)


def _slides(cohort: Cohort) -> tuple[tuple[SlideFeatures, ...], ...]:
    return () if cohort.bags is None else cohort.bags.slides


def _discrete(
    federation: InProcess, recipe: SlideRecipe, seed: int
) -> tuple[TileRisk, TrainingTraffic]:
    """DT-FL: the discrete-time model with label balancing, over the centers."""
    cohorts = {center.name: center.cohort for center in federation.centers}
    architecture = TileScorer(recipe.reduced, recipe.mini.hidden)
    plan = NetworkPlan(
        architecture,
        recipe.width,
        link="logit",
        reading="exclude",
        balanced=True,
        solver=NetworkAdam(
            recipe.epochs, recipe.batch_size(cohorts), recipe.learning_rate, patience=None
        ),
        seed=seed,
    )
    mark = federation.ledger.mark()
    trained = train_network(plan, federation)
    risk = TileRisk(architecture, trained.theta, trained.slope)
    return risk, TrainingTraffic.since(federation.ledger, mark)


def _row(
    scheme: str,
    model: TileRisk,
    tested: Cohort,
    trained_on: int,
    place: tuple[int, int],
    seconds: float,
    traffic: TrainingTraffic,
) -> Row:
    c_index = concordance_index(tested.time, tested.event, model.risk(tested)).index
    why = () if c_index is not None else ("No two patients of the test set can be compared.",)
    return Row(
        experiment="slides",
        seed=place[0],
        evaluation="folds",
        fold=place[1],
        center=None,
        scheme=scheme,
        c_index=c_index,
        patients=tested.patients,
        events=int(tested.event.sum()),
        trained_on=trained_on,
        seconds=seconds,
        rounds=traffic.rounds,
        bytes_up=traffic.bytes_up,
        bytes_down=traffic.bytes_down,
        notes=why,
    )
