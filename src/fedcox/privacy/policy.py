"""What does a hospital allow to leave? Its own `policy.toml`; no coordinator loosens it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedcox.errors import PolicyError
from fedcox.privacy import foreseen
from fedcox.privacy.policy_faults import broken_rules, sentences
from fedcox.privacy.policy_tables import (
    BlockLimits,
    CohortLimits,
    GroupLimits,
    NoiseLimits,
    ParameterLimits,
    ProtectionLimits,
    QuestionLimits,
    Table,
)
from fedcox.privacy.policy_toml import policy_text
from fedcox.toml_file import parse_toml, read_toml

TABLES: dict[str, type[Table]] = {
    "cohort": CohortLimits,
    "groups": GroupLimits,
    "blocks": BlockLimits,
    "questions": QuestionLimits,
    "parameters": ParameterLimits,
    "protection": ProtectionLimits,
    "differential_privacy": NoiseLimits,
}


class Policy(Table):
    """One hospital's limits, frozen: `Policy.read("policy.toml")`, or tables as keywords.

    `Policy()` has the defaults; a table or a key that is left out keeps its default.

    >>> Policy(cohort={"patients": 50}).cohort.events
    5
    """

    cohort: CohortLimits = CohortLimits()
    groups: GroupLimits = GroupLimits()
    blocks: BlockLimits = BlockLimits()
    questions: QuestionLimits = QuestionLimits()
    parameters: ParameterLimits = ParameterLimits()
    protection: ProtectionLimits = ProtectionLimits()
    differential_privacy: NoiseLimits = NoiseLimits()

    def __init__(self, **tables: Any) -> None:
        """Check every table; all faults are raised at once as a `PolicyError`."""
        try:
            super().__init__(**tables)
            faults: list[str] = []
        except ValidationError as error:
            faults = sentences(error, TABLES)
        faults += broken_rules({name: _plain(table) for name, table in tables.items()})
        if faults:
            raise PolicyError("This policy cannot be used as it is.", faults)

    @classmethod
    def read(cls, path: str | Path) -> Policy:
        """Read a policy file (TOML, UTF-8)."""
        text = read_toml(path, kind="policy", error=PolicyError)
        return cls.parse(text, source=str(Path(path)))

    @classmethod
    def parse(cls, text: str, *, source: str = "policy") -> Policy:
        """Read a policy from TOML text; `source` names it in errors."""
        tables = parse_toml(text, source=source, error=PolicyError)
        try:
            return cls(**tables)
        except PolicyError as error:
            subject = f"{source}: this policy cannot be used as it is."
            raise PolicyError(subject, error.faults) from None

    @classmethod
    def without_limits(cls) -> Policy:
        """No limit at all: for one analyst who holds every file, and for simulations."""
        return cls(
            cohort={"patients": 0, "events": 0, "parameters_per_patient": math.inf},
            groups={"interval": 0, "level": 0, "batch": 0, "one_grid": False},
            blocks={"only_masked": False, "group": 0, "times": math.inf},
            questions={"allowed": "all", "patient_level": "always", "refusals": math.inf},
            parameters=dict.fromkeys(ParameterLimits.model_fields, math.inf),
            protection={"secure_sums": "optional", "centers": 1},
        )

    def faults(
        self,
        *,
        columns: Iterable[str] = (),
        questions: Iterable[str] = (),
        patient_level: Iterable[str] = (),
        patients: int | None = None,
        events: int | None = None,
        design: int = 0,
        parameters: int = 0,
        rounds: int = 0,
        centers: int | None = None,
        secure_sums: bool | None = None,
        smallest_group: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> list[str]:
        """What of a study can be told to be refused before it starts, a sentence each.

        `columns` are those of the hospital's file that the study uses, `questions` those it
        will ask, `patient_level` those of them for single patients' values; `patients` and
        `events` are the hospital's own; `design` counts the columns of the design matrix, whose
        products are asked of every hospital, and `parameters` those of the model, as far as
        they are known. `rounds` is how often its solver asks for sure, `smallest_group` what
        intervals are merged to. A study without noise has an infinite `epsilon`. What is None
        is not known yet and not looked at.
        """
        # Under noise a refusal of too few patients would tell that there are too few.
        noise = self.differential_privacy.epsilon is not None
        covered = noise and epsilon not in (None, math.inf)
        found = [
            *foreseen.refused_columns(self, columns),
            *foreseen.refused_questions(self, questions),
            *([] if covered else foreseen.too_few(self, patients, events)),
            *foreseen.too_little_noise(self, epsilon, delta),
            *foreseen.too_many_rounds(self, rounds),
        ]
        if secure_sums is None:
            return found
        for question in patient_level:
            found += foreseen.single_patients(self, question, masked=secure_sums)
        if not secure_sums:
            found += foreseen.seen_alone(self)
            design = max(design, parameters)  # of a sum over centers, for all their patients
        elif centers is not None:
            found += foreseen.too_few_centers(self, centers)
        if patients:
            found += foreseen.too_many_parameters(self, design, patients)
        if epsilon in (None, math.inf):
            found += foreseen.small_parts(self, masked=secure_sums, group=smallest_group)
            found += foreseen.blocks_out_of_reach(
                self, masked=secure_sums, smallest_group=smallest_group
            )
        return found

    def to_toml(self) -> str:
        """The policy as the text of a policy file, every key with what it means."""
        return policy_text({name: getattr(self, name) for name in TABLES})


def _plain(table: Any) -> Any:
    return table.model_dump() if isinstance(table, Table) else table
