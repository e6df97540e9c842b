"""How well do patients rank when gradients travel in few bytes? C-index against bytes sent.

The paper says that its gradients can be compressed by generic methods and leaves that open.
Here its model is trained by Adam over a few centers whose replies are compressed in several
ways, for several numbers of rounds, and judged on patients it has not seen. Bytes are read off
the ledger. L-BFGS, which needs fewer rounds for the same optimum, stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from fedcox.data.synthetic import simulate_paper_cohort, split_uniformly
from fedcox.engines.in_process import InProcess
from fedcox.evaluation.comparison import Claim
from fedcox.evaluation.result import library_versions
from fedcox.evaluation.seeds import derived_generator, derived_seed
from fedcox.federation.compression import CompressionName
from fedcox.paper.reproduction import Progress, index_of, mean_and_error, silent
from fedcox.solvers.adam import Adam
from fedcox.solvers.lbfgs import LBFGS
from fedcox.solvers.newton import Newton
from fedcox.solvers.solver import AbstractSolver, Problem, Solution
from fedcox.study.agreement import Agreement, agree
from fedcox.study.fit import start
from fedcox.study.plan import Plan
from fedcox.survival.cohort import Cohort
from fedcox.survival.link import LINKS
from fedcox.survival.scaling import linear_predictor

CENTERS = 5
INTERVALS = 30
#: One patient in so many is kept for the test.
_TESTED = 5
#: Adam's, for every method; the best for most of them by the loss on *training* patients of a
#: draw that is not among these.
LEARNING_RATE = 0.02
#: The question that a fit ends with, for standard errors: the same for every method.
_LAST_QUESTION = "information"


@dataclass(frozen=True)
class Sizes:
    """How many patients, simulated studies, covariates and rounds of Adam and L-BFGS."""

    patients: int
    studies: int
    columns: tuple[int, ...]
    rounds: tuple[int, ...]
    lbfgs_rounds: tuple[int, ...] = (3, 5, 10)


FULL = Sizes(5000, 10, (20, 200), (15, 50, 150))
QUICK = Sizes(1500, 2, (20, 60), (15, 40, 80))


@dataclass(frozen=True)
class TravelMethod:
    """A way for gradients to travel: compressed in Adam's rounds, or in L-BFGS's as doubles."""

    name: str
    compression: CompressionName | None
    keep: float | None = None
    feedback: bool = True


DOUBLES, LBFGS_NAME = "doubles", "L-BFGS, doubles"
_COMPRESSED: tuple[tuple[str, CompressionName, float | None], ...] = (
    ("8-bit", "8-bit", None),
    ("sign", "sign", None),
    ("top 10 %", "top-k", 0.1),
    ("top 3 %", "top-k", 0.03),
    ("random 10 %", "random-k", 0.1),
)
METHODS = (
    TravelMethod(DOUBLES, "none"),
    TravelMethod("single precision", "float32"),
    *(
        TravelMethod(name if feedback else f"{name}, no feedback", compression, keep, feedback)
        for name, compression, keep in _COMPRESSED
        for feedback in (True, False)
    ),
    TravelMethod(LBFGS_NAME, None),
)


@dataclass(frozen=True)
class TrainedRun:
    """One method on patients with so many covariates, in so many rounds.

    `bytes_up` is what one center sent for it, agreements before the fit and the last question
    not included. For every simulated study: the c-index on unseen patients, and by how much
    the loss on the training patients lies above its optimum.
    """

    method: str
    columns: int
    rounds: int
    bytes_up: float
    c_indices: tuple[float, ...]
    losses: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.c_indices))

    @property
    def spread(self) -> float:
        """The standard deviation over studies."""
        return float(np.std(self.c_indices, ddof=1))

    @property
    def loss(self) -> float:
        """The mean over studies."""
        return float(np.mean(self.losses))


@dataclass(frozen=True)
class CompressionStudy:
    """Every method, by covariates and rounds."""

    patients: int
    tested: int
    studies: int
    columns: tuple[int, ...]
    rounds: tuple[int, ...]
    trained: tuple[TrainedRun, ...]
    versions: Mapping[str, str]
    centers: int = CENTERS
    intervals: int = INTERVALS
    learning_rate: float = LEARNING_RATE

    def along(self, method: str, columns: int) -> tuple[TrainedRun, ...]:
        """From few rounds to many."""
        wanted = method, columns
        return tuple(run for run in self.trained if (run.method, run.columns) == wanted)

    def last(self, method: str, columns: int) -> TrainedRun:
        """After the most rounds."""
        return self.along(method, columns)[-1]

    def difference(self, method: str, columns: int) -> tuple[float, float]:
        """C-index less that of doubles on the same patients: mean and standard error."""
        ours = np.array(self.last(method, columns).c_indices)
        return mean_and_error(ours - self.last(DOUBLES, columns).c_indices)

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON, with what the study was made to find out."""
        return {**asdict(self), "claims": [asdict(claim) for claim in claims(self)]}


def run_compression(
    quick: bool = False, progress: Progress = silent, seed: int = 0
) -> CompressionStudy:
    """Simulate studies and train each by every method; `quick` takes fewer and smaller ones."""
    sizes = QUICK if quick else FULL
    total = len(sizes.columns) * sizes.studies
    runs: dict[int, list[list[TrainedRun]]] = {width: [] for width in sizes.columns}
    for done, (width, number) in enumerate(product(sizes.columns, range(sizes.studies))):
        progress(done, total, f"P = {width}, study {number + 1}")
        runs[width].append(trained_once(sizes, width, seed=derived_seed(seed, number)))
    progress(total, total, "")
    return CompressionStudy(
        sizes.patients,
        sizes.patients // _TESTED,
        sizes.studies,
        sizes.columns,
        sizes.rounds,
        tuple(
            _over_studies(run)
            for width in sizes.columns
            for run in zip(*runs[width], strict=True)
        ),
        library_versions(),
    )


def trained_once(sizes: Sizes, columns: int, *, seed: int) -> list[TrainedRun]:
    """Every method, for every number of rounds, on one simulated study."""
    study = SplitStudy.of(sizes.patients, columns, seed=seed)
    optimum = Newton().minimise(study.federation, study.problem)
    return [
        study.trained(method.name, solver, optimum.loss)
        for method in METHODS
        for solver in _solvers(method, sizes, seed)
    ]


def _solvers(method: TravelMethod, sizes: Sizes, seed: int) -> Sequence[AbstractSolver]:
    compression = method.compression
    if compression is None:
        return [LBFGS(max_rounds=rounds) for rounds in sizes.lbfgs_rounds]
    return [
        Adam(
            LEARNING_RATE,
            rounds,
            seed=seed,
            compression=compression,
            keep=method.keep,
            error_feedback=method.feedback,
        )
        for rounds in sizes.rounds
    ]


@dataclass(frozen=True, eq=False)
class SplitStudy:
    """The paper's patients in a few centers, and others to judge by."""

    federation: InProcess
    agreement: Agreement
    problem: Problem
    test: Cohort

    @classmethod
    def of(cls, patients: int, columns: int, *, seed: int) -> SplitStudy:
        """Censoring is uniform up to one median survival for everybody."""
        cohort = simulate_paper_cohort(
            patients,
            columns,
            rng=derived_generator(seed, "compression", patients, columns),
            censoring_bound="population",
        ).cohort
        tested = patients // _TESTED
        train, test = np.arange(tested, patients), np.arange(tested)
        center = split_uniformly(
            train.size, CENTERS, rng=derived_generator(seed, "centers", patients, columns)
        )
        federation = InProcess.from_cohorts(
            {f"center {k + 1}": cohort.take(train[center == k]) for k in range(CENTERS)}
        )
        horizon = float(cohort.time[train].max())
        plan = Plan(
            tuple(f"x{k}" for k in range(columns)),
            LINKS["logit"],
            "include",
            horizon / INTERVALS,
            horizon,
            0.0,
            Newton(),
        )
        agreement = agree(plan, federation)
        return cls(federation, agreement, start(plan, agreement), cohort.take(test))

    def trained(self, method: str, solver: AbstractSolver, optimum: float) -> TrainedRun:
        """One method, with what one center sent for it."""
        mark = self.federation.ledger.mark()
        solution = solver.minimise(self.federation, self.problem)
        rows = [
            row
            for row in self.federation.ledger.since(mark)
            if row.center == self.federation.names[0] and row.query != _LAST_QUESTION
        ]
        return TrainedRun(
            method,
            self.test.columns,
            len(rows),
            sum(row.bytes_up for row in rows),
            (self.c_index(solution),),
            (solution.loss - optimum,),
        )

    def c_index(self, solution: Solution) -> float:
        """On the patients who were kept for it."""
        scaling = self.agreement.setting.scaling
        risk = linear_predictor(
            self.test.covariates[:, scaling.keep],
            scaling.coefficients(solution.beta),
            mean=scaling.mean,
        )
        return index_of(risk, self.test)


def _over_studies(runs: Sequence[TrainedRun]) -> TrainedRun:
    """One method on several studies; L-BFGS may stop a round earlier in one of them."""
    first = runs[0]
    return TrainedRun(
        first.method,
        first.columns,
        round(float(np.mean([run.rounds for run in runs]))),
        float(np.mean([run.bytes_up for run in runs])),
        tuple(run.c_indices[0] for run in runs),
        tuple(run.losses[0] for run in runs),
    )


def claims(study: CompressionStudy) -> tuple[Claim, ...]:
    """What the study was made to find out, and whether it is so, at every width."""

    def largest(*methods: str) -> float:
        """How far the method farthest below doubles is."""
        return max(-study.difference(m, p)[0] for m in methods for p in study.columns)

    def smaller(method: str) -> float:
        """How many times fewer bytes than doubles, at least."""
        return min(
            study.last(DOUBLES, p).bytes_up / study.last(method, p).bytes_up
            for p in study.columns
        )

    def against(method: str, other: str) -> float:
        return max(
            study.last(method, p).bytes_up / study.last(other, p).bytes_up
            for p in study.columns
        )

    widest = study.columns[-1]
    near, fewer = largest("8-bit", "sign", "top 10 %"), smaller("sign")
    random, lost = largest("random 10 %"), -study.difference("top 3 %, no feedback", widest)[0]
    kept, quasi = -study.difference("top 3 %", widest)[0], largest(LBFGS_NAME)
    share = against(LBFGS_NAME, "8-bit")
    return (
        Claim(
            "8-bit, sign and top 10 % with error feedback are within 0.003 of doubles.",
            _below(near),
            near < 0.003,
        ),
        Claim(
            "Signs take less than a twentieth of the bytes of doubles.",
            f"1 byte in {fewer:.0f}",
            fewer > 20,
        ),
        Claim(
            "Random 10 %, the only one that can be summed under masks, is within 0.01.",
            _below(random),
            random < 0.01,
        ),
        Claim(
            f"P = {widest}: top 3 % is 0.01 or more below without error feedback, not with it.",
            f"{_below(lost)} without, {_below(kept)} with",
            kept < 0.01 <= lost,
        ),
        Claim(
            "L-BFGS, uncompressed, is within 0.001 with fewer bytes than Adam in 8 bits.",
            f"{_below(quasi)}, {share:.2f} times the bytes",
            quasi < 0.001 and share < 1.0,
        ),
    )


def _below(gap: float) -> str:
    """How far below doubles, at four digits."""
    return f"{gap:.4f} below" if gap >= 0 else f"{-gap:.4f} above"
