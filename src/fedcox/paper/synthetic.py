"""The paper's section 6.1: simulated patients, split over centers at random or by time."""

from __future__ import annotations

from fedcox.data.synthetic import CensoringBound
from fedcox.evaluation.comparison import Claim
from fedcox.evaluation.experiment import Experiment
from fedcox.evaluation.problem import PaperPatients
from fedcox.evaluation.scheme import Recipe
from fedcox.evaluation.schemes import SCHEMES
from fedcox.paper.reproduction import Compared, Panel, Reproduction, mean_of

#: The paper's schemes; then the optima that its batches approach.
_PAPER = ("POOL", "LOCAL", "ENS", "MINI", "N-FL", "DT-FL")
_EXACT = ("N-FL-EXACT", "DT-FL-NEWTON")
_ALIKE = ("POOL", "MINI", "N-FL", "DT-FL")
_SPLITS = {"uniform": "Split at random", "time": "Split by time"}
#: The largest gap between schemes that "perform similarly", the fall that "destroys" one, and
#: the change that leaves one "unaltered".
_CLOSE, _FALL, _STILL = 0.02, 0.10, 0.01


def synthetic(*, quick: bool, bound: CensoringBound) -> Reproduction:
    """Both splits at the paper's sizes, or so small that a minute is enough."""
    recipe = Recipe(width=None, link="logit", censored_interval="exclude")
    patients, columns, runs = (2500, 100, 2) if quick else (5000, 200, 20)
    panels = tuple(
        Panel(
            name=split,
            title=title,
            experiment=Experiment(
                name=f"synthetic, {title.lower()}",
                problem=PaperPatients(
                    patients=patients,
                    columns=columns,
                    split="uniform" if split == "uniform" else "time",
                    censoring_bound=bound,
                ),
                schemes=tuple(SCHEMES[name] for name in (*_PAPER, *_EXACT)),
                recipe=recipe,
                folds=5,
                seeds=tuple(range(runs)),
            ),
            unit="units of time",
        )
        for split, title in _SPLITS.items()
    )
    return Reproduction(
        name="synthetic" if bound == "patient" else "synthetic, population",
        title="Simulated patients, split in two ways",
        lead=(
            "The paper's section 6.1 and figure 2: five centers, each scheme trained on four "
            "fifths of every center and judged on the rest. Simulated patients, drawn anew for "
            f"every run; censoring up to {_BOUND_WORDS[bound]}."
        ),
        panels=panels,
        claims=_claims,
        claims_note=(
            'The paper says "similarly", "destroys" and "unaltered"; the numbers in these '
            "statements are ours."
        ),
        reference="POOL",
    )


_BOUND_WORDS: dict[CensoringBound, str] = {
    "patient": "each patient's own median survival",
    "population": "one median survival for everybody",
}


def _claims(compared: Compared) -> tuple[Claim, ...]:
    uniform, by_time = compared["uniform", "folds"], compared["time", "folds"]
    alike = {name: mean_of(uniform, name) for name in _ALIKE}
    gap = max(alike.values()) - min(alike.values())
    ensemble, local = mean_of(uniform, "ENS"), mean_of(uniform, "LOCAL")
    fall = mean_of(uniform, "N-FL") - mean_of(by_time, "N-FL")
    move = abs(mean_of(by_time, "DT-FL") - mean_of(uniform, "DT-FL"))
    return (
        Claim(
            f"Split at random, {', '.join(_ALIKE)} are within {_CLOSE:g} of each other.",
            f"{gap:.4f} apart",
            gap <= _CLOSE,
        ),
        Claim(
            "Split at random, these are above ENS, and ENS is above LOCAL.",
            f"lowest {min(alike.values()):.3f}, ENS {ensemble:.3f}, LOCAL {local:.3f}",
            min(alike.values()) > ensemble > local,
        ),
        Claim(
            f"Split by time, N-FL falls by more than {_FALL:g}.",
            f"falls by {fall:.3f}",
            fall > _FALL,
        ),
        Claim(
            f"Split by time, DT-FL moves by less than {_STILL:g}.",
            f"moves by {move:.4f}",
            move < _STILL,
        ),
    )
