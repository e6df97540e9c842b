"""How much code a data manager reads who follows one protected round from end to end.

Counted are the rounds of a score, twelve of seventeen, from the second on: the first round on
some pieces also places the patients on them. Functions that a comprehension is are not counted.
"""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import fedcox
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.federation.policy import Gate, Policy
from fedcox.federation.queries.bounded_sums import NoisedScoreAt
from fedcox.study.noised_fit import fit_noised, noised
from fedcox.study.study import Study

SOURCE = Path(fedcox.__file__).parent
LIMIT = 120
#: Python before 3.12 runs these as functions, as which nobody reads them.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


def masked_under_policies() -> tuple[Study, Masked]:
    """Four hospitals with a policy each, under masks and noise."""
    study = Study(
        outcome={"time": "days", "event": "died", "resolution": 1},
        covariates={
            "age": {"type": "number", "min": -3, "max": 3},
            "sex": {"type": "category", "levels": ["f", "m"], "reference": "f"},
        },
        grid={"horizon": 100},
        privacy={"secure_sums": True, "noise": {"epsilon": 8, "patients": 600}},
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "days": np.ceil(rng.exponential(60, 600)),
            "died": rng.integers(0, 2, 600),
            "age": np.clip(rng.normal(size=600), -3, 3),
            "sex": rng.choice(["f", "m"], 600),
            "hospital": [f"h{row % 4}" for row in range(600)],
        }
    )
    plain = InProcess.from_frame(study, frame, center="hospital")
    limited = [replace(center, gate=Gate(Policy(epsilon=10))) for center in plain.centers]
    return study, Masked.around(noised(study, InProcess(limited)), study="trial")


def test_a_round_under_masks_noise_and_policies_passes_few_functions() -> None:
    study, masked = masked_under_policies()
    plain, passed = masked.ask_together, list[set[tuple[str, str]]]()

    def traced(queries: Any, each: Any = ()) -> list[Any]:
        if not (len(queries) == 1 and isinstance(queries[0], NoisedScoreAt)):
            return plain(queries, each)
        seen: set[tuple[str, str]] = set()

        def note(frame: FrameType, event: str, _: object) -> None:
            code = frame.f_code
            own = event == "call" and code.co_filename.startswith(str(SOURCE))
            if own and code.co_name not in _COMPREHENSIONS:
                seen.add((code.co_filename, code.co_qualname))

        gc.disable()  # generators that other tests left behind would be closed in here
        sys.setprofile(note)
        try:
            return plain(queries, each)
        finally:
            sys.setprofile(None)
            gc.enable()
            passed.append(seen)

    masked.ask_together = traced  # type: ignore[method-assign]
    fit_noised(study, masked)
    _, *rounds = passed  # the first places every patient on the pieces, once
    assert len(rounds) == 10  # one of twelve scores comes with the information
    counts = [len(seen) for seen in rounds]
    assert max(counts) < LIMIT, counts
    names = {name for _, name in rounds[-1]}
    assert {
        "Policy.faults",
        "NoisedReplies.vector",
        "SecureSumCenter.masked",
        "_unmasked",
    } <= names
