"""A fit on noised sums: where noise is next to nothing it is the fit without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedcox
import fedcox.solvers.private_ascent as ascent
import fedcox.solvers.private_newton as module
from benchmarks.noise import DELTA, clinic, exact, noised
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import BudgetError
from fedcox.federation.center import Center
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.queries.bounded_sums import AbstractBoundedSum, NoisedMoments
from fedcox.privacy.accountant import epsilon_of, noise_multiplier_for
from fedcox.privacy.budget import Budget
from fedcox.privacy.noise import SeededRandomnessForSimulations
from fedcox.solvers.private_ascent import PrivateSolution
from fedcox.solvers.private_newton import PrivateNewton, fewest_of
from fedcox.study.noised_fit import fit_noised, public_scale
from fedcox.survival.cohort import BoolArray, Cohort, FloatArray, IntArray
from fedcox.survival.time_grid import Pieces
from tests.problems import split

PATIENTS, EVENTS = 3000, 1800
SIMULATED = clinic(PATIENTS, np.random.default_rng(3))
STUDY = fedcox.Study(
    outcome={"time": "time", "event": "event"},
    covariates=SIMULATED.columns,
    grid={"horizon": SIMULATED.horizon},
    privacy={
        "noise": {"epsilon": 1000, "delta": DELTA, "patients": PATIENTS, "events": EVENTS}
    },
)
PLAIN = InProcess.from_frame(STUDY, SIMULATED.frame).centers[0].cohort
COLUMNS = PLAIN.covariates.shape[1]
EVEN = Pieces(np.linspace(0.0, SIMULATED.horizon, 13))
#: Of a study whose noise cannot be seen.
TINY = 1e-3


@cache
def both() -> tuple[fedcox.FittedStudy, fedcox.FittedStudy]:
    """With next to no noise, and without any on the same pieces."""
    private = noised(STUDY, SIMULATED.frame, (1,))
    return private, exact(STUDY, SIMULATED.frame, private.edges)


def away(private: fedcox.FittedStudy, plain: fedcox.FittedStudy) -> FloatArray:
    """Distances of the coefficients, in standard errors."""
    found, due = private.summary, plain.summary
    return ((found["coef"] - due["coef"]) / due["se(coef)"]).abs().to_numpy()


def solved(
    parts: dict[str, Cohort],
    *,
    masked: bool = False,
    multiplier: float = TINY,
    noise: dict[str, NoisedReplies] | None = None,
    keep: list[AbstractBoundedSum] | None = None,
) -> PrivateSolution:
    """Over these centers, whose noise can be repeated."""
    given = noise or {
        name: NoisedReplies("s", DELTA, randomness=SeededRandomnessForSimulations(7, number))
        for number, name in enumerate(parts)
    }
    centers = InProcess([Center(name, part, noise=given[name]) for name, part in parts.items()])
    federation: Any = Masked.around(centers) if masked else centers
    federation = federation if keep is None else _Recording(federation, keep)
    count = len(parts)
    shares = fewest_of(count) if masked else None
    solver = PrivateNewton(PATIENTS, EVENTS, COLUMNS, multiplier, count, shares, 12)
    return solver.solve(federation, EVEN, public_scale(STUDY), cut=False)


class _Recording:
    """Keeps every question."""

    def __init__(self, federation: Any, kept: list[AbstractBoundedSum]) -> None:
        self._federation, self._kept = federation, kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._federation, name)

    def ask_together(self, queries: Sequence[AbstractBoundedSum]) -> Any:
        self._kept.extend(queries)
        return self._federation.ask_together(queries)


def test_next_to_no_noise_gives_the_exact_coefficients_but_for_the_few_who_are_bound() -> None:
    """Weight and watch bind one patient in thousands."""
    private, plain = both()
    assert private.guarantee is not None
    assert private.guarantee.price is not None
    assert private.guarantee.price < 1.001
    assert away(private, plain).max() < 0.1


def test_where_nobody_is_bound_the_fit_is_the_exact_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ascent, "_REACH", 1e4)
    solution = solved({"all": PLAIN}, multiplier=1e-7)
    coefficients = solution.setting.scaling.coefficients(solution.beta)
    plain = exact(STUDY, SIMULATED.frame, EVEN.edges).summary
    assert ((coefficients - plain["coef"]) / plain["se(coef)"]).abs().max() < 0.02


def test_standard_errors_come_near_those_of_the_exact_fit() -> None:
    private, plain = both()
    ratio = (private.summary["se(coef)"] / plain.summary["se(coef)"]).to_numpy()
    np.testing.assert_allclose(ratio, 1.0, atol=0.02)


def test_survival_and_its_band_come_near_those_of_the_exact_fit() -> None:
    private, plain = both()
    some, times = SIMULATED.frame.iloc[:60], np.linspace(0.0, SIMULATED.horizon, 16)
    curves = private.predict_survival(some, times) - plain.predict_survival(some, times)
    assert curves.abs().to_numpy().max() < 0.01
    band = private.predict_survival_band(some, times)
    exact_band = plain.predict_survival_band(some, times)
    assert band is not None
    assert exact_band is not None
    for found, due in zip(band, exact_band, strict=True):
        assert (found - due).abs().to_numpy().max() < 0.015


@cache
def at_one_center() -> PrivateSolution:
    return solved({"all": PLAIN})


def _four_and_odd() -> IntArray:
    """Six centers: one of them has one patient, one has none."""
    center = np.random.default_rng(0).integers(0, 4, PATIENTS)
    center[0] = 5
    return center


SPLITS = {
    "unequal": (np.random.default_rng(1).choice(3, PATIENTS, p=[0.9, 0.09, 0.01]), 3, False),
    "one patient, and nobody": (_four_and_odd(), 6, False),
    "secure sums": (np.random.default_rng(2).integers(0, 5, PATIENTS), 5, True),
    "secure sums, one patient, and nobody": (_four_and_odd(), 6, True),
}


@pytest.mark.parametrize("name", SPLITS)
def test_however_patients_are_split_over_centers_the_fit_is_the_same(name: str) -> None:
    """But for the noise, which is of centers."""
    center, centers, masked = SPLITS[name]
    one, other = at_one_center(), solved(split(PLAIN, center, centers), masked=masked)
    scales = [each.setting.scaling for each in (one, other)]
    moved = scales[1].coefficients(other.beta) - scales[0].coefficients(one.beta)
    errors = np.sqrt(np.diag(scales[0].covariance(one.covariance)))
    assert np.abs(moved / errors).max() < 1e-2
    again = np.sqrt(np.diag(scales[1].covariance(other.covariance)))
    np.testing.assert_allclose(again, errors, rtol=1e-2)


def test_noise_is_counted_once_under_secure_sums_and_for_each_center_without() -> None:
    """Three of five centers may answer, so that five parts are 5/3 of one noise."""
    parts = split(PLAIN, SPLITS["secure sums"][0], 5)
    apart, together = (solved(parts, masked=masked).noise for masked in (False, True))
    assert apart / together == pytest.approx(math.sqrt(3.0), rel=0.05)


@pytest.mark.parametrize("masked", [False, True])
def test_all_sums_of_a_study_are_one_release_of_its_noise(masked: bool) -> None:
    """1 / z² of every sum asked for add up to that of the study."""
    asked: list[AbstractBoundedSum] = []
    solved(split(PLAIN, SPLITS["secure sums"][0], 5), masked=masked, keep=asked)
    assert len(asked) == PrivateNewton(PATIENTS, EVENTS, COLUMNS, TINY).releases
    spent = math.fsum(query.release.noise_multiplier**-2 for query in asked)
    assert spent == pytest.approx(TINY**-2, rel=1e-9)
    kinds = {query.release for query in asked}
    assert math.fsum(kind.share for kind in kinds) == pytest.approx(1.0, abs=1e-9)
    for kind in kinds:
        assert sum(query.release == kind for query in asked) == kind.releases
        assert kind.whole == TINY


def test_a_center_pays_once_for_all_sums_and_gives_no_more(tmp_path: Path) -> None:
    multiplier = noise_multiplier_for(8.0, DELTA)
    budget = Budget(tmp_path / "budget.jsonl", epsilon=10.0, delta=1e-3)
    noise = NoisedReplies("s", DELTA, budget, SeededRandomnessForSimulations(1), most=8.0)
    asked: list[AbstractBoundedSum] = []
    solved({"all": PLAIN}, multiplier=multiplier, noise={"all": noise}, keep=asked)
    assert budget.spent.studies == 1
    assert budget.spent.epsilon == epsilon_of(asked[0].release, DELTA) <= 8.0
    assert budget.spent.delta == DELTA
    for query in asked[:-2]:  # the last ones again get the last replies, for nothing
        with pytest.raises(BudgetError, match=r"all the noised sums"):
            noise.vector(query, PLAIN, masked=False)
    one_more = replace(asked[1].release, sensitivity=3.0)
    assert isinstance(asked[1], NoisedMoments)
    with pytest.raises(BudgetError, match=r"more noised sums than its noise covers"):
        noise.vector(replace(asked[1], release=one_more), PLAIN, masked=False)
    assert budget.spent.studies == 1


@pytest.mark.parametrize("columns", [1, 6, 40])
@pytest.mark.parametrize("multiplier", [0.01, 1.0, 30.0])
def test_shares_of_all_sums_are_the_whole_of_the_study(columns: int, multiplier: float) -> None:
    solver = PrivateNewton(1500, 700, columns, multiplier, centers=4)
    once = module._TABLE + module._MOMENTS + module._PRODUCTS + module._MEANS
    assert once + solver.information + solver.scores.sum() == pytest.approx(1.0)
    assert solver.releases == 5 + solver.scores.size


def test_the_noise_that_is_planned_is_the_noise_that_comes_out() -> None:
    """By public numbers alone, before anybody is asked."""
    solution = solved({"all": PLAIN}, multiplier=0.5)
    planned = PrivateNewton(PATIENTS, EVENTS, COLUMNS, 0.5, 1, None, 12).expected_noise
    assert not solution.faults
    assert solution.noise == pytest.approx(planned, rel=0.25)


def test_a_study_of_one_category_alone_is_fitted() -> None:
    """Its life table and its moments are bounded alike, and are two sums all the same."""
    rng = np.random.default_rng(5)
    woman = rng.random(2000) < 0.4
    happens = rng.exponential(np.where(woman, 300.0, 500.0))
    censored = rng.uniform(100.0, 900.0, 2000)
    frame = pd.DataFrame(
        {
            "sex": np.where(woman, "f", "m"),
            "time": np.minimum(happens, censored),
            "event": (happens <= censored).astype(int),
        }
    )
    study = fedcox.Study(
        outcome={"time": "time", "event": "event"},
        covariates={"sex": {"type": "category", "levels": ["m", "f"], "reference": "m"}},
        grid={"horizon": 720.0},
        privacy={"noise": {"epsilon": 8.0, "patients": 2000}},
    )
    (row,) = noised(study, frame, (7, 2)).coefficients
    assert row.coef == pytest.approx(math.log(5 / 3), abs=0.25)


def test_one_piece_of_time_is_enough() -> None:
    rng = np.random.default_rng(3)
    x, sex = rng.uniform(-1, 1, 2000), rng.random(2000) < 0.5
    time = rng.exponential(400 * np.exp(-0.5 * x - 0.4 * sex))
    frame = pd.DataFrame({"x": x, "sex": 1 * sex, "t": np.minimum(time, 600)})
    frame["e"] = (time < 600).astype(int)
    number = {"type": "number", "min": -1.0, "max": 1.0}
    for grid in ({"pieces": 1, "horizon": 600.0}, {"edges": [600.0]}):
        study = fedcox.Study(
            outcome={"time": "t", "event": "e"},
            covariates={"x": number, "sex": number},
            grid=grid,
            privacy={"noise": {"epsilon": 50.0, "patients": 2000, "events": 1200}},
        )
        fitted = noised(study, frame, (7, 1))
        assert fitted.inferred
        assert fitted.intervals == 1
        assert fitted.summary["coef"].to_numpy() == pytest.approx([0.5, 0.4], abs=0.25)


def test_pieces_without_events_make_no_standard_error_smaller() -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, 3000)
    time = rng.exponential(300 * np.exp(-0.5 * x))
    frame = pd.DataFrame({"x": x, "t": np.minimum(time, 365), "e": 1 * (time < 365)})
    errors = []
    for horizon in (365.0, 3650.0):
        study = fedcox.Study(
            outcome={"time": "t", "event": "e"},
            covariates={"x": {"type": "number", "min": -1.0, "max": 1.0}},
            grid={"width": 73.0, "horizon": horizon},
            privacy={"noise": {"epsilon": 500.0, "patients": 3000, "events": 2000}},
        )
        fitted = noised(study, frame, (7, 1))
        assert fitted.guarantee is not None
        assert fitted.guarantee.price is not None
        errors.append(fitted.summary["se(coef)"].iloc[0] / fitted.guarantee.price)
    assert errors[1] == pytest.approx(errors[0], rel=0.03)


class Shrinking(InProcess):
    """A federation that loses a center after so many rounds."""

    def __init__(self, centers: Sequence[Center], after: int) -> None:
        super().__init__(centers)
        self._left = after

    def ask_together(self, queries: Sequence[Any], each: Sequence[Any] = ()) -> list[Any]:
        self._left -= 1
        if self._left == 0:
            kept = InProcess(list(self.centers)[1:])
            self.centers, self.names = kept.centers, kept.names
            self._groups = kept._groups
        return super().ask_together(queries, each)


#: Studies that are hard under noise. Follow-up ends at 600 of 1,200 days.
AGE = {"type": "number", "min": 20.0, "max": 100.0}
STAGE = {"type": "category", "levels": ["I", "II", "III"], "reference": "I"}


def staged(
    patients: int, *, scale: float = 1000.0, first: float = 0.3, longest: float = 2400.0
) -> pd.DataFrame:
    """Patients of three stages; in the first so many times the hazard of the second."""
    rng = np.random.default_rng([patients, round(scale)])
    age, part = rng.normal(60, 10, patients).clip(20, 100), rng.random(patients)
    stage = np.where(part < 0.1, "I", np.where(part < 0.55, "II", "III"))
    risk = np.exp(0.03 * (age - 60) + 0.4 * (stage == "III"))
    risk *= np.where(stage == "I", first, 1.0)
    happens = scale * rng.exponential(1, patients) / np.maximum(risk, 1e-9)
    ends = np.minimum(rng.uniform(200, 2400, patients), longest)
    return pd.DataFrame(
        {
            "age": age,
            "stage": stage,
            "time": np.minimum(happens, ends),
            "event": (happens <= ends).astype(int),
        }
    )


def stage_study(
    frame: pd.DataFrame, grid: dict[str, Any], age: dict[str, Any] = AGE, **noise: Any
) -> fedcox.Study:
    return fedcox.Study(
        outcome={"time": "time", "event": "event"},
        covariates={"age": age, "stage": STAGE},
        grid=grid,
        privacy={"noise": {"epsilon": 8.0, "delta": DELTA, "patients": len(frame), **noise}},
    )


def test_a_reference_level_without_events_leaves_no_intervals() -> None:
    """No column is that level; all effects beside it have no end."""
    for first, events in ((0.0, 0), (0.02, 10)):
        frame = staged(3000, first=first)
        assert frame["event"][frame["stage"] == "I"].sum() <= events
        found = noised(
            stage_study(frame, {"horizon": 1800.0}, events=int(frame["event"].sum())),
            frame,
            (1,),
        )
        assert not found.inferred
        assert "stage_II" in found.notices[0].text


@pytest.mark.parametrize("same", [False, True])
def test_a_column_that_is_another_one_again_leaves_no_intervals(same: bool) -> None:
    """What either does is in no data: R gives NA, and an interval would be wrong."""
    rng = np.random.default_rng(77)
    columns = rng.normal(size=(1500, 3)).clip(-3, 3)
    columns[:, 1] = columns[:, 0] if same else columns[:, 1]
    time = rng.exponential(1500, 1500) / np.exp(columns @ np.full(3, 0.2))
    limit = rng.uniform(300, 2800, 1500)
    frame = pd.DataFrame(columns, columns=["a", "b", "c"]).assign(
        time=np.minimum(time, limit), event=(time <= limit).astype(int)
    )
    study = fedcox.Study(
        outcome={"time": "time", "event": "event"},
        covariates={name: {"type": "number", "min": -3, "max": 3} for name in "abc"},
        grid={"horizon": 2800.0},
        privacy={"noise": {"epsilon": 8, "patients": 1500, "events": 800}},
    )
    fits = [noised(study, frame, (seed,)) for seed in range(20)]
    answers = sum(fit.inferred for fit in fits)
    if not same:
        assert answers == 20
        return
    assert answers <= 1  # by chance; one in ten where the information alone is asked
    assert any("nearly the same" in fit.notices[0].text for fit in fits if not fit.inferred)


def test_wide_ranges_of_a_number_are_not_taken_for_an_effect_without_end() -> None:
    frame = staged(1500)
    for low, high in ((0.0, 120.0), (-300.0, 500.0)):
        age = {"type": "number", "min": low, "max": high}
        study = stage_study(frame, {"horizon": 1800.0}, age, events=int(frame["event"].sum()))
        assert all(noised(study, frame, (seed,)).inferred for seed in range(5))


def band_holds(
    found: fedcox.FittedStudy, plain: fedcox.FittedStudy, times: list[float]
) -> BoolArray:
    """Whether survival of the fit without noise is in the band, where there is one."""
    one = pd.DataFrame({"age": [60.0], "stage": ["II"]})
    band = found.predict_survival_band(one, times=times)
    assert band is not None
    low, high = (each.to_numpy()[0] for each in band)
    exactly = plain.predict_survival(one, times=times).to_numpy()[0]
    return np.asarray(np.isnan(low) | ((low <= exactly) & (exactly <= high)))


def test_public_pieces_with_few_events_are_joined_and_curves_hold() -> None:
    frame = staged(15_000)
    edges = [
        300.0,
        600.0,
        900.0,
        1200.0,
        1500.0,
        1800.0,
        2100.0,
        2200.0,
        2300.0,
        2380.0,
        2400.0,
    ]
    study = stage_study(frame, {"edges": edges}, events=int(frame["event"].sum()))
    found = noised(study, frame, (2,))
    assert found.inferred
    assert set(found.edges) < set(edges)
    assert any("joined" in notice.text for notice in found.notices)
    assert band_holds(found, exact(study, frame, found.edges), [600.0, 1800.0, 2250.0]).all()


def test_curves_end_where_follow_up_does_whatever_the_horizon() -> None:
    frame = staged(3000, longest=600.0)
    study = stage_study(frame, {"horizon": 1200.0}, events=int(frame["event"].sum()))
    found = noised(study, frame, (3,))
    assert found.inferred
    assert 540.0 < found.edges[-1] < 660.0
    assert any("Time ends at" in notice.text for notice in found.notices)
    one = pd.DataFrame({"age": [60.0], "stage": ["II"]})
    assert np.isnan(found.predict_survival(one, times=[700.0]).to_numpy()).all()


@pytest.mark.parametrize("events", [None, 300])
def test_far_fewer_events_than_the_study_supposes_bias_nothing(events: int | None) -> None:
    """Half of the patients unless it says otherwise: here one in fifty has the event."""
    frame = staged(15_000, scale=100_000.0, first=1.0)
    stated: dict[str, Any] = {} if events is None else {"events": events}
    study = stage_study(frame, {"horizon": 1800.0}, epsilon=20.0, **stated)
    found = noised(study, frame, (4,))
    plain = exact(study, frame, found.edges)
    assert found.inferred
    assert np.abs(away(found, plain)).max() < 1.5
    assert band_holds(found, plain, [600.0, 1200.0, 1700.0]).all()
    told = any("the study supposes 7,500" in notice.text for notice in found.notices)
    assert told is (events is None)


@pytest.mark.parametrize("after", [2, 4, 14])
def test_without_a_center_that_was_lost_on_the_way_there_are_no_intervals(after: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, 1500)
    time = rng.exponential(300 * np.exp(-0.5 * x))
    frame = pd.DataFrame({"x": x, "t": np.minimum(time, 365), "e": 1 * (time < 365)})
    frame["center"] = np.arange(1500) % 5
    study = fedcox.Study(
        outcome={"time": "t", "event": "e"},
        covariates={"x": {"type": "number", "min": -1.0, "max": 1.0}},
        grid={"horizon": 365.0},
        privacy={"noise": {"epsilon": 200.0, "patients": 1500, "events": 1000}},
    )

    def centers() -> Sequence[Center]:
        federation = InProcess.from_frame(study, frame, "center")
        return [
            replace(
                center,
                noise=NoisedReplies(
                    "study", 1e-5, randomness=SeededRandomnessForSimulations(place)
                ),
            )
            for place, center in enumerate(federation.centers)
        ]

    lost = fit_noised(study, Shrinking(centers(), after))
    assert not lost.inferred
    assert any("lost on the way" in note.text for note in lost.notices)
    assert fit_noised(study, Shrinking(centers(), 99)).inferred
