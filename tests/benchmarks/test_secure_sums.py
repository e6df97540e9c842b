from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.headlines import BytesAtMost, Within
from benchmarks.problems import PROBLEMS
from benchmarks.results import Result
from benchmarks.secure_sums import measure

SMALL = replace(PROBLEMS["secure_sum_small"], centers=5, numbers=40)
RUN = Result("secure_sum_small", "masked sum", 1, 1, False, cpu_seconds=0.02, bytes_up=330)
PLAIN = replace(RUN, contender="plain sum", bytes_up=300)


@pytest.mark.parametrize("contender", SMALL.contenders)
def test_every_way_of_summing_is_measured(contender: str) -> None:
    found = measure(SMALL, contender)
    assert set(found) == {"seconds", "cpu_seconds", "bytes_up"}
    assert found["seconds"] > 0
    plain = 8 * SMALL.centers * SMALL.numbers
    if contender == "plain sum":
        assert found["bytes_up"] == plain
    elif contender == "masked sum":
        assert plain < found["bytes_up"]
    elif contender == "masked sum, 20 % dropped":
        assert plain * 4 / 5 < found["bytes_up"] < measure(SMALL, "masked sum")["bytes_up"]


def test_promises_on_seconds_and_bytes_are_judged_at_their_limit() -> None:
    results = {(run.problem, run.contender): run for run in (RUN, PLAIN)}
    assert Within("secure_sum_small", "masked sum", 0.03).judge(results).held is True
    assert Within("secure_sum_small", "masked sum", 0.02).judge(results).held is False
    assert Within("secure_sum_large", "masked sum", 3).judge(results).held is None
    bytes_at_most = BytesAtMost("secure_sum_small", "masked sum", "plain sum", 1.1)
    assert bytes_at_most.judge(results).held is True
    assert bytes_at_most.judge(results).measured == "1.1"
    assert replace(bytes_at_most, times=1.09).judge(results).held is False
    assert bytes_at_most.judge({}).held is None
