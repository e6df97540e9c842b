"""Use the reducer that belongs to these slides, or fit it: on one machine, over all centers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError, WeightsError
from fedcox.slides.cohorts import OpenedBags
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.reduction import (
    Method,
    Reducer,
    ReducerFacts,
    read_reducer,
    settings_digest,
    write_reducer,
)
from fedcox.slides.tile_reduction import (
    Reduction,
    check_numbers,
    cohorts_without_outcomes,
    federated_reducer,
)
from fedcox.survival.bags import SlideFeatures, TileFeatures

Watch = Callable[[str, int, int], None]
"""What is done, and how many slides of how many; of none where slides do not count."""


@dataclass(frozen=True)
class ReducerFit:
    """How to fit; `seed` is for the autoencoder's tiles and first weights."""

    size: int = 256
    method: Method = "pca"
    whitened: bool = False
    seed: int = 0


def reducer_for(
    path: Path,
    slides: Sequence[ManifestRow],
    opened: OpenedBags,
    fit: ReducerFit,
    watch: Watch = lambda words, done, total: None,
) -> tuple[Reducer, bool]:
    """The reducer at `path`, fitted on these slides and no others; and whether it was kept.

    It is written whole. One of other slides, features or settings is fitted anew.
    """
    settings = _settings(slides, opened, fit)
    kept = _kept(path, settings)
    if kept is not None:
        return kept, True
    plan = Reduction(
        opened.features,
        fit.size,
        fit.whitened,
        opened.encoder or "",
        opened.encoder_sha256 or "",
    )
    if fit.method == "pca":
        watched = _watched(slides, opened, watch)
        centers = InProcess.from_cohorts(cohorts_without_outcomes(slides, watched))
        reducer = federated_reducer(plan, centers, settings)
    else:
        reducer = _autoencoder(plan, slides, opened, fit, watch)
        facts = replace(reducer.facts, settings=settings)
        reducer = Reducer(reducer.components, reducer.scales, facts)
    write_reducer(path, reducer)
    return reducer, False


def given_reducer(path: Path, opened: OpenedBags) -> Reducer:
    """A reducer that was fitted before, such as a model's, for other patients' slides."""
    reducer = read_reducer(path)
    faults = []
    if reducer.features != opened.features:
        faults.append(
            f"It takes {reducer.features} features per tile, and these slides have "
            f"{opened.features}."
        )
    for words, fitted, found in (
        ("on features of the encoder", reducer.facts.encoder, opened.encoder),
        ("with encoder weights", reducer.facts.encoder_sha256, opened.encoder_sha256),
    ):
        if fitted and found and fitted != found:
            faults.append(f"It was fitted {words} {fitted}, and these are of {found}.")
    if faults:
        raise InputError(f"The reducer {path} does not fit these slides.", faults)
    return reducer


def _settings(slides: Sequence[ManifestRow], opened: OpenedBags, fit: ReducerFit) -> str:
    """All that the fit depends on, but in which order and center slides are."""
    used = sorted(
        (slide.slide_id, slide.patient_id, opened.bags[slide.slide_id].digest)
        for slide in slides
        if slide.slide_id in opened.bags
    )
    return settings_digest(
        {
            "size": fit.size,
            "method": fit.method,
            "whitened": fit.whitened,
            "seed": fit.seed if fit.method == "adam" else None,
            "slides": used,
        }
    )


def _kept(path: Path, settings: str) -> Reducer | None:
    if not path.exists():
        return None
    try:
        found = read_reducer(path)
    except WeightsError:
        return None
    return found if found.facts.settings == settings else None


def _autoencoder(
    plan: Reduction,
    slides: Sequence[ManifestRow],
    opened: OpenedBags,
    fit: ReducerFit,
    watch: Watch,
) -> Reducer:
    """The paper's, on tiles of all centers in one place; in the order of slides' names."""
    from fedcox.slides.autoencoder import sampled_tiles, train_autoencoder

    used = sorted(
        (slide for slide in slides if slide.slide_id in opened.bags),
        key=lambda slide: slide.slide_id,
    )
    bags = [opened.bags[slide.slide_id].features for slide in used]
    patients = len({slide.patient_id for slide in used})
    check_numbers(plan, patients, sum(bag.shape[0] for bag in bags))
    watch("drawing tiles", 0, 0)
    sample = sampled_tiles(bags, seed=fit.seed)
    trained = train_autoencoder(
        sample,
        fit.size,
        seed=fit.seed,
        watch=lambda epoch, error: watch(f"epoch {epoch}: error {error:.4f}", 0, 0),
    )
    facts = ReducerFacts(
        "adam",
        len(sample),
        patients,
        trained.errors[-1],
        fit.whitened,
        plan.encoder,
        plan.encoder_sha256,
    )
    return trained.reducer(sample, facts)


@dataclass(frozen=True, eq=False)
class _Watched:
    """A slide that says when it is read."""

    slide: SlideFeatures
    tell: Callable[[], None]

    @property
    def shape(self) -> tuple[int, int]:
        return self.slide.shape

    def read(self) -> TileFeatures:
        self.tell()
        return self.slide.read()


def _watched(slides: Sequence[ManifestRow], opened: OpenedBags, watch: Watch) -> OpenedBags:
    """The same bags; as they are read for the fit, `watch` is told how many were."""
    count = itertools.count()
    total = sum(slide.slide_id in opened.bags for slide in slides)

    def tell() -> None:
        watch("summing moments of tiles", next(count), total)

    bags = {
        slide_id: replace(bag, features=_Watched(bag.features, tell))
        for slide_id, bag in opened.bags.items()
    }
    return replace(opened, bags=bags)
