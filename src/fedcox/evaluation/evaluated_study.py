"""Which studies may be evaluated, and how many patients are left out of that."""

from __future__ import annotations

from collections import Counter

from fedcox.engines.in_process import InProcess
from fedcox.errors import InputError
from fedcox.study.study import Study


def check_open(study: Study) -> None:
    """Schemes are compared on the patients themselves: no noise is added, and none shown."""
    if study.privacy.noised:
        raise InputError(
            "This study is under differential privacy, and an evaluation adds no noise.",
            [
                "Leave noise out of [privacy] to evaluate without; "
                "`fedcox reproduce privacy` compares fits under noise on simulated patients."
            ],
        )


def left_out_lines(federation: InProcess) -> list[str]:
    """How many patients were dropped, for each reason, and cells filled, over all centers."""
    dropped: Counter[str] = Counter()
    filled: Counter[str] = Counter()
    for center in federation.centers:
        dropped.update(center.dropped)
        filled.update(center.filled)
    return [
        *(
            f"{count:,} patient(s) left out, as the study says: {reason}."
            for reason, count in dropped.items()
            if reason != "no center"  # has a warning of its own
        ),
        *(
            f"{count:,} cell(s) of column '{name}' without a value filled with the mean."
            for name, count in filled.items()
        ),
    ]
