"""What must be known of a private fit before it is read, from public numbers alone.

No patient is asked for it, so that it costs no epsilon: how much noise there is follows from
the study file and the number of centers.
"""

from __future__ import annotations

import math

from fedcox.analysis.fitted import Notice

#: Noise in a patient's log risk that is as much as an effect of this ratio is worth a warning.
#: With six covariates, the ratio of a level that one patient in eight has is then usually off
#: by a factor of about 1.4, bias by clipping not counted.
_RATIO = 1.35
#: With this much, a third of the variance of what is found is noise, where the true log risk
#: has a spread of one.
_DOMINATES = 2.0
#: Beyond this factor it does not matter by how much.
_MOST_TOLD = 10.0


def much_noise(noise: float, *, masked: bool) -> list[Notice]:
    """Whether noise of this standard deviation in the log risk leaves effects to be seen."""
    if noise < math.log(_RATIO):
        return []
    # The exponential of more would be beyond all numbers.
    factor = math.exp(min(noise, math.log(_MOST_TOLD)))
    told = f"more than {factor:.0f}" if factor >= _MOST_TOLD else f"about {factor:.2g}"
    found = "Noise dominates" if factor >= _DOMINATES else "Much noise"
    once = "" if masked else ", or use secure sums, under which noise is added about once"
    return [
        Notice(
            "NoiseWarning",
            f"{found}: for a usual patient the noise for privacy alone changes the risk by a "
            f"factor of {told}, up or down. Ratios below can be noise and nothing else, "
            "and one far from 1 is no sign of an effect. Allow a larger epsilon, plan with "
            f"more patients, fewer covariates or wider intervals{once}. This follows from the "
            "study's public numbers; no patient was asked.",
        )
    ]


def large_delta(delta: float, patients: int) -> list[Notice]:
    """Whether giving away one patient at random would keep the promise."""
    if delta < 1.0 / patients:
        return []
    return [
        Notice(
            "LargeDeltaWarning",
            f"A delta of {delta:g} with {patients} patients promises little: to publish one of "
            "them, drawn at random, would keep it. Give a delta far below one over the number "
            "of patients.",
        )
    ]
