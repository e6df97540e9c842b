"""Which slides are there, whose are they, and where do they lie? The file slides.csv."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fedcox.errors import CohortError
from fedcox.slides.csv_rows import read_rows, some

COLUMNS = ("slide_id", "patient_id", "center", "path")
_NOT_IN_NAMES = frozenset('/\\:*?"<>|')


@dataclass(frozen=True)
class ManifestRow:
    """One slide: its file is needed until its features exist, and may be left out after."""

    slide_id: str
    patient_id: str
    center: str
    path: Path | None = None


@dataclass(frozen=True)
class SlideManifest:
    """Slides in the file's order. All slides of a patient are of one center."""

    slides: tuple[ManifestRow, ...]

    @classmethod
    def read(cls, path: str | Path) -> SlideManifest:
        """From a CSV file with the columns slide_id, patient_id, center and path.

        Paths are relative to the file's folder. A slide whose file is missing is told by the
        step that needs it, so that the others go on.
        """
        folder = Path(path).parent
        rows = [
            ManifestRow(
                row["slide_id"],
                row["patient_id"],
                row["center"],
                folder / row["path"] if row["path"] else None,
            )
            for row in read_rows(path, COLUMNS)
        ]
        faults = _faults(rows)
        if faults:
            raise CohortError(f"Cannot use the slides named in {path}.", faults)
        return cls(tuple(rows))

    @property
    def centers(self) -> tuple[str, ...]:
        """Names of the centers, sorted."""
        return tuple(sorted({row.center for row in self.slides}))

    @cached_property
    def patients(self) -> Mapping[str, tuple[ManifestRow, ...]]:
        """The slides of every patient, patients in the order of their first slide."""
        own: dict[str, list[ManifestRow]] = {}
        for row in self.slides:
            own.setdefault(row.patient_id, []).append(row)
        return {patient: tuple(rows) for patient, rows in own.items()}

    def of_patients(self, chosen: frozenset[str]) -> SlideManifest:
        """The slides of some patients."""
        return SlideManifest(tuple(row for row in self.slides if row.patient_id in chosen))


def _faults(rows: Sequence[ManifestRow]) -> list[str]:
    faults = []
    for name in ("slide_id", "patient_id", "center"):
        empty = sum(not getattr(row, name) for row in rows)
        if empty:
            faults.append(f"{empty} row(s) have no {name}.")
    counts = Counter(row.slide_id for row in rows if row.slide_id)
    twice = [slide for slide, times in counts.items() if times > 1]
    if twice:
        faults.append(
            f"{len(twice)} slide_id(s) are there more than once: {some(twice)}. Each names one "
            "slide."
        )
    faults += _name_faults(list(counts))
    centers: dict[str, set[str]] = {}
    for row in rows:
        centers.setdefault(row.patient_id, set()).add(row.center)
    split = sum(len(own) > 1 for patient, own in centers.items() if patient)
    if split:
        faults.append(f"{split} patient(s) have slides in more than one center.")
    return faults


def _name_faults(slides: Sequence[str]) -> list[str]:
    """Files of results are called by the slide; they must stay in their folder, and apart."""
    faults = []
    unfit = [slide for slide in slides if not _names_a_file(slide)]
    if unfit:
        shown = [
            "".join(sign if sign.isprintable() else "?" for sign in name) for name in unfit
        ]
        faults.append(
            f"{len(unfit)} slide_id(s) cannot be names of files: {some(shown)}. They must not "
            "begin or end with a dot nor hold slashes or other signs that file systems keep."
        )
    folded = Counter(slide.casefold() for slide in slides)
    alike = [slide for slide in slides if folded[slide.casefold()] > 1]
    if alike:
        faults.append(
            f"{len(alike)} slide_id(s) differ in small and capital letters only: "
            f"{some(alike)}. On some disks their files would be the same."
        )
    return faults


def _names_a_file(name: str) -> bool:
    return (
        not name.startswith(".")
        and not name.endswith(".")
        and len(name.encode()) <= 200
        and name.isprintable()
        and not _NOT_IN_NAMES & set(name)
    )
