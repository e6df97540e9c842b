"""The paper's slide experiment: folds, reducers, schemes, claims, on bags in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from fedcox.errors import CohortError
from fedcox.evaluation.folds import fold_numbers
from fedcox.evaluation.result import Row
from fedcox.paper.slide_experiment import (
    JudgedFold,
    SlideMinibatch,
    SlidePatients,
    SlideRecipe,
    judged_folds,
)
from fedcox.paper.slide_pipeline import EncoderChoice, embed_everywhere
from fedcox.paper.slide_study import (
    DISCRETE,
    MINI,
    PAPER_TABLE,
    SlideStudy,
    TileRanking,
    claims,
    planted_auc,
)
from fedcox.slides.manifest import SlideManifest
from fedcox.slides.simulated_slides import simulate_slides
from fedcox.slides.step import run_step
from fedcox.slides.tiling import Segmentation, Tiling
from fedcox.survival.bags import Bags, SlideArray
from fedcox.survival.cohort import Cohort
from fedcox.survival.concordance import concordance_index

FEATURES, REDUCED = 12, 6
RECIPE = SlideRecipe(
    epochs=12,
    learning_rate=1e-2,
    reduced=REDUCED,
    mini=SlideMinibatch(epochs=12, learning_rate=1e-2, hidden=8),
)


def patients(count: int = 90, seed: int = 0) -> SlidePatients:
    """Simulated bags: planted tiles lie along one direction, and their share is the risk."""
    rng = np.random.default_rng(seed)
    center = np.arange(count) % 3
    share = rng.uniform(0, 0.8, count)
    survived = rng.exponential(700 / np.exp(6 * (share - 0.4)))
    seen = rng.exponential(1500, count)
    cohorts, names = {}, {}
    for number in range(3):
        rows = np.flatnonzero(center == number)
        slides, ids = [], []
        for row in rows:
            own = tuple(_slide(rng, share[row]) for _ in range(1 + row % 4 // 3))
            slides.append(own)
            ids.append(tuple(f"s{row}-{k}" for k in range(len(own))))
        cohorts[f"center {number}"] = Cohort(
            np.empty((rows.size, 0)),
            np.ceil(np.minimum(survived, seen))[rows],
            (survived <= seen)[rows],
            bags=Bags(tuple(slides), FEATURES),
        )
        names[f"center {number}"] = tuple(ids)
    return SlidePatients(cohorts, names)


def _slide(rng: np.random.Generator, share: float) -> SlideArray:
    tiles = rng.normal(0.3, 0.5, (rng.integers(8, 20), FEATURES)).astype(np.float16)
    tiles[rng.random(len(tiles)) < share, 0] += 3
    return SlideArray(tiles)


@pytest.fixture(scope="module")
def judged() -> list[JudgedFold]:
    return list(judged_folds(patients(), RECIPE, folds=3, seeds=(0,)))


def test_every_patient_and_slide_is_tested_once_in_a_run(judged: list[JudgedFold]) -> None:
    everybody = patients()
    tested = [name for fold in judged for name in fold.scores]
    known = [name for own in everybody.slide_ids.values() for ids in own for name in ids]
    assert sorted(tested) == sorted(known)
    assert sum(fold.rows[0].patients for fold in judged) == 90
    for fold in judged:
        assert [row.scheme for row in fold.rows] == [MINI, DISCRETE]
        assert {row.trained_on + row.patients for row in fold.rows} == {90}


def test_both_schemes_learn_and_only_one_sends_messages(judged: list[JudgedFold]) -> None:
    for scheme in (0, 1):
        found = [fold.rows[scheme].c_index for fold in judged]
        assert np.mean([index for index in found if index is not None]) > 0.65
    for fold in judged:
        pooled, federated = fold.rows
        assert (pooled.rounds, pooled.bytes_up) == (0, 0)
        assert federated.rounds > RECIPE.epochs
        assert federated.bytes_up > 0


def test_a_run_can_be_repeated_to_the_bit(judged: list[JudgedFold]) -> None:
    again = next(judged_folds(patients(), RECIPE, folds=3, seeds=(0,)))
    assert [row.c_index for row in again.rows] == [row.c_index for row in judged[0].rows]
    assert again.scale == judged[0].scale


def test_the_scale_is_that_of_training_tiles(judged: list[JudgedFold]) -> None:
    for fold in judged:
        tested = np.concatenate([*fold.scores.values()])
        inside = (tested > fold.scale.low) & (tested < fold.scale.high)
        assert 0.9 < inside.mean() <= 1.0


def test_the_reducer_never_saw_the_test_patients() -> None:
    everybody = patients()
    numbers = fold_numbers(everybody.cohorts, 3, seed=0)
    # Test patients far away from all others: a reducer that saw them would turn to them.
    moved = {}
    for name, cohort in everybody.cohorts.items():
        assert cohort.bags is not None
        slides = tuple(
            tuple(
                SlideArray((slide.read() + np.float16(50 * (number == 1))).astype(np.float16))
                for slide in own
            )
            for own, number in zip(cohort.bags.slides, numbers[name], strict=True)
        )
        moved[name] = replace(cohort, bags=Bags(slides, FEATURES))
    far = SlidePatients(moved, everybody.slide_ids)
    first = next(judged_folds(far, RECIPE, folds=3, seeds=(0,)))
    near = next(judged_folds(everybody, RECIPE, folds=3, seeds=(0,)))
    # Training is on the same patients, so it is the same; only the test slides differ.
    assert first.scale.centre == pytest.approx(near.scale.centre, rel=1e-9)
    assert first.scale.reach == pytest.approx(near.scale.reach, rel=1e-9)
    assert [*first.scores] == [*near.scores]
    assert all((first.scores[name] != near.scores[name]).all() for name in near.scores)


def test_batches_have_about_the_papers_rows() -> None:
    cohorts = patients().cohorts
    size = RECIPE.batch_size(cohorts)
    rows = [
        np.ceil(cohort.time / 30)
        * [len(own) for own in (cohort.bags.slides if cohort.bags else ())]
        for cohort in cohorts.values()
    ]
    assert size * np.concatenate(rows).mean() == pytest.approx(100, rel=0.2)


def test_cox_on_minibatches_ranks_the_slides_it_was_trained_on() -> None:
    pooled = Cohort.joined([*patients().cohorts.values()])
    trained = RECIPE.mini.train(pooled, seed=1)
    found = concordance_index(pooled.time, pooled.event, trained.risk(pooled)).index
    assert found is not None
    assert found > 0.7
    again = RECIPE.mini.train(pooled, seed=1)
    assert (again.theta == trained.theta).all()
    nobody = replace(pooled, event=np.zeros(pooled.patients, bool))
    with pytest.raises(CohortError, match="No training patient has an event"):
        RECIPE.mini.train(nobody, seed=1)


@given(st.integers(0, 10_000), st.integers(2, 40), st.booleans())
def test_the_area_under_the_curve_is_that_of_scikit_learn(
    seed: int, count: int, ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.random(count) < 0.4
    scores = rng.integers(0, 4, count).astype(float) if ties else rng.normal(size=count)
    found = planted_auc(scores, truth)
    if truth.all() or not truth.any():
        assert found is None
    else:
        assert found == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)


def study(judged: list[JudgedFold], auc: float = 0.95) -> SlideStudy:
    return SlideStudy(
        simulated=True,
        cancer=None,
        patients=90,
        events=50,
        slides=110,
        tiles=1500,
        centers={"center 0": 30, "center 1": 30, "center 2": 30},
        settings={"width": 30.0, "notes": []},
        rows=tuple(row for fold in judged for row in fold.rows),
        rankings=(TileRanking(0, 1, "s0-0", 4, 12, auc),),
        seconds={"embed": 1.0},
        versions={"fedcox": "0.1.0"},
    )


def test_a_study_survives_its_json(judged: list[JudgedFold]) -> None:
    first = study(judged)
    record = json.loads(json.dumps(first.to_json(), allow_nan=False))
    assert [Row.from_record(row) for row in record["rows"]] == [*first.rows]
    assert [TileRanking(**ranking) for ranking in record["rankings"]] == [*first.rankings]
    assert record["comparison"]["test_sets"] == first.comparison.test_sets


def test_claims_follow_the_numbers(judged: list[JudgedFold]) -> None:
    good, bad = claims(study(judged)), claims(study(judged, auc=0.89))
    assert len(good) == 3
    assert good[2].held
    assert not bad[2].held
    assert "0.890" in bad[2].measured
    rows = tuple(
        replace(row, c_index=0.7 if row.scheme == MINI else 0.66) for row in study(judged).rows
    )
    apart = claims(replace(study(judged), rows=rows))
    assert [claim.held for claim in apart] == [False, True, True]
    real = claims(replace(study(judged), simulated=False, rankings=()))
    assert len(real) == 1


def test_the_papers_table_is_the_papers() -> None:
    assert PAPER_TABLE["BRCA"] == {MINI: (0.55, 0.06), DISCRETE: (0.57, 0.06)}
    assert PAPER_TABLE["COAD"] == {MINI: (0.62, 0.07), DISCRETE: (0.65, 0.07)}
    assert PAPER_TABLE["KIRC"] == {MINI: (0.66, 0.05), DISCRETE: (0.69, 0.04)}
    assert PAPER_TABLE["LGG"] == {MINI: (0.67, 0.05), DISCRETE: (0.68, 0.06)}


def test_slides_embedded_in_two_processes_are_those_of_one(tmp_path: Path) -> None:
    made = simulate_slides(tmp_path / "simulated", 8, 1, seed=1, size_px=384)
    slides = SlideManifest.read(made.manifest).slides
    assert len(slides) > 8  # more than one process takes at a time
    found = {}
    for processes in (1, 2):
        work = tmp_path / str(processes)
        run_step(Segmentation(), slides, work)
        run_step(Tiling(96.0, 3.0), slides, work)
        choice = EncoderChoice(untrained=0, precision="float32", batch=8)
        outcome = embed_everywhere(slides, work, choice, processes=processes)
        assert sorted(outcome.made) == sorted(row.slide_id for row in slides)
        assert outcome.tiles > len(slides)
        again = embed_everywhere(slides, work, choice, processes=1)
        assert len(again.kept) == len(slides)
        found[processes] = {
            path.name: path.read_bytes() for path in (work / "features").glob("*.h5")
        }
    assert found[1] == found[2]
