"""A study under noise, start to end: what it asks for, what it tells, what it refuses."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.errors import NoiseWarning, NotConvergedWarning, StudyError
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.privacy.budget import Budget
from fedcox.privacy.noise import SeededRandomnessForSimulations
from fedcox.solvers.private_ascent import LeftOut
from fedcox.study import noised_notices
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.noised_fit import fit_noised, planned, spending
from fedcox.study.notices import large_delta
from fedcox.study.released import released
from fedcox.study.study import Study

CENTERS, EACH = 4, 600
HORIZON = 720.0
TRUE = {"x0": 0.5, "x1": -0.4, "sex_f": 0.3}
NOISE = {"epsilon": 12.0, "patients": CENTERS * EACH, "events": 1400}


def patients(count: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, woman = np.clip(rng.normal(size=(count, 2)), -3, 3), rng.random(count) < 0.4
    risk = np.exp(x @ [TRUE["x0"], TRUE["x1"]] + TRUE["sex_f"] * woman)
    happens, censored = rng.exponential(400 / risk), rng.uniform(100, 900, count)
    return pd.DataFrame(
        {
            "x0": x[:, 0],
            "x1": x[:, 1],
            "sex": np.where(woman, "f", "m"),
            "t": np.minimum(happens, censored) + 0.5,
            "e": (happens < censored).astype(int),
        }
    )


FRAMES = {f"c{k}": patients(EACH, k) for k in range(CENTERS)}


def tables(**changed: Any) -> dict[str, Any]:
    number = {"type": "number", "min": -3.0, "max": 3.0}
    given: dict[str, Any] = {
        "outcome": {"time": "t", "event": "e"},
        "covariates": {
            "x0": number,
            "x1": number,
            "sex": {"type": "category", "levels": ["m", "f"], "reference": "m"},
        },
        "grid": {"horizon": HORIZON},
        "privacy": {"secure_sums": True, "noise": NOISE},
    }
    return given | changed


def under(**noise: Any) -> dict[str, Any]:
    """The privacy of a study with this noise."""
    return {"secure_sums": True, "noise": {"patients": CENTERS * EACH, **noise}}


def seeded(study: Study, frames: dict[str, pd.DataFrame] | None = None) -> InProcess:
    """Centers whose noise can be repeated, for tests alone."""
    federation = InProcess.from_frame(study, FRAMES if frames is None else frames)
    return InProcess(
        [
            Center(
                center.name,
                center.cohort,
                noise=NoisedReplies(
                    "s", 1e-5, randomness=SeededRandomnessForSimulations(11, number)
                ),
            )
            for number, center in enumerate(federation.centers)
        ]
    )


@cache
def fitted() -> FittedStudy:
    study = Study(**tables())
    return fit(study, seeded(study))


@cache
def lost() -> FittedStudy:
    """Of so few patients that nothing is left of them but noise."""
    study = Study(**tables(privacy={"noise": {"epsilon": 1.0, "patients": 80}}))
    with pytest.warns(NotConvergedWarning, match="did not arrive"):
        return fit(study, seeded(study, {"c0": FRAMES["c0"].iloc[:80]}))


def test_the_truth_lies_within_three_standard_errors() -> None:
    summary = fitted().summary
    for name, effect in TRUE.items():
        row = summary.loc[name]
        assert abs(row["coef"] - effect) < 3.0 * row["se(coef)"] < 0.5


def test_the_guarantee_is_the_one_asked_for() -> None:
    guarantee = fitted().guarantee
    assert guarantee is not None
    assert guarantee.epsilon == pytest.approx(12.0, rel=1e-3)
    assert guarantee.epsilon <= 12.0
    assert guarantee.releases == planned(fitted().study, 4).releases == fitted().rounds + 3
    assert guarantee.masked
    against = guarantee.epsilon_against_centers
    assert against is not None
    assert against > guarantee.epsilon
    assert {row.epsilon for row in fitted().ledger} == {None, guarantee.epsilon}


def test_every_standard_error_holds_the_price() -> None:
    """The covariance, the coefficients' errors and the intervals are one thing."""
    found = fitted()
    covariance, guarantee = found.covariance, found.guarantee
    assert covariance is not None
    assert guarantee is not None
    assert guarantee.price is not None
    assert 1.0 < guarantee.price < 1.2
    for number, row in enumerate(found.coefficients):
        assert row.coef is not None
        assert row.se is not None
        variance = covariance.to_numpy()[number, number]
        assert row.se == pytest.approx(float(np.sqrt(variance)))
        assert row.ratio_low == pytest.approx(np.exp(row.coef - 1.959964 * row.se))


def test_survival_and_its_band_are_told_to_the_horizon_and_no_further() -> None:
    found, some = fitted(), FRAMES["c0"].iloc[:7]
    assert found.horizon == HORIZON
    times = np.array([0.0, 30.0, 400.0, HORIZON, HORIZON + 1.0])
    curves, band = found.predict_survival(some, times), found.predict_survival_band(some, times)
    assert band is not None
    low, high = (side.to_numpy() for side in band)
    inside = curves.to_numpy()[:, :-1]
    assert (inside[:, 0] == 1.0).all()
    assert (np.diff(inside, axis=1) < 0).all()
    assert (low[:, 1:-1] < inside[:, 1:]).all()
    assert (inside[:, 1:] < high[:, 1:-1]).all()
    assert (high - low)[:, 1:-1].max() < 0.3
    for each in (curves.to_numpy(), low, high):
        assert np.isnan(each[:, -1]).all(), "nothing is known beyond the horizon"


def test_a_fit_is_read_back_with_its_price_and_its_bands(tmp_path: Path) -> None:
    written = released(fitted())
    written.save(tmp_path / "fit.json")
    again = FittedStudy.read(tmp_path / "fit.json")
    assert again.guarantee == fitted().guarantee
    assert again.coefficients == written.coefficients
    assert [row.hazard for row in again.baseline] == pytest.approx(
        [row.hazard for row in written.baseline], rel=1e-12
    )
    band = again.predict_survival_band(FRAMES["c1"])
    before = written.predict_survival_band(FRAMES["c1"])
    assert band is not None
    assert before is not None
    for found, due in zip(band, before, strict=True):
        pd.testing.assert_frame_equal(found, due)


def _named(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a file, by the keys that lead to it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _named(part, f"{path}.{key}")
    elif isinstance(value, list):
        for part in value:
            yield from _named(part, path)
    else:
        yield path, value


@pytest.mark.parametrize("made", [fitted, lost])
def test_no_file_holds_an_exact_count_of_patients(made: Any, tmp_path: Path) -> None:
    made().save(tmp_path / "fit.json")
    written = json.loads((tmp_path / "fit.json").read_text())
    counts = re.compile(r"\.(patients|events|at_risk|interval_at_risk|interval_events)$")
    found = [
        (path, value)
        for path, value in _named({**written, "study": {}, "study_source": ""})
        if counts.search(path)
    ]
    assert len(found) > 5
    assert {value for _, value in found} == {None}
    assert written["concordance"] is None


@pytest.mark.parametrize("made", [fitted, lost])
def test_nothing_but_noised_sums_leaves_a_center(made: Any) -> None:
    protections = {row.protection for row in made().ledger} - {"keys"}
    assert protections <= {"masks and noise", "noise"}
    assert protections


def test_a_fit_that_did_not_arrive_infers_nothing() -> None:
    found = lost()
    assert not found.converged
    assert [notice.name for notice in found.notices] == ["NotConvergedWarning"]
    for row in found.coefficients:
        assert row.coef is not None
        assert row.se is row.z is row.p is row.ratio_low is row.ratio_high is None
    assert found.covariance is None
    assert found.coefficient_covariance is None
    assert found.predict_survival_band(FRAMES["c0"].iloc[:3]) is None
    assert found.guarantee is not None
    assert found.guarantee.price is None
    assert found.guarantee.epsilon == pytest.approx(1.0, rel=1e-3), "it is spent all the same"


def test_a_fit_that_did_not_arrive_is_read_back_as_one(tmp_path: Path) -> None:
    lost().save(tmp_path / "fit.json")
    again = FittedStudy.read(tmp_path / "fit.json")
    assert again.guarantee == lost().guarantee
    assert again.notices == lost().notices
    assert not again.converged
    assert again.covariance is None


@pytest.mark.parametrize("known", [None, 3.5, math.inf])
def test_a_guarantee_is_read_back_whatever_is_known_against_centers(
    known: float | None, tmp_path: Path
) -> None:
    found = fitted()
    assert found.guarantee is not None
    promised = replace(found.guarantee, epsilon_against_centers=known)
    path = tmp_path / "fit.json"
    replace(found, guarantee=promised).save(path)
    written = json.loads(path.read_text())["guarantee"]
    assert ("epsilon_against_centers" in written) == (known is not None)
    assert FittedStudy.read(path).guarantee == promised


def test_the_epsilon_against_other_centers_counts_one_part_of_the_noise() -> None:
    """By dp-accounting itself: all sums as one, and a fourth of the noise's variance."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    guarantee = fitted().guarantee
    assert guarantee is not None
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_accounting.GaussianDpEvent(guarantee.noise / math.sqrt(CENTERS)))
    larger = guarantee.epsilon_against_centers
    assert larger == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-6)


@pytest.mark.parametrize(("delta", "told"), [(1 / 2400, True), (0.01, True), (4e-4, False)])
def test_a_delta_of_one_patient_or_more_is_told(delta: float, told: bool) -> None:
    assert bool(large_delta(delta, 2400)) == told


@pytest.mark.parametrize("price", [0.05, 0.2])
def test_a_price_is_what_noise_adds_to_the_standard_errors(price: float) -> None:
    study = Study(**tables(privacy=under(price=price, events=1400)))
    found = fit(study, seeded(study))
    assert found.guarantee is not None
    # Under masks as if half the centers could be lost, so that somewhat less noise remains.
    assert 1.0 + 0.5 * price < (found.guarantee.price or 0.0) < 1.0 + 1.1 * price
    agreed = spending(study, CENTERS)
    assert (found.guarantee.epsilon, found.guarantee.delta) == (agreed.epsilon, agreed.delta)
    assert found.guarantee.releases == agreed.sums


def test_a_lower_price_costs_more_epsilon() -> None:
    spent = [
        spending(Study(**tables(privacy=under(price=price))), CENTERS).epsilon
        for price in (0.5, 0.2, 0.1, 0.05, 0.02)
    ]
    assert spent == sorted(spent)
    assert spent[-1] > 3 * spent[0]


def test_without_secure_sums_every_center_adds_noise_and_a_price_costs_more() -> None:
    apart = under(price=0.05) | {"secure_sums": False}
    spent = [
        spending(Study(**tables(privacy=privacy)), CENTERS).epsilon
        for privacy in (under(price=0.05), apart)
    ]
    assert spent[1] > 1.2 * spent[0]


def test_a_price_that_no_guarantee_has_is_refused_in_words() -> None:
    study = Study(**tables(privacy=under(price=1e-5)))
    with pytest.raises(StudyError, match=r"No epsilon below 1000 has a price of 1e-05") as said:
        fit(study, seeded(study))
    assert "Allow a larger price" in said.value.faults[0]


@pytest.mark.filterwarnings("ignore::fedcox.errors.NoiseWarning")
def test_a_plan_that_is_far_off_has_paid_for_its_first_round_alone(tmp_path: Path) -> None:
    study = Study(**tables(privacy={"noise": {"epsilon": 8, "patients": 10_000}}))
    centers, budgets = [], []
    for number, center in enumerate(seeded(study).centers):
        budgets.append(Budget(tmp_path / center.name, epsilon=8.0, delta=1e-3))
        randomness = SeededRandomnessForSimulations(number)
        noise = NoisedReplies("s", 1e-5, budgets[-1], randomness, sums=17, most=8.0)
        centers.append(replace(center, noise=noise))
    with pytest.raises(StudyError, match="another number of patients"):
        fit_noised(study, InProcess(centers))
    for budget in budgets:
        assert 0.2 < budget.spent.epsilon / 8.0 < 0.3
        assert (budget.spent.studies, budget.spent.delta) == (1, 1e-5)


def test_what_is_planned_depends_on_no_patient() -> None:
    """Other patients, fewer of them: the same noise."""
    study = Study(**tables(privacy=under(price=0.05, events=1400)))
    other = {name: patients(EACH - 50, 90 + k) for k, name in enumerate(FRAMES)}
    promised = [fit(study, seeded(study, frames)).guarantee for frames in (FRAMES, other)]
    assert promised[0] is not None
    assert promised[1] is not None
    assert promised[0].noise == promised[1].noise == planned(study, CENTERS).multiplier
    assert promised[0].epsilon == promised[1].epsilon


@pytest.mark.parametrize(
    ("grid", "edges"),
    [
        ({"edges": [90.0, 300.0, 720.0]}, [90.0, 300.0, 720.0]),
        ({"width": 240.0, "horizon": 720.0}, [240.0, 480.0, 720.0]),
    ],
)
def test_pieces_that_a_study_names_are_taken(grid: dict[str, Any], edges: list[float]) -> None:
    study = Study(**tables(grid=grid))
    assert fit(study, seeded(study)).edges.tolist() == edges


@pytest.mark.filterwarnings("ignore::fedcox.errors.NoiseWarning")
def test_as_many_pieces_are_cut_as_a_study_wants() -> None:
    study = Study(**tables(grid={"pieces": 6, "horizon": HORIZON}))
    found = fit(study, seeded(study))
    assert found.intervals == 6
    events = np.histogram(
        pd.concat(FRAMES.values()).query("e == 1")["t"], np.append(0.0, found.edges)
    )[0]
    assert events.max() < 1.5 * events.min(), "about as many events in each"


def cured(share: float) -> dict[str, pd.DataFrame]:
    """Of those with the highest risk so many never have the event, and stay to the end."""
    rng = np.random.default_rng(4)
    frames = {}
    for name, frame in FRAMES.items():
        x = np.clip(rng.standard_t(4, EACH), -6, 6) / 2.0
        happens, censored = rng.exponential(300 * np.exp(-1.5 * x)), rng.uniform(300, 900, EACH)
        lucky = (x > 1.4) & (rng.random(EACH) < share)
        happens = np.where(lucky, 1e6, happens)
        frames[name] = frame.assign(
            x0=x, t=np.minimum(happens, censored) + 0.5, e=(happens < censored).astype(int)
        )
    return frames


def test_without_the_model_far_out_there_are_no_intervals() -> None:
    """Those who are watched to the end of their watch have too few events after it."""
    study = Study(**tables(privacy=under(epsilon=60.0, events=1400)))
    assert fit(study, seeded(study, cured(0.0))).inferred
    with pytest.warns(NotConvergedWarning, match="the model does not hold for patients whose"):
        found = fit(study, seeded(study, cured(0.5)))
    assert not found.inferred


@pytest.mark.parametrize("outcome", [0, 1])
@pytest.mark.parametrize("share", [0.1, 0.4])
def test_a_level_without_events_or_with_events_at_once_has_no_interval(
    outcome: int, share: float
) -> None:
    """Its effect has no end, or none that noise lets be told from it."""
    rng = np.random.default_rng(5)
    frames = {}
    for name, frame in FRAMES.items():
        level = rng.random(EACH) < share
        time = frame["t"].where(~level | (outcome == 0), 1.0)
        event = frame["e"].where(~level, outcome)
        frames[name] = frame.assign(sex=np.where(level, "f", "m"), t=time, e=event)
    study = Study(**tables(privacy=under(price=0.05, events=1400)))
    with pytest.warns(
        NotConvergedWarning, match="of sex_f may have no end|is lost in its noise"
    ):
        found = fit(study, seeded(study, frames))
    assert not found.inferred


def test_a_strong_level_of_which_few_have_the_event_has_its_interval() -> None:
    rng = np.random.default_rng(6)
    frames = {}
    for name, frame in FRAMES.items():
        saved = (frame["sex"] == "f") & (rng.random(EACH) < 0.8)
        frames[name] = frame.assign(e=frame["e"].where(~saved, 0))
    study = Study(**tables(privacy=under(price=0.05, events=1200)))
    assert fit(study, seeded(study, frames)).inferred


def test_many_events_left_out_are_a_notice() -> None:
    solution = SimpleNamespace(
        faults=(),
        metric=SimpleNamespace(events=np.array([300.0, 200.0])),
        left_out=LeftOut(events=14.0, expected=15.0, noise=2.0),
    )
    (notice,) = noised_notices._left_out(cast(Any, solution))
    assert "about 15 events (give or take 4)" in notice.text
    solution.left_out = LeftOut(events=3.0, expected=4.0, noise=2.0)
    assert not noised_notices._left_out(cast(Any, solution))


def test_rare_levels_and_ranges_far_too_wide_are_a_notice() -> None:
    """They do not count in full; who lies within three standard deviations does."""
    rng = np.random.default_rng(4)
    wide = {"type": "number", "min": -40.0, "max": 40.0}
    study = Study(**tables(covariates=tables()["covariates"] | {"x1": wide}))
    frames = {
        name: frame.assign(sex=np.where(rng.random(EACH) < 0.01, "f", "m"))
        for name, frame in FRAMES.items()
    }
    with pytest.warns(NoiseWarning):
        texts = [notice.text for notice in fit(study, seeded(study, frames)).notices]
    assert (
        sum(
            "The range of x1 is" in text and "standard deviations wide" in text
            for text in texts
        )
        == 1
    )
    assert sum("patients are sex_f" in text for text in texts) == 1
    assert not any("x0" in text for text in texts)
    assert not any("sex_f" in notice.text for notice in fitted().notices)


@pytest.mark.parametrize(
    ("noise", "fault"),
    [({"epsilon": 1001}, "epsilon"), ({"epsilon": 1, "delta": 0.02}, "delta")],
)
def test_noise_that_stands_for_nothing_is_refused(noise: dict[str, Any], fault: str) -> None:
    """Else sums that are exact but for their name would leave where no policy allows that."""
    with pytest.raises(StudyError, match=rf"privacy.*noise.*{fault}"):
        Study(**tables(privacy=under(**noise)))


GROUPED = {"grid": {"width": 90.0, "horizon": HORIZON}}
OLD = r"\[privacy.differential\]: a study under noise is written with \[privacy.noise\] alone"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"privacy": under(epsilon=1.0, price=0.1)}, "epsilon and price are given"),
        ({"privacy": under(epsilon=0.0)}, r"epsilon: found 0; a number above 0"),
        ({"privacy": under(price=1.5)}, r"price: found 1.5; a number of at most 1"),
        (
            {"privacy": under(epsilon=1.0, delta=1.0)},
            r"delta: found 1; a number of at most",
        ),
        ({"privacy": under(epsilon=1.0, events=2401)}, "2401 are more than the 2400 patients"),
        ({"model": {"link": "logit"}, **GROUPED}, '"logit" is not fitted under noise'),
        ({"model": {"link": "cloglog"}, **GROUPED}, '"cloglog" is not fitted under noise'),
        ({"grid": {}}, r"\[grid\] horizon: needed"),
        ({"grid": {"width": 90.0}}, r"\[grid\] horizon: needed"),
        ({"grid": {"times": "events", "horizon": 9.0}}, r"\[grid\] times: \"events\" are"),
        (
            {"solver": {"method": "lbfgs"}},
            r"\[solver\] method: under noise the fit has its own",
        ),
        ({"model": {"ridge": 1.0}}, r"\[model\] ridge: not with noise"),
        ({"model": {"missing": "mean"}}, r"\[model\] missing: \"mean\" is not known"),
        ({"model": {"baseline": "spline"}}, r"\[model\] baseline: \"spline\" is not fitted"),
        ({"covariates": ["x0"]}, r"\[covariates\] x0: min and max are needed"),
        (
            {"covariates": {"x0": {"type": "number", "min": 0.0}}},
            r"\[covariates\] x0: min and max are needed",
        ),
        ({"privacy": {"differential": {"epsilon": 1.0}}}, OLD),
        ({"privacy": {}, "solver": {"method": "private", "patients": 2400}}, OLD),
        ({"privacy": {"noise": {"epsilon": 1.0}}}, r"\[privacy.noise\] patients: missing"),
        (
            {"privacy": under(epsilon=1.0, eps=1)},
            r"\[privacy.noise\] eps: unknown key(?s:.*)price",
        ),
    ],
)
def test_a_study_that_cannot_be_fitted_under_noise_says_why(
    changed: dict[str, Any], told: str
) -> None:
    with pytest.raises(StudyError, match=told):
        Study(**tables(**changed))


def test_what_a_study_was_before_is_told_once_with_what_to_write() -> None:
    old = tables(
        solver={"method": "private", "patients": 2400, "steps": 40},
        privacy={"secure_sums": True, "differential": {"epsilon": 2.0}},
    )
    with pytest.raises(StudyError) as refused:
        Study(**old)
    (fault,) = refused.value.faults
    assert "Write epsilon (or price), delta and patients there, and leave [solver] out" in fault


def test_every_broken_rule_is_told_at_once() -> None:
    changed = tables(
        privacy=under(price=0.1, epsilon=1.0, events=9999),
        grid={},
        model={"ridge": 1.0},
        covariates=["x0", "x1"],
    )
    with pytest.raises(StudyError) as refused:
        Study(**changed)
    assert len(refused.value.faults) == 6
