"""Each center's cohort of patients with slides, and who is left out for which reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from fedcox.errors import CohortError, SlideError
from fedcox.slides.bag_reader import Own, feature_path, open_bag
from fedcox.slides.feature_files import OpenedBag
from fedcox.slides.manifest import ManifestRow, PatientTable, SlideManifest
from fedcox.slides.step import reason_of
from fedcox.survival.bags import Bags
from fedcox.survival.cohort import Cohort


@dataclass(frozen=True, eq=False)
class OpenedBags:
    """Bags that go together, by slide, and the others with the reason.

    All have `features` numbers per tile, by one encoder and one reducer as far as files tell.
    """

    bags: Mapping[str, OpenedBag]
    faults: Mapping[str, str]
    features: int
    encoder: str | None
    encoder_sha256: str | None
    reducer_sha256: str

    @property
    def digest(self) -> str:
        """Changes with the features of any slide, and with which slides there are."""
        lines = [f"{slide_id} {bag.digest}" for slide_id, bag in self.bags.items()]
        return sha256("\n".join(lines).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class SlideCohorts:
    """Cohorts by center, without covariates; patients and slides in the order of the cohort.

    `left_out` names slides that cannot be used, with the reason. `patients_without_slide` have
    an outcome and no slide that can be used; `slides_without_patient` are of patients without
    an outcome.
    """

    cohorts: Mapping[str, Cohort]
    patient_ids: Mapping[str, tuple[str, ...]]
    slide_ids: Mapping[str, tuple[tuple[str, ...], ...]]
    left_out: Mapping[str, str]
    patients_without_slide: tuple[str, ...]
    slides_without_patient: tuple[str, ...]
    opened: OpenedBags

    @property
    def failures(self) -> Mapping[str, str]:
        """Slides that are not used, each with the reason: rows of failures.csv."""
        alone = dict.fromkeys(
            self.slides_without_patient, "Its patient is not in the table of outcomes."
        )
        return {**alone, **self.left_out}

    @property
    def patients_left_out(self) -> Mapping[str, str]:
        """Patients who do not take part, each with the reason."""
        return dict.fromkeys(self.patients_without_slide, "No slide that can be used.")


def slide_cohorts(
    manifest: SlideManifest, patients: PatientTable, folder: str | Path
) -> SlideCohorts:
    """Every patient with an outcome and a slide, the patients of a center together.

    `folder` holds the features, in any layout that is read. A patient whose slides fail in
    part takes part with the others.
    """
    rows = {name: row for row, name in enumerate(patients.patients)}
    known = [slide for slide in manifest.slides if slide.patient_id in rows]
    alone = [slide.slide_id for slide in manifest.slides if slide.patient_id not in rows]
    if not known:
        raise CohortError(
            "No slide is of a patient with an outcome.",
            [
                f"There are {len(manifest.slides)} slides and {len(rows)} patients, and they "
                "share no patient_id. Write both in the same way."
            ],
        )
    opened = opened_bags(known, folder)
    used: dict[str, dict[str, list[ManifestRow]]] = {name: {} for name in manifest.centers}
    for slide in known:
        if slide.slide_id in opened.bags:
            used[slide.center].setdefault(slide.patient_id, []).append(slide)
    present = {patient for by_patient in used.values() for patient in by_patient}
    taking_part = [name for name in patients.patients if name in present]
    numbers = {name: number for number, name in enumerate(taking_part)}
    return SlideCohorts(
        {
            name: _cohort(by_patient, patients, rows, numbers, opened)
            for name, by_patient in used.items()
        },
        {name: tuple(by_patient) for name, by_patient in used.items()},
        {
            name: tuple(
                tuple(slide.slide_id for slide in slides) for slides in by_patient.values()
            )
            for name, by_patient in used.items()
        },
        opened.faults,
        tuple(name for name in patients.patients if name not in present),
        tuple(alone),
        opened,
    )


def opened_bags(slides: Sequence[ManifestRow], folder: str | Path) -> OpenedBags:
    """The bags of these slides, as far as they can be used together.

    Others' files are read once to see that every number is finite; ours were looked at when
    they were written. Of several encoders that of most slides counts.
    """
    bags: dict[str, OpenedBag] = {}
    faults: dict[str, str] = {}
    for slide in slides:
        try:
            bag = open_bag(feature_path(folder, slide.slide_id))
            if bag.layout != Own.name or not bag.features.shape[1]:
                bag.features.read()
            bags[slide.slide_id] = bag
        except SlideError as error:
            faults[slide.slide_id] = reason_of(error)
    if not bags:
        raise CohortError(
            f"No slide has features in {folder} that can be used.",
            [f"Slide '{slide}': {reason}" for slide, reason in list(faults.items())[:8]],
        )
    common = _common(list(bags.values()))
    for slide_id, bag in list(bags.items()):
        reason = _odd(bag, common)
        if reason:
            del bags[slide_id]
            faults[slide_id] = reason
    order = [slide.slide_id for slide in slides]
    return replace(
        common,
        bags={slide_id: bags[slide_id] for slide_id in order if slide_id in bags},
        faults={slide_id: faults[slide_id] for slide_id in order if slide_id in faults},
    )


def _common(bags: Sequence[OpenedBag]) -> OpenedBags:
    """What most bags have, of those that tell; without the bags themselves."""
    features = _most(bags, lambda bag: bag.features.shape[1], "features per tile")
    same = [bag for bag in bags if bag.features.shape[1] == features]
    return OpenedBags(
        {},
        {},
        int(features or 0),
        _text(_most(same, lambda bag: bag.encoder, "encoders")),
        _text(_most(same, lambda bag: bag.encoder_sha256, "encoders' weights")),
        str(_most(same, lambda bag: bag.reducer_sha256, "reducers") or ""),
    )


def _most(
    bags: Sequence[OpenedBag], of: Callable[[OpenedBag], str | int | None], what: str
) -> str | int | None:
    counts = Counter(value for value in map(of, bags) if value is not None)
    ranked = counts.most_common(2)
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        raise CohortError(
            f"The slides' features do not go together: two kinds of {what}.",
            [
                f"As many slides have {ranked[0][0]!r} as have {ranked[1][0]!r}. Give the "
                "features of one encoder, and of one reducer, alone."
            ],
        )
    return ranked[0][0] if ranked else None


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)


def _odd(bag: OpenedBag, common: OpenedBags) -> str:
    """Why a bag does not go with the others; nothing where it does."""
    width = bag.features.shape[1]
    if width != common.features:
        return (
            f"It has {width} features per tile, where most slides have {common.features}: they "
            "are of another encoder, or another reducer."
        )
    if bag.encoder not in (None, common.encoder):
        return f"Its encoder is '{bag.encoder}', where most slides have '{common.encoder}'."
    if bag.encoder_sha256 not in (None, common.encoder_sha256):
        return "Its encoder has other weights than that of most slides."
    if bag.reducer_sha256 != common.reducer_sha256:
        return "It was reduced by another reducer than most slides. Reduce it anew."
    return ""


def _cohort(
    by_patient: Mapping[str, Sequence[ManifestRow]],
    patients: PatientTable,
    rows: Mapping[str, int],
    numbers: Mapping[str, int],
    opened: OpenedBags,
) -> Cohort:
    order = np.array([rows[patient] for patient in by_patient], dtype=np.int64)
    slides = ([opened.bags[row.slide_id] for row in own] for own in by_patient.values())
    return Cohort(
        np.empty((order.size, 0)),
        patients.time[order],
        patients.event[order],
        np.array([numbers[patient] for patient in by_patient], dtype=np.int64),
        bags_of(slides, opened.features),
    )


def bags_of(patients: Iterable[Iterable[OpenedBag]], features: int) -> Bags:
    """The slides of patients, as a cohort has them."""
    return Bags(tuple(tuple(bag.features for bag in own) for own in patients), features)
