"""The list that a data manager approves, against what studies ask."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.errors import FedcoxWarning
from fedcox.federation.center import Center
from fedcox.federation.queries.interval_counts import IntervalCounts
from fedcox.federation.queries.last_interval import LastInterval
from fedcox.federation.query import AbstractQuery
from fedcox.federation.setting import Setting
from fedcox.privacy.study_memory import StudyMemory
from fedcox.study.asked import asked_by
from fedcox.study.cells import cells_between
from fedcox.study.fit import fit
from fedcox.study.noised_fit import public_pieces
from fedcox.study.study import Study
from fedcox.study.study_scope import StudyScope
from fedcox.survival.time_grid import Pieces
from tests.deployment.hospitals import STUDY, frames, study

SOLVERS = {
    "newton": 'method = "newton"',
    "lbfgs": 'method = "lbfgs"',
    "adam": 'method = "adam"\nsteps = 3',
    "batches": 'method = "adam"\nsteps = 3\nbatch_size = 50',
    "compressed": 'method = "adam"\nsteps = 3\ncompression = "8-bit"',
    "compressed batches": ('method = "adam"\nsteps = 3\nbatch_size = 50\ncompression = "sign"'),
    "fedavg": 'method = "fedavg"\nrounds = 2',
}
GRIDS = {
    "as given": STUDY,
    "no horizon": STUDY.replace("horizon = 720\n", ""),
    "no grid": STUDY.replace("[grid]\nwidth = 60\nhorizon = 720\n", ""),
    "pieces": STUDY.replace("width = 60", "pieces = 7"),
    "edges": STUDY.replace("width = 60\nhorizon = 720", "edges = [60, 200, 720]"),
    "event times": STUDY.replace("width = 60\nhorizon = 720\n", 'times = "events"\n'),
}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_study_asks_nothing_that_is_not_on_its_list(solver: str, grid: str) -> None:
    plan = study(f"{GRIDS[grid]}\n[solver]\n{SOLVERS[solver]}\n")
    assert asked(plan) <= set(asked_by(plan))


@pytest.mark.parametrize("grid", ["as given", "no horizon"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "adam"])
def test_nor_does_one_under_masks(solver: str, grid: str) -> None:
    masked = "[privacy]\nsecure_sums = true\nnoise = 'none'"
    plan = study(f"{GRIDS[grid]}\n[solver]\n{SOLVERS[solver]}\n{masked}\n")
    assert asked(plan) - {"key set-up"} <= set(asked_by(plan))


def asked(plan: Study) -> set[str]:
    """The names of all questions; and each keeps to what the study fixes."""
    federation = Heard(InProcess.from_frame(plan, frames()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        fitted = fit(plan, federation.inner)
    assert federation.queries
    assert all(map(StudyScope(plan).allows, federation.queries))
    return {row.query for row in fitted.ledger}


class Heard:
    """Centers in this process that remember what they were asked."""

    def __init__(self, inner: InProcess) -> None:
        self.queries: list[AbstractQuery[Any]] = []
        heard = self.queries

        class Listening(Center):
            def answer(self, query: Any, **how: Any) -> Any:
                heard.append(query)
                return super().answer(query, **how)

        self.inner = InProcess(  # apart, as between hospitals
            [
                Listening(each.name, each.cohort, each.dropped, noise=each.noise)
                for each in inner.centers
            ],
            apart=True,
        )


#: What makes another study, of either link or of exact time alone.
CHANGES = [
    ("width = 60", "width = 1"),
    ("width = 60", "width = 30"),
    ("horizon = 720", "horizon = 701"),
    ("horizon = 720\n", ""),
    ("width = 60\nhorizon = 720", 'times = "events"'),
]
EXACT_CHANGES = [
    ("width = 60\n", ""),
    ("width = 60\nhorizon = 720", "edges = [100, 720]"),
    ('unit = "days"', 'unit = "days"\nresolution = 6.5'),
]


@pytest.mark.parametrize(
    ("link", "change"),
    [
        *(("log", change) for change in [*CHANGES, *EXACT_CHANGES]),
        *(("cloglog", change) for change in CHANGES),
        ("log", ('link = "log"', 'link = "cloglog"')),
        ("cloglog", ('link = "cloglog"', 'link = "logit"')),
    ],
)
def test_questions_of_another_study_do_not_keep_to_this_one(
    link: str, change: tuple[str, str]
) -> None:
    own = STUDY.replace("[grid]", f'[model]\nlink = "{link}"\n\n[grid]')
    own = own.replace('event = "died"', 'event = "died"\nunit = "days"')
    assert change[0] in own
    assert not _all_keep(own.replace(*change), own)
    assert _all_keep(own, own)


def test_another_reading_of_censored_intervals_does_not_keep_to_the_study() -> None:
    own = STUDY.replace("[grid]", '[model]\nlink = "cloglog"\n\n[grid]')
    other = own.replace("cloglog", 'cloglog"\ncensored_interval = "half')
    assert not _all_keep(other, own)


def _all_keep(asked: str, to: str) -> bool:
    """Whether every question of one study keeps to another."""
    federation = Heard(InProcess.from_frame(study(asked), frames()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        fit(study(asked), federation.inner)
    return all(map(StudyScope(study(to)).allows, federation.queries))


NOISED = STUDY + "\n[privacy.noise]\nepsilon = 30\npatients = 630\n"


@pytest.mark.parametrize("grid", ["as given", "pieces", "edges", "no width"])
def test_a_study_under_noise_keeps_to_itself(grid: str) -> None:
    text = {**GRIDS, "no width": STUDY.replace("width = 60\n", "")}[grid]
    plan = study(NOISED.replace(STUDY, text))
    assert asked(plan) <= set(asked_by(plan))


@pytest.mark.parametrize(
    "change",
    [
        ("width = 60", "width = 30"),
        ("width = 60", "pieces = 12"),
        ("width = 60\nhorizon = 720", "edges = [60, 200, 720]"),
        ("horizon = 720", "horizon = 690"),
        ("max = 120", "max = 100"),
        ('event = "died"', 'event = "died"\nresolution = 7'),
    ],
    ids=lambda change: change[1],
)
def test_under_noise_questions_of_another_study_do_not_keep_to_this_one(
    change: tuple[str, str],
) -> None:
    assert not _all_keep(NOISED.replace(*change), NOISED)
    assert not _all_keep(NOISED, NOISED.replace(*change))


def test_more_pieces_than_the_study_names_do_not_keep_to_it() -> None:
    few, many = (NOISED.replace("width = 60", f"pieces = {number}") for number in (4, 9))
    assert not _all_keep(many, few)


def test_under_noise_pieces_are_few_and_of_the_studys_own_record() -> None:
    plan = study(NOISED.replace("width = 60", "pieces = 4"))
    federation = Heard(InProcess.from_frame(plan, frames()))
    fit(plan, federation.inner)
    own: Any = next(query for query in federation.queries if query.point is not None)
    grid, cells = own.agreed.grid, public_pieces(plan)[0]
    for bounds, unit, allowed in (
        (grid.bounds, grid.unit, True),
        (cells.bounds[[0, 5, 10, 15, -1]], grid.unit, True),
        (cells.bounds[[0, 5, 10, 15, 20, -1]], grid.unit, False),
        (cells.bounds[[1, 10, 15, -1]], grid.unit, False),
        (cells.bounds[[0, 10, 15, -1]], 2.0 * (grid.unit or 1.0), False),
        (cells.bounds[[0, 10, -1]] * [1.0, 1.001, 1.0], grid.unit, False),
    ):
        pieces = Pieces(bounds, unit)
        active = np.ones(pieces.intervals, dtype=np.bool_)
        other = replace(own, agreed=replace(own.agreed, grid=pieces, active=active))
        assert StudyScope(plan).allows(other) == allowed


@pytest.mark.parametrize("text", [STUDY, NOISED], ids=["exact", "noise"])
def test_a_second_grid_among_the_same_centers_does_not_keep_to_the_study(
    text: str, tmp_path: Path
) -> None:
    """Each may be the study's; together they would tell what is between their bounds."""
    plan = study(text.replace("width = 60", "pieces = 6"))
    federation = Heard(InProcess.from_frame(plan, frames()))
    fit(plan, federation.inner)
    first = next(query for query in federation.queries if query.point is not None)
    assert isinstance(first.setting, Setting)
    assert isinstance(first.setting.grid, Pieces)
    bounds = first.setting.grid.bounds
    coarser = Pieces(np.delete(bounds, 2), first.setting.grid.unit)
    active = np.ones(coarser.intervals, dtype=np.bool_)
    other = replace(
        first,  # type: ignore[type-var]  # every question at parameters is a dataclass
        agreed=replace(first.setting, grid=coarser, active=active),
    )
    for order in ([first, other], [other, first]):
        kept = StudyScope(plan)
        among = ("Aachen", "Bern", "Cork")
        assert [kept.allows(query, among) for query in order] == [True, False]
        assert kept.allows(order[1], among[:2])
        with StudyMemory(tmp_path / str(len(list(tmp_path.iterdir())))) as memory:
            assert StudyScope(plan, memory).allows(order[0], among)
            assert not StudyScope(plan, memory).allows(order[1], among), "after a restart"


def test_those_left_in_mid_round_are_asked_the_same_again_and_then_on_their_own_grid() -> None:
    plan = study(STUDY.replace("width = 60\nhorizon = 720\n", "pieces = 6\n"))
    kept = StudyScope(plan)
    whole, own, third = (
        IntervalCounts(cells_between(None, None, end, 1.0).pieces, "include")
        for end in (720.0, 700.0, 680.0)
    )
    everybody, left = ("Aachen", "Bern", "Cork", "Derby"), ("Aachen", "Bern", "Cork")
    for query, among, allowed in (
        (whole, everybody, True),
        (whole, left, True),
        (own, left, True),
        (whole, left, True),
        (third, left, False),
        (own, everybody, False),
    ):
        assert kept.allows(query, among) is allowed


def test_the_end_of_follow_up_is_looked_for_once_and_patients_are_read_one_way() -> None:
    plan = study(STUDY.replace("width = 60\nhorizon = 720\n", "pieces = 6\n"))
    kept, among = StudyScope(plan), ("Aachen", "Bern", "Cork")
    cells = [Pieces(np.linspace(0.0, end, 11)) for end in (1000.0, 1010.0)]
    assert [kept.allows(LastInterval(each), among) for each in cells] == [True, False]
    counted = cells_between(None, None, 700.0, 1.0).pieces
    assert not kept.allows(IntervalCounts(counted, "exclude"), among)
    assert kept.allows(IntervalCounts(counted, "include"), among)


def test_patients_are_counted_on_one_grid_alone(tmp_path: Path) -> None:
    """Without a horizon many cells are the study's; two of them tell what is between."""
    plan = study(STUDY.replace("width = 60\nhorizon = 720\n", "pieces = 6\n"))
    one, other = (
        IntervalCounts(cells_between(None, None, end, 1.0).pieces, "include")
        for end in (700.0, 720.0)
    )
    among = ("Aachen", "Bern", "Cork")
    for first, second in ((one, other), (other, one)):
        kept = StudyScope(plan)
        asked = [kept.allows(query, among) for query in (first, first, second)]
        assert asked == [True, True, False]
        with StudyMemory(tmp_path / str(len(list(tmp_path.iterdir())))) as memory:
            assert StudyScope(plan, memory).allows(first, among)
            assert not StudyScope(plan, memory).allows(second, among), "after a restart"
