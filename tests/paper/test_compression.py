"""C-index against bytes: what is counted, what is compared, what is claimed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import fedcox.paper.compression as paper_compression
from fedcox.paper.compression import (
    DOUBLES,
    LBFGS_NAME,
    METHODS,
    CompressionStudy,
    Sizes,
    SplitStudy,
    TrainedRun,
    claims,
    run_compression,
)
from fedcox.paper.compression_page import compression_html
from fedcox.paper.reproduction import stored_study
from fedcox.solvers.newton import Newton
from fedcox.survival.concordance import concordance_index
from tests.reports.page_checks import check_page

TINY = Sizes(400, 2, (3, 5), (4, 12), (3, 6))


@pytest.fixture(scope="module")
def study() -> CompressionStudy:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper_compression, "QUICK", TINY)
        return run_compression(quick=True)


def test_every_method_is_run_for_every_size(study: CompressionStudy) -> None:
    for columns in TINY.columns:
        for method in METHODS:
            along = study.along(method.name, columns)
            wanted = TINY.lbfgs_rounds if method.name == LBFGS_NAME else TINY.rounds
            assert [found.rounds for found in along] == list(wanted)
            assert all(len(found.c_indices) == TINY.studies for found in along)
    assert len(study.trained) == 2 * len(METHODS) * 2


def test_bytes_are_those_of_the_replies(study: CompressionStudy) -> None:
    """Four or eight bytes for the loss, then each codec's own, a round."""
    for columns in TINY.columns:
        doubles = study.last(DOUBLES, columns)
        size = round(doubles.bytes_up / 12 / 8) - 1  # intervals and columns
        assert columns < size <= columns + 30
        tenth = max(1, size // 10)
        wanted = {
            DOUBLES: 8 * (1 + size),
            "single precision": 4 * (1 + size),
            "8-bit": 8 + size,
            "sign": 8 + -(-size // 8),
            "top 10 %": 4 + 6 * tenth,
            "top 3 %": 4 + 6,
            "random 10 %": 4 * (1 + tenth),
        }
        for name, reply in wanted.items():
            # Two studies may differ by an interval without events.
            assert study.last(name, columns).bytes_up / 12 == pytest.approx(reply, rel=0.1)
            if not name.startswith(("doubles", "single")):
                without = study.last(f"{name}, no feedback", columns)
                assert without.bytes_up == study.last(name, columns).bytes_up


def test_differences_are_taken_study_by_study(study: CompressionStudy) -> None:
    assert study.difference(DOUBLES, 5) == (0.0, 0.0)
    gaps = np.subtract(study.last("sign", 5).c_indices, study.last(DOUBLES, 5).c_indices)
    mean, error = study.difference("sign", 5)
    assert mean == pytest.approx(gaps.mean())
    assert error == pytest.approx(np.std(gaps, ddof=1) / np.sqrt(2))


def test_nobody_is_both_trained_on_and_judged_by() -> None:
    drawn = SplitStudy.of(400, 3, seed=5)
    trained = [time for c in drawn.federation.centers for time in c.cohort.time.tolist()]
    assert len(trained) == 320
    assert drawn.test.patients == 80
    assert not set(trained) & set(drawn.test.time.tolist())


def test_the_index_is_that_of_the_scores_on_the_scale_of_the_files() -> None:
    drawn = SplitStudy.of(600, 3, seed=5)
    optimum = Newton().minimise(drawn.federation, drawn.problem)
    coefficients = optimum.beta / drawn.agreement.setting.scaling.spread
    scores = drawn.test.covariates @ coefficients
    expected = concordance_index(drawn.test.time, drawn.test.event, scores).index
    assert drawn.c_index(optimum) == expected
    found = drawn.trained("optimum", Newton(), optimum.loss)
    assert found.losses == (0.0,)


def test_training_approaches_the_optimum(study: CompressionStudy) -> None:
    for columns in TINY.columns:
        for name in (DOUBLES, "8-bit", LBFGS_NAME):
            early, late = study.along(name, columns)
            assert 0.0 <= late.loss < early.loss


def test_json_holds_everything(study: CompressionStudy) -> None:
    record = json.loads(json.dumps(study.to_json(), allow_nan=False))
    assert stored_study(CompressionStudy, record) == study
    assert [claim["statement"] for claim in record["claims"]] == [
        claim.statement for claim in claims(study)
    ]


def test_progress_is_told_from_nothing_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    one = TrainedRun(DOUBLES, 3, 4, 8.0, (0.5,), (0.0,))
    monkeypatch.setattr(paper_compression, "trained_once", lambda *a, **k: [one])
    told: list[tuple[int, int]] = []
    run_compression(False, lambda done, total, words: told.append((done, total)))
    assert told == [(done, 20) for done in range(21)]


# Claims


def made_up(**changed: tuple[float, float]) -> CompressionStudy:
    """Bytes and c-indices that hold every claim, some of them changed."""
    usual: dict[str, tuple[float, float]] = {
        method.name: (100.0, 0.70 if method.feedback else 0.68) for method in METHODS
    }
    usual |= {DOUBLES: (1000.0, 0.70), "sign": (30.0, 0.70), LBFGS_NAME: (90.0, 0.70)}
    usual |= {"random 10 %": (50.0, 0.695)}
    usual |= changed
    trained = tuple(
        TrainedRun(name, columns, 150, size, (index, index + 0.001), (0.0, 0.0))
        for columns in (20, 200)
        for name, (size, index) in usual.items()
    )
    return CompressionStudy(5000, 1000, 2, (20, 200), (150,), trained, {})


def held(study: CompressionStudy) -> list[bool]:
    return [claim.held for claim in claims(study)]


def test_a_claim_is_held_by_numbers_that_hold_it() -> None:
    assert held(made_up()) == [True] * 5


@pytest.mark.parametrize(
    ("number", "changed"),
    [
        (0, {"sign": (30.0, 0.696)}),
        (1, {"sign": (51.0, 0.70)}),
        (2, {"random 10 %": (50.0, 0.689)}),
        (3, {"top 3 %, no feedback": (100.0, 0.695)}),
        (3, {"top 3 %": (100.0, 0.689)}),
        (4, {LBFGS_NAME: (101.0, 0.70)}),
        (4, {LBFGS_NAME: (90.0, 0.698)}),
    ],
)
def test_a_claim_falls_with_its_numbers(
    number: int, changed: dict[str, tuple[float, float]]
) -> None:
    assert held(made_up(**changed)) == [claim != number for claim in range(5)]


def test_a_claim_must_hold_at_every_number_of_covariates() -> None:
    whole = made_up()
    worse = tuple(
        replace(found, c_indices=(0.69, 0.691))
        if (found.method, found.columns) == ("8-bit", 20)
        else found
        for found in whole.trained
    )
    assert held(replace(whole, trained=worse)) == [False, True, True, True, True]


def example() -> CompressionStudy:
    """A study of the true shape, from formulas instead of runs."""
    trained = tuple(
        TrainedRun(
            method.name,
            columns,
            rounds,
            rounds * (30.0 + columns) * (8.0 - 0.5 * number),
            tuple(0.7 + 0.01 * study - 0.001 * number - 0.5 / rounds for study in range(3)),
            tuple(100.0 / rounds**2 + number for _ in range(3)),
        )
        for columns in (20, 200)
        for number, method in enumerate(METHODS)
        for rounds in (15, 50, 150)
    )
    return CompressionStudy(
        5000, 1000, 3, (20, 200), (15, 50, 150), trained, {"fedcox": "0.1.0"}
    )


@pytest.fixture(scope="module")
def page() -> str:
    return compression_html(example(), command="fedcox reproduce <here>")


def test_the_page_is_well_formed_and_self_contained(page: str) -> None:
    check_page(page)
    assert "fedcox reproduce &lt;here&gt;" in page
    assert "fedcox 0.1.0" in page


def test_every_method_is_in_both_tables(page: str) -> None:
    for method in METHODS:
        rows = re.findall(rf'<tr><th scope="row">{re.escape(method.name)}</th>.*?</tr>', page)
        assert len(rows) == 2
        for row, columns in zip(rows, (20, 200), strict=True):
            found = example().last(method.name, columns)
            assert f"<td>{found.mean:.3f} ± {found.spread:.3f}</td>" in row
            assert "<td>150</td>" in row
    first = re.search(r'<th scope="row">8-bit</th>.*?</tr>', page)
    assert first is not None
    # (30 + 20) numbers, 7 bytes each, 150 rounds; 7 in 8 of doubles; 0.002 below.
    for cell in ("350 bytes", "52.5 kB", "88 %", "−0.0020 ± 0.0000"):
        assert f"<td>{cell}</td>" in first[0]


def test_lines_stand_at_the_bytes_and_indices(page: str) -> None:
    study = example()
    drawing = re.findall(r'<svg viewBox="0 0 1000 1000".*?</svg>', page, re.S)[1]
    paths = dict(re.findall(r'<path class="c (c\d)" d="([^"]+)"', drawing))
    assert set(paths) == {f"c{style}" for style in range(7)}
    places = [(int(x), int(y)) for x, y in re.findall(r"[ML](\d+) (\d+)", paths["c0"])]
    found = study.along("doubles", 200)
    # From 1 kB to 1000 kB: a power of ten is a third of the width.
    kilobytes = [10 ** (3 * x / 1000) for x, _ in places]
    assert kilobytes == pytest.approx([one.bytes_up / 1000 for one in found], rel=0.01)
    heights = [1000 - y for _, y in places]
    assert heights == sorted(heights)


def test_statements_are_given_with_what_was_measured(page: str) -> None:
    text = unescape(page)
    for claim in claims(example()):
        verdict = "Yes" if claim.held else "No"
        assert f"{claim.statement} <strong>{verdict}</strong>: {claim.measured}." in text


def test_the_page_promises_no_privacy(page: str) -> None:
    assert "Fewer bytes are no privacy" in page
    assert "No attack was run on compressed gradients here" in page


def test_a_stored_study_gives_the_same_page() -> None:
    back = stored_study(CompressionStudy, json.loads(json.dumps(example().to_json())))
    page = compression_html(back, command="again")
    assert page == compression_html(example(), command="again")
