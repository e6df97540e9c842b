"""Which problems are timed: their names, sizes, grids and contenders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Task = Literal["fit", "training", "concordance", "imports", "secure_sum"]

FOLLOW_UP_DAYS = 900.0  # nobody is followed longer, see `patients.simulate`
_QUICK = 25
_PATIENTS_PER_COLUMN = 40


@dataclass(frozen=True)
class Problem:
    """One table of the benchmark.

    `intervals` equal intervals cover the follow-up; None stands for every distinct event time.
    Training takes `batches` of `batch_size` stacked rows.
    `baselines` are the contenders that the others are divided by, `left_out` says why a
    contender that could run does not. The best of `repeats` runs counts, each in a process of
    its own.
    """

    name: str
    title: str
    contenders: tuple[str, ...]
    baselines: tuple[str, ...]
    task: Task = "fit"
    patients: int = 0
    columns: int = 50
    intervals: int | None = 30
    centers: int = 1
    batches: int = 0
    batch_size: int = 100
    numbers: int = 0  # in the vector of one center, of a secure sum
    repeats: int = 5
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def width(self) -> float | None:
        """Width of an interval in days."""
        return None if self.intervals is None else FOLLOW_UP_DAYS / self.intervals

    @property
    def covariate_mib(self) -> float:
        """Memory of the covariates themselves, in double precision."""
        return self.patients * self.columns * 8 / 2**20

    def quick(self) -> Problem:
        """Return the problem so much smaller that it shows only whether everything runs."""
        return replace(
            self,
            patients=self.patients // _QUICK,
            # Fewer patients have an optimum for fewer columns only.
            columns=min(self.columns, self.patients // _QUICK // _PATIENTS_PER_COLUMN),
            # A secure sum from which one center in five drops needs five of them.
            centers=5 if self.task == "secure_sum" else max(1, self.centers // _QUICK),
            batches=self.batches // _QUICK,
            numbers=self.numbers // _QUICK,
            repeats=1,
        )


_OURS = ("fedcox_cloglog", "fedcox_logit")
_EXACT = ("fedcox_log", "fedcox_log_two_threads", "fedcox_log_events")
_COX = ("lifelines", "scikit_survival", "statsmodels", "r_coxph")
_CENTERS = ("fedcox_cloglog_centers", "fedcox_logit_centers")
_SECURE_SUM = ("plain sum", "masked sum", "masked sum, 20 % dropped", "key set-up")
_ONE_CENTER = ("fedcox_cloglog_one_center", "fedcox_logit_one_center")

PROBLEMS: Mapping[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem(
            name="hundred_thousand",
            title="100,000 patients × 50 covariates, 30 intervals",
            patients=100_000,
            contenders=(*_EXACT, *_OURS, "skglm", *_COX, "stacked_sklearn"),
            baselines=("fedcox_log", *_OURS),
        ),
        Problem(
            name="hundred_thousand_all_times",
            title="100,000 patients × 50 covariates, every event time",
            patients=100_000,
            intervals=None,
            contenders=("fedcox_log_events", *_OURS, "skglm", *_COX),
            baselines=("fedcox_log_events", *_OURS),
            left_out={"stacked_sklearn": "a row per patient and event time: 10⁹ rows"},
            repeats=3,
        ),
        Problem(
            name="million",
            title="1,000,000 patients × 50 covariates, 30 intervals",
            patients=1_000_000,
            contenders=(*_EXACT, *_OURS, "skglm", "lifelines", "scikit_survival", "r_coxph"),
            baselines=("fedcox_log", *_OURS),
            repeats=2,
            left_out={
                "stacked_sklearn": "12 million stacked rows, 8 GB before the fit",
                "statsmodels": "two and a half minutes a run",
            },
        ),
        Problem(
            name="thousand_centers",
            title="1000 centers of 100 patients × 50 covariates, 30 intervals",
            patients=100_000,
            centers=1000,
            contenders=(*_ONE_CENTER, *_CENTERS),
            baselines=_ONE_CENTER,
        ),
        Problem(
            name="cox_wide",
            title="Cox's model, 5000 patients × 200 covariates",
            patients=5000,
            columns=200,
            intervals=None,
            contenders=("fedcox_cox", *_COX),
            baselines=("fedcox_cox",),
        ),
        Problem(
            name="paper_training",
            title="5000 patients × 200 covariates, every event time, 5000 batches of 100 rows",
            task="training",
            patients=5000,
            columns=200,
            intervals=None,
            batches=5000,
            contenders=("fedcox_training", "torch_training"),
            baselines=("fedcox_training",),
        ),
        Problem(
            name="concordance_million",
            title="c-index of 1,000,000 patients",
            task="concordance",
            patients=1_000_000,
            contenders=("fedcox_concordance", "lifelines_concordance"),
            baselines=("fedcox_concordance",),
            left_out={"scikit_survival": "compares every pair: quadratic in the patients"},
            repeats=3,
        ),
        Problem(
            name="secure_sum_small",
            title="One secure sum over 5 centers × 300 numbers, all parties together",
            task="secure_sum",
            centers=5,
            numbers=300,
            contenders=_SECURE_SUM,
            baselines=_SECURE_SUM[:1],
        ),
        Problem(
            name="secure_sum_large",
            title="One secure sum over 50 centers × 35,000 numbers, all parties together",
            task="secure_sum",
            centers=50,
            numbers=35_000,
            contenders=_SECURE_SUM,
            baselines=_SECURE_SUM[:1],
        ),
        Problem(
            name="imports",
            title="Start of the program",
            task="imports",
            contenders=("import numpy", "import fedcox", "fedcox --help"),
            baselines=("import numpy",),
            repeats=10,
        ),
    )
}
