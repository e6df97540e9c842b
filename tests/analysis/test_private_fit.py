"""A study under differential privacy: what it finds, what it never tells, what it spends."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcox.analysis.fit import fit
from fedcox.analysis.fitted import FittedStudy
from fedcox.analysis.private_fit import with_budgets
from fedcox.analysis.private_notices import large_delta, much_noise
from fedcox.analysis.study import Study
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import BudgetError, NoiseWarning, RefusedError, StudyError
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.queries.clipped_gradient import ClippedGradientAt
from fedcox.federation.query import AbstractQuery
from fedcox.privacy.gate import Gate
from fedcox.privacy.noise import SeededRandomnessForSimulations
from fedcox.privacy.policy import Policy
from fedcox.survival.cohort import Cohort, FloatArray

TRUE = np.array([0.5, -0.4, 0.0])


def cohort(patients: int, seed: int) -> Cohort:
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(size=(patients, 3)), -3, 3)
    happens = rng.exponential(300 * np.exp(-x @ TRUE))
    censored = rng.uniform(100, 900, patients)
    return Cohort(x, np.minimum(happens, censored) + 0.5, happens < censored)


COHORTS = {f"c{k}": cohort(600, k) for k in range(4)}


def tables(**changed: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "outcome": {"time": "t", "event": "e"},
        "covariates": {f"x{k}": {"type": "number", "min": -3.0, "max": 3.0} for k in range(3)},
        "grid": {"width": 90.0, "horizon": 720.0},
        "solver": {"method": "private", "patients": 2400, "steps": 40},
        "privacy": {"secure_sums": True, "differential": {"epsilon": 2.0}},
    }
    return given | changed


STUDY = Study(**tables())


def seeded(study: Study = STUDY, seed: int = 0, gate: Gate | None = None) -> InProcess:
    """Centers whose noise can be repeated, for tests alone."""
    return InProcess(
        [
            Center(
                name,
                part,
                gate=gate,
                noise=NoisedReplies(
                    "study", 1e-5, randomness=SeededRandomnessForSimulations(seed, k)
                ),
            )
            for k, (name, part) in enumerate(COHORTS.items())
        ]
    )


@pytest.fixture(scope="module")
def fitted() -> FittedStudy:
    return fit(STUDY, seeded())


def coefficients(found: FittedStudy) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([row.coef for row in found.coefficients], dtype=np.float64)


def test_it_finds_the_effects(fitted: FittedStudy) -> None:
    plain = fit(
        Study(**tables(solver={"method": "newton"}, privacy={})),
        InProcess.from_cohorts(COHORTS),
    )
    np.testing.assert_allclose(coefficients(fitted), coefficients(plain), atol=0.1)


def test_nothing_but_noised_sums_is_told(fitted: FittedStudy) -> None:
    assert fitted.patients is None
    assert fitted.events is None
    assert fitted.concordance is None
    assert fitted.likelihood_ratio is None
    assert np.isnan(fitted.log_likelihood)
    assert all(row.se is row.z is row.p is row.ratio_low is None for row in fitted.coefficients)
    assert all(row.at_risk is row.events is None for row in fitted.baseline)
    assert all(row.patients is row.events is None for row in fitted.centers)
    assert {row.protection for row in fitted.ledger} == {"keys", "masks and noise"}
    assert {row.smallest_group for row in fitted.ledger} == {None}


def test_the_guarantee_is_the_one_asked_for(fitted: FittedStudy) -> None:
    assert fitted.guarantee is not None
    assert fitted.guarantee.epsilon == pytest.approx(2.0, rel=1e-3)
    assert fitted.guarantee.epsilon <= 2.0
    assert fitted.guarantee.releases == fitted.rounds == 41
    assert {row.epsilon for row in fitted.ledger} == {None, fitted.guarantee.epsilon}


def test_the_epsilon_against_other_centers_counts_one_part_of_the_noise(
    fitted: FittedStudy,
) -> None:
    """By dp-accounting itself: 41 sums, and a third of the noise's variance."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    assert fitted.guarantee is not None
    own = fitted.guarantee.noise / np.sqrt(3 * fitted.guarantee.releases)
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_accounting.GaussianDpEvent(own))
    larger = fitted.guarantee.epsilon_against_centers
    assert larger is not None
    assert larger == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-6)
    assert larger > fitted.guarantee.epsilon


def test_without_masks_epsilon_is_the_same_against_everybody() -> None:
    private = {"differential": {"epsilon": 2.0}}
    solver = {"method": "private", "patients": 2400, "steps": 2}
    alone = fit(Study(**tables(privacy=private, solver=solver)), seeded()).guarantee
    assert alone is not None
    assert alone.epsilon_against_centers == alone.epsilon


@pytest.mark.parametrize("known", [None, 3.5, math.inf])
def test_a_guarantee_is_read_back_whatever_is_known_against_centers(
    fitted: FittedStudy, known: float | None, tmp_path: Path
) -> None:
    assert fitted.guarantee is not None
    promised = replace(fitted.guarantee, epsilon_against_centers=known)
    path = tmp_path / "fit.json"
    replace(fitted, guarantee=promised).save(path)
    written = json.loads(path.read_text())["guarantee"]
    assert ("epsilon_against_centers" in written) == (known is not None)
    assert FittedStudy.read(path).guarantee == promised


def test_a_fit_with_little_noise_has_nothing_to_warn_of(fitted: FittedStudy) -> None:
    assert fitted.notices == ()


@pytest.mark.parametrize(
    ("epsilon", "secure", "steps"), [(0.001, True, 3), (0.001, False, 3), (0.05, False, 40)]
)
def test_a_fit_that_is_mostly_noise_says_so(epsilon: float, secure: bool, steps: int) -> None:
    solver = {"method": "private", "patients": 2400, "steps": steps}
    privacy = {"secure_sums": secure, "differential": {"epsilon": epsilon}}
    with pytest.warns(NoiseWarning, match="Noise dominates"):
        found = fit(Study(**tables(privacy=privacy, solver=solver)), seeded())
    (notice,) = found.notices
    assert notice.name == "NoiseWarning"
    assert ("use secure sums" in notice.text) != secure


def test_the_warning_does_not_look_at_the_patients() -> None:
    """Other patients, fewer and without an effect: the same words."""
    solver = {"method": "private", "patients": 2400, "steps": 3}
    study = Study(**tables(privacy={"differential": {"epsilon": 0.01}}, solver=solver))
    few = {name: cohort(5, 50 + k) for k, name in enumerate(COHORTS)}
    with pytest.warns(NoiseWarning):
        told = [
            fit(study, federation).notices
            for federation in (seeded(), InProcess.from_cohorts(few))
        ]
    assert told[0] == told[1]


@pytest.mark.parametrize(("delta", "told"), [(1 / 2400, True), (0.01, True), (4e-4, False)])
def test_a_delta_of_one_patient_or_more_is_told(delta: float, told: bool) -> None:
    assert bool(large_delta(delta, 2400)) == told


@pytest.mark.parametrize(
    ("factor", "begin", "told"),
    [
        (1.4, "Much noise: ", "a factor of about 1.4,"),
        (2.5, "Noise dominates: ", "a factor of about 2.5,"),
        (1e300, "Noise dominates: ", "a factor of more than 10,"),
    ],
)
def test_words_on_noise_grow_with_it(factor: float, begin: str, told: str) -> None:
    (notice,) = much_noise(math.log(factor), masked=True)
    assert notice.text.startswith(begin)
    assert told in notice.text
    assert much_noise(math.log(1.34), masked=True) == []


def test_it_is_read_back_as_it_was_written(fitted: FittedStudy, tmp_path: Path) -> None:
    fitted.save(tmp_path / "fit.json")
    again = FittedStudy.read(tmp_path / "fit.json")
    assert again.guarantee == fitted.guarantee
    assert again.coefficients == fitted.coefficients
    assert again.baseline == fitted.baseline


def test_noise_is_that_of_one_sum_under_masks_and_of_every_center_without() -> None:
    """The total's noise against the noiseless sum: σ once, or √centers times σ."""
    sizes = {}
    for secure in (True, False):
        privacy = {"secure_sums": secure, "differential": {"epsilon": 2.0}}
        recording = _Recording(Masked.around(seeded()) if secure else seeded())
        fit(Study(**tables(privacy=privacy)), recording)
        noise = [
            (found - sum(query.pack(query.answer(part)) for part in COHORTS.values()))
            / (query.release.noise_multiplier * query.release.sensitivity)
            for query, found in recording.gradients
        ]
        assert len(noise) == 40
        sizes[secure] = float(np.sqrt(np.mean(np.square(noise))))
    # 440 numbers: their size is known to about a thirtieth. Three of four centers may answer,
    # so the four parts of the noise add up to √(4/3).
    assert sizes[True] == pytest.approx(np.sqrt(4 / 3), rel=0.12)
    assert sizes[False] == pytest.approx(2.0, rel=0.12)


class _Recording:
    """Keeps every noised gradient beside its question."""

    def __init__(self, federation: Any) -> None:
        self._federation = federation
        self.gradients: list[tuple[ClippedGradientAt, FloatArray]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._federation, name)

    def ask(self, query: AbstractQuery[Any]) -> Any:
        answer = self._federation.ask(query)
        if isinstance(query, ClippedGradientAt):
            self.gradients.append((query, query.pack(answer)))
        return answer


@pytest.mark.parametrize("claimed", [5, 1000])
def test_a_coordinator_cannot_divide_the_noise_away(claimed: int) -> None:
    masked = Masked.around(seeded())
    query = _a_question()
    honest = replace(query, release=replace(query.release, fewest_centers=3))
    masked.ask(honest)
    forged = replace(query, release=replace(query.release, fewest_centers=claimed))
    with pytest.raises(RefusedError, match=f"divided by {claimed}"):
        masked.ask(forged)


def test_a_part_of_the_noise_is_never_given_as_the_whole() -> None:
    """The same question under masks and then without: another reply, with all of the noise."""
    center = Center("Lyon", COHORTS["c0"], noise=NoisedReplies("study", 1e-5))
    query = _a_question()
    under_masks = query.pack(center.answer(query, masked=True))
    assert (under_masks != query.pack(center.answer(query))).all()


def test_a_center_without_a_way_to_add_noise_refuses() -> None:
    with pytest.raises(RefusedError, match=r"would need noise"):
        Center("Lyon", COHORTS["c0"]).answer(_a_question())


def _a_question() -> ClippedGradientAt:
    from fedcox.analysis.private_fit import private_descent
    from fedcox.analysis.public_scale import public_setting

    setting = public_setting(STUDY)
    release = private_descent(STUDY).release(2.0, 1e-5, columns=3)
    return ClippedGradientAt(
        setting, np.full(setting.intervals, -2.0), np.zeros(3), 0.4, 0.5, release
    )


def test_the_same_question_again_gets_the_same_reply_and_costs_nothing() -> None:
    center = Center("Lyon", COHORTS["c0"], noise=NoisedReplies("study", 1e-5))
    query = _a_question()
    first = query.pack(center.answer(query))
    for _ in range(2 * query.release.releases):
        np.testing.assert_array_equal(query.pack(center.answer(query)), first)


def test_no_more_sums_than_were_paid_for() -> None:
    center = Center("Lyon", COHORTS["c0"], noise=NoisedReplies("study", 1e-5))
    query = _a_question()
    for k in range(query.release.releases):
        center.answer(replace(query, beta=np.full(3, 0.01 * k)))
    with pytest.raises(BudgetError, match=r"all the noised sums"):
        center.answer(replace(query, beta=np.ones(3)))


def test_a_spent_epsilon_stays_spent(tmp_path: Path) -> None:
    policy = Policy(differential_privacy={"epsilon": 3.0, "delta": 1e-4})
    study = Study(**tables(solver={"method": "private", "patients": 2400, "steps": 3}))

    def once() -> None:
        centers = [Center(name, part, gate=Gate(policy)) for name, part in COHORTS.items()]
        fit(study, with_budgets(study, InProcess(centers), tmp_path))

    once()
    written = {file.name: file.read_text() for file in tmp_path.iterdir()}
    with pytest.raises(BudgetError, match=r"privacy budget does not cover"):
        once()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == written


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"solver": {"method": "newton"}}, "go together"),
        ({"privacy": {}}, "go together"),
        ({"grid": {"width": 90.0}}, "horizon"),
        ({"covariates": ["x0", "x1", "x2"]}, "min and max"),
        ({"solver": {"method": "private"}}, "patients"),
        (
            {"privacy": {"differential": {"epsilon": 0.0}}},
            r"\[privacy.differential\] epsilon: found 0; a number above 0",
        ),
        (
            {"privacy": {"differential": {"epsilon": 1.0, "delta": 1.0}}},
            r"\[privacy.differential\] delta: found 1; a number below 1",
        ),
        ({"privacy": {"differential": {}}}, r"\[privacy.differential\] epsilon: missing"),
        (
            {"privacy": {"differential": {"epsilon": 1.0, "eps": 1}}},
            r"\[privacy.differential\] eps: unknown key",
        ),
    ],
)
def test_a_study_that_cannot_be_private_says_why(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(StudyError, match=told):
        Study(**tables(**changed))
