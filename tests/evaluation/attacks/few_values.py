"""A study of few values for every covariate: what exact sums give away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fedcox.engines.in_process import InProcess
from fedcox.federation.center import Center
from fedcox.study.study import Study

LEVELS = {
    "sex": ["m", "f"],
    "stage": ["I", "II", "III", "IV"],
    "marker": ["low", "high"],
}


def study(
    *columns: str,
    link: str = "log",
    width: float | None = None,
    solver: str = "newton",
    **tables: object,
) -> Study:
    outcome: dict[str, Any] = {"time": "time", "event": "event", "unit": "days"}
    grid: dict[str, Any] = {"horizon": 1800}
    return Study(
        study={"name": "few values"},
        outcome=outcome | ({"resolution": 1} if link == "log" else {}),
        covariates={
            name: {"type": "category", "levels": LEVELS[name], "reference": LEVELS[name][0]}
            for name in columns
        },
        grid=grid | ({} if width is None else {"width": width}),
        model={"link": link},
        solver={"method": solver},
        **tables,
    )


def patients(number: int, seed: int, centers: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sex, marker = rng.integers(0, 2, (2, number))
    stage = rng.choice(4, number, p=[0.3, 0.3, 0.25, 0.15])
    survival = rng.exponential(2500 / np.exp(0.3 * sex + 0.4 * stage + 0.2 * marker))
    censoring = rng.uniform(200, 2600, number)
    return pd.DataFrame(
        {
            "time": np.ceil(np.minimum(survival, censoring)).astype(int),
            "event": (survival <= censoring).astype(int),
            "sex": np.array(LEVELS["sex"])[sex],
            "stage": np.array(LEVELS["stage"])[stage],
            "marker": np.array(LEVELS["marker"])[marker],
            "hospital": [f"hospital {k % centers}" for k in range(number)],
        }
    )


def centers_of(plan: Study, frame: pd.DataFrame) -> tuple[Center, ...]:
    return InProcess.from_frame(plan, frame, center="hospital").centers
