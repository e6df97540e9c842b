"""The paper's section 6.2: four cancers of TCGA in regions, by folds and by left-out region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fedcox.errors import InputError
from fedcox.evaluation.comparison import Claim
from fedcox.evaluation.experiment import Experiment
from fedcox.evaluation.problem import FixedPatients
from fedcox.evaluation.scheme import Recipe
from fedcox.evaluation.schemes import SCHEMES
from fedcox.paper.reproduction import Compared, Panel, Reproduction, mean_of
from fedcox.paper.tcga.table import TcgaTable, read_tcga

_PAPER = ("BOOST", "N-FL", "DT-FL")
_EXACT = ("DT-FL-NEWTON",)
#: Months as intervals, batches of 5000 cells, events weighted (appendix C).
RECIPE = Recipe(
    width=30.0,
    link="logit",
    censored_interval="exclude",
    balanced=True,
    cell_batches=1000,
    cell_batch_size=5000,
)
#: The test sets of left-out centers do not change from run to run; draws do.
_LEFT_OUT_RUNS = 5
QUICK = replace(RECIPE, batches=1000, cell_batches=300)
_NOTE = (
    "The paper finds no significant difference; that an interval holds zero is all that is "
    "checked, and a wide interval holds it easily. Of many intervals at 95 %, one in twenty "
    "misses by chance."
)
_QUICK_NOTE = (
    "This quick run trains on a fifth of the batches, which is too few for some cancers. "
)


def tcga(tables: Mapping[str, TcgaTable], *, quick: bool) -> Reproduction:
    """Every cancer of `tables`, at the paper's sizes, or with one run of few batches."""
    recipe = QUICK if quick else RECIPE
    runs = 1 if quick else 20
    panels = tuple(
        Panel(
            name=cancer.lower(),
            title=cancer,
            experiment=Experiment(
                name=f"TCGA {cancer}",
                problem=FixedPatients.of(table.cohorts()),
                schemes=tuple(SCHEMES[name] for name in (*_PAPER, *_EXACT)),
                recipe=recipe,
                folds=5,
                left_out=True,
                seeds=tuple(range(runs)),
                left_out_runs=min(runs, _LEFT_OUT_RUNS),
            ),
            unit="days",
            notes=tuple(table.notes),
        )
        for cancer, table in tables.items()
    )
    return Reproduction(
        name="tcga",
        title=f"{len(panels)} {'cancer' if len(panels) == 1 else 'cancers'} of TCGA",
        lead=(
            "The paper's section 6.2 and figure 3: regions as centers, schemes judged on folds "
            "from all centers and on a center that took no part in training."
        ),
        panels=panels,
        claims=_claims,
        claims_note=_QUICK_NOTE + _NOTE if quick else _NOTE,
        reference="BOOST",
    )


def _claims(compared: Compared) -> tuple[Claim, ...]:
    """No significant difference: the interval of each paired difference holds zero."""
    claims = []
    for (panel, evaluation), comparison in compared.items():
        where = f"{panel.upper()}, {evaluation}"
        for reference in ("BOOST", "N-FL"):
            difference = comparison.difference("DT-FL", reference)
            if (
                difference is None
                or difference.mean is None
                or difference.low is None
                or difference.high is None
            ):
                measured, held = "no interval", False
            else:
                ends = (
                    _signed(value)
                    for value in (difference.mean, difference.low, difference.high)
                )
                measured = "{} ({} to {})".format(*ends)
                held = difference.low <= 0.0 <= difference.high
            claims.append(
                Claim(
                    f"{where}: no significant difference between DT-FL and {reference}.",
                    measured,
                    held,
                )
            )
        mean = mean_of(comparison, "DT-FL")
        claims.append(
            Claim(f"{where}: DT-FL is better than chance.", f"c-index {mean:.3f}", mean > 0.5)
        )
    return tuple(claims)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def tcga_tables(
    files: Mapping[str, str], outcome: Path | None, regions: Path
) -> dict[str, TcgaTable]:
    """One table per cancer, from the clinical file of each."""
    tables: dict[str, TcgaTable] = {}
    faults: list[str] = []
    for cancer, file in files.items():
        try:
            tables[cancer] = read_tcga(
                clinical=file, outcome=outcome, regions=regions, cancer=cancer
            )
        except InputError as error:
            faults += [error.subject, *error.faults]
    if faults:
        raise InputError(
            "The tables of TCGA cannot be used as they are.", [*dict.fromkeys(faults)]
        )
    return tables
