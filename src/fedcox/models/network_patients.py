"""A cohort laid out for a network, once: its rows, its slides, and where they stand in time.

On a processor slides stay as they are, in memory or in their files; on a GPU all of them are
packed into one tensor if they fit, and brought there a batch at a time if not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fedcox.errors import CohortError, InputError, WeightsError
from fedcox.models.architecture import AbstractArchitecture, Inputs
from fedcox.models.predictors.network import SlideWeight
from fedcox.survival.bags import SlideArray, SlideFeatures, TileFeatures
from fedcox.survival.cohort import Cohort, FloatArray, IntArray
from fedcox.survival.time_at_risk import TimeAtRisk

#: Slides up to so many bytes are read once and kept; more are read whenever they are needed.
_RESIDENT_BYTES = 4 * 2**30
_SHARE_OF_GPU = 0.8


@dataclass(frozen=True, eq=False)
class PackedTiles:
    """The tiles of several slides in one tensor on a GPU.

    Slide i has the rows `offsets`[i] to `offsets`[i + 1] of `features`, and their sum.
    """

    features: Tensor  # (tiles, features) float16, or float32 where any slide has it
    offsets: Tensor  # (slides + 1,) int64
    sums: Tensor  # (slides, features) float32

    @classmethod
    def of(
        cls, bags: Iterable[Tensor], tiles: Sequence[int], features: int, device: str
    ) -> PackedTiles:
        """From bags of so many `tiles` each, without a second copy of all of them."""
        ends = np.cumsum([0, *tiles])
        packed = torch.empty((int(ends[-1]), features), dtype=torch.float16, device=device)
        sums = torch.empty((len(tiles), features), dtype=torch.float32, device=device)
        for place, bag in enumerate(bags):
            if bag.dtype != packed.dtype:
                packed = packed.float()
            own = packed[ends[place] : ends[place + 1]].copy_(bag)
            sums[place] = own.sum(0, dtype=torch.float32)
        return cls(packed, torch.tensor(ends, device=device), sums)


class AbstractSlides(ABC):
    """Slides by their number."""

    device: str

    @abstractmethod
    def bag(self, slide: int) -> Tensor:
        """(tiles, features) as stored, on the device."""

    def packed(self, slides: IntArray) -> tuple[PackedTiles, Tensor]:
        """Packed tiles, and where in them these slides stand."""
        bags = [self.bag(slide) for slide in slides.tolist()]
        tiles, features = [bag.shape[0] for bag in bags], bags[0].shape[1]
        packed = PackedTiles.of(bags, tiles, features, self.device)
        return packed, torch.arange(len(bags), device=self.device)


@dataclass(frozen=True, eq=False)
class KeptSlides(AbstractSlides):
    """In memory, each as it was read."""

    bags: tuple[Tensor, ...]

    device = "cpu"

    def bag(self, slide: int) -> Tensor:
        return self.bags[slide]


@dataclass(frozen=True, eq=False)
class ReadSlides(AbstractSlides):
    """Read whenever they are looked at."""

    slides: tuple[SlideFeatures, ...]
    device: str

    def bag(self, slide: int) -> Tensor:
        return as_tensor(self.slides[slide].read()).to(self.device)


@dataclass(frozen=True, eq=False)
class PackedSlides(AbstractSlides):
    """All on a GPU."""

    tiles: PackedTiles
    first: IntArray  # (slides + 1,) the offsets on this side
    device: str

    def bag(self, slide: int) -> Tensor:
        return self.tiles.features[int(self.first[slide]) : int(self.first[slide + 1])]

    def packed(self, slides: IntArray) -> tuple[PackedTiles, Tensor]:
        return self.tiles, torch.from_numpy(slides).to(self.device)


def slide_tensors(slides: Sequence[SlideFeatures], device: str) -> AbstractSlides:
    """Keep as many slides as one should."""
    on_gpu = torch.device(device).type == "cuda"
    # What is in memory already costs nothing to keep there.
    wanted = sum(
        2 * slide.shape[0] * slide.shape[1]  # float16, as slides are stored
        for slide in slides
        if on_gpu or not isinstance(slide, SlideArray)
    )
    most = _RESIDENT_BYTES
    if on_gpu:
        most = int(_SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0])
    if wanted > most:
        return ReadSlides(tuple(slides), device)
    bags = (as_tensor(slide.read()) for slide in slides)
    if not on_gpu:
        return KeptSlides(tuple(bags))
    features = slides[0].shape[1] if slides else 0
    tiles = PackedTiles.of(bags, [slide.shape[0] for slide in slides], features, device)
    return PackedSlides(tiles, tiles.offsets.cpu().numpy(), device)


def as_tensor(array: TileFeatures) -> Tensor:
    """The same memory as a tensor, or a copy where it may not be written to."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


@dataclass(frozen=True, eq=False)
class PlacedSamples:
    """In which fitted intervals each sample is at risk, as in `TimeAtRisk`, and its weight."""

    passed: Tensor  # (samples,) int64: at risk in the first so many, without the event
    event: Tensor  # (samples,) bool: with the event in the next one
    part: Tensor  # (samples,) float64: at risk by so much of the next one, beside the event
    weight: Tensor  # (samples,) float64

    @classmethod
    def of(
        cls,
        risk: TimeAtRisk,
        patient: IntArray | None = None,
        weight: FloatArray | None = None,
        device: str = "cpu",
    ) -> PlacedSamples:
        """Samples that belong to the rows `patient` of `risk`; one for each without it."""
        rows = np.arange(risk.passed.size) if patient is None else patient
        own = np.ones(rows.size) if weight is None else weight
        return cls(
            torch.tensor(risk.passed[rows], dtype=torch.int64, device=device),
            torch.tensor(risk.event[rows], dtype=torch.bool, device=device),
            torch.tensor(risk.part[rows], dtype=torch.float64, device=device),
            torch.tensor(own, dtype=torch.float64, device=device),
        )

    def take(self, samples: Tensor | slice) -> PlacedSamples:
        """Some samples; one may be taken several times."""
        return PlacedSamples(
            self.passed[samples],
            self.event[samples],
            self.part[samples],
            self.weight[samples],
        )

    def weighing(self, factor: Tensor) -> PlacedSamples:
        """The same samples, each weighing so many times as much."""
        return PlacedSamples(self.passed, self.event, self.part, self.weight * factor)


@dataclass(frozen=True, eq=False)
class SampleBatch:
    """The samples of some patients, each patient's next to each other."""

    samples: IntArray
    patient: IntArray  # (samples,) place of its patient among those chosen
    patients: int

    def part(self, first: int, last: int) -> SampleBatch:
        """Those of the chosen patients from `first` to before `last`."""
        here = slice(*np.searchsorted(self.patient, [first, last]))
        return SampleBatch(self.samples[here], self.patient[here] - first, last - first)

    def cells(self, place: IntArray, intervals: IntArray) -> tuple[IntArray, IntArray]:
        """Cells of the chosen patients at `place` as cells of each of their samples.

        Gives places among the samples, increasing, and intervals.
        """
        order = np.argsort(place, kind="stable")
        counts = np.bincount(place, minlength=self.patients)
        first = np.cumsum(counts) - counts
        own = counts[self.patient]
        sample = np.repeat(np.arange(self.samples.size), own)
        within = np.arange(sample.size) - np.repeat(np.cumsum(own) - own, own)
        return sample, intervals[order][first[self.patient][sample] + within]


@dataclass(frozen=True, eq=False)
class NetworkPatients:
    """Patients as a network sees them; a sample is a slide, or a patient where it has none.

    `table` is (patients, columns); `first` (patients + 1,) says which samples belong to whom:
    patient r has those from `first`[r] to before `first`[r + 1].
    """

    table: Tensor | None
    slides: AbstractSlides | None
    first: IntArray
    placed: PlacedSamples
    time: Tensor  # (samples,) float64, on the true scale
    event: Tensor  # (samples,) bool

    @classmethod
    def of(
        cls,
        cohort: Cohort,
        placed: TimeAtRisk | None,
        scaled: FloatArray | None,
        *,
        inputs: Inputs,
        slide_weight: SlideWeight = "slide",
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> NetworkPatients:
        """Lay a cohort out; `placed` is None where only scores are wanted.

        `scaled` (patients, columns) stands for the cohort's own covariates. Each slide of a
        patient with k slides weighs 1, or 1/k if `slide_weight` is "patient".
        """
        _check_device(device)
        table = _table(cohort, scaled, device, dtype) if inputs != "bags" else None
        counts, slides = np.ones(cohort.patients, dtype=np.int64), None
        if inputs != "table":
            if cohort.bags is None:
                raise CohortError("This network looks at slides, and these patients have none.")
            counts = np.array([len(own) for own in cohort.bags.slides], dtype=np.int64)
            bags = [slide for own in cohort.bags.slides for slide in own]
            slides = slide_tensors(bags, device)
        none = np.zeros(cohort.patients)
        nowhere = TimeAtRisk(none.astype(np.int64), none.astype(np.bool_), none)
        patient = np.repeat(np.arange(cohort.patients), counts)
        weight = 1.0 / counts[patient] if slide_weight == "patient" else np.ones(patient.size)
        return cls(
            table,
            slides,
            np.concatenate([[0], np.cumsum(counts)]),
            PlacedSamples.of(placed or nowhere, patient, weight, device),
            torch.tensor(cohort.time[patient], device=device),
            torch.tensor(cohort.event[patient], device=device),
        )

    @property
    def patients(self) -> int:
        return int(self.first.size) - 1

    @property
    def rows(self) -> Tensor:
        """The table of a network that looks at one."""
        if self.table is None:
            raise CohortError("This network looks at a table, and these patients have none.")
        return self.table

    @property
    def bags(self) -> AbstractSlides:
        """The slides of a network that looks at them."""
        if self.slides is None:
            raise CohortError("This network looks at slides, and these patients have none.")
        return self.slides

    @cached_property
    def patient(self) -> IntArray:
        """(samples,) whose each sample is."""
        return np.repeat(np.arange(self.patients), np.diff(self.first))

    def batch(self, rows: IntArray | None = None) -> SampleBatch:
        """The samples of the patients in `rows`, in that order; of all without it."""
        if rows is None:
            return SampleBatch(np.arange(self.patient.size), self.patient, self.patients)
        if self.patient.size == self.patients:  # one sample each, as mostly
            return SampleBatch(rows, np.arange(rows.size), int(rows.size))
        counts = np.diff(self.first)[rows]
        place = np.repeat(np.arange(rows.size), counts)
        within = np.arange(place.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return SampleBatch(self.first[rows][place] + within, place, int(rows.size))

    def distinct(self, rows: IntArray | None) -> tuple[SampleBatch, FloatArray]:
        """The distinct samples of these patients, and how often each is there."""
        if rows is None:
            batch = self.batch()
            return batch, np.ones(batch.samples.size)
        chosen, times = np.unique(rows, return_counts=True)
        batch = self.batch(chosen)
        return batch, times[batch.patient].astype(np.float64)

    def weighed(self, rows: IntArray | None) -> tuple[SampleBatch, PlacedSamples]:
        """The distinct samples of these patients, weighing as often as they are there."""
        if rows is None:
            return self.batch(), self.placed
        batch, times = self.distinct(rows)
        placed = self.placed_at(batch.samples)
        return batch, placed.weighing(torch.tensor(times, device=placed.weight.device))

    def check_features(self, samples: IntArray) -> None:
        """Refuse slides among these samples whose features are not all finite."""
        if self.slides is None:
            return
        bags = map(self.slides.bag, samples.tolist())
        faulty = sum(not bool(torch.isfinite(bag).all()) for bag in bags)
        if faulty:
            raise CohortError(
                f"{faulty} slide(s) have features that are missing or not finite.",
                ["Compute their features anew, or leave these slides out."],
            )

    def check_scores(self, samples: IntArray, scores: FloatArray) -> None:
        """Refuse scores of these samples that are no numbers, and say why."""
        faulty = int(np.count_nonzero(~np.isfinite(scores)))
        if not faulty:
            return
        self.check_features(samples)
        raise WeightsError(
            f"The network gives {faulty} slide(s) or patient(s) a score that is not finite.",
            ["Its weights are out of bounds, or the features are far too large."],
        )

    def placed_at(self, samples: IntArray) -> PlacedSamples:
        """Where these samples stand in time."""
        return self.placed.take(torch.from_numpy(samples).to(self.placed.weight.device))


def _table(
    cohort: Cohort, scaled: FloatArray | None, device: str, dtype: torch.dtype
) -> Tensor:
    values = cohort.covariates if scaled is None else scaled
    missing = int((~np.isfinite(values)).any(axis=1).sum())
    if missing:
        raise CohortError(
            f"{missing} patient(s) have a covariate that is missing or not finite.",
            ["Fill missing values in, or leave these patients out."],
        )
    return torch.tensor(values, dtype=dtype, device=device)


def _check_device(device: str) -> None:
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        kind = ""
    if kind not in ("cpu", "cuda"):
        raise InputError(f"There is no device {device!r}.", ["Say cpu, cuda, or cuda:0."])
    if kind == "cuda" and not torch.cuda.is_available():
        raise InputError(
            "There is no GPU that torch can use here.", ["Say device cpu, or install CUDA."]
        )


def check_fit(
    architecture: AbstractArchitecture, cohort: Cohort, scaled: FloatArray | None
) -> None:
    """Refuse patients with other features or columns than the architecture looks at."""
    faults = []
    features, columns = (getattr(architecture, of, None) for of in ("features", "columns"))
    if cohort.bags is not None and features not in (None, cohort.bags.features):
        faults.append(
            f"Slides have {cohort.bags.features} features per tile; the network looks at "
            f"{features}. Reduce them, or change the network."
        )
    found = cohort.columns if scaled is None else scaled.shape[1]
    if columns not in (None, found):
        faults.append(f"The table has {found} columns; the network looks at {columns}.")
    if faults:
        raise CohortError("These patients do not fit the network.", faults)
