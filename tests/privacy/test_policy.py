"""A hospital's policy file: defaults, every fault at once, and what it foresees of a study."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedcox.errors import PolicyError
from fedcox.federation import queries
from fedcox.federation.queries.risk_set_sums import (
    EventSumsAt,
    RiskSetSetting,
    RiskSetSumsAt,
)
from fedcox.privacy.policy import TABLES, Policy
from fedcox.privacy.policy_tables import QUESTIONS
from fedcox.survival.derivatives import Detail
from fedcox.survival.scaling import Scaling
from tests.docs.pages import ROOT

whole = st.integers(0, 1000)
limit = st.floats(0, 1e6) | st.just(math.inf)
names = st.just("all") | st.lists(st.text(min_size=1, max_size=20), max_size=4)


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(PolicyError) as refused:
        Policy.parse(text)
    return refused.value.faults


def test_the_defaults_are_those_argued_for() -> None:
    policy = Policy()
    assert (policy.cohort.patients, policy.cohort.events) == (20, 5)
    assert policy.cohort.parameters_per_patient == 0.33
    assert (policy.groups.interval, policy.groups.level, policy.groups.batch) == (5, 5, 20)
    assert (policy.blocks.only_masked, policy.blocks.group, policy.blocks.times) == (
        True,
        10,
        8,
    )
    assert policy.protection.secure_sums == "required"
    assert policy.protection.centers == 3
    noise = policy.differential_privacy
    assert (noise.required, noise.epsilon, noise.delta) == (False, None, None)


def test_the_questions_answered_by_default_are_there_and_none_is_for_experiments() -> None:
    folder = Path(queries.__file__).parent
    sources = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
    for name in QUESTIONS:
        plain = name.removesuffix(" of a batch").removesuffix(" of a sample")
        assert plain in [detail.value for detail in Detail] or f'"{plain}' in sources, name
    nothing, scaling = np.empty(0), Scaling.none(1)
    experiments = [EventSumsAt(nothing, nothing).name]
    for detail in Detail:
        setting = RiskSetSetting(scaling, nothing)
        experiments.append(RiskSetSumsAt(setting, nothing, detail).name)
    assert not {*experiments, "local steps", "distinct event times"} & set(QUESTIONS)


def test_the_page_about_policies_names_every_key() -> None:
    page = (ROOT / "docs" / "how-to-set-a-policy.md").read_text(encoding="utf-8")
    for name, table in TABLES.items():
        _, _, section = page.partition(f"### `[{name}]`")
        section, _, _ = section.partition("\n##")
        named = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
        assert named == list(table.model_fields), name


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("", encoding="utf-8")
    assert Policy.read(file) == Policy()


def test_a_key_that_is_left_out_keeps_its_default() -> None:
    policy = Policy.parse("[cohort]\npatients = 50\n")
    assert (policy.cohort.patients, policy.cohort.events) == (50, 5)


@given(
    patients=whole,
    share=limit,
    times=whole | st.just(math.inf),
    columns=names,
    allowed=names,
    epsilon=st.none() | st.floats(1e-6, 1e6),
)
def test_what_is_written_reads_back(
    patients: int, share: float, times: float, columns: Any, allowed: Any, epsilon: float | None
) -> None:
    noise = {} if epsilon is None else {"epsilon": epsilon, "delta": 1e-6}
    policy = Policy(
        cohort={"patients": patients, "columns": columns},
        blocks={"times": times},
        questions={"allowed": allowed},
        parameters={"share": share},
        differential_privacy=noise,
    )
    assert Policy.parse(policy.to_toml()) == policy


def test_every_key_is_written_below_what_it_means() -> None:
    written = Policy().to_toml()
    tables = tomllib.loads(written)
    for name, table in TABLES.items():
        for key, field in table.model_fields.items():
            assert field.description
            assert key in tables[name] or f"# {key} =\n" in written
    assert max(map(len, written.splitlines())) <= 96


def test_without_limits_differs_from_the_default_in_every_limit() -> None:
    strict, free = Policy(), Policy.without_limits()
    noise = "differential_privacy"
    for name in TABLES.keys() - {noise}:
        for key in TABLES[name].model_fields:
            if (name, key) != ("cohort", "columns"):
                table = getattr(strict, name), getattr(free, name)
                assert getattr(table[0], key) != getattr(table[1], key), (name, key)
    assert free.cohort.columns == "all"
    assert not free.differential_privacy.required


def test_a_policy_is_frozen() -> None:
    with pytest.raises(ValidationError):
        Policy().cohort.patients = 1


def test_all_faults_are_told_at_once() -> None:
    found = faults(
        """
        [cohort]
        patients = -1
        event = 3
        columns = [1]
        [group]
        interval = 3
        [blocks]
        times = true
        group = "5"
        [questions]
        patient_level = "sometimes"
        [parameters]
        rounds = 2.5
        alpha = nan
        [protection]
        secure_sums = true
        centers = 0
        [differential_privacy]
        required = 1
        epsilon = 3
        """
    )
    assert set(found) == {
        "[cohort] patients: found -1; a whole number of at least 0 is needed.",
        '[cohort] columns: found [1]; a list of names in quotes, or "all" is needed.',
        "[cohort] event: unknown key. Did you mean 'events'? The keys here are patients, "
        "events, parameters_per_patient and columns.",
        "[group]: unknown table. Did you mean 'groups'? The tables are cohort, groups, blocks, "
        "questions, parameters, protection and differential_privacy.",
        "[blocks] times: found true; a whole number of at least 0, or inf for no limit is "
        "needed.",
        '[blocks] group: found "5"; a whole number of at least 0 is needed.',
        '[questions] patient_level: found "sometimes"; "never", "masked" or "always" is '
        "needed.",
        "[parameters] rounds: found 2.5; a whole number of at least 0, or inf for no limit is "
        "needed.",
        "[parameters] alpha: found nan; a number of at least 0, or inf for no limit is needed.",
        '[protection] secure_sums: found true; "required" or "optional" is needed.',
        "[protection] centers: found 0; a whole number of at least 1 is needed.",
        "[differential_privacy] required: found 1; true or false is needed.",
        "[differential_privacy] delta: missing; epsilon alone is no limit.",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cohort = 3", "[cohort]: found 3; a table is needed."),
        ("patients = 3", "[patients]: unknown table. It belongs in [cohort]."),
        ("[groups]\nepsilon = 3", "It belongs in [differential_privacy]."),
        ("[differential_privacy]\nrequired = true", "any noise would pass"),
        ("[differential_privacy]\nepsilon = inf\ndelta = 1e-6", "a finite number above 0"),
        ("[differential_privacy]\nepsilon = 1\ndelta = 1", "a number between 0 and 1"),
        ("[parameters]\nbeta = -1", "a number of at least 0, or inf for no limit"),
    ],
)
def test_a_fault_says_what_is_needed(text: str, words: str) -> None:
    (fault,) = faults(text)
    assert words in fault


def test_rules_between_keys_hold_for_tables_as_objects_too() -> None:
    required = TABLES["differential_privacy"](required=True)  # type: ignore[call-arg]
    with pytest.raises(PolicyError, match="any noise would pass"):
        Policy(differential_privacy=required)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken, latin = tmp_path / "broken.toml", tmp_path / "latin.toml"
    broken.write_text("[cohort", encoding="utf-8")
    latin.write_bytes(b"# caf\xe9\n")
    for path, words in (
        (tmp_path / "none.toml", "no such policy file"),
        (tmp_path, "this is a folder"),
        (broken, "not valid TOML"),
        (latin, "not UTF-8 text"),
    ):
        with pytest.raises(PolicyError) as refused:
            Policy.read(path)
        assert str(path) in str(refused.value)
        assert words in str(refused.value)


def test_nothing_is_foreseen_of_a_study_that_meets_the_policy() -> None:
    assert not Policy().faults(
        columns=["age", "sex"],
        questions=QUESTIONS,
        patients=20,
        events=5,
        parameters=30,
        centers=3,
        secure_sums=True,
        smallest_group=10,
        epsilon=math.inf,
    )
    assert not Policy().faults()
    assert not Policy.without_limits().faults(
        columns=["age"], questions=["local steps"], patients=0, events=0, secure_sums=False
    )


def test_everything_that_can_be_foreseen_is_told_at_once() -> None:
    policy = Policy(
        cohort={"columns": ["age"]},
        differential_privacy={"required": True, "epsilon": 1, "delta": 1e-5},
    )
    found = policy.faults(
        columns=["age", "hiv"],
        questions=["gradient", "distinct event times"],
        patients=19,
        events=4,
        parameters=7,
        secure_sums=False,
        epsilon=math.inf,
    )
    rules = [fault.split(":")[0] for fault in found]
    assert rules == [
        "[cohort] columns",
        "[questions] allowed",
        "[cohort] patients",
        "[cohort] events",
        "[differential_privacy] required",
        "[protection] secure_sums",
        "[cohort] parameters_per_patient",
        "[blocks] only_masked",
    ]
    assert "'hiv'" in found[0]
    assert "'age'" not in found[0]


@pytest.mark.parametrize(
    ("study", "rule"),
    [
        ({"secure_sums": True, "centers": 2}, "[protection] centers"),
        ({"secure_sums": True, "smallest_group": 9}, "[blocks] group"),
        ({"epsilon": 1.5, "delta": 1e-6}, "[differential_privacy] epsilon"),
        ({"epsilon": 0.5, "delta": 1e-3}, "[differential_privacy] delta"),
    ],
)
def test_a_study_that_the_policy_cannot_meet_is_told(study: dict[str, Any], rule: str) -> None:
    policy = Policy(differential_privacy={"epsilon": 1, "delta": 1e-5})
    (fault,) = policy.faults(**study)
    assert fault.startswith(rule)


def test_a_policy_that_gives_no_block_gives_no_standard_errors() -> None:
    never = Policy(blocks={"times": 0})
    (fault,) = never.faults(secure_sums=True, epsilon=math.inf)
    assert fault.startswith("[blocks] times")
    assert not never.faults(secure_sums=True, epsilon=1.0, delta=1e-6)
