"""How many patients of a study its coordinator could recover, under each protection.

Every attack runs against the very messages that the study would send, and against centers that
are asked what no honest study asks. Zero recovered is what these attacks reach; it is no proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from fedcox.analysis.agreement import agree
from fedcox.analysis.fit import estimate
from fedcox.analysis.plan import Plan
from fedcox.analysis.private_fit import fit_private
from fedcox.analysis.study import Study
from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError
from fedcox.evaluation.attacks.candidate import Candidate, Patients, matches
from fedcox.evaluation.attacks.half_space import Reach
from fedcox.evaluation.attacks.looks import LifeTable
from fedcox.evaluation.attacks.observer import ALL_CENTERS, Exchange, Observer, Recorder
from fedcox.evaluation.attacks.scene import Attack, Scene
from fedcox.evaluation.attacks.suite import ATTACKS
from fedcox.evaluation.noise_audit import NoiseAudit, audit_noise
from fedcox.evaluation.protection import Protection, begin, left_out, masked, protected
from fedcox.federation.center import Center
from fedcox.federation.queries.clipped_gradient import ClippedGradientAt
from fedcox.federation.queries.clipped_moments import ClippedMomentsOf
from fedcox.federation.queries.interval_counts import Counts, IntervalCounts
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.privacy.noise import SystemRandomness
from fedcox.privacy.policy import Policy
from fedcox.survival.cohort import Cohort
from fedcox.survival.link import LINKS
from fedcox.survival.time_grid import TimeGrid

#: Noised replies to each kind of question that the attack on a claimed epsilon looks at.
_REPLIES = 8000


@dataclass(frozen=True)
class Outcome:
    """What one attack reached: of `attacked` patients, so many were recovered exactly.

    `claimed` counts what the attacker took for patients. `refused` is the first rule by which
    a center or the study stopped the attack, None if nothing did.
    """

    recovered: int
    attacked: int
    claimed: int
    refused: str | None = None


@dataclass(frozen=True)
class AuditedAttack:
    """One attack under every protection."""

    name: str
    active: bool
    outcomes: Mapping[Protection, Outcome]

    def to_dict(self) -> dict[str, Any]:
        outcomes = {each.value: asdict(outcome) for each, outcome in self.outcomes.items()}
        return {"name": self.name, "active": self.active, "outcomes": outcomes}


@dataclass(frozen=True)
class Audit:
    """The whole table, and how large the study is."""

    patients: int
    centers: int
    protections: tuple[Protection, ...]
    left_out: Mapping[Protection, str]  # with the reason
    attacks: tuple[AuditedAttack, ...]
    noise: tuple[NoiseAudit, ...] = ()  # what is claimed of noised replies, and proven

    @property
    def claims_stand(self) -> bool:
        """Whether no claimed epsilon was shown to be wrong."""
        return all(found.consistent for found in self.noise)

    def recovered(self, protection: Protection) -> int:
        """The most patients that any one attack recovered; zero where it was not tried."""
        if protection not in self.protections:
            return 0
        return max(attack.outcomes[protection].recovered for attack in self.attacks)

    def to_dict(self) -> dict[str, Any]:
        """Counts alone, as `audit.json` has them."""
        return {
            "patients": self.patients,
            "centers": self.centers,
            "protections": [protection.value for protection in self.protections],
            "not_tried": {each.value: reason for each, reason in self.left_out.items()},
            "attacks": [attack.to_dict() for attack in self.attacks],
            "differential_privacy": [_finite(asdict(found)) for found in self.noise],
        }


def _finite(record: Mapping[str, Any]) -> dict[str, Any]:
    """An epsilon beyond all that is accounted for, which is infinite, has no number in JSON."""
    return {name: None if value == math.inf else value for name, value in record.items()}


Watch = Callable[[str], None]


def audit(
    study: Study,
    centers: Sequence[Center],
    policies: Mapping[str, Policy] | None = None,
    *,
    protections: Sequence[Protection] = tuple(Protection),
    attacks: Sequence[Attack] = ATTACKS,
    watch: Watch = lambda told: None,
) -> Audit:
    """Run `attacks` under those of `protections` that the study can have.

    `policies` are the centers' own; the default limits stand for those without one. Secure
    sums need three centers, and differential privacy a study that asks for it.
    """
    _check_grouped(study)
    given = {center.name: (policies or {}).get(center.name, Policy()) for center in centers}
    found: dict[str, dict[Protection, Outcome]] = {attack.name: {} for attack in attacks}
    without = left_out(study, len(centers))
    tried = tuple(each for each in protections if each not in without)
    noise: tuple[NoiseAudit, ...] = ()
    for protection in tried:
        watch(f"{protection.value}: the fit")
        scene, stopped = _scene(study, centers, given, protection)
        truth = Patients.of([center.cohort for center in centers], scene.setting)
        for attack in attacks:
            watch(f"{protection.value}: {attack.name}")
            found[attack.name][protection] = _outcome(attack, scene, truth, stopped)
        if protection is Protection.NOISE:
            watch(f"{protection.value}: the claimed epsilon")
            noise = _noise(study, scene, centers[0].cohort)
    return Audit(
        sum(center.cohort.patients for center in centers),
        len(centers),
        tried,
        {each: reason for each, reason in without.items() if each in protections},
        tuple(
            AuditedAttack(attack.name, attack.active, found[attack.name]) for attack in attacks
        ),
        noise,
    )


def _check_grouped(study: Study) -> None:
    link = study.model.link
    if study.privacy.noised and study.privacy.differential is None:
        raise InputError(
            "The attacks are written for grouped time, noise with intervals for exact time.",
            ["Leave [privacy.noise] out, and name a grouped link, to audit the patients."],
        )
    if not LINKS[link].grouped:
        raise InputError(
            f'The attacks are written for grouped time, and this study has link = "{link}".',
            [
                'To audit its patients and policies, name link = "cloglog" in [model] and a '
                "width in [grid], such as 30: time is grouped then, and what is sent by "
                "interval can be attacked."
            ],
        )


def _outcome(attack: Attack, scene: Scene, truth: Patients, stopped: str | None) -> Outcome:
    claims: list[Candidate] = []
    refused = None if attack.active else stopped
    try:
        for claim in attack.run(scene):
            claims.append(claim)  # one by one: what was found before a refusal counts
    except InputError as error:
        refused = rule_of(error)
    found = int(matches(claims, truth).size)
    return Outcome(found, attack.aims_at(scene), len(claims), refused)


def _scene(
    study: Study,
    centers: Sequence[Center],
    policies: Mapping[str, Policy],
    protection: Protection,
) -> tuple[Scene, str | None]:
    """Run the fit under a protection; its messages, and what stopped it, if anything."""
    meant = protected(study, protection)

    def anew() -> Federation:
        return begin(study, centers, policies, protection)

    exchanges, settings, stopped = _conducted(meant, anew)
    # Who is refused before a grid is agreed on may take one that was agreed on elsewhere.
    setting = settings[-1] if settings else _agreed_without_protection(study, centers)
    scene = Scene(
        exchanges,
        setting,
        _life_tables(centers, setting, apart=not masked(study, protection)),
        lambda: Observer(anew()),
        Reach(),
        _own_grid(meant, centers),
    )
    return scene, stopped


def _conducted(
    study: Study, anew: Callable[[], Federation]
) -> tuple[list[Exchange], list[Setting], str | None]:
    try:
        recorder = Recorder(anew())
    except InputError as error:
        return [], [], rule_of(error)
    try:
        if study.privacy.differential is None:
            estimate(Plan.of(study), recorder)
        else:
            fit_private(study, recorder)
    except InputError as error:
        return recorder.exchanges, recorder.settings, rule_of(error)
    return recorder.exchanges, recorder.settings, None


def _noise(study: Study, scene: Scene, cohort: Cohort) -> tuple[NoiseAudit, ...]:
    """Attack the noise of every kind of question that the fit asked under noise."""
    differential = study.privacy.differential
    asked: dict[str, ClippedGradientAt | ClippedMomentsOf] = {}
    for exchange in scene.exchanges:
        if isinstance(exchange.query, ClippedGradientAt | ClippedMomentsOf):
            asked.setdefault(exchange.query.name, exchange.query)
    if differential is None:
        return ()
    hidden = masked(study, Protection.NOISE)
    return tuple(
        audit_noise(
            query,
            cohort,
            masked=hidden,
            delta=differential.delta,
            runs=max(1, _REPLIES // (2 * query.release.parts)),
            randomness=SystemRandomness(),
        )
        for query in asked.values()
    )


def _agreed_without_protection(study: Study, centers: Sequence[Center]) -> Setting:
    plan = Plan.of(protected(study, Protection.NONE))
    federation = InProcess([replace(center, gate=None) for center in centers])
    return agree(plan, federation).setting


def _own_grid(study: Study, centers: Sequence[Center]) -> TimeGrid:
    """The study's grid with no interval joined, up to its horizon or the longest follow-up."""
    times = [center.cohort.time for center in centers]
    if study.grid.width is None:
        events = [center.cohort.event for center in centers]
        return TimeGrid.at_events(np.concatenate(times)[np.concatenate(events)])
    longest = max(float(time.max(initial=0.0)) for time in times)
    return TimeGrid.regular(study.grid.width, study.grid.horizon or longest)


def _life_tables(
    centers: Sequence[Center], setting: Setting, *, apart: bool
) -> dict[str, LifeTable]:
    """The life tables of every source, which every fit begins with."""
    query = IntervalCounts(setting.grid, setting.reading)
    counts = {
        center.name: query.answer(center.cohort)
        for center in sorted(centers, key=lambda center: center.name)
    }
    if not apart:
        counts = {ALL_CENTERS: reduce(Counts.__add__, counts.values())}
    return {name: LifeTable.of(own, setting) for name, own in counts.items()}


def rule_of(error: InputError) -> str:
    """The first rule that an error names, without the counts that follow it."""
    told = error.faults[0] if error.faults else error.subject
    rule, colon, _ = told.partition(":")
    known = rule.startswith("[") or rule in Policy.model_fields
    return rule if colon and known else told.partition(". ")[0].rstrip(".")
