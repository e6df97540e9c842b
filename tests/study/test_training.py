from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor, nn

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import (
    CohortError,
    InputError,
    LargeDeltaWarning,
    NoiseWarning,
    OutputError,
    RefusedError,
    WeightsError,
)
from fedcox.federation.center import Center
from fedcox.federation.policy import Gate, Policy
from fedcox.federation.queries import answered_by_default, words_of_queries
from fedcox.models.architecture import OwnModule, Perceptron, TileScorer
from fedcox.solvers.adam import NetworkAdam
from fedcox.solvers.federated_averaging import NetworkAveraging
from fedcox.solvers.private_network import PrivateNetwork
from fedcox.solvers.training import EpochLoss, TrainingStep
from fedcox.study.plan import NetworkPlan, asked_by_training
from fedcox.study.trained_network import TrainedNetwork
from fedcox.study.training import train_network, with_noise
from fedcox.study.training_checkpoint import TrainingCheckpoint
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.concordance import concordance_index
from fedcox.survival.time_grid import Pieces
from tests.network_examples import (
    COLUMNS,
    FEATURES,
    KINDS,
    NETWORKS,
    Kind,
    patients,
    split_up,
    uneven,
    with_slides,
)
from tests.problems import simulated
from tests.stacked_glm import by_pieces, poisson_glm

ADAM = NetworkAdam(epochs=4, batch_size=10, learning_rate=0.02, validation=0.2)
PRIVATE = PrivateNetwork(60, epsilon=2.0, delta=1e-4, steps=5)


def plan(kind: Kind = "bags", **changed: Any) -> NetworkPlan:
    made = NetworkPlan(NETWORKS[kind], width=25.0, horizon=150.0, solver=ADAM, seed=1)
    return replace(made, **changed)


def federation(cohort: Cohort | None = None) -> InProcess:
    whole = patients() if cohort is None else cohort
    return InProcess.from_cohorts(split_up(whole, *uneven(whole.patients)))


def c_index(network: TrainedNetwork, cohort: Cohort, **how: Any) -> float:
    found = concordance_index(cohort.time, cohort.event, network.risk(cohort, **how)).index
    assert found is not None
    return found


# What is learnt


@pytest.mark.parametrize(
    ("kind", "solver"),
    [("bags", ADAM), ("both", NetworkAveraging(rounds=5, learning_rate=0.02))],
)
@pytest.mark.parametrize("changed", [{}, {"width": None}, {"link": "cloglog"}])
def test_new_patients_are_ranked_and_their_curves_are_calibrated(
    kind: Kind, solver: Any, changed: dict[str, Any]
) -> None:
    cohort, others = with_slides(200, seed=5), with_slides(200, seed=6)
    trained = train_network(plan(kind, solver=solver, **changed), federation(cohort))
    assert c_index(trained, others) > 0.62
    curves = trained.survival(others)
    assert curves.shape == (200, trained.edges.size)
    assert (np.diff(curves, axis=1) <= 0).all()
    # The mean curve of those it was trained on next to Kaplan and Meier's estimate.
    mean = trained.survival(cohort).mean(axis=0)
    seen = [_kaplan_meier(cohort, edge) for edge in trained.edges]
    np.testing.assert_allclose(mean, seen, atol=0.02)


def _kaplan_meier(cohort: Cohort, at: float) -> float:
    alive = 1.0
    for time in np.unique(cohort.time[cohort.event & (cohort.time <= at)]):
        events = np.count_nonzero(cohort.event & (cohort.time == time))
        alive *= 1.0 - events / np.count_nonzero(cohort.time >= time)
    return alive


@pytest.mark.parametrize("link", ["cloglog", "logit"])
def test_balanced_training_gives_the_curves_of_unbalanced_training(link: Any) -> None:
    cohort, others = simulated(300, 3, seed=5), simulated(100, 3, seed=6)
    solver = NetworkAdam(epochs=60, batch_size=300, learning_rate=0.05)
    asked = NetworkPlan(Perceptron(3, ()), 15.0, 150.0, link=link, solver=solver)
    plain = train_network(asked, federation(cohort))
    balanced = train_network(replace(asked, balanced=True), federation(cohort))
    assert balanced.network.event_weight == pytest.approx(6.13, abs=0.01)
    assert plain.slope == 1.0
    apart = np.abs(plain.survival(others) - balanced.survival(others))
    assert apart.mean() < 0.015
    assert apart.max() < 0.06
    for trained in (plain, balanced):
        predicted, counted = _events_by_interval(trained, cohort)
        np.testing.assert_allclose(predicted, counted, rtol=1e-5)


def _events_by_interval(
    trained: TrainedNetwork, cohort: Cohort
) -> tuple[FloatArray, FloatArray]:
    """What the refitted baseline predicts in each interval, and what was seen there.

    With cloglog cumulative hazards are counted, which an event adds v / hazard to: the number
    of events itself is met to a few parts in a hundred.
    """
    timing = trained.setting
    placed = timing.grid.at_risk(cohort.time, cohort.event, timing.reading)
    intervals = np.arange(timing.grid.intervals)
    at_risk = (placed.intervals[:, None] > intervals).astype(np.float64)
    if not timing.grid.grouped:
        leaving = placed.passed[:, None] == intervals
        at_risk = np.where(leaving, placed.part[:, None], at_risk)
    predictor = trained.risk(cohort)[:, None] + trained.alpha
    hazard = timing.link.hazard(predictor)
    happened = placed.event[:, None] & (placed.intervals[:, None] - 1 == intervals)
    np.testing.assert_allclose(
        (at_risk * hazard).sum(axis=0), happened.sum(axis=0), rtol=0.05, atol=0.01
    )
    passed = np.exp(predictor) if timing.link.name == "cloglog" else hazard
    return (at_risk * passed).sum(axis=0), (happened * passed / hazard).sum(axis=0)


def test_a_linear_network_ends_at_the_fit_without_a_width() -> None:
    """On the pieces that the centers agreed on, against statsmodels' Poisson regression."""
    cohort = simulated(300, 3, seed=5)
    solver = NetworkAdam(epochs=500, batch_size=300, learning_rate=0.05)
    asked = NetworkPlan(Perceptron(3, ()), solver=solver, precision="float64", balanced=True)
    trained = train_network(asked, federation(cohort))
    grid, scaling = trained.setting.grid, trained.setting.scaling
    assert isinstance(grid, Pieces)
    assert grid.unit == 1.0
    fitted = np.isfinite(trained.alpha)
    events = np.count_nonzero(cohort.event)
    assert events // 12 <= np.count_nonzero(fitted) <= events // 10  # ten events in each
    rows = by_pieces(cohort.time.tolist(), cohort.event.tolist(), grid.bounds.tolist(), 1.0)
    wanted = poisson_glm(rows.within(fitted), cohort.covariates)
    np.testing.assert_allclose(trained.theta / scaling.spread, wanted[-3:], atol=1e-6)
    at_zero = trained.alpha[fitted] - scaling.mean @ wanted[-3:]
    np.testing.assert_allclose(at_zero, wanted[:-3], atol=1e-6)
    assert trained.slope == trained.network.event_weight == 1.0  # no weights are needed


def test_pieces_are_the_same_wherever_the_patients_are() -> None:
    cohort = simulated(300, 3, seed=5)
    asked = NetworkPlan(Perceptron(3, ()), horizon=150.0, solver=NetworkAdam(epochs=1))
    first, *others = (
        train_network(asked, centers)
        for centers in (
            InProcess.from_cohorts({"all": cohort}),
            federation(cohort),
            Masked.around(federation(cohort)),
            InProcess([Center("all", cohort, gate=Gate(Policy.without_limits()))]),
        )
    )
    for other in others:
        np.testing.assert_array_equal(other.edges, first.edges)
        np.testing.assert_allclose(other.theta, first.theta, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(other.alpha, first.alpha, rtol=1e-5, atol=1e-6)


def test_survival_follows_the_model_between_edges_and_ends_at_the_horizon() -> None:
    trained = train_network(plan("table", width=None, pieces=4), federation())
    cohort, bounds = patients(), np.append(0.0, trained.edges)
    hazard = np.exp(trained.alpha) / np.diff(bounds)
    times = np.array([0.0, 3.5, 40.0, 77.25, 150.0, 151.0])
    lived = np.clip((times[:-1, None] - bounds[:-1]) / np.diff(bounds), 0.0, 1.0)
    summed = (lived * hazard * np.diff(bounds)).sum(axis=1)
    curves = trained.survival(cohort, times=times)
    expected = np.exp(-np.exp(trained.risk(cohort))[:, None] * summed)
    np.testing.assert_allclose(curves[:, :-1], expected, rtol=1e-12)
    assert np.isnan(curves[:, -1]).all()
    at_edges = trained.survival(cohort, times=trained.edges)
    np.testing.assert_array_equal(at_edges, trained.survival(cohort))


def test_grouped_time_knows_survival_at_interval_ends_alone() -> None:
    trained = train_network(
        plan("table", link="logit", solver=replace(ADAM, epochs=1)), federation()
    )
    curves = trained.survival(patients())
    found = trained.survival(patients(), times=[75.0, 25.0])
    np.testing.assert_array_equal(found, curves[:, [2, 0]])
    with pytest.raises(InputError, match="groups time"):
        trained.survival(patients(), times=[75.0, 80.0])


def test_a_patient_score_of_several_slides() -> None:
    trained = train_network(plan(solver=replace(ADAM, epochs=1)), federation())
    cohort = patients()
    assert cohort.bags is not None
    scores = trained.slide_scores(cohort)
    assert [len(own) for own in scores] == [len(own) for own in cohort.bags.slides]
    np.testing.assert_allclose(trained.risk(cohort), [own.mean() for own in scores])
    np.testing.assert_allclose(trained.risk(cohort, "max"), [own.max() for own in scores])
    # Of the tile scorer, all tiles together score the mean over tiles.
    tiles = [[slide.shape[0] for slide in own] for own in cohort.bags.slides]
    joined = [np.average(own, weights=n) for own, n in zip(scores, tiles, strict=True)]
    np.testing.assert_allclose(trained.risk(cohort, "concat"), joined, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="mean, max or concat"):
        trained.risk(cohort, "median")  # type: ignore[arg-type]


def test_an_interval_without_an_event_has_no_hazard() -> None:
    cohort = patients()
    quiet = cohort.event & ~((cohort.time > 50) & (cohort.time <= 75))
    other = Cohort(cohort.covariates, cohort.time, quiet, cohort.number, cohort.bags)
    asked = plan(solver=replace(ADAM, epochs=1), link="cloglog")
    trained = train_network(asked, federation(other))
    assert np.isneginf(trained.alpha).tolist() == [False, False, True, True, False, False]
    curves = trained.survival(cohort)
    assert np.isfinite(curves).all()
    np.testing.assert_array_equal(curves[:, 1], curves[:, 2])
    # A piece without an event is one with the next that has some.
    pieces = train_network(replace(asked, link="log"), federation(other))
    assert pieces.edges.tolist() == [25.0, 50.0, 125.0, 150.0]
    assert np.isfinite(pieces.alpha).all()


def test_a_constant_column_and_a_missing_value_do_no_harm() -> None:
    cohort = patients()
    covariates = cohort.covariates.copy()
    covariates[:, 1] = 7.0
    covariates[3, 0] = np.nan
    other = Cohort(covariates, cohort.time, cohort.event, cohort.number)
    trained = train_network(plan("table", solver=replace(ADAM, epochs=1)), federation(other))
    assert trained.setting.scaling.keep.tolist() == [0, 2]
    assert np.isfinite(trained.risk(other)).all()


class _Attention(nn.Module):
    """A researcher's own: attention over tiles, plus the patient's row."""

    def __init__(self) -> None:
        super().__init__()
        self.weigh, self.score = nn.Linear(FEATURES, 1), nn.Linear(FEATURES, 1, bias=False)
        self.row = nn.Linear(COLUMNS, 1, bias=False)

    def forward(self, row: Tensor, bag: Tensor) -> Tensor:
        weight = self.weigh(bag).softmax(0)
        mean: Tensor = (weight * bag).sum(0)
        risk: Tensor = self.score(mean) + self.row(row)
        return risk


def test_a_module_of_ones_own_trains_the_same_over_any_split(tmp_path: Path) -> None:
    own = OwnModule("attention", "both", _Attention)
    asked = plan(architecture=own, precision="float64", solver=replace(ADAM, epochs=2))
    found = train_network(asked, federation())
    pooled = train_network(asked, InProcess.from_cohorts({"all": patients()}))
    assert np.abs(found.theta - pooled.theta).max() < 1e-8
    found.save(tmp_path / "own.safetensors")
    with pytest.raises(WeightsError, match="someone's own code"):
        TrainedNetwork.load(tmp_path / "own.safetensors")
    again = TrainedNetwork.load(tmp_path / "own.safetensors", own)
    np.testing.assert_array_equal(again.risk(patients()), found.risk(patients()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", ["log", "logit"])
def test_a_network_comes_back_from_its_file(kind: Kind, link: Any, tmp_path: Path) -> None:
    solver = replace(ADAM, epochs=1)
    asked = plan(kind, solver=solver, balanced=True, link=link, horizon=None)
    trained = train_network(asked, federation())
    told = trained.with_facts(encoder="resnet50", score_scale=[0.5, 2.0])
    told.save(tmp_path / "network.safetensors")
    again = TrainedNetwork.load(tmp_path / "network.safetensors")
    assert again.facts == {"encoder": "resnet50", "score_scale": [0.5, 2.0]}
    assert again.record is None
    assert again.link == trained.link
    assert again.slope == trained.slope
    assert (again.slope == 1.0) == (link == "log")
    assert again.network.event_weight == trained.network.event_weight
    np.testing.assert_array_equal(again.theta, trained.theta)
    np.testing.assert_array_equal(again.alpha, trained.alpha)
    np.testing.assert_array_equal(again.survival(patients()), trained.survival(patients()))
    own, grid = again.setting.grid, trained.setting.grid
    assert type(own) is type(grid)
    np.testing.assert_array_equal(own.edges, grid.edges)
    if isinstance(own, Pieces) and isinstance(grid, Pieces):
        np.testing.assert_array_equal(own.bounds, grid.bounds)
        assert own.unit == grid.unit == 1.0
        assert own.ties is grid.ties is None
        one, other = (each.survival(patients(), times=[33.3]) for each in (again, trained))
        np.testing.assert_array_equal(one, other)
    again.save(tmp_path / "network.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["network.safetensors"]
    with pytest.raises(OutputError, match="folder that exists"):
        again.save(tmp_path / "no" / "network.safetensors")


def test_progress_is_told_and_the_seed_decides() -> None:
    told: list[TrainingStep | EpochLoss] = []
    asked = plan(solver=replace(ADAM, epochs=2))
    first = train_network(asked, federation(), told.append)
    assert sum(isinstance(step, EpochLoss) for step in told) == 2
    assert sum(isinstance(step, TrainingStep) for step in told) == 2 * 5
    again, other = train_network(asked, federation()), replace(asked, seed=2)
    assert again.theta.tolist() == first.theta.tolist()
    assert train_network(other, federation()).theta.tolist() != first.theta.tolist()
    assert first.record is not None
    assert first.record.patients == 60
    assert first.record.rounds == 2 + 2 * (5 + 1) + _rounds(first, "baseline diagonal")


def _rounds(network: TrainedNetwork, query: str) -> int:
    assert network.record is not None
    return len({row.round for row in network.record.ledger if row.query == query})


# Checkpoints


class _CrashError(Exception):
    pass


@pytest.mark.parametrize(
    "solver",
    [ADAM, NetworkAveraging(rounds=4, validation=0.2)],
)
def test_a_training_goes_on_after_a_crash_with_the_same_bits(
    solver: Any, tmp_path: Path
) -> None:
    asked, file = plan("both", solver=solver), tmp_path / "training.safetensors"
    whole = train_network(asked, federation())

    def crash(step: TrainingStep | EpochLoss) -> None:
        if isinstance(step, EpochLoss) and step.epoch == 3:
            raise _CrashError  # before the third epoch is on the disk

    with pytest.raises(_CrashError):
        train_network(asked, federation(), crash, checkpoint=file)
    told: list[TrainingStep | EpochLoss] = []
    again = train_network(asked, federation(), told.append, checkpoint=file)
    assert [step.epoch for step in told if isinstance(step, EpochLoss)] == [3, 4]
    assert again.theta.tobytes() == whole.theta.tobytes()
    assert again.alpha.tobytes() == whole.alpha.tobytes()
    assert again.record is not None
    assert whole.record is not None
    assert again.record.epochs == whole.record.epochs
    # A training that is at its end is not done again.
    told.clear()
    done = train_network(asked, federation(), told.append, checkpoint=file)
    assert not told
    assert done.theta.tobytes() == whole.theta.tobytes()
    assert [path.name for path in tmp_path.iterdir()] == ["training.safetensors"]


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "training.safetensors"
    asked = plan(solver=replace(ADAM, epochs=1))
    train_network(asked, federation(), checkpoint=file)
    others: list[tuple[NetworkPlan, InProcess]] = [
        (replace(asked, seed=9), federation()),
        (replace(asked, solver=replace(ADAM, epochs=1, learning_rate=0.5)), federation()),
        (replace(asked, architecture=TileScorer(FEATURES, 3)), federation()),
        (asked, federation(with_slides(60, seed=9))),
        (asked, federation(_of_other_slides(patients()))),
    ]
    for other, centers in others:
        with pytest.raises(InputError, match="checkpoint of another training"):
            train_network(other, centers, checkpoint=file)
    train_network(asked, federation(), checkpoint=file)  # where it computes does not matter


def _of_other_slides(cohort: Cohort) -> Cohort:
    """The same patients with the same outcomes, and features of another reducer, say."""
    assert cohort.bags is not None
    slides = tuple(
        tuple(SlideArray(-slide.read()) for slide in own) for own in cohort.bags.slides
    )
    bags = Bags(slides, cohort.bags.features)
    return Cohort(cohort.covariates, cohort.time, cohort.event, cohort.number, bags)


def test_a_training_under_masks_goes_on_too_unless_its_slides_changed(tmp_path: Path) -> None:
    file = tmp_path / "training.safetensors"
    asked = plan(solver=replace(ADAM, epochs=1))
    first = train_network(asked, Masked.around(federation()), checkpoint=file, features="a")
    again = train_network(asked, Masked.around(federation()), checkpoint=file, features="a")
    assert again.theta.tobytes() == first.theta.tobytes()
    with pytest.raises(InputError, match="checkpoint of another training"):
        train_network(asked, Masked.around(federation()), checkpoint=file, features="b")


@pytest.mark.parametrize("place", [3, 40, -5])
def test_a_damaged_checkpoint_is_refused(place: int, tmp_path: Path) -> None:
    file = tmp_path / "training.safetensors"
    asked = plan(solver=replace(ADAM, epochs=1))
    train_network(asked, federation(), checkpoint=file)
    content = bytearray(file.read_bytes())
    content[place] ^= 0x10
    file.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"damaged|another training"):
        train_network(asked, federation(), checkpoint=file)
    file.write_bytes(b"")
    with pytest.raises(InputError, match="no checkpoint"):
        train_network(asked, federation(), checkpoint=file)


@pytest.mark.parametrize("solver", [ADAM, NetworkAveraging(rounds=1, validation=0.2)])
def test_a_checkpoint_without_one_of_its_arrays_is_refused(solver: Any, tmp_path: Path) -> None:
    file = tmp_path / "training.safetensors"
    asked = plan(solver=solver)
    train_network(asked, federation(), checkpoint=file)
    content = file.read_bytes()
    told = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    fingerprint = told["__metadata__"]["fingerprint"]
    checkpoint = TrainingCheckpoint(file, fingerprint)
    state = checkpoint.load()
    assert state is not None
    kept = list(state.arrays)
    for name in kept:
        others = {key: state.arrays[key] for key in kept if key != name}
        for arrays in (others, {**others, name: np.zeros(1000)}):
            checkpoint.save(replace(state, arrays=arrays))
            with pytest.raises(InputError, match=f"not known: {name}"):
                train_network(asked, federation(), checkpoint=file)


# Privacy


@pytest.mark.parametrize(
    ("kind", "masked"), [("table", False), ("bags", False), ("both", True)]
)
@pytest.mark.filterwarnings("ignore::fedcox.errors.NoiseWarning")
def test_under_noise_nothing_else_is_asked(kind: Kind, masked: bool) -> None:
    ranges = None if kind == "bags" else ((-3.0, 3.0),) * COLUMNS
    asked = plan(kind, solver=PRIVATE, ranges=ranges)
    centers = with_noise(asked, federation())
    trained = train_network(asked, Masked.around(centers) if masked else federation())
    record = trained.record
    assert record is not None
    rows = [row for row in record.ledger if row.query != "key set-up"]
    assert {row.query for row in rows} == {"clipped network gradient"}
    assert {row.protection for row in rows} == {"masks and noise" if masked else "noise"}
    assert record.rounds == PRIVATE.steps
    assert record.patients is record.events is None
    assert record.guarantee is not None
    assert 0.99 * 2.0 < record.guarantee.epsilon <= 2.0
    assert all(row.epsilon == pytest.approx(record.guarantee.epsilon) for row in rows)
    assert np.isfinite(trained.alpha).all()
    assert np.isfinite(trained.survival(patients())).all()


def test_much_noise_is_told() -> None:
    asked = plan(solver=replace(PRIVATE, patients=10_001))
    with pytest.warns(LargeDeltaWarning) as caught:
        trained = train_network(asked, federation())
    assert [warning.category for warning in caught] == [LargeDeltaWarning]
    asked = plan(solver=replace(PRIVATE, patients=16))
    with pytest.warns(NoiseWarning, match=r"log risk is off by about 0\.32"):
        trained = train_network(asked, federation())
    assert trained.record is not None
    assert [notice.name for notice in trained.record.notices] == ["NoiseWarning"]
    little = train_network(plan(solver=replace(PRIVATE, patients=17)), federation())
    assert little.record is not None
    assert little.record.notices == ()  # by 0.298


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"horizon": None}, "Give a horizon"),
        ({"width": None}, "Give a width"),
        ({"balanced": True}, "Leave balanced out"),
        ({"architecture": Perceptron(COLUMNS)}, "public ranges"),
    ],
)
def test_a_private_plan_that_would_ask_more_is_refused(
    changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        plan(solver=PRIVATE, **changed)


def test_under_noise_every_column_needs_its_range() -> None:
    ranges = ((-3.0, 3.0),) * (COLUMNS - 1)
    with pytest.raises(InputError, match="ranges of 2 columns; the network has 3"):
        plan("table", solver=PRIVATE, ranges=ranges)
    own = OwnModule("linear", "table", lambda: nn.Linear(COLUMNS, 1))
    asked = plan(architecture=own, solver=PRIVATE, ranges=ranges)
    with pytest.raises(CohortError, match="ranges of 2 columns, and patients have 3"):
        train_network(asked, federation())


def test_a_private_training_has_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cost twice"):
        train_network(plan(solver=PRIVATE), federation(), checkpoint=tmp_path / "x")


def test_a_center_without_noise_refuses() -> None:
    centers = Masked.around(federation())
    with pytest.raises(RefusedError, match="no way to add it"):
        train_network(plan(solver=PRIVATE), centers)


# Limits


def limited(policy: Policy) -> InProcess:
    parts = split_up(patients(), *uneven())
    return InProcess([Center(name, part, gate=Gate(policy)) for name, part in parts.items()])


def test_a_hospital_that_allows_no_networks_refuses_them() -> None:
    answered = ["covariate sums", "fractional times", "interval counts", "covariate scatter"]
    without = Policy(exact_sums=True, questions=answered)
    with pytest.raises(RefusedError, match="'network gradient of a batch' may not be asked"):
        train_network(plan(), limited(without))
    with pytest.raises(RefusedError, match="exact_sums: sums would leave without noise"):
        train_network(plan(), limited(Policy(questions="all")))
    train_network(plan(solver=replace(ADAM, epochs=1)), limited(Policy.without_limits()))


@pytest.mark.parametrize(
    "changed",
    [
        {"horizon": None, "balanced": True, "link": "logit"},
        {"horizon": None, "width": None},
        {"solver": replace(ADAM, epochs=1, batching="rows", validation=0.0)},
        {"solver": NetworkAveraging(rounds=1, validation=0.2)},
        {"solver": NetworkAdam(epochs=1, batch_size=100)},
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_a_training_asks_what_is_told_beforehand(changed: dict[str, Any], masked: bool) -> None:
    asked = plan(**changed)
    trained = train_network(asked, Masked.around(federation()) if masked else federation())
    assert trained.record is not None
    names = {row.query for row in trained.record.ledger} - {"key set-up"}
    told = asked_by_training(asked, secure_sums=masked)
    assert names <= set(told)
    assert {name for name in set(told) - names if not name.startswith("baseline")} <= {
        "network gradient",
        "network gradient of a batch",
    }
    assert set(told) <= set(words_of_queries())


def test_under_noise_one_question_is_told_beforehand() -> None:
    assert set(asked_by_training(plan(solver=PRIVATE))) == {"clipped network gradient"}
    sampled = set(asked_by_training(plan(solver=replace(PRIVATE, sampling_rate=0.5))))
    assert sampled == {"clipped network gradient of a sample"} <= set(answered_by_default())


# Wrong input


class _Odd(nn.Module):
    """What a module may give instead of one number."""

    def __init__(self, give: Any, features: int = FEATURES) -> None:
        super().__init__()
        self.layer, self.give = nn.Linear(features, 2), give

    def forward(self, bag: Tensor) -> Any:
        return self.give(self.layer(bag).mean(0))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (lambda: _Odd(lambda two: two), "gave 2 number"),
        (lambda: _Odd(lambda two: (two.sum(),)), "gave a tuple, not a tensor"),
        (lambda: _Odd(lambda two: float(two.sum())), "gave a float, not a tensor"),
        (lambda: _Odd(lambda two: two.sum().detach()), "cannot be trained"),
        (lambda: _Odd(lambda two: two.sum(), FEATURES + 2), "does not run on these patients"),
    ],
)
def test_a_module_that_gives_no_number_for_a_slide_is_refused(module: Any, words: str) -> None:
    own = OwnModule("odd", "bags", module)
    with pytest.raises(WeightsError, match=words):
        train_network(plan(architecture=own), federation())


def test_a_gradient_that_is_no_number_is_told_in_the_step_it_comes_from() -> None:
    own = OwnModule("root", "bags", lambda: _Odd(lambda two: (0 * two.sum()).sqrt()))
    solver = NetworkAdam(epochs=1, batch_size=100)  # a loss that is finite, in the only step
    with pytest.raises(InputError, match="loss or gradient is no number"):
        train_network(plan(architecture=own, solver=solver), federation())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_no_numbers_are_told(value: float) -> None:
    trained = train_network(plan(solver=replace(ADAM, epochs=1)), federation())
    cohort = with_slides(12, seed=3)
    assert cohort.bags is not None
    cohort.bags.slides[4][0].read()[0, 1] = value
    for ask in (
        lambda: trained.risk(cohort),
        lambda: train_network(plan(), InProcess.from_cohorts({"all": cohort})),
    ):
        with pytest.raises(CohortError, match=r"1 slide\(s\) have features that are missing"):
            ask()


def test_a_device_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match="no device 'gpu'"):
        train_network(plan(device="gpu"), federation())


def test_patients_without_slides_are_refused() -> None:
    cohort = patients()
    table = Cohort(cohort.covariates, cohort.time, cohort.event)
    with pytest.raises(CohortError, match="slides"):
        train_network(plan(), InProcess.from_cohorts({"all": table}))


def test_slides_of_another_encoder_are_refused() -> None:
    with pytest.raises(InputError, match="feature"):
        train_network(plan(architecture=TileScorer(FEATURES + 1, 4)), federation())


def test_a_table_of_other_columns_is_refused() -> None:
    with pytest.raises(InputError, match="column"):
        train_network(plan(architecture=Perceptron(COLUMNS + 1)), federation())


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"width": 0.0}, "width is 0.0"),
        ({"width": None, "link": "logit"}, "width is not given"),
        ({"pieces": 3}, "pieces is 3"),
        ({"pieces": 0, "width": None}, "pieces is 0"),
        ({"pieces": 3, "width": None, "link": "logit"}, "width is not given"),
        ({"reading": "half"}, "reading is 'half'; the link 'log' has none"),
        ({"width": "30"}, "width is '30'"),
        ({"width": np.inf}, "width is inf"),
        ({"horizon": np.nan}, "horizon is nan"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"horizon": -1.0}, "horizon is -1.0"),
        ({"link": "probit"}, "link is 'probit'"),
        ({"reading": "sometimes"}, "reading is 'sometimes'"),
        ({"slide_weight": "tile"}, "slide_weight is 'tile'"),
        ({"precision": "float16"}, "precision is 'float16'"),
        ({"seed": -1}, "seed is -1"),
        ({"ranges": ((0.0, 1.0),)}, "ranges are for training under noise"),
        ({"solver": "adam"}, "solver is none"),
        ({"architecture": "tile scorer"}, "architecture is none"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plan(**changed)


def test_a_bag_is_never_padded() -> None:
    """Twice the tiles of a slide, each one twice: the same score."""
    trained = train_network(plan(solver=replace(ADAM, epochs=1)), federation())
    cohort = patients()
    assert cohort.bags is not None
    doubled = Bags(
        tuple(
            tuple(type(slide)(np.repeat(slide.read(), 2, axis=0)) for slide in own)  # type: ignore[call-arg]
            for own in cohort.bags.slides
        ),
        FEATURES,
    )
    other = Cohort(cohort.covariates, cohort.time, cohort.event, cohort.number, doubled)
    np.testing.assert_allclose(trained.risk(other), trained.risk(cohort), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("batching", ["patients", "rows"])
def test_slides_need_no_table(batching: Any) -> None:
    cohort = patients()
    bare = Cohort(
        np.empty((cohort.patients, 0)), cohort.time, cohort.event, cohort.number, cohort.bags
    )
    asked = plan(horizon=None, solver=replace(ADAM, epochs=1, batching=batching))
    found = train_network(asked, Masked.around(federation(bare)))
    expected = train_network(asked, InProcess.from_cohorts({"all": bare}))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("link", "balanced"), [("log", False), ("logit", True), ("logit", False)]
)
@pytest.mark.parametrize("rate", [100.0, 1000.0, 1e6])
def test_after_a_training_that_went_astray_curves_are_right_or_refused(
    rate: float, link: Any, balanced: bool
) -> None:
    cohort = simulated(200, 3, seed=5)
    solver = NetworkAdam(epochs=2, batch_size=20, learning_rate=rate)
    network = Perceptron(3, (8,))
    asked = NetworkPlan(network, 15.0, 150.0, link=link, balanced=balanced, solver=solver)
    found = _trained_or_refused(asked, cohort)
    if isinstance(found, TrainedNetwork):
        predicted, counted = _events_by_interval(found, cohort)
        np.testing.assert_allclose(predicted, counted, rtol=1e-5)
    else:
        assert "learning_rate" in found


def _trained_or_refused(asked: NetworkPlan, cohort: Cohort) -> TrainedNetwork | str:
    try:
        return train_network(asked, federation(cohort))
    except InputError as error:
        return str(error)
