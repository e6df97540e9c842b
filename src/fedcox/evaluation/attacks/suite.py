"""Every attack of an audit, by name, and who could do it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedcox.evaluation.attacks.candidate import Candidate
from fedcox.evaluation.attacks.differences import (
    subtract_centers,
    subtract_results,
    subtract_studies,
)
from fedcox.evaluation.attacks.gradient_inversion import SMALL_CENTER, invert_small_center
from fedcox.evaluation.attacks.half_space import probe_outermost
from fedcox.evaluation.attacks.one_hot_alpha import probe_risk_sets
from fedcox.evaluation.attacks.rare_columns import read_rare_columns
from fedcox.evaluation.attacks.read_out import read_the_fit, within_reach
from fedcox.evaluation.attacks.scene import Attack, Attacker, Scene
from fedcox.evaluation.attacks.single_patient_batch import (
    ask_for_single_patients,
    read_batches,
)
from fedcox.evaluation.attacks.tail_peeling import peel_tail
from fedcox.evaluation.attacks.telescoping import ask_for_block, telescope_blocks

_BATCHES = 50  # of one patient, asked for
_MOST_DIRECTIONS = 10
_FEWEST_APART = 4  # centers, so that secure sums of all but one are answered


def _grouped(scene: Scene) -> bool:
    return scene.setting.link.grouped


def _blocks_of_the_fit(scene: Scene) -> Iterator[Candidate]:
    for source in scene.sources.values():
        yield from telescope_blocks(source)


def _block_without_effects(scene: Scene) -> Iterator[Candidate]:
    for source in ask_for_block(scene.begin(), scene.setting, scene.tables).values():
        yield from telescope_blocks(source)


def _tail(scene: Scene) -> Iterator[Candidate]:
    for source in scene.sources.values():
        yield from peel_tail(source, scene.rng())


def _small_centers(scene: Scene) -> Iterator[Candidate]:
    for source in scene.sources.values():
        yield from invert_small_center(source, scene.rng())


def _in_sums(scene: Scene) -> int:
    return scene.patients if _grouped(scene) and scene.sources else 0


def _in_blocks(scene: Scene) -> int:
    sent = any(source.looks.crossed.size for source in scene.sources.values())
    return scene.patients if _grouped(scene) and sent else 0


def _in_batches(scene: Scene) -> int:
    return scene.patients if any(each.query.batched for each in scene.exchanges) else 0


def _in_small_centers(scene: Scene) -> int:
    if not _grouped(scene):
        return 0
    sizes = [scene.sizes[name] for name in scene.sources]
    return sum(size for size in sizes if size <= SMALL_CENTER)


def _in_groups(scene: Scene) -> int:
    return scene.patients if _grouped(scene) else 0


def _batches_of_the_fit(scene: Scene) -> Iterator[Candidate]:
    yield from read_batches(scene.exchanges, scene.sizes)


def _rare_columns(scene: Scene) -> Iterator[Candidate]:
    yield from read_rare_columns(scene.exchanges, scene.setting)


def _batches_of_one(scene: Scene) -> Iterator[Candidate]:
    alpha = np.full(scene.setting.baseline_size, -2.0)
    yield from ask_for_single_patients(
        scene.begin(), scene.setting, scene.sizes, alpha, _BATCHES
    )


def _one_hot(scene: Scene) -> Iterator[Candidate]:
    for claims in probe_risk_sets(scene.begin(), scene.setting, scene.tables).values():
        yield from claims


def _half_space(scene: Scene) -> Iterator[Candidate]:
    directions = _MOST_DIRECTIONS if len(scene.tables) <= 5 else 2
    yield from probe_outermost(
        scene.begin(), scene.setting, list(scene.tables), directions, scene.deadline()
    )


def _in_batches_of_one(scene: Scene) -> int:
    return min(_BATCHES, scene.patients)


def _in_products(scene: Scene) -> int:
    return 0 if scene.noised else scene.patients


def _by_piece(scene: Scene) -> int:
    return scene.patients if scene.setting.basis is None else 0


def _few(scene: Scene) -> int:
    return len(scene.left_out())


def _apart(scene: Scene) -> int:
    enough = not scene.masked or len(scene.centers) >= _FEWEST_APART
    return within_reach(scene) if enough else 0


ATTACKS: tuple[Attack, ...] = (
    Attack(
        "whole numbers behind sums",
        "Where covariates have few values, a sum counts patients of each combination of them; "
        "a lattice reduction finds these whole numbers from the sums of an ordinary fit.",
        Attacker.COORDINATOR,
        False,
        read_the_fit,
        within_reach,
    ),
    Attack(
        "difference of two studies",
        "A second study leaves out one patient, such as who has no value in one more column; "
        "what its sums lack is that patient.",
        Attacker.COORDINATOR,
        False,
        subtract_studies,
        _few,
    ),
    Attack(
        "difference of two results",
        "The same from the released files alone: patients times mean, once with the patient "
        "and once without.",
        Attacker.READER,
        False,
        subtract_results,
        _few,
    ),
    Attack(
        "difference of two sets of centers",
        "The sums of all hospitals less those of all but one are that one's own; whole numbers "
        "are looked for behind them. All others together know their part; a coordinator learns "
        "it where hospitals answer for fewer centers than they approved.",
        Attacker.HOSPITALS,
        False,
        subtract_centers,
        _apart,
    ),
    Attack(
        "blocks of the fit",
        "Sums over neighbouring risk sets, in the blocks of time by covariate that Newton's "
        "method asks for, differ by single patients.",
        Attacker.COORDINATOR,
        False,
        _blocks_of_the_fit,
        _in_blocks,
    ),
    Attack(
        "peeling the tail",
        "Who is at risk last stands nearly alone; the others follow backwards in time.",
        Attacker.COORDINATOR,
        False,
        _tail,
        _in_sums,
    ),
    Attack(
        "solving a small center",
        f"All patients of a center of {SMALL_CENTER} or fewer at once, by least squares.",
        Attacker.COORDINATOR,
        False,
        _small_centers,
        _in_small_centers,
    ),
    Attack(
        "batches of the fit",
        "A center's share of a random batch is sometimes one patient.",
        Attacker.COORDINATOR,
        False,
        _batches_of_the_fit,
        _in_batches,
    ),
    Attack(
        "products with a rare column",
        "A column with one value for all but one patient gives that one away in the sums of "
        "products.",
        Attacker.COORDINATOR,
        False,
        _rare_columns,
        _in_products,
    ),
    *(
        Attack(name, how, Attacker.COORDINATOR, True, run, aims_at)
        for name, how, run, aims_at in (
            (
                "batches of one patient",
                "Slopes of a batch of one patient are its covariates.",
                _batches_of_one,
                _in_batches_of_one,
            ),
            (
                "a block without effects",
                "At coefficients of zero all weights are known, and neighbouring risk sets "
                "differ by the patients who leave in between.",
                _block_without_effects,
                _in_groups,
            ),
            (
                "one-hot alpha",
                "One interval's hazard is raised after the other, which shows one risk set "
                "after the other.",
                _one_hot,
                _in_groups,
            ),
            (
                "half-space probe",
                "Coefficients so large that one patient outweighs all others.",
                _half_space,
                _by_piece,
            ),
        )
    ),
)
