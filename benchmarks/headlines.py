"""The promises about speed and memory, each beside what one run measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.contenders import CONTENDERS
from benchmarks.problems import PROBLEMS
from benchmarks.results import Result, Results


@dataclass(frozen=True)
class Headline:
    """One promise; `held` is None where a run it needs is missing."""

    target: str
    measured: str
    held: bool | None


@dataclass(frozen=True)
class AtLeast:
    """Every entrant of ours at least `times` faster than the rival."""

    problem: str
    rival: str
    times: float
    entrants: tuple[str, ...] = ("fedcox_cloglog", "fedcox_logit")

    def judge(self, results: Results) -> Headline:
        rival = CONTENDERS[self.rival].label
        wanted = (
            "faster than" if self.times == 1 else f"at least {self.times:g} times faster than"
        )
        target = f"{PROBLEMS[self.problem].title}: {wanted} {rival}"
        cost = _cost(results, self.problem, self.rival)
        ratios = {
            name: cost / ours
            for name in self.entrants
            if cost and (ours := _cost(results, self.problem, name))
        }
        return _headline(
            target, ratios, self.entrants, min(ratios.values(), default=0) >= self.times
        )


@dataclass(frozen=True)
class AtMost:
    """Every pair costs at most `times` as much as its baseline."""

    problem: str
    claim: str
    times: float
    pairs: tuple[tuple[str, str], ...]  # contender, baseline

    def judge(self, results: Results) -> Headline:
        ratios = {}
        for name, baseline in self.pairs:
            cost = _cost(results, self.problem, name)
            divisor = _cost(results, self.problem, baseline)
            if cost and divisor:
                ratios[name] = cost / divisor
        held = max(ratios.values(), default=0) <= self.times
        return _headline(self.claim, ratios, [name for name, _ in self.pairs], held)


@dataclass(frozen=True)
class ExtraMemory:
    """Every entrant's extra memory at most `times` the covariates' own."""

    problem: str
    times: float
    entrants: tuple[str, ...] = ("fedcox_cloglog", "fedcox_logit")

    def judge(self, results: Results) -> Headline:
        problem = PROBLEMS[self.problem]
        target = f"{problem.title}: extra memory at most {self.times:g} times the covariates"
        ratios = {}
        for name in self.entrants:
            result = results.get((self.problem, name))
            if result is not None and result.extra_mib is not None:
                size = problem.quick() if result.quick else problem
                ratios[name] = result.extra_mib / size.covariate_mib
        held = max(ratios.values(), default=0) <= self.times
        return _headline(target, ratios, self.entrants, held)


@dataclass(frozen=True)
class ExtraMegabytes:
    """The entrant's extra memory below so many megabytes, powers of ten."""

    problem: str
    megabytes: float
    entrant: str

    def judge(self, results: Results) -> Headline:
        target = f"{PROBLEMS[self.problem].title}: under {self.megabytes:g} MB of extra memory"
        result = results.get((self.problem, self.entrant))
        if result is None or result.extra_mib is None:
            return Headline(target, "–", None)
        used = result.extra_mib * 2**20 / 1e6
        return Headline(target, f"{used:.3g} MB", used < self.megabytes)


@dataclass(frozen=True)
class Within:
    """The entrant done within so many seconds of CPU time."""

    problem: str
    entrant: str
    seconds: float

    def judge(self, results: Results) -> Headline:
        target = f"{PROBLEMS[self.problem].title}: {self.entrant} under {self.seconds:g} s"
        cost = _cost(results, self.problem, self.entrant)
        if cost is None:
            return Headline(target, "–", None)
        return Headline(target, f"{cost:.3g} s", cost < self.seconds)


@dataclass(frozen=True)
class BytesAtMost:
    """The entrant sends at most `times` the bytes of the baseline."""

    problem: str
    entrant: str
    baseline: str
    times: float

    def judge(self, results: Results) -> Headline:
        title = PROBLEMS[self.problem].title
        target = f"{title}: at most {self.times:g} times the bytes of a {self.baseline}"
        pair = [results.get((self.problem, name)) for name in (self.entrant, self.baseline)]
        sent, plain = (None if result is None else result.bytes_up for result in pair)
        if not sent or not plain:
            return Headline(target, "–", None)
        return Headline(target, f"{sent / plain:.4g}", sent <= self.times * plain)


@dataclass(frozen=True)
class StandardErrors:
    """Every fit of ours comes with standard errors."""

    def judge(self, results: Results) -> Headline:
        fits = [result for result in results.values() if _is_our_fit(result)]
        without = [result for result in fits if result.standard_error_difference is None]
        measured = f"{len(fits) - len(without)} of {len(fits)} fits"
        return Headline(
            "Standard errors included everywhere", measured, not without if fits else None
        )


_EXACT = ("fedcox_log",)

PROMISES = (
    AtLeast("hundred_thousand", "skglm", 2, _EXACT),
    AtLeast("hundred_thousand", "r_coxph", 6, _EXACT),
    AtLeast("hundred_thousand", "lifelines", 60, _EXACT),
    AtLeast("hundred_thousand", "scikit_survival", 40, _EXACT),
    AtMost(
        "hundred_thousand",
        "100,000 patients × 50 covariates: every event time at most 1.5 times 24 pieces",
        1.5,
        (("fedcox_log_events", "fedcox_log"),),
    ),
    AtLeast("million", "skglm", 4, _EXACT),
    AtLeast("million", "r_coxph", 9, _EXACT),
    ExtraMemory("million", 1.2, _EXACT),
    AtMost(
        "million",
        "1,000,000 patients × 50 covariates: two threads at most 0.6 of the time of one",
        0.6,
        (("fedcox_log_two_threads", "fedcox_log"),),
    ),
    AtLeast("hundred_thousand", "lifelines", 30),
    AtLeast("hundred_thousand", "scikit_survival", 20),
    AtLeast("hundred_thousand", "stacked_sklearn", 30),
    AtLeast("hundred_thousand", "r_coxph", 3),
    AtLeast("hundred_thousand_all_times", "lifelines", 12),
    AtLeast("hundred_thousand_all_times", "r_coxph", 1),
    AtLeast("million", "r_coxph", 4),
    AtLeast("cox_wide", "lifelines", 3, ("fedcox_cox",)),
    ExtraMemory("million", 1.5),
    StandardErrors(),
    AtLeast("paper_training", "torch_training", 1, ("fedcox_training",)),
    ExtraMegabytes("paper_training", 300, "fedcox_training"),
    AtLeast("concordance_million", "lifelines_concordance", 5, ("fedcox_concordance",)),
    AtMost(
        "thousand_centers",
        "1000 centers of 100 patients: at most twice the cost of one center",
        2,
        tuple(
            (f"fedcox_{link}_centers", f"fedcox_{link}_one_center")
            for link in ("cloglog", "logit")
        ),
    ),
    Within("secure_sum_small", "masked sum", 0.05),
    Within("secure_sum_large", "masked sum", 3),
    BytesAtMost("secure_sum_small", "masked sum", "plain sum", 1.1),
    BytesAtMost("secure_sum_large", "masked sum", "plain sum", 1.1),
    AtMost(
        "imports",
        "import fedcox: at most 3 times import numpy",
        3,
        (("import fedcox", "import numpy"),),
    ),
    AtMost(
        "imports",
        "fedcox --help: at most 6 times import numpy",
        6,
        (("fedcox --help", "import numpy"),),
    ),
)


def headlines(results: Results) -> list[Headline]:
    """Judge every promise by the best runs."""
    return [promise.judge(results) for promise in PROMISES]


def _cost(results: Results, problem: str, contender: str) -> float | None:
    result = results.get((problem, contender))
    return None if result is None else result.cost


def _headline(
    target: str, ratios: dict[str, float], needed: Iterable[str], held: bool
) -> Headline:
    names = list(needed)
    if set(ratios) != set(names):
        return Headline(target, "–", None)
    texts = [f"{ratios[name]:.3g}" for name in names]
    if len(names) > 1:
        links = [CONTENDERS[name].model for name in names]
        texts = [f"{link} {text}" for link, text in zip(links, texts, strict=True)]
    return Headline(target, ", ".join(texts), held)


def _is_our_fit(result: Result) -> bool:
    contender = CONTENDERS.get(result.contender)
    return (
        contender is not None
        and contender.distribution == "fedcox"
        and contender.model is not None
    )
