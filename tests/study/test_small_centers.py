"""Centers of any size take part under noise: fifty small ones, one patient, and nobody."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from lifelines import CoxPHFitter

from fedcox.engines.in_process import InProcess
from fedcox.errors import FedcoxWarning
from fedcox.federation.policy import Gate, Policy
from fedcox.study.fit import fit
from fedcox.study.study import Study

CENTERS = 51


def small_centers() -> dict[str, pd.DataFrame]:
    """A trial over many clinics: twelve patients in the median, one in two of them."""
    rng = np.random.default_rng(11)
    sizes = np.clip(rng.poisson(12, CENTERS), 2, None)
    sizes[:2] = 1
    frames = {}
    for number, size in enumerate(sizes.tolist()):
        treated, dose = rng.integers(0, 2, size), np.clip(rng.normal(size=size), -3, 3)
        happens = rng.exponential(150 * np.exp(0.5 * treated - 0.4 * dose))
        ends = rng.uniform(30, 180, size)
        frames[f"clinic {number:02d}"] = pd.DataFrame(
            {
                "days": np.ceil(np.minimum(happens, ends)),
                "relapse": (happens < ends).astype(int),
                "treated": treated.astype(float),
                "dose": dose,
            }
        )
    assert np.median([len(frame) for frame in frames.values()]) == 12
    return frames


def asked(patients: int) -> Study:
    """As hospitals are asked for it where the study says no more than it must."""
    return Study(
        outcome={"time": "days", "event": "relapse", "resolution": 1},
        covariates={
            "treated": {"type": "number", "min": 0, "max": 1},
            "dose": {"type": "number", "min": -3, "max": 3},
        },
        grid={"horizon": 180},
        privacy={"noise": {"patients": patients}},
    ).between_hospitals(CENTERS)


def test_fifty_small_centers_take_part_under_the_default_between_hospitals() -> None:
    pytest.importorskip("dp_accounting")
    frames = small_centers()
    whole = pd.concat(list(frames.values())[1:])
    study = asked(len(whole))
    assert study.privacy.secure_sums
    first, *others = InProcess.from_frame(study, frames).centers
    nobody = replace(first, cohort=first.cohort.take(np.zeros(1, dtype=np.bool_)))
    centers = [nobody, *others]
    assert sorted(center.cohort.patients for center in centers)[:2] == [0, 1]
    # A hospital without a policy file has the defaults.
    limited = InProcess([replace(each, gate=Gate(Policy())) for each in centers])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        fitted = fit(study, limited)
    assert fitted.converged
    assert {row.protection for row in fitted.ledger} == {"keys", "masks and noise"}
    assert [row.name for row in fitted.centers] == sorted(frames)
    assert {row.patients for row in fitted.centers} == {None}
    cox = CoxPHFitter().fit(whole.astype(float), "days", "relapse")
    for row in fitted.coefficients:
        se = cox.standard_errors_[row.name]
        # Noise moves a coefficient by a third of a standard error; six times that is never.
        assert abs(row.coef - cox.params_[row.name]) < 2.0 * se
        assert row.se is not None
        assert 0.8 * se < row.se < 1.4 * se
