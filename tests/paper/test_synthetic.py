"""The paper's section 6.1 at a small size: its four statements, run and checked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedcox.evaluation.comparison import Claim, compare
from fedcox.evaluation.experiment import run_experiment
from fedcox.evaluation.problem import PaperPatients
from fedcox.paper.reproduction import Compared, mean_of
from fedcox.paper.synthetic import synthetic

PAPER = ("POOL", "LOCAL", "ENS", "MINI", "N-FL", "DT-FL")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """One run of the paper's schemes, of fewer patients and columns and in two folds."""
    folder = tmp_path_factory.mktemp("synthetic")
    found = {}
    for panel in synthetic(quick=True, bound="patient").panels:
        problem = panel.experiment.problem
        assert isinstance(problem, PaperPatients)
        experiment = replace(
            panel.experiment,
            problem=replace(problem, patients=1250, columns=50),
            schemes=tuple(s for s in panel.experiment.schemes if s.name in PAPER),
            folds=2,
            seeds=(0,),
        )
        rows = run_experiment(experiment, folder / f"{panel.name}.jsonl")
        (comparison,) = compare(rows, drawn_anew=True)
        found[panel.name, comparison.evaluation] = comparison
    return found


def test_the_papers_statements_hold_at_a_small_size(compared: Compared) -> None:
    claims = synthetic(quick=True, bound="patient").claims(compared)
    assert len(claims) == 4
    assert [claim for claim in claims if not claim.held] == []


def test_schemes_that_agree_on_one_split_part_on_the_other(compared: Compared) -> None:
    uniform, by_time = compared["uniform", "folds"], compared["time", "folds"]
    alike = [mean_of(uniform, name) for name in ("POOL", "MINI", "N-FL", "DT-FL")]
    assert max(alike) - min(alike) < 0.02
    assert min(alike) > mean_of(uniform, "ENS") > mean_of(uniform, "LOCAL")
    assert mean_of(uniform, "N-FL") - mean_of(by_time, "N-FL") > 0.1
    assert abs(mean_of(uniform, "DT-FL") - mean_of(by_time, "DT-FL")) < 0.01


def test_a_claim_that_does_not_hold_says_so(compared: Compared) -> None:
    swapped = {
        ("uniform", "folds"): compared["time", "folds"],
        ("time", "folds"): compared["uniform", "folds"],
    }
    claims: tuple[Claim, ...] = synthetic(quick=True, bound="patient").claims(swapped)  # type: ignore[arg-type]
    assert [claim.held for claim in claims] == [False, False, False, True]


@pytest.mark.parametrize("quick", [True, False])
def test_both_splits_have_the_same_patients(quick: bool) -> None:
    panels = synthetic(quick=quick, bound="population").panels
    problems = [panel.experiment.problem for panel in panels]
    assert all(isinstance(problem, PaperPatients) for problem in problems)
    sizes = [sum(c.patients for c in problem.cohorts(0).values()) for problem in problems]
    assert sizes == ([2500, 2500] if quick else [5000, 5000])
    assert [len(panel.experiment.seeds) for panel in panels] == ([2, 2] if quick else [20, 20])
