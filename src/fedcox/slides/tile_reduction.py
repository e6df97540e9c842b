"""Fit a reducer of tile features over all centers: one round of counts, one of moments.

The sum of second moments over centers is that of all tiles together, so the reducer is the
same however the patients are split. The features of tiles stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedcox.errors import RefusedError
from fedcox.federation.queries.tile_counts import TileCounts
from fedcox.federation.queries.tile_moments import TileMoments
from fedcox.federation.query import Federation
from fedcox.slides.cohorts import OpenedBags
from fedcox.slides.manifest import ManifestRow
from fedcox.slides.reduction import Reducer, ReducerFacts, check_size, reducer_from_moments
from fedcox.survival.bags import Bags
from fedcox.survival.cohort import Cohort

#: A reducer is shared, and is about the patients it was fitted on.
FEWEST_PATIENTS = 10


@dataclass(frozen=True)
class Reduction:
    """What is asked for: `size` numbers per tile of the `features` that an encoder gives.

    Below `fewest_patients` or `fewest_tiles` over all centers there is no reducer. None stands
    for as many tiles as features: of fewer, the reducer would give away which directions
    single tiles span.
    """

    features: int
    size: int = 256
    whitened: bool = False
    encoder: str = ""
    encoder_sha256: str = ""
    fewest_patients: int = FEWEST_PATIENTS
    fewest_tiles: int | None = None


def federated_reducer(plan: Reduction, federation: Federation, settings: str = "") -> Reducer:
    """The best linear reduction over the tiles of every center's patients.

    First patients and tiles are counted, and nothing else is asked where they are too few;
    then one round gives Σ x xᵀ, which adds up under secure sums too. `settings` is kept with
    the reducer.
    """
    check_size(plan.size, plan.features)
    counted = federation.ask(TileCounts())
    check_numbers(plan, counted.patients, counted.tiles)
    sums = federation.ask(TileMoments(plan.features))
    facts = ReducerFacts(
        patients=sums.patients,
        whitened=plan.whitened,
        encoder=plan.encoder,
        encoder_sha256=plan.encoder_sha256,
        settings=settings,
    )
    return reducer_from_moments(sums.second, sums.tiles, plan.size, facts)


def check_numbers(plan: Reduction, patients: int, tiles: int) -> None:
    """RefusedError where a reducer would be about too few."""
    fewest_tiles = plan.features if plan.fewest_tiles is None else plan.fewest_tiles
    faults = []
    if patients < plan.fewest_patients:
        faults.append(f"Found {patients} patients; at least {plan.fewest_patients} are needed.")
    if tiles < fewest_tiles:
        faults.append(
            f"Found {tiles} tiles of {plan.features} features each; at least "
            f"{fewest_tiles} are needed, since from fewer single tiles can be worked out. Take "
            "more slides or smaller tiles, or train on features that are not reduced."
        )
    if faults:
        raise RefusedError("There is too little for a reducer that is shared.", faults)


def cohorts_without_outcomes(
    slides: Sequence[ManifestRow], opened: OpenedBags
) -> Mapping[str, Cohort]:
    """Each center's patients for questions about their tiles alone.

    Nobody's follow-up is known here: all times are zero, without an event.
    """
    own: dict[str, dict[str, list[str]]] = {}
    for slide in slides:
        patients = own.setdefault(slide.center, {})
        if slide.slide_id in opened.bags:
            patients.setdefault(slide.patient_id, []).append(slide.slide_id)
    return {
        center: Cohort(
            np.empty((len(patients), 0)),
            np.zeros(len(patients)),
            np.zeros(len(patients), dtype=np.bool_),
            bags=Bags(
                tuple(
                    tuple(opened.bags[slide_id].features for slide_id in slide_ids)
                    for slide_ids in patients.values()
                ),
                opened.features,
            ),
        )
        for center, patients in own.items()
    }
