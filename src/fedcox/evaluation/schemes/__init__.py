"""The learning schemes by name: one file each."""

from __future__ import annotations

from fedcox.evaluation.scheme import AbstractScheme
from fedcox.evaluation.schemes.boosting import Boosting
from fedcox.evaluation.schemes.discrete_time import DiscreteTime
from fedcox.evaluation.schemes.discrete_time_newton import DiscreteTimeNewton
from fedcox.evaluation.schemes.ensemble import Ensemble
from fedcox.evaluation.schemes.federated_averaging import FedAvg
from fedcox.evaluation.schemes.local import Local
from fedcox.evaluation.schemes.minibatch import Minibatch
from fedcox.evaluation.schemes.naive import Naive
from fedcox.evaluation.schemes.pooled import Pooled
from fedcox.evaluation.schemes.stratified import Stratified
from fedcox.evaluation.schemes.webdisco import WebDisco, WebDiscoGradient

#: In the order of tables and figures.
_ALL: tuple[AbstractScheme, ...] = (
    Pooled(),
    Local(),
    Ensemble(),
    Boosting(),
    Minibatch(),
    Naive(),
    Stratified(),
    DiscreteTime(),
    DiscreteTimeNewton(),
    FedAvg(),
    WebDisco(),
    WebDiscoGradient(),
)

SCHEMES: dict[str, AbstractScheme] = {scheme.name: scheme for scheme in _ALL}
