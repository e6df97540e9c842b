from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console

from fedcox.evaluation.comparison import compare
from fedcox.evaluation.result import Row
from fedcox.evaluation.scheme import AbstractScheme
from fedcox.evaluation.schemes import SCHEMES
from fedcox.reports.evaluation_table import evaluation_table, notes_panel
from tests.evaluation_examples import INDICES, NAMED, rows


def shown(
    found: list[Row],
    *,
    title: str = "lung",
    schemes: Mapping[str, AbstractScheme] = NAMED,
) -> str:
    """What a terminal of 80 columns shows."""
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        for comparison in compare(found):
            console.print(evaluation_table(comparison, [*schemes.values()], title=title))
    return captured.get()


def line_of(text: str, scheme: str) -> str:
    return next(line for line in text.splitlines() if f"│ {scheme} " in line)


def test_a_line_has_mean_deviation_number_and_difference_to_the_first() -> None:
    found = rows()
    (comparison,) = compare(found)
    text = shown(found)
    assert "lung: folds inside centers, 4 runs" in text
    summary, reference = comparison.schemes[4], comparison.schemes[0].scheme
    difference = comparison.difference(summary.scheme, reference)
    assert difference is not None
    assert difference.mean is not None
    line = line_of(text, summary.scheme)
    assert f"{summary.mean:.3f} ± {summary.sd:.3f}" in line
    assert f"{abs(difference.mean):.3f}" in line
    assert " 20 " in line
    assert "*" not in line
    assert "│ POOL *" in text
    assert "* pools the patients, for comparison only; not federated." in text
    assert "†" not in text
    assert "vs POOL" in text
    assert "corrected resampled t" in text


def test_every_line_fits_a_terminal_of_80_columns() -> None:
    for line in shown(rows()).splitlines():
        assert len(line) <= 80
        assert line.count("│") in (0, 6)


def test_the_longest_names_fit_as_well() -> None:
    renamed = {"POOL": "WEBDISCO-L-BFGS", "DT-FL": "DT-FL-NEWTON", "LOCAL": "LOCAL"}
    found = [
        replace(row, scheme=renamed[row.scheme])
        for row in rows({name: INDICES[name] for name in renamed}, without=("LOCAL", 3))
    ]
    text = shown(found, schemes=SCHEMES)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "│ WEBDISCO-L-BFGS † │" in text
    assert "† federated, but what it sends" in text
    assert "│ DT-FL-NEWTON      │" in text


def test_the_caption_says_what_the_means_rest_on() -> None:
    found = rows({"POOL": 0.7, "DT-FL": 0.69}, seeds=2, test_sets=("a", "b", "c"))
    found = [replace(row, events=2) if row.center == "b" else row for row in found]
    text = " ".join(shown(found).split())
    assert "2 test sets have fewer than 5 events" in text
    assert "The 6 test sets are 3 centers in 2 runs" in text


def test_test_sets_without_an_index_are_counted() -> None:
    assert "16 of 20" in line_of(shown(rows(without=("LOCAL", 3))), "LOCAL")


def test_a_scheme_without_any_index_and_one_test_set_show_dashes() -> None:
    one = rows(seeds=1, test_sets=(1,))
    first, second, *_ = one
    text = shown([first, replace(second, c_index=None)])
    assert line_of(text, second.scheme).count("–") == 3
    text = shown([first, second])
    assert "±" not in line_of(text, second.scheme)
    assert line_of(text, second.scheme).count("–") == 1


def test_one_scheme_alone_needs_no_word_on_differences() -> None:
    assert "interval" not in shown(rows({"DT-FL": 0.7})).split("c-index: mean")[1]


def test_names_from_files_are_shown_as_they_are() -> None:
    assert "[bold]lung[/]: folds" in shown(rows(), title="[bold]lung[/]")


def panel_text(found: list[Row], told: list[str]) -> str:
    console = Console(width=200, force_terminal=False)
    panel = notes_panel(compare(found), told)
    with console.capture() as captured:
        console.print("" if panel is None else panel)
    return captured.get()


def test_nothing_to_say_is_no_panel() -> None:
    assert notes_panel(compare(rows()), []) is None


def test_notes_are_counted_over_both_evaluations_and_long_lists_are_cut() -> None:
    both = [*rows(seeds=1), *rows(seeds=1, test_sets=("north", "south"))]
    noted = [replace(row, notes=("Same words.",)) for row in both if row.scheme == "POOL"]
    text = panel_text(noted, ["3 patient(s) left out."])
    assert "POOL, on 7 test sets: Same words." in text
    assert "3 patient(s) left out." in text
    many = [replace(row, notes=(f"Words {number}.",)) for number, row in enumerate(rows()[:20])]
    text = panel_text(many, [])
    assert text.count("Words") == 8
    assert "… and 12 more, in folds.jsonl." in text
