"""What one test set says about one scheme: a row, in memory and as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

#: Test folds from all centers together, or all patients of one center.
Evaluation = Literal["folds", "left out"]

#: What tells one row of an experiment from every other.
RowKey = tuple[int, str, int | str, str]


@dataclass(frozen=True)
class Row:
    """One scheme, trained on the patients outside one test set and judged on those inside.

    `fold` counts from one and is None where `center` was left out; the other way round with
    folds. `c_index` is None where no two test patients could be compared or nothing could be
    trained, which `notes` then says. `trained_on` counts training patients, `patients` and
    `events` those of the test set. `rounds` and bytes are those of the training's messages.
    """

    experiment: str
    seed: int
    evaluation: Evaluation
    fold: int | None
    center: str | None
    scheme: str
    c_index: float | None
    patients: int
    events: int
    trained_on: int
    seconds: float
    rounds: int
    bytes_up: int
    bytes_down: int
    notes: tuple[str, ...] = ()

    @property
    def test_set(self) -> int | str:
        """The fold's number, or the name of the center that was left out."""
        return self.fold if self.fold is not None else str(self.center)

    @property
    def key(self) -> RowKey:
        return self.seed, self.evaluation, self.test_set, self.scheme

    def to_line(self) -> str:
        """One line of JSON, with its end."""
        return json.dumps(asdict(self), allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Row:
        """The row whose JSON this is; ValueError where it is another thing."""
        names = {field.name for field in fields(cls)}
        if set(record) != names:
            raise ValueError("not a row of an evaluation")
        return cls(**{**record, "notes": tuple(record["notes"])})
