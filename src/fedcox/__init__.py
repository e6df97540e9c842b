"""fedcox: survival analysis on patients who never leave their hospitals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcox.analysis.estimator import DiscreteTimeCox
    from fedcox.analysis.fit import fit
    from fedcox.analysis.fitted import FittedStudy
    from fedcox.analysis.study import Study
    from fedcox.engines.in_process import InProcess
    from fedcox.errors import FedcoxError, FedcoxWarning
    from fedcox.survival.cohort import Cohort
    from fedcox.survival.concordance import concordance_index
    from fedcox.survival.time_grid import TimeGrid

#: Public name → module. Modules load when a name is first used, so `import fedcox` is quick.
_HOME = {
    "Cohort": "fedcox.survival.cohort",
    "DiscreteTimeCox": "fedcox.analysis.estimator",
    "FedcoxError": "fedcox.errors",
    "FedcoxWarning": "fedcox.errors",
    "FittedStudy": "fedcox.analysis.fitted",
    "InProcess": "fedcox.engines.in_process",
    "Study": "fedcox.analysis.study",
    "TimeGrid": "fedcox.survival.time_grid",
    "concordance_index": "fedcox.survival.concordance",
    "fit": "fedcox.analysis.fit",
}

__all__ = [
    "Cohort",
    "DiscreteTimeCox",
    "FedcoxError",
    "FedcoxWarning",
    "FittedStudy",
    "InProcess",
    "Study",
    "TimeGrid",
    "concordance_index",
    "fit",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'fedcox' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
