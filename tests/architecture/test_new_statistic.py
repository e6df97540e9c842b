"""A new federated statistic is one new file: CONTRIBUTING says so, and here it is done."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.worked_example import done_in_a_copy, new_file

#: What is run in the copy of the tree, in which no other file was touched.
USE = """
from dataclasses import replace

import numpy as np
import pandas as pd

import fedcox
from fedcox.engines.codec.questions import decode_questions, encode_questions
from fedcox.engines.codec.replies import decode_reply, encode_reply
from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.federation.center import Center
from fedcox.federation.policy import Gate, Policy
from fedcox.federation.queries.age_by_group import AgeByGroup
from fedcox.reports.privacy_ledger import ledger_table
from fedcox.study.asked import question_words

rng = np.random.default_rng(3)
people = 400
table = pd.DataFrame(
    {
        "age": rng.normal(60.0, 9.0, people),
        "group": rng.integers(0, 3, people),
        "time": np.ceil(rng.exponential(300.0, people)),
        "event": rng.integers(0, 2, people),
        "hospital": rng.integers(0, 4, people).astype(str),
    }
)
study = fedcox.Study(
    outcome={"time": "time", "event": "event"}, covariates=["age", "group"], grid={"width": 60}
)
asked = AgeByGroup(age=0, group=1, groups=3)
expected = table.groupby("group").age.var()
plain = InProcess.from_frame(study, table, center="hospital")

total = plain.ask(asked)
np.testing.assert_allclose(total.variance, expected, rtol=1e-12)
masked = Masked.around(plain)
np.testing.assert_allclose(masked.ask(asked).variance, expected, rtol=1e-9)
assert [row.numbers_up for row in plain.ledger.since((0, 0))] == 4 * [9]

message = to_bytes(encode_questions([asked], ()))
(arrived,) = decode_questions(from_bytes(message), {}, columns=2)
assert arrived == asked
answer = arrived.answer(plain.centers[0].cohort)
reply = decode_reply(asked, from_bytes(to_bytes(encode_reply(arrived, answer))), 2)
np.testing.assert_array_equal(reply.total, answer.total)
for wrong in (replace(asked, groups=0), replace(asked, age=7)):
    try:
        decode_questions(encode_questions([wrong], ()), {}, columns=2)
    except fedcox.FedcoxError as error:
        assert "must be from" in str(error)
    else:
        raise AssertionError("a wrong question was read")

words = "patients of each group, and sums of age and its square"
assert question_words("age by group") == words
assert "age by group" in Policy().questions
Center("A", plain.centers[0].cohort, gate=Gate(Policy(exact_sums=True))).answer(asked)
fitted = fedcox.fit(study, plain)
shown = ledger_table(replace(fitted, ledger=plain.ledger.since((0, 0))))
assert words in [row.words for row in shown.questions]
print("done")
"""


def test_a_new_statistic_is_one_new_file(tmp_path: Path) -> None:
    place = "federation/queries/age_by_group.py"
    done_in_a_copy(tmp_path, "class AgeByGroup", new_file(place), USE)
