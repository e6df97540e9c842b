"""Groups claimed under masks are believed only if the centers themselves counted them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

from fedcox.analysis.agreement import agree
from fedcox.analysis.plan import Plan
from fedcox.analysis.study import Study
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.errors import RefusedError
from fedcox.federation.center import Center
from fedcox.federation.evidence import Evidence
from fedcox.federation.queries.covariate_scatter import CovariateScatter
from fedcox.federation.queries.covariate_sums import CovariateSums
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.queries.local_steps import LocalSteps, LocalTraining
from fedcox.federation.queries.outcome_counts import OutcomeCounts
from fedcox.federation.setting import Setting
from fedcox.privacy.gate import Gate
from fedcox.privacy.policy import Policy
from fedcox.privacy.transcript import Transcript
from fedcox.survival.cohort import Cohort
from fedcox.survival.derivatives import Detail
from fedcox.survival.interval_merging import leavers_within, merged_leavers
from fedcox.survival.time_grid import CensoredInterval, Pieces, TimeGrid, grouped_grid
from tests.privacy.parties import flipped

#: Long before it fewer than ten are at risk, so that the grid is cut.
HORIZON = 3000.0
READINGS: tuple[CensoredInterval, ...] = ("include", "exclude", "half")


def cohort(patients: int, seed: int) -> Cohort:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(patients, 2))
    happens, censored = rng.exponential(300, patients), rng.exponential(500, patients)
    return Cohort(x, np.minimum(happens, censored) + 0.5, happens < censored)


COHORTS = {f"c{k}": cohort(60 + k, seed=k) for k in range(4)}


def plan(reading: CensoredInterval = "include") -> Plan:
    return Plan.of(
        Study(
            outcome={"time": "t", "event": "e"},
            covariates=["x0", "x1"],
            grid={"width": 30.0, "horizon": HORIZON},
            model={"link": "cloglog", "censored_interval": reading},
            privacy={"secure_sums": True},
        )
    )


def federation(*, limits: bool = True, study: str = "study") -> Masked:
    patient = Policy(questions={"refusals": 1000})  # many claims are tried in turn
    centers = [
        Center(name, own, gate=Gate(patient) if limits else None)
        for name, own in COHORTS.items()
    ]
    return Masked.of_centers(centers, study=study)


@dataclass(frozen=True, eq=False)
class Scene:
    masked: Masked
    setting: Setting

    def ask(self, **changes: Any) -> None:
        ask(self.masked, changed(self.setting, **changes))


def changed(setting: Setting, **changes: Any) -> Setting:
    """Not `replace`, which would keep what was prepared for the old one."""
    public = {part.name: getattr(setting, part.name) for part in fields(setting)}
    own = {name: value for name, value in public.items() if not name.startswith("_")}
    return Setting(**{**own, **changes})


def ask(masked: Masked, setting: Setting) -> None:
    alpha = np.full(setting.intervals, -2.0)
    masked.ask(DerivativesAt(setting, alpha, np.zeros(setting.columns), Detail.GRADIENT))


def agreed(reading: CensoredInterval = "include", *, limits: bool = True) -> Scene:
    masked = federation(limits=limits)
    return Scene(masked, agree(plan(reading), masked).setting)


def evidence_of(scene: Scene) -> Evidence:
    assert scene.setting.evidence is not None
    return scene.setting.evidence


def joined(masked: Masked, setting: Setting, own: TimeGrid, ends: list[int]) -> Setting:
    """Other intervals of a true life table joined, and truly counted."""
    life = masked.ask_together([CovariateSums(), IntervalCounts(own, "include")])[1]
    last = np.isin(np.arange(1, own.intervals + 1), ends)
    every = np.ones(len(ends), dtype=np.bool_)
    parts = life.patients, life.at_risk, life.events
    counted = leavers_within(every, merged_leavers(*parts, last, setting.reading))
    evidence = masked.evidence()
    return changed(
        setting, grid=own.merged(last), active=every, leavers=counted, evidence=evidence
    )


@pytest.mark.parametrize("reading", READINGS)
def test_an_honest_claim_is_believed_in_every_reading(reading: CensoredInterval) -> None:
    scene = agreed(reading)
    scene.ask()
    ask(scene.masked, scene.setting)
    assert scene.setting.leavers is not None
    pooled = np.sum(
        [
            scene.setting.placed(own).leavers(scene.setting.intervals)
            for own in COHORTS.values()
        ],
        axis=0,
    )
    np.testing.assert_array_equal(scene.setting.leavers, pooled)


def pieces() -> Scene:
    """The same patients with exact time: pieces cut where the events are."""
    study = Study(
        outcome={"time": "t", "event": "e"},
        covariates=["x0", "x1"],
        privacy={"secure_sums": True},
    )
    masked = federation()
    return Scene(masked, agree(Plan.of(study), masked).setting)


def test_an_honest_claim_on_pieces_is_believed() -> None:
    scene = pieces()
    scene.ask()
    assert scene.setting.leavers is not None
    own = [
        scene.setting.placed(cohort).leavers(scene.setting.intervals)
        for cohort in COHORTS.values()
    ]
    np.testing.assert_array_equal(scene.setting.leavers, np.sum(own, axis=0))
    assert scene.setting.leavers[1, 1:].min() >= 10  # events in each piece


def test_other_pieces_than_those_that_were_counted_are_refused() -> None:
    scene = pieces()
    grid, leavers = scene.setting.grid, scene.setting.leavers
    assert isinstance(grid, Pieces)
    assert leavers is not None
    moved = grid.bounds.copy()
    moved[2] += 0.25
    forged: dict[str, dict[str, Any]] = {
        "one bound moved": {"grid": Pieces(moved, grid.unit)},
        "in another unit": {"grid": Pieces.on_units(grid.bounds, 1.0)},
        "as event times": {"grid": Pieces(grid.bounds, None, np.ones_like(grid.edges, int))},
        "a shorter time": {
            "grid": Pieces(grid.bounds[:-1]),
            "active": np.ones(grid.intervals - 1, dtype=np.bool_),
        },
        "as grouped time": {"grid": TimeGrid(grid.edges)},
        "another piece fitted": {"active": ~scene.setting.active},
        "more patients": {"leavers": leavers + 1},
    }
    for name, changes in forged.items():
        with pytest.raises(RefusedError, match=r"\[groups\]"):
            scene.ask(**changes)
        assert name
    scene.ask()


def test_a_claim_of_more_patients_is_refused() -> None:
    scene = agreed()
    assert scene.setting.leavers is not None
    for place in np.ndindex(*scene.setting.leavers.shape):
        more = scene.setting.leavers.copy()
        more[place] += 1
        with pytest.raises(RefusedError, match=r"not those of the centers' life table"):
            scene.ask(leavers=more)
    scene.ask()


def test_a_false_claim_is_refused_where_centers_take_steps_of_their_own() -> None:
    scene = agreed()
    assert scene.setting.leavers is not None
    more = scene.setting.leavers.copy()
    more[0, 1] += 1
    size = scene.setting.intervals + scene.setting.columns
    alpha, beta = np.full(scene.setting.intervals, -2.0), np.zeros(scene.setting.columns)

    def steps(setting: Setting) -> LocalSteps:
        training = LocalTraining(setting, np.zeros(beta.size), np.ones(size), "sgd", steps=1)
        return LocalSteps(training, alpha, beta, 0.1, 1)

    with pytest.raises(RefusedError, match=r"not those of the centers' life table"):
        scene.masked.ask(steps(changed(scene.setting, leavers=more)))
    with pytest.raises(
        RefusedError, match=r"may not be asked here"
    ):  # true, and still too much
        scene.masked.ask(steps(scene.setting))


def test_no_evidence_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"without a life table"):
        agreed().ask(evidence=None)


def test_intervals_that_end_elsewhere_are_refused() -> None:
    scene = agreed()
    grid = grouped_grid(scene.setting.grid)
    assert grid.ends is not None
    ends = grid.ends.copy()
    ends[np.flatnonzero(np.diff(ends) > 1)[0] + 1] -= 1
    own = evidence_of(scene).grid
    forged = {
        "edges alone": TimeGrid(grid.edges - 0.5, grid.width, grid.ends),
        "ends alone": TimeGrid(grid.edges, grid.width, ends),
        "both": TimeGrid(own.edges[ends - 1], grid.width, ends),
        "another width": TimeGrid(grid.edges / 2, 15.0, grid.ends),
        "beyond the life table": TimeGrid(
            np.append(grid.edges, 9000.0), grid.width, np.append(grid.ends, 300)
        ),
        "as instants": TimeGrid(grid.edges),
        "not joined": own,
    }
    for what, other in forged.items():
        active = np.ones(other.intervals, dtype=np.bool_)
        claimed = np.full((2, other.intervals + 1), 1000)
        # "both" is a way of joining them, so it is the claim that is false.
        reason = "the centers' life table" if what == "both" else "the life table, joined"
        with pytest.raises(
            RefusedError, match=rf"\[groups\] interval: .* not those of {reason}"
        ):
            scene.ask(grid=other, active=active, leavers=claimed)


def test_a_life_table_on_intervals_of_another_kind_is_refused() -> None:
    """Edges that are not multiples of the width would count some patients elsewhere."""
    masked = federation()
    setting = agreed().setting
    own = TimeGrid(np.linspace(23.0, 593.0, 20), width=30.0)
    with pytest.raises(RefusedError, match=r"not on intervals of one width"):
        ask(masked, joined(masked, setting, own, [5, 10, 20]))


def test_another_reading_or_other_fitted_intervals_need_other_counts() -> None:
    scene = agreed("include")
    with pytest.raises(RefusedError, match=r"not those of the centers' life table"):
        scene.ask(reading="exclude")
    with pytest.raises(RefusedError, match=r"no such reading"):
        scene.ask(reading="some other")
    fewer = scene.setting.active.copy()
    fewer[0] = False
    with pytest.raises(RefusedError, match=r"not those of the centers' life table"):
        scene.ask(active=fewer)


def of_another_session(scene: Scene) -> Evidence:
    return evidence_of(agreed())


def of_another_study(scene: Scene) -> Evidence:
    masked = federation(study="another study")
    return evidence_of(Scene(masked, agree(plan(), masked).setting))


def of_another_grid(scene: Scene) -> Evidence:
    """A true sum, said to be on the grid of the study."""
    evidence = evidence_of(scene)
    finer_grid = TimeGrid.regular(60.0, HORIZON)
    scene.masked.ask_together([CovariateSums(), IntervalCounts(finer_grid, "include")])
    finer = scene.masked.evidence()
    assert finer is not None
    return replace(finer, grid=evidence.grid)


def of_another_question(scene: Scene) -> Evidence:
    evidence = evidence_of(scene)
    return replace(evidence, before=(OutcomeCounts().digest, *evidence.before[1:]))


def with_altered(part: str) -> Callable[[Scene], Evidence]:
    def alter(scene: Scene) -> Evidence:
        evidence = evidence_of(scene)
        told = Transcript.from_bytes(evidence.transcript)
        parts = dict(getattr(told, part))
        parts["c2"] = flipped(parts["c2"])
        change: dict[str, Any] = {part: parts}
        return replace(evidence, transcript=replace(told, **change).to_bytes())

    return alter


FORGED: dict[str, tuple[Callable[[Scene], Evidence], str]] = {
    "of another session": (of_another_session, "not validly signed"),
    "of another study": (of_another_study, "not validly signed"),
    "of another grid": (of_another_grid, "of another question"),
    "of another question": (of_another_question, "not summed together with"),
    "with an altered vector": (with_altered("vectors"), "not validly signed"),
    "with an altered release": (with_altered("releases"), "not validly signed"),
    "of questions in another order": (
        lambda scene: replace(evidence_of(scene), before=()),
        "not summed together with",
    ),
    "of questions run together": (
        lambda scene: replace(evidence_of(scene), before=(bytes(64),)),
        "not summed together with",
    ),
    "of nothing": (
        lambda scene: replace(evidence_of(scene), transcript=b""),
        "cut or malformed",
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_evidence_is_refused_if_it_is(what: str) -> None:
    scene = agreed()
    forge, reason = FORGED[what]
    with pytest.raises(RefusedError, match=reason):
        scene.ask(evidence=forge(scene))
    scene.ask()


def test_the_life_table_must_be_the_last_question_of_its_round() -> None:
    """Else the coordinator would say where in the sum it begins."""
    masked, setting = federation(), agreed().setting
    grid = TimeGrid.regular(30.0, HORIZON)
    masked.ask_together([IntervalCounts(grid, "include"), OutcomeCounts()])
    assert masked.evidence() is None
    masked.ask_together([OutcomeCounts(), IntervalCounts(grid, "exclude")])
    assert masked.evidence() is None
    masked.ask_together([CovariateSums(), IntervalCounts(grid, "include")])
    evidence = masked.evidence()
    ask(masked, changed(setting, evidence=evidence))


@pytest.mark.parametrize("claim", ["mean", "values", "no evidence"])
def test_means_that_levels_are_judged_by_cannot_be_claimed(claim: str) -> None:
    """A rare level would pass for a common one, and the scatter tell who has it."""
    scene = agreed()
    masked, evidence = scene.masked, evidence_of(scene)
    sums = masked.ask(CovariateSums())
    honest = CovariateScatter(sums.mean, sums.present, evidence)
    masked.ask(honest)
    forged = {
        "mean": replace(honest, mean=sums.mean + 0.1),
        "values": replace(honest, present=10 * sums.present),
        "no evidence": replace(honest, evidence=None),
    }
    with pytest.raises(RefusedError, match=r"\[groups\] level"):
        masked.ask(forged[claim])


def test_a_setting_has_the_means_of_the_centers() -> None:
    scene = agreed()
    scaling = scene.setting.scaling
    with pytest.raises(RefusedError, match=r"\[groups\] level: the means"):
        scene.ask(scaling=replace(scaling, mean=scaling.mean + 0.1))
    with pytest.raises(RefusedError, match=r"\[groups\] level: the columns"):
        scene.ask(scaling=replace(scaling, keep=scaling.keep[::-1], mean=scaling.mean[::-1]))


def test_a_scale_narrower_than_the_patients_is_refused() -> None:
    """Else coefficients could be longer than the limit on their length says."""
    scene = agreed()
    scaling = scene.setting.scaling
    with pytest.raises(RefusedError, match=r"vary more than the study's scale says"):
        scene.ask(scaling=replace(scaling, spread=scaling.spread / 10.0))


def test_a_life_table_of_more_centers_than_are_asked_is_refused() -> None:
    scene = agreed()
    scene.ask()
    masked = scene.masked
    masked._sums._centers = masked.names[:3]
    with pytest.raises(RefusedError, match=r"over other centers"):
        ask(masked, scene.setting)  # though it was checked before, for all
    with pytest.raises(RefusedError, match=r"over other centers"):
        scene.ask()


def test_two_ways_of_joining_intervals_are_refused_though_both_have_large_groups() -> None:
    own = TimeGrid.regular(30.0, 610.0)
    masked, setting = federation(), agreed().setting
    first = joined(masked, setting, own, [4, 10, 21])
    second = joined(masked, setting, own, [5, 10, 21])
    coarser = joined(masked, setting, own, [10, 21])
    ask(masked, first)
    with pytest.raises(RefusedError, match=r"\[groups\] one_grid: 1 intervals end elsewhere"):
        ask(masked, second)
    ask(masked, coarser)
    ask(masked, first)
    other = federation()
    ask(other, joined(other, setting, own, [5, 10, 21]))  # by itself it may be asked


def test_a_refused_grid_does_not_become_the_finest() -> None:
    own = TimeGrid.regular(30.0, 610.0)
    masked, setting = federation(), agreed().setting
    with pytest.raises(RefusedError, match=r"\[groups\] interval: the smallest has"):
        ask(masked, joined(masked, setting, own, list(range(1, 22))))
    ask(masked, joined(masked, setting, own, [4, 10, 21]))
    with pytest.raises(RefusedError, match=r"\[groups\] one_grid"):
        ask(masked, joined(masked, setting, own, [5, 10, 21]))


def test_without_limits_nothing_has_to_be_believed() -> None:
    agreed(limits=False).ask(evidence=None)


def test_what_the_evidence_adds_to_the_bytes() -> None:
    scene = agreed()
    evidence = evidence_of(scene)
    told = Transcript.from_bytes(evidence.transcript)
    integers = len(told.vectors["c0"])
    assert evidence.numbers * 8 < len(COHORTS) * (integers + 64 + 16 * 4 + 20) + 250
    scatter = CovariateScatter(np.zeros(2), np.full(2, 240.0), evidence)
    assert scatter.numbers == replace(scatter, evidence=None).numbers + evidence.numbers
    # It is sent once, and named again with the setting.
    assert scene.setting.numbers == changed(scene.setting, evidence=None).numbers


def test_in_the_open_there_is_no_evidence() -> None:
    assert InProcess.from_cohorts(COHORTS).evidence() is None  # type: ignore[func-returns-value]
