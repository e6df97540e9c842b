"""Which columns of the design matrix belong to which covariate of the study."""

from __future__ import annotations

from dataclasses import dataclass

from fedcox.analysis.fitted import Coefficient, FittedStudy
from fedcox.reports.number_text import percent_text, short_text


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


def covariate_groups(fitted: FittedStudy) -> tuple[CovariateGroup, ...]:
    """The study's covariates in its order, each with the columns it was encoded into."""
    from fedcox.data.schema import CategoryColumn

    groups = []
    position = 0
    for column in fitted.study.schema.covariates:
        width = len(column.encoded_names)
        rows = fitted.coefficients[position : position + width]
        if isinstance(column, CategoryColumn):
            levels = [level for level in column.levels if level != column.reference]
            members = tuple(
                _level_member(position + i, column.name, level, column.reference, row)
                for i, (level, row) in enumerate(zip(levels, rows, strict=True))
            )
            groups.append(CovariateGroup(column.name, members, reference=column.reference))
        else:
            member = _number_member(position, column.name, rows[0])
            groups.append(
                CovariateGroup(
                    column.name, (member,), minimum=column.minimum, maximum=column.maximum
                )
            )
        position += width
    return tuple(groups)


def _level_member(
    index: int, name: str, level: str, reference: str, row: Coefficient
) -> Member:
    compares = f"against {reference} · {percent_text(row.mean)} of patients"
    return Member(index, f"{name}: {level}", compares, level, row)


def _number_member(index: int, name: str, row: Coefficient) -> Member:
    compares = f"per unit · mean {short_text(row.mean, 3)}, sd {short_text(row.sd, 3)}"
    return Member(index, name, compares, None, row)
