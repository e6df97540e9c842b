from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcox.data.schema import CategoryColumn, CohortSchema, NumberColumn
from fedcox.errors import StudyError
from fedcox.study.study import Study
from fedcox.study.study_tables import Noise
from fedcox.survival.link import LINKS

*_SOME_LINKS, _LAST_LINK = (f'"{name}"' for name in LINKS)
LINK_CHOICES = f"{', '.join(_SOME_LINKS)} or {_LAST_LINK}"
REFERENCE_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "study-file.md"

LUNG = """
[study]
name = "lung"

[outcome]
time = "time"
event = "status"
event_value = 2
unit = "days"

[covariates]
age = { type = "number", min = 0, max = 120 }
sex = { type = "category", levels = ["1", "2"], reference = "1" }

[grid]
width = 30
horizon = 1080

[model]
link = "cloglog"
censored_interval = "include"
ridge = 0.0
missing = "refuse"

[solver]
method = "newton"

[privacy]
"""
SHORT: dict[str, Any] = {
    "outcome": {"time": "days", "event": "died"},
    "covariates": ["age", "ph.ecog"],
    "grid": {"width": 30},
}

TABLE_KEYS = st.sampled_from(["study", "outcome", "covariates", "grid", "model", "solver"])
OUTCOME_KEYS = st.sampled_from(["name", "time", "event", "event_value", "censored_value"])
COVARIATE_KEYS = st.sampled_from(["age", "type", "levels", "reference", "min", "max"])
KEYS = (
    TABLE_KEYS
    | OUTCOME_KEYS
    | COVARIATE_KEYS
    | st.sampled_from(["width", "times", "method", "link"])
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.sampled_from(["number", "category", "adam", "events", "logit", "age", "1", ""]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


def faults(**tables: Any) -> tuple[str, ...]:
    with pytest.raises(StudyError) as raised:
        Study(**{**SHORT, **tables})
    text = str(raised.value)
    assert "pydantic" not in text
    assert "http" not in text
    return raised.value.faults


def the_fault(**tables: Any) -> str:
    (fault,) = faults(**tables)
    return fault


def parse_faults(text: str) -> str:
    with pytest.raises(StudyError) as raised:
        Study.parse(text, source="plan.toml")
    assert raised.value.subject.startswith("plan.toml: ")
    return "\n".join(raised.value.faults)


def test_the_design_example_gives_its_schema() -> None:
    study = Study.parse(LUNG)
    assert study.name == "lung"
    assert study.grid.width == 30
    assert study.grid.horizon == 1080
    assert study.schema == CohortSchema(
        time="time",
        event="status",
        covariates=(NumberColumn("age", 0, 120), CategoryColumn("sex", ("1", "2"), "1")),
        event_value=2,
        unit="days",
    )
    assert study.schema.encoded_names == ("age", "sex_2")
    assert study.source == LUNG


def test_defaults_are_the_documented_ones() -> None:
    study = Study(**SHORT)
    assert study.to_dict() == {
        "study": {"name": "study"},
        "outcome": {
            "time": "days",
            "event": "died",
            "event_value": 1,
            "censored_value": 0,
            "zero_times": "refuse",
        },
        "covariates": {"age": {"type": "number"}, "ph.ecog": {"type": "number"}},
        "grid": {"width": 30.0},
        "model": {
            "link": "log",
            "baseline": "pieces",
            "censored_interval": "include",
            "ridge": 0.0,
            "missing": "refuse",
        },
        "solver": {"method": "newton", "tolerance": 1e-14, "max_rounds": 50},
    }


@pytest.mark.parametrize(
    ("solver", "settings"),
    [
        ({"max_rounds": 7}, {"method": "newton", "tolerance": 1e-14, "max_rounds": 7}),
        (
            {"method": "lbfgs"},
            {
                "method": "lbfgs",
                "scaling": "diagonal",
                "tolerance": 1e-12,
                "max_rounds": 500,
                "memory": 10,
            },
        ),
        (
            {"method": "adam"},
            {
                "method": "adam",
                "learning_rate": 1e-2,
                "steps": 2000,
                "batch_size": None,
                "seed": 0,
                "compression": "none",
                "keep": None,
            },
        ),
    ],
)
def test_each_solver_has_its_own_keys(solver: dict[str, Any], settings: dict[str, Any]) -> None:
    assert Study(**SHORT, solver=solver).solver.model_dump() == settings


@pytest.mark.parametrize(
    "block", re.findall(r"```toml\n(.*?)```", REFERENCE_PAGE.read_text("utf-8"), re.S)
)
def test_every_example_of_the_reference_page_is_a_study(block: str) -> None:
    study = Study.parse(block)
    assert Study.parse(study.to_toml()) == study


def test_the_reference_page_names_every_key() -> None:
    page = REFERENCE_PAGE.read_text("utf-8")
    keys = {
        "lbfgs": Study(**SHORT, solver={"method": "lbfgs"}),
        "adam": Study(**SHORT, solver={"method": "adam"}),
    }
    for study in keys.values():
        for table in (study.study, study.outcome, study.grid, study.model, study.solver):
            for key in type(table).model_fields:
                assert f"`{key}`" in page


@pytest.mark.parametrize(
    "tables",
    [
        SHORT,
        {
            **SHORT,
            "study": {"name": 'a "name" with\nlines, \\ and é\x7f', "patient_id": "pid"},
            "outcome": {"time": "t", "event": "e", "event_value": "dead", "zero_times": "drop"},
            "covariates": {
                "größe [cm]": {"type": "number", "min": 0.1, "max": 1e300},
                "a.b": {"type": "category", "levels": ["x", 'y"', "1"], "reference": 'y"'},
            },
            "grid": {"times": "events", "horizon": 2.5},
            "solver": {"method": "adam", "batch_size": 10},
        },
        {**SHORT, "outcome": {"time": "t", "event": "e", "event_value": False}},
        {**SHORT, "outcome": {"time": "t", "event": "e", "unit": "h", "min": 0.5, "max": 9}},
    ],
)
def test_a_study_survives_toml_and_json(tables: dict[str, Any]) -> None:
    study = Study(**tables)
    for again in (
        Study.parse(study.to_toml()),
        Study.parse(study.source),
        Study.from_dict(json.loads(json.dumps(study.to_dict()))),
        pickle.loads(pickle.dumps(study)),
        copy.deepcopy(study),
    ):
        assert again == study
        assert hash(again) == hash(study)
        assert again.schema == study.schema


def test_a_study_cannot_be_changed() -> None:
    study = Study(**SHORT)
    with pytest.raises(ValueError, match="frozen"):
        study.grid = study.grid
    with pytest.raises(ValueError, match="frozen"):
        study.model.ridge = 3.0


def test_tables_may_be_given_as_the_objects_of_another_study() -> None:
    study = Study.parse(LUNG)
    again = Study(outcome=study.outcome, covariates=study.covariates, grid=study.grid)
    assert again.schema == study.schema
    assert "already [outcome] time" in "\n".join(
        faults(outcome={"time": "age", "event": "e"}, covariates=study.covariates)
    )


def test_without_a_coding_the_event_column_is_zero_and_one() -> None:
    assert Study(**SHORT).schema.censored_value == 0
    explicit = Study(**{**SHORT, "outcome": {"time": "t", "event": "e", "event_value": 1}})
    assert explicit.schema.censored_value is None


def test_a_unit_that_nobody_gave_is_not_days() -> None:
    assert Study(**SHORT).schema.unit is None
    assert Study(**SHORT).schema.time_unit == "units of time"
    weeks = Study(**{**SHORT, "outcome": {"time": "t", "event": "e", "unit": "weeks"}})
    assert weeks.schema.time_unit == "weeks"


@pytest.mark.parametrize(
    ("bounds", "fault"),
    [
        ({"min": 10, "max": 5}, "[outcome]: min = 10 lies above max = 5."),
        ({"min": -1}, "[outcome] min: found -1; a number of at least 0 is needed."),
        ({"max": 0}, "[outcome] max: found 0; a number above 0 is needed."),
        ({"max": "5"}, '[outcome] max: found "5"; a number is needed.'),
    ],
)
def test_a_range_of_times_that_cannot_be_is_refused(bounds: dict[str, Any], fault: str) -> None:
    assert the_fault(outcome={"time": "days", "event": "died", **bounds}) == fault


def test_levels_may_be_written_as_numbers() -> None:
    covariates = {"sex": {"type": "category", "levels": [1, 2], "reference": 1}}
    assert Study(**{**SHORT, "covariates": covariates}).schema.encoded_names == ("sex_2",)


def test_every_fault_is_reported_at_once() -> None:
    text = parse_faults("""
        [study]
        nam = "x"
        [outcome]
        time = "t"
        event_value = [1]
        [covariates]
        t = { type = "number", min = 3, max = 1 }
        sex = { type = "category", levels = ["1", "2"], reference = "3" }
        [grid]
        width = -1
        times = "events"
        [model]
        link = "probit"
        ridge = nan
        [solver]
        method = "newton"
        scaling = "block"
    """)
    for words in (
        "[study] nam: unknown key. Did you mean 'name'?",
        "[outcome] event: missing; it is the column that says whether the event happened.",
        "[outcome] event_value: found [1]; a text, a finite number, true or false is needed.",
        "[covariates] t: min = 3 lies above max = 1.",
        "[covariates] t: column 't' is already [outcome] time.",
        "[covariates] sex reference: '3' is not among the levels '1' and '2'.",
        "[grid] width: found -1; a number above 0 is needed.",
        "[grid]: width and times are given; give one of them at most.",
        f'[model] link: found "probit"; {LINK_CHOICES} is needed.',
        "[model] ridge: found nan; a finite number is needed.",
        "[solver] scaling: a setting of lbfgs, and this study's method is newton",
    ):
        assert words in text
    assert len(text.splitlines()) == 11


def test_a_dotted_covariate_without_quotes_is_explained() -> None:
    text = parse_faults('[covariates]\nph.ecog = { type = "number" }')
    assert 'write "ph.ecog" = { type = … }' in text


def test_the_short_form_below_a_table_is_explained() -> None:
    text = parse_faults('[outcome]\ntime = "t"\nevent = "e"\ncovariates = ["age"]')
    assert "belongs at the top of the file, before the first [table]" in text


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"width": 30, "times": "events"}, "width and times are given; give one of them"),
        ({"pieces": 9, "edges": [1], "width": 3}, "pieces, edges and width are given"),
        ({"pieces": 0}, "[grid] pieces: found 0"),
        ({"pieces": 2.5}, "a whole number"),
        ({"edges": []}, "[grid] edges: found []; at least one is needed"),
        ({"edges": [30, 30]}, "edges: they must increase, each above the one before"),
        ({"edges": [60, 30]}, "edges: they must increase, each above the one before"),
        ({"edges": [0]}, "edges: at least one above zero is needed"),
        ({"edges": [-1, 30]}, "[grid] edges"),
        ({"edges": [30, 60], "horizon": 60}, "the last of the edges is the horizon"),
        ({"edges": list(range(1, 10_002))}, "edges: 10,001 are more than 10,000"),
        ({"width": 0}, "found 0; a number above 0"),
        ({"width": float("inf")}, "a finite number"),
        ({"width": "30"}, 'found "30"; a number is needed'),
        ({"width": True}, "found true; a number is needed"),
        ({"width": 30, "horizon": -5}, "[grid] horizon: found -5"),
        ({"times": "event"}, "Did you mean 'events'?"),
        ({"width": 30, "link": "logit"}, "It belongs in [model]."),
        (30, "[grid]: found 30; a table is needed"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(grid: Any, words: str) -> None:
    assert any(words in fault for fault in faults(grid=grid))


@pytest.mark.parametrize("link", ["cloglog", "logit"])
def test_keys_of_one_kind_of_time_are_refused_with_the_other(link: str) -> None:
    grouped = {"model": {"link": link}}
    assert f'link = "{link}" groups time and needs width' in the_fault(grid={}, **grouped)
    assert 'edges: goes with link = "log"' in faults(grid={"edges": [9]}, **grouped)[0]
    assert 'pieces: goes with link = "log"' in faults(grid={"pieces": 9}, **grouped)[0]
    outcome = {"time": "days", "event": "died", "resolution": 1}
    assert "[outcome] resolution" in the_fault(outcome=outcome, **grouped)
    assert "[model] censored_interval" in the_fault(model={"censored_interval": "half"})
    for key in ("smallest_group", "smallest_tail"):
        told = the_fault(privacy={key: 5}, **grouped)
        assert told == f"[privacy] {key}: intervals are not joined any more; leave it out."


@pytest.mark.parametrize(
    ("covariates", "words"),
    [
        ([], "at least one is needed"),
        ({}, "at least one is needed"),
        ("age", 'found "age"; a list is needed'),
        (["age", "age"], "'age' is named 2 times"),
        (["age", 3], "[covariates] 3: found 3; a table is needed"),
        (["age", "days"], "column 'days' is already [outcome] time"),
        ({"age": "number"}, 'found "number"; a table is needed'),
        ({"age": {}}, 'type = "number" or type = "category" is needed'),
        ({"age": {"type": "number", "name": "Age"}}, "[covariates] age name: unknown key"),
        ({"age": {"type": "numbr"}}, "Did you mean 'number'?"),
        ({"age": {"type": "number", "levels": ["a", "b"]}}, "unknown key"),
        ({"age": {"type": "number", "min": "0"}}, "[covariates] age min: found"),
        ({"sex": {"type": "category", "levels": ["a", "b"]}}, "reference: missing"),
        ({"sex": {"type": "category", "levels": ["a"], "reference": "a"}}, "at least two"),
        (
            {"sex": {"type": "category", "levels": ["a", "b", "a"], "reference": "a"}},
            "'a' more than once",
        ),
        (
            {"sex": {"type": "category", "levels": "a", "reference": "a"}},
            "[covariates] sex levels: found",
        ),
        (
            {
                "sex": {"type": "category", "levels": ["1", "2"], "reference": "1"},
                "sex_2": {"type": "number"},
            },
            "two columns of the model would be called 'sex_2'",
        ),
    ],
)
def test_covariates_that_cannot_be_are_refused(covariates: Any, words: str) -> None:
    assert any(words in fault for fault in faults(covariates=covariates))


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"outcome": {"time": "t", "event": "t"}}, "already [outcome] time"),
        ({"study": {"patient_id": "days"}}, "already [outcome] time"),
        ({"study": {"name": ""}}, "a text that is not empty is needed"),
        (
            {"outcome": {"time": "t", "event": "e", "event_value": 1, "censored_value": "1.0"}},
            "the same as event_value",
        ),
        (
            {"solver": {"method": "gradient"}},
            '"newton", "lbfgs", "adam" or "fedavg" is needed',
        ),
        ({"solver": {"tolerance": 0}}, "[solver] tolerance: found 0"),
        ({"solver": {"max_rounds": 2.5}}, "[solver] max_rounds: found 2.5; a whole number"),
        ({"solver": {"speed": 1}}, "[solver] speed: unknown key"),
        ({"privacy": {"epsilon": 1}}, "[privacy] epsilon: unknown key"),
        (
            {"grid": {"times": "events"}, "privacy": {"secure_sums": True}},
            "every patient's event time",
        ),
        ({"modle": {}}, "[modle]: unknown table. Did you mean 'model'?"),
        ({"link": "logit"}, "It belongs in [model]."),
    ],
)
def test_other_tables_that_cannot_be_are_refused(tables: Any, words: str) -> None:
    assert words in the_fault(**tables)


def test_an_empty_study_is_told_what_it_needs() -> None:
    text = parse_faults("")
    for table in ("[outcome]", "[covariates]"):
        assert f"{table}: missing" in text


@settings(max_examples=150)
@given(tables=st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_tables_are_a_study_or_are_told_what_is_wrong(tables: dict[str, Any]) -> None:
    try:
        study = Study(**{**SHORT, **tables})
    except StudyError:
        return
    assert Study.parse(study.to_toml()) == study


def test_invalid_toml_is_told_with_its_line() -> None:
    assert "line 2" in parse_faults("[grid]\nwidth = = 3\n")


def test_a_study_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    for name, encoding in {"plain.toml": "utf-8", "marked.toml": "utf-8-sig"}.items():
        (tmp_path / name).write_text(LUNG, encoding=encoding)
        assert Study.read(tmp_path / name).source == LUNG


def test_what_is_no_study_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such study file"):
        Study.read(tmp_path / "absent.toml")
    with pytest.raises(StudyError, match="this is a folder"):
        Study.read(tmp_path)
    (tmp_path / "latin.toml").write_bytes('[study]\nname = "é"'.encode("latin-1"))
    with pytest.raises(StudyError, match="not UTF-8"):
        Study.read(tmp_path / "latin.toml")


def test_reading_a_study_does_not_wait_for_pandas() -> None:
    program = "import sys, fedcox.study.study; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


NOISED: dict[str, Any] = {
    "outcome": {"time": "days", "event": "died"},
    "covariates": {"age": {"type": "number", "min": 18.0, "max": 100.0}},
    "grid": {"horizon": 1800.0},
    "privacy": {"noise": {"patients": 1500}},
}


def test_between_hospitals_sums_are_secure_and_noised_at_a_price_of_a_twentieth() -> None:
    found = Study(**NOISED).between_hospitals(3)
    assert found.privacy.secure_sums
    assert isinstance(found.privacy.noise, Noise)
    assert found.privacy.noise.price == 0.05
    assert found.between_hospitals(3) is found
    assert Study.parse(found.source) == found


def test_in_one_process_a_study_without_a_word_on_protection_is_plain() -> None:
    privacy = Study(**SHORT).privacy
    assert not privacy.secure_sums
    assert not privacy.noised


def test_a_study_that_says_so_goes_without_noise_or_without_masks() -> None:
    exact = Study(**{**NOISED, "privacy": {"noise": "none"}}).between_hospitals(3)
    assert exact.privacy.secure_sums
    assert not exact.privacy.noised
    alone = {**NOISED, "privacy": {"secure_sums": False, "noise": {"patients": 1500}}}
    two = Study(**alone).between_hospitals(2)
    assert two.privacy.secure_sums is False
    assert two.source == Study(**alone).source


def test_without_a_word_on_noise_all_that_it_needs_is_told_before_hospitals_are_asked() -> None:
    tables = {**NOISED, "covariates": ["age"], "grid": {}, "privacy": {}}
    with pytest.raises(StudyError) as refused:
        Study(**tables).between_hospitals(3)
    told = "\n".join(refused.value.faults)
    for words in (
        "[privacy.noise] patients:",
        "[grid] horizon: needed",
        "[covariates] age: min and max are needed",
        'Or [privacy] noise = "none"',
    ):
        assert words in told


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_noise_is_refused_to_a_grouped_link_by_its_name(link: str) -> None:
    tables = {**NOISED, "model": {"link": link}, "grid": {"width": 30.0, "horizon": 1800.0}}
    with pytest.raises(StudyError, match=f'"{link}" is not fitted under noise'):
        Study(**tables)


def test_two_hospitals_are_sent_to_noise_alone() -> None:
    with pytest.raises(StudyError, match="secure_sums = false, and each adds its own"):
        Study(**NOISED).between_hospitals(2)


def test_noise_is_a_table_or_the_word_none() -> None:
    assert 'noise: found "no"; "none" is needed' in the_fault(privacy={"noise": "no"})
