"""The learning schemes by name: one file each, or each family."""

from __future__ import annotations

from fedcox.evaluation.scheme import AbstractScheme
from fedcox.evaluation.schemes.boosting import Boosting
from fedcox.evaluation.schemes.cell_batches import DiscreteTime, PiecewiseHazards
from fedcox.evaluation.schemes.ensemble import Ensemble
from fedcox.evaluation.schemes.exact_optimum import DiscreteTimeNewton, PiecewiseHazardsNewton
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
    PiecewiseHazards(),
    PiecewiseHazardsNewton(),
    FedAvg(),
    WebDisco(),
    WebDiscoGradient(),
)

SCHEMES: dict[str, AbstractScheme] = {scheme.name: scheme for scheme in _ALL}
