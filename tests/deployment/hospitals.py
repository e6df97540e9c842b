"""Hospitals in this process: real folders, files, policies and approvals, but no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from fedcox.deployment.approval import Approvals, study_code
from fedcox.deployment.center_folder import CenterFolder, CenterSettings
from fedcox.deployment.runs import RunFolder
from fedcox.deployment.study_admission import StudyAdmission
from fedcox.engines.nvflare.center_end import CenterEnd
from fedcox.privacy.identity import Identity
from fedcox.study.study import Study
from tests.engines.nvflare.direct_transport import DirectTransport, Tamper

CENTERS = ("Aachen", "Bern", "Cork")
STUDY = """
[study]
name = "lung"

[outcome]
time = "days"
event = "died"

[covariates]
age = { type = "number", min = 0, max = 120 }
stage = { type = "category", levels = ["I", "II", "III"], reference = "I" }

[grid]
width = 60
horizon = 720
"""
#: Between hospitals a study says so where it is to be plain and exact.
PLAIN = STUDY + '\n[privacy]\nsecure_sums = false\nnoise = "none"\n'
SECURE = STUDY + '\n[privacy]\nsecure_sums = true\nnoise = "none"\n'


def patients(number: int, seed: int) -> pd.DataFrame:
    """A hospital's file, simulated."""
    rng = np.random.default_rng(seed)
    age = rng.normal(62.0, 9.0, number).round().clip(20, 95)
    stage = rng.choice(["I", "II", "III"], number, p=[0.4, 0.35, 0.25])
    risk = 0.03 * (age - 62.0) + 0.6 * (stage == "II") + 1.1 * (stage == "III")
    happens = rng.exponential(500.0 * np.exp(-risk))
    censored = rng.uniform(100.0, 900.0, number)
    return pd.DataFrame(
        {
            "days": np.ceil(np.minimum(happens, censored)),
            "died": (happens <= censored).astype(int),
            "age": age,
            "stage": stage,
        }
    )


def frames(centers: Sequence[str] = CENTERS) -> dict[str, pd.DataFrame]:
    """Hospitals of different size."""
    return {name: patients(150 + 60 * k, seed=k) for k, name in enumerate(centers)}


def write_files(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """One CSV file per hospital, as it would be given to `fedcox center start`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)


def center_folder(path: Path, name: str, data: Path, policy: str = "none") -> CenterFolder:
    """A hospital's folder without certificates, which nobody looks at here."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = CenterFolder(path, name, "lung", "localhost", 8002, date(2099, 1, 1))
    CenterSettings(str(data), policy).write(folder.settings)
    if not folder.identity.exists():
        Identity.create().save(folder.identity)
    return folder


class Hospitals:
    """Every center's folder, and new job processes for them as often as a run begins."""

    def __init__(
        self,
        path: Path,
        policy: str = "none",
        policies: Mapping[str, str] | None = None,
        centers: Sequence[str] = CENTERS,
    ) -> None:
        self.path, self.names = path, tuple(centers)
        write_files(path / "files", frames(centers))
        self.folders = {
            name: center_folder(
                path / name,
                name,
                path / "files" / f"{name}.csv",
                (policies or {}).get(name, policy),
            )
            for name in centers
        }
        self.admissions: list[StudyAdmission] = []

    def line(self, tamper: Tamper = lambda name, call, answer: answer) -> DirectTransport:
        """A new job: every center begins with what its folder holds."""
        for admission in self.admissions:
            admission.close()
        self.admissions = [StudyAdmission(folder) for folder in self.folders.values()]
        sites = {
            name: CenterEnd(name, admission)
            for name, admission in zip(self.folders, self.admissions, strict=True)
        }
        return DirectTransport(sites, tamper)

    def run(self, study: str = PLAIN, name: str = "run") -> RunFolder:
        """A folder for a run of this study."""
        run = RunFolder(self.path / name)
        run.path.mkdir(exist_ok=True)
        run.study.write_text(study, encoding="utf-8")
        return run

    def identity(self, name: str) -> str:
        return Identity.load(self.folders[name].identity).public.to_text()

    def code(self, text: str = PLAIN, away: str = "") -> str:
        """The code of a study among all of them, of which one may be away from the start."""
        identities = {name: self.identity(name) for name in self.folders if name != away}
        plan = study(text).between_hospitals(len(self.names))
        return study_code(plan, self.names, identities)

    def approve(self, text: str = PLAIN, *, away: str = "", unseen: bool = True) -> None:
        """Every data manager says yes, by default before the study comes."""
        code = self.code(text, away)
        for name in self.folders:
            self.approvals(name).decide(code, approve=True, unseen=unseen)

    def approvals(self, name: str) -> Approvals:
        return Approvals(self.folders[name].pending, self.folders[name].approved)


def study(text: str = PLAIN) -> Study:
    return Study.parse(text)
