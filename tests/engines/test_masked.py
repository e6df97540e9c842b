"""Fits under secure sums: those of the plain sums, whoever drops on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import LocalMaskedCenters, Masked
from fedcox.errors import LostCentersWarning, RefusedError, SecureSumError
from fedcox.federation.center import Center
from fedcox.federation.masked_center import MaskedCenter, MaskedReply
from fedcox.federation.policy import Gate, Policy
from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.queries.outcome_counts import OutcomeCounts, Outcomes
from fedcox.federation.query import AbstractQuery
from fedcox.privacy.identity import Identity
from fedcox.privacy.secure_sum_center import SecureSumCenter
from fedcox.study.fit import estimate, fit
from fedcox.study.plan import Plan
from fedcox.study.study import Study
from fedcox.survival.cohort import Cohort
from fedcox.survival.time_grid import TimeGrid

#: Secure sums between hospitals without noise are told to the reader.
pytestmark = [
    pytest.mark.filterwarnings("ignore::fedcox.errors.ExactSumsWarning"),
    pytest.mark.filterwarnings("ignore::fedcox.errors.EmptyIntervalsWarning"),
]

COLUMNS = 4


def cohort(patients: int, seed: int) -> Cohort:
    """Columns in units that differ by powers of ten, as laboratory values do."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(patients, COLUMNS))
    happens = rng.exponential(300 * np.exp(-x @ np.linspace(0.5, -0.5, COLUMNS)))
    censored = rng.exponential(500, patients)
    units = np.array([1.0, 1e6, 1e-6, 50.0])
    return Cohort(x * units + units, np.minimum(happens, censored) + 0.5, happens < censored)


def cohorts(centers: int, patients: int = 25) -> dict[str, Cohort]:
    return {f"c{k:02}": cohort(patients + 3 * k % 11, seed=k) for k in range(centers)}


def study(method: str = "newton", **grid: float) -> Study:
    return Study(
        outcome={"time": "t", "event": "e"},
        covariates=[f"x{k}" for k in range(COLUMNS)],
        grid={"width": 30.0, **(grid or {"horizon": 900.0})},
        model={"link": "cloglog"},
        solver={"method": method},
        privacy={"secure_sums": True, "noise": "none"},
    )


class Failing(LocalMaskedCenters):
    """Centers that stop answering: `outages` says at which question and step."""

    def __init__(
        self, centers: Sequence[MaskedCenter], outages: Mapping[tuple[int, str], Sequence[str]]
    ) -> None:
        super().__init__(centers)
        self.outages, self.asked, self.gone = outages, 0, set[str]()

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        self.gone |= set(self.outages.get((self.asked, step), ()))
        there = {name: text for name, text in messages.items() if name not in self.gone}
        return super().exchange(step, there)

    def ask(
        self, shares: Mapping[str, bytes], queries: Sequence[AbstractQuery[Any]], number: int
    ) -> dict[str, MaskedReply]:
        self.asked += 1
        self.gone |= set(self.outages.get((self.asked, "ask"), ()))
        replies = super().ask(shares, queries, number)
        return {name: reply for name, reply in replies.items() if name not in self.gone}


def failing(
    parts: Mapping[str, Cohort],
    outages: Mapping[tuple[int, str], Sequence[str]],
    policy: Policy | None = None,
) -> Masked:
    identities = {name: Identity.create() for name in parts}
    known = {name: identity.public for name, identity in identities.items()}
    centers = [
        MaskedCenter(
            Center(name, part, gate=None if policy is None else Gate(policy)),
            SecureSumCenter(name, "study", identities[name], known),
        )
        for name, part in parts.items()
    ]
    return Masked("study", known, Failing(centers, outages))


def assert_same_fit(masked: Masked, parts: Mapping[str, Cohort], method: str) -> None:
    plan = Plan.of(study(method))
    found = estimate(plan, masked)
    plain = estimate(plan, InProcess.from_cohorts(parts))
    assert found.solution.converged
    spread = np.sqrt(np.diag(plain.inference.covariance))
    np.testing.assert_array_equal(
        found.agreement.setting.grid.edges, plain.agreement.setting.grid.edges
    )
    np.testing.assert_allclose(
        found.inference.coefficients / spread,
        plain.inference.coefficients / spread,
        rtol=1e-6,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        np.sqrt(np.diag(found.inference.covariance)) / spread, 1.0, rtol=1e-6
    )
    assert found.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-9)


@pytest.mark.parametrize(
    ("method", "centers"),
    [("newton", 3), ("lbfgs", 3), ("lbfgs", 4), ("newton", 7), ("lbfgs", 20), ("newton", 50)],
)
def test_a_masked_fit_is_the_plain_fit(method: str, centers: int) -> None:
    parts = cohorts(centers, 300 // centers + 5)
    masked = Masked.around(InProcess.from_cohorts(parts))
    assert_same_fit(masked, parts, method)


@pytest.mark.parametrize("method", ["newton", "lbfgs"])
@pytest.mark.parametrize("step", ["ask", "release"])
@pytest.mark.parametrize("asked", [1, 2, 4, 6])
def test_a_fifth_drops_in_mid_round(method: str, step: str, asked: int) -> None:
    parts = cohorts(5, 80)
    lost = ["c03"]
    masked = failing(parts, {(asked, step): lost})
    left = {name: part for name, part in parts.items() if name not in lost}
    assert_same_fit(masked, left, method)
    assert masked.names == tuple(left)


def test_a_lost_center_is_told() -> None:
    masked = failing(cohorts(5, 80), {(5, "ask"): ["c03"]})
    with pytest.warns(LostCentersWarning, match=r"c03 stopped answering"):
        fitted = fit(study(), masked)
    assert [row.name for row in fitted.centers] == ["c00", "c01", "c02", "c04"]
    assert fitted.notices[0].name == "LostCentersWarning"


def test_fifty_centers_of_which_ten_drop() -> None:
    parts = cohorts(50)
    lost = sorted(parts)[5:15]
    left = {name: part for name, part in parts.items() if name not in lost}
    assert_same_fit(
        failing(parts, {(4, "ask"): lost[:6], (6, "release"): lost[6:]}), left, "newton"
    )


def test_a_policy_leaves_room_to_begin_again_without_a_lost_center() -> None:
    """Every hospital counts the questions that it is asked."""
    parts = cohorts(6, 90)
    masked = failing(parts, {(7, "ask"): ["c03"]}, policy=Policy(exact_sums=True))
    left = {name: part for name, part in parts.items() if name != "c03"}
    assert_same_fit(masked, left, "newton")


@pytest.mark.parametrize("method", ["newton", "lbfgs"])
@pytest.mark.parametrize("asked", [1, 2, 3, 5])
def test_a_study_begins_again_where_a_round_is_asked_twice(method: str, asked: int) -> None:
    """One drops before it sends and one after: the others are asked about fewer patients."""
    parts = cohorts(7, 90)
    outages = {(asked, "ask"): ["c03"], (asked, "release"): ["c05"]}
    masked = failing(parts, outages, policy=Policy(exact_sums=True))
    left = {name: part for name, part in parts.items() if name not in ("c03", "c05")}
    assert_same_fit(masked, left, method)
    assert masked.names == tuple(left)


def test_too_few_left_is_an_end_and_no_result() -> None:
    parts = cohorts(4, 60)
    masked = failing(parts, {(4, "ask"): ["c00", "c01"]})
    with pytest.raises(SecureSumError):
        estimate(Plan.of(study()), masked)


@pytest.mark.parametrize(
    "solver",
    [
        {"method": "adam", "steps": 30, "learning_rate": 0.05},
        {"method": "adam", "steps": 20, "batch_size": 100},
        {"method": "fedavg", "rounds": 20, "local_steps": 3},
        {"method": "lbfgs", "scaling": "block"},
    ],
    ids=lambda solver: "-".join(map(str, solver.values())),
)
def test_every_solver_takes_the_same_path(solver: dict[str, Any]) -> None:
    parts = cohorts(4, 60)
    asked = study().to_dict() | {"solver": solver}
    plan = Plan.of(Study.from_dict(asked))
    plain = InProcess.from_cohorts(parts)
    found, expected = estimate(plan, Masked.around(plain)), estimate(plan, plain)
    # Adam divides slopes by their own size, those that are nothing but rounding too.
    close = 1e-4 if solver["method"] == "adam" else 1e-6
    np.testing.assert_allclose(found.solution.beta, expected.solution.beta, atol=close)
    np.testing.assert_allclose(found.solution.alpha, expected.solution.alpha, atol=close)


def test_the_end_of_follow_up_is_found_without_seeing_anyones() -> None:
    parts = cohorts(4, 60)
    plan = Plan.of(study(width=30.0))
    found = estimate(plan, Masked.around(InProcess.from_cohorts(parts)))
    plain = estimate(plan, InProcess.from_cohorts(parts))
    edges, ends = found.agreement.setting.grid.edges, plain.agreement.setting.grid.edges
    np.testing.assert_array_equal(edges[:-1], ends[:-1])
    assert edges[-1] == 30.0 * np.ceil(ends[-1] / 30.0)  # the longest itself is not seen
    assert "longest follow-up" not in {row.query for row in found.ledger}


@pytest.mark.parametrize("reach", [1.0, 30.0, 30.5, 900.0])
def test_the_last_interval_is_that_of_the_plain_federation(reach: float) -> None:
    parts = cohorts(3, 40)
    parts["c01"] = Cohort(
        np.zeros((2, COLUMNS)), np.array([0.5, reach]), np.zeros(2, dtype=np.bool_)
    )
    for name in ("c00", "c02"):  # nobody there reaches further than the first interval
        early = np.full(parts[name].patients, 0.5)
        parts[name] = Cohort(parts[name].covariates, early, parts[name].event)
    question = LastInterval(TimeGrid.regular(30.0, 900.0))
    plain = InProcess.from_cohorts(parts)
    assert Masked.around(plain).ask(question) == plain.ask(question) == np.ceil(reach / 30.0)


def test_only_sums_are_given() -> None:
    masked = Masked.around(InProcess.from_cohorts(cohorts(3)))
    assert not masked.shows_centers
    with pytest.raises(SecureSumError, match=r"Single centers' replies"):
        masked.ask_together([], each=[OutcomeCounts()])
    with pytest.raises(RefusedError, match=r"cannot be masked"):
        masked.ask(EventTimes())
    total: Outcomes = masked.ask(OutcomeCounts())
    assert total.patients == sum(part.patients for part in cohorts(3).values())


@pytest.mark.parametrize("centers", [1, 2])
def test_two_centers_cannot_hide_in_a_sum(centers: int) -> None:
    with pytest.raises(SecureSumError, match=r"at least 3 centers"):
        Masked.around(InProcess.from_cohorts(cohorts(centers)))


def test_a_study_that_asks_for_secure_sums_gets_them() -> None:
    parts = cohorts(3, 80)
    fitted = fit(study(), InProcess.from_cohorts(parts))
    assert {row.protection for row in fitted.ledger} == {"keys", "masks"}
    assert [(row.name, row.patients) for row in fitted.centers] == [
        (name, None) for name in parts
    ]
    assert fitted.patients == sum(part.patients for part in parts.values())
    assert fitted.concordance is None


def test_numbers_that_do_not_fit_are_refused_and_nothing_is_summed() -> None:
    parts = cohorts(3, 40)
    wild = parts["c01"]
    parts["c01"] = Cohort(wild.covariates * 1e13, wild.time, wild.event)
    with pytest.raises(SecureSumError, match=r"out of range"):
        estimate(Plan.of(study()), Masked.around(InProcess.from_cohorts(parts)))
