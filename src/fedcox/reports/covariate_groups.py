"""Which columns of the design matrix belong to which covariate of the study."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedcox.reports.number_text import percent_text, short_text
from fedcox.study.fit_rows import Coefficient
from fedcox.study.fitted import FittedStudy

if TYPE_CHECKING:
    from fedcox.data.schema import NumberColumn


@dataclass(frozen=True)
class Member:
    """One column: where it stands, what it is called, and what its ratio compares."""

    index: int
    label: str
    compares: str
    level: str | None
    coefficient: Coefficient

    @property
    def estimated(self) -> bool:
        return self.coefficient.coef is not None and not self.coefficient.note


@dataclass(frozen=True)
class CovariateGroup:
    """One covariate of the study with its columns; `reference` is None for a number."""

    name: str
    members: tuple[Member, ...]
    reference: str | None = None
    minimum: float | None = None
    maximum: float | None = None

    def within(self, value: float) -> float:
        """The nearest value that the study allows."""
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        return min(high, max(low, value))


def covariate_groups(fitted: FittedStudy) -> tuple[CovariateGroup, ...]:
    """The study's covariates in its order, each with the columns it was encoded into."""
    from fedcox.data.schema import CategoryColumn

    groups = []
    position = 0
    measured = fitted.guarantee is None  # else means and shares stand for the study's ranges
    for column in fitted.study.schema.covariates:
        width = len(column.encoded_names)
        rows = fitted.coefficients[position : position + width]
        if isinstance(column, CategoryColumn):
            levels = [level for level in column.levels if level != column.reference]
            members = tuple(
                Member(
                    position + i,
                    f"{column.name}: {level}",
                    _against(column.reference, row if measured else None),
                    level,
                    row,
                )
                for i, (level, row) in enumerate(zip(levels, rows, strict=True))
            )
            groups.append(CovariateGroup(column.name, members, reference=column.reference))
        else:
            range_text = _mean_and_sd(rows[0]) if measured else _allowed(column)
            member = Member(position, column.name, f"per unit{range_text}", None, rows[0])
            groups.append(
                CovariateGroup(
                    column.name, (member,), minimum=column.minimum, maximum=column.maximum
                )
            )
        position += width
    return tuple(groups)


def _against(reference: str, row: Coefficient | None) -> str:
    share = "" if row is None else f" · {percent_text(row.mean)} of patients"
    return f"against {reference}{share}"


def _mean_and_sd(row: Coefficient) -> str:
    return f" · mean {short_text(row.mean, 3)}, sd {short_text(row.sd, 3)}"


def _allowed(column: NumberColumn) -> str:
    if column.minimum is None or column.maximum is None:
        return ""
    return f" · {short_text(column.minimum)} to {short_text(column.maximum)} in the study"
