"""Which reducer is used? One that is given, or one fitted on these patients' slides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedcox.errors import CohortError, InputError
from fedcox.slides.cohorts import OpenedBags
from fedcox.slides.manifest import ManifestRow, SlideManifest
from fedcox.slides.patient_table import read_patient_names
from fedcox.slides.reducer_fit import ReducerFit, Watch, given_reducer, reducer_for
from fedcox.slides.reduction import Reducer


@dataclass(frozen=True, eq=False)
class ChosenReducer:
    """A reducer, where it lies, and whether it was there before."""

    reducer: Reducer
    path: Path
    kept: bool


@dataclass(frozen=True)
class ReducerChoice:
    """The options of `fedcox slides reduce` that say which reducer.

    `patients` names those to fit on, all without it; with `given` nothing is fitted.
    """

    fit: ReducerFit
    patients: Path | None = None
    given: Path | None = None

    def __post_init__(self) -> None:
        if self.given is not None and (self.patients is not None or self.fit.whitened):
            raise InputError("--reducer is fitted already; leave out --patients and --whiten.")

    def training(self, listed: SlideManifest) -> Sequence[ManifestRow]:
        """The slides to fit on."""
        if self.patients is None:
            return listed.slides
        return _of_patients(listed, self.patients).slides

    def reducer(
        self, target: Path, training: Sequence[ManifestRow], opened: OpenedBags, watch: Watch
    ) -> ChosenReducer:
        """The one that is given, or the one at `target`, fitted anew where it is of others."""
        if self.given is not None:
            return ChosenReducer(given_reducer(self.given, opened), self.given, kept=True)
        reducer, kept = reducer_for(target, training, opened, self.fit, watch)
        return ChosenReducer(reducer, target, kept)


def _of_patients(listed: SlideManifest, path: Path) -> SlideManifest:
    """The slides of the patients that a file names; every one of them must have a slide."""
    names = read_patient_names(path)
    without = len(names - set(listed.patients))
    if without:
        raise CohortError(
            f"Cannot fit on the patients in {path}.",
            [
                f"{without} of {len(names)} patients have no slide in the manifest. Leave them "
                "out, or write their patient_id as the manifest does."
            ],
        )
    return listed.of_patients(names)
