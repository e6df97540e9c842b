"""What came out of the paper's slide experiment: rows, rankings of planted tiles, claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from scipy.stats import rankdata

from fedcox.evaluation.comparison import Claim, Comparison, compare
from fedcox.evaluation.result import Row
from fedcox.paper.reproduction import mean_of
from fedcox.slides.tile_scores import ScoredTiles, ScoreScale
from fedcox.survival.cohort import BoolArray, FloatArray

MINI, DISCRETE = "MINI", "DT-FL"

#: The paper's table 2: mean and standard deviation of the c-index over 5 runs of 5 folds.
PAPER_TABLE: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "BRCA": {MINI: (0.55, 0.06), DISCRETE: (0.57, 0.06)},
    "COAD": {MINI: (0.62, 0.07), DISCRETE: (0.65, 0.07)},
    "KIRC": {MINI: (0.66, 0.05), DISCRETE: (0.69, 0.04)},
    "LGG": {MINI: (0.67, 0.05), DISCRETE: (0.68, 0.06)},
}
#: How near DT-FL must come to MINI, what it must exceed, and how well planted tiles must rank.
CLOSE, LEARNED, RANKED = 0.03, 0.65, 0.9


@dataclass(frozen=True)
class TileRanking:
    """How one held-out slide's tile scores rank its planted tiles.

    `auc` is the chance that a planted tile scores above another one of the same slide.
    """

    seed: int
    fold: int
    slide: str
    planted: int
    tiles: int
    auc: float


@dataclass(frozen=True, eq=False)
class HeldOutSlide:
    """A slide that the model of a fold was not trained on, with the scores of its tiles."""

    tiles: ScoredTiles
    scale: ScoreScale
    link: str
    fold: int
    planted: BoolArray  # (tiles,), none where nothing is planted
    path: Path


@dataclass(frozen=True, eq=False)
class SlideStudy:
    """One data set of slides: MINI and DT-FL on the same folds.

    `cancer` names the paper's row to stand beside, where the slides are of one of its cancers.
    `settings` says what was chosen, ready for JSON. `seconds` is by step,
    `examples` are slides of the first fold.
    """

    simulated: bool
    cancer: str | None
    patients: int
    events: int
    slides: int
    tiles: int
    centers: Mapping[str, int]
    settings: Mapping[str, Any]
    rows: tuple[Row, ...]
    rankings: tuple[TileRanking, ...]
    seconds: Mapping[str, float]
    versions: Mapping[str, str]
    examples: tuple[HeldOutSlide, ...] = ()

    @property
    def comparison(self) -> Comparison:
        (comparison,) = compare(self.rows)
        return comparison

    @property
    def mean_auc(self) -> float | None:
        """Over held-out slides, each as often as it was held out."""
        return fmean(ranking.auc for ranking in self.rankings) if self.rankings else None

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON, with the claims and the paper's table beside."""
        record = {
            name: value
            for name, value in vars(self).items()
            if name not in ("rows", "rankings", "examples")
        }
        return {
            **record,
            "comparison": asdict(self.comparison),
            "mean_auc": self.mean_auc,
            "claims": [asdict(claim) for claim in claims(self)],
            "paper_table_2": PAPER_TABLE,
            "rows": [asdict(row) for row in self.rows],
            "rankings": [asdict(ranking) for ranking in self.rankings],
        }


def planted_auc(scores: FloatArray, planted: BoolArray) -> float | None:
    """The chance that a planted tile scores above another, ties counting half.

    None where a slide has only one of the two kinds.
    """
    positives = int(planted.sum())
    negatives = planted.size - positives
    if not positives or not negatives:
        return None
    above = float(rankdata(scores)[planted].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)


def claims(study: SlideStudy) -> tuple[Claim, ...]:
    """What the experiment was made to find out, and whether it is so."""
    ours, theirs = (mean_of(study.comparison, name) for name in (DISCRETE, MINI))
    checked = [
        Claim(
            f"DT-FL, federated, is within {CLOSE} of MINI, which pools the slides.",
            f"{ours:.3f} against {theirs:.3f}",
            abs(ours - theirs) <= CLOSE,
        )
    ]
    if not study.simulated:
        return tuple(checked)
    checked.append(
        Claim(
            f"On simulated slides DT-FL has a c-index over {LEARNED} on patients it has not "
            "seen.",
            f"{ours:.3f}",
            ours > LEARNED,
        )
    )
    auc = study.mean_auc
    checked.append(
        Claim(
            "In slides it has not seen, its tile scores rank planted tiles first: area under "
            f"the curve over {RANKED}.",
            "no slide to judge by" if auc is None else f"{auc:.3f}",
            auc is not None and auc > RANKED,
        )
    )
    return tuple(checked)
