"""Simulated slides: the same bytes by seed, and a truth that can be held against a model."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest

from fedcox.errors import InputError, SlideError
from fedcox.slides.manifest import SlideManifest
from fedcox.slides.simulated_slides import SimulatedSlides, read_simulated, simulate_slides
from fedcox.slides.simulated_tissue import draw_slide, simulate_cohort
from fedcox.slides.slide import open_slide


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> SimulatedSlides:
    return simulate_slides(tmp_path_factory.mktemp("simulated"), 12, 3, 4, size_px=512)


def test_the_same_seed_gives_the_same_bytes(simulated: SimulatedSlides, tmp_path: Path) -> None:
    simulate_slides(tmp_path / "same", 12, 3, 4, size_px=512)
    first, second = (
        digests(folder) for folder in (simulated.manifest.parent, tmp_path / "same")
    )
    assert first == second
    other = simulate_slides(tmp_path / "other", 12, 3, 5, size_px=512)
    assert digests(other.manifest.parent)["patients.csv"] != first["patients.csv"]


def test_the_manifest_names_slides_that_open_with_their_resolution(
    simulated: SimulatedSlides,
) -> None:
    manifest = SlideManifest.read(simulated.manifest)
    assert len(manifest.slides) == 14  # a sixth of 12 patients have two
    assert len(manifest.patients) == 12
    assert manifest.centers == ("center-1", "center-2", "center-3")
    sizes = [
        sum(row.center == center for row in manifest.slides) for center in manifest.centers
    ]
    assert len(set(sizes)) > 1
    for row in manifest.slides:
        assert row.path is not None
        with open_slide(row.path) as slide:
            assert slide.size == (512, 512)
            assert slide.mpp == pytest.approx(1.0, rel=1e-6)


def test_the_truth_comes_back_from_its_file(simulated: SimulatedSlides) -> None:
    back = read_simulated(simulated.manifest.parent)
    assert back.shares == simulated.shares
    assert back.planted.keys() == simulated.planted.keys()
    for name, region in simulated.planted.items():
        np.testing.assert_array_equal(back.planted[name].pixels, region.pixels)
        assert back.planted[name].downsample == region.downsample
    with pytest.raises(SlideError, match="not a folder of simulated slides"):
        read_simulated(simulated.manifest.parent / "slides")


def test_every_patient_has_an_outcome(simulated: SimulatedSlides) -> None:
    with simulated.patients.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["patient_id"] for row in rows] == list(simulated.shares)
    assert all(int(row["time"]) >= 1 and row["event"] in "01" for row in rows)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.6])
def test_planted_regions_are_the_share_of_tissue_and_look_different(share: float) -> None:
    drawn = draw_slide(1024, 1.0, share, rng=np.random.default_rng(3))
    planted = np.kron(drawn.planted.pixels, np.ones((32, 32), bool)) & drawn.tissue.pixels
    assert planted.sum() / drawn.tissue.pixels.sum() == pytest.approx(share, abs=0.05)
    if share:
        dark = drawn.pixels.mean(2)
        ordinary = drawn.tissue.pixels & ~planted
        assert dark[planted].mean() < dark[ordinary].mean() - 20


def test_the_hazard_follows_the_planted_share() -> None:
    cohort = simulate_cohort(20_000, 4, effect=6.0, rng=np.random.default_rng(0))
    assert cohort.event.mean() == pytest.approx(0.6, abs=0.015)
    # Deaths over time at risk of a narrow band of shares is its hazard.
    rates = [
        cohort.event[band].sum() / cohort.days[band].sum()
        for band in (np.abs(cohort.share - at) < 0.02 for at in (0.1, 0.4))
    ]
    assert np.log(rates[1] / rates[0]) == pytest.approx(6.0 * 0.3, abs=0.15)
    assert cohort.slides.mean() == pytest.approx(7 / 6, abs=1e-3)
    sizes = np.bincount(cohort.center)
    np.testing.assert_allclose(sizes[1:] / sizes[:-1], 0.6, atol=0.01)


@pytest.mark.parametrize(("patients", "centers"), [(1, 1), (5, 5), (7, 3)])
def test_no_center_is_empty(patients: int, centers: int) -> None:
    cohort = simulate_cohort(patients, centers, effect=6.0, rng=np.random.default_rng(1))
    assert np.bincount(cohort.center, minlength=centers).min() >= 1
    assert len(cohort.center) == patients


def test_more_centers_than_patients_are_refused() -> None:
    with pytest.raises(InputError, match="cannot be in"):
        simulate_cohort(2, 3, effect=6.0, rng=np.random.default_rng(1))


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
