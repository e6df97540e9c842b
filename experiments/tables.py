"""Every number of this folder's README, made from the stored runs.

`python -m experiments.tables` writes the README's tables and the values that
`fedcox reproduce` draws beside its own; a test compares both with what is stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

HERE = Path(__file__).parent
README = HERE / "README.md"
EXPECTED = HERE.parent / "src" / "fedcox" / "paper" / "expected.json"
#: Stored runs: folder, and the reproduction whose expected values they are.
RUNS: Mapping[str, str] = {
    "synthetic": "synthetic",
    "synthetic-population": "synthetic, population",
    "tcga": "tcga",
}
_TITLES = {"folds": "folds inside centers", "left out": "one center left out"}


def stored(run: str) -> dict[str, Any]:
    """The summary of a stored run."""
    file = HERE / "results" / run / "reproduction.json"
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return record


def expected() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Mean c-indices by reproduction, panel, evaluation and scheme, to four digits."""
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for run, name in RUNS.items():
        panels = found.setdefault(name, {})
        for comparison in stored(run)["comparisons"]:
            panels.setdefault(comparison["panel"], {})[comparison["evaluation"]] = {
                scheme["scheme"]: round(scheme["mean"], 4)
                for scheme in comparison["schemes"]
                if scheme["mean"] is not None
            }
    return found


def index_table(run: str, evaluation: str) -> list[str]:
    """Mean ± standard deviation: a row for each scheme, a column for each panel."""
    comparisons = [
        comparison
        for comparison in stored(run)["comparisons"]
        if comparison["evaluation"] == evaluation
    ]
    schemes = [scheme["scheme"] for scheme in comparisons[0]["schemes"]]
    rows = [
        [scheme, *(_mean(comparison, scheme) for comparison in comparisons)]
        for scheme in schemes
    ]
    heads = [_TITLES[evaluation], *(comparison["panel"] for comparison in comparisons)]
    return _markdown(heads, rows)


def claim_table(run: str) -> list[str]:
    """What the paper says, and what was found."""
    rows = [
        [claim["statement"], claim["measured"], "yes" if claim["held"] else "**no**"]
        for claim in stored(run)["claims"]
    ]
    return _markdown(["the paper's conclusion, as checked here", "measured", "held"], rows)


def run_block(run: str) -> str:
    """All that the README shows of one run."""
    record = stored(run)
    evaluations = dict.fromkeys(found["evaluation"] for found in record["comparisons"])
    lines: list[str] = []
    for evaluation in evaluations:
        lines += [*index_table(run, evaluation), ""]
    lines += [*claim_table(run), "", f"`{record['command']}`"]
    return "\n".join(lines)


def communication_block() -> str:
    """What one center sends, at the largest T and P."""
    record = _study("communication")
    most, widest = record["times"][-1], record["columns"][-1]
    rows = [
        [
            cost["method"],
            f"{cost['per_round']['numbers_up']:,}",
            *_rounds_and_bytes(cost["close"]),
            *_rounds_and_bytes(cost["stop"]),
        ]
        for cost in record["costs"]
        if (cost["times"], cost["columns"]) == (most, widest)
    ]
    heads = [
        f"T = {most}, P = {widest}",
        "numbers a round",
        "rounds to 0.01 s.e.",
        "kB to 0.01 s.e.",
        "rounds to its stop",
        "kB to its stop",
    ]
    return "\n".join([*_markdown(heads, rows), "", "`fedcox reproduce communication`"])


def appendix_block() -> str:
    """Length of the coefficients beside Cox's, by censoring, link and reading."""
    record = _study("appendix-a")
    widths = (5, 20, 100, 500, None)
    ratios = {
        (found["bound"], found["link"], found["reading"], found["intervals"]): found["ratio"]
        for found in record["approaches"]
    }
    kinds = dict.fromkeys(key[:3] for key in ratios)
    rows = [
        [", ".join(kind), *(f"{ratios[(*kind, width)]:.3f}" for width in widths)]
        for kind in kinds
    ]
    heads = ["censoring bound, link, reading", *(str(width or "events") for width in widths)]
    return "\n".join([*_markdown(heads, rows), "", "`fedcox reproduce appendix-a`"])


def compression_block() -> str:
    """Bytes and c-index of every method after its most rounds, and what was claimed."""
    record = _study("compression")
    # From few rounds to many: of one method and width the last one stays.
    last = {(found["method"], found["columns"]): found for found in record["trained"]}
    heads, rows = ["method"], {method: [method] for method, _ in last}
    for columns in record["columns"]:
        heads += [f"P = {columns}: rounds", "kB", "c-index", "less that of doubles"]
        doubles = last["doubles", columns]["c_indices"]
        for method, cells in rows.items():
            found = last[method, columns]
            cells += [str(found["rounds"]), f"{found['bytes_up'] / 1000:.1f}"]
            cells += [f"{mean(found['c_indices']):.3f}", _paired(found["c_indices"], doubles)]
    claims = [
        [claim["statement"], claim["measured"], "yes" if claim["held"] else "**no**"]
        for claim in record["claims"]
    ]
    lines = [*_markdown(heads, list(rows.values())), ""]
    lines += [*_markdown(["statement", "measured", "held"], claims), ""]
    return "\n".join([*lines, "`fedcox reproduce compression`"])


def privacy_block() -> str:
    """C-index, error and what noise costs by epsilon, what was to be found out, the command."""
    record = _study("privacy")
    fits = {
        (found["method"], found["epsilon"], found["columns"]): found
        for found in record["judged"]
    }
    rows = [
        [
            method if epsilon is None else f"{method}, epsilon {epsilon:g}",
            *(
                cell
                for columns in record["columns"]
                for cell in _privacy_cells(fits[method, epsilon, columns])
            ),
        ]
        for method, epsilon in dict.fromkeys(key[:2] for key in fits)
    ]
    heads = ["fit"]
    for columns in record["columns"]:
        heads += [f"P = {columns}: c-index", "error", "arrived", "standard errors"]
    claims = [
        [claim["statement"], claim["measured"], "yes" if claim["held"] else "**no**"]
        for claim in record["claims"]
    ]
    told = _markdown(["statement", "measured", "held"], claims)
    return "\n".join([*_markdown(heads, rows), "", *told, "", "`fedcox reproduce privacy`"])


def _privacy_cells(found: dict[str, Any]) -> list[str]:
    indices, arrived = found["c_indices"], len(found["covered"])
    return [
        f"{mean(indices):.3f} ± {stdev(indices):.3f}",
        f"{mean(found['errors']):.3f}",
        f"{arrived} of {len(indices)}",
        f"× {mean(found['prices']):.2f}" if arrived else "–",
    ]


def slides_block() -> str:
    """C-index on simulated slides beside the paper's on TCGA, and what was to be shown."""
    record = _study("slides")
    found = {scheme["scheme"]: scheme for scheme in record["comparison"]["schemes"]}
    schemes = ("MINI", "DT-FL")
    rows = [
        [
            "simulated slides, here",
            *(f"{found[name]['mean']:.3f} ± {found[name]['sd']:.3f}" for name in schemes),
        ],
        *(
            [f"{cancer}, the paper", *("{:.2f} ± {:.2f}".format(*of[name]) for name in schemes)]
            for cancer, of in record["paper_table_2"].items()
        ),
    ]
    claims = [
        [claim["statement"], claim["measured"], "yes" if claim["held"] else "**no**"]
        for claim in record["claims"]
    ]
    told = _markdown(["statement", "measured", "held"], claims)
    table = _markdown(["slides", *schemes], rows)
    return "\n".join([*table, "", *told, "", f"`{record['command']}`"])


def blocks() -> dict[str, str]:
    """Every block of the README by the name of its marker."""
    return {
        **{run: run_block(run) for run in RUNS},
        "communication": communication_block(),
        "appendix-a": appendix_block(),
        "compression": compression_block(),
        "privacy": privacy_block(),
        "slides": slides_block(),
    }


def with_tables(text: str) -> str:
    """The README with every block between its markers made anew."""
    for run, block in blocks().items():
        pattern = re.compile(rf"(<!-- {run} -->\n).*?\n?<!-- end -->", re.DOTALL)
        around = pattern.search(text)
        if around is None:
            raise ValueError(f"The README needs the marker <!-- {run} -->.")
        start, stop = around.span()
        text = text[:start] + around[1] + block + "\n<!-- end -->" + text[stop:]
    return text


def expected_text() -> str:
    """The file of expected values."""
    return json.dumps(expected(), indent=1, ensure_ascii=False) + "\n"


def _study(name: str) -> dict[str, Any]:
    file = HERE / "results" / name / f"{name}.json"
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return record


def _rounds_and_bytes(messages: Mapping[str, int] | None) -> tuple[str, str]:
    if messages is None:
        return "–", "–"
    kilobytes = 8 * (messages["numbers_up"] + messages["numbers_down"]) / 1000
    return f"{messages['rounds']:,}", f"{kilobytes:,.0f}"


def _paired(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The mean difference, study by study, with its standard error."""
    gaps = [our - their for our, their in zip(ours, theirs, strict=True)]
    return f"{mean(gaps):+.4f} ± {stdev(gaps) / len(gaps) ** 0.5:.4f}"


def _mean(comparison: Mapping[str, Any], name: str) -> str:
    for scheme in comparison["schemes"]:
        if scheme["scheme"] == name and scheme["mean"] is not None:
            return f"{scheme['mean']:.3f} ± {scheme['sd']:.3f}"
    return "–"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] + ["---"] * (len(heads) - 1)
    return [f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)]


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
    EXPECTED.write_text(expected_text(), encoding="utf-8")
