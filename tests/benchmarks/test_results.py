from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.child_process import ProgramError, run_module, run_program
from benchmarks.headlines import AtLeast, AtMost, headlines
from benchmarks.problems import PROBLEMS
from benchmarks.results import Result, best_of_repeats, read_results
from benchmarks.run import main
from benchmarks.tables import problem_table

OURS = Result("hundred_thousand", "fedcox_cloglog", 1, 2, False, seconds=0.3, cpu_seconds=0.2)
RUNS = [
    OURS,
    replace(OURS, repeat=2, cpu_seconds=0.25),
    replace(OURS, contender="fedcox_logit", cpu_seconds=0.4),
    replace(OURS, contender="lifelines", cpu_seconds=10.0),
    replace(OURS, contender="r_coxph", seconds=None, cpu_seconds=None, left_out="no R"),
]


def test_the_cheapest_run_counts() -> None:
    assert best_of_repeats(RUNS)["hundred_thousand", "fedcox_cloglog"] is OURS


def test_a_stored_run_reads_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(run.to_line() + "\n" for run in RUNS), encoding="utf-8")
    assert read_results(file) == RUNS


def test_the_table_divides_by_each_baseline_and_names_who_is_left_out() -> None:
    table = problem_table(PROBLEMS["hundred_thousand"], best_of_repeats(RUNS))
    lifelines = dict(zip(table.header, table.rows[-1], strict=True))
    assert lifelines["÷ fedcox cloglog"] == "50"
    assert lifelines["÷ fedcox logit"] == "25"
    assert "rounds" not in table.header  # nobody counted any
    assert "R coxph.fit left out: no R." in table.notes


def test_a_promise_is_held_only_with_both_links() -> None:
    best = best_of_repeats(RUNS)
    assert AtLeast("hundred_thousand", "lifelines", 25).judge(best).held is True
    assert AtLeast("hundred_thousand", "lifelines", 26).judge(best).held is False
    assert AtLeast("hundred_thousand", "r_coxph", 3).judge(best).held is None
    target = "100,000 patients × 50 covariates, 30 intervals: at least 30 times faster than"
    (line,) = [line for line in headlines(best) if line.target == f"{target} lifelines"]
    assert line.measured == "cloglog 50, logit 25"


def test_several_threads_are_judged_by_wall_time() -> None:
    one = replace(OURS, contender="fedcox_log", seconds=9.0, cpu_seconds=1.0)
    two = replace(one, contender="fedcox_log_two_threads", threads=2, seconds=0.55)
    slower = replace(two, seconds=0.7, cpu_seconds=0.9)  # for fewer seconds of both cores
    best = best_of_repeats([one, slower, two])
    pair = (("fedcox_log_two_threads", "fedcox_log"),)
    judged = AtMost("hundred_thousand", "two threads", 0.6, pair).judge(best)
    assert (judged.measured, judged.held) == ("0.55", True)


def test_markdown_is_printed_from_a_stored_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(run.to_line() + "\n" for run in RUNS), encoding="utf-8")
    assert main(["--markdown", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "| lifelines | 0.3 | 10 | 50 | 25 |" in printed
    assert "| target | measured | held? |" in printed


def test_an_unknown_problem_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(SystemExit, match="hundred_thousand"):
        main(["--problems", "hundred"])


def test_a_failing_program_is_reported_in_one_line() -> None:
    with pytest.raises(ProgramError, match=r"failed: .*No module named"):
        run_module("benchmarks.no_such_module", limit_seconds=30)


def test_a_program_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(ProgramError, match="stopped after"):
        run_program([sys.executable, "-c", "import time; time.sleep(60)"], limit_seconds=0.2)
