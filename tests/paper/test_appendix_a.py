"""The discrete-time optimum approaches Cox's as intervals shrink."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from lifelines import CoxPHFitter

from fedcox.data.synthetic import CensoringBound, simulate_paper_cohort
from fedcox.paper.appendix_a import (
    BOUNDS,
    FITS,
    INTERVALS,
    LINK_NAMES,
    READINGS,
    AppendixA,
    Fit,
    appendix_html,
    distances,
    run_appendix_a,
    sentences,
)
from fedcox.paper.reproduction import stored_study
from fedcox.survival.link import LinkName
from fedcox.survival.time_grid import CensoredInterval
from tests import evaluation_examples as examples
from tests.reports.page_checks import check_page

#: Standard errors within which a difference may rise from one grid to the next finer one: the
#: grids are not nested, so patients change their neighbours. The change matters only where a
#: bias changes its sign on the way, as that of "half" does.
SLACK = 0.12
#: What is left at every event time, in standard errors, for a thousand patients.
LEFT = 0.06


@pytest.fixture(scope="module")
def result() -> AppendixA:
    return run_appendix_a(quick=True)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("reading", READINGS)
def test_every_reading_approaches_cox_as_intervals_shrink(
    result: AppendixA, bound: CensoringBound, link: LinkName, reading: CensoredInterval
) -> None:
    along = result.along(bound, link, reading)
    assert [found.intervals for found in along] == list(INTERVALS)
    differences = [found.difference for found in along]
    for wide, narrow in pairwise(differences):
        assert narrow < wide + SLACK
    assert differences[-1] < LEFT
    assert differences[0] > 5 * differences[-1]
    assert abs(along[-1].ratio - 1) < 0.005


def test_all_readings_agree_at_every_event_time(result: AppendixA) -> None:
    for bound in BOUNDS:
        for link in LINK_NAMES:
            ends = [result.along(bound, link, reading)[-1] for reading in READINGS]
            assert len({(end.ratio, end.difference) for end in ends}) == 1


def test_the_logit_link_lies_beyond_the_other(result: AppendixA) -> None:
    for bound in BOUNDS:
        for reading in READINGS:
            hazards = result.along(bound, "cloglog", reading)
            odds = result.along(bound, "logit", reading)
            for hazard, odd in zip(hazards, odds, strict=True):
                assert odd.ratio > hazard.ratio


def test_independent_censoring_leaves_hazard_ratios_nearly_alone(result: AppendixA) -> None:
    for reading in READINGS:
        for found in result.along("population", "cloglog", reading)[1:]:
            assert abs(found.ratio - 1) < 0.02


def test_dependent_censoring_deflates_or_inflates_by_the_reading(result: AppendixA) -> None:
    for link in LINK_NAMES:
        include, exclude, half = (result.along("patient", link, name) for name in READINGS)
        for low, high, middle in zip(include[:-1], exclude[:-1], half[:-1], strict=True):
            assert low.ratio < 1 < high.ratio
            assert low.ratio < middle.ratio < high.ratio
    # On fine grids one half is far nearer than the two others, on wide ones it is not enough.
    include, exclude, half = (result.along("patient", "cloglog", name) for name in READINGS)
    assert half[0].ratio < 0.6
    fine = INTERVALS.index(1000)
    assert abs(half[fine].ratio - 1) < 0.3 * min(
        abs(include[fine].ratio - 1), abs(exclude[fine].ratio - 1)
    )


def test_what_is_left_at_every_event_time_shrinks_as_one_over_the_patients() -> None:
    rest = []
    for patients in (500, 4000):
        cohorts = [
            simulate_paper_cohort(
                patients,
                2,
                rng=np.random.default_rng(seed),
                censoring_bound="population",
            ).cohort
            for seed in range(5)
        ]
        every_event_time: list[Fit] = [("cloglog", "include", None)]
        found = [distances(cohort, every_event_time)[0, 0] for cohort in cohorts]
        rest.append(np.median(found) - 1)
    assert rest[0] > rest[1] > 0
    assert rest[0] / rest[1] == pytest.approx(8, rel=0.5)


def test_distances_are_those_of_lifelines_and_of_the_stacked_model() -> None:
    """One grid from nothing of ours: lifelines' Cox, and a binomial model on stacked rows."""
    cohort = simulate_paper_cohort(
        400, 3, rng=np.random.default_rng(4), censoring_bound="population"
    ).cohort
    frame = pd.DataFrame(cohort.covariates, columns=["a", "b", "c"])
    frame["time"], frame["event"] = cohort.time, cohort.event
    cox = CoxPHFitter().fit(frame, "time", "event", fit_options={"precision": 1e-12})
    interval = np.ceil(cohort.time / (cohort.time.max() / 5) - 1e-9).astype(int)
    rows = [
        [*(float(m == k) for k in range(1, 6)), *x, float(event and m == last)]
        for x, last, event in zip(cohort.covariates, interval, cohort.event, strict=True)
        for m in range(1, last + 1)
    ]
    stacked = np.array(rows)
    model = sm.GLM(stacked[:, -1], stacked[:, :-1], family=sm.families.Binomial())
    beta = np.asarray(model.fit(tol=1e-12).params)[5:]
    reference, error = cox.params_.to_numpy(), cox.standard_errors_.to_numpy()
    expected = (
        float(beta @ reference / (reference @ reference)),
        float((np.abs(beta - reference) / error).max()),
    )
    (found,) = distances(cohort, [("logit", "include", 5)])
    assert tuple(found) == pytest.approx(expected, rel=1e-6)


def test_json_holds_everything(result: AppendixA) -> None:
    text = json.dumps(result.to_json(), allow_nan=False)
    assert stored_study(AppendixA, json.loads(text)) == result


def test_progress_is_told_from_nothing_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "fedcox.paper.appendix_a.distances", lambda cohort: np.ones((len(FITS), 2))
    )
    told: list[tuple[int, int]] = []
    run_appendix_a(True, lambda done, total, words: told.append((done, total)))
    assert told == [(done, 8) for done in range(9)]


@pytest.fixture(scope="module")
def page() -> str:
    return appendix_html(examples.appendix(), command="fedcox reproduce appendix-a")


def test_the_page_is_well_formed_and_self_contained(page: str) -> None:
    check_page(page)


def test_every_number_is_in_the_table(page: str) -> None:
    cells = re.findall(r'<td>([\d.]+)<span class="small">([\d.]+)</span></td>', page)
    found = examples.appendix().approaches
    assert cells == [(f"{one.ratio:.3f}", f"{one.difference:.2f}") for one in found]


def test_links_differ_in_colour_and_readings_in_dashes(page: str) -> None:
    first = re.findall(r'<svg viewBox="0 0 1000 1000".*?</svg>', page, re.S)[0]
    classes = re.findall(r'<path class="c (c\d dash\d)"', first)
    assert classes == [f"c{link} dash{reading}" for link in (0, 1) for reading in (0, 1, 2)]


def test_words_hold_the_numbers_of_the_run() -> None:
    result = examples.appendix()
    independent, dependent, every_event = sentences(result)
    # From the formulas of the example: 1.001 + bias / intervals.
    assert "at 20 its coefficients are 1.00 of Cox's" in independent
    assert "1.03 of Cox's" in independent
    assert "gives 0.90 of Cox's coefficients" in dependent
    assert "leaving the patient out 1.20, one half 0.95" in dependent
    assert "at 1,000 intervals they give 1.00, 1.00 and 1.00" in dependent
    assert "within 0.01 standard errors" in every_event


def test_a_stored_result_gives_the_same_page() -> None:
    result = examples.appendix()
    back = stored_study(AppendixA, json.loads(json.dumps(result.to_json())))
    page = appendix_html(back, command="again")
    assert page == appendix_html(result, command="again")
