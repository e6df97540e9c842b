from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedcox.data.encoding import cohort_from_frame, cohorts_by_center, encode_covariates
from fedcox.data.schema import CategoryColumn, CohortSchema
from fedcox.errors import CohortError
from fedcox.survival.cohort import Cohort
from tests.data.tables import SCHEMA, table


def encoded(frame: pd.DataFrame, schema: CohortSchema = SCHEMA) -> Cohort:
    return cohort_from_frame(frame, schema, source="A").cohort


def faults(frame: pd.DataFrame, schema: CohortSchema = SCHEMA) -> tuple[str, ...]:
    with pytest.raises(CohortError) as raised:
        cohort_from_frame(frame, schema, source="A")
    assert raised.value.subject.startswith("A: ")
    assert raised.value.__cause__ is None
    return raised.value.faults


def the_fault(frame: pd.DataFrame, schema: CohortSchema = SCHEMA) -> str:
    (fault,) = faults(frame, schema)
    return fault


def test_columns_follow_the_study_and_not_the_file() -> None:
    cohort = encoded(table()[["died", "stage", "days", "age"]])
    assert SCHEMA.encoded_names == ("age", "stage_II", "stage_III")
    np.testing.assert_array_equal(
        cohort.covariates, [[50, 0, 0], [61, 1, 0], [72, 0, 1], [44, 1, 0]]
    )
    np.testing.assert_array_equal(cohort.time, [100, 200, 300, 400])
    np.testing.assert_array_equal(cohort.event, [True, False, True, False])
    np.testing.assert_array_equal(cohort.number, [0, 1, 2, 3])


def test_the_reference_need_not_be_the_first_level() -> None:
    stage = CategoryColumn("stage", ("I", "II", "III"), "II")
    cohort = encoded(table(), replace(SCHEMA, covariates=(stage,)))
    assert stage.encoded_names == ("stage_I", "stage_III")
    np.testing.assert_array_equal(cohort.covariates, [[1, 0], [0, 0], [0, 1], [0, 0]])


@pytest.mark.parametrize(
    "cells",
    [
        [1, 2, 2, 1],
        [1.0, 2.0, 2.0, 1.0],
        ["1", "2", "2", "1"],
        ["1.0", " 2", "2.00", "1"],
        pd.array([1, 2, 2, 1], dtype="Int64"),
        pd.Categorical([1, 2, 2, 1]),
        pd.Categorical(["1", "2", "2", "1"]),
        np.array([1, 2, 2, 1], dtype=np.int8),
    ],
)
def test_a_category_matches_its_levels_however_it_is_stored(cells: Any) -> None:
    schema = replace(SCHEMA, covariates=(CategoryColumn("sex", ("1", "2"), "1"),))
    np.testing.assert_array_equal(
        encoded(table(sex=cells), schema).covariates[:, 0], [0, 1, 1, 0]
    )


@pytest.mark.parametrize("levels", [("false", "true"), ("False", "True"), ("0", "1")])
@pytest.mark.parametrize(
    "cells",
    [
        [True, False, True, False],
        ["TRUE", "FALSE", "TRUE", "FALSE"],
        [1, 0, 1, 0],
        pd.array([True, False, True, False], dtype="boolean"),
    ],
)
def test_truth_values_match_true_and_one(cells: Any, levels: tuple[str, str]) -> None:
    schema = replace(SCHEMA, covariates=(CategoryColumn("smoker", levels, levels[0]),))
    np.testing.assert_array_equal(
        encoded(table(smoker=cells), schema).covariates[:, 0], [1, 0, 1, 0]
    )


def test_a_leading_zero_makes_another_level() -> None:
    schema = replace(SCHEMA, covariates=(CategoryColumn("ward", ("01", "1"), "01"),))
    cohort = encoded(table(ward=["01", "1", "01", "1"]), schema)
    np.testing.assert_array_equal(cohort.covariates[:, 0], [0, 1, 0, 1])
    only_padded = replace(SCHEMA, covariates=(CategoryColumn("ward", ("01", "02"), "01"),))
    assert "2 patients have a level" in the_fault(
        table(ward=["01", "1", "02", "2"]), only_padded
    )


def test_a_level_spelt_like_a_missing_value_is_a_level() -> None:
    schema = replace(SCHEMA, covariates=(CategoryColumn("grade", ("NA", "low"), "low"),))
    cohort = encoded(table(grade=["NA", "low", "NA", "low"]), schema)
    np.testing.assert_array_equal(cohort.covariates[:, 0], [1, 0, 1, 0])


@pytest.mark.parametrize(
    "cells",
    [
        ["50", " 61 ", "7.2e1", "+44"],
        pd.array([50, 61, 72, 44], dtype="Int64"),
        pd.array([50, 61, 72, 44], dtype="float64[pyarrow]"),
        pd.array(["50", "61", "72", "44"], dtype="string"),
        np.array([50, "61", 72.0, "44"], dtype=object),
    ],
)
def test_numbers_are_read_however_they_are_stored(cells: Any) -> None:
    np.testing.assert_array_equal(encoded(table(age=cells)).covariates[:, 0], [50, 61, 72, 44])


@pytest.mark.parametrize(
    "cells", [[True, False, True, False], ["True", "False", "true", "FALSE"]]
)
def test_indicator_columns_of_truth_values_are_zero_and_one(cells: Any) -> None:
    np.testing.assert_array_equal(encoded(table(age=cells)).covariates[:, 0], [1, 0, 1, 0])


@pytest.mark.parametrize(
    ("cells", "event_value"),
    [
        ([2, 1, 2, 1], 2),
        ([2.0, 1.0, 2.0, 1.0], 2),
        (["2", "1", "2.0", "1"], 2),
        (["dead", "alive", "dead", "alive"], "dead"),
        ([True, False, True, False], 1),
        ([True, False, True, False], True),
        (["TRUE", "FALSE", "true", "false"], True),
        ([1, 0, 1, 0], True),
    ],
)
def test_the_event_is_recognised_in_every_spelling(cells: Any, event_value: Any) -> None:
    schema = replace(SCHEMA, event_value=event_value)
    np.testing.assert_array_equal(
        encoded(table(died=cells), schema).event, [True, False, True, False]
    )


def test_a_center_without_events_and_one_with_a_single_patient_are_legal() -> None:
    assert encoded(table(died=[0, 0, 0, 0])).event.sum() == 0
    assert encoded(table().head(1)).patients == 1


def test_every_fault_is_reported_at_once() -> None:
    frame = table(
        age=["x", "200", "inf", ""],
        stage=["I", "IV", "II", None],
        days=[0, -1, None, 5],
        died=[1, 0, 7, None],
    ).rename(columns={"stage": "Stage"})
    found = "\n".join(faults(frame))
    for words in (
        "Column 'stage' is missing. Did you mean 'Stage'?",
        "The columns there are 'age', 'Stage', 'days' and 'died'.",
        "Column 'age': 1 cell is not a number (row 1)",
        "Column 'age': 1 number is infinite (row 3)",
        "Column 'age': 1 value lies outside the study's range (row 2)",
        "Column 'age': 1 patient has no value (row 4)",
        "Column 'days': 1 patient has no follow-up time (row 3)",
        "Column 'days': 1 patient has a negative follow-up time (row 2)",
        "Column 'days': 1 patient has a follow-up time of zero (row 1)",
        "Column 'died': 1 patient has no value (row 4)",
        "Column 'died': 2 patients have one of 2 values beside the study's event_value = 1",
    ):
        assert words in found


@pytest.mark.parametrize(("more", "last"), [(27, " and 'c27'."), (28, " and 1 more.")])
def test_of_many_columns_thirty_are_named(more: int, last: str) -> None:
    frame = table(**{f"c{k}": 0 for k in range(1, more + 1)}).drop(columns="age")
    named = faults(frame)[-1]
    assert named.startswith("The columns there are 'stage', 'days', 'died', 'c1', ")
    assert named.endswith(last)


def test_zero_times_are_refused_with_the_options_named() -> None:
    fault = the_fault(table(days=[0, 0, 3, 4]))
    assert "2 patients have a follow-up time of zero (rows 1, 2)" in fault
    assert 'zero_times = "drop"' in fault
    assert 'zero_times = "first_interval"' in fault


def test_zero_times_are_dropped_or_kept_as_the_study_says() -> None:
    frame = table(days=[0, 0, 3, 4])
    dropped = cohort_from_frame(frame, replace(SCHEMA, zero_times="drop"), source="A")
    assert dropped.cohort.patients == 2
    assert dropped.dropped == {"zero follow-up time": 2}
    np.testing.assert_array_equal(dropped.cohort.number, [0, 1])
    kept = cohort_from_frame(frame, replace(SCHEMA, zero_times="first_interval"), source="A")
    np.testing.assert_array_equal(kept.cohort.time, [0, 0, 3, 4])
    assert kept.dropped == {}


def test_missing_covariates_are_refused_with_the_options_named() -> None:
    found = faults(table(age=[None, 50, None, 60], stage=["I", "", "II", "III"]))
    assert len(found) == 2
    assert "Column 'age': 2 patients have no value (rows 1, 3)" in found[0]
    assert "Column 'stage': 1 patient has no value (row 2)" in found[1]
    assert 'missing = "drop"' in found[0]
    assert 'missing = "mean"' in found[0]


def test_missing_covariates_drop_the_patient_or_stay_as_gaps() -> None:
    frame = table(age=[None, 50, 70, 60], stage=["I", "NA", "II", "III"])
    dropped = cohort_from_frame(frame, replace(SCHEMA, missing="drop"), source="A")
    assert dropped.dropped == {"missing values": 2}
    np.testing.assert_array_equal(dropped.cohort.covariates, [[70, 1, 0], [60, 0, 1]])
    loaded = cohort_from_frame(frame, replace(SCHEMA, missing="mean"), source="A")
    assert loaded.filled == {"age": 1, "stage": 1}
    assert dropped.filled == {}
    filled = loaded.cohort
    np.testing.assert_array_equal(
        filled.covariates, [[np.nan, 0, 0], [50, np.nan, np.nan], [70, 1, 0], [60, 0, 1]]
    )


def test_a_patient_with_two_reasons_to_be_dropped_is_counted_once() -> None:
    schema = replace(SCHEMA, missing="drop", zero_times="drop")
    loaded = cohort_from_frame(
        table(age=[None, 50, 70, 60], days=[0, 0, 3, 4]), schema, source="A"
    )
    assert loaded.dropped == {"zero follow-up time": 2}
    assert loaded.cohort.patients == 2


def test_cells_to_be_filled_are_counted_by_center_among_those_who_stay() -> None:
    frame = table(
        age=[None, None, 70, None],
        stage=["I", "II", "", "II"],
        days=[0, 1, 2, 3],
        inst=list("ABAB"),
    )
    schema = replace(SCHEMA, missing="mean", zero_times="drop")
    parts = cohorts_by_center(frame, schema, center="inst", source="all.csv")
    assert parts["A"].filled == {"stage": 1}
    assert parts["A"].dropped == {"zero follow-up time": 1}
    assert parts["B"].filled == {"age": 2}


def test_dropping_everybody_is_a_fault() -> None:
    schema = replace(SCHEMA, missing="drop")
    fault = the_fault(table(age=[None] * 4), schema)
    assert fault == "No patients are left after dropping 4 for missing values."


def test_a_table_without_patients_is_a_fault() -> None:
    assert "no patients" in the_fault(table().head(0))


def test_an_event_column_with_a_third_value_is_refused() -> None:
    fault = the_fault(table(died=[1, 0, 2, 0]))
    assert "Column 'died': 3 patients have one of 2 values beside" in fault
    named = the_fault(table(died=[1, 0, 2, 0]), replace(SCHEMA, censored_value=0))
    assert "Column 'died': 1 patient has a value that is neither" in named


def test_duplicate_and_missing_patient_ids_are_counted() -> None:
    schema = replace(SCHEMA, patient_id="pid")
    found = faults(table(pid=["p1", "p2", "p1", None]), schema)
    assert "1 patient without an id (row 4)" in found[0]
    assert "2 rows share their patient id with another row: 1 patient id occurs" in found[1]
    assert encoded(table(pid=["p1", "p2", "p3", "p4"]), schema).columns == 3


def test_a_needed_column_that_is_there_twice_is_refused() -> None:
    frame = pd.concat([table(), table()[["age"]]], axis=1)
    assert "Column 'age' is there 2 times" in the_fault(frame)


def test_decimal_commas_are_recognised() -> None:
    fault = the_fault(table(age=["50,5", "61", "x", "44"]))
    assert "2 cells are not numbers (rows 1, 3); 1 cell seems to use a decimal comma" in fault


def test_levels_in_other_upper_and_lower_case_are_hinted_at() -> None:
    schema = replace(SCHEMA, covariates=(CategoryColumn("sex", ("male", "female"), "male"),))
    fault = the_fault(table(sex=["Male", "m", "male", "FEMALE"]), schema)
    assert "3 patients have a level the study does not know (rows 1, 2, 4)" in fault
    assert "(2 of them in other upper and lower case)" in fault


def test_dates_are_not_numbers() -> None:
    dates = pd.to_datetime(["2001-01-01"] * 4)
    assert "4 cells are not numbers" in the_fault(table(days=dates))


def test_numbers_for_column_names_are_not_repeated() -> None:
    frame = table().set_axis(["63", "female", "412", "1"], axis=1)
    found = "\n".join(faults(frame))
    assert "the first line must hold the columns' names" in found
    assert "female" not in found
    assert "412" not in found


def test_centers_in_a_column_are_parted_and_numbered_through() -> None:
    frame = table(inst=[10, 2, 10, 2], age=[50, None, 70, 60])
    parts = cohorts_by_center(
        frame, replace(SCHEMA, missing="drop"), center="inst", source="all.csv"
    )
    assert list(parts) == ["2", "10"]
    np.testing.assert_array_equal(parts["10"].cohort.number, [0, 1])
    np.testing.assert_array_equal(parts["2"].cohort.number, [2])
    assert parts["10"].dropped == {}
    assert parts["2"].dropped == {"missing values": 1}


def test_centers_have_the_same_names_in_a_file_and_in_a_table() -> None:
    frame = table(inst=["3.0", "12", "3", "north"])
    parts = cohorts_by_center(frame, SCHEMA, center="inst", source="all.csv")
    sizes = [(name, part.cohort.patients) for name, part in parts.items()]
    assert sizes == [("3", 2), ("12", 1), ("north", 1)]  # 3 before 12, numbers before names


def test_a_center_whose_patients_are_all_dropped_stays_as_an_empty_one() -> None:
    frame = table(inst=["A", "B", "B", "B"], age=[None, 50, 70, 60])
    parts = cohorts_by_center(frame, replace(SCHEMA, missing="drop"), center="inst", source="x")
    assert parts["A"].cohort.patients == 0
    assert parts["B"].cohort.patients == 3


def test_a_patient_without_a_center_is_a_fault() -> None:
    with pytest.raises(CohortError, match=r"Column 'inst': 1 patient has no center \(row 2\)"):
        cohorts_by_center(
            table(inst=["A", None, "B", "B"]), SCHEMA, center="inst", source="all.csv"
        )
    with pytest.raises(CohortError, match="Column 'inst' is missing"):
        cohorts_by_center(table(), SCHEMA, center="inst", source="all.csv")


def test_new_patients_need_no_outcome() -> None:
    x = encode_covariates(table()[["stage", "age"]], SCHEMA, source="new")
    np.testing.assert_array_equal(x, [[50, 0, 0], [61, 1, 0], [72, 0, 1], [44, 1, 0]])


@pytest.mark.parametrize("rule", ["refuse", "drop"])
def test_new_patients_with_gaps_are_refused_unless_the_study_fills_them(rule: Any) -> None:
    frame = table(age=[50, None, 72, 44])
    with pytest.raises(CohortError, match="1 patient has no value"):
        encode_covariates(frame, replace(SCHEMA, missing=rule), source="new")
    filled = encode_covariates(frame, replace(SCHEMA, missing="mean"), source="new")
    assert np.isnan(filled[1, 0])


def test_the_callers_table_stays_as_it_was() -> None:
    frame = table(age=["50", "61", "72", "44"])
    before = frame.copy(deep=True)
    encoded(frame)
    pd.testing.assert_frame_equal(frame, before)
