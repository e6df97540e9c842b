"""Which column of a hospital's file is what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedcox.data.wording import Value

MissingRule = Literal["refuse", "drop", "mean"]
ZeroTimeRule = Literal["refuse", "drop", "first_interval"]


@dataclass(frozen=True)
class NumberColumn:
    """A covariate measured in numbers; values outside `minimum` to `maximum` are faults."""

    name: str
    minimum: float | None = None
    maximum: float | None = None

    @property
    def encoded_names(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class CategoryColumn:
    """A covariate with named levels, compared with the reference level."""

    name: str
    levels: tuple[str, ...]
    reference: str

    @property
    def compared_levels(self) -> tuple[str, ...]:
        """Every level but the reference, in the study's order."""
        return tuple(level for level in self.levels if level != self.reference)

    @property
    def encoded_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}_{level}" for level in self.compared_levels)


CovariateColumn = NumberColumn | CategoryColumn


@dataclass(frozen=True)
class CohortSchema:
    """Outcome, covariates in the study's order, and the rules for what is not there.

    With `censored_value` None, one single other value beside `event_value` means "censored".
    Times outside `shortest` to `longest` are faults. `unit` is None where nobody said it.
    """

    time: str
    event: str
    covariates: tuple[CovariateColumn, ...]
    event_value: Value = 1
    censored_value: Value | None = None
    unit: str | None = None
    shortest: float | None = None
    longest: float | None = None
    patient_id: str | None = None
    missing: MissingRule = "refuse"
    zero_times: ZeroTimeRule = "refuse"

    @property
    def time_unit(self) -> str:
        """The unit of time as a page writes it."""
        return "units of time" if self.unit is None else self.unit

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """The columns of the design matrix, in order."""
        return tuple(name for column in self.covariates for name in column.encoded_names)

    @property
    def first_encoded(self) -> dict[str, int]:
        """Of every covariate, its first column of the design matrix."""
        sizes = [len(column.encoded_names) for column in self.covariates]
        return {column.name: sum(sizes[:place]) for place, column in enumerate(self.covariates)}

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns a hospital's file must have."""
        identifier = () if self.patient_id is None else (self.patient_id,)
        return (*identifier, self.time, self.event, *(c.name for c in self.covariates))
