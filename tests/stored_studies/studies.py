"""Studies whose results are kept: `python -m tests.stored_studies.studies` writes them anew.

Simulated hospitals, run by the commands and public names that users have, so that whatever is
changed inside can be held against what came out before. Noise and first weights have seeds.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import fedcox
from fedcox.cli.main import main
from fedcox.engines.masked import Masked
from fedcox.errors import FedcoxWarning
from fedcox.privacy.noise import SeededRandomnessForSimulations, SystemRandomness

EXPECTED = Path(__file__).with_name("expected")
#: What a file says of the programs that made it, and of the study as it was given.
_OF_THE_PROGRAM = {"versions", "version", "study_source"}

Content = dict[str, Any]


@dataclass(frozen=True)
class Commands:
    """A study of the command line: tables that are put into the simulated one."""

    tables: Mapping[str, str]


_MASKS = 'secure_sums = true\nnoise = "none"'
_NOISE = "secure_sums = {masks}\nnoise = {{ {asked}, patients = 400, events = 200 }}"
FITS: dict[str, Commands] = {
    "every event time": Commands({}),
    "pieces": Commands({"grid": "pieces = 12\nhorizon = 1200", "model": "ridge = 2.0"}),
    "spline": Commands({"model": 'baseline = "spline"', "grid": "horizon = 1500"}),
    "grouped cloglog": Commands(
        {"grid": "width = 60", "model": 'link = "cloglog"', "solver": 'method = "lbfgs"'}
    ),
    "grouped logit": Commands(
        {"grid": "width = 90", "model": 'link = "logit"\ncensored_interval = "half"'}
    ),
    "batches": Commands(
        {
            "grid": "width = 90",
            "solver": 'method = "adam"\nsteps = 40\nbatch_size = 50\nseed = 3',
        }
    ),
    "averaging": Commands({"grid": "width = 90", "solver": 'method = "fedavg"\nrounds = 30'}),
    "secure sums": Commands({"grid": "horizon = 1500", "privacy": _MASKS}),
    "secure sums of a grouped link": Commands(
        {"grid": "width = 90", "model": 'link = "cloglog"', "privacy": _MASKS}
    ),
    "noise by price": Commands(
        {
            "grid": "horizon = 1500",
            "privacy": _NOISE.format(masks="true", asked="price = 0.1"),
        }
    ),
    "noise by epsilon": Commands(
        {
            "grid": "edges = [100, 250, 500, 900, 1500]",
            "privacy": _NOISE.format(masks="false", asked="epsilon = 40"),
        }
    ),
}


@contextmanager
def seeded_noise() -> Iterator[None]:
    """Noise that can be repeated, in place of the operating system's."""
    source = SeededRandomnessForSimulations(20)
    with patch.object(SystemRandomness, "bits", lambda _, count: source.bits(count)):
        yield


def fedcox_command(*words: str | Path) -> str:
    """Run a command in this process; give what it printed."""
    printed = io.StringIO()
    with (
        patch.object(sys, "argv", ["fedcox", *map(str, words)]),
        patch.dict("os.environ", {"COLUMNS": "120"}),
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(printed.getvalue()) from ended
    return printed.getvalue()


def fit_of(name: str) -> Content:
    """The files of one fit, without what they say of the programs that made them."""
    asked = FITS[name]
    with tempfile.TemporaryDirectory() as place, chdir(place), seeded_noise():
        folder = Path()
        fedcox_command("simulate", folder / "h", "--centers", "4", "--patients", "400")
        study = folder / "study.toml"
        study.write_text(_with(folder / "h" / "study.toml", asked.tables), encoding="utf-8")
        data = folder / "h" / "all.csv"
        given = ("--data", data, "--center-column", "hospital")
        fedcox_command("fit", study, *given, "--out", folder / "run")
        run = folder / "run"
        content = {
            "fit": _without(json.loads((run / "fit.json").read_text("utf-8"))),
            "summary": (run / "summary.csv").read_text("utf-8").splitlines(),
            "ledger": _left((run / "ledger.jsonl").read_text("utf-8").splitlines()),
            "report": _visible((run / "report.html").read_text("utf-8")),
        }
        at = ("--at", "180", "--at", "900")
        out = folder / "predicted.csv"
        fedcox_command("predict", run, "--data", data, *at, "--out", out)
        content["predicted"] = out.read_text("utf-8").splitlines()[:60:6]
    return content


def _with(file: Path, tables: Mapping[str, str]) -> str:
    """The simulated study with these tables in place of its own."""
    text = file.read_text(encoding="utf-8")
    for name, lines in tables.items():
        text = re.sub(rf"^\[{name}\]\n(?:[^\[].*\n|\n)*", "", text, flags=re.MULTILINE)
        text += f"\n[{name}]\n{lines}\n"
    tomllib.loads(text)
    return text


def _left(rows: list[str]) -> list[str]:
    """What left the first center in every round, and what the others sent in all."""
    ledger = pd.DataFrame([json.loads(row) for row in rows])
    first = ledger[ledger["center"] == ledger["center"].iloc[0]].to_csv(index=False)
    sums = ledger.groupby("center", sort=False).sum(numeric_only=True).to_csv()
    return [*first.splitlines(), *sums.splitlines()]


def _without(content: Content) -> Content:
    return {key: value for key, value in content.items() if key not in _OF_THE_PROGRAM}


class _Text(HTMLParser):
    """The words of a page, and a fingerprint of every line that is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "script")
        drawn = [value or "" for name, value in attrs if name in ("d", "points")]
        self.lines += [sha256(value.encode()).hexdigest()[:12] for value in drawn]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.lines.append(" ".join(data.split()))


def _visible(page: str) -> list[str]:
    text = _Text()
    text.feed(page)
    return [line for line in text.lines if not re.search(r"Python|numpy \d", line)]


def slides(patients: int = 60) -> fedcox.Cohort:
    """Simulated patients with a table and one to three bags of tiles."""
    rng = np.random.default_rng(5)
    covariates, planted = rng.normal(size=(patients, 3)), rng.uniform(size=patients)
    bags = []
    for share in planted:
        own = []
        for _ in range(int(rng.integers(1, 4))):
            tiles = rng.normal(size=(int(rng.integers(2, 9)), 5))
            tiles[rng.random(len(tiles)) < share, 0] += 2.0
            own.append(_slide(tiles.astype(np.float32)))
        bags.append(tuple(own))
    risk = np.exp(4.0 * planted - 2.0 + covariates @ np.linspace(-0.5, 0.5, 3))
    survival, censoring = 250.0 * rng.exponential(size=patients) / risk, 300.0
    return fedcox.Cohort(
        covariates,
        np.ceil(np.minimum(survival, censoring)),
        survival <= censoring,
        bags=fedcox.Bags(tuple(bags), 5),
    )


def _slide(tiles: Any) -> Any:
    from fedcox.survival.bags import SlideArray

    return SlideArray(tiles)


def _adam() -> Any:
    return fedcox.NetworkAdam(epochs=3, batch_size=10, learning_rate=0.02, validation=0.2)


def _averaging() -> Any:
    return fedcox.NetworkAveraging(rounds=3, batch_size=10, learning_rate=0.02)


def _private() -> Any:
    return fedcox.PrivateNetwork(60, epsilon=4.0, delta=1e-4, steps=4)


NETWORKS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "network of a table": lambda: (fedcox.Perceptron(3, (4,)), {"solver": _adam()}),
    "network of a table, grouped": lambda: (
        fedcox.Perceptron(3, (4,)),
        {"solver": _adam(), "link": "cloglog", "balanced": True},
    ),
    "network of slides": lambda: (fedcox.TileScorer(5, 4), {"solver": _adam()}),
    "network of slides, averaged": lambda: (fedcox.TileScorer(5, 4), {"solver": _averaging()}),
    "network of slides, masks": lambda: (fedcox.TileScorer(5, 4), {"solver": _adam()}),
    "network of both, noise": lambda: (
        fedcox.TileScorerWithTable(5, 3, 4),
        {"solver": _private(), "ranges": ((-4.0, 4.0),) * 3},
    ),
}


def network_of(name: str) -> Content:
    """What one training gives: weights, baseline, risks, what left."""
    architecture, changed = NETWORKS[name]()
    cohort = slides()
    center = np.random.default_rng(1).choice(3, cohort.patients, p=[0.6, 0.3, 0.1])
    parts = {f"h{k}": cohort.take(np.flatnonzero(center == k)) for k in range(3)}
    federation: Any = fedcox.InProcess.from_cohorts(parts)
    if name.endswith("masks"):
        federation = Masked.around(federation, study="stored")
    plan = fedcox.NetworkPlan(
        architecture, width=25.0, horizon=300.0, precision="float64", seed=1, **changed
    )
    with seeded_noise(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        trained = fedcox.train_network(plan, federation)
    assert trained.record is not None
    return {
        "theta": trained.theta.tolist(),
        "alpha": trained.alpha.tolist(),
        "slope": trained.slope,
        "risk": trained.risk(cohort)[:12].tolist(),
        "ledger": [list(row) for row in trained.record.ledger],
        "notices": [notice.text for notice in trained.record.notices],
    }


def estimator() -> Content:
    """The estimators of scikit-learn's manners."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    survival = rng.exponential(100.0 * np.exp(-frame["a"].to_numpy()))
    time, event = np.ceil(np.minimum(survival, 150.0)), survival <= 150.0
    outcome = np.array(list(zip(event, time, strict=True)), dtype=[("e", "?"), ("t", "<f8")])
    content: Content = {}
    for model in (fedcox.ProportionalHazards(), fedcox.DiscreteTimeCox(width=15)):
        fitted = model.fit(frame, outcome)
        content[type(model).__name__] = {
            "coef": fitted.coef_.tolist(),
            "risk": fitted.predict(frame)[:8].tolist(),
            "score": fitted.score(frame, outcome),
            "survival": [each(60.0) for each in fitted.predict_survival_function(frame[:3])],
        }
    return content


STUDIES: dict[str, Callable[[], Content]] = {
    **{name: lambda name=name: fit_of(name) for name in FITS},  # type: ignore[misc]
    **{name: lambda name=name: network_of(name) for name in NETWORKS},  # type: ignore[misc]
    "estimators": estimator,
}


def file_of(name: str) -> Path:
    """Where the results of a study are kept."""
    return EXPECTED / f"{re.sub('[^a-z]+', '_', name)}.json"


def plain(content: Content) -> Content:
    """As it is read from a file."""
    read: Content = json.loads(json.dumps(content, default=float))
    return read


if __name__ == "__main__":
    warnings.simplefilter("ignore", FedcoxWarning)
    for study, made in STUDIES.items():
        text = json.dumps(plain(made()), indent=0, ensure_ascii=False)
        file_of(study).write_text(text + "\n", encoding="utf-8")
        sys.stdout.write(f"{file_of(study).name}: {len(text):,} characters\n")
