"""The plan of a study: one TOML file, the same for every hospital, checked as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, PrivateAttr, ValidationError

from fedcox.data.schema import CohortSchema
from fedcox.errors import StudyError
from fedcox.files.reading import parse_toml, read_toml
from fedcox.study.study_faults import sentences
from fedcox.study.study_rules import broken_rules, masked_faults, missing_for_noise
from fedcox.study.study_tables import (
    About,
    Attendance,
    Covariates,
    Grid,
    Model,
    NewtonSolver,
    Outcome,
    Privacy,
    Solver,
    Table,
)
from fedcox.study.study_toml import toml_text


class Study(Table):
    """One study, frozen: `Study.read("study.toml")`, or the same tables as keywords.

        λ(t | x) = λ_k · exp(β·x)        for t in piece k of time

    covariates  columns of numbers, in the order of β, or a table that gives each its `type`:
                "number" (`min`, `max`), or "category" (`levels`, `reference`)
    outcome     the columns `time` and `event`, the `unit` of time, how the event is coded
    study       its `name`, and `patient_id`, a column to be checked and left behind
    grid        where time is cut and ends (`horizon`); without it at the events
    model       `link`: "log" (above), or "cloglog" and "logit" (`fedcox.DiscreteTimeCox`);
                `ridge`, `missing`
    solver      `method`: "newton", "lbfgs", "adam" or "fedavg", with its settings
    privacy     `secure_sums`, so that only sums over centers are seen; `noise`
    attendance  how many centers must answer, and within how many seconds

    Every fault is named at once, in a `fedcox.FedcoxError`.

    >>> import fedcox
    >>> study = fedcox.Study(
    ...     outcome={"time": "days", "event": "died", "unit": "days"},
    ...     covariates={
    ...         "age": {"type": "number", "min": 18, "max": 120},
    ...         "sex": {"type": "category", "levels": ["f", "m"], "reference": "f"},
    ...     },
    ... )
    >>> study.schema.encoded_names, study.model.link
    (('age', 'sex_m'), 'log')

    Next: `fedcox.InProcess.from_frame(study, …)` and `fedcox.fit`; `study.to_toml()` is the
    file that hospitals get. docs/reference/study-file.md has every key.
    """

    study: About = About()
    outcome: Outcome = Field(description="the table that names the outcome's columns")
    covariates: Covariates = Field(
        description="the table of covariates, or a list of columns that hold numbers"
    )
    grid: Grid = Grid()
    model: Model = Model()
    solver: Solver = NewtonSolver()
    privacy: Privacy = Privacy()
    attendance: Attendance = Attendance()

    _source: str = PrivateAttr(default="")

    def __init__(self, **tables: Any) -> None:
        """Check every table; all faults are raised at once as a `StudyError`."""
        try:
            super().__init__(**tables)
            faults: list[str] = []
        except ValidationError as error:
            faults = sentences(error, tables)
        faults += broken_rules({name: _plain(table) for name, table in tables.items()})
        if faults:
            raise StudyError("This study cannot be run as it is.", faults)

    @classmethod
    def read(cls, path: str | Path) -> Study:
        """Read a study file (TOML, UTF-8)."""
        text = read_toml(path, kind="study", error=StudyError)
        return cls.parse(text, source=str(Path(path)))

    @classmethod
    def parse(cls, text: str, *, source: str = "study") -> Study:
        """Read a study from TOML text; `source` names it in errors."""
        tables = parse_toml(text, source=source, error=StudyError)
        try:
            study = cls(**tables)
        except StudyError as error:
            subject = f"{source}: this study cannot be run as it is."
            raise StudyError(subject, error.faults) from None
        study._source = text
        return study

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> Study:
        """The study whose `to_dict` this is."""
        return cls(**tables)

    @property
    def name(self) -> str:
        """What the report is headed with."""
        return self.study.name

    @property
    def source(self) -> str:
        """The TOML text as it was read, or as it would be written."""
        return self._source or self.to_toml()

    @property
    def schema(self) -> CohortSchema:  # type: ignore[override]  # pydantic's own is deprecated
        """Which column of a hospital's file is what."""
        outcome = self.outcome
        censored_value = outcome.censored_value
        # Nobody said how the column is coded: then it is 0 and 1, and a column of 1 and 2 is
        # not silently read the wrong way round.
        if censored_value is None and "event_value" not in outcome.model_fields_set:
            censored_value = 0
        return CohortSchema(
            time=outcome.time,
            event=outcome.event,
            covariates=tuple(covariate.column for covariate in self.covariates),
            event_value=outcome.event_value,
            censored_value=censored_value,
            unit=outcome.unit,
            shortest=outcome.min,
            longest=outcome.max,
            patient_id=self.study.patient_id,
            missing=self.model.missing,
            zero_times=outcome.zero_times,
        )

    def between_hospitals(self, centers: int) -> Study:
        """The study as so many hospitals are asked for it: no word on protection is left out.

        Sums are secure unless the study says otherwise, with the noise that it names. A study
        without a word on noise is refused, since noise needs public numbers.
        """
        privacy = self.privacy
        masked = privacy.secure_sums is not False
        faults = masked_faults(centers) if masked else []
        tables = self.to_dict()
        if privacy.noise is None:
            faults += missing_for_noise(tables)
        if faults:
            raise StudyError("This study cannot be run between these hospitals.", faults)
        if privacy.secure_sums is not None:
            return self
        return Study.from_dict(
            {**tables, "privacy": {**tables.get("privacy", {}), "secure_sums": masked}}
        )

    def to_dict(self) -> dict[str, Any]:
        """The tables of the study file, defaults filled in, ready for JSON."""
        tables = self.model_dump(mode="json", exclude_none=True)
        for name in ("grid", "privacy", "attendance"):
            if not tables[name]:
                del tables[name]
        coding = {"censored_value": self.schema.censored_value}
        tables["outcome"] = self.outcome.model_copy(update=coding).model_dump(exclude_none=True)
        tables["covariates"] = {entry.pop("name"): entry for entry in tables["covariates"]}
        return tables

    def to_toml(self) -> str:
        """The study as the text of a study file."""
        return toml_text(self.to_dict())

    def __eq__(self, other: object) -> bool:
        """Equal plans are equal, however they were written."""
        return isinstance(other, Study) and self.to_toml() == other.to_toml()

    def __hash__(self) -> int:
        return hash(self.to_toml())


#: As `help` shows it: the tables by name, an empty one for its defaults.
Study.__signature__ = Signature(
    [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if table.is_required() else {},
        )
        for name, table in Study.model_fields.items()
    ]
)


def _plain(table: Any) -> Any:
    """A table given as an object, as the plain table it stands for."""
    if isinstance(table, list | tuple) and all(isinstance(entry, Table) for entry in table):
        entries = [entry.model_dump(exclude_none=True) for entry in table]
        return {entry.pop("name"): entry for entry in entries}
    return table.model_dump(exclude_none=True) if isinstance(table, BaseModel) else table
