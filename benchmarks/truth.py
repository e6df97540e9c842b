"""Are fedcox's default settings Cox's model? `python -m benchmarks.truth`.

Real data, with Efron's Cox model of lifelines as the truth. fedcox gets no grid: once with one
table, once with seven unequal centers under secure sums. Then the same in other units of time.
Exit status 1 where a limit is not held.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import Progress

import fedcox
from benchmarks.data_sets import DATA_SETS, NotHereError, RealCohort, run_r
from benchmarks.patients import FloatArray
from benchmarks.tables import Table

RESULT = Path(__file__).parent / "results" / "truth.json"
#: The truth and R must agree to this (`r_difference`); otherwise neither is the truth.
AGREEMENT = 1e-4
#: Times are multiplied by these.
FACTORS = (365.25, 1 / 1000)
#: How far a coefficient may move then; without a resolution in the study, in standard errors.
RESCALED, RESCALED_UNSTATED = 1e-9, 0.05
_VERSIONS = ("fedcox", "numpy", "lifelines", "scikit-survival", "SurvSet")


@dataclass(frozen=True, eq=False)
class Estimate:
    """Coefficients, and survival of the patient with mean covariates at the deciles."""

    coefficients: FloatArray
    errors: FloatArray
    survival: FloatArray
    median: float = np.nan  # where it is not reached
    pieces: int = 0


def cox(patients: RealCohort) -> Estimate:
    """Efron's Cox model: coefficients by lifelines, and the curve that belongs to them."""
    from lifelines import CoxPHFitter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas' own, and covariates of little variance
        model = CoxPHFitter().fit(
            patients.frame,
            "time",
            "event",
            fit_options={"precision": 1e-12, "r_precision": 0.0},
        )
    coefficients = model.params_.to_numpy()
    times, survival = _efron_curve(patients, coefficients)
    steps = np.append(1.0, survival)
    half = np.flatnonzero(survival <= 0.5)
    return Estimate(
        coefficients,
        model.standard_errors_.to_numpy(),
        steps[np.searchsorted(times, patients.deciles, side="right")],
        times[half[0]] if half.size else np.nan,
    )


def _efron_curve(
    patients: RealCohort, coefficients: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Event times, and survival at mean covariates from each on.

    As R's survfit has it. The curve of lifelines is Breslow's whatever the ties: those who die
    together are all at risk until the last of them, so it lies higher where many do.
    """
    time, event = patients.time.to_numpy(), patients.event.to_numpy() == 1
    centered = patients.covariates.to_numpy() - patients.mean.to_numpy()
    risk = np.exp(centered @ coefficients)
    times = np.unique(time[event])
    hazard = np.empty(times.size)
    for place, now in enumerate(times):
        dying = risk[event & (time == now)]
        gone = dying.mean() * np.arange(dying.size)  # on average, before each of them
        hazard[place] = (1 / (risk[time >= now].sum() - gone)).sum()
    return times, np.exp(-np.cumsum(hazard))


_R_COX = """
suppressMessages(library(survival))
given <- commandArgs(TRUE)
patients <- read.csv(given[1])
fit <- coxph(Surv(time, event) ~ ., patients, ties = "efron",
             control = coxph.control(eps = 1e-12, iter.max = 50))
curve <- survfit(fit, newdata = as.data.frame(t(colMeans(patients))))
survival <- summary(curve, times = read.csv(given[2])$time, extend = TRUE)$surv
cat(sprintf("%.17g", c(coef(fit), sqrt(diag(vcov(fit))), survival)))
"""


def r_difference(patients: RealCohort, truth: Estimate) -> float:
    """The largest difference of R's coxph and survfit to `truth`.

    Coefficients and their errors in standard errors; survival at the deciles as it is.
    """
    size = len(truth.errors)
    frame = patients.frame
    frame.columns = [*(f"x{number}" for number in range(size)), "time", "event"]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("patients.csv", "deciles.csv")]
        frame.to_csv(files[0], index=False)
        pd.DataFrame({"time": patients.deciles}).to_csv(files[1], index=False)
        numbers = np.array(run_r(_R_COX, *map(str, files)).split(), dtype=np.float64)
    own = np.concatenate([truth.coefficients, truth.errors, truth.survival])
    scale = np.concatenate([truth.errors, truth.errors, np.ones(len(truth.survival))])
    return float(np.abs((numbers - own) / scale).max())


def fedcox_fit(
    patients: RealCohort,
    *,
    centers: pd.Series[str] | None = None,
    resolution: float | None = None,
    **study: Any,
) -> Estimate:
    """Fit the same patients by fedcox; `study` holds further tables of the study file."""
    # No unit, and a limit that allows all: the same times are tried in other units too.
    outcome: dict[str, Any] = {"time": "time", "event": "event", "max": patients.longest}
    if resolution is not None:
        outcome["resolution"] = resolution
    plan = fedcox.Study(outcome=outcome, covariates=list(patients.covariates), **study)
    frame, column = patients.frame, None
    if centers is not None:
        frame, column = frame.assign(center=centers), "center"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fedcox.FedcoxWarning)
        fitted = fedcox.fit(plan, fedcox.InProcess.from_frame(plan, frame, center=column))
        rows = fitted.coefficients
        return Estimate(
            np.array([np.nan if row.coef is None else row.coef for row in rows]),
            np.array([np.nan if row.se is None else row.se for row in rows]),
            _survival(fitted, patients.mean, patients.deciles),
            float(fitted.predict_median(patients.mean).iloc[0]),
            fitted.intervals,
        )


def _survival(
    fitted: fedcox.FittedStudy, patient: pd.DataFrame, times: FloatArray
) -> FloatArray:
    if fitted.link == "log":
        curve: FloatArray = fitted.predict_survival(patient, times=times).to_numpy()[0]
        return curve
    # Grouped time: the step that a reader sees, one at every interval's end.
    ends = np.append(-np.inf, fitted.interval_ends)
    steps: FloatArray = np.append(1.0, fitted.predict_survival(patient).to_numpy()[0])
    return steps[np.searchsorted(ends, times, side="right") - 1]


@dataclass(frozen=True)
class Setting:
    """How fedcox is asked, and how near to Cox it has to come."""

    name: str
    coefficient: float  # in standard errors
    survival: float
    median: float | None = None  # relative; None: no limit
    split: bool = False  # over seven centers
    study: Mapping[str, Any] = field(default_factory=dict)


SECURE = {"privacy": {"secure_sums": True, "noise": "none"}}
SETTINGS = (
    Setting("one table", 0.1, 0.015, 0.03),
    Setting("seven centers, secure sums", 0.4, 0.035, split=True, study=SECURE),
)


@dataclass(frozen=True)
class Comparison:
    """How far a fit is from Cox; None where there is nothing to compare.

    `coefficient` is the worst difference of a coefficient, in Cox's standard errors; `survival`
    the largest at a decile of follow-up, `median` the relative one, both at mean covariates.
    `fault` says what the fit did not give although Cox does.
    """

    data: str
    setting: str
    patients: int
    events: int
    pieces: int = 0
    coefficient: float | None = None
    survival: float | None = None
    median: float | None = None
    fault: str = ""

    def held(self, limits: Setting) -> bool:
        pairs = [
            (self.coefficient, limits.coefficient),
            (self.survival, limits.survival),
            (self.median, limits.median),
        ]
        return not self.fault and all(
            distance <= limit
            for distance, limit in pairs
            if distance is not None and limit is not None
        )


def compare(patients: RealCohort, truth: Estimate, setting: Setting) -> Comparison:
    """Fit, and say how far off; a refusal is a fault."""
    result = Comparison(
        patients.data.name, setting.name, len(patients.time), int(patients.event.sum())
    )
    try:
        estimate = fedcox_fit(
            patients, centers=patients.centers() if setting.split else None, **setting.study
        )
    except fedcox.FedcoxError as error:
        return replace(result, fault=_in_one_line(error))
    return replace(
        result,
        pieces=estimate.pieces,
        coefficient=_largest((estimate.coefficients - truth.coefficients) / truth.errors),
        survival=_largest(estimate.survival - truth.survival),
        median=_largest(np.array([estimate.median / truth.median - 1])),
        fault=", ".join(_gaps(estimate, truth, setting)),
    )


def _largest(differences: FloatArray) -> float | None:
    largest = float(np.abs(differences).max())
    return largest if np.isfinite(largest) else None


def _gaps(estimate: Estimate, truth: Estimate, setting: Setting) -> Iterator[str]:
    if not np.isfinite(estimate.coefficients).all():
        yield "a coefficient is missing"
    if not np.isfinite(estimate.survival).all():
        yield "no survival at a decile"
    reached = setting.median is not None and np.isfinite(truth.median)
    if reached and not np.isfinite(estimate.median):
        yield "no median"


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@dataclass(frozen=True)
class Rescaling:
    """What another unit of time does to the coefficients of one table.

    `stated`: the largest change where times, horizon and resolution are multiplied by `factor`.
    `unstated`: where times are, and no study says a resolution; in Cox's standard errors.
    """

    data: str
    factor: float
    stated: float | None = None
    unstated: float | None = None
    fault: str = ""

    @property
    def held(self) -> bool:
        if self.fault or self.stated is None or self.unstated is None:
            return False
        return self.stated <= RESCALED and self.unstated <= RESCALED_UNSTATED


def rescale(patients: RealCohort, truth: Estimate) -> Iterator[Rescaling]:
    """Fit in other units of time, with and without a resolution in the study."""
    horizon, resolution = patients.deciles[-1], patients.data.resolution

    def stated(factor: float) -> FloatArray:
        return fedcox_fit(
            patients.rescaled(factor),
            resolution=None if resolution is None else resolution * factor,
            grid={"horizon": horizon * factor},
        ).coefficients

    def unstated(factor: float) -> FloatArray:
        return fedcox_fit(patients.rescaled(factor)).coefficients

    for factor in FACTORS:
        result = Rescaling(patients.data.name, factor)
        try:
            yield replace(
                result,
                stated=_largest(stated(factor) - stated(1)),
                unstated=_largest((unstated(factor) - unstated(1)) / truth.errors),
            )
        except fedcox.FedcoxError as error:
            yield replace(result, fault=_in_one_line(error))


@dataclass(frozen=True)
class Truth:
    """Everything one run found."""

    made: str
    versions: Mapping[str, str]
    r_differences: Mapping[str, float]  # by data set, where there is R
    comparisons: Sequence[Comparison]
    rescalings: Sequence[Rescaling]
    left_out: Mapping[str, str]  # data sets that this machine does not have, and why

    @classmethod
    def read(cls, file: Path) -> Truth:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return cls(
            **stored
            | {
                "comparisons": [Comparison(**each) for each in stored["comparisons"]],
                "rescalings": [Rescaling(**each) for each in stored["rescalings"]],
            }
        )

    def write(self, file: Path) -> None:
        text = json.dumps(asdict(self), indent=1, allow_nan=False)
        file.write_text(text + "\n", encoding="utf-8")

    def comparisons_of(self, setting: Setting) -> list[Comparison]:
        return [each for each in self.comparisons if each.setting == setting.name]

    @property
    def held(self) -> bool:
        return (
            all(
                each.held(limits) for limits in SETTINGS for each in self.comparisons_of(limits)
            )
            and all(each.held for each in self.rescalings)
            and max(self.r_differences.values(), default=0) <= AGREEMENT
        )

    def tables(self) -> Iterator[Table]:
        """One for each setting, then the other units of time."""
        for setting in SETTINGS:
            yield _comparison_table(setting, self.comparisons_of(setting), self._notes())
        yield _rescaling_table(self.rescalings)

    def _notes(self) -> list[str]:
        notes = [f"{name} left out: {reason}." for name, reason in self.left_out.items()]
        if self.r_differences:
            worst = max(self.r_differences.values())
            notes.append(f"The truth is within {worst:.0e} of R's coxph and survfit.")
        return notes


def _comparison_table(
    setting: Setting, comparisons: Sequence[Comparison], notes: Sequence[str]
) -> Table:
    rows = [
        (
            each.data,
            f"{each.patients:,}",
            f"{each.events:,}",
            f"{each.pieces}",
            _digits(each.coefficient, 3),
            _digits(each.survival, 4),
            "–" if each.median is None else f"{100 * each.median:.1f} %",
            "held" if each.held(setting) else "short",
        )
        for each in comparisons
    ]
    limits = f"{setting.coefficient:g} standard errors, survival {setting.survival:g}"
    if setting.median is not None:
        limits += f", median {100 * setting.median:g} %"
    return Table(
        f"{setting.name}, no grid: distance to Efron's Cox (at most {limits})",
        ["", "patients", "events", "pieces", "coefficient (SE)", "survival", "median", "held?"],
        rows,
        [*_faults(comparisons), *notes],
    )


def _rescaling_table(rescalings: Sequence[Rescaling]) -> Table:
    rows = [
        (
            each.data,
            f"{each.factor:g}",
            "–" if each.stated is None else f"{each.stated:.0e}",
            _digits(each.unstated, 3),
            "held" if each.held else "short",
        )
        for each in rescalings
    ]
    return Table(
        f"other units of time: change of a coefficient (at most {RESCALED:g}; "
        f"with no resolution in the study {RESCALED_UNSTATED:g} standard errors)",
        ["", "times ×", "change", "no resolution (SE)", "held?"],
        rows,
        _faults(rescalings),
    )


def _digits(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _faults(results: Sequence[Comparison | Rescaling]) -> list[str]:
    return list(dict.fromkeys(f"{each.data}: {each.fault}" for each in results if each.fault))


def measure(names: Sequence[str], announce: Callable[[str], None] = lambda _: None) -> Truth:
    """Compare on the named data sets; those that this machine does not have are left out."""
    r_differences: dict[str, float] = {}
    comparisons: list[Comparison] = []
    rescalings: list[Rescaling] = []
    left_out: dict[str, str] = {}
    for name in names:
        announce(name)
        try:
            patients = DATA_SETS[name].load()
        except NotHereError as error:
            left_out[name] = str(error)
            continue
        truth = cox(patients)
        try:
            r_differences[name] = r_difference(patients, truth)
        except NotHereError as error:
            left_out["R's coxph"] = str(error)
        comparisons += [compare(patients, truth, setting) for setting in SETTINGS]
        rescalings += rescale(patients, truth)
    today = datetime.now(UTC).date().isoformat()
    return Truth(today, _versions(), r_differences, comparisons, rescalings, left_out)


def _versions() -> dict[str, str]:
    found = {}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare on every data set, print the tables and store them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth", description=main.__doc__
    )
    parser.add_argument("--data", help=f"comma-separated, of: {', '.join(DATA_SETS)}")
    parser.add_argument("--out", type=Path, help="JSON; with --data nothing is stored without")
    parser.add_argument(
        "--markdown", action="store_true", help="print the stored run, and run nothing"
    )
    given = parser.parse_args(arguments)
    out = RESULT if given.out is None and given.data is None else given.out
    if given.markdown:
        print("\n".join(table.markdown() for table in Truth.read(out or RESULT).tables()))
        return 0
    names = list(DATA_SETS) if given.data is None else given.data.split(",")
    unknown = [name for name in names if name not in DATA_SETS]
    if unknown:
        parser.error(f"unknown data {', '.join(unknown)}; there are {', '.join(DATA_SETS)}")
    # A file or a pipe has no width of its own, and the tables are wide.
    console = Console(width=None if sys.stdout.isatty() else 150)
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(names))
        truth = measure(names, lambda name: progress.update(bar, advance=1, description=name))
    for table in truth.tables():
        table.show(console)
    if out is not None:
        truth.write(out)
        console.print(f"Written to {out}.", highlight=False)
    return 0 if truth.held else 1


if __name__ == "__main__":
    sys.exit(main())
