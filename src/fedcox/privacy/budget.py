"""How much epsilon have a hospital's patients spent? One account over all studies.

A hospital keeps one file of its own, a line of JSON for what a study that it took part in
spends: its name, the day, epsilon, delta, and how many noised sums they are for. A study may
pay for its first sums, and for the others once it goes on. A line is written and on the disk
before what it is for leaves, and is never taken back: a study that breaks off
after that, or a computer that does, has spent it all the same. Epsilons and deltas of studies
add up, which holds whatever the studies ask.

Every line carries the hash of the line before it, and a second file beside it the hash of the
last. So a file that was shortened, edited or deleted is noticed, and refused; it is not
repaired here. Who deletes both files on purpose is not stopped. Half a line that a computer
left when it stopped is none: nothing was released for it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from fedcox.errors import BudgetError, PolicyError
from fedcox.files.locks import take_lock
from fedcox.files.writing import (
    append_to_disk,
    open_folder,
    owners_folder,
    replace_file,
)

_BEGIN = "0" * 64
_VERSION = 2
#: Ten studies of epsilon 0.1 fit into 1, though their sum in doubles is not 1.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Payment:
    """What one study took, by its digest and its `name`; the `day` is written 2026-11-19.

    The name is as the study has it: whoever shows it on a terminal cleans it first.
    """

    study: str
    name: str
    day: str
    epsilon: float
    delta: float
    releases: int


@dataclass(frozen=True)
class Spent:
    """What studies have taken so far, the first one first."""

    payments: tuple[Payment, ...]

    @property
    def studies(self) -> int:
        return len(self.payments)

    @property
    def epsilon(self) -> float:
        return math.fsum(payment.epsilon for payment in self.payments)

    @property
    def delta(self) -> float:
        return math.fsum(payment.delta for payment in self.payments)


@dataclass(frozen=True)
class _Line:
    version: int
    study: str
    name: str
    day: str
    epsilon: float
    delta: float
    releases: int
    previous: str
    right: str | None = None

    @property
    def payment(self) -> Payment:
        return Payment(self.study, self.name, self.day, self.epsilon, self.delta, self.releases)

    def text(self) -> str:
        fields = {key: value for key, value in asdict(self).items() if value is not None}
        return json.dumps(fields, sort_keys=True, allow_nan=False) + "\n"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Budget:
    """A hospital's file of studies at `path`, and the `epsilon` and `delta` it allows in all.

    What is allowed comes from the hospital's policy, not from the file and not from a study.
    Where the policy sets no limit, nothing is refused, and all is written down nevertheless.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        today: Callable[[], date] = date.today,
    ) -> None:
        self.path = Path(path).resolve()  # several kits of a hospital may share one account
        self.epsilon, self.delta, self._today = epsilon, delta, today
        faults = _faults(1.0 if epsilon is None else epsilon, 0.5 if delta is None else delta)
        if faults:
            raise PolicyError("This is no budget for differential privacy.", faults)

    @property
    def spent(self) -> Spent:
        """By all studies so far; read it as `spent.epsilon`, or study by study."""
        with self._locked():
            return _spent(self._lines())

    def check(self, *, epsilon: float, delta: float) -> None:
        """Raise what `reserve` would, and write nothing."""
        with self._locked():
            self._check_room(_spent(self._lines()), epsilon, delta)

    def reserve(
        self,
        study: str,
        *,
        name: str,
        epsilon: float,
        delta: float,
        releases: int,
        right: str | None = None,
    ) -> None:
        """Write down what `study`, a digest, is about to spend under its name; or refuse it.

        What was reserved under the same `right` before is not paid for again, but for what is
        more. Whoever pays has to remember how much of it is used.
        """
        faults = _faults(epsilon, delta)
        if releases < 1:
            faults.append(f"It asks for {releases} releases; one is the least.")
        if faults:
            raise BudgetError("A study asks for what cannot be spent.", faults)
        with self._locked():
            lines = self._lines()
            before = [line for line in lines if right is not None and line.right == right]
            if before:
                paid = math.fsum(line.epsilon for line in before)
                if epsilon <= paid * (1.0 + _ROUNDING):
                    return
                epsilon, delta = epsilon - paid, 0.0
            self._check_room(_spent(lines), epsilon, delta)
            last = _hash(lines[-1].text()) if lines else _BEGIN
            self._finish(lines, last)
            day = self._today().isoformat()
            terms = epsilon, delta, releases
            self._append(_Line(_VERSION, study, name, day, *terms, last, right))

    def take_over(self, other: Budget) -> None:
        """Write down what was paid on the same patients in another account; once each."""
        if other.path == self.path:
            return
        with other._locked():
            taken = _payments(other._lines())
        for first, payment in taken.items():
            right = _hash(f"{other.path}\n{first}")  # two accounts may have begun alike
            with self._locked():
                lines = self._lines()
                paid = math.fsum(line.epsilon for line in lines if line.right == right)
                if payment.epsilon <= paid * (1.0 + _ROUNDING):
                    continue
                if paid:  # the study went on after it was taken over
                    payment = replace(payment, epsilon=payment.epsilon - paid, delta=0.0)
                last = _hash(lines[-1].text()) if lines else _BEGIN
                self._finish(lines, last)
                self._append(_Line(_VERSION, **asdict(payment), previous=last, right=right))

    def _check_room(self, spent: Spent, epsilon: float, delta: float) -> None:
        studies = "one study" if spent.studies == 1 else f"{spent.studies} studies"
        faults = [
            f"{name}: {before:g} of {allowed:g} is spent by {studies}, this one asks for "
            f"{asked:g}."
            for name, before, asked, allowed in (
                ("Epsilon", spent.epsilon, epsilon, self.epsilon),
                ("Delta", spent.delta, delta, self.delta),
            )
            if allowed is not None and before + asked > allowed * (1.0 + _ROUNDING)
        ]
        if faults:
            advice = "Ask for less; only the hospital's own policy can allow more."
            raise BudgetError(
                "These patients' privacy budget does not cover this study.", [*faults, advice]
            )

    @property
    def _head(self) -> Path:
        """The file with the hash of the last line."""
        return self.path.with_name(self.path.name + ".head")

    def _finish(self, lines: list[_Line], last: str) -> None:
        """Bring to its end what a computer was doing when it stopped.

        A head that is one line behind is brought up, and half a line cut off.
        """
        try:
            if not self._head.exists() or self._head.read_text().strip() != last:
                self._write_head(last)
            whole = sum(len(line.text()) for line in lines)
            if self.path.exists() and self.path.stat().st_size > whole:
                os.truncate(self.path, whole)
        except OSError as error:
            raise self._unwritable(error) from error

    def _append(self, line: _Line) -> None:
        text = line.text()
        try:
            append_to_disk(self.path, text.encode())
            # A crash between the two leaves a line beyond the head: `_lines` takes it as spent.
            self._write_head(_hash(text))
        except OSError as error:
            raise self._unwritable(error) from error

    def _write_head(self, last: str) -> None:
        with open_folder(self.path.parent) as folder:
            replace_file(folder, self._head.name, f"{last}\n".encode())

    def _lines(self) -> list[_Line]:
        """Every line, or a refusal where one is missing, broken or not as it was written."""
        if not self.path.exists() and not self._head.exists():
            return []
        try:
            text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
            head = self._head.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise self._damaged("It, or the file .head beside it, cannot be read.") from None
        *rows, half = text.split("\n")
        lines = [self._line(row + "\n", number) for number, row in enumerate(rows, 1)]
        hashes = [_BEGIN, *(_hash(line.text()) for line in lines)]
        for number, line in enumerate(lines, 1):
            if line.previous != hashes[number - 1]:
                raise self._damaged(f"Line {number} does not follow from the one before it.")
        # The last line may have been written just before a crash, and its hash not; half of it
        # only where the hash of the one before was.
        if head not in (hashes[-1:] if half else hashes[-2:]):
            raise self._damaged("Lines are missing at its end, or the last was changed.")
        return lines

    def _line(self, row: str, number: int) -> _Line:
        try:
            fields = json.loads(row)
            if isinstance(fields, dict) and fields.get("version") not in (None, _VERSION):
                raise self._of_another_version()
            line = _Line(**fields)
            more = line.right is not None and line.delta == 0.0  # than was paid before
            delta = 0.5 if more else line.delta
            whole = line.text() == row and not _faults(line.epsilon, delta)
        except (TypeError, ValueError):
            whole = False
        if not whole:
            raise self._damaged(f"Line {number} is not as this program writes it.")
        return line

    def _of_another_version(self) -> BudgetError:
        return BudgetError(
            f"The privacy budget {self.path} is of another version of fedcox.",
            [
                "What was spent stays spent: set the epsilon and delta of the policy lower by "
                "the sums of those in the file, then move it and the file .head beside it away."
            ],
        )

    def _damaged(self, what: str) -> BudgetError:
        return BudgetError(
            f"The privacy budget {self.path} cannot be trusted.",
            [
                what,
                "Nothing is released until the hospital has restored both files from a copy "
                "that holds every study.",
            ],
        )

    def _unwritable(self, error: OSError) -> BudgetError:
        return BudgetError(
            f"The privacy budget {self.path} cannot be written: {error.strerror or error}.",
            ["Nothing was released. Give the center a file that it may write to."],
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time: two studies must not both find the last epsilon unspent."""
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(open_folder(owners_folder(self.path.parent)))
                take_lock(folder, patience=math.inf)
            except OSError as error:
                raise self._unwritable(error) from error
            yield


def _spent(lines: list[_Line]) -> Spent:
    return Spent(tuple(_payments(lines).values()))


def _payments(lines: list[_Line]) -> dict[str, Payment]:
    """Study by study, by the hash of its first line; later ones under its right are its own."""
    firsts: dict[str, str] = {}
    payments: dict[str, Payment] = {}
    for line in lines:
        own = _hash(line.text())
        first = firsts.setdefault(line.right or own, own)
        before = payments.get(first)
        payments[first] = (
            line.payment
            if before is None
            else replace(before, epsilon=before.epsilon + line.epsilon)
        )
    return payments


def _faults(epsilon: Any, delta: Any) -> list[str]:
    faults = []
    if not (isinstance(epsilon, float | int) and math.isfinite(epsilon) and epsilon > 0):
        faults.append("Epsilon must be a positive number.")
    if not (isinstance(delta, float | int) and 0 < delta < 1):
        faults.append("Delta must be between 0 and 1.")
    return faults
