"""Centers under masks that follow the study: honest studies pass, others are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedcox.analysis.fit import estimate, fit
from fedcox.analysis.plan import Plan
from fedcox.analysis.replay import Replay
from fedcox.analysis.study import Study
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import InProcessCarrier, Masked
from fedcox.errors import RefusedError
from fedcox.federation.center import Center
from fedcox.federation.evidence import Evidence
from fedcox.federation.ledger import Ledger
from fedcox.federation.masked_center import MaskedCenter, MaskedReply
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.query import AbstractQuery, Answer
from fedcox.privacy.gate import Gate
from fedcox.privacy.policy import Policy
from fedcox.survival.cohort import Cohort
from fedcox.survival.derivatives import Detail
from fedcox.survival.time_grid import TimeGrid
from tests.engines.test_masked import assert_same_fit, cohorts, failing, study

Queries = Sequence[AbstractQuery[Any]]
Change = Callable[[Masked, Queries], Any]

NOT_NEXT = r"\[questions\] study: this is not what the study asks next"
NOT_SHOWN = r"\[questions\] study: the sum of the last round"


def plan(**solver: Any) -> Plan:
    return Plan.of(Study.from_dict(study().to_dict() | {"solver": solver}))


NEWTON = plan(method="newton")


def following(
    parts: Mapping[str, Cohort], chosen: Plan = NEWTON, policy: Policy | None = None
) -> Masked:
    limits = Policy() if policy is None else policy
    numbered = InProcess.from_cohorts(parts).centers
    centers = [replace(center, gate=Gate(limits)) for center in numbered]
    return Masked.of_centers(centers, check=Replay(chosen))


@pytest.mark.parametrize(
    "solver",
    [
        {"method": "newton"},
        {"method": "lbfgs"},
        {"method": "lbfgs", "scaling": "block"},
        {"method": "adam", "steps": 20, "learning_rate": 0.05},
        {"method": "adam", "steps": 10, "batch_size": 100},
        {"method": "adam", "steps": 10, "compression": "random-k"},
        {"method": "fedavg", "rounds": 8, "local_steps": 3},
    ],
    ids=lambda solver: "-".join(map(str, solver.values())),
)
def test_every_honest_study_passes_and_is_the_plain_fit(solver: dict[str, Any]) -> None:
    parts, chosen = cohorts(4, 80), plan(**solver)
    found = estimate(chosen, following(parts, chosen, Policy.without_limits()))
    plain = estimate(chosen, InProcess.from_cohorts(parts))
    close = 1e-4 if solver["method"] == "adam" else 1e-6
    np.testing.assert_allclose(found.solution.beta, plain.solution.beta, atol=close)
    np.testing.assert_allclose(found.solution.alpha, plain.solution.alpha, atol=close)


@pytest.mark.parametrize("method", ["newton", "lbfgs"])
def test_under_the_default_limits_too(method: str) -> None:
    parts = cohorts(5, 90)
    assert_same_fit(following(parts, plan(method=method)), parts, method)


@pytest.mark.parametrize("step", ["ask", "release"])
@pytest.mark.parametrize(
    ("method", "asked"), [("newton", 1), ("newton", 2), ("newton", 5), ("lbfgs", 4)]
)
def test_a_center_is_lost_before_or_after_it_sent(method: str, step: str, asked: int) -> None:
    parts = cohorts(5, 80)
    masked = failing(
        parts, {(asked, step): ["c03"]}, Policy(), check=Replay(plan(method=method))
    )
    left = {name: part for name, part in parts.items() if name != "c03"}
    assert_same_fit(masked, left, method)
    assert masked.names == tuple(left)


@pytest.mark.parametrize("asked", [1, 2, 5])
def test_centers_are_lost_before_and_after_in_one_round(asked: int) -> None:
    parts = cohorts(7, 70)
    outages = {(asked, "ask"): ["c03"], (asked, "release"): ["c05"]}
    masked = failing(parts, outages, Policy(), check=Replay(NEWTON))
    left = {name: part for name, part in parts.items() if name not in ("c03", "c05")}
    assert_same_fit(masked, left, "newton")


def test_centers_are_lost_one_after_the_other() -> None:
    parts = cohorts(7, 70)
    outages = {(3, "ask"): ["c01"], (5, "release"): ["c03"], (9, "ask"): ["c05"]}
    masked = failing(parts, outages, Policy(), check=Replay(NEWTON))
    lost = {"c01", "c03", "c05"}
    left = {name: part for name, part in parts.items() if name not in lost}
    assert_same_fit(masked, left, "newton")


class Cheating:
    """A coordinator that is honest up to one round, and asks something else then."""

    shows_centers = False
    in_one_process = False

    def __init__(
        self, masked: Masked, at: int, change: Callable[[Masked, Queries], Any]
    ) -> None:
        self.masked, self.at, self.change, self.asked = masked, at, change, 0

    @property
    def names(self) -> tuple[str, ...]:
        return self.masked.names

    @property
    def ledger(self) -> Ledger:
        return self.masked.ledger

    def evidence(self) -> Evidence | None:
        return self.masked.evidence()

    def ask(self, query: AbstractQuery[Answer]) -> Answer:
        answer: Answer = self.ask_together([query])[0]
        return answer

    def ask_together(self, queries: Queries, each: Queries = ()) -> list[Any]:
        self.asked += 1
        if self.asked != self.at:
            return self.masked.ask_together(queries, each)
        replies: list[Any] = self.change(self.masked, queries)
        return replies


def cheated(at: int, change: Change) -> None:
    estimate(NEWTON, Cheating(following(cohorts(3, 120)), at, change))


def moved(by: float) -> Change:
    def ask(masked: Masked, queries: Queries) -> Any:
        (query,) = queries
        assert isinstance(query, DerivativesAt)
        beta = query.beta.copy()
        beta[1] += by
        return masked.ask_together([replace(query, beta=beta)])

    return ask


def in_more_detail(masked: Masked, queries: Queries) -> Any:
    (query,) = queries
    assert isinstance(query, DerivativesAt)
    other = Detail.INFORMATION if query.detail is Detail.HESSIAN else Detail.HESSIAN
    return masked.ask_together([replace(query, detail=other)])


def twice(masked: Masked, queries: Queries) -> Any:
    masked.ask_together(queries)
    return masked.ask_together(queries)


def with_another(masked: Masked, queries: Queries) -> Any:
    return masked.ask_together([*queries, OutcomeCounts()])


def made_up(masked: Masked, queries: Queries) -> Any:
    """The round is skipped, with sums from elsewhere."""
    return InProcess.from_cohorts(cohorts(3, 120)).ask_together(queries)


def on_a_grid(width: float) -> Change:
    def ask(masked: Masked, queries: Queries) -> Any:
        return masked.ask_together(
            [CovariateSums(), IntervalCounts(TimeGrid.regular(width, 900.0), "include")]
        )

    return ask


@pytest.mark.parametrize("at", [3, 6])
@pytest.mark.parametrize(
    "change", [moved(1e-3), moved(-1e-7), in_more_detail, twice, with_another]
)
def test_a_question_of_the_coordinators_own_is_refused(at: int, change: Any) -> None:
    with pytest.raises(RefusedError, match=NOT_NEXT):
        cheated(at, change)


class Elsewhere(Cheating):
    """A coordinator on another machine, whose arithmetic ends in other digits."""

    def __init__(self, masked: Masked) -> None:
        super().__init__(masked, 0, twice)
        self.rng = np.random.default_rng(0)

    def ask_together(self, queries: Queries, each: Queries = ()) -> list[Any]:
        return super().ask_together([self.computed(query) for query in queries], each)

    def computed(self, query: AbstractQuery[Any]) -> AbstractQuery[Any]:
        if not isinstance(query, DerivativesAt):
            return query
        digits = self.rng.uniform(-1e-12, 1e-12, query.alpha.size + query.beta.size)
        alpha, beta = np.split(digits, [query.alpha.size])
        return replace(query, alpha=query.alpha + alpha, beta=query.beta + beta)


@pytest.mark.parametrize(
    "solver",
    [
        {"method": "newton"},
        {"method": "lbfgs"},
        {"method": "adam", "steps": 20, "learning_rate": 0.05},
    ],
    ids=lambda solver: solver["method"],
)
def test_another_machines_last_digits_do_not_matter(solver: dict[str, Any]) -> None:
    chosen = plan(**solver)
    found = estimate(chosen, Elsewhere(following(cohorts(3, 120), chosen)))
    plain = estimate(chosen, InProcess.from_cohorts(cohorts(3, 120)))
    np.testing.assert_allclose(found.solution.beta, plain.solution.beta, atol=1e-4)


@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_a_round_is_not_skipped(at: int) -> None:
    with pytest.raises(RefusedError, match=NOT_NEXT):
        cheated(at, made_up)


@pytest.mark.parametrize("width", [15.0, 60.0, float(np.nextafter(30.0, 0.0))])
def test_another_grid_is_refused(width: float) -> None:
    with pytest.raises(RefusedError, match=NOT_NEXT):
        cheated(1, on_a_grid(width))


def test_after_the_end_nothing_is_answered() -> None:
    masked = following(cohorts(3, 120))
    estimate(NEWTON, masked)
    with pytest.raises(RefusedError, match=NOT_NEXT):
        masked.ask(OutcomeCounts())
    with pytest.raises(RefusedError, match=NOT_NEXT):
        estimate(NEWTON, masked)


def test_another_study_is_refused() -> None:
    masked = following(cohorts(3, 120))
    with pytest.raises(RefusedError, match=NOT_NEXT):
        estimate(plan(method="lbfgs"), masked)


class Showing(InProcessCarrier):
    """Shows centers what it likes of the round before."""

    shown: Callable[[bytes], bytes | None]

    def ask(
        self,
        names: Sequence[str],
        queries: Queries,
        round_number: int,
        previous: bytes | None,
    ) -> dict[str, MaskedReply]:
        shown = None if previous is None else self.shown(previous)
        return super().ask(names, queries, round_number, shown)


def first_of(kept: list[bytes]) -> Callable[[bytes], bytes]:
    def shown(previous: bytes) -> bytes:
        kept.append(previous)
        return kept[0]

    return shown


@pytest.mark.parametrize(
    "shown",
    [
        lambda previous: None,
        lambda previous: b"",
        lambda previous: previous[:-1] + bytes([previous[-1] ^ 1]),
        first_of([]),
    ],
    ids=["nothing", "empty", "altered", "an older one"],
)
def test_a_sum_that_is_not_the_last_rounds_is_refused(
    shown: Callable[[bytes], bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Showing, "shown", staticmethod(shown), raising=False)
    monkeypatch.setattr("fedcox.engines.masked.InProcessCarrier", Showing)
    with pytest.raises(RefusedError, match=NOT_SHOWN):
        estimate(NEWTON, following(cohorts(3, 120)))


def test_refusals_are_counted() -> None:
    limits = Policy(questions={"refusals": 3})
    masked = following(cohorts(3, 120), policy=limits)
    for _ in range(3):
        with pytest.raises(RefusedError, match=NOT_NEXT):
            masked.ask(OutcomeCounts())
    with pytest.raises(RefusedError, match=r"\[questions\] refusals: 3"):
        estimate(NEWTON, masked)


def test_a_study_with_limits_and_secure_sums_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bool] = []
    reply = MaskedCenter.reply

    def noting(center: MaskedCenter, *asked: Any) -> MaskedReply:
        seen.append(center.study is not None)
        return reply(center, *asked)

    monkeypatch.setattr(MaskedCenter, "reply", noting)
    parts = cohorts(3, 120)
    limited = [Center(name, part, gate=Gate(Policy())) for name, part in parts.items()]
    followed = fit(study(), InProcess(limited))
    assert seen
    assert all(seen)
    seen.clear()
    free = fit(study(), InProcess.from_cohorts(parts))
    assert seen
    assert not any(seen)
    assert followed.bytes_down > free.bytes_down
    assert [row.coef for row in followed.coefficients] == [
        row.coef for row in free.coefficients
    ]
