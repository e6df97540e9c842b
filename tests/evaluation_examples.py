"""Evaluations as pages show them: made of drawn numbers, without training anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from fedcox.data.synthetic import simulate_paper_cohort, split_by_value
from fedcox.engines.in_process import InProcess
from fedcox.evaluation.result import Evaluation, Row
from fedcox.evaluation.scheme import AbstractScheme, Recipe, Trained
from fedcox.paper.appendix_a import BOUNDS, FITS, AppendixA, Approach
from fedcox.paper.communication import CommunicationStudy, Cost, Messages
from fedcox.reports.evaluation_page import EvaluatedData, EvaluationPage
from fedcox.survival.cohort import Cohort

INDICES = {"POOL": 0.72, "LOCAL": 0.61, "ENS": 0.66, "N-FL": 0.70, "DT-FL": 0.715}


class Named(AbstractScheme):
    """A scheme with a name and nothing behind it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.summary = f"What {name} stands for"
        self.federated = name.endswith("FL")

    def train(self, federation: InProcess, recipe: Recipe, seed: int) -> Trained:
        raise NotImplementedError


NAMED = {name: Named(name) for name in INDICES}


def rows(
    indices: Mapping[str, float] = INDICES,
    *,
    seeds: int = 4,
    test_sets: Sequence[int | str] = (1, 2, 3, 4, 5),
    without: tuple[str, int | str] | None = None,
    seed: int = 0,
) -> list[Row]:
    """A c-index around each scheme's own, with a luck that all schemes of a test set share."""
    rng = np.random.default_rng(seed)
    found = []
    for run in range(seeds):
        for test_set in test_sets:
            luck = rng.normal(0.0, 0.015)
            for scheme, index in indices.items():
                value = float(index + luck + rng.normal(0.0, 0.006))
                found.append(
                    _row(
                        run, test_set, scheme, None if without == (scheme, test_set) else value
                    )
                )
    return found


def _row(seed: int, test_set: int | str, scheme: str, value: float | None) -> Row:
    federated = NAMED[scheme].federated
    evaluation: Evaluation = "folds" if isinstance(test_set, int) else "left out"
    return Row(
        experiment="example",
        seed=seed,
        evaluation=evaluation,
        fold=test_set if isinstance(test_set, int) else None,
        center=test_set if isinstance(test_set, str) else None,
        scheme=scheme,
        c_index=value,
        patients=200,
        events=60,
        trained_on=800,
        seconds=0.25,
        rounds=7 if federated else 0,
        bytes_up=123_456 if federated else 0,
        bytes_down=12_345 if federated else 0,
        notes=("Too few events in a center to train on.",) if value is None else (),
    )


def cohorts(
    patients: int = 1000, centers: int = 5, *, by_time: bool = False
) -> dict[str, Cohort]:
    """The paper's patients, in equal centers at random or in order of time."""
    rng = np.random.default_rng(3)
    cohort = simulate_paper_cohort(patients, 5, rng=rng, censoring_bound="population").cohort
    values = cohort.time if by_time else rng.uniform(size=patients)
    center = split_by_value(values, centers)
    return {f"center {k + 1}": cohort.take(center == k) for k in range(centers)}


def two_splits() -> EvaluationPage:
    """The shape of the paper's figure 2."""
    fallen = {**INDICES, "LOCAL": 0.53, "ENS": 0.55, "N-FL": 0.56}
    expected: dict[tuple[Evaluation, str], float] = {
        ("folds", name): value - 0.005 for name, value in INDICES.items()
    }
    return EvaluationPage(
        title="Synthetic patients",
        lead="Five schemes on simulated patients in five centers, split in two ways.",
        data=[
            EvaluatedData(
                "Uniform split",
                rows(),
                cohorts(),
                "time",
                drawn_anew=True,
                expected=expected,
            ),
            EvaluatedData(
                "Split by time",
                rows(fallen, seed=1, without=("LOCAL", 3)),
                cohorts(by_time=True),
                "time",
                drawn_anew=True,
            ),
        ],
        command="fedcox reproduce synthetic --quick",
        versions={"fedcox": "0.1.0", "numpy": "2.0.0"},
        source="expected: the paper's figure 2",
        notes=["Censoring is uniform up to the median survival of the population."],
        schemes=NAMED,
    )


def four_cancers() -> EvaluationPage:
    """The shape of the paper's figure 3: four data sets, two evaluations, real patients."""
    three = {name: INDICES[name] for name in ("POOL", "N-FL", "DT-FL")}
    data = []
    for number, cancer in enumerate(("BRCA", "COAD", "KIRC", "LGG")):
        centers = {
            name: Cohort(part.covariates, np.ceil(3000 * part.time), part.event)
            for name, part in cohorts(300 + 100 * number, 4).items()
        }
        centers["Canada"] = Cohort(
            np.zeros((3, 5)), np.array([1.0, 2.0, 3.0]), np.ones(3, bool)
        )
        left_out = tuple(name for name in centers if name != "Canada")
        both = [
            *rows(three, seeds=1, seed=number),
            *rows(three, seeds=1, test_sets=left_out, seed=number + 10),
        ]
        data.append(EvaluatedData(cancer, both, centers, "days"))
    return EvaluationPage(
        title="Four cancers",
        lead="Three schemes on four cancers.",
        data=data,
        command="fedcox reproduce tcga --data clinical",
        versions={"fedcox": "0.1.0"},
        reference="DT-FL",
        schemes=NAMED,
    )


def own_study() -> EvaluationPage:
    """One data set, one evaluation, names that a file could hold."""
    parts = {f"<b>{name}</b>": part for name, part in cohorts(400, 3).items()}
    return EvaluationPage(
        title="Lung & <more>",
        lead="Two schemes on one study.",
        data=[
            EvaluatedData("lung", rows({"POOL": 0.7, "DT-FL": 0.69}, seeds=1), parts, "months")
        ],
        command="fedcox evaluate study.toml --data <all>.csv",
        versions={"fedcox": "0.1.0"},
        schemes=NAMED,
    )


def communication() -> CommunicationStudy:
    """A study of the true shape, its counts from formulas instead of runs."""
    times, columns = (10, 100, 604), (5, 20, 100)
    replies: dict[str, Callable[[int, int], int]] = {
        "DT-FL, Adam": lambda t, p: 1 + t + p,
        "DT-FL, L-BFGS": lambda t, p: 1 + t + p,
        "DT-FL, Newton": lambda t, p: 1 + 2 * t + p + t * p + p * (p + 1) // 2,
        "WebDISCO, L-BFGS": lambda t, p: t * (1 + p),
        "WebDISCO, Newton": lambda t, p: t * (1 + p + p * (p + 1) // 2),
    }
    costs = []
    for width in columns:
        for count in times:
            for method, reply in replies.items():
                usual = Messages(1, reply(count, width), count + width)
                set_up = Messages(2, 2 * count + width * width, count)
                adam = method.endswith("Adam")
                close = None if adam else set_up + usual * 5
                stop = set_up + usual * (5000 if adam else 8)
                costs.append(Cost(method, count, width, usual, set_up, close, stop))
    return CommunicationStudy(2000, 5, 0, times, columns, tuple(costs), {"fedcox": "0.1.0"})


def appendix() -> AppendixA:
    """An approach to Cox's model of the true shape, from formulas instead of fits."""
    approaches = []
    for bound, (link, reading, intervals) in product(BOUNDS, FITS):
        distance = 0.0 if intervals is None else 1 / intervals
        sign = {"include": -2.0, "exclude": 4.0, "half": -1.0}[reading]
        bias = sign if bound == "patient" else 0.5 if link == "logit" else -0.05
        ratio = 1.001 + bias * distance
        approaches.append(Approach(bound, link, reading, intervals, ratio, abs(ratio - 1) * 10))
    return AppendixA(2000, 5, 20, 0, 586.0, tuple(approaches), {"fedcox": "0.1.0"})
