"""Survival analysis on patients who never leave their hospitals.

    log hazard of patient x in piece k of time  =  α_k + φ(x),    φ(x) = β·x, or a network

What a fit needs of the patients are sums over them, and the sums of the hospitals add up: a fit
over hospitals is the fit of all their patients in one table.

>>> import numpy as np
>>> import fedcox
>>> from fedcox.data.synthetic import simulate_hospitals
>>> patients = simulate_hospitals(600, 3, rng=np.random.default_rng(1)).frame
>>> study = fedcox.Study(
...     outcome={"time": "time", "event": "status"}, covariates=["age", "marker"]
... )
>>> hospitals = fedcox.InProcess.from_frame(study, patients, center="hospital")
>>> fitted = fedcox.fit(study, hospitals)
>>> fitted.summary["exp(coef)"].round(2).to_dict()
{'age': 1.03, 'marker': 1.18}

`help(fedcox.fit)`, and so on for every name here:

a study         Study, InProcess, fit, FittedStudy; before it: plan, StudyPlan
one table       ProportionalHazards, DiscreteTimeCox: estimators as scikit-learn's
a network as φ  NetworkPlan, train_network, TrainedNetwork
  which one     Perceptron, TileScorer, TileScorerWithTable, OwnModule
  its training  NetworkAdam, NetworkAveraging, PrivateNetwork
patients        Cohort, Bags; TimeGrid, concordance_index
what went wrong FedcoxError, FedcoxWarning

Next: docs/tutorial-python.md; `fedcox --help` for the same from a terminal.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcox.engines.in_process import InProcess
    from fedcox.errors import FedcoxError, FedcoxWarning
    from fedcox.models.architecture import (
        OwnModule,
        Perceptron,
        TileScorer,
        TileScorerWithTable,
    )
    from fedcox.solvers.adam import NetworkAdam
    from fedcox.solvers.federated_averaging import NetworkAveraging
    from fedcox.solvers.private_network import PrivateNetwork
    from fedcox.study.estimator import DiscreteTimeCox, ProportionalHazards
    from fedcox.study.fit import fit
    from fedcox.study.fitted import FittedStudy
    from fedcox.study.plan import NetworkPlan
    from fedcox.study.study import Study
    from fedcox.study.study_plan import StudyPlan, plan
    from fedcox.study.trained_network import TrainedNetwork
    from fedcox.study.training import train_network
    from fedcox.survival.bags import Bags
    from fedcox.survival.cohort import Cohort
    from fedcox.survival.concordance import concordance_index
    from fedcox.survival.time_grid import TimeGrid

#: Public name → module. Modules load when a name is first used, so `import fedcox` is quick.
_HOME = {
    "Bags": "fedcox.survival.bags",
    "Cohort": "fedcox.survival.cohort",
    "DiscreteTimeCox": "fedcox.study.estimator",
    "FedcoxError": "fedcox.errors",
    "FedcoxWarning": "fedcox.errors",
    "FittedStudy": "fedcox.study.fitted",
    "InProcess": "fedcox.engines.in_process",
    "NetworkAdam": "fedcox.solvers.adam",
    "NetworkAveraging": "fedcox.solvers.federated_averaging",
    "NetworkPlan": "fedcox.study.plan",
    "OwnModule": "fedcox.models.architecture",
    "Perceptron": "fedcox.models.architecture",
    "PrivateNetwork": "fedcox.solvers.private_network",
    "ProportionalHazards": "fedcox.study.estimator",
    "Study": "fedcox.study.study",
    "StudyPlan": "fedcox.study.study_plan",
    "TileScorer": "fedcox.models.architecture",
    "TileScorerWithTable": "fedcox.models.architecture",
    "TimeGrid": "fedcox.survival.time_grid",
    "TrainedNetwork": "fedcox.study.trained_network",
    "concordance_index": "fedcox.survival.concordance",
    "fit": "fedcox.study.fit",
    "plan": "fedcox.study.study_plan",
    "train_network": "fedcox.study.training",
}

__all__ = [
    "Bags",
    "Cohort",
    "DiscreteTimeCox",
    "FedcoxError",
    "FedcoxWarning",
    "FittedStudy",
    "InProcess",
    "NetworkAdam",
    "NetworkAveraging",
    "NetworkPlan",
    "OwnModule",
    "Perceptron",
    "PrivateNetwork",
    "ProportionalHazards",
    "Study",
    "StudyPlan",
    "TileScorer",
    "TileScorerWithTable",
    "TimeGrid",
    "TrainedNetwork",
    "concordance_index",
    "fit",
    "plan",
    "train_network",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'fedcox' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
