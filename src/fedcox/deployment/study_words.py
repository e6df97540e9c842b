"""What a data manager reads before approving a study: who asks, for what, how protected.

And what studies have taken from the hospital's patients before, and its policy still allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedcox.data.wording import counted
from fedcox.deployment.approval import Request
from fedcox.deployment.center_folder import CenterFolder, CenterSettings
from fedcox.errors import BudgetError, InputError
from fedcox.federation.policy import budget_under
from fedcox.files.followed import FollowedFile
from fedcox.privacy.budget import Budget
from fedcox.reports.guarantee_words import weakness
from fedcox.shown_text import shown
from fedcox.study.asked import asked_by
from fedcox.study.noised_fit import public_pieces, spending
from fedcox.study.study import Study
from fedcox.study.study_tables import CategoryCovariate, NumberCovariate, Outcome
from fedcox.survival.link import LINKS

if TYPE_CHECKING:
    from fedcox.study.noised_fit import Spending


def shortfall(budget: Budget, study: Spending) -> tuple[str, ...]:
    """What a study needs and what is left, where that is less: numbers of studies alone."""
    try:
        spent = budget.spent
    except BudgetError:  # a damaged file: nobody knows what is left
        return ()
    return tuple(
        f"{name}: {needed:.4g} needed, {max(0.0, allowed - before):.4g} left"
        for name, needed, before, allowed in (
            ("epsilon", study.epsilon, spent.epsilon, budget.epsilon),
            ("delta", study.delta, spent.delta, budget.delta),
        )
        if allowed is not None and before + needed > allowed
    )


def account_lines(folder: CenterFolder, budget: Budget) -> Iterator[str]:
    """Every study that was answered about these patients, and what all of them spent."""
    try:
        payments = budget.spent.payments
    except BudgetError as error:
        yield f"{error.subject} {' '.join(error.faults)}"
        return
    epsilon = sum(payment.epsilon for payment in payments)
    delta = sum(payment.delta for payment in payments)
    allowed = "" if budget.epsilon is None else f" of {budget.epsilon:g} allowed"
    yield f"Spent before on these patients: epsilon {epsilon:.4g}{allowed}, delta {delta:.3g}."
    exact = list(_exact_studies(folder))
    if not payments and not exact:
        yield "Earlier studies on these patients: none."
        return
    yield "Earlier studies on these patients:"
    for payment in payments:
        yield (
            f"  {payment.day} “{payment.name}”: noise, epsilon {payment.epsilon:.4g}, "
            f"delta {payment.delta:g}"
        )
    for name, day in exact:
        yield f"  {day} “{name}”: exact sums"


def _exact_studies(folder: CenterFolder) -> Iterator[tuple[str, str]]:
    """Names of studies that were answered without noise, with the first day of each.

    Studies of the same name are told apart by their codes.
    """
    seen: set[tuple[str, str]] = set()
    for row in FollowedFile(folder.ledger, from_start=True).rows():
        known = row["study"], row.get("code", "")
        if "noise" not in row["protection"] and known not in seen:
            seen.add(known)
            yield row["study"], row["time"][:10]


#: Of a study whose sums leave as they are.
EXACT_SUMS = (
    "Warning: the study asks for exact sums. Whoever sees the totals may be able to compute "
    "patients."
)
_MISSING = {
    "refuse": "the file is refused",
    "drop": "the patient is left out",
    "mean": "the mean over all hospitals stands for it",
}


def request_lines(request: Request, home: CenterFolder) -> list[str]:
    """The study in plain words, one fact a line, and what these patients gave before."""
    study = Study.parse(request.study, source="the study")
    centers = len(request.centers)
    lines = [
        f"Study: {request.name}",
        f"Code: {request.code}",
        f"Hospitals: {', '.join(request.centers)}",
        f"Attendance: {_attendance(study, centers)}",
        f"Model: {_model(study)}",
        f"Outcome: {_outcome(study.outcome)}",
        f"Time: {_time(study)}",
        f"Columns it reads: {', '.join(_columns(study))}",
        *(f"  {_column(covariate)}" for covariate in study.covariates),
        f"A patient without a value: {_MISSING[study.model.missing]}.",
        *_protection(study, centers),
        *_account(study, centers, home),
        "It may ask, and nothing else is answered:",
        *(f"  {name}: {words}" for name, words in asked_by(study).items()),
        *_fingerprints(request),
    ]
    return [shown(line) for line in lines]


def _attendance(study: Study, centers: int) -> str:
    needed = study.attendance.among(centers)
    every = "all of them" if needed == centers else f"at least {needed} of them"
    return f"{every} in every sum; a sum over fewer is refused."


def _model(study: Study) -> str:
    model, link = study.model, LINKS[study.model.link]
    grouped = f", grouped time, who is censored inside an interval: {model.censored_interval}"
    baseline = f", spline baseline of {model.spline} numbers" if model.spline else ""
    ridge = f", ridge {model.ridge:g}" if model.ridge else ""
    fitted = "" if study.privacy.noised else f", fitted by {study.solver.method}"
    return (
        f"{link.ratio_name}s, link {model.link}{grouped if link.grouped else ''}{baseline}"
        f"{ridge}{fitted}."
    )


def _outcome(outcome: Outcome) -> str:
    between = _range(outcome.min, outcome.max)
    unit = f" in {outcome.unit}" if outcome.unit else ""
    record = f", recorded in steps of {outcome.resolution:g}" if outcome.resolution else ""
    return (
        f"time in column {outcome.time}{unit}{record}{between}; event where column "
        f"{outcome.event} is {outcome.event_value}."
    )


def _time(study: Study) -> str:
    grid = study.grid
    if grid.edges is not None:
        return f"pieces that end at {', '.join(f'{edge:g}' for edge in grid.edges)}."
    if grid.width is not None:
        cut = (
            f"{'intervals' if LINKS[study.model.link].grouped else 'pieces'} of {grid.width:g}"
        )
    elif grid.times is not None:
        cut = "every distinct event time"
    elif grid.pieces is not None:
        cut = f"{grid.pieces} pieces, cut where the events are"
    elif study.privacy.noised:
        cut = f"{public_pieces(study).number} pieces at most, cut where the noised events are"
    else:
        cut = "pieces, cut where the events are"
    horizon = "to the end of follow-up" if grid.horizon is None else f"up to {grid.horizon:g}"
    return f"{cut}, {horizon}."


def _columns(study: Study) -> Iterator[str]:
    yield from (study.outcome.time, study.outcome.event)
    if study.study.patient_id is not None:
        yield study.study.patient_id
    yield from (covariate.name for covariate in study.covariates)


def _column(covariate: NumberCovariate | CategoryCovariate) -> str:
    if isinstance(covariate, NumberCovariate):
        return f"{covariate.name}: a number{_range(covariate.min, covariate.max)}"
    return (
        f"{covariate.name}: a category with the levels {', '.join(covariate.levels)}; compared "
        f"with {covariate.reference}"
    )


def _range(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    if low is None:
        return f", {high:g} at most"
    return f", {low:g} at least" if high is None else f" from {low:g} to {high:g}"


def _protection(study: Study, centers: int) -> Iterator[str]:
    masked, noised = study.privacy.secure_sums, study.privacy.noised
    if masked and noised:
        yield (
            "Protection: replies leave under masks with noise in them; only noised sums over "
            "hospitals are seen."
        )
    elif masked:
        yield "Protection: replies leave under masks; only sums over hospitals are seen."
    elif noised:
        yield "Protection: each reply leaves with all of its noise; the coordinator sees it."
    else:
        yield "Protection: none; the coordinator sees each reply as it is."
    if not noised:
        yield EXACT_SUMS
        return
    agreed = spending(study, centers)
    weak = weakness(agreed.epsilon, agreed.delta)
    sums = "" if agreed.sums is None else f", {counted(agreed.sums, 'noised sum')}"
    yield (
        f"This study spends: epsilon {agreed.epsilon:.4g}, delta {agreed.delta:g}{sums}."
        f"{weak and f' {weak}'}"
    )
    if masked:
        yield (
            "Against all other hospitals together, who know the noise that they added: epsilon "
            f"{agreed.against_centers:.4g}."
        )


def _account(study: Study, centers: int, home: CenterFolder) -> Iterator[str]:
    try:
        # Who has never started the center has set no limits yet.
        settings = CenterSettings.read(home.settings) if home.settings.exists() else None
        policy = None if settings is None else settings.read_policy()
    except InputError as error:
        yield f"What was spent before cannot be shown: {error.subject} {' '.join(error.faults)}"
        return
    budget = budget_under(policy, home.budget if settings is None else settings.account(home))
    yield from account_lines(home, budget)
    missing = shortfall(budget, spending(study, centers)) if study.privacy.noised else ()
    if missing:
        yield f"The budget does not cover it, so it is refused: {'; '.join(missing)}."


def _fingerprints(request: Request) -> Iterator[str]:
    yield "Keys of the hospitals. The code above stands for them all: where another hospital"
    yield "reads you the same code, it was shown the same study and the same keys."
    for name, fingerprint in sorted(request.fingerprints.items()):
        yield f"  {name}: {fingerprint}"
