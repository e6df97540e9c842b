"""A solver watched: where it asked, and what that took."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.paper.communication import (
    METHODS,
    PAPER_ROUNDS,
    CommunicationStudy,
    Cost,
    Messages,
    RecordedRun,
    costs_of,
    first_columns,
    in_centers,
    recorded,
    rounded_up,
    run_communication,
    slope,
    study_cohort,
)
from fedcox.paper.communication_page import communication_html
from fedcox.paper.reproduction import stored_study
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver
from fedcox.study.cox import fit_cox
from tests import evaluation_examples as examples
from tests.problems import simulated
from tests.reports.page_checks import check_page


def webdisco(federation: InProcess, solver: AbstractSolver) -> None:
    fit_cox(federation, ties="breslow", loss="webdisco", solver=solver)


@pytest.fixture(scope="module")
def optimum() -> RecordedRun:
    return recorded(webdisco, in_centers(study_cohort(300, 4, seed=0), seed=0), Newton())


def test_watching_changes_nothing_and_counts_every_round() -> None:
    cohort = study_cohort(300, 4, seed=0)
    watched, alone = in_centers(cohort, seed=0), in_centers(cohort, seed=0)
    run = recorded(webdisco, watched, LBFGS())
    fitted = fit_cox(alone, ties="breslow", loss="webdisco", solver=LBFGS())
    assert watched.ledger.since((0, 0)) == alone.ledger.since((0, 0))
    assert run.everything.rounds == fitted.rounds
    assert run.set_up.rounds + len(run.asked) == fitted.rounds


def test_every_center_sends_as_much_as_the_one_counted(optimum: RecordedRun) -> None:
    federation = in_centers(study_cohort(300, 4, seed=0), seed=0)
    recorded(webdisco, federation, Newton())
    rows = [row for row in federation.ledger.since((0, 0)) if row.query.startswith("risk-set")]
    for name in federation.names:
        sent = sum(row.numbers_up for row in rows if row.center == name)
        assert sent == sum(asked.messages.numbers_up for asked in optimum.asked)


@pytest.mark.parametrize("share", [1.0, 0.01, 1e-5])
def test_the_point_in_hand_after_those_rounds_is_near_and_the_one_before_is_not(
    optimum: RecordedRun, share: float
) -> None:
    run = recorded(webdisco, in_centers(study_cohort(300, 4, seed=0), seed=0), LBFGS())
    found = run.until_within(share, optimum)
    assert found is not None
    replies = found.rounds - run.set_up.rounds
    points = [*(asked.beta for asked in run.asked), run.solution.beta]
    information = np.linalg.inv(optimum.solution.information.beta)
    error = np.sqrt(np.diag(information))

    def farthest(beta: np.ndarray) -> float:
        return float((np.abs(beta - optimum.solution.beta) / error).max())

    assert all(farthest(point) < share for point in points[replies:])
    assert farthest(points[replies - 1]) >= share


def test_a_run_that_ends_elsewhere_never_was_near(optimum: RecordedRun) -> None:
    federation = in_centers(study_cohort(300, 4, seed=0), seed=0)
    run = recorded(webdisco, federation, LBFGS(max_rounds=2))
    assert run.until_within(0.01, optimum) is None


def test_messages_add_up() -> None:
    one, other = Messages(1, 10, 3), Messages(2, 5, 4)
    assert one + other == Messages(3, 15, 7)
    assert other - one == Messages(1, -5, 1)
    assert one * 3 == Messages(3, 30, 9)
    assert one.bytes == 8 * 13


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
    assert stored_study(CommunicationStudy, json.loads(text)) == study


def test_an_unknown_size_is_no_cost(study: CommunicationStudy) -> None:
    assert isinstance(study.cost("DT-FL, Newton", 10, 5), Cost)
    with pytest.raises(KeyError):
        study.cost("DT-FL, Newton", 11, 5)


def test_progress_is_told_from_nothing_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcox.paper.communication.costs_of", lambda cohort, *, seed: [])
    told: list[tuple[int, int]] = []
    run_communication(True, lambda done, total, words: told.append((done, total)))
    assert told == [(done, 12) for done in range(13)]


@pytest.fixture(scope="module")
def page() -> str:
    return communication_html(examples.communication(), command="fedcox reproduce <here>")


def test_the_page_is_well_formed_and_self_contained(page: str) -> None:
    check_page(page)
    assert "fedcox reproduce &lt;here&gt;" in page
    assert "fedcox 0.1.0" in page


def heights(page: str, plot: int) -> dict[str, list[int]]:
    """The vertical places of each line of a plot, by its class."""
    drawing = re.findall(r'<svg viewBox="0 0 1000 1000".*?</svg>', page, re.S)[plot]
    return {
        style: [int(y) for y in re.findall(r"[ML]\d+ (\d+)", path)]
        for style, path in re.findall(r'<path class="c (c\d)" d="([^"]+)"', drawing)
    }


def powers(page: str, plot: int) -> tuple[float, float]:
    """The lowest and highest power of ten on the vertical axis."""
    labels = re.findall(r'<div class="ylabels".*?</div>', page, re.S)[plot]
    raised = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
    marks = {
        float(top): int(power.translate(raised))
        for top, power in re.findall(r'top:([\d.]+)%">10([^<]+)<', labels)
    }
    return marks[100.0], marks[0.0]


def test_lines_stand_at_the_counted_numbers(page: str) -> None:
    study = examples.communication()
    low, high = powers(page, 0)
    drawn = heights(page, 0)
    styles = {"DT-FL, L-BFGS": "c0", "DT-FL, Newton": "c1", "WebDISCO, Newton": "c3"}
    for method, style in styles.items():
        sent = [study.cost(method, t, 100).per_round.numbers_up for t in study.times]
        found = [10 ** (high - (high - low) * y / 1000) for y in drawn[style]]
        assert found == pytest.approx(sent, rel=0.01)  # a thousandth of the height is 0.8 %


def test_a_method_looks_the_same_in_both_figures(page: str) -> None:
    assert set(heights(page, 0)) == {"c0", "c1", "c2", "c3"}
    assert set(heights(page, 2)) == {"c0", "c1", "c2", "c3", "c4"}


def test_the_table_holds_numbers_and_orders(page: str) -> None:
    study = examples.communication()
    for cost in study.costs:
        assert f"<td>{cost.per_round.numbers_up:,}</td>" in page
    text = unescape(page)
    for order in ("O(T + P)", "O(TP)", "O(TP²)", "O(TP + P²)"):
        assert f"<td>{order}</td>" in text
    assert "<td>1.00</td><td>1.00</td>" in page  # WebDISCO over T, at any P


def test_what_was_not_run_is_not_claimed(page: str) -> None:
    rows = re.findall(r"<tr>.*?DT-FL, Adam.*?</tr>", page)
    totals = [row for row in rows if "not run" in row]
    assert len(totals) == 1 + 9
    assert all("5,002" in row for row in totals)
    assert "how near those rounds come to the optimum was not run here" in page


def test_the_page_promises_no_privacy(page: str) -> None:
    assert "Fewer numbers are no guarantee of privacy" in page


def test_a_stored_study_gives_the_same_page() -> None:
    study = examples.communication()
    back = stored_study(CommunicationStudy, json.loads(json.dumps(study.to_json())))
    page = communication_html(back, command="again")
    assert page == communication_html(study, command="again")
