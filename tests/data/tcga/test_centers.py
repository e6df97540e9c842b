"""Source sites to regions."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedcox.data.tcga.recipe import federated_centers, read_regions, regions_of, source_sites
from fedcox.errors import InputError
from tests.data.tcga import made_up


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
