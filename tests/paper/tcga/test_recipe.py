"""Categories to indicators, as the published table of BRCA has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedcox.errors import InputError
from fedcox.paper.tcga.layouts import CATEGORIES
from fedcox.paper.tcga.recipe import (
    covariates,
    federated_centers,
    read_regions,
    regions_of,
    source_sites,
)
from tests.paper.tcga import made_up


def table(**columns: Sequence[str | None]) -> pd.DataFrame:
    return pd.DataFrame(columns, dtype=object)


def test_indicators_are_those_of_pandas_without_the_rare_ones() -> None:
    fields = made_up.patients()[["age_at_index", *CATEGORIES]]
    built = covariates(fields)
    dummies = pd.get_dummies(fields[list(CATEGORIES)], drop_first=True, dtype="int64")
    wanted = dummies.loc[:, dummies.mean() >= 0.05]
    pd.testing.assert_frame_equal(built.frame.drop(columns="age_at_index"), wanted)
    assert built.rare == tuple(dummies.columns[dummies.mean() < 0.05])
    np.testing.assert_array_equal(
        built.frame["age_at_index"], fields["age_at_index"].astype(float)
    )


def test_the_first_level_is_dropped_before_rare_ones_are() -> None:
    """Capital letters come first; the reference stays what it is, however rare."""
    race = ["Z"] + ["a"] * 49 + ["b"] * 48 + ["c"] * 2
    built = covariates(table(race=race))
    assert list(built.frame) == ["race_a", "race_b"]
    assert built.rare == ("race_c",)


@pytest.mark.parametrize(("patients", "kept"), [(4, False), (5, True)])
def test_one_patient_in_twenty_is_enough(patients: int, kept: bool) -> None:
    gender = ["male"] * patients + ["female"] * (100 - patients)
    assert ("gender_male" in covariates(table(gender=gender)).frame) is kept


def test_not_reported_is_a_level_and_no_value_is_none() -> None:
    race = ["asian", "not reported", "white", None] * 5
    frame = covariates(table(race=race)).frame
    assert list(frame) == ["race_not reported", "race_white"]
    assert frame.iloc[3].sum() == 0
    assert frame.sum().tolist() == [5, 5]


def test_a_field_without_two_levels_has_no_indicator() -> None:
    frame = covariates(table(race=["white"] * 4, gender=[None] * 4, ethnicity=["a", "b"] * 2))
    assert list(frame.frame) == ["ethnicity_b"]


def test_tumor_stage_is_the_pathologic_stage_in_small_letters() -> None:
    stage = ["Stage IIA", "Stage X", None, "Stage I"] * 3
    frame = covariates(table(ajcc_pathologic_stage=stage)).frame
    assert [name for name in frame if str(name).startswith("tumor_stage")] == [
        "tumor_stage_stage i",
        "tumor_stage_stage iia",
        "tumor_stage_stage x",
    ]
    own = covariates(table(ajcc_pathologic_stage=stage, tumor_stage=["p", "q"] * 6)).frame
    assert "tumor_stage_q" in own
    assert "tumor_stage_stage i" not in own


def test_a_missing_age_stays_missing_and_a_wrong_one_is_counted_but_not_shown() -> None:
    frame = covariates(table(age_at_index=["61", None, "47.5"])).frame
    np.testing.assert_array_equal(frame["age_at_index"], [61, np.nan, 47.5])
    with pytest.raises(InputError, match=r"age_at_index: 2 cells are not") as raised:
        covariates(table(age_at_index=["61", "sixty-one", "forty"]))
    assert "sixty" not in str(raised.value)


def test_codes_are_text_and_na_is_one(tmp_path: Path) -> None:
    assert read_regions(made_up.regions_csv(tmp_path)) == made_up.REGIONS


def test_the_site_is_the_second_part_of_the_barcode() -> None:
    sites = source_sites(pd.Index(["TCGA-Q1-0001", "TCGA-NA-0002", "TCGA-01-0003"]))
    assert sites.tolist() == ["Q1", "NA", "01"]


def test_other_regions_unknown_sites_and_single_patients_stay_out() -> None:
    sites = pd.Series(["Q1", "Q1", "Q2", "Q3", "Q3", "Q3", "Q4"])
    regions = {"Q1": "Northland", "Q2": "Southland", "Q3": "other", "Q5": "Eastland"}
    center = regions_of(sites, regions)
    assert center.tolist() == ["Northland"] * 2 + ["Southland"] + ["Other"] * 3 + ["unknown"]
    centers, notes = federated_centers(center, sites)
    assert centers == ["Northland"]
    assert notes == [
        "3 patients of the region 'Other' stay out of the federation.",
        "1 patient stays out of the federation: the table of regions does not have the source "
        "site 'Q4'.",
        "Region Southland has a single patient, who stays out of the federation.",
    ]


def test_a_region_left_empty_is_unknown() -> None:
    sites = pd.Series(["Q1", "Q1"])
    assert regions_of(sites, {"Q1": ""}).tolist() == ["unknown"] * 2


def test_a_table_without_regions_says_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "tissueSourceSite.tsv"
    file.write_text("TSS Code\tSource Site\n01\tSomewhere\n")
    with pytest.raises(InputError, match="It lacks the column 'Region'"):
        read_regions(file)


def test_codes_that_lost_a_zero_or_have_two_regions_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "regions.csv"
    file.write_text("TSS Code,Region\n1,North\n2,North\nQ1,North\nQ1,South\nQ2,East\nQ2,East\n")
    with pytest.raises(InputError) as raised:
        read_regions(file)
    assert "2 codes do not have two characters" in str(raised.value)
    assert "'Q1' lies in two regions." in str(raised.value)
