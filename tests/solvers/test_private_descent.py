from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedcox.analysis.fit import estimate
from fedcox.analysis.plan import Plan
from fedcox.data.synthetic import simulate_paper_cohort
from fedcox.engines.in_process import InProcess
from fedcox.errors import RefusedError
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.setting import Setting
from fedcox.privacy.accountant import epsilon_of
from fedcox.privacy.noise import SeededRandomnessForSimulations
from fedcox.privacy.release import GaussianRelease
from fedcox.solvers.newton import Newton
from fedcox.solvers.private_descent import PrivateDescent
from fedcox.solvers.solver import Step
from fedcox.survival.clipped_moments import ClippedMoments
from fedcox.survival.cohort import Cohort, FloatArray
from fedcox.survival.concordance import concordance_index
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import Scaling
from fedcox.survival.time_grid import AnyGrid, Pieces, TimeGrid
from tests.problems import simulated, split

DELTA = 1e-5
NEXT_TO_NOTHING = 1e-6  # as a noise multiplier


def noised_federation(*cohorts: Cohort, seed: int = 0) -> InProcess:
    return InProcess(
        [
            Center(
                f"center {number}",
                cohort,
                noise=NoisedReplies(
                    "study", DELTA, randomness=SeededRandomnessForSimulations(seed, number)
                ),
            )
            for number, cohort in enumerate(cohorts)
        ]
    )


def public_setting(
    cohort: Cohort, grid: TimeGrid, spread: float = 1.0, link: str = "cloglog"
) -> Setting:
    columns = cohort.columns
    scaling = Scaling(np.arange(columns), np.zeros(columns), np.full(columns, spread))
    active = np.ones(grid.intervals, dtype=np.bool_)
    own: AnyGrid = grid if LINKS[link].grouped else Pieces(np.append(0.0, grid.edges), 1.0)
    return Setting(own, active, "include", LINKS[link], scaling)


def pooled(cohort: Cohort, grid: TimeGrid, link: str = "cloglog") -> FloatArray:
    """The optimum without noise and clipping."""
    columns = tuple(f"x{k}" for k in range(cohort.columns))
    plan = Plan(columns, LINKS[link], "include", grid.width, grid.horizon, 0.0, Newton())
    found = estimate(plan, InProcess.from_cohorts({"all": cohort}))
    return found.inference.coefficients


def c_index(cohort: Cohort, coefficients: FloatArray) -> float:
    risk = cohort.covariates @ coefficients
    found = concordance_index(cohort.time, cohort.event, risk).index
    assert found is not None
    return found


@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
@pytest.mark.parametrize("link", LINKS)
def test_without_noise_and_clipping_it_ends_at_the_optimum(link: str) -> None:
    cohort, grid = simulated(600, 3, seed=2), TimeGrid.regular(30.0, 180.0)
    descent = PrivateDescent(patients=600, steps=400, clip=50.0, standardise=False)
    release = GaussianRelease(NEXT_TO_NOTHING, 50.0, releases=400)
    found = descent.train(
        noised_federation(cohort), public_setting(cohort, grid, link=link), release
    )
    np.testing.assert_allclose(found.beta, pooled(cohort, grid, link), atol=0.02)


@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
def test_covariates_off_their_public_center_end_at_the_optimum_too() -> None:
    """The reply is on the setting's scale, whatever scale the descent was on."""
    plain, grid = simulated(600, 3, seed=2), TimeGrid.regular(30.0, 180.0)
    shifted = Cohort(1.2 + 0.5 * plain.covariates, plain.time, plain.event)
    descent = PrivateDescent(patients=600, steps=400, clip=50.0)
    release = GaussianRelease(NEXT_TO_NOTHING, 50.0, releases=401)
    setting = public_setting(shifted, grid)
    found = descent.train(noised_federation(shifted), setting, release)
    np.testing.assert_allclose(found.beta, pooled(shifted, grid), atol=0.04)
    risk = float(np.mean(setting.link.hazard(found.alpha + found.beta @ np.full(3, 1.2))))
    assert 0.02 < risk < 0.3, "α belongs to the public center, not to that of the patients"


def test_a_ridge_draws_the_coefficients_to_zero() -> None:
    cohort, grid = simulated(300, 3, seed=2), TimeGrid.regular(30.0, 180.0)
    descent = PrivateDescent(patients=300, steps=100, clip=5.0)

    def found(ridge: float) -> float:
        release = GaussianRelease(NEXT_TO_NOTHING, 5.0, releases=101)
        setting = public_setting(cohort, grid)
        point = descent.train(noised_federation(cohort), setting, release, np.full(3, ridge))
        return float(np.linalg.norm(point.beta))

    assert found(1000.0) < 0.3 * found(50.0) < 0.3 * found(0.0)


@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
def test_sampled_rounds_lead_to_the_same_place() -> None:
    cohort, grid = simulated(600, 3, seed=2), TimeGrid.regular(30.0, 180.0)
    descent = PrivateDescent(patients=600, steps=300, clip=50.0, sampling_rate=0.3)
    release = GaussianRelease(NEXT_TO_NOTHING, 50.0, 0.3, releases=301)
    found = descent.train(noised_federation(cohort), public_setting(cohort, grid), release)
    np.testing.assert_allclose(found.beta, pooled(cohort, grid), atol=0.1)


def test_splitting_patients_over_centers_changes_nothing_but_the_noise() -> None:
    cohort, grid = simulated(300, 3, seed=5), TimeGrid.regular(30.0, 180.0)
    descent = PrivateDescent(patients=300, steps=20)
    parts = split(cohort, np.arange(300) % 7 // 2, 5).values()  # the last one is empty
    release = GaussianRelease(NEXT_TO_NOTHING, 1.0, releases=21)
    setting = public_setting(cohort, grid)
    one = descent.train(noised_federation(cohort), setting, release)
    many = descent.train(noised_federation(*parts), setting, release)
    np.testing.assert_allclose(many.beta, one.beta, atol=1e-5)
    np.testing.assert_allclose(many.alpha, one.alpha, atol=1e-5)


def test_every_round_is_paid_for_and_none_is_left_over() -> None:
    cohort, grid = simulated(100, 2, seed=1), TimeGrid.regular(50.0, 150.0)
    descent = PrivateDescent(patients=100, steps=4)
    release = descent.release(1.0, DELTA, columns=2)
    assert 0.995 < epsilon_of(release, DELTA) <= 1.0
    federation = noised_federation(cohort)
    steps: list[Step] = []
    descent.train(federation, public_setting(cohort, grid), release, watch=steps.append)
    assert len(steps) == 4
    assert federation.ledger.rounds == release.releases == 5
    with pytest.raises(RefusedError, match="all the noised sums"):
        descent.train(federation, public_setting(cohort, grid), release)


def test_more_noise_clips_closer_and_never_beyond_its_limits() -> None:
    def clip(epsilon: float, columns: int, patients: int) -> float:
        descent = PrivateDescent(patients=patients)
        return descent.release(epsilon, DELTA, columns=columns).sensitivity

    assert clip(3.0, 20, 4000) == 1.5
    assert 0.65 < clip(3.0, 200, 4000) < 0.75
    assert clip(1.0, 200, 300) == 0.3
    assert (
        replace(PrivateDescent(100), clip=0.8).release(1.0, DELTA, columns=5).sensitivity == 0.8
    )


def test_the_clip_counts_the_noise_of_all_centers() -> None:
    descent = PrivateDescent(patients=4000)
    once = descent.release(3.0, DELTA, columns=200)
    assert descent.release(3.0, DELTA, columns=200, centers=1) == once
    parts = descent.release(3.0, DELTA, columns=200, centers=5, fewest_centers=5)
    assert parts == replace(once, fewest_centers=5)
    assert descent.release(3.0, DELTA, columns=200, fewest_centers=3).sensitivity == (
        once.sensitivity
    )
    # The bound falls with the root of the noise, and that grows with the root of the centers.
    each = descent.release(3.0, DELTA, columns=200, centers=4)
    assert each.sensitivity == pytest.approx(once.sensitivity / math.sqrt(2.0), rel=1e-12)
    assert each.noise_multiplier == once.noise_multiplier


@pytest.mark.parametrize(("fewest", "added"), [(None, 2.0), (2, math.sqrt(2.0)), (4, 1.0)])
def test_moments_are_trusted_as_far_as_the_noise_of_all_centers_allows(
    fewest: int | None, added: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[float] = []

    def listen(self: ClippedMoments, public: Scaling, noise: float) -> Scaling:
        heard.append(noise)
        return public

    monkeypatch.setattr(ClippedMoments, "scaling", listen)
    cohort, grid = simulated(80, 2, seed=1), TimeGrid.regular(50.0, 150.0)
    federation = noised_federation(*split(cohort, np.arange(80) % 4, 4).values())
    release = GaussianRelease(3.0, 0.5, releases=5, fewest_centers=fewest)
    PrivateDescent(patients=80).standardised(federation, public_setting(cohort, grid), release)
    assert heard == [pytest.approx(1.5 * added, rel=1e-12)]


@pytest.mark.parametrize(
    ("columns", "intervals", "epsilon", "centers"),
    [(6, 10, 1.0, 1), (6, 10, 0.1, 1), (40, 10, 1.0, 20), (6, 60, 0.25, 1)],
)
def test_noise_is_foreseen_to_a_factor_of_two(
    columns: int, intervals: int, epsilon: float, centers: int
) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1500, columns))
    true = rng.normal(size=columns)
    true /= np.linalg.norm(true)
    happens, censored = rng.exponential(1500 * np.exp(-x @ true)), rng.uniform(300, 2500, 1500)
    cohort = Cohort(x, np.minimum(happens, censored), happens < censored)
    setting = public_setting(cohort, TimeGrid.regular(1800.0 / intervals, 1800.0))
    descent = PrivateDescent(patients=1500)
    release = descent.release(epsilon, DELTA, columns=columns, centers=centers)
    parts = split(cohort, np.arange(1500) % centers, centers).values()
    found = np.array(
        [
            descent.train(noised_federation(*parts, seed=seed), setting, release).beta
            for seed in range(5)
        ]
    )
    exact = descent.train(
        noised_federation(cohort), setting, GaussianRelease(NEXT_TO_NOTHING, 1.5, releases=61)
    ).beta
    off = math.sqrt(float(np.mean(((found - exact) ** 2).sum(axis=1))))
    foreseen = descent.noise_in_log_risk(
        release, columns=columns, intervals=intervals, centers=centers
    )
    assert 0.5 < foreseen / off < 2.0


def test_more_noise_is_foreseen_with_less_epsilon_fewer_patients_and_more_to_find() -> None:
    def foreseen(
        epsilon: float = 1.0,
        patients: int = 1500,
        columns: int = 6,
        intervals: int = 10,
        centers: int = 1,
    ) -> float:
        descent = PrivateDescent(patients=patients)
        release = descent.release(epsilon, DELTA, columns=columns, centers=centers)
        return descent.noise_in_log_risk(
            release, columns=columns, intervals=intervals, centers=centers
        )

    usual = foreseen()
    assert foreseen(epsilon=0.5) > usual
    assert foreseen(patients=700) > usual
    assert foreseen(columns=12) > usual
    assert foreseen(intervals=20) > usual
    assert foreseen(centers=5) > usual


@pytest.mark.parametrize(("columns", "epsilon", "allowed"), [(20, 1.0, 0.01), (200, 3.0, 0.02)])
@pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning")
def test_noise_costs_little_concordance(columns: int, epsilon: float, allowed: float) -> None:
    """The paper's simulated patients, 4000 to learn from and 1000 to be judged on."""
    grid = TimeGrid.regular(math.log(2.0) / 10, math.log(2.0))
    lost = []
    for seed in range(2):
        drawn = simulate_paper_cohort(
            5000, columns, rng=np.random.default_rng(seed), censoring_bound="population"
        ).cohort
        known, new = (
            Cohort(drawn.covariates[rows], drawn.time[rows], drawn.event[rows])
            for rows in (slice(4000), slice(4000, None))
        )
        descent = PrivateDescent(patients=4000, standardise=False)
        release = descent.release(epsilon, DELTA, columns=columns)
        setting = public_setting(known, grid, spread=1.0 / math.sqrt(columns))
        point = descent.train(noised_federation(known, seed=seed), setting, release)
        private = setting.scaling.coefficients(point.beta)
        lost.append(c_index(new, pooled(known, grid)) - c_index(new, private))
    assert float(np.mean(lost)) < allowed
