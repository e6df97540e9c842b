"""Every exception and warning of fedcox, as two trees.

FedcoxError
├── InputError               the user's input is wrong; exit status 2, nothing written
│   ├── StudyError           the study file, or settings; a ValueError too
│   ├── CohortError          a hospital's file, or arrays as patients; a ValueError too
│   ├── OutputError          where results should go
│   ├── PolicyError          a hospital's own policy file
│   ├── RefusedError         a question that a center does not answer
│   │   ├── BudgetError      … since its patients' epsilon is spent
│   │   ├── BusyError        … since another process of it answers the study just now
│   │   └── ChangedError     … since its patients are no longer those of earlier answers
│   ├── SecureSumError       a masked sum that cannot be completed; nothing of it is used
│   ├── MessageError         a message that cannot be used; nothing of it is
│   ├── CentersMissingError  centers that did not answer, and the study needs them
│   ├── DeploymentError      kits, certificates, processes, connections
│   ├── SlideError           a slide, or a file of its features, that cannot be used
│   └── WeightsError         weights or modules that do not fit a network
├── NoInferenceError         the fit cannot give standard errors, with the reason
└── NotFittedError           an estimator was asked before its fit; scikit-learn's too

FedcoxWarning                the numbers are finite, but read this before using them
├── AliasedColumnsWarning    columns that are combinations of others
├── ConstantColumnsWarning   columns with one value in every center
├── EmptyIntervalsWarning    intervals without an event: hazard zero
├── EventsOnlyIntervalsWarning   intervals where everyone at risk has the event: hazard one
├── JoinedIntervalsWarning   pieces that were joined with their neighbours
├── ExactSumsWarning         sums without noise were asked of hospitals
├── CoarseTimeWarning        intervals so wide, or ties so many, that ratios may be far off
├── LateEventsWarning        events after the horizon, which do not count
├── SeparationWarning        a coefficient that grows without bound
├── RidgeWarning             z, p and intervals that a penalty has changed
├── NotConvergedWarning      the solver stopped before the optimum
├── ApproximateSolverWarning the solver ends near the pooled optimum, not at it
├── MissingCenterWarning     patients left out because they name no center
├── DoubtfulTimesWarning     follow-up times that may rather be dates
├── FilledCellsWarning       missing values that the mean of all centers stands for
├── LostCentersWarning       centers that stopped answering, and are not in the result
├── NoiseWarning             what noise for privacy, or the bounds it needs, may have done
└── LargeDeltaWarning        a delta at which the promise to one patient means little
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache


class FedcoxError(Exception):
    """Anything fedcox raises on purpose: what was found, what is needed, what to do.

    All faults of a study or of a file come at once; columns and counts are named, never a
    patient's value. Wrong input is an `InputError`, whose `faults` are the single sentences.
    `fedcox.errors` has the tree of all of them.

    >>> import fedcox
    >>> try:
    ...     fedcox.Study(outcome={"time": "days"}, covariates=["age"])
    ... except fedcox.FedcoxError as error:
    ...     print(error)
    This study cannot be run as it is.
      - [outcome] event: missing; it is the column that says whether the event happened.

    Next: mend what is named, and run it again.
    """


class InputError(FedcoxError):
    """Wrong input, with every fault that was found.

    The text names columns and counts, never a patient's value.
    """

    def __init__(self, subject: str, faults: Sequence[str] = ()) -> None:
        self.subject = subject
        self.faults = tuple(faults)
        lines = [subject, *(f"  - {fault}" for fault in self.faults)]
        super().__init__("\n".join(lines))


class StudyError(InputError, ValueError):
    """The study file cannot be used as it is."""


class CohortError(InputError, ValueError):
    """A hospital's patients cannot be used as they are."""


class OutputError(InputError):
    """The results cannot be written where asked."""


class PolicyError(InputError):
    """A hospital's policy file cannot be used as it is."""


class RefusedError(InputError):
    """A center does not answer a question that gives its patients away."""


class BudgetError(RefusedError):
    """A center's patients have no epsilon left for this."""


class BusyError(RefusedError):
    """Another process of the center answers the same study at this moment."""


class ChangedError(RefusedError):
    """The center's patients are not those that the study's earlier answers were about."""


class SecureSumError(InputError):
    """A masked sum cannot be completed; no part of it is used."""


class MessageError(InputError):
    """A message from another machine cannot be used; nothing of it is."""


class CentersMissingError(InputError):
    """Centers did not answer, and the study needs them."""


class DeploymentError(InputError):
    """A kit, a certificate, a process or a connection is not as it must be."""


class SlideError(InputError):
    """A slide, or a file of its features, cannot be used as it is."""


class WeightsError(InputError):
    """Weights do not fit a network, or a module cannot be one here."""


def needs_extra(package: str, extra: str) -> InputError:
    """What to say where a package of an extra is missing."""
    return InputError(
        f"The package {package} is not installed.", [f'Say: pip install "fedcox[{extra}]"']
    )


@contextmanager
def from_extra(package: str, extra: str) -> Iterator[None]:
    """Around the import of a package of an extra: what to install where it is missing."""
    try:
        yield
    except ImportError as error:
        raise needs_extra(package, extra) from error


class NoInferenceError(FedcoxError):
    """Standard errors were asked of a fit that cannot give them."""


class NotFittedError(FedcoxError, ValueError, AttributeError):
    """An estimator was asked for what it only knows after a fit."""


def not_fitted(text: str) -> NotFittedError:
    """The same; for whoever uses scikit-learn, it is scikit-learn's own error as well."""
    # Who could catch theirs has loaded it. To load it here would take a second, and may fail.
    loaded = sys.modules.get("sklearn.exceptions")
    return NotFittedError(text) if loaded is None else _of_both(loaded.NotFittedError)(text)


@cache
def _of_both(theirs: type[Exception]) -> type[NotFittedError]:
    def pickled(error: NotFittedError) -> tuple[object, tuple[str]]:
        return not_fitted, (str(error),)

    return type("NotFittedError", (NotFittedError, theirs), {"__reduce__": pickled})


class FedcoxWarning(UserWarning):
    """The numbers are finite, but the reader must know something about them.

    Each kind is a class of its own; `fedcox.errors` has the tree. A fit of a study also keeps
    them, as `fitted.notices`, each with a `name` and a `text`, and reports print them.

    >>> import warnings
    >>> import fedcox
    >>> twice = [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]  # the same column twice
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", fedcox.FedcoxWarning)
    ...     model = fedcox.ProportionalHazards().fit(twice, ([1, 2, 3, 4], [1, 1, 1, 0]))
    >>> [warning.category.__name__ for warning in caught]
    ['AliasedColumnsWarning']

    Next: `warnings.simplefilter("error", fedcox.FedcoxWarning)` stops a script at the first.
    """


class AliasedColumnsWarning(FedcoxWarning):
    """Columns that are linear combinations of the columns before them."""


class ConstantColumnsWarning(FedcoxWarning):
    """Columns with the same value for every patient of every center."""


class EmptyIntervalsWarning(FedcoxWarning):
    """Intervals without an event: the hazard there is zero."""


class EventsOnlyIntervalsWarning(FedcoxWarning):
    """Intervals in which everyone at risk has the event: the hazard there is one."""


class JoinedIntervalsWarning(FedcoxWarning):
    """Pieces that were joined with their neighbours, since nobody had the event in them."""


class ExactSumsWarning(FedcoxWarning):
    """Sums without noise, from which patients may be computed, were asked of hospitals."""


class CoarseTimeWarning(FedcoxWarning):
    """Grouped time with intervals so wide that the ratios may be far from Cox's."""


class LateEventsWarning(FedcoxWarning):
    """Events after the horizon, which count as if they had not happened."""


class SeparationWarning(FedcoxWarning):
    """A coefficient that improves the likelihood without bound."""


class RidgeWarning(FedcoxWarning):
    """A penalty moved the coefficients, and with them what z, p and intervals mean."""


class NotConvergedWarning(FedcoxWarning):
    """The solver stopped before it reached the optimum."""


class ApproximateSolverWarning(FedcoxWarning):
    """The solver ends near the pooled optimum; how near depends on the centers."""


class MissingCenterWarning(FedcoxWarning):
    """Patients of a common table who name no center and were left out."""


class DoubtfulTimesWarning(FedcoxWarning):
    """Follow-up times that may rather be dates, counted in days."""


class FilledCellsWarning(FedcoxWarning):
    """Covariates without a value, which the mean over all centers stands for."""


class LostCentersWarning(FedcoxWarning):
    """Centers that stopped answering; the result is about the others' patients."""


class NoiseWarning(FedcoxWarning):
    """What noise for privacy, or the bounds it needs, may have done to a result."""


class LargeDeltaWarning(FedcoxWarning):
    """A delta at which some patient may be given away, and the promise be kept."""
