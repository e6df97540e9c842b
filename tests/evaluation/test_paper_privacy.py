from __future__ import annotations

import json

import numpy as np
import pytest

import fedcox.evaluation.paper_privacy as paper_privacy
from fedcox.evaluation.paper_privacy import (
    EACH_CENTER,
    NO_NOISE,
    ONCE,
    TRUTH,
    Audited,
    Judged,
    PrivacyStudy,
    SimulatedStudy,
    claims,
    run_privacy,
)
from fedcox.evaluation.seeds import derived_seed


def example() -> PrivacyStudy:
    """A study of the true shape, from formulas instead of runs."""

    def indices(columns: int, cost: float) -> tuple[float, ...]:
        return tuple(0.76 - 0.0001 * columns + 0.01 * study - cost for study in range(3))

    judged = [
        Judged(name, columns, None, indices(columns, cost))
        for columns in (20, 200)
        for name, cost in ((TRUTH, -0.002), (NO_NOISE, 0.0))
    ]
    judged += [
        Judged(name, columns, epsilon, indices(columns, dear * columns / epsilon**1.5))
        for columns in (20, 200)
        for name, dear in ((ONCE, 1e-4), (EACH_CENTER, 2e-4))
        for epsilon in (0.5, 1.0, 3.0, 10.0)
    ]
    audits = (
        Audited("patient", 1.0, 4.38, 2.1, 1.0, 1000),
        Audited("row", 1.0, 4.38, 7.5, 9.99, 1000),
    )
    return PrivacyStudy(3, tuple(judged), audits, {"fedcox": "0.1.0"})


def test_what_is_lost_is_taken_study_by_study() -> None:
    lost, error = example().lost(ONCE, 20, 1.0)
    assert lost == pytest.approx(0.002)
    assert error == pytest.approx(0.0, abs=1e-12), "studies differ by much, the fits do not"


def test_the_statements_are_judged_by_the_numbers() -> None:
    found = claims(example())
    assert [claim.held for claim in found] == [True] * 5
    assert found[0].measured == "0.0020 below"
    worse = PrivacyStudy(
        3,
        tuple(
            Judged(one.method, one.columns, one.epsilon, tuple(np.array(one.c_indices) - 0.03))
            if one.method == ONCE
            else one
            for one in example().judged
        ),
        (Audited("patient", 1.0, 4.38, 4.39, 1.0, 1), example().audits[1]),
        {},
    )
    assert [claim.held for claim in claims(worse)] == [False, False, False, False, False]


def test_a_stored_study_comes_back() -> None:
    back = PrivacyStudy.from_json(json.loads(json.dumps(example().to_json())))
    assert back == example()


def test_a_run_has_every_fit_of_every_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_privacy, "COLUMNS", (2, 3))
    monkeypatch.setattr(paper_privacy, "EPSILONS", (0.5, 1.0))
    monkeypatch.setattr(paper_privacy, "_QUICK_RUNS", 500)
    small = SimulatedStudy.of
    monkeypatch.setattr(
        SimulatedStudy,
        "of",
        lambda columns, seed: small(columns, seed=seed, patients=300, tested=100),
    )
    heard: list[tuple[int, int, str]] = []
    found = run_privacy(quick=True, progress=lambda *words: heard.append(words))
    assert heard[0] == (0, 5, "P = 2, study 1")
    assert heard[-1] == (5, 5, "")
    assert len(found.judged) == 2 * (2 + 2 * 2)
    assert all(len(one.c_indices) == 2 for one in found.judged)
    again = SimulatedStudy.of(2, seed=derived_seed(0, 1)).private(1.0, ONCE)
    study = SimulatedStudy.of(2, seed=derived_seed(0, 1))
    assert study.c_index(again) == found.found(ONCE, 2, 1.0).c_indices[1], "repeatable"
    assert {audit.clipped for audit in found.audits} == {"patient", "row"}


def test_patients_of_the_test_are_not_learned_from() -> None:
    study = SimulatedStudy.of(3, seed=1, patients=200, tested=50)
    assert (study.train.patients, study.test.patients) == (150, 50)
    together = {tuple(row) for row in study.train.covariates.tolist()}
    assert not together & {tuple(row) for row in study.test.covariates.tolist()}
