"""A new link is one class and its place in the list: here they are put in."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.worked_example import done_in_a_copy

#: What is run in the copy of the tree, in which no other file was touched.
USE = """
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd
from scipy.optimize import minimize

import fedcox
from fedcox.deployment.approval import Request
from fedcox.deployment.center_folder import CenterFolder
from fedcox.deployment.study_words import request_lines
from fedcox.engines.codec.questions import decode_questions, encode_questions
from fedcox.engines.codec.tree import from_bytes, to_bytes
from fedcox.engines.in_process import InProcess
from fedcox.federation.queries.derivatives import DerivativesAt
from fedcox.models.architecture import Perceptron
from fedcox.reports.study_report import report_html
from fedcox.study.agreement import agree
from fedcox.study.fit import start
from fedcox.study.plan import NetworkPlan, Plan
from fedcox.survival.derivatives import Detail
from fedcox.survival.link import LINKS

link = LINKS["frailty"]


def survives(theta):
    return (1.0 + 0.5 * np.exp(theta)) ** -2


theta, step = np.linspace(-9.0, 3.0, 49), 1e-5
costs = {"at_risk": -np.log(survives(theta)), "event": -np.log(1.0 - survives(theta))}
for part, cost in costs.items():
    terms = getattr(link, part)
    here, up, down = (terms(np.exp(theta + move)) for move in (0.0, step, -step))
    np.testing.assert_allclose(here.cost, cost, rtol=1e-9)
    np.testing.assert_allclose((up.cost - down.cost) / (2 * step), here.slope, atol=1e-9)
    np.testing.assert_allclose((up.slope - down.slope) / (2 * step), here.curvature, atol=1e-9)
slope = (survives(theta - step) - survives(theta + step)) / (2 * step)
expected = slope**2 / (survives(theta) * (1.0 - survives(theta)))
np.testing.assert_allclose(link.information(np.exp(theta)), expected, rtol=1e-6)
hazards = np.array([1e-9, 0.01, 0.5, 0.99])
np.testing.assert_allclose(link.hazard(link.intercept(hazards)), hazards, rtol=1e-12)

rng = np.random.default_rng(3)
x = rng.normal(size=(400, 2))
time = np.ceil(100.0 * rng.exponential(np.exp(-0.6 * x[:, 0] + 0.3 * x[:, 1])))
table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "time": time})
table["event"] = rng.integers(0, 2, 400)
table["hospital"] = rng.integers(0, 4, 400).astype(str)
text = '''
covariates = ["a", "b"]
[outcome]
time = "time"
event = "event"
[grid]
width = 30
horizon = 150
[model]
link = "frailty"
'''
study = fedcox.Study.parse(text)
plain = InProcess.from_frame(study, table, center="hospital")
fitted = fedcox.fit(study, plain)

passed = np.minimum(time // 30.0, 5.0).astype(int)  # whole intervals at risk
last = np.minimum(np.ceil(time / 30.0).astype(int), 5) - 1
died = table.event.to_numpy(bool) & (time <= 150.0)
leaves = np.where(time <= 150.0, last, 5)
interval = np.arange(5)
without = (interval < leaves[:, None]) | ((interval == leaves[:, None]) & ~died[:, None])
event = (interval == leaves[:, None]) & died[:, None]


def loss(point):
    chance = survives(point[:5] + (x @ point[5:])[:, None])
    return -(np.log(chance[without]).sum() + np.log1p(-chance[event]).sum())


best = minimize(loss, np.r_[np.full(5, -1.5), 0.0, 0.0], tol=1e-9)
assert abs(fitted.log_likelihood + best.fun) < 1e-7
coefficients = np.array([row.coef for row in fitted.coefficients])
np.testing.assert_allclose(coefficients, best.x[5:], atol=1e-4)
curves = fitted.survival(x[:3])
by_hand = survives(best.x[:5] + (x[:3] @ best.x[5:])[:, None]).cumprod(axis=1)
np.testing.assert_allclose(curves, by_hand, atol=1e-4)

secure = fedcox.Study.parse(text + "[privacy]\\nsecure_sums = true\\nnoise = 'none'\\n")
under_masks = fedcox.fit(secure, plain)
assert under_masks.bytes_up > 0
np.testing.assert_allclose(
    [row.coef for row in under_masks.coefficients], coefficients, atol=1e-7
)
home = Path(mkdtemp())
fitted.save(home / "fit.json")
assert fedcox.FittedStudy.read(home / "fit.json").link == "frailty"
page = report_html(fitted)
assert "(gamma frailty link)" in page
assert "Conditional hazard ratio" in page

plan = Plan.of(study)
agreement = agree(plan, plain)
problem = start(plan, agreement)
asked = DerivativesAt(agreement.setting, problem.alpha, problem.beta, Detail.INFORMATION)
message = to_bytes(encode_questions([asked], ()))
(arrived,) = decode_questions(from_bytes(message), {}, columns=2)
assert arrived.agreed.link == link

try:
    NetworkPlan(Perceptron(2), link="frailty", width=30.0)
except fedcox.FedcoxError as error:
    assert "it must be log or cloglog or logit" in str(error)
else:
    raise AssertionError("a network was planned whose loss torch does not have")

centers = ("Aachen", "Bern", "Cork")
request = Request("0a1b", "lung", text, centers, {}, "")
folder = CenterFolder(home, "Bern", "lung", "localhost", 8002, None)
lines = request_lines(request, folder)
assert any(line.startswith("Model: conditional hazard ratios, link frailty") for line in lines)
print("done")
"""

_CLASS, _PLACE = "LINKS: dict", "ComplementaryLogLog(), Logit())"


def _add(copy: Path, block: str) -> None:
    module = copy / "survival" / "link.py"
    text = module.read_text(encoding="utf-8")
    assert text.count(_CLASS) == text.count(_PLACE) == 1
    text = text.replace(_PLACE, _PLACE.replace("Logit()", "Logit(), GammaFrailty()"))
    module.write_text(text.replace(_CLASS, f"{block}\n\n{_CLASS}"), encoding="utf-8")


def test_a_new_link_is_one_class_and_its_place_in_the_list(tmp_path: Path) -> None:
    done_in_a_copy(tmp_path, "class GammaFrailty", _add, USE)
