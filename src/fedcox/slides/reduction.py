"""The thousands of features of a tile become a few hundred, by a linear map.

The paper's linear autoencoder has no bias, so that its best solution is known: the leading
eigenvectors of the sum of x xᵀ over tiles, uncentred. Features of a centred principal component
analysis, applied without the mean, are another thing and reconstruct far worse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from fedcox.errors import InputError, RefusedError, SlideError, WeightsError, from_extra
from fedcox.federation.queries.tile_counts import TileCounts
from fedcox.federation.queries.tile_moments import TileMoments
from fedcox.federation.query import Federation
from fedcox.files.writing import whole_file
from fedcox.slides.bag_file import BagFacts, BagFile, write_bag
from fedcox.slides.bag_reader import feature_path, open_bag
from fedcox.slides.cohorts import OpenedBags, bags_of
from fedcox.slides.feature_files import KnownSlide, OpenedBag
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.step import AbstractStep, Settings, SlideRow, reduced_path
from fedcox.survival.bags import TileFeatures
from fedcox.survival.cohort import Cohort, FloatArray

SCHEMA = "fedcox-reducer-1"
Method: TypeAlias = Literal["pca", "adam"]
_BLOCK = 4096  # tiles that are reduced at a time
#: A reducer is shared, and is about the patients it was fitted on.
FEWEST_PATIENTS = 10


@dataclass(frozen=True)
class ReducerFacts:
    """Where a reducer comes from.

    `error` is the part of the features' sum of squares over the tiles it was fitted on that
    cannot be reconstructed. `settings` is a digest of all that the fit depended on, for
    whoever asks whether it must be done anew.
    """

    method: Method = "pca"
    tiles: int = 0
    patients: int = 0
    error: float = 0.0
    whitened: bool = False
    encoder: str = ""
    encoder_sha256: str = ""
    settings: str = ""


@dataclass(frozen=True, eq=False)
class Reducer:
    """A linear map from an encoder's features to few.

    `components` (features, size) has a column for each new feature, and `scales` (size,) the
    root of its mean square over the tiles of the fit. Where the map is whitened it divides by
    them. `sha256` names the map: two with the same give the same numbers.
    """

    components: FloatArray
    scales: FloatArray
    facts: ReducerFacts
    sha256: str = field(init=False)
    _matrix: NDArray[np.float32] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        columns = self.components / self.scales if self.facts.whitened else self.components
        matrix = np.ascontiguousarray(columns, dtype=np.float32)
        name = f"{matrix.shape} {self.facts.encoder} {self.facts.encoder_sha256}"
        hasher = sha256(name.encode())
        hasher.update(matrix.data)
        object.__setattr__(self, "_matrix", matrix)
        object.__setattr__(self, "sha256", hasher.hexdigest())

    @property
    def features(self) -> int:
        return int(self.components.shape[0])

    @property
    def size(self) -> int:
        return int(self.components.shape[1])

    def apply(self, features: TileFeatures) -> NDArray[np.float32]:
        """(tiles, size), in single precision whatever the features are kept in."""
        if features.shape[1] != self.features:
            raise InputError(
                f"Tiles have {features.shape[1]} features, and the reducer was fitted on "
                f"{self.features}.",
                ["Use features of the encoder that it was fitted on."],
            )
        reduced = np.empty((len(features), self.size), dtype=np.float32)
        for start in range(0, len(features), _BLOCK):
            block = features[start : start + _BLOCK].astype(np.float32, copy=False)
            np.matmul(block, self._matrix, out=reduced[start : start + _BLOCK])
        return reduced


def reducer_from_moments(
    second: FloatArray, tiles: int, size: int, facts: ReducerFacts | None = None
) -> Reducer:
    """The best linear autoencoder without bias, from `second`, the sum of x xᵀ over tiles.

    The columns are orthonormal, by falling mean square, and the largest number of each is
    positive. Tiles and error of the facts are filled in here.
    """
    width = len(second)
    check_size(size, width)
    if not np.isfinite(second).all():
        raise InputError("The second moments of the features are not finite.")
    total = float(np.trace(second))
    if not total > 0:
        raise InputError("All features are zero; there is nothing to reduce.")
    values, vectors = eigh(second, subset_by_index=[width - size, width - 1])
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    components = vectors * np.sign(largest)
    scales = np.sqrt(values / tiles)
    given = facts or ReducerFacts()
    if given.whitened:
        _check_rank(values, width)
    error = max(1.0 - float(values.sum()) / total, 0.0)
    filled = replace(given, method="pca", tiles=tiles, error=error)
    return Reducer(np.ascontiguousarray(components), scales, filled)


def check_size(size: int, features: int) -> None:
    """InputError where so many features cannot be made of these."""
    if not 1 <= size <= features:
        raise InputError(
            f"{features} features cannot be reduced to {size}.",
            [f"Choose a size from 1 to {features}."],
        )


def _check_rank(values: FloatArray, width: int) -> None:
    """What is only rounding must not be divided by its size."""
    rank = int(np.count_nonzero(values > values[0] * width * np.finfo(np.float32).eps))
    if rank < values.size:
        raise InputError(
            f"The tiles vary in {rank} directions only, too few to whiten {values.size}.",
            [f"Reduce to at most {rank}, or do not whiten."],
        )


def write_reducer(path: str | Path, reducer: Reducer) -> None:
    """As safetensors, whole or not at all."""
    with from_extra("safetensors", "slides"):
        from safetensors.numpy import save
    facts = {"schema": SCHEMA, **asdict(reducer.facts)}
    content = save(
        {"components": reducer.components, "scales": reducer.scales},
        metadata={"fedcox": json.dumps(facts, sort_keys=True)},
    )
    with whole_file(path) as part:
        part.write_bytes(content)


def read_reducer(path: str | Path) -> Reducer:
    """A reducer that `write_reducer` wrote; WeightsError where it is none."""
    with from_extra("safetensors", "slides"):
        from safetensors import SafetensorError, safe_open
    try:
        with safe_open(path, framework="numpy") as file:
            stored = json.loads((file.metadata() or {})["fedcox"])
            components, scales = file.get_tensor("components"), file.get_tensor("scales")
        if stored.pop("schema") != SCHEMA:
            raise _no_reducer(path, f"It is not of the schema {SCHEMA}.")
        facts = ReducerFacts(**stored)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise _no_reducer(path, f"{type(error).__name__}: {error}.") from None
    shaped = components.ndim == 2 and scales.shape == components.shape[1:]
    if not shaped or not all(
        part.dtype == np.float64 and np.isfinite(part).all() for part in (components, scales)
    ):
        raise _no_reducer(path, "Its numbers are not those of a linear map.")
    return Reducer(components, scales, facts)


def _no_reducer(path: str | Path, fault: str) -> WeightsError:
    return WeightsError(f"There is no reducer in {path}.", [fault])


@dataclass(frozen=True)
class Reduction:
    """What is asked for: `size` numbers per tile of the `features` that an encoder gives.

    Below `fewest_patients` or `fewest_tiles` over all centers there is no reducer. None stands
    for as many tiles as features: of fewer, the reducer would give away which directions
    single tiles span.
    """

    features: int
    size: int = 256
    whitened: bool = False
    encoder: str = ""
    encoder_sha256: str = ""
    fewest_patients: int = FEWEST_PATIENTS
    fewest_tiles: int | None = None


def federated_reducer(plan: Reduction, federation: Federation, settings: str = "") -> Reducer:
    """The best linear reduction over the tiles of every center's patients.

    First patients and tiles are counted, and nothing else is asked where they are too few; then
    one round gives Σ x xᵀ, which adds up under secure sums too: the reducer is the same however
    the patients are split, and the features of tiles stay where they are. `settings` is kept
    with the reducer.
    """
    check_size(plan.size, plan.features)
    counted = federation.ask(TileCounts())
    check_numbers(plan, counted.patients, counted.tiles)
    sums = federation.ask(TileMoments(plan.features))
    facts = ReducerFacts(
        patients=sums.patients,
        whitened=plan.whitened,
        encoder=plan.encoder,
        encoder_sha256=plan.encoder_sha256,
        settings=settings,
    )
    return reducer_from_moments(sums.second, sums.tiles, plan.size, facts)


def check_numbers(plan: Reduction, patients: int, tiles: int) -> None:
    """RefusedError where a reducer would be about too few."""
    fewest_tiles = plan.features if plan.fewest_tiles is None else plan.fewest_tiles
    faults = []
    if patients < plan.fewest_patients:
        faults.append(f"Found {patients} patients; at least {plan.fewest_patients} are needed.")
    if tiles < fewest_tiles:
        faults.append(
            f"Found {tiles} tiles of {plan.features} features each; at least "
            f"{fewest_tiles} are needed, since from fewer single tiles can be worked out. Take "
            "more slides or smaller tiles, or train on features that are not reduced."
        )
    if faults:
        raise RefusedError("There is too little for a reducer that is shared.", faults)


def cohorts_without_outcomes(
    slides: Sequence[ManifestRow], opened: OpenedBags
) -> Mapping[str, Cohort]:
    """Each center's patients for questions about their tiles alone.

    Nobody's follow-up is known here: all times are zero, without an event.
    """
    by_center: dict[str, dict[str, list[OpenedBag]]] = {}
    for slide in slides:
        patients = by_center.setdefault(slide.center, {})
        if slide.slide_id in opened.bags:
            patients.setdefault(slide.patient_id, []).append(opened.bags[slide.slide_id])
    return {
        center: Cohort(
            np.empty((len(patients), 0)),
            np.zeros(len(patients)),
            np.zeros(len(patients), dtype=np.bool_),
            bags=bags_of(patients.values(), opened.features),
        )
        for center, patients in by_center.items()
    }


@dataclass(frozen=True, eq=False)
class ReduceStep(AbstractStep):
    """One reducer for all slides.

    `bags` are those that go together and `faults` says why others do not, by slide; their
    files are in `folder`. A file that another reducer made is made anew. `deepzoom_tile_px` as
    in `KnownSlide`.
    """

    name = "reduce"

    reducer: Reducer
    bags: Mapping[str, OpenedBag]
    faults: Mapping[str, str]
    folder: Path
    deepzoom_tile_px: int | None = None

    def target(self, slide_id: str, work: Path) -> Path:
        return reduced_path(slide_id, work)

    def settings(self, slide: SlideRow, work: Path) -> Settings:
        bag = self.bags.get(slide.slide_id)
        if bag is None:
            feature_path(self.folder, slide.slide_id)  # SlideError where it has none
        # Features that cannot be used have no digest: what was made of others is not kept.
        digest = None if bag is None else bag.digest
        return {
            "reducer": self.reducer.sha256,
            "features": digest,
            "deepzoom_tile_px": self.deepzoom_tile_px,
        }

    def make(self, slide: SlideRow, work: Path, tick: Callable[[int], None]) -> int:
        if slide.slide_id not in self.bags:
            raise SlideError(self.faults[slide.slide_id])
        bag = self._with_places(slide)
        reduced = self.reducer.apply(bag.features.read())
        facts = replace(
            _facts(slide.slide_id, bag),
            stage="reduced",
            reducer_sha256=self.reducer.sha256,
            settings=self.settings(slide, work),
        )
        write_bag(self.target(slide.slide_id, work), facts, bag.coords, reduced)
        return len(reduced)

    def _with_places(self, slide: SlideRow) -> OpenedBag:
        """With places in pixels also where the layout needs the slide itself for them."""
        from fedcox.slides.slide import open_slide

        bag = self.bags[slide.slide_id]
        if bag.coords is not None or slide.path is None or not slide.path.exists():
            return bag
        try:
            with open_slide(slide.path) as opened:
                known = KnownSlide(opened.mpp, opened.size, self.deepzoom_tile_px)
        except InputError:
            return bag  # features count without places; a heatmap will say what it lacks
        return open_bag(feature_path(self.folder, slide.slide_id), known)


def _facts(slide_id: str, bag: OpenedBag) -> BagFacts:
    if isinstance(bag.features, BagFile):
        return bag.features.facts
    return BagFacts(
        slide_id,
        "raw",
        mpp=bag.mpp,
        tile_px_level0=bag.tile_px_level0,
        encoder=bag.encoder or "",
        encoder_sha256=bag.encoder_sha256 or "",
    )
