from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import InputError, RefusedError
from fedcox.federation.batch import HeldOut
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.policy import Gate, Policy
from fedcox.federation.queries.baseline_slopes import BaselineSlopesAt
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.network_loss import NetworkLossAt
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.privacy.accountant import epsilon_of
from fedcox.privacy.noise import GaussianRelease
from fedcox.solvers.adam import NetworkAdam
from fedcox.solvers.federated_averaging import NetworkAveraging
from fedcox.solvers.losses import DiscreteTimeLoss, setting_of
from fedcox.solvers.network_baseline import refitted_baseline, rescaled_baseline
from fedcox.solvers.private_network import PrivateNetwork
from fedcox.solvers.solver import Problem
from fedcox.solvers.training import EpochLoss, TrainingStep, best_epoch, decayed, is_over
from fedcox.survival.cohort import FloatArray
from fedcox.survival.derivatives import Detail
from fedcox.survival.time_grid import CensoredInterval
from tests.network_examples import (
    GRID,
    PATIENTS,
    PIECES,
    Kind,
    network_setting,
    patients,
    split_up,
    uneven,
)
from tests.problems import READINGS
from tests.stacked_glm import by_pieces, by_width


def problem(kind: Kind = "bags", seed: int = 3, **choices: Any) -> Problem:
    setting = network_setting(kind, **choices)
    cells = float(setting.placed(patients()).intervals.sum())
    alpha, beta = np.full(GRID.intervals, -2.0), setting.start(seed)
    loss, ridge = DiscreteTimeLoss(setting), np.zeros(beta.size)
    return Problem(loss, alpha, beta, ridge, PATIENTS, np.nan, cells=cells, seed=seed)


def gradient_at(asked: Problem, alpha: FloatArray, beta: FloatArray) -> DerivativesAt:
    return DerivativesAt(setting_in(asked), alpha, beta, Detail.GRADIENT)


def setting_in(asked: Problem) -> Setting:
    return setting_of(asked, "a network")


def federation() -> InProcess:
    return InProcess.from_cohorts(split_up(patients(), *uneven()))


def descended(asked: Problem, rate: float, steps: int) -> tuple[FloatArray, FloatArray]:
    """Gradient descent on the pooled patients, written out."""
    theta, alpha = asked.beta.copy(), asked.alpha.copy()
    for _ in range(steps):
        found = gradient_at(asked, alpha, theta).answer(patients())
        theta = theta - rate * found.beta / PATIENTS
        alpha = alpha - rate * found.alpha / PATIENTS
    return theta, alpha


@pytest.mark.parametrize(
    ("kind", "masked"), [("table", False), ("bags", False), ("both", False), ("both", True)]
)
@pytest.mark.parametrize("link", ["log", "cloglog"])
def test_averaging_of_one_step_on_everybody_is_gradient_descent(
    kind: Kind, masked: bool, link: str
) -> None:
    asked = problem(kind, link=link)
    solver = NetworkAveraging(rounds=8, batch_size=None, learning_rate=0.1, descent="sgd")
    centers: Federation = Masked.around(federation()) if masked else federation()
    found = solver.train(centers, asked)
    theta, alpha = descended(asked, 0.1, 8)
    tolerance = 1e-8 if masked else 1e-12
    np.testing.assert_allclose(found.beta, theta, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.alpha, alpha, rtol=tolerance, atol=tolerance)
    assert np.abs(found.beta - asked.beta).max() > 1e-3  # it moved


def test_averaging_of_one_center_is_training_there() -> None:
    asked = problem()
    solver = NetworkAveraging(rounds=2, local_epochs=3, batch_size=8, learning_rate=0.01)
    alone = solver.train(InProcess.from_cohorts({"all": patients()}), asked)
    split = solver.train(federation(), asked)
    assert alone.epochs[-1].loss < alone.epochs[0].loss
    assert np.abs(alone.beta - split.beta).max() > 1e-6  # centers walk their own ways
    again = solver.train(federation(), asked)
    assert again.beta.tolist() == split.beta.tolist()


def test_a_batch_of_everybody_is_asked_without_a_batch() -> None:
    centers = federation()
    found = NetworkAdam(epochs=3, batch_size=PATIENTS).train(centers, problem())
    assert {row.query for row in centers.ledger.since((0, 0))} == {"network gradient"}
    assert centers.ledger.rounds == 3
    assert len(found.epochs) == 3


@pytest.mark.parametrize("link", ["log", "cloglog"])
@pytest.mark.parametrize("batching", ["patients", "rows"])
def test_training_lowers_the_loss_and_tells_every_step(batching: Any, link: str) -> None:
    told: list[TrainingStep | EpochLoss] = []
    solver = NetworkAdam(epochs=12, learning_rate=0.02, batching=batching)
    asked = problem(link=link)
    found = solver.train(federation(), asked, told.append)
    assert found.epochs[-1].loss < 0.9 * found.epochs[0].loss
    steps = [step for step in told if isinstance(step, TrainingStep)]
    assert [step for step in told if isinstance(step, EpochLoss)] == list(found.epochs)
    assert steps[-1].epoch == 12
    assert steps[-1].step == steps[-1].steps
    whole = gradient_at(asked, found.alpha, found.beta).answer(patients())
    assert whole.loss / PATIENTS == pytest.approx(found.epochs[-1].loss, rel=0.1)
    # Steps tell the loss per patient, too, whatever a batch is of.
    assert np.mean([step.loss for step in steps[-4:]]) == pytest.approx(
        found.epochs[-1].loss, rel=0.5
    )


@pytest.mark.parametrize("batching", ["patients", "rows"])
@pytest.mark.parametrize("masked", [False, True])
def test_every_split_and_secure_sums_take_the_path_of_the_pooled_patients(
    batching: Any, masked: bool
) -> None:
    asked = problem("both", link="log")
    solver = NetworkAdam(epochs=2, batching=batching, learning_rate=0.02, validation=0.2)
    pooled = solver.train(InProcess.from_cohorts({"all": patients()}), asked)
    found = solver.train(Masked.around(federation()) if masked else federation(), asked)
    tolerance = 1e-6 if masked else 1e-9
    np.testing.assert_allclose(found.beta, pooled.beta, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.alpha, pooled.alpha, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("solver", [NetworkAdam, NetworkAveraging])
def test_early_stopping_keeps_the_best_on_held_out_patients(solver: Any) -> None:
    long = {"rounds": 60} if solver is NetworkAveraging else {"epochs": 60}
    made = solver(**long, batch_size=8, learning_rate=0.1, validation=0.3, patience=3)
    asked, centers = problem(), federation()
    found = made.train(centers, asked)
    losses = [epoch.validation for epoch in found.epochs]
    assert len(losses) == found.best + 3 < 60
    assert min(losses) == losses[found.best - 1]
    held = HeldOut(asked.seed, 0.3, PATIENTS)
    there = NetworkLossAt(setting_in(asked), found.alpha, found.beta, held).answer(patients())
    assert there.patients == 18
    assert there.loss / 18 == pytest.approx(losses[found.best - 1], rel=1e-12)


def test_best_epoch_and_patience() -> None:
    epochs = [EpochLoss(k, 1.0, loss) for k, loss in enumerate([3.0, 2.0, 2.0 - 1e-9, 2.5], 1)]
    assert best_epoch(epochs) == 2  # a gain of rounding is none
    assert not is_over(epochs, 10, 3)
    assert is_over(epochs, 10, 2)
    assert is_over(epochs, 4, None)
    assert best_epoch([EpochLoss(1, 3.0), EpochLoss(2, 4.0)]) == 2
    assert best_epoch([]) == 0


@pytest.mark.parametrize("none", [np.inf, np.nan])
def test_an_epoch_without_a_finite_loss_is_never_the_best_of_several(none: float) -> None:
    epochs = [EpochLoss(k, 1.0, loss) for k, loss in enumerate([none, 3.0, none, 2.0, none], 1)]
    assert [best_epoch(epochs[:k]) for k in range(1, 6)] == [1, 2, 2, 4, 4]


def test_a_training_that_leaves_all_bounds_says_so() -> None:
    solver = NetworkAveraging(rounds=50, batch_size=None, learning_rate=1e6, descent="sgd")
    with (
        np.errstate(all="ignore"),
        pytest.raises(InputError, match="smaller learning_rate"),
    ):
        solver.train(federation(), problem())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NetworkAdam(epochs=0), "epochs is 0"),
        (lambda: NetworkAdam(epochs=1.5), "epochs is 1.5"),  # type: ignore[arg-type]
        (lambda: NetworkAdam(batch_size=True), "batch_size is True"),
        (lambda: NetworkAdam(learning_rate=np.nan), "learning_rate is nan"),
        (lambda: NetworkAveraging(local_epochs="2"), "local_epochs is '2'"),  # type: ignore[arg-type]
        (lambda: PrivateNetwork(10, 1.0, 1e-5, steps=2.5), "steps is 2.5"),  # type: ignore[arg-type]
        (lambda: NetworkAdam(learning_rate=0.0), "learning_rate is 0.0"),
        (lambda: NetworkAdam(validation=1.0), "validation is 1.0"),
        (lambda: NetworkAdam(batching="slides"), "batching is 'slides'"),  # type: ignore[arg-type]
        (lambda: NetworkAveraging(rounds=0), "rounds is 0"),
        (lambda: NetworkAveraging(descent="newton"), "descent is 'newton'"),  # type: ignore[arg-type]
        (lambda: PrivateNetwork(10, 0.0, 1e-5), "epsilon is 0.0"),
        (lambda: PrivateNetwork(10, 1.0, 0.0), "delta is 0.0"),
    ],
)
def test_a_solver_that_cannot_be_is_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_a_refitted_baseline_of_pieces_has_as_many_events_as_were_seen() -> None:
    asked = problem("bags", link="log", event_weight=20.0)
    cohort = patients()
    rows = by_pieces(cohort.time.tolist(), cohort.event.tolist(), PIECES.bounds.tolist(), 1.0)
    risk = np.exp(setting_in(asked).risk(cohort, asked.beta))[rows.patient]
    at_risk = np.bincount(rows.interval, rows.weight * risk)
    wanted = np.log(np.bincount(rows.interval, rows.event) / at_risk)
    for start in (asked.alpha, asked.alpha - 6.0, asked.alpha + 4.0):
        alpha = refitted_baseline(federation(), setting_in(asked), start, asked.beta)
        np.testing.assert_allclose(alpha, wanted, atol=1e-9)


@pytest.mark.parametrize("link", ["cloglog", "logit"])
def test_a_refitted_baseline_is_where_slopes_vanish(link: str) -> None:
    asked = problem("bags", link=link, event_weight=20.0)
    centers = federation()
    for start in (asked.alpha, asked.alpha - 6.0, asked.alpha + 4.0):
        alpha = refitted_baseline(centers, setting_in(asked), start, asked.beta)
        at = setting_in(asked), alpha, asked.beta, np.ones(1)
        found = BaselineSlopesAt(*at, Detail.GRADIENT).answer(patients())
        assert np.abs(found.alpha).max() < 1e-8
    # In every interval as many events are predicted as were seen.
    risk = setting_in(asked).risk(patients(), asked.beta)
    placed = setting_in(asked).placed(patients())
    at_risk = placed.intervals[:, None] > np.arange(GRID.intervals)
    hazard = setting_in(asked).link.hazard(risk[:, None] + alpha)
    seen = np.bincount(placed.intervals[placed.event] - 1, minlength=GRID.intervals)
    # The score of cloglog weighs an event by v / hazard, a little more than one.
    tolerance = 1e-8 if link == "logit" else 0.02
    predicted = (at_risk * hazard).sum(axis=0)
    np.testing.assert_allclose(predicted, seen, rtol=tolerance, atol=1e-8)


@pytest.mark.parametrize("link", ["cloglog", "logit"])
@pytest.mark.parametrize("reading", READINGS)
def test_a_refitted_baseline_is_that_of_statsmodels_with_risks_as_offset(
    link: str, reading: CensoredInterval
) -> None:
    asked = problem("both", link=link, reading=reading, event_weight=20.0)
    alpha = refitted_baseline(federation(), setting_in(asked), asked.alpha, asked.beta)
    cohort = patients()
    rows = by_width(cohort.time.tolist(), cohort.event.tolist(), 25.0, reading, horizon=150.0)
    kind = {"logit": sm.families.links.Logit, "cloglog": sm.families.links.CLogLog}[link]
    glm = sm.GLM(
        rows.event,
        np.eye(GRID.intervals)[rows.interval],
        family=sm.families.Binomial(kind()),
        freq_weights=rows.weight,
        offset=setting_in(asked).risk(cohort, asked.beta)[rows.patient],
    )
    wanted = glm.fit(tol=1e-12, tol_criterion="params", maxiter=100).params
    happened = np.bincount(rows.interval, rows.event, GRID.intervals) > 0
    assert np.count_nonzero(happened) > 3
    assert alpha[happened] == pytest.approx(wanted[happened], abs=1e-8)


def test_a_rescaled_baseline_is_where_all_slopes_vanish() -> None:
    asked = problem("both", event_weight=20.0)
    theta = 0.3 * asked.beta
    alpha, slope = rescaled_baseline(federation(), setting_in(asked), asked.alpha, theta)
    at = setting_in(asked), alpha, theta, np.array([slope])
    found = BaselineSlopesAt(*at, Detail.GRADIENT).answer(patients())
    assert np.abs(found.alpha).max() < 1e-6
    assert slope == 0.0 or abs(found.beta[0]) < 1e-6


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_risks_that_say_the_contrary_give_one_curve_for_all(sign: float) -> None:
    asked = problem("bags")
    trained = NetworkAdam(epochs=10, learning_rate=0.05).train(federation(), asked)
    theta = trained.beta.copy()
    theta[-4:] *= sign  # the last layer: the risk itself
    _, slope = rescaled_baseline(federation(), setting_in(asked), asked.alpha, theta)
    assert slope > 0.3 if sign > 0 else slope == 0.0


def test_the_noise_of_all_steps_spends_the_epsilon_that_is_named() -> None:
    solver = PrivateNetwork(PATIENTS, epsilon=0.5, delta=1e-4, steps=40, sampling_rate=0.25)
    release = solver.release()
    assert release.releases == 40
    assert release.sensitivity == solver.clip
    assert 0.99 * 0.5 < epsilon_of(release, 1e-4) <= 0.5


class _NextToNoNoise(PrivateNetwork):
    def release(self, fewest_centers: int | None = None) -> GaussianRelease:
        return GaussianRelease(1e-9, self.clip, 1.0, self.steps, fewest_centers)


def test_hospitals_refuse_noise_that_stands_for_nothing() -> None:
    """Whatever the analyst sets in Python: by name it would be private."""
    gated = [
        replace(center, noise=NoisedReplies("study", 1e-4), gate=Gate(Policy()))
        for center in federation().centers
    ]
    with pytest.raises(RefusedError, match=r"exact_sums: noise .* next to none"):
        _NextToNoNoise(PATIENTS, 1.0, 1e-4, steps=6).train(InProcess(gated), problem("both"))


@pytest.mark.parametrize("link", ["log", "cloglog"])
def test_without_noise_and_clipping_a_private_training_is_gradient_descent(link: str) -> None:
    asked = problem("both", link=link)
    solver = _NextToNoNoise(PATIENTS, 1.0, 1e-4, steps=6, clip=1e3, learning_rate=0.2)
    noised = [
        replace(center, noise=NoisedReplies("study", 1e-4)) for center in federation().centers
    ]
    told: list[TrainingStep | EpochLoss] = []
    found = solver.train(InProcess(noised), asked, told.append)
    assert len(told) == 6
    point = asked.alpha.copy(), asked.beta.copy()
    for number in range(1, 7):
        rate = decayed(0.2, number, 6)
        here = gradient_at(asked, *point).answer(patients())
        point = point[0] - rate * here.alpha / PATIENTS, point[1] - rate * here.beta / PATIENTS
    np.testing.assert_allclose(found.alpha, point[0], atol=1e-6)
    np.testing.assert_allclose(found.beta, point[1], atol=1e-6)
    assert np.abs(found.beta - asked.beta).max() > 1e-2


def test_noise_in_the_log_risk_follows_from_public_numbers() -> None:
    solver = PrivateNetwork(1000, 1.0, 1e-4, steps=4, clip=2.0, learning_rate=0.5)
    release = GaussianRelease(10.0, 2.0, releases=4)
    # Rates 0.5, 0.5, 0.5 and 0.25 of noise 10 · 2 / 1000.
    expected = 0.02 * np.sqrt(3 * 0.25 + 0.0625)
    assert solver.noise_in_log_risk(release, centers=1) == pytest.approx(expected)
    apart = solver.noise_in_log_risk(release, centers=4)
    assert apart == pytest.approx(2.0 * expected)  # every center adds its own
    masked = replace(release, fewest_centers=4)
    assert solver.noise_in_log_risk(masked, centers=4) == pytest.approx(expected)
