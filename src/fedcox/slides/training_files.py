"""Which files does a training on slides take? Slides, outcomes and features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedcox.slides.cohorts import SlideCohorts, slide_cohorts
from fedcox.slides.manifest import SlideManifest
from fedcox.slides.patient_table import OutcomeColumns, PatientTable
from fedcox.slides.simulated_slides import is_simulated


@dataclass(frozen=True)
class TrainingFiles:
    """`manifest` names the slides, `patients` has outcomes, `features` is a folder."""

    manifest: Path
    patients: Path
    features: Path
    columns: OutcomeColumns

    @property
    def simulated(self) -> bool:
        """Whether the slides are simulated."""
        return is_simulated(self.manifest)

    def cohorts(self) -> SlideCohorts:
        """The patients of every center, and who is left out."""
        listed = SlideManifest.read(self.manifest)
        patients = PatientTable.read(self.patients, self.columns)
        return slide_cohorts(listed, patients, self.features)
