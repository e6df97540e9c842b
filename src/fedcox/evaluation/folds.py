"""Which patients are tested together: folds inside every center, or all of one center.

The i-th folds of all centers make the i-th test set (paper, section 5.4). Inside a center the
patients with the event are dealt to the folds first and the others after them, so that sizes
and events of a center's folds differ by one at most; what does not divide goes to the folds
that have least so far over all centers. So a test set is without events only if all centers
together have fewer events than there are folds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedcox.data.wording import counted
from fedcox.errors import InputError
from fedcox.evaluation.seeds import derived_generator
from fedcox.survival.cohort import BoolArray, Cohort, IntArray

#: Test patients of every center.
TestSet = Mapping[str, BoolArray]


def fold_numbers(
    cohorts: Mapping[str, Cohort], folds: int, *, seed: int
) -> dict[str, IntArray]:
    """The fold of every patient, counted from one, by center.

    A center's patients are shuffled by the seed and the center's name; centers without
    patients have nothing to deal and take part. The order of `cohorts` does not matter.
    """
    check_folds(cohorts, folds)
    events_so_far, patients_so_far = np.zeros((2, folds), dtype=np.int64)
    numbers = {}
    for name in sorted(cohorts):
        event = cohorts[name].event
        rng = derived_generator(seed, "folds", name)
        events = _shares(int(event.sum()), events_so_far, rng=rng)
        sizes = _shares(event.size, patients_so_far, rng=rng, at_least=events)
        events_so_far += events
        patients_so_far += sizes
        number = np.empty(event.size, dtype=np.int64)
        for group, shares in ((event, events), (~event, sizes - events)):
            dealt = np.repeat(np.arange(1, folds + 1), shares)
            number[group] = rng.permutation(dealt)
        numbers[name] = number
    return numbers


def fold_test_set(numbers: Mapping[str, IntArray], fold: int) -> TestSet:
    """The patients of one fold, over all centers."""
    return {name: number == fold for name, number in numbers.items()}


def center_test_set(cohorts: Mapping[str, Cohort], center: str) -> TestSet:
    """All patients of one center and no others."""
    return {name: np.full(cohort.patients, name == center) for name, cohort in cohorts.items()}


def check_folds(cohorts: Mapping[str, Cohort], folds: int) -> None:
    """Refuse fewer than two folds, and more folds than a center has patients."""
    faults = fold_faults(cohorts, folds)
    if faults:
        raise InputError(f"The patients cannot be divided into {folds} folds.", faults)


def fold_faults(cohorts: Mapping[str, Cohort], folds: int) -> list[str]:
    """What stands against this number of folds."""
    if folds < 2:
        return [f"{folds} is not a number of folds; two are the least."]
    small = small_centers(cohorts, folds)
    if not small:
        return []
    centers = _cut([f"{name} ({counted(size, 'patient')})" for name, size in small.items()])
    least = min(small.values())
    fewer = f"take {least} folds at most, " if least > 1 else ""
    return [
        f"{counted(len(small), 'center has', 'centers have')} fewer patients than there are "
        f"folds: {centers}. Every fold needs a patient of every center: {fewer}leave these "
        "centers out, or leave out one center at a time instead of folds."
    ]


def small_centers(cohorts: Mapping[str, Cohort], folds: int) -> dict[str, int]:
    """Centers with patients, but fewer of them than folds, and how many they have."""
    sizes = {name: cohorts[name].patients for name in sorted(cohorts)}
    return {name: size for name, size in sizes.items() if 0 < size < folds}


def left_out_faults(cohorts: Mapping[str, Cohort]) -> list[str]:
    """What stands against leaving out one center at a time."""
    centers = sum(cohort.patients > 0 for cohort in cohorts.values())
    if centers >= 2:
        return []
    return [
        f"There is {counted(centers, 'center')} with patients; to leave one out and train on "
        "the others, two are the least."
    ]


def _cut(names: list[str], most: int = 30) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _shares(
    total: int, so_far: IntArray, *, rng: np.random.Generator, at_least: IntArray | int = 0
) -> IntArray:
    """Divide `total` evenly; the rest goes where `at_least` needs it, then where least is."""
    whole, rest = divmod(total, so_far.size)
    shares = np.full(so_far.size, whole, dtype=np.int64)
    enough = shares >= at_least
    chance = rng.permutation(so_far.size)
    shares[np.lexsort((chance, so_far, enough))[:rest]] += 1
    return shares
