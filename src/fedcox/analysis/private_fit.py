"""A study under differential privacy: a public scale, a noised descent, and no inference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedcox.analysis.fitted import (
    BaselineInterval,
    CenterRow,
    Coefficient,
    FittedStudy,
    Guarantee,
    Notice,
)
from fedcox.analysis.noised_fit import spending
from fedcox.analysis.notices import lost_centers
from fedcox.analysis.private_notices import large_delta, much_noise
from fedcox.analysis.public_scale import public_setting
from fedcox.analysis.study import Study
from fedcox.analysis.study_tables import Differential, PrivateSolver
from fedcox.analysis.versions import versions
from fedcox.engines.in_process import InProcess
from fedcox.errors import BudgetError
from fedcox.federation.noised_replies import NoisedReplies
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.privacy.accountant import epsilon_against_other_centers, epsilon_of
from fedcox.privacy.budget import Budget
from fedcox.privacy.release import GaussianRelease
from fedcox.solvers.batch_training import TrainedPoint
from fedcox.solvers.fewest_centers import fewest_centers
from fedcox.solvers.private_descent import PrivateDescent
from fedcox.solvers.solver import Watcher
from fedcox.survival.cohort import FloatArray
from fedcox.survival.time_grid import Pieces


def with_budgets(study: Study, federation: InProcess, folder: str | Path) -> InProcess:
    """The same centers, each with the budget of its patients in a file of this folder.

    What a budget allows in all is the word of the center's own policy; without a word nothing
    is refused, and all is counted.
    """
    faults, centers = [], []
    agreed = spending(study, len(federation.centers))
    for center in federation.centers:
        policy = None if center.gate is None else center.gate.policy
        if set(center.name) & set("/\\") or center.name.startswith("."):
            faults.append(f"{center.name}: a budget's file cannot have this name.")
            continue
        budget = Budget(
            Path(folder) / f"{center.name}.jsonl",
            epsilon=None if policy is None else policy.epsilon,
            delta=None if policy is None else policy.delta,
        )
        try:
            # All are looked at before the first pays: a refused study must cost nobody.
            budget.check(epsilon=agreed.epsilon, delta=agreed.delta)
        except BudgetError as error:
            faults.append(f"{center.name}: {error.subject} {error.faults[0]}")
        noise = NoisedReplies(
            _digest(study),
            agreed.delta,
            budget,
            name=study.name,
            most=agreed.epsilon,
            sums=agreed.sums,
        )
        centers.append(replace(center, noise=noise))
    if faults:
        raise BudgetError("The centers' privacy budgets do not cover this study.", faults)
    return InProcess(centers)


def _digest(study: Study) -> str:
    return sha256(study.to_toml().encode()).hexdigest()


def differential(study: Study) -> Differential:
    """The study's table; whoever calls knows that there is one."""
    table = study.privacy.differential
    if table is None:
        raise ValueError("This study has no [privacy.differential].")
    return table


def fit_private(
    study: Study, federation: Federation, watch: Watcher = lambda step: None
) -> FittedStudy:
    """Fit on noised sums alone; what comes back holds nothing else about the patients."""
    mark, begun = federation.ledger.mark(), federation.names
    noise = _planned_noise(study, federation)
    setting, point = _trained(study, federation, noise.release, watch)
    ledger = federation.ledger.since(mark)
    return FittedStudy(
        study=study,
        centers=tuple(CenterRow(name) for name in federation.names),
        patients=None,
        events=None,
        edges=setting.grid.edges,
        resolution=study.outcome.resolution,
        every_event_time=False,
        link=setting.link.name,
        ratio_name=setting.link.ratio_name,
        coefficients=_coefficients(study, setting, point.beta),
        baseline=_baseline(setting, setting.scaling.intercepts(point.alpha, point.beta)),
        log_likelihood=math.nan,
        null_log_likelihood=math.nan,
        likelihood_ratio=None,
        converged=False,
        rounds=federation.ledger.rounds - mark[0],
        bytes_up=sum(row.bytes_up for row in ledger),
        bytes_down=sum(row.bytes_down for row in ledger),
        concordance=None,
        convergence=(),
        notices=_notices(study, federation, noise.in_log_risk, begun),
        versions=versions(),
        ledger=ledger,
        guarantee=_guarantee(study, federation, noise.release),
    )


class _Noise(NamedTuple):
    """The noise of every sum, and how much of it ends in a usual patient's log risk."""

    release: GaussianRelease
    in_log_risk: float


def _planned_noise(study: Study, federation: Federation) -> _Noise:
    """From public numbers alone: the plan's, and how many centers take part."""
    private, setting = differential(study), public_setting(study)
    descent = private_descent(study)
    centers = len(federation.names)
    release = descent.release(
        private.epsilon,
        private.delta,
        columns=setting.columns,
        centers=centers,
        fewest_centers=fewest_centers(federation),
    )
    in_log_risk = descent.noise_in_log_risk(
        release, columns=setting.columns, intervals=setting.intervals, centers=centers
    )
    return _Noise(release, in_log_risk)


def _trained(
    study: Study, federation: Federation, release: GaussianRelease, watch: Watcher
) -> tuple[Setting, TrainedPoint]:
    """Where the descent ended, and the scale on which it did."""
    descent, setting = private_descent(study), public_setting(study)
    if descent.standardise:
        setting = descent.standardised(federation, setting, release)
        descent = replace(descent, standardise=False)
    ridge = study.model.ridge / setting.scaling.spread**2
    return setting, descent.train(federation, setting, release, ridge, watch)


def _notices(
    study: Study, federation: Federation, noise: float, begun: Sequence[str]
) -> tuple[Notice, ...]:
    lost = [name for name in begun if name not in federation.names]
    return (
        *much_noise(noise, masked=not federation.shows_centers),
        *large_delta(differential(study).delta, private_descent(study).patients),
        *lost_centers(lost, done_again=False),
    )


def _guarantee(study: Study, federation: Federation, release: GaussianRelease) -> Guarantee:
    delta = differential(study).delta
    return Guarantee(
        epsilon=epsilon_of(release, delta),
        delta=delta,
        releases=release.releases,
        noise=release.noise_multiplier,
        sampling_rate=release.sampling_rate,
        masked=not federation.shows_centers,
        epsilon_against_centers=epsilon_against_other_centers(release, delta),
    )


def private_descent(study: Study) -> PrivateDescent:
    """The study's solver, which its rules make this one."""
    if not isinstance(study.solver, PrivateSolver):
        raise TypeError("Differential privacy goes with the private descent alone.")
    return PrivateDescent(**study.solver.model_dump(exclude={"method"}))


def _coefficients(study: Study, setting: Setting, beta: FloatArray) -> tuple[Coefficient, ...]:
    scaling = setting.scaling
    with np.errstate(over="ignore"):
        ratios = np.exp(scaling.coefficients(beta))
    return tuple(
        Coefficient(name, coef, None, None, None, ratio, None, None, mean, sd, "")
        for name, coef, ratio, mean, sd in zip(
            study.schema.encoded_names,
            scaling.coefficients(beta).tolist(),
            ratios.tolist(),
            scaling.mean.tolist(),
            scaling.spread.tolist(),
            strict=True,
        )
    )


def _baseline(setting: Setting, alpha: FloatArray) -> tuple[BaselineInterval, ...]:
    if isinstance(setting.grid, Pieces):  # per unit of time
        alpha = alpha - np.log(setting.grid.widths)
    hazard = setting.link.hazard(alpha)
    return tuple(
        BaselineInterval(end, value, risk, None, None)
        for end, value, risk in zip(
            setting.grid.edges.tolist(), alpha.tolist(), hazard.tolist(), strict=True
        )
    )
