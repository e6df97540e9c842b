"""Four cancers of TCGA as they are: rank deficient, times of zero, centers of one event."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedcox.engines.in_process import InProcess
from fedcox.study.fit import fit
from fedcox.study.fitted import FittedStudy
from fedcox.study.study import Study
from tests.stacked_glm import GLM_LINKS, Reference, binomial_glm, by_width

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "tcga" / "processed"
#: Rank of [1, X] and its number of columns, as the data's README has it.
RANKS = {"brca": (33, 40), "coad": (36, 46), "kirc": (25, 28), "lgg": (14, 19)}
SOLVERS: tuple[dict[str, Any], ...] = (
    {"method": "newton"},
    {"method": "lbfgs", "scaling": "block"},
    {"method": "lbfgs", "scaling": "diagonal"},
)
WIDTH = 180.0

pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the TCGA tables are not in {FOLDER}"),
    # Every fit of these tables warns of something; the tests look at fitted.notices.
    pytest.mark.filterwarnings("ignore::fedcox.errors.FedcoxWarning"),
]


@cache
def patients(cancer: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / f"tcga_{cancer}.csv", keep_default_na=False)


def columns(cancer: str) -> list[str]:
    others = {"pid", "E", "T", "tss", "center"}
    return [str(name) for name in patients(cancer) if name not in others]


@cache
def fitted(cancer: str, link: str, solver: int = 0, times: str = "") -> FittedStudy:
    study = Study(
        outcome={"time": "T", "event": "E", "zero_times": "first_interval"},
        covariates=columns(cancer),
        grid={"times": times} if times else {"width": WIDTH},
        model={"link": link},
        solver=SOLVERS[solver],
    )
    return fit(study, InProcess.from_frame(study, patients(cancer), center="center"))


def left_out(fit_: FittedStudy) -> list[str]:
    return [row.name for row in fit_.coefficients if row.coef is None]


def separated(fit_: FittedStudy) -> list[str]:
    """Columns named in the warning of separation; their names may contain commas."""
    text = "".join(notice.text for notice in fit_.notices if notice.name == "SeparationWarning")
    names = text.partition("coefficient of ")[2].partition(" grows")[0]
    known = sorted((row.name for row in fit_.coefficients), key=len, reverse=True)
    found = []
    for name in known:
        if f", {name}, " in f", {names}, ":
            found.append(name)
            names = names.replace(name, "")
    return found


def pivots(x: Any) -> list[int]:
    """Columns that raise the rank of [1, X], by least squares on those before them."""
    kept: list[int] = []
    scaled = x / np.abs(x).max(axis=0)
    for j in range(x.shape[1]):
        before = np.column_stack([np.ones(len(x)), scaled[:, kept]])
        rest = scaled[:, j] - before @ np.linalg.lstsq(before, scaled[:, j], rcond=None)[0]
        if np.linalg.norm(rest) > 1e-7 * np.linalg.norm(scaled[:, j]):
            kept.append(j)
    return kept


@pytest.mark.parametrize("cancer", RANKS)
def test_aliased_columns_are_those_that_do_not_raise_the_rank(cancer: str) -> None:
    rank, width = RANKS[cancer]
    names = columns(cancer)
    assert len(names) == width - 1
    kept = pivots(patients(cancer)[names].to_numpy(np.float64))
    assert len(kept) == rank - 1
    ours = fitted(cancer, "cloglog")
    assert left_out(ours) == [name for j, name in enumerate(names) if j not in kept]
    told = "".join(n.text for n in ours.notices if n.name == "AliasedColumnsWarning")
    assert all(name in told for name in left_out(ours)[:10])
    assert all(row.note == "aliased" for row in ours.coefficients if row.coef is None)


@pytest.mark.parametrize("solver", range(len(SOLVERS)))
@pytest.mark.parametrize("link", GLM_LINKS)
@pytest.mark.parametrize("cancer", RANKS)
def test_every_cohort_fits_without_intervention(cancer: str, link: str, solver: int) -> None:
    ours = fitted(cancer, link, solver)
    assert ours.converged
    assert ours.patients == len(patients(cancer))
    assert ours.events == patients(cancer)["E"].sum()
    summary = ours.summary.drop(index=left_out(ours))
    shown = ["coef", "se(coef)", "coef lower 95%", "coef upper 95%", "z", "p"]
    assert np.isfinite(summary[shown].to_numpy()).all()
    assert (summary["se(coef)"] > 0).all()
    assert ours.concordance is not None
    assert 0.75 < ours.concordance < 0.85
    assert ours.likelihood_ratio is not None
    assert ours.likelihood_ratio["df"] == RANKS[cancer][0] - 1


@cache
def reference(cancer: str, link: str, dropped: tuple[str, ...]) -> Reference:
    frame = patients(cancer)
    rows = by_width(frame["T"].tolist(), frame["E"].eq(1).tolist(), WIDTH, "include")
    kept = [name for name in columns(cancer) if name not in dropped]
    covariates = frame[kept].to_numpy(np.float64)
    return binomial_glm(rows, covariates - covariates.mean(axis=0), link)


@pytest.mark.parametrize("solver", range(len(SOLVERS)))
@pytest.mark.parametrize("link", GLM_LINKS)
def test_lower_grade_glioma_equals_the_glm_on_the_kept_columns(link: str, solver: int) -> None:
    ours = fitted("lgg", link, solver)
    assert separated(ours) == []
    theirs = reference("lgg", link, tuple(left_out(ours)))
    summary = ours.summary.drop(index=left_out(ours))
    np.testing.assert_allclose(summary["coef"], theirs.coef, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(summary["se(coef)"], theirs.se, rtol=1e-6)
    assert ours.log_likelihood == pytest.approx(theirs.log_likelihood, rel=1e-10)


@pytest.mark.parametrize("link", GLM_LINKS)
@pytest.mark.parametrize("cancer", ["brca", "coad", "kirc"])
def test_where_columns_are_separated_every_solver_names_the_same_ones(
    cancer: str, link: str
) -> None:
    named = [sorted(separated(fitted(cancer, link, solver))) for solver in range(len(SOLVERS))]
    assert named[0]
    assert named[0] == named[1] == named[2]
    for solver in range(len(SOLVERS)):
        rows = {row.name: row for row in fitted(cancer, link, solver).coefficients}
        for name in named[0]:  # nothing that looks like a result
            row = rows[name]
            assert row.se is not None
            assert row.p is not None
            assert row.se > 100
            assert row.p > 0.9


@pytest.mark.parametrize("cancer", ["brca", "coad", "kirc"])
def test_coefficients_beside_separated_ones_are_those_of_their_limit(cancer: str) -> None:
    first, *others = (fitted(cancer, "cloglog", solver) for solver in range(len(SOLVERS)))
    steady = first.summary.drop(index=left_out(first) + separated(first))
    assert (steady["se(coef)"] < 10).all()
    for other in others:
        same = other.summary.loc[steady.index]
        off = (same["coef"] - steady["coef"]) / steady["se(coef)"]
        assert np.abs(off).max() < 1e-3
        np.testing.assert_allclose(same["se(coef)"], steady["se(coef)"], rtol=1e-3)
        assert other.log_likelihood == pytest.approx(first.log_likelihood, abs=1e-5)


@pytest.mark.parametrize("link", GLM_LINKS)
@pytest.mark.parametrize("cancer", RANKS)
def test_every_event_time_fits_too(cancer: str, link: str) -> None:
    ours, wide = fitted(cancer, link, times="events"), fitted(cancer, link)
    assert ours.converged
    assert left_out(ours) == left_out(wide)
    assert separated(ours) == separated(wide)
    happened = patients(cancer).loc[lambda frame: frame["E"].eq(1) & frame["T"].gt(0), "T"]
    np.testing.assert_array_equal(ours.edges, np.unique(happened))
    assert sum(row.events or 0 for row in ours.baseline) == patients(cancer)["E"].sum()


def test_events_at_time_zero_count_in_the_first_interval() -> None:
    frame = patients("coad")
    early = frame["E"].eq(1) & frame["T"].le(WIDTH)
    assert fitted("coad", "logit").baseline[0].events == early.sum()
    assert fitted("coad", "logit").baseline[0].at_risk == len(frame)


@pytest.mark.parametrize("cancer", RANKS)
def test_centers_and_one_table_give_the_same_fit(cancer: str) -> None:
    ours = fitted(cancer, "logit")
    pooled = fit(ours.study, InProcess.from_frame(ours.study, patients(cancer)))
    assert left_out(pooled) == left_out(ours)
    steady = ours.summary.drop(index=left_out(ours) + separated(ours)).index
    for column in ("coef", "se(coef)"):
        np.testing.assert_allclose(
            ours.summary.loc[steady, column], pooled.summary.loc[steady, column], rtol=1e-8
        )
    assert ours.log_likelihood == pytest.approx(pooled.log_likelihood, rel=1e-10)
