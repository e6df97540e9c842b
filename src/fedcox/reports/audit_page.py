"""What an audit showed, who could learn what: in words, as a page, and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from fedcox.evaluation.attacks.attack_setting import Attacker
from fedcox.evaluation.audit import AttackOutcome, Audit, AuditedAttack, Protection
from fedcox.evaluation.membership import ERROR
from fedcox.reports.guarantee_words import epsilon_explained, promise_in_a_word, weakness
from fedcox.reports.number_text import DASH, bound_text, count_text, noun_text, percent_text
from fedcox.reports.page import Fact, page_html
from fedcox.study.fit_rows import versions

NO_PROOF = (
    "Zero means: not by these attacks. It is no proof; only noise gives one, and its epsilon "
    "says how much it is worth."
)
PROTECTIONS = {
    Protection.EXACT: "every hospital's sums are seen, to the last digit",
    Protection.MASKED: "only sums over all hospitals are seen, to the last digit",
    Protection.NOISE: "every hospital's sums are seen, each with noise of its own",
    Protection.MASKED_NOISE: "only sums over all hospitals are seen, and noise is added once",
}
#: What no attack here uses.
LIMITS = (
    "What somebody knows about a patient from elsewhere, beyond that the patient takes part. "
    "Noise covers this, exact sums do not.",
    "Attacks joined with each other, and searches longer than the time limit. A better attack "
    "may find more.",
    "Numbers with many values, such as an age in days: whole numbers are looked for behind "
    "sums of categories, and of whole numbers of a small range, up to 64 combinations.",
    "Patients who leave in long pieces of large studies of exact time: many ways to deal them "
    "out explain the sums, and none of them is claimed. The time at risk of each combination "
    "is read exactly all the same.",
    "Who breaks into a hospital's machine, and what a hospital passes on by other ways.",
)


@dataclass(frozen=True)
class Cell:
    """What one attack, or all of an attacker, reached under one protection."""

    text: str
    detail: str = ""
    recovered: bool = False  # anybody
    share: float = 0.0  # of all patients, in per cent


def headline(audit: Audit) -> str:
    """Exact sums and sums under noise, in a sentence each."""
    exact = [each for each in audit.protections if not each.noised]
    noised = [each for each in audit.protections if each.noised]
    parts = []
    if exact:
        most = max(map(audit.recovered, exact))
        parts.append(
            f"Out of exact sums {count_text(most)} of {noun_text(audit.patients, 'patient')} "
            "were recovered."
        )
    if noised:
        most = audit.recovered_under_noise
        who = "nobody was" if not most else f"{noun_text(most, 'patient')} were"
        parts.append(f"Out of sums with noise {who} recovered.")
    if not audit.claims_stand:
        parts.append("A claimed epsilon is wrong.")
    return " ".join(parts)


def cell(outcome: AttackOutcome) -> Cell:
    """Of one attack."""
    if not outcome.attacked:
        return Cell(DASH)
    detail = [] if outcome.ended is None else [outcome.ended]
    if outcome.by_chance is not None:
        detail.insert(0, f"{count_text(outcome.by_chance)} by chance")
    return Cell(
        f"{count_text(outcome.recovered)} of {count_text(outcome.attacked)}",
        "; ".join(detail),
        outcome.beyond_chance > 0,
        100.0 * outcome.beyond_chance / outcome.attacked,
    )


def attackers(audit: Audit) -> Iterator[tuple[str, dict[Protection, Cell]]]:
    """Who could learn what: the most that any attack of each attacker reached.

    Each can do what the weaker one before can: who coordinates reads the results, too.
    """
    chosen: list[AuditedAttack] = []
    for name, own in (
        (Attacker.READER.value, _by(audit, Attacker.READER)),
        ("the coordinator, who reads what a study sends", _by(audit, active=False)),
        ("a coordinator who asks for more", _by(audit, active=True)),
        (Attacker.HOSPITALS.value, _by(audit, Attacker.HOSPITALS)),
    ):
        chosen += own
        if own:
            yield name, {each: _most(chosen, each) for each in audit.protections}


def _by(
    audit: Audit, by: Attacker = Attacker.COORDINATOR, active: bool = False
) -> list[AuditedAttack]:
    return [
        each for each in audit.attacks if each.attack.by is by and each.attack.active is active
    ]


def _most(chosen: list[AuditedAttack], protection: Protection) -> Cell:
    """The attack that recovered most beyond chance, or one that was tried."""
    outcomes = [(each.outcomes[protection], each.attack.name) for each in chosen]
    best, name = max(outcomes, key=lambda one: (one[0].beyond_chance, one[0].attacked))
    if best.beyond_chance:
        most = cell(best)
        text = f"{count_text(best.beyond_chance)} of {count_text(best.attacked)}"
        return Cell(text, name, True, most.share)
    if not best.attacked:
        return Cell(DASH)
    refused = next((one.ended for one, _ in outcomes if one.ended), "")
    return Cell("nobody", refused)


def idle(audit: Audit) -> list[str]:
    """Attacks that find nothing to read in this study, under any protection."""
    return [
        each.attack.name
        for each in audit.attacks
        if not any(outcome.attacked for outcome in each.outcomes.values())
    ]


@dataclass(frozen=True)
class EpsilonClaim:
    """A claimed epsilon beside what was measured of it."""

    protection: str
    against: str
    claimed: str
    gaussian: str
    least: str
    promise: str  # in a word
    stands: bool


def claims(audit: Audit) -> list[EpsilonClaim]:
    """Of every protection by noise, against whoever sees the sums and against hospitals."""
    return [
        EpsilonClaim(
            protection.value,
            against,
            bound_text(measured.claimed),
            _bound(measured.gaussian_bound),
            _bound(measured.lower_bound),
            promise_in_a_word(measured.claimed, membership.delta),
            measured.consistent,
        )
        for protection, membership in audit.membership.items()
        for against, measured in (
            ("whoever sees the sums", membership.coordinator),
            *([(Attacker.HOSPITALS.value, membership.centers)] if protection.masked else []),
        )
    ]


def claim_line(claim: EpsilonClaim) -> str:
    """The same for the terminal."""
    line = (
        f"Epsilon {claim.claimed} is claimed for {claim.protection}, against {claim.against}; "
        f"guesses prove at least {claim.gaussian} (Gaussian noise), {claim.least} (any noise)."
    )
    return line if claim.stands else f"{line} The claim is wrong."


def _bound(value: float) -> str:
    return f"{value:.2g}" if math.isfinite(value) else "∞"


def weak_promise(audit: Audit) -> str:
    """What must be said of the best epsilon that was audited; empty where it is small."""
    best = min(
        (membership.coordinator.claimed, membership.delta)
        for membership in audit.membership.values()
    )
    return weakness(*best)


def measured_how(audit: Audit) -> str:
    """How often was guessed, and what the bounds mean."""
    trials = max((membership.trials for membership in audit.membership.values()), default=0)
    return (
        "The attacker knows all patients but one, the one within the public ranges who moves "
        f"the sums most, and guesses from every noised sum of the study: {count_text(trials)} "
        "times with the patient, as often without. The bounds are wrong in at most "
        f"{percent_text(ERROR)} of audits. To prove a large epsilon without knowing what kind "
        "of noise it is takes exp(epsilon) trials; where noise is Gaussian it takes fewer. A "
        "claim below a bound is wrong; one above both is not proven by that."
    )


def not_tried(audit: Audit) -> list[str]:
    """Protections left out, attacks that were ended, and what is beyond all of them."""
    lines = [
        f"{protection.value}: {reason}".rstrip(".") + "."
        for protection, reason in audit.left_out.items()
    ]
    lines += [
        f"{each.attack.name}, under {protection.value}: {outcome.ended}."
        for each in audit.attacks
        for protection, outcome in each.outcomes.items()
        if outcome.ended is not None and not (each.attack.active and protection.noised)
    ]
    if idle(audit):
        lines.append(f"Without anything to read in this study: {', '.join(idle(audit))}.")
    return [*lines, *LIMITS]


def audit_html(audit: Audit) -> str:
    """The page as text: counts alone, no value of a patient."""
    tried = audit.protections
    content = {
        "name": audit.study,
        "headline": headline(audit),
        "bad": bool(audit.recovered_under_noise) or not audit.claims_stand,
        "facts": _facts(audit),
        "protections": [(each.value, PROTECTIONS[each]) for each in tried],
        "attackers": [
            (name, [cells[each] for each in tried]) for name, cells in attackers(audit)
        ],
        "attacks": [
            (each.attack, [cell(each.outcomes[protection]) for protection in tried])
            for each in audit.attacks
            if each.attack.name not in idle(audit)
        ],
        "claims": claims(audit),
        "measured_how": measured_how(audit),
        "weak": weak_promise(audit) if audit.membership else "",
        "explained": epsilon_explained(_delta(audit)) if audit.membership else [],
        "not_tried": not_tried(audit),
        "no_proof": NO_PROOF,
        "seconds": f"{audit.seconds:g}",
        "versions": versions(),
    }
    return page_html("audit.html.j2", content)


def _delta(audit: Audit) -> float:
    return next(membership.delta for membership in audit.membership.values())


def _facts(audit: Audit) -> list[Fact]:
    return [
        Fact(count_text(audit.patients), "patients", noun_text(audit.centers, "center")),
        *(
            Fact(count_text(audit.recovered(each)), "recovered", each.value)
            for each in (Protection.EXACT, Protection.MASKED, Protection.MASKED_NOISE)
            if each in audit.protections
        ),
        _epsilon(audit),
    ]


def _epsilon(audit: Audit) -> Fact:
    membership = audit.membership.get(
        Protection.MASKED_NOISE, audit.membership.get(Protection.NOISE)
    )
    if membership is None:
        return Fact(DASH, "epsilon", "no noise in this study")
    proven = f"{membership.coordinator.proven:.2g}"
    return Fact(
        bound_text(membership.coordinator.claimed), "epsilon claimed", f"{proven} measured"
    )


def attacker_table(audit: Audit) -> Table:
    """One row per attacker, one column per protection."""
    table = _table("Who could learn what: patients recovered, by the best attack", audit)
    for name, cells in attackers(audit):
        table.add_row(name, *[_text(cells[each]) for each in audit.protections])
    return table


def attack_table(audit: Audit) -> Table:
    """One row per attack, one column per protection."""
    table = _table("Patients recovered exactly, by attack", audit)
    for each in audit.attacks:
        if each.attack.name in idle(audit):
            continue
        name = f"{each.attack.name} *" if each.attack.active else each.attack.name
        cells = [_text(cell(each.outcomes[protection])) for protection in audit.protections]
        table.add_row(name, *cells)
    table.caption = "* asks what no honest study asks"
    return table


def _table(title: str, audit: Audit) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for protection in audit.protections:
        table.add_column(protection.value)
    return table


def _text(cell: Cell) -> str:
    text = f"[bold red]{cell.text}[/]" if cell.recovered else cell.text
    return f"{text}\n[dim]{escape(cell.detail)}[/]" if cell.detail else text
