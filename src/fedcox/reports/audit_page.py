"""The page of an audit: who could learn what, in this study, under each protection."""

from __future__ import annotations

from pathlib import Path

from fedcox.evaluation.audit import Audit, Protection
from fedcox.files.writing import write_atomically
from fedcox.reports.audit_words import (
    NO_PROOF,
    PROTECTIONS,
    attackers,
    cell,
    claims,
    headline,
    idle,
    measured_how,
    not_tried,
    weak_promise,
)
from fedcox.reports.guarantee_words import epsilon_explained
from fedcox.reports.number_text import DASH, bound_text, count_text, noun_text
from fedcox.reports.page import Fact, page_html
from fedcox.study.versions import versions


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
