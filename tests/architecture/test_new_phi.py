"""A new φ is one new file: CONTRIBUTING says so, and here it is done."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.worked_example import done_in_a_copy, new_file

#: What is run in the copy of the tree, in which no other file was touched.
USE = """
from dataclasses import replace

import numpy as np
import pandas as pd
import statsmodels.api as sm

import fedcox
from fedcox.engines.codec.questions import decode_questions, encode_questions
from fedcox.engines.codec.replies import decode_reply, encode_reply
from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.engines.in_process import InProcess
from fedcox.engines.masked import Masked
from fedcox.federation.center import Center
from fedcox.federation.policy import Gate, Policy
from fedcox.federation.queries import answered_by_default, answered_if_named
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.models.predictors.bent import Bent
from fedcox.reports.privacy_ledger import ledger_table
from fedcox.solvers.losses import DiscreteTimeLoss
from fedcox.solvers.newton import Newton
from fedcox.study.agreement import agree
from fedcox.study.asked import question_words
from fedcox.study.fit import start
from fedcox.study.plan import Plan
from fedcox.survival.derivatives import Detail

rng = np.random.default_rng(3)
x = rng.normal(size=(400, 2))
time = rng.exponential(np.exp(-0.6 * np.maximum(x[:, 0], 0.0) + 0.3 * x[:, 1]))
table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "time": 1.0 + time.argsort().argsort()})
table["event"] = rng.integers(0, 2, 400)
table["hospital"] = rng.integers(0, 4, 400).astype(str)
study = fedcox.Study(
    outcome={"time": "time", "event": "event"}, covariates=["a", "b"], grid={"times": "events"}
)
plain = InProcess.from_frame(study, table, center="hospital")
masked = Masked.around(plain)
plan = Plan.of(study)
agreement = agree(plan, plain)
setting = agreement.setting.with_predictor(Bent())
problem = replace(
    start(plan, agreement),
    loss=DiscreteTimeLoss(setting),
    beta=setting.start(),
    ridge=np.zeros(setting.parameters),
    beforehand=None,
)

z = (x - x.mean(0)) / setting.scaling.spread
bent = np.hstack([z, np.maximum(z, 0.0)])
cox = sm.PHReg(table.time, bent, table.event, ties="breslow").fit()
mark = plain.ledger.mark()

found = Newton().minimise(plain, problem)
assert found.converged
np.testing.assert_allclose(found.beta, cox.params, atol=1e-6)
errors = np.sqrt(np.diag(np.linalg.inv(found.on_beta)))
np.testing.assert_allclose(errors, cox.bse, rtol=1e-6)
risks = [setting.risk(center.cohort, found.beta) for center in plain.centers]
by_hand = [bent[table.hospital == center.name] @ found.beta for center in plain.centers]
np.testing.assert_allclose(np.concatenate(risks), np.concatenate(by_hand), rtol=1e-9)
mark = masked.ledger.mark()
under_masks = Newton().minimise(masked, problem)
np.testing.assert_allclose(under_masks.beta, found.beta, atol=1e-7)
assert {row.query for row in masked.ledger.since(mark)} >= {"bent hessian", "bent information"}

cohort = plain.centers[0].cohort
alpha, beta = found.alpha, found.beta + 0.1
asked = DerivativesAt(setting, alpha, beta, Detail.HESSIAN)
answer = asked.answer(cohort)
for place in range(4):
    step = 1e-5 * np.eye(4)[place]
    up, down = (replace(asked, beta=beta + sign * step).answer(cohort) for sign in (1, -1))
    assert abs((up.loss - down.loss) / 2e-5 - answer.beta[place]) < 1e-6
    np.testing.assert_allclose(
        (up.beta - down.beta) / 2e-5, answer.curvature.beta[place], atol=1e-6
    )
cells = np.repeat(cohort.number, alpha.size), np.tile(np.arange(alpha.size), cohort.patients)
summed = setting.cell_gradient(cohort, cells, alpha, beta)
np.testing.assert_allclose(summed.beta, answer.beta, rtol=1e-9)

message = to_bytes(encode_questions([asked], ()))
(arrived,) = decode_questions(from_bytes(message), {}, columns=2)
assert arrived.agreed.predictor == Bent()
reply = decode_reply(asked, from_bytes(to_bytes(encode_reply(arrived, answer))), 2)
np.testing.assert_array_equal(reply.curvature.beta, answer.curvature.beta)
try:
    decode_questions(encode_questions([replace(asked, beta=beta[:2])], ()), {}, columns=2)
except fedcox.FedcoxError as error:
    assert "two for each column kept" in str(error)
else:
    raise AssertionError("a wrong question was read")

words = "slope and curvature of the log-likelihood, two rows for each column"
assert question_words("bent hessian") == words
assert "bent hessian" in answered_if_named()
gates = (
    Gate(Policy(exact_sums=True, questions=names))
    for names in (answered_by_default(), ("bent hessian",))
)
refusing, allowing = (Center("A", cohort, gate=gate) for gate in gates)
allowing.answer(asked)
try:
    refusing.answer(asked)
except fedcox.FedcoxError as error:
    assert "bent hessian" in str(error)
else:
    raise AssertionError("a center answered what its policy does not have")
fitted = fedcox.fit(study, plain)
shown = ledger_table(replace(fitted, ledger=masked.ledger.since(mark)))
assert words in [row.words for row in shown.questions]
print("done")
"""


def test_a_new_phi_is_one_new_file(tmp_path: Path) -> None:
    done_in_a_copy(tmp_path, "class Bent", new_file("models/predictors/bent.py"), USE)
