"""What a data manager reads before approving a study: who asks, for what, how protected."""

from __future__ import annotations

from collections.abc import Iterator

from fedcox.analysis.asked import asked_by
from fedcox.analysis.noised_fit import spending
from fedcox.analysis.study import Study
from fedcox.deployment.approval import Request
from fedcox.shown_text import shown


def request_lines(request: Request) -> list[str]:
    """The study in plain words, one fact a line."""
    study = Study.parse(request.study, source="the study")
    lines = [
        f"Study: {request.name}",
        f"Code: {request.code}",
        f"Hospitals: {', '.join(request.centers)}",
        *_columns(study),
        *_protection(study, len(request.centers)),
        "It may ask, and nothing else is answered:",
        *(f"  {name}: {words}" for name, words in asked_by(study).items()),
        *_fingerprints(request),
    ]
    return [shown(line) for line in lines]


def _columns(study: Study) -> Iterator[str]:
    outcome = study.outcome
    yield f"Columns it reads: {outcome.time}, {outcome.event}, " + ", ".join(
        covariate.name for covariate in study.covariates
    )


def _protection(study: Study, centers: int) -> Iterator[str]:
    private = study.privacy.noised
    if study.privacy.secure_sums:
        yield "Protection: replies leave under masks; only sums over hospitals are seen."
    elif not private:
        yield "Protection: none but this hospital's policy; the coordinator sees each reply."
    if private:
        agreed = spending(study, centers)
        yield (
            f"Protection: noise for differential privacy, epsilon {agreed.epsilon:.4g} and "
            f"delta {agreed.delta:g} in all."
        )


def _fingerprints(request: Request) -> Iterator[str]:
    if not request.fingerprints:
        return
    yield "Keys of the hospitals. The code above stands for them all: where another hospital"
    yield "reads you the same code, it was shown the same study and the same keys."
    for name, fingerprint in sorted(request.fingerprints.items()):
        yield f"  {name}: {fingerprint}"
