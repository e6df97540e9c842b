"""Everything that is wrong with one table of patients, collected before anyone is told."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from fedcox.data.columns import Numbers, read_numbers
from fedcox.data.wording import columns_there, counted, did_you_mean, places, seem_values
from fedcox.errors import CohortError, DoubtfulTimesWarning
from fedcox.survival.cohort import BoolArray, FloatArray

# The index of a table read from a text file: its numbers are lines of that file. The index of
# any other table may hold patient identifiers and is never shown.
LINE_INDEX = "line of the file"


class TableFaults:
    """Faults in the words of the table's reader: column, how many, and in which lines."""

    def __init__(self, frame: pd.DataFrame, source: str) -> None:
        self.frame = frame
        self.source = source
        self.subject = f"{source}: these patients cannot be used as they are."
        self.faults: list[str] = []
        self.doubts: list[str] = []
        self._labels = [str(label) for label in frame.columns]

    def has(self, name: str) -> bool:
        return name in self._labels

    def column(self, name: str) -> pd.Series:
        """The column of that name; numbers as labels are compared as text."""
        return self.frame.iloc[:, self._labels.index(name)]

    def add(self, fault: str) -> None:
        self.faults.append(fault)

    def add_rows(
        self, column: str, rows: BoolArray, one: str, many: str, *, advice: str = ""
    ) -> None:
        """A fault of some rows, with what to do about it; nothing where there are none."""
        numbers = np.flatnonzero(rows)
        if numbers.size:
            count = counted(int(numbers.size), one, many)
            what_to_do = f"; {advice}" if advice else ""
            self.add(f"Column '{column}': {count} ({self._places(numbers)}){what_to_do}.")

    def add_patients(
        self, column: str, rows: BoolArray, what: str, *, advice: str = ""
    ) -> None:
        """The same of patients who have `what`."""
        self.add_rows(
            column, rows, f"patient has {what}", f"patients have {what}", advice=advice
        )

    def _places(self, numbers: np.ndarray[tuple[int], np.dtype[np.intp]]) -> str:
        if self.frame.index.name == LINE_INDEX:
            return places([int(n) for n in self.frame.index[numbers[:6]]], noun="line")
        return places([int(number) + 1 for number in numbers[:6]], noun="row")

    def require_columns(self, names: Sequence[str]) -> None:
        """Each named column must be there, once."""
        absent = [name for name in dict.fromkeys(names) if name not in self._labels]
        for name in absent:
            others = [label for label in self._labels if label not in names]
            hint = "" if seem_values(self._labels) else did_you_mean(name, others)
            self.add(f"Column '{name}' is missing.{hint}")
        if absent:
            self.add(columns_there(self._labels))
        for name in dict.fromkeys(names):
            if self._labels.count(name) > 1:
                self.add(
                    f"Column '{name}' is there {self._labels.count(name)} times: "
                    "rename or remove all but one."
                )

    def numbers(self, column: str) -> Numbers:
        """Read a column of numbers and note the cells that are none, or infinite."""
        numbers = read_numbers(self.column(column))
        self.add_rows(
            column,
            numbers.unreadable,
            "cell is not a number",
            "cells are not numbers",
            advice="; ".join(_advice(numbers)) or "a number is needed",
        )
        infinite = np.isinf(numbers.values)
        self.add_rows(column, infinite, "number is infinite", "numbers are infinite")
        return numbers

    def add_outside(
        self, column: str, values: FloatArray, least: float | None, most: float | None
    ) -> None:
        """Note the values that lie outside the study's range; gaps and infinities do not."""
        beyond = np.zeros(values.size, dtype=np.bool_)
        if least is not None:
            beyond |= values < least
        if most is not None:
            beyond |= values > most
        low = "no minimum" if least is None else f"min = {least:g}"
        high = "no maximum" if most is None else f"max = {most:g}"
        self.add_rows(
            column,
            beyond & np.isfinite(values),
            "value lies outside the study's range",
            "values lie outside the study's range",
            advice=f"the study has {low} and {high}",
        )

    def doubt(self, text: str) -> None:
        """Something that is not impossible, and to be looked at."""
        self.doubts.append(text)

    def stop(self) -> None:
        """Raise what was found, if anything was; warn of what is in doubt."""
        if self.faults:
            raise CohortError(self.subject, self.faults)
        for text in self.doubts:
            warnings.warn(f"{self.source}: {text}", DoubtfulTimesWarning, stacklevel=5)


def _advice(numbers: Numbers) -> Iterator[str]:
    """What the cells that are no numbers seem to be, and what to write instead."""
    if numbers.decimal_commas:
        commas = counted(numbers.decimal_commas, "cell seems", "cells seem")
        yield f"{commas} to use a decimal comma: write a decimal point"
    if numbers.thousands:
        grouped = counted(numbers.thousands, "cell seems", "cells seem")
        yield (
            f"{grouped} to set thousands apart, as in 1,000 or 1 000: write 1000 (and where a "
            "comma was meant as a decimal comma, a decimal point)"
        )
    if numbers.dates:
        days = counted(numbers.dates, "cell seems to be a date", "cells seem to be dates")
        yield f"{days}: compute the time between two dates, as a number of days, say"
