"""The solver's way to the optimum."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from fedcox.reports.study_report import MOST_ROUNDS, convergence_figure
from fedcox.study.fitted import RoundRow
from tests import fitted_examples as examples


def numbers(path: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", path)]


def test_the_decrement_falls_on_a_logarithmic_axis() -> None:
    figure = convergence_figure(examples.lung())
    assert figure is not None
    assert figure.quantity == "decrement"
    places = numbers(figure.plot.lines[0].path)
    assert places[1::2] == sorted(places[1::2])
    assert min(places) >= 0
    assert max(places) <= 1000


def test_a_solver_without_decrement_shows_its_loss() -> None:
    rows = tuple(RoundRow(i + 1, 100.0 + 50.0 / (i + 1), None) for i in range(5000))
    figure = convergence_figure(replace(examples.lung(), convergence=rows))
    assert figure is not None
    assert figure.quantity == "loss"
    assert figure.plot.lines[0].dots == ""
    assert len(numbers(figure.plot.lines[0].path)) == 2 * MOST_ROUNDS


def test_zero_and_missing_numbers_are_left_out_of_the_line() -> None:
    rows = (RoundRow(1, 5.0, 3.0), RoundRow(2, 4.0, 0.0), RoundRow(3, math.nan, math.nan))
    figure = convergence_figure(replace(examples.lung(), convergence=rows))
    assert figure is not None
    assert len(numbers(figure.plot.lines[0].path)) == 2


def test_one_round_of_constant_loss_has_an_axis() -> None:
    figure = convergence_figure(
        replace(examples.lung(), convergence=(RoundRow(1, 7.0, None), RoundRow(2, 7.0, None)))
    )
    assert figure is not None
    assert len(figure.plot.y_ticks) >= 2


def test_no_rounds_no_figure() -> None:
    assert convergence_figure(examples.nothing_estimable()) is None


def test_under_noise_there_is_no_figure_whatever_the_rounds_say() -> None:
    fitted = examples.differentially_private()
    assert convergence_figure(fitted) is None
    assert convergence_figure(replace(fitted, convergence=examples.lung().convergence)) is None
