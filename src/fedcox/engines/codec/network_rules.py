"""What must agree within a question about a network? Shapes and sizes, as in `rules`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedcox.engines.codec.rules import between, point_of, positive, shaped
from fedcox.federation.batch import EpochBatch, EpochCells, HeldOut
from fedcox.federation.queries.baseline_slopes import BaselineSlopesAt
from fedcox.federation.queries.local_steps import LocalEpochs
from fedcox.federation.queries.network_loss import HeldOutLoss, NetworkLossAt
from fedcox.models.architecture import Perceptron, TileScorer, TileScorerWithTable
from fedcox.models.network import Network

#: Units of a layer, features of a tile, columns of a table.
_MOST_UNITS = 16_384
_MOST_LAYERS = 100
#: Patients, or pairs of patient and interval, that a center puts into one order.
_MOST_ORDERED = 50_000_000
_MOST_EPOCHS = 1_000_000
_MOST_PATIENTS = 10**10


def of_tile_scorer(
    network: TileScorer | TileScorerWithTable, columns: int | None
) -> Iterator[str]:
    """A center has to hold all weights."""
    yield from between("features", network.features, 1, _MOST_UNITS)
    yield from between("hidden", network.hidden, 1, _MOST_UNITS)
    if isinstance(network, TileScorerWithTable):
        yield from _columns(network.columns, columns)


def of_perceptron(network: Perceptron, columns: int | None) -> Iterator[str]:
    """A center has to hold all weights."""
    yield from _columns(network.columns, columns)
    yield from between("hidden layers", len(network.hidden), 0, _MOST_LAYERS)
    for units in network.hidden:
        yield from between("hidden", units, 1, _MOST_UNITS)


def _columns(found: int, columns: int | None) -> Iterator[str]:
    yield from between("columns", found, 1, _MOST_UNITS)
    if columns is not None and found != columns:
        yield f"the network reads {found} columns, and patients have {columns}"


def of_network(network: Network, columns: int | None) -> Iterator[str]:
    """A weight multiplies."""
    yield from positive("event_weight", network.event_weight)


def of_held_out(held: HeldOut, columns: int | None) -> Iterator[str]:
    """Every center puts all study numbers into one order."""
    yield from _seeded(held.seed)
    yield from between("population", held.population, 2, _MOST_ORDERED)
    if not 0 < held.share < 1:
        yield "share must be between 0 and 1"


def of_epoch_batch(batch: EpochBatch, columns: int | None) -> Iterator[str]:
    """Every center puts all study numbers into one order."""
    yield from _of_epoch(batch)
    yield from between("size", batch.size, 1, _MOST_ORDERED)
    yield from between("population", batch.population, 1, _MOST_ORDERED)


def of_epoch_cells(batch: EpochCells, columns: int | None) -> Iterator[str]:
    """Every center puts all pairs of patient and interval into one order."""
    yield from _of_epoch(batch)
    yield from between("candidates", batch.candidates, 1, _MOST_ORDERED)
    yield from between("population", batch.population, 1, _MOST_ORDERED)
    yield from between("intervals", batch.intervals, 1, _MOST_ORDERED)
    pairs = batch.population * batch.intervals
    yield from between("patients times intervals", pairs, 1, _MOST_ORDERED)


def _of_epoch(batch: EpochBatch | EpochCells) -> Iterator[str]:
    yield from _seeded(batch.seed)
    yield from between("epoch", batch.epoch, 0, _MOST_EPOCHS)
    yield from between("index", batch.index, 0, _MOST_ORDERED)
    if batch.left_out is not None and batch.left_out.population != batch.population:
        yield "patients are left out of another population"


def _seeded(seed: int) -> Iterator[str]:
    if seed < 0:
        yield "seed must not be below zero"


def of_point(query: Any, columns: int | None) -> Iterator[str]:
    """A network, and one number for each of its weights and for each fitted interval."""
    if not isinstance(query.agreed.predictor, Network):
        yield "the setting's predictor must be a network"
    yield from point_of(query.agreed, query.alpha, query.beta)


def of_baseline(query: BaselineSlopesAt, columns: int | None) -> Iterator[str]:
    """The point is one of the setting's, with one factor of all risks."""
    yield from of_point(query, columns)
    yield from shaped("slope", query.slope, (1,), "one for all risks")


def of_local_epochs(plan: LocalEpochs, columns: int | None) -> Iterator[str]:
    """Epochs that end some day."""
    yield from between("epochs", plan.epochs, 1, _MOST_EPOCHS)
    yield from between("batch_size", plan.batch_size, 1, _MOST_ORDERED)


def of_counted(reply: HeldOutLoss, columns: int | None) -> Iterator[str]:
    """Sums are divided by the patients."""
    if not 0 <= reply.patients <= _MOST_PATIENTS:
        yield "patients is no count"


def held_out_fits(query: NetworkLossAt, reply: HeldOutLoss) -> Iterator[str]:
    """No center has more held-out patients than there are."""
    if reply.patients > query.held_out.size:
        yield "there are fewer held-out patients"
