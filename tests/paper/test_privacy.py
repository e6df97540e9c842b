"""None"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import fedcox.paper.privacy as paper_privacy
from fedcox.evaluation.seeds import derived_seed
from fedcox.paper.privacy import (
    EACH_CENTER,
    NO_NOISE,
    SECURE,
    Judged,
    PrivacyStudy,
    SimulatedStudy,
    claims,
    run_privacy,
)
from fedcox.paper.privacy_page import privacy_html
from fedcox.paper.reproduction import stored_study
from tests.reports.page_checks import check_page

EPSILONS = (1.0, 3.0, 10.0, 30.0)


def example() -> PrivacyStudy:
    """A study of the true shape, from formulas instead of runs."""

    def judged(method: str, columns: int, epsilon: float | None, cost: float) -> Judged:
        indices = tuple(0.76 - 0.0001 * columns + 0.01 * study - cost for study in range(3))
        inferred = 3 if cost < 0.01 else 0
        return Judged(
            method,
            columns,
            epsilon,
            indices,
            (0.1 + cost,) * 3,
            (0.95,) * inferred,
            (1.0 + 5.0 * cost,) * inferred,
        )

    fits = [judged(NO_NOISE, columns, None, 0.0) for columns in (6, 20)]
    fits += [
        judged(name, columns, epsilon, dear * columns / epsilon**1.5)
        for columns in (6, 20)
        for name, dear in ((SECURE, 2e-3), (EACH_CENTER, 4e-3))
        for epsilon in EPSILONS
    ]
    return PrivacyStudy(3, tuple(fits), {"fedcox": "0.1.0"})


def test_what_is_lost_is_taken_study_by_study() -> None:
    lost, error = example().lost(SECURE, 6, 1.0)
    assert lost == pytest.approx(0.012)
    assert error == pytest.approx(0.0, abs=1e-12), "studies differ by much, the fits do not"


def test_the_statements_are_judged_by_the_numbers() -> None:
    found = claims(example())
    assert [claim.held for claim in found] == [True, True, True, False, True]
    assert found[0].measured == "0.0023 and 0.0013 below"
    assert found[3].measured == "0 and 3 of 3 arrived"
    worse = replace(
        example(),
        judged=tuple(
            replace(
                one,
                c_indices=tuple(np.array(one.c_indices) - 0.03),
                covered=(0.5,) * one.arrived,
                prices=(1.3,) * one.arrived,
            )
            if one.method == SECURE
            else one
            for one in example().judged
        ),
    )
    assert [claim.held for claim in claims(worse)] == [False] * 5


def test_a_stored_study_comes_back() -> None:
    back = stored_study(PrivacyStudy, json.loads(json.dumps(example().to_json())))
    assert back == example()


def test_a_run_has_every_fit_of_every_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_privacy, "COLUMNS", (2, 3))
    monkeypatch.setattr(paper_privacy, "EPSILONS", (3.0, 30.0))
    of = SimulatedStudy.of
    monkeypatch.setattr(
        SimulatedStudy,
        "of",
        lambda columns, seed: of(columns, seed=seed, patients=500, tested=100),
    )
    heard: list[tuple[int, int, str]] = []
    found = run_privacy(quick=True, progress=lambda *words: heard.append(words))
    assert heard[0] == (0, 4, "P = 2, study 1")
    assert heard[-1] == (4, 4, "")
    assert len(found.judged) == 2 * (1 + 2 * 2)
    assert all(len(one.c_indices) == len(one.errors) == 2 for one in found.judged)
    assert all(len(one.prices) == one.arrived <= 2 for one in found.judged)
    study = SimulatedStudy.of(2, seed=derived_seed(0, 1))
    again = study.fitted(SECURE, 30.0).summary["coef"].to_numpy()
    assert study.c_index(again) == found.judgement(SECURE, 2, 30.0).c_indices[1], "repeatable"


def test_a_fit_is_judged_by_the_truth_and_beside_the_fit_without_noise() -> None:
    """With little noise all is about as without."""
    study = SimulatedStudy.of(2, seed=3, patients=1500, tested=100)
    c_index, error, covered, price = study.judged()[SECURE, 30.0]
    exact = study.fitted(NO_NOISE, None).summary
    off = exact["coef"].to_numpy() - study.truth
    assert error == pytest.approx(np.sqrt(np.mean(off**2)), abs=0.05)
    assert c_index == pytest.approx(study.c_index(exact["coef"].to_numpy()), abs=0.02)
    assert covered in (0.0, 0.5, 1.0)
    assert price == pytest.approx(1.0, abs=0.15)


def test_patients_of_the_test_are_not_learned_from() -> None:
    study = SimulatedStudy.of(3, seed=1, patients=200, tested=50)
    assert (study.train.patients, study.test.patients) == (150, 50)
    together = {tuple(row) for row in study.train.covariates.tolist()}
    assert not together & {tuple(row) for row in study.test.covariates.tolist()}


@pytest.fixture(scope="module")
def page() -> str:
    return privacy_html(example(), command="fedcox reproduce <here>")


def test_the_page_is_well_formed_and_self_contained(page: str) -> None:
    check_page(page)
    assert "fedcox reproduce &lt;here&gt;" in page
    assert "fedcox 0.1.0" in page


def test_every_fit_is_in_its_table(page: str) -> None:
    tables = re.findall(r"<tbody>.*?</tbody>", page, re.S)[:2]
    for columns, table in zip((6, 20), tables, strict=True):
        assert table.count("<tr>") == 1 + 2 * 4
        for epsilon in (1.0, 3.0, 10.0, 30.0):
            found = example().judgement(SECURE, columns, epsilon)
            index = float(np.mean(found.c_indices)), float(np.std(found.c_indices, ddof=1))
            assert f"<td>{index[0]:.3f} ± {index[1]:.3f}</td>" in table
            assert f"<td>{found.errors[0]:.3f}</td><td>{found.arrived} of 3</td>" in table
        without = "<td>0.100</td><td>3 of 3</td><td>95.0 %</td><td>–</td>"
        assert without in table
    nowhere = "<td>0 of 3</td><td>–</td><td>–</td>"
    assert nowhere in tables[0], "a fit that did not arrive has no intervals"


def test_errors_fall_to_that_without_noise(page: str) -> None:
    drawing = re.findall(r'<svg viewBox="0 0 1000 1000".*?</svg>', page, re.S)[1]
    heights = {
        style: [int(y) for y in re.findall(r"[ML]\d+ (\d+)", path)]
        for style, path in re.findall(r'<path class="c (c\d)" d="([^"]+)"', drawing)
    }
    assert heights["c0"][0] == heights["c0"][1], "no noise is level"
    assert sorted(heights["c1"]) == heights["c1"], "down the page, which counts from the top"
    assert all(each <= once for each, once in zip(heights["c2"], heights["c1"], strict=True)), (
        "noise at each center lies above"
    )


def test_statements_and_guesses_are_told(page: str) -> None:
    text = unescape(page)
    for claim in claims(example()):
        verdict = "Yes" if claim.held else "No"
        assert f"{claim.statement} <strong>{verdict}</strong>: {claim.measured}." in text
    assert "73.1 % of cases at epsilon 1," in text
    assert "99.995 % at epsilon 10," in re.sub(r" of cases", "", text)


def test_a_stored_study_gives_the_same_page() -> None:
    back = stored_study(PrivacyStudy, json.loads(json.dumps(example().to_json())))
    page = privacy_html(back, command="again")
    assert page == privacy_html(example(), command="again")
