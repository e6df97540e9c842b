"""Which patients are simulated? As the options say, if they go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcox.errors import InputError

if TYPE_CHECKING:
    from fedcox.data.synthetic import CensoringBound, SimulatedTable, Split
    from fedcox.study.study import Study

PATIENTS = 1500
PATIENTS_PER_HOSPITAL = 20
COVARIATES = 200
SPLIT: Split = "uniform"
CONCENTRATION = 0.5
CENSORING: CensoringBound = "patient"


@dataclass(frozen=True)
class PaperChoice:
    """The options of the paper's generator; None is the default above."""

    covariates: int | None = None
    split: Split | None = None
    concentration: float | None = None
    censoring: CensoringBound | None = None

    def drawn(self, patients: int, centers: int, seed: int) -> tuple[Study, SimulatedTable]:
        """The paper's patients, laid into centers."""
        import numpy as np

        from fedcox.data.synthetic import paper_table, simulate_paper_cohort, split_cohort
        from fedcox.study.simulation import paper_study

        rng = np.random.default_rng(seed)
        columns = self.covariates or COVARIATES
        study = paper_study(columns)
        drawn = simulate_paper_cohort(
            patients, columns, rng=rng, censoring_bound=self.censoring or CENSORING
        )
        concentration = CONCENTRATION if self.concentration is None else self.concentration
        hospital = split_cohort(
            drawn.cohort, centers, self.split or SPLIT, rng=rng, concentration=concentration
        )
        return study, paper_table(drawn, hospital)


@dataclass(frozen=True)
class SimulationChoice:
    """The options of `fedcox simulate`: hospitals of our own, or with `paper` the paper's."""

    centers: int
    patients: int | None
    seed: int
    paper: bool
    of_paper: PaperChoice

    def __post_init__(self) -> None:
        """An option that would change nothing is a misunderstanding: say so, all at once."""
        from fedcox.data.wording import counted, listed

        without_paper, faults = self._without_paper(), []
        if without_paper:
            faults.append(f"{listed(without_paper)}: needed is --paper as well.")
        idle = self._idle_concentration()
        if idle:
            faults.append("--concentration: needed are --paper and --split dirichlet as well.")
        if faults:
            options = counted(len(without_paper) + idle, "option")
            raise InputError(
                f"{options} would change nothing.", [*faults, "Leave out what you do not need."]
            )

    def _without_paper(self) -> list[str]:
        given = {
            "--covariates": self.of_paper.covariates,
            "--split": self.of_paper.split,
            "--censoring": self.of_paper.censoring,
        }
        return [] if self.paper else [name for name, own in given.items() if own is not None]

    def _idle_concentration(self) -> bool:
        used = self.paper and self.of_paper.split == "dirichlet"
        return self.of_paper.concentration is not None and not used

    def drawn(self) -> tuple[Study, SimulatedTable]:
        """The plan and the patients; the same seed gives the same."""
        import numpy as np

        from fedcox.data.synthetic import simulate_hospitals
        from fedcox.study.simulation import clinical_study

        everyone = self.patients or max(PATIENTS, PATIENTS_PER_HOSPITAL * self.centers)
        if self.paper:
            return self.of_paper.drawn(everyone, self.centers, self.seed)
        rng = np.random.default_rng(self.seed)
        return clinical_study(), simulate_hospitals(everyone, self.centers, rng=rng)
