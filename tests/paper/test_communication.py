"""Messages counted: exact per round, and enough of them to reach the optimum."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fedcox.paper.communication import (
    METHODS,
    PAPER_ROUNDS,
    CommunicationStudy,
    Cost,
    costs_of,
    first_columns,
    in_centers,
    rounded_up,
    run_communication,
    slope,
    study_cohort,
)
from tests.problems import simulated

# What one center sends and receives in a usual round, from the definition of each reply.
UP = {
    "DT-FL, Adam": lambda t, p: 1 + t + p,
    "DT-FL, L-BFGS": lambda t, p: 1 + t + p,
    "DT-FL, Newton": lambda t, p: 1 + t + p + t + t * p + p * (p + 1) // 2,
    "WebDISCO, L-BFGS": lambda t, p: t * (1 + p),
    "WebDISCO, Newton": lambda t, p: t * (1 + p + p * (p + 1) // 2),
}
DOWN = {
    "DT-FL, Adam": lambda t, p: t + p + 4,  # seed, step, size and population of the batch
    "DT-FL, L-BFGS": lambda t, p: t + p,
    "DT-FL, Newton": lambda t, p: t + p,
    "WebDISCO, L-BFGS": lambda t, p: p,
    "WebDISCO, Newton": lambda t, p: p,
}


@pytest.fixture(scope="module")
def study() -> CommunicationStudy:
    return run_communication(quick=True)


@pytest.mark.parametrize(("times", "columns"), [(3, 1), (10, 4), (40, 7), (75, 2)])
def test_numbers_per_round_are_exact(times: int, columns: int) -> None:
    cohort = study_cohort(400, 7, seed=2)
    costs = costs_of(rounded_up(first_columns(cohort, columns), times), seed=2)
    assert [cost.method for cost in costs] == [method.name for method in METHODS]
    for cost in costs:
        assert (cost.times, cost.columns) == (times, columns)
        assert cost.per_round.rounds == 1
        assert cost.per_round.numbers_up == UP[cost.method](times, columns)
        assert cost.per_round.numbers_down == DOWN[cost.method](times, columns)


def test_the_formulas_on_the_page_are_those_of_the_replies() -> None:
    for method in METHODS:
        text = method.per_round.replace("2T", "2*T").replace("TP", "T*P")
        text = text.replace("P(P+1)", "P*(P+1)")
        for times, columns in ((3, 1), (10, 4), (604, 100)):
            counted = eval(text, {"T": times, "P": columns})
            assert counted == UP[method.name](times, columns)


def test_adam_is_its_usual_round_multiplied_and_nothing_is_claimed_of_its_end(
    study: CommunicationStudy,
) -> None:
    for cost in study.costs:
        if cost.method == "DT-FL, Adam":
            assert cost.close is None
            assert cost.stop.rounds == PAPER_ROUNDS + cost.set_up.rounds
            assert cost.stop.numbers_up == (
                PAPER_ROUNDS * cost.per_round.numbers_up + cost.set_up.numbers_up
            )
        else:
            assert cost.close is not None


def test_every_solver_comes_close_before_it_stops(study: CommunicationStudy) -> None:
    for cost in study.costs:
        if cost.close is None:
            continue
        assert cost.set_up.rounds == 2
        assert cost.set_up.rounds < cost.close.rounds <= cost.stop.rounds
        assert cost.close.bytes <= cost.stop.bytes
        most = 8 if cost.method.endswith("Newton") else 25
        assert cost.stop.rounds <= most, cost


def test_bytes_to_the_optimum_are_the_sum_of_the_rounds() -> None:
    cohort = rounded_up(study_cohort(400, 5, seed=1), 20)
    costs = {cost.method: cost for cost in costs_of(cohort, seed=1)}
    newton = costs["WebDISCO, Newton"]
    assert newton.close is not None
    rounds = newton.close.rounds - newton.set_up.rounds
    setting = 20 + 3 * 5  # event times; which columns, their means and spreads
    assert newton.close.numbers_up - newton.set_up.numbers_up == rounds * 20 * (1 + 5 + 15)
    assert newton.close.numbers_down - newton.set_up.numbers_down == rounds * 5 + setting
    assert newton.close.bytes == 8 * (newton.close.numbers_up + newton.close.numbers_down)


def test_numbers_grow_with_the_sum_or_with_the_product(study: CommunicationStudy) -> None:
    def over_times(method: str, columns: int) -> float:
        sent = [study.cost(method, t, columns).per_round.numbers_up for t in study.times]
        return slope(study.times, sent)

    def over_columns(method: str, times: int) -> float:
        sent = [study.cost(method, times, p).per_round.numbers_up for p in study.columns]
        return slope(study.columns, sent)

    few, many = study.columns[0], study.columns[-1]
    early, late = study.times[0], study.times[-1]
    # A sum: where one term is large, the other no longer counts.
    assert over_times("DT-FL, L-BFGS", few) > 0.8
    assert over_columns("DT-FL, L-BFGS", late) < 0.05
    assert over_times("DT-FL, L-BFGS", many) < 0.75
    # A product: the same exponent wherever the other stands.
    for columns in (few, many):
        assert over_times("WebDISCO, L-BFGS", columns) == pytest.approx(1.0, abs=1e-12)
        assert over_times("WebDISCO, Newton", columns) == pytest.approx(1.0, abs=1e-12)
    for times in (early, late):
        assert 0.85 < over_columns("WebDISCO, L-BFGS", times) < 1.0
        assert 1.6 < over_columns("WebDISCO, Newton", times) < 2.0


def test_a_slope_is_the_exponent_of_a_power_law() -> None:
    assert slope([1, 10, 100], [7, 70, 700]) == pytest.approx(1.0)
    assert slope([2, 4, 8], [4, 16, 64]) == pytest.approx(2.0)


@pytest.mark.parametrize("times", [1, 2, 10, 63])
def test_rounding_leaves_as_many_event_times_as_asked(times: int) -> None:
    cohort = study_cohort(300, 2, seed=0)
    rounded = rounded_up(cohort, times)
    assert np.unique(rounded.time[rounded.event]).size == times
    assert (rounded.time >= cohort.time).all()
    assert (rounded.event == cohort.event).all()
    # The order of two patients may become a tie and is never turned round.
    order = np.argsort(cohort.time, kind="stable")
    assert (np.diff(rounded.time[order]) >= 0).all()


def test_as_many_times_as_there_are_change_no_event_time() -> None:
    cohort = simulated(patients=200)
    events = np.unique(cohort.time[cohort.event])
    rounded = rounded_up(cohort, events.size)
    assert (rounded.time[cohort.event] == cohort.time[cohort.event]).all()


def test_somebody_is_left_when_the_last_event_happens() -> None:
    for seed in range(5):
        cohort = study_cohort(200, 3, seed=seed)
        last = cohort.time[cohort.event].max()
        assert ((cohort.time >= last) & ~cohort.event).any()


def test_every_patient_is_in_one_center() -> None:
    cohort = study_cohort(203, 2, seed=0)
    federation = in_centers(cohort, seed=0)
    times = np.concatenate([center.cohort.time for center in federation.centers])
    assert sorted(times.tolist()) == sorted(cohort.time.tolist())


def test_json_holds_everything(study: CommunicationStudy) -> None:
    text = json.dumps(study.to_json(), allow_nan=False)
    assert CommunicationStudy.from_json(json.loads(text)) == study


def test_an_unknown_size_is_no_cost(study: CommunicationStudy) -> None:
    assert isinstance(study.cost("DT-FL, Newton", 10, 5), Cost)
    with pytest.raises(KeyError):
        study.cost("DT-FL, Newton", 11, 5)


def test_progress_is_told_from_nothing_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcox.paper.communication.costs_of", lambda cohort, *, seed: [])
    told: list[tuple[int, int]] = []
    run_communication(True, lambda done, total, words: told.append((done, total)))
    assert told == [(done, 12) for done in range(13)]
