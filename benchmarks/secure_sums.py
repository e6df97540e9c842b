"""What masks cost: one sum over centers, plain and masked, in seconds and bytes sent."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from benchmarks.child_process import ProgramError, run_module
from benchmarks.patients import SEED, FloatArray
from benchmarks.problems import PROBLEMS, Problem
from benchmarks.results import Result
from fedcox.federation.query import DEFAULT_BITS
from fedcox.privacy import fixed_point
from fedcox.privacy.identity import Identity
from fedcox.privacy.secure_sum import SecureSum
from fedcox.privacy.secure_sum_center import SecureSumCenter

_STUDY = "benchmark"
_QUESTION = hashlib.sha256(b"benchmark").digest()


class CountingTransport:
    """Every party in this process; counts what centers send."""

    def __init__(self, parties: Mapping[str, SecureSumCenter]) -> None:
        self._parties = parties
        self.bytes_up = 0

    def exchange(self, step: str, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        replies = {
            name: self._parties[name].handle(step, message)
            for name, message in messages.items()
        }
        self.bytes_up += sum(map(len, replies.values()))
        return replies


class MaskedCenters:
    """Centers with a vector each, and their coordinator."""

    def __init__(self, vectors: Mapping[str, FloatArray]) -> None:
        identities = {name: Identity.create() for name in vectors}
        known = {name: identity.public for name, identity in identities.items()}
        self.parties = {
            name: SecureSumCenter(name, _STUDY, identity, known)
            for name, identity in identities.items()
        }
        self.vectors = vectors
        self.transport = CountingTransport(self.parties)
        self.coordinator = SecureSum(_STUDY, known, self.transport.exchange)

    def sum(self, dropping: int) -> FloatArray:
        """The sum over all centers but the first `dropping`, from numbers to numbers."""

        def collect(round_number: int, shares: Mapping[str, bytes]) -> dict[str, bytes]:
            centers, replies = tuple(shares), {}
            for name in centers[dropping:]:
                party, values = self.parties[name], self.vectors[name]
                if shares[name]:
                    party.accept(shares[name])
                vector = fixed_point.encode(values, DEFAULT_BITS, len(self.vectors))
                replies[name] = party.masked(round_number, _QUESTION, vector, centers)
            self.transport.bytes_up += sum(map(len, replies.values()))
            return replies

        total = self.coordinator.sum(_QUESTION, collect).total
        return fixed_point.decode(total, DEFAULT_BITS)


def measure(problem: Problem, contender: str) -> dict[str, float]:
    """Run one contender once: seconds, CPU seconds and the bytes of all centers."""
    rng = np.random.default_rng(SEED)
    vectors = {
        f"center {number:03d}": rng.normal(scale=100.0, size=problem.numbers)
        for number in range(problem.centers)
    }
    if contender == "plain sum":
        return _timed(lambda: _plain(vectors))
    masked = MaskedCenters(vectors)
    if contender == "key set-up":
        MaskedCenters(vectors).coordinator.set_up()
        return _timed(lambda: _bytes_of(masked, masked.coordinator.set_up))
    masked.coordinator.set_up()
    masked.sum(0)
    dropping = problem.centers // 5 if contender == "masked sum, 20 % dropped" else 0
    return _timed(lambda: _bytes_of(masked, lambda: _checked_sum(masked, dropping)))


def _timed(run: Callable[[], int]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    bytes_up = run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"seconds": wall, "cpu_seconds": cpu, "bytes_up": bytes_up}


def _plain(vectors: Mapping[str, FloatArray]) -> int:
    messages = [vector.tobytes() for vector in vectors.values()]
    np.sum([np.frombuffer(message) for message in messages], axis=0)
    return sum(map(len, messages))


def _bytes_of(masked: MaskedCenters, run: Callable[[], object]) -> int:
    masked.transport.bytes_up = 0
    run()
    return masked.transport.bytes_up


def _checked_sum(masked: MaskedCenters, dropping: int) -> None:
    total = masked.sum(dropping)
    expected = np.sum(list(masked.vectors.values())[dropping:], axis=0)
    allowed = len(masked.vectors) * 2.0**-DEFAULT_BITS / 2 + 1e-11
    if np.abs(total - expected).max() > allowed:
        raise RuntimeError("The masked sum is not the plain one.")


def run_secure_sums(problem: Problem, *, quick: bool, limit_seconds: float) -> Iterator[Result]:
    """Measure each contender `repeats` times, in turns, each in a process of its own."""
    for repeat in range(1, problem.repeats + 1):
        for name in problem.contenders:
            result = Result(problem.name, name, repeat, problem.repeats, quick)
            arguments = [problem.name, name, *(["--quick"] if quick else [])]
            try:
                printed = run_module(
                    "benchmarks.secure_sums", *arguments, limit_seconds=limit_seconds
                )
            except ProgramError as error:
                yield replace(result, left_out=str(error))
            else:
                yield replace(result, **json.loads(printed.splitlines()[-1]))


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("problem", choices=sorted(PROBLEMS))
    parser.add_argument("contender")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    problem = PROBLEMS[given.problem]
    found = measure(problem.quick() if given.quick else problem, given.contender)
    print(json.dumps({**found, "versions": {"cryptography": version("cryptography")}}))


if __name__ == "__main__":
    main()
