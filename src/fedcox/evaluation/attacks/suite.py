"""Every attack of an audit, by name, and who could do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from fedcox.evaluation.attacks.attack_setting import Attack, Attacker, AttackSetting, Candidate
from fedcox.evaluation.attacks.differences import (
    probe_outermost,
    subtract_centers,
    subtract_results,
    subtract_studies,
)
from fedcox.evaluation.attacks.gradient_inversion import (
    SMALL_CENTER,
    invert_small_center,
    peel_tail,
)
from fedcox.evaluation.attacks.observed_sums import ObservedSource
from fedcox.evaluation.attacks.read_out import read_the_fit, within_reach
from fedcox.evaluation.attacks.single_patients import (
    ask_for_block,
    ask_for_single_patients,
    probe_risk_sets,
    read_batches,
    read_rare_columns,
    telescope_blocks,
)

_BATCHES = 50  # of one patient, asked for
_MOST_DIRECTIONS = 10
_FEWEST_APART = 4  # centers, so that secure sums of all but one are answered


_Read = Callable[[ObservedSource, np.random.Generator], Iterable[Candidate]]


def _every_source(read: _Read) -> Callable[[AttackSetting], Iterator[Candidate]]:
    """What the fit's messages tell of one source after the other."""

    def run(target: AttackSetting) -> Iterator[Candidate]:
        for source in target.sources.values():
            yield from read(source, target.rng())

    return run


def _block_without_effects(target: AttackSetting) -> Iterator[Candidate]:
    for source in ask_for_block(target.begin(), target.setting, target.tables).values():
        yield from telescope_blocks(source)


def _batches_of_one(target: AttackSetting) -> Iterator[Candidate]:
    alpha = np.full(target.setting.baseline_size, -2.0)
    yield from ask_for_single_patients(
        target.begin(), target.setting, target.sizes, alpha, _BATCHES
    )


def _one_hot(target: AttackSetting) -> Iterator[Candidate]:
    for claims in probe_risk_sets(target.begin(), target.setting, target.tables).values():
        yield from claims


def _half_space(target: AttackSetting) -> Iterator[Candidate]:
    directions = _MOST_DIRECTIONS if len(target.tables) <= 5 else 2
    yield from probe_outermost(
        target.begin(), target.setting, list(target.tables), directions, target.deadline()
    )


# How many patients each could find at best.


def _in_groups(target: AttackSetting) -> int:
    return target.patients if target.setting.link.grouped else 0


def _in_sums(target: AttackSetting) -> int:
    return _in_groups(target) if target.sources else 0


def _in_blocks(target: AttackSetting) -> int:
    sent = any(source.sums.crossed.size for source in target.sources.values())
    return _in_groups(target) if sent else 0


def _in_small_centers(target: AttackSetting) -> int:
    sizes = [target.sizes[name] for name in target.sources]
    small = sum(size for size in sizes if size <= SMALL_CENTER)
    return small if target.setting.link.grouped else 0


def _in_batches(target: AttackSetting) -> int:
    return target.patients if any(each.query.batched for each in target.exchanges) else 0


def _among_left_out(target: AttackSetting) -> int:
    return len(target.left_out())


def _in_one_center(target: AttackSetting) -> int:
    enough = not target.masked or len(target.centers) >= _FEWEST_APART
    return within_reach(target) if enough else 0


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
        _among_left_out,
    ),
    Attack(
        "difference of two results",
        "The same from the released files alone: patients times mean, once with the patient "
        "and once without.",
        Attacker.READER,
        False,
        subtract_results,
        _among_left_out,
    ),
    Attack(
        "difference of two sets of centers",
        "The sums of all hospitals less those of all but one are that one's own; whole numbers "
        "are looked for behind them. All others together know their part; a coordinator learns "
        "it where hospitals answer for fewer centers than they approved.",
        Attacker.HOSPITALS,
        False,
        subtract_centers,
        _in_one_center,
    ),
    Attack(
        "blocks of the fit",
        "Sums over neighbouring risk sets, in the blocks of time by covariate that Newton's "
        "method asks for, differ by single patients.",
        Attacker.COORDINATOR,
        False,
        _every_source(lambda source, rng: telescope_blocks(source)),
        _in_blocks,
    ),
    Attack(
        "peeling the tail",
        "Who is at risk last stands nearly alone; the others follow backwards in time.",
        Attacker.COORDINATOR,
        False,
        _every_source(peel_tail),
        _in_sums,
    ),
    Attack(
        "solving a small center",
        f"All patients of a center of {SMALL_CENTER} or fewer at once, by least squares.",
        Attacker.COORDINATOR,
        False,
        _every_source(invert_small_center),
        _in_small_centers,
    ),
    Attack(
        "batches of the fit",
        "A center's share of a random batch is sometimes one patient.",
        Attacker.COORDINATOR,
        False,
        lambda target: iter(read_batches(target.exchanges, target.sizes)),
        _in_batches,
    ),
    Attack(
        "products with a rare column",
        "A column with one value for all but one patient gives that one away in the sums of "
        "products.",
        Attacker.COORDINATOR,
        False,
        lambda target: read_rare_columns(target.exchanges, target.setting),
        lambda target: 0 if target.noised else target.patients,
    ),
    *(
        Attack(name, how, Attacker.COORDINATOR, True, run, aims_at)
        for name, how, run, aims_at in (
            (
                "batches of one patient",
                "Slopes of a batch of one patient are its covariates.",
                _batches_of_one,
                lambda target: min(_BATCHES, target.patients),
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
                lambda target: target.patients if target.setting.basis is None else 0,
            ),
        )
    ),
)
