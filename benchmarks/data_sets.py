"""Real data sets for the comparison with Cox's model: where they come from, what is in them.

None is copied into this repository: they come with lifelines, scikit-survival, SurvSet and R.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from benchmarks.child_process import ProgramError, run_program
from benchmarks.patients import FloatArray

_SHARES = (0.30, 0.25, 0.15, 0.12, 0.10, 0.06, 0.02)  # of the patients, for each center
_SEED = 20
_R_SECONDS = 120.0


class NotHereError(Exception):
    """A data set cannot be had on this machine; the text says why."""


def _lifelines(name: str) -> pd.DataFrame:
    import lifelines.datasets

    frame: pd.DataFrame = getattr(lifelines.datasets, f"load_{name}")()
    return frame


def _scikit_survival(name: str) -> pd.DataFrame:
    import sksurv.datasets

    covariates, outcome = getattr(sksurv.datasets, f"load_{name}")()
    event, time = outcome.dtype.names
    frame: pd.DataFrame = covariates.assign(event=outcome[event], time=outcome[time])
    return frame


def _survset(name: str) -> pd.DataFrame:
    """Without the package's marks on columns: `num_age` is age; of twins the number stays."""
    try:
        from SurvSet.data import SurvLoader
    except ModuleNotFoundError as error:
        raise NotHereError("`pip install SurvSet` first") from error
    frame: pd.DataFrame = SurvLoader().load_dataset(name)["df"]
    frame.columns = frame.columns.str.replace("^(num|fac)_", "", regex=True)
    return frame.loc[:, ~frame.columns.duplicated()]


def _r_survival(name: str) -> pd.DataFrame:
    script = f"suppressMessages(library(survival)); write.csv({name}, row.names = FALSE)"
    return pd.read_csv(io.StringIO(run_r(script)))


def _r_kmsurv(name: str) -> pd.DataFrame:
    script = f"library(KMsurv); data({name}); write.csv({name}, row.names = FALSE)"
    return pd.read_csv(io.StringIO(run_r(script)))


def _first_exacerbations(name: str) -> pd.DataFrame:
    """Each patient once, until the first exacerbation or the end of follow-up."""
    rows = _r_survival(name).drop_duplicates("id")
    days = pd.to_datetime(rows["end.dt"]) - pd.to_datetime(rows["entry.dt"])
    event = rows["ivstart"].notna()
    return rows.assign(event=event.astype(int), time=rows["ivstart"].where(event, days.dt.days))


def run_r(script: str, *arguments: str) -> str:
    """Run a script of R's and return what it printed."""
    if shutil.which("Rscript") is None:
        raise NotHereError("no Rscript")
    command = ["Rscript", "--vanilla", "-e", script, *arguments]
    try:
        return run_program(command, limit_seconds=_R_SECONDS)
    except ProgramError as error:
        raise NotHereError(f"Rscript {error}") from error


@dataclass(frozen=True, eq=False)
class RealCohort:
    """One data set, ready to be fitted."""

    data: DataSet
    numbers: pd.DataFrame
    categories: pd.DataFrame  # their levels as text
    time: pd.Series[float]
    event: pd.Series[int]

    @property
    def covariates(self) -> pd.DataFrame:
        """Every covariate a number: of categories an indicator for each level but the first."""
        if self.categories.empty:
            return self.numbers
        return self.numbers.join(pd.get_dummies(self.categories, drop_first=True, dtype=float))

    @property
    def frame(self) -> pd.DataFrame:
        return self.covariates.assign(time=self.time, event=self.event)

    @property
    def mean(self) -> pd.DataFrame:
        """One patient with the mean of every covariate."""
        return self.covariates.mean().to_frame().T

    @property
    def deciles(self) -> FloatArray:
        """Of follow-up; observed times, where Cox's curve has its steps."""
        shares = np.arange(1, 10) / 10
        return np.unique(np.quantile(self.time, shares, method="inverted_cdf"))

    @property
    def longest(self) -> float:
        return float(self.time.max())

    def rescaled(self, factor: float) -> RealCohort:
        return replace(self, time=self.time * factor)

    def centers(self) -> pd.Series[str]:
        """Draw a center for every patient, seven in all and very unequal."""
        ends = np.round(np.cumsum(_SHARES) * len(self.time)).astype(int)
        sizes = np.diff(ends, prepend=0)
        names = np.repeat([f"center {number}" for number in range(1, 8)], sizes)
        return pd.Series(np.random.default_rng(_SEED).permutation(names))


@dataclass(frozen=True)
class DataSet:
    """Where a data set comes from and how it is analysed.

    Rows with a missing value in what is used, and rows with a time of zero, whose patients are
    never at risk, are left out for Cox and fedcox alike. (No set here has a time of zero.)
    """

    name: str
    source: Callable[[str], pd.DataFrame]
    numbers: str  # columns, with spaces between them
    categories: str = ""
    logarithms: str = ""  # columns that enter as their logarithm
    table: str = ""  # the source's name for it, where that is another
    time: str = "time"
    event: str = "event"
    event_value: int = 1
    rows: str = ""  # which ones, as an expression of pandas
    unit: str = "days"
    resolution: float | None = 1.0  # None: not known

    def load(self) -> RealCohort:
        frame = self.source(self.table or self.name)
        if self.rows:
            frame = frame.query(self.rows)
        names = [each.split() for each in (self.numbers, self.logarithms, self.categories)]
        numbers, logarithms, categories = names
        event = (frame[self.event] == self.event_value).astype(int)
        frame = frame.assign(time=frame[self.time].astype(float), event=event)
        frame = frame[["time", "event", *numbers, *logarithms, *categories]].dropna()
        frame = frame[frame["time"] > 0].reset_index(drop=True)
        entered = frame[numbers].astype(float)
        for name in logarithms:
            entered[f"log {name}"] = np.log(frame[name].astype(float))
        levels = frame[categories].astype(str)
        return RealCohort(self, entered, levels, frame["time"], frame["event"])


_DECLARED = (
    DataSet(
        "lung",
        _lifelines,
        numbers="age sex ph.ecog ph.karno",
        event="status",
    ),
    DataSet(
        "veteran",
        _scikit_survival,
        table="veterans_lung_cancer",
        numbers="Age_in_years Karnofsky_score Months_from_Diagnosis",
        categories="Celltype Prior_therapy Treatment",
    ),
    DataSet(
        "pbc",  # the patients of the trial, the covariates of the Mayo model
        _r_survival,
        numbers="age edema",
        logarithms="bili albumin protime",
        categories="trt sex",
        event="status",
        event_value=2,
    ),
    DataSet(
        "colon",
        _r_survival,
        numbers="age sex obstruct perfor adhere nodes surg",
        categories="rx differ extent",
        event="status",
        rows="etype == 2",  # death; the other rows are of recurrence
    ),
    DataSet(
        "rhDNase",
        _first_exacerbations,
        numbers="trt fev",
    ),
    DataSet(
        "bone marrow",
        _r_kmsurv,
        table="bmt",
        numbers="z1 z2 z3 z4 z5 z6",
        categories="group",
        time="t1",
        event="d1",
    ),
    DataSet(
        "rossi",
        _lifelines,
        numbers="fin age race wexp mar paro prio",
        time="week",
        event="arrest",
        unit="weeks",
    ),
    DataSet(
        "gbsg2",
        _scikit_survival,
        numbers="age tsize pnodes progrec estrec",
        categories="horTh menostat tgrade",
    ),
    DataSet(
        "whas500",  # those who left hospital alive
        _survset,
        numbers="age hr sysbp diasbp bmi gender cvd afb sho chf av3 miord mitype",
        categories="year",
    ),
    DataSet(
        "rotterdam",
        _r_survival,
        numbers="age meno nodes pgr er hormon chemo",
        categories="size grade",
        time="dtime",
        event="death",
    ),
    DataSet(
        "rott2",  # the same patients, in months and fractions of them
        _survset,
        numbers="age nodes progesterone estrogen",
        categories="meno tsize grade hormon chemo",
        unit="months",
        resolution=None,
    ),
    DataSet(
        "Framingham",
        _survset,
        numbers="age sbp dbp scl bmi",
        categories="sex",
    ),
    DataSet(
        "nwtco",
        _survset,
        numbers="age",
        categories="stage study histol instit",
    ),
    DataSet(
        "rhc",
        _survset,
        numbers=(
            "age edu aps1 scoma1 meanbp1 hrt1 resp1 temp1 pafi1 alb1 hema1 bili1 crea1 sod1 "
            "pot1 paco21 ph1 cardiohx chfhx dementhx psychhx chrpulhx renalhx liverhx "
            "gibledhx malighx immunhx transhx amihx"
        ),
        categories="swang1 sex race cat1 ca dnr1",
    ),
    DataSet(
        "support2",
        _survset,
        numbers="age num_co hday scoma meanbp hrt resp temp crea sod diabetes dementia",
        categories="sex dzgroup ca",
    ),
)

#: By name. Numbers enter as numbers, categories as indicators.
DATA_SETS = {data.name: data for data in _DECLARED}
