from __future__ import annotations

import re
from dataclasses import replace

from fedcox.evaluation.attacks.suite import ATTACKS
from fedcox.evaluation.audit import AttackOutcome, Audit, AuditedAttack, Protection
from fedcox.evaluation.membership import Measured, MembershipAudit
from fedcox.reports.audit_page import attackers, audit_html, headline


def example() -> Audit:
    """A study that is read out of exact sums, and not out of noised ones."""

    def reached(number: int, exact: AttackOutcome) -> AttackOutcome:
        return exact if number < 2 else AttackOutcome(0, exact.attacked, 0)

    outcomes = {
        "whole numbers behind sums": AttackOutcome(1480, 1500, 1480, 935),
        "difference of two results": AttackOutcome(5, 5, 5),
        "difference of two sets of centers": AttackOutcome(
            1, 1500, 1, None, "stopped after 60 s"
        ),
        "half-space probe": AttackOutcome(20, 1500, 20),
        "peeling the tail": AttackOutcome(0, 0, 0),
    }
    measured, centers = Measured(11.8, 1.3, 5.2), Measured(23.9, 2.3, 8.4)
    return Audit(
        "<b>breast</b>",
        1500,
        5,
        "log",
        tuple(Protection),
        {},
        tuple(
            AuditedAttack(
                attack,
                {
                    each: reached(number, outcomes[attack.name])
                    for number, each in enumerate(Protection)
                },
            )
            for attack in ATTACKS
            if attack.name in outcomes
        ),
        {
            Protection.NOISE: MembershipAudit(centers, centers, 1e-5, 0.7, 11, 400),
            Protection.MASKED_NOISE: MembershipAudit(measured, centers, 1e-5, 0.7, 11, 400),
        },
    )


def shown(html: str) -> str:
    body = re.sub(r"<style>.*?</style>", " ", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_the_page_says_who_could_learn_what_under_each_protection() -> None:
    rows = dict(attackers(example()))
    reads = rows["the coordinator, who reads what a study sends"]
    assert reads[Protection.EXACT].text == "1,480 of 1,500"
    assert reads[Protection.MASKED_NOISE].text == "nobody"
    assert rows["a reader of the published results"][Protection.MASKED].text == "5 of 5"
    assert rows["all other hospitals, with the coordinator"][Protection.MASKED].recovered
    told = shown(audit_html(example()))
    for who in rows:
        assert who in told
    assert "935 by chance" in told


def test_the_page_puts_the_claimed_epsilon_beside_what_was_measured() -> None:
    told = shown(audit_html(example()))
    assert "secure sums and noise whoever sees the sums 11.8 5.2 1.3 stands none" in told
    assert "23.9 8.4 2.3 stands none" in told
    assert "An epsilon this large promises little" in told
    assert "Noise holds against these attacks" in told


def test_a_wrong_claim_is_said_to_be_wrong() -> None:
    wrong = Measured(3.0, 4.0, 1.0)
    member = MembershipAudit(wrong, wrong, 1e-5, 0.7, 11, 400)
    found = replace(example(), membership={Protection.MASKED_NOISE: member})
    assert headline(found).endswith("A claimed epsilon is wrong.")
    assert "is wrong" in shown(audit_html(found))
    assert "Noise does not hold what is claimed" in shown(audit_html(found))


def test_what_was_not_tried_is_named() -> None:
    left_out = {Protection.MASKED: "secure sums need 3 centers, not 2"}
    told = shown(audit_html(replace(example(), left_out=left_out)))
    assert "exact secure sums: secure sums need 3 centers, not 2." in told
    assert "under exact sums: stopped after 60 s." in told
    assert "Without anything to read in this study: peeling the tail." in told


def test_names_are_escaped_and_nothing_is_loaded() -> None:
    html = audit_html(example())
    assert "<b>breast</b>" not in html
    assert "&lt;b&gt;breast&lt;/b&gt;" in html
    assert "http://" not in html
    assert "https://" not in html
    assert "default-src 'none'" in html


def test_a_study_without_noise_has_a_page_too() -> None:
    found = replace(
        example(),
        protections=(Protection.EXACT,),
        left_out={Protection.NOISE: "no ranges"},
        membership={},
    )
    told = shown(audit_html(found))
    assert "No noise was tried" in told
    assert "Epsilon, claimed and measured" not in told
