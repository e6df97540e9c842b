"""Whatever may be asked has a name that a policy knows, and words in the ledger."""

from __future__ import annotations

import pytest

from fedcox.federation.queries.event_times import EventTimes
from fedcox.federation.queries.local_steps import LocalSteps
from fedcox.federation.queries.recorded_unit import RecordedUnit
from fedcox.federation.queries.stratified_cox import StratifiedCoxAt
from fedcox.privacy.policy import BY_NAME_ONLY, QUESTIONS
from fedcox.reports.privacy_ledger import IN_PLAIN_WORDS, PATIENT_LEVEL, without_part
from fedcox.study.asked import question_words
from tests.engines.codec.examples import QUESTIONS as EXAMPLES

#: Every kind of question that can be sent, but those of comparisons with Cox's model.
NAMES = sorted(
    {query.name for query in EXAMPLES.values() if not isinstance(query, StratifiedCoxAt)}
)
#: Refused unless a hospital says "all", or names them: see the table of the policy's page.
_NEVER_BY_DEFAULT = {
    query.name
    for query in EXAMPLES.values()
    if isinstance(query, EventTimes | LocalSteps | RecordedUnit)
}


@pytest.mark.parametrize("name", NAMES)
def test_a_question_has_words_in_the_ledger(name: str) -> None:
    assert IN_PLAIN_WORDS.get(without_part(name)) or PATIENT_LEVEL.get(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_question_has_words_before_it_is_asked(name: str) -> None:
    assert question_words(name)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in _NEVER_BY_DEFAULT])
def test_a_question_is_answered_by_default_or_by_its_name(name: str) -> None:
    of_some = " of a batch" in name and "network" not in name  # see the policy's page
    assert of_some or (name in QUESTIONS) != (name in BY_NAME_ONLY)
