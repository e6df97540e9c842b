"""A study under noise, start to end: public numbers, noised sums, and what they stand for."""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from fedcox.data.schema import CategoryColumn, NumberColumn
from fedcox.engines.in_process import InProcess
from fedcox.errors import StudyError
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.query import Federation
from fedcox.privacy.accountant import (
    epsilon_against_other_centers,
    epsilon_of,
    noise_multiplier_for,
)
from fedcox.solvers.private_ascent import PrivateSolution
from fedcox.solvers.private_newton import (
    PrivateNewton,
    PublicScale,
    fewest_of,
)
from fedcox.solvers.solver import Watcher
from fedcox.study.cells import cells_between
from fedcox.study.fit_rows import (
    BaselineInterval,
    CenterRow,
    Coefficient,
    Guarantee,
    versions,
)
from fedcox.study.fitted import FittedStudy
from fedcox.study.inference import estimated
from fedcox.study.noised_notices import noise_notices
from fedcox.study.notices import large_delta, lost_centers
from fedcox.study.study import Study
from fedcox.study.study_tables import Noise
from fedcox.survival.bounds import MOST_EPSILON
from fedcox.survival.cohort import FloatArray
from fedcox.survival.noised_table import table_cells, usual_pieces
from fedcox.survival.scaling import Scaling
from fedcox.survival.survival_curve import CurveError
from fedcox.survival.time_grid import Pieces

#: The largest logarithm of a hazard; what did not arrive may have any.
_HIGHEST = 700.0
#: Of the noise that has a price, as a logarithm.
_PRECISION = 1e-6


class PublicPieces(NamedTuple):
    """The cells of the life table, whether pieces are cut from them, and how many there are."""

    cells: Pieces
    cut: bool
    number: int


def fit_noised(
    study: Study, federation: Federation, watch: Watcher = lambda step: None
) -> FittedStudy:
    """Fit on noised sums alone; what comes back holds nothing else about the patients."""
    mark, begun = federation.ledger.mark(), federation.names
    solver, pieces = planned(study, len(federation.names)), public_pieces(study)
    solution = solver.solve(
        federation, pieces.cells, public_scale(study), cut=pieces.cut, watch=watch
    )
    guarantee = _guarantee(study, federation, solver, solution)
    ledger = federation.ledger.since(mark)
    scaling, beta = solution.setting.scaling, solution.beta
    known = not solution.faults
    return FittedStudy(
        study=study,
        centers=tuple(CenterRow(name) for name in federation.names),
        patients=None,
        events=None,
        edges=solution.setting.grid.edges,
        resolution=study.outcome.resolution,
        every_event_time=False,
        link=solution.setting.link.name,
        ratio_name=solution.setting.link.ratio_name,
        coefficients=_coefficients(study, solution),
        baseline=_baseline(solution, scaling.intercepts(solution.alpha, beta)),
        log_likelihood=math.nan,
        null_log_likelihood=math.nan,
        likelihood_ratio=None,
        converged=known,
        rounds=federation.ledger.rounds - mark[0],
        bytes_up=sum(row.bytes_up for row in ledger),
        bytes_down=sum(row.bytes_down for row in ledger),
        concordance=None,
        convergence=(),
        notices=(
            *noise_notices(study, solution, public_scale(study), pieces),
            *large_delta(noise_of(study).delta, noise_of(study).patients),
            *lost_centers(
                [name for name in begun if name not in federation.names], done_again=False
            ),
        ),
        versions=versions(),
        coefficient_covariance=scaling.covariance(solution.covariance) if known else None,
        curve_error=_curve_error(solution) if known else None,
        ledger=ledger,
        guarantee=guarantee,
    )


def noised(study: Study, federation: Federation) -> InProcess:
    """The same centers, each with a way to add noise; those that have one keep it."""
    digest = sha256(study.to_toml().encode()).hexdigest()
    delta = spending(study, len(federation.centers)).delta
    centers = [
        center
        if center.noise is not None
        else replace(center, noise=NoisedReplies(digest, delta))
        for center in federation.centers
    ]
    return InProcess(centers)


def noise_of(study: Study) -> Noise:
    """The study's table; whoever calls knows that there is one."""
    if not isinstance(study.privacy.noise, Noise):
        raise TypeError("This study has no [privacy.noise].")
    return study.privacy.noise


def planned(study: Study, centers: int) -> PrivateNewton:
    """From public numbers alone: the study's, and how many centers take part."""
    noise = noise_of(study)
    solver = PrivateNewton(
        noise.patients,
        noise.expected_events,
        len(study.schema.encoded_names),
        1.0,
        centers,
        fewest_of(centers, study.attendance.among(centers))
        if study.privacy.secure_sums
        else None,
        public_pieces(study).number,
    )
    if noise.epsilon is not None:
        return replace(solver, multiplier=noise_multiplier_for(noise.epsilon, noise.delta))
    return _of_price(solver, noise)


class Spending(NamedTuple):
    """What a study under noise takes from every hospital's budget, for how many sums.

    Under masks the noise of each is divided into so many `parts`; `against_centers` is the
    epsilon against all other hospitals together.
    """

    epsilon: float
    delta: float
    sums: int
    parts: int
    against_centers: float


def spending(study: Study, centers: int) -> Spending:
    """Of a study under noise with so many centers."""
    noise, solver = noise_of(study), planned(study, centers)
    epsilon, release = noise.epsilon, solver.release(1.0, 1.0)
    if epsilon is None:
        epsilon = epsilon_of(release, noise.delta)
    against = epsilon_against_other_centers(release, noise.delta)
    return Spending(epsilon, noise.delta, solver.releases, release.parts, against)


def _of_price(solver: PrivateNewton, noise: Noise) -> PrivateNewton:
    """The most noise at this price, and no more than the information bears."""
    if noise.price is None:
        raise ValueError("Either an epsilon or a price is needed.")
    most = math.sqrt((1.0 + noise.price) ** 2 - 1.0)

    def affordable(log_multiplier: float) -> bool:
        tried = replace(solver, multiplier=math.exp(log_multiplier))
        return tried.expected_noise <= most and tried.expects_information

    low, high = math.log(noise_multiplier_for(MOST_EPSILON, noise.delta)), math.log(1e6)
    if not affordable(low):
        raise StudyError(
            f"No epsilon below {MOST_EPSILON:g} has a price of {noise.price:g}.",
            [
                "Noise so small would stand for nothing. Allow a larger price, plan with more "
                "patients, or with fewer covariates and pieces."
            ],
        )
    while high - low > _PRECISION:
        middle = (low + high) / 2.0
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return replace(solver, multiplier=math.exp(low))


def public_pieces(study: Study) -> PublicPieces:
    """Cells that the study file alone gives, so that no patient is asked about them."""
    grid, unit = study.grid, study.outcome.resolution
    if grid.edges is None and grid.width is None:
        if grid.horizon is None:
            raise ValueError("Under noise a study names its horizon.")
        count = grid.pieces or usual_pieces(noise_of(study).expected_events)
        return PublicPieces(table_cells(grid.horizon, unit, count), True, count)
    horizon = grid.horizon if grid.edges is None else grid.edges[-1]
    named = cells_between(grid.edges, grid.width, horizon or 0.0, unit).named
    if named is None:
        raise ValueError("These cells have names.")
    return PublicPieces(named, False, named.intervals)


def public_scale(study: Study) -> PublicScale:
    """Numbers between -1 and 1 by the ranges that the study names, levels as they are."""
    mean, spread, categories = [], [], []
    for number, column in enumerate(study.schema.covariates):
        if isinstance(column, CategoryColumn):
            levels = len(column.compared_levels)
            mean += [0.0] * levels
            spread += [1.0] * levels
            categories += [number] * levels
        else:
            low, high = _range(column)
            mean.append((low + high) / 2.0)
            spread.append((high - low) / 2.0 or 1.0)
            categories.append(-1)
    scaling = Scaling(np.arange(len(mean)), np.array(mean), np.array(spread))
    return PublicScale(scaling, np.array(categories, dtype=np.int64))


def _range(column: NumberColumn) -> tuple[float, float]:
    if column.minimum is None or column.maximum is None:
        raise ValueError("Under noise a study names the ranges of its numbers.")
    return column.minimum, column.maximum


def _guarantee(
    study: Study, federation: Federation, solver: PrivateNewton, solution: PrivateSolution
) -> Guarantee:
    release, delta = solver.release(1.0, 1.0), noise_of(study).delta
    return Guarantee(
        epsilon=epsilon_of(release, delta),
        delta=delta,
        releases=solution.releases,
        noise=solver.multiplier,
        sampling_rate=1.0,
        masked=not federation.shows_centers,
        epsilon_against_centers=epsilon_against_other_centers(release, delta),
        price=None if solution.faults else solution.price,
    )


def _coefficients(study: Study, solution: PrivateSolution) -> tuple[Coefficient, ...]:
    scaling = solution.setting.scaling
    coefficients = scaling.coefficients(solution.beta).tolist()
    errors = np.sqrt(np.diag(scaling.covariance(solution.covariance))).tolist()
    rows = [
        estimated(name, coef, se, mean, sd)
        for name, coef, se, mean, sd in zip(
            study.schema.encoded_names,
            coefficients,
            errors,
            scaling.mean.tolist(),
            _spreads(study, scaling),
            strict=True,
        )
    ]
    if not solution.faults:
        return tuple(rows)
    unknown = {"se": None, "z": None, "p": None, "ratio_low": None, "ratio_high": None}
    return tuple(replace(row, **unknown) for row in rows)  # type: ignore[arg-type]


def _spreads(study: Study, scaling: Scaling) -> list[float]:
    """Of the columns; levels that are rare are scaled by more than theirs."""
    are_numbers = public_scale(study).are_numbers
    of_levels = np.sqrt(np.maximum(scaling.mean * (1.0 - scaling.mean), 0.0))
    spreads: list[float] = np.where(are_numbers, scaling.spread, of_levels).tolist()
    return spreads


def _baseline(solution: PrivateSolution, alpha: FloatArray) -> tuple[BaselineInterval, ...]:
    pieces = _exact(solution)
    alpha = np.minimum(alpha - np.log(pieces.widths), _HIGHEST)  # per unit of time
    return tuple(
        BaselineInterval(end, value, risk, None, None)
        for end, value, risk in zip(
            pieces.edges.tolist(), alpha.tolist(), np.exp(alpha).tolist(), strict=True
        )
    )


def _exact(solution: PrivateSolution) -> Pieces:
    grid = solution.setting.grid
    if not isinstance(grid, Pieces):
        raise TypeError("Under noise time is cut into pieces.")
    return grid


def _curve_error(solution: PrivateSolution) -> CurveError:
    """Of the baseline and the coefficients together, noise included."""
    metric, spread = solution.metric, solution.setting.scaling.spread
    hazard = np.exp(solution.alpha)
    own = (1.0 + solution.noise**2) * hazard**2 / metric.events
    return CurveError(
        np.append(0.0, np.cumsum(hazard)),
        np.append(0.0, np.cumsum(own)),
        np.vstack(
            [np.zeros(spread.size), np.cumsum(hazard[:, None] * metric.means, axis=0) * spread]
        ),
        every=True,
    )
