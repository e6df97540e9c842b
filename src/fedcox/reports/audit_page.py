"""What an audit showed, who could learn what: in words, as a page, and for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from fedcox.evaluation.attacks.attack_setting import Attacker
from fedcox.evaluation.audit import AttackOutcome, Audit, AuditedAttack, Protection
from fedcox.evaluation.membership import ERROR
from fedcox.files.writing import write_atomically
from fedcox.reports.guarantee_words import epsilon_explained, promise_in_a_word, weakness
from fedcox.reports.number_text import DASH, bound_text, count_text, noun_text, percent_text
from fedcox.reports.page import Fact, page_html
from fedcox.study.versions import versions

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
    found: bool = False  # whether anybody was recovered
    share: float = 0.0  # of all patients, in per cent


def headline(found: Audit) -> str:
    """Exact sums and sums under noise, in a sentence each."""
    exact = [each for each in found.protections if not each.noised]
    noised = [each for each in found.protections if each.noised]
    parts = []
    if exact:
        most = max(map(found.recovered, exact))
        parts.append(
            f"Out of exact sums {count_text(most)} of {noun_text(found.patients, 'patient')} "
            "were recovered."
        )
    if noised:
        most = found.recovered_under_noise
        who = "nobody was" if not most else f"{noun_text(most, 'patient')} were"
        parts.append(f"Out of sums with noise {who} recovered.")
    if not found.claims_stand:
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
        outcome.recovered > 0,
        100.0 * outcome.recovered / outcome.attacked,
    )


def attackers(found: Audit) -> Iterator[tuple[str, dict[Protection, Cell]]]:
    """Who could learn what: the most that any attack of each attacker reached."""
    for name, chosen in (
        ("the coordinator, who reads what a study sends", _by(found, active=False)),
        ("a coordinator who asks for more", _by(found, active=True)),
        (Attacker.HOSPITALS.value, _by(found, Attacker.HOSPITALS)),
        (Attacker.READER.value, _by(found, Attacker.READER)),
    ):
        if chosen:
            yield name, {each: _most(chosen, each) for each in found.protections}


def _by(
    found: Audit, by: Attacker = Attacker.COORDINATOR, active: bool = False
) -> list[AuditedAttack]:
    return [
        each for each in found.attacks if each.attack.by is by and each.attack.active is active
    ]


def _most(chosen: list[AuditedAttack], protection: Protection) -> Cell:
    """The attack that recovered most; of those that recovered nobody, one that was tried."""
    outcomes = [(each.outcomes[protection], each.attack.name) for each in chosen]
    best, name = max(outcomes, key=lambda one: (one[0].recovered, one[0].attacked))
    if best.recovered:
        own = cell(best)
        return Cell(own.text, name, True, own.share)
    if not best.attacked:
        return Cell(DASH)
    refused = next((one.ended for one, _ in outcomes if one.ended), "")
    return Cell("nobody", refused)


def idle(found: Audit) -> list[str]:
    """Attacks that find nothing to read in this study, under any protection."""
    return [
        each.attack.name
        for each in found.attacks
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


def claims(found: Audit) -> list[EpsilonClaim]:
    """Of every protection by noise, against whoever sees the sums and against hospitals."""
    return [
        EpsilonClaim(
            protection.value,
            against,
            bound_text(measured.claimed),
            _bound(measured.gaussian_bound),
            _bound(measured.lower_bound),
            promise_in_a_word(measured.claimed, own.delta),
            measured.consistent,
        )
        for protection, own in found.membership.items()
        for against, measured in (
            ("whoever sees the sums", own.coordinator),
            *([(Attacker.HOSPITALS.value, own.centers)] if protection.masked else []),
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


def weak_promise(found: Audit) -> str:
    """What must be said of the best epsilon that was audited; empty where it is small."""
    best = min((own.coordinator.claimed, own.delta) for own in found.membership.values())
    return weakness(*best)


def measured_how(found: Audit) -> str:
    """How often was guessed, and what the bounds mean."""
    trials = max((own.trials for own in found.membership.values()), default=0)
    return (
        "The attacker knows all patients but one, the one within the public ranges who moves "
        f"the sums most, and guesses from every noised sum of the study: {count_text(trials)} "
        "times with the patient, as often without. The bounds are wrong in at most "
        f"{percent_text(ERROR)} of audits. To prove a large epsilon without knowing what kind "
        "of noise it is takes exp(epsilon) trials; where noise is Gaussian it takes fewer. A "
        "claim below a bound is wrong; one above both is not proven by that."
    )


def not_tried(found: Audit) -> list[str]:
    """Protections left out, attacks that were ended, and what is beyond all of them."""
    lines = [
        f"{protection.value}: {reason}".rstrip(".") + "."
        for protection, reason in found.left_out.items()
    ]
    lines += [
        f"{each.attack.name}, under {protection.value}: {outcome.ended}."
        for each in found.attacks
        for protection, outcome in each.outcomes.items()
        if outcome.ended is not None and not (each.attack.active and protection.noised)
    ]
    if idle(found):
        lines.append(f"Without anything to read in this study: {', '.join(idle(found))}.")
    return [*lines, *LIMITS]


def write_audit_page(path: str | Path, found: Audit) -> None:
    """Write the page to `path`, whole or not at all."""
    write_atomically(path, audit_html(found))


def audit_html(found: Audit) -> str:
    """The page as text: counts alone, no value of a patient."""
    tried = found.protections
    content = {
        "name": found.study,
        "headline": headline(found),
        "bad": bool(found.recovered_under_noise) or not found.claims_stand,
        "facts": _facts(found),
        "protections": [(each.value, PROTECTIONS[each]) for each in tried],
        "attackers": [
            (name, [cells[each] for each in tried]) for name, cells in attackers(found)
        ],
        "attacks": [
            (each.attack, [cell(each.outcomes[protection]) for protection in tried])
            for each in found.attacks
            if each.attack.name not in idle(found)
        ],
        "claims": claims(found),
        "measured_how": measured_how(found),
        "weak": weak_promise(found) if found.membership else "",
        "explained": epsilon_explained(_delta(found)) if found.membership else [],
        "not_tried": not_tried(found),
        "no_proof": NO_PROOF,
        "seconds": f"{found.seconds:g}",
        "versions": versions(),
    }
    return page_html("audit.html.j2", content)


def _delta(found: Audit) -> float:
    return next(own.delta for own in found.membership.values())


def _facts(found: Audit) -> list[Fact]:
    return [
        Fact(count_text(found.patients), "patients", noun_text(found.centers, "center")),
        *(
            Fact(count_text(found.recovered(each)), "recovered", each.value)
            for each in (Protection.EXACT, Protection.MASKED, Protection.MASKED_NOISE)
            if each in found.protections
        ),
        _epsilon(found),
    ]


def _epsilon(found: Audit) -> Fact:
    own = found.membership.get(Protection.MASKED_NOISE, found.membership.get(Protection.NOISE))
    if own is None:
        return Fact(DASH, "epsilon", "no noise in this study")
    proven = f"{own.coordinator.proven:.2g}"
    return Fact(bound_text(own.coordinator.claimed), "epsilon claimed", f"{proven} measured")


def attacker_table(found: Audit) -> Table:
    """One row per attacker, one column per protection."""
    table = _table("Who could learn what: patients recovered, by the best attack", found)
    for name, cells in attackers(found):
        table.add_row(name, *[_text(cells[each]) for each in found.protections])
    return table


def attack_table(found: Audit) -> Table:
    """One row per attack, one column per protection."""
    table = _table("Patients recovered exactly, by attack", found)
    for each in found.attacks:
        if each.attack.name in idle(found):
            continue
        name = f"{each.attack.name} *" if each.attack.active else each.attack.name
        cells = [_text(cell(each.outcomes[protection])) for protection in found.protections]
        table.add_row(name, *cells)
    table.caption = "* asks what no honest study asks"
    return table


def _table(title: str, found: Audit) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for protection in found.protections:
        table.add_column(protection.value)
    return table


def _text(own: Cell) -> str:
    text = f"[bold red]{own.text}[/]" if own.found else own.text
    return f"{text}\n[dim]{escape(own.detail)}[/]" if own.detail else text
