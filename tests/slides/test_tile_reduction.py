"""The federated reducer is the pooled one, for any split, and not fitted on too few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import svds

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import InputError, RefusedError
from fedcox.slides.reducer_fit import train_autoencoder
from fedcox.slides.reduction import Reduction, federated_reducer
from fedcox.survival.cohort import Cohort
from tests.slides.shifted_tiles import all_tiles, lost, subspace_gap, tiled_cohort

COHORT = tiled_cohort()
PLAN = Reduction(48, 8, encoder="resnet50", encoder_sha256="ab")


def split(center: list[int]) -> dict[str, Cohort]:
    where = np.array(center)
    return {f"center {k}": COHORT.take(where == k) for k in range(max(center) + 2)}


@given(center=st.lists(st.integers(0, 5), min_size=30, max_size=30))
@settings(max_examples=20, deadline=None)
def test_any_split_gives_the_pooled_subspace_and_signs(center: list[int]) -> None:
    pooled = federated_reducer(PLAN, InProcess.from_cohorts({"all": COHORT}))
    found = federated_reducer(PLAN, InProcess.from_cohorts(split(center)))
    assert subspace_gap(found.components, pooled.components) < 1e-6
    np.testing.assert_allclose(found.components, pooled.components, atol=1e-8)
    np.testing.assert_allclose(found.scales, pooled.scales, rtol=1e-9)


def test_it_is_that_of_all_tiles_in_one_place_by_another_tool() -> None:
    tiles = all_tiles(COHORT)
    reference = svds(tiles, 8)[2].T  # ARPACK, which does not centre
    federation = InProcess.from_cohorts(split([k % 5 for k in range(30)]))
    found = federated_reducer(PLAN, federation)
    assert subspace_gap(found.components, reference) < 1e-6
    assert found.facts.error == pytest.approx(lost(tiles, reference), rel=1e-6)
    assert (found.facts.patients, found.facts.tiles) == (30, len(tiles))
    assert found.facts.encoder == "resnet50"


def test_its_error_is_at_most_that_of_the_autoencoder_after_three_epochs() -> None:
    federation = InProcess.from_cohorts(split([k % 3 for k in range(30)]))
    sample = all_tiles(COHORT).astype(np.float32)
    trained = train_autoencoder(sample, 8, seed=0)
    assert federated_reducer(PLAN, federation).facts.error <= min(trained.errors)


def test_it_takes_a_round_of_counts_and_one_of_the_upper_triangle() -> None:
    federation = InProcess.from_cohorts(split([k % 3 for k in range(30)]))
    federated_reducer(PLAN, federation)
    assert federation.ledger.rounds == 2
    sent = {(row.query, row.numbers_up) for row in federation.ledger.since((0, 0))}
    assert sent == {("tile counts", 2), ("tile moments", 2 + 48 * 49 // 2)}


def test_secure_sums_give_the_same_reducer() -> None:
    plain = InProcess.from_cohorts(split([k % 4 for k in range(30)]))
    pooled = federated_reducer(PLAN, plain)
    masked = federated_reducer(PLAN, Masked.around(plain))
    np.testing.assert_allclose(masked.components, pooled.components, atol=1e-9)


def test_too_few_patients_or_tiles_are_refused_with_the_reason() -> None:
    few = COHORT.take(np.arange(30) < 2)
    assert few.bags is not None
    federation = InProcess.from_cohorts({"few": few})
    with pytest.raises(RefusedError) as error:
        federated_reducer(Reduction(48, 8, fewest_tiles=few.bags.tiles + 1), federation)
    assert "Found 2 patients; at least 10 are needed." in str(error.value)
    assert f"Found {few.bags.tiles} tiles of 48 features each" in str(error.value)
    assert "single tiles can be worked out" in str(error.value)
    # Nothing about the tiles left before.
    assert {row.query for row in federation.ledger.since((0, 0))} == {"tile counts"}
    enough = Reduction(48, 8, fewest_patients=2, fewest_tiles=few.bags.tiles)
    assert federated_reducer(enough, federation).size == 8


def test_fewer_tiles_than_features_are_refused_unless_asked_for() -> None:
    cohort = tiled_cohort(12, features=1200)
    federation = InProcess.from_cohorts({"all": cohort})
    with pytest.raises(RefusedError, match="at least 1200 are needed"):
        federated_reducer(Reduction(1200, 8), federation)


def test_a_size_that_cannot_be_is_told_before_anything_is_asked() -> None:
    federation = InProcess.from_cohorts({"all": COHORT})
    with pytest.raises(InputError, match="from 1 to 48"):
        federated_reducer(Reduction(48, 256), federation)
    assert federation.ledger.rounds == 0
