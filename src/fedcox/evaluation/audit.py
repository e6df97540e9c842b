"""How many patients of a study could be read out of it, by whom, under each protection.

Every attack runs against the very messages that the study would send, against what it would
publish, and against centers that are asked what no honest study asks. Zero recovered is what
these attacks reach; it is no proof. Of noise there is a claim, epsilon, and what an attack that
knows all patients but one has measured of it (`membership.py`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import reduce
from typing import Any

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import InputError, StudyError
from fedcox.evaluation.attacks.attack_setting import (
    Attack,
    AttackSetting,
    Candidate,
    TruePatients,
    matches,
)
from fedcox.evaluation.attacks.observed_sums import ALL_CENTERS, LifeTable, Observer, Recorder
from fedcox.evaluation.attacks.suite import ATTACKS
from fedcox.evaluation.membership import TRIALS, MembershipAudit, audit_membership
from fedcox.federation.center import Center
from fedcox.federation.queries.bounded_sums import AbstractBoundedSum
from fedcox.federation.queries.interval_counts import Counts, IntervalCounts
from fedcox.federation.query import Federation
from fedcox.federation.setting import Setting
from fedcox.study.fit import estimate, fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.noised_fit import fit_noised, noise_of, noised
from fedcox.study.plan import Plan
from fedcox.study.study import Study

#: Fewer centers than this cannot sum in secret.
FEWEST_CENTERS = 3
#: How long an attack may take.
SECONDS = 60.0
#: Fewer claims are not dealt out anew.
_FEWEST_DEALT = 100
#: What a hospital says to a question without noise, by its policy.
_ONLY_NOISED = "refused: exact_sums = false"
Watch = Callable[[str], None]


class Protection(Enum):
    """Exact sums of every center or under masks; noise by each center, or once under masks."""

    EXACT = "exact sums"
    MASKED = "exact secure sums"
    NOISE = "noise at each hospital"
    MASKED_NOISE = "secure sums and noise"

    @property
    def masked(self) -> bool:
        """Whether only sums over centers are seen."""
        return self in (Protection.MASKED, Protection.MASKED_NOISE)

    @property
    def noised(self) -> bool:
        return self in (Protection.NOISE, Protection.MASKED_NOISE)


def protected(study: Study, protection: Protection, patients: int) -> Study:
    """The study as it would be run under a protection.

    Where it names no noise, that is the usual noise between hospitals, for so many patients.
    A study that cannot be run so is refused.
    """
    tables = study.to_dict()
    privacy: dict[str, Any] = dict(tables.get("privacy", {}))
    noise: Any = "none"
    if protection.noised:
        named = privacy.get("noise", "none")
        noise = {"patients": patients} if named == "none" else named
    privacy |= {"secure_sums": protection.masked, "noise": noise}
    return Study.from_dict({**tables, "privacy": privacy})


def left_out(study: Study, centers: int) -> dict[Protection, str]:
    """Protections that the study cannot have, with the reason."""
    reasons: dict[Protection, str] = {}
    for protection in Protection:
        if protection.masked and centers < FEWEST_CENTERS:
            reasons[protection] = f"secure sums need {FEWEST_CENTERS} centers, not {centers}"
            continue
        try:
            protected(study, protection, 1)
        except StudyError as error:
            reasons[protection] = " ".join(error.faults)
    return reasons


def begin(study: Study, centers: Sequence[Center], protection: Protection) -> Federation:
    """Centers that have answered nothing yet; `study` is protected already."""
    fresh = [replace(center, gate=None, noise=None) for center in centers]
    federation = InProcess(fresh, apart=True)
    if protection.noised:
        federation = noised(study, federation)
    return Masked.around(federation, study=study.name) if protection.masked else federation


@dataclass(frozen=True)
class AttackOutcome:
    """What one attack reached: of `attacked` patients, so many were recovered exactly.

    `claimed` counts what the attacker took for patients. `by_chance` is how many would be right
    if the same outcomes were dealt out to the same covariates anew; None where nothing is
    claimed of outcomes. `ended` is the rule or the time limit that ended the attack, if any.
    """

    recovered: int
    attacked: int
    claimed: int
    by_chance: int | None = None
    ended: str | None = None

    @property
    def beyond_chance(self) -> int:
        """How many the attacker knows, where the others of its claims are right by chance.

        Zero where chance explains all, up to three standard deviations.
        """
        chance = self.by_chance or 0
        more, rate = self.recovered - chance, chance / max(self.claimed, 1)
        if rate >= 1.0 or more <= 3.0 * math.sqrt(chance * (1.0 - rate)):
            return 0
        return round(more / (1.0 - rate))


@dataclass(frozen=True)
class AuditedAttack:
    """One attack under every protection."""

    attack: Attack
    outcomes: Mapping[Protection, AttackOutcome]

    def to_dict(self) -> dict[str, Any]:
        outcomes = {each.value: asdict(outcome) for each, outcome in self.outcomes.items()}
        attack = self.attack
        return {
            "name": attack.name,
            "how": attack.how,
            "by": attack.by.value,
            "active": attack.active,
            "outcomes": outcomes,
        }


@dataclass(frozen=True)
class Audit:
    """The whole table, and how large the study is."""

    study: str
    patients: int
    centers: int
    link: str
    protections: tuple[Protection, ...]
    left_out: Mapping[Protection, str]  # with the reason
    attacks: tuple[AuditedAttack, ...]
    membership: Mapping[Protection, MembershipAudit]
    seconds: float = SECONDS

    @property
    def claims_stand(self) -> bool:
        """Whether no claimed epsilon was shown to be wrong."""
        return all(membership.consistent for membership in self.membership.values())

    def recovered(self, protection: Protection) -> int:
        """The most that any one attack recovered beyond chance; zero where none was tried."""
        outcomes = (each.outcomes.get(protection) for each in self.attacks)
        return max(
            (outcome.beyond_chance for outcome in outcomes if outcome is not None), default=0
        )

    @property
    def recovered_under_noise(self) -> int:
        """The most patients that any one attack recovered where there is noise."""
        return max(self.recovered(each) for each in Protection if each.noised)

    def to_dict(self) -> dict[str, Any]:
        """Counts alone, as `audit.json` has them."""
        return {
            "study": self.study,
            "patients": self.patients,
            "centers": self.centers,
            "link": self.link,
            "protections": [protection.value for protection in self.protections],
            "not_tried": {each.value: reason for each, reason in self.left_out.items()},
            "seconds_per_attack": self.seconds,
            "attacks": [attack.to_dict() for attack in self.attacks],
            "membership": {
                each.value: _finite(asdict(audit)) for each, audit in self.membership.items()
            },
        }


def _finite(record: Mapping[str, Any]) -> dict[str, Any]:
    """An epsilon beyond all that is accounted for, which is infinite, has no number in JSON."""
    return {name: None if value == math.inf else value for name, value in record.items()}


def audit(
    study: Study,
    centers: Sequence[Center],
    *,
    protections: Sequence[Protection] = tuple(Protection),
    attacks: Sequence[Attack] = ATTACKS,
    seconds: float = SECONDS,
    trials: int = TRIALS,
    watch: Watch = lambda words: None,
) -> Audit:
    """Run `attacks` under those of `protections` that the study can have.

    An attack has so many `seconds`. `trials` is how often the membership of a patient is
    guessed with it, and without.
    """
    patients = sum(center.cohort.patients for center in centers)
    ordered = InProcess(centers).centers
    without = left_out(study, len(centers))
    outcomes: dict[str, dict[Protection, AttackOutcome]] = {
        attack.name: {} for attack in attacks
    }
    membership = {}
    for protection in protections:
        if protection in without:
            continue
        watch(f"{protection.value}: the fit")
        meant = protected(study, protection, patients)
        try:
            target = _attack_setting(meant, ordered, protection, seconds)
        except InputError as error:
            without[protection] = " ".join([error.subject, *error.faults])
            continue
        truth = TruePatients.of([center.cohort for center in ordered], target.setting)
        for attack in attacks:
            watch(f"{protection.value}: {attack.name}")
            outcomes[attack.name][protection] = _outcome(attack, target, truth)
        if protection.noised:
            watch(f"{protection.value}: membership")
            membership[protection] = _membership(target, ordered, trials)
    return Audit(
        study.name,
        patients,
        len(centers),
        study.model.link,
        tuple(each for each in protections if each not in without),
        {each: reason for each, reason in without.items() if each in protections},
        tuple(AuditedAttack(attack, outcomes[attack.name]) for attack in attacks),
        membership,
        seconds,
    )


def _outcome(attack: Attack, target: AttackSetting, truth: TruePatients) -> AttackOutcome:
    aims = attack.aims_at(target)
    if not aims:
        return AttackOutcome(0, 0, 0)
    if attack.active and target.noised:
        return AttackOutcome(0, aims, 0, None, _ONLY_NOISED)
    claims: list[Candidate] = []
    ended = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a study without a patient has its own notices
            for claim in attack.run(target):
                claims.append(claim)  # one by one: what was found before the end counts
    except InputError as error:
        ended = error.subject.rstrip(".")
    recovered = int(matches(claims, truth).size)
    return AttackOutcome(recovered, aims, len(claims), _by_chance(claims, truth, target), ended)


def _by_chance(
    claims: Sequence[Candidate], truth: TruePatients, target: AttackSetting
) -> int | None:
    """How many claims would be right with their outcomes in another order."""
    complete = [claim for claim in claims if claim.intervals is not None]
    if len(complete) < _FEWEST_DEALT:
        return None
    order = target.rng().permutation(len(complete))
    dealt = [
        Candidate(claim.covariates, complete[other].intervals, complete[other].event)
        for claim, other in zip(complete, order.tolist(), strict=True)
    ]
    return int(matches(dealt, truth).size)


def _attack_setting(
    study: Study, centers: Sequence[Center], protection: Protection, seconds: float
) -> AttackSetting:
    """Run the fit under a protection, and keep its messages."""

    def anew(*, patient: int | None = None, center: str | None = None) -> Observer:
        chosen = [each for each in _without(centers, patient) if each.name != center]
        return Observer(begin(study, chosen, protection))

    def release(patient: int | None) -> FittedStudy:
        return fit(study, InProcess(_without(centers, patient)))

    recorder = Recorder(begin(study, centers, protection))
    if protection.noised:
        fit_noised(study, recorder)
    else:
        estimate(replace(Plan.of(study), few_pieces=True), recorder)
    setting = recorder.settings[-1]
    return AttackSetting(
        study,
        recorder.exchanges,
        setting,
        _life_tables(centers, setting, apart=not protection.masked),
        anew,
        release,
        tuple(center.name for center in centers),
        protection.masked,
        protection.noised,
        seconds,
    )


def _without(centers: Sequence[Center], patient: int | None) -> list[Center]:
    """The centers, one of them without the patient with this number."""
    return [
        center
        if patient is None or patient not in center.cohort.number
        else replace(center, cohort=center.cohort.take(center.cohort.number != patient))
        for center in centers
    ]


def _membership(
    target: AttackSetting, centers: Sequence[Center], trials: int
) -> MembershipAudit:
    """Attack the noise of all questions that the fit asked."""
    questions = [
        exchange.query
        for exchange in target.exchanges
        if isinstance(exchange.query, AbstractBoundedSum)
    ]
    return audit_membership(
        questions,
        centers[0].cohort,
        target.study.schema,
        masked=target.masked,
        delta=noise_of(target.study).delta,
        trials=trials,
        seconds=target.seconds,
    )


def _life_tables(
    centers: Sequence[Center], setting: Setting, *, apart: bool
) -> dict[str, LifeTable]:
    """The life tables of every source, which every exact fit begins with."""
    query = IntervalCounts(setting.grid, setting.reading)
    counts = {center.name: query.answer(center.cohort) for center in centers}
    if not apart:
        counts = {ALL_CENTERS: reduce(Counts.__add__, counts.values())}
    return {name: LifeTable.of(totals, setting) for name, totals in counts.items()}
