"""Every contender by name. A new rival is one new file beside this one, and one row here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.contenders import (
    lifelines,
    ours,
    pytorch,
    r_coxph,
    scikit_survival,
    skglm,
    stacked_sklearn,
    statsmodels,
)
from benchmarks.contenders.contender import Contender

__all__ = ["CONTENDERS", "Contender"]


def _ours() -> dict[str, Contender]:
    """Exact time, and both links of grouped time for each of the two ways to fit."""
    entrants = {
        "fedcox_log": Contender(
            f"fedcox log, {ours.PIECES} pieces",
            ours.prepare_exact,
            distribution="fedcox",
            model="cox",
        ),
        "fedcox_log_events": Contender(
            "fedcox log, every event time",
            partial(ours.prepare_exact, every_event=True),
            distribution="fedcox",
            model="cox",
        ),
        "fedcox_log_two_threads": Contender(
            f"fedcox log, {ours.PIECES} pieces, two threads",
            partial(ours.prepare_exact, threads=2),
            distribution="fedcox",
            model="cox",
            threads=2,
        ),
    }
    for link in ours.LINKS:
        ways = {
            f"fedcox_{link}": (f"fedcox {link}", partial(ours.prepare, link=link)),
            f"fedcox_{link}_one_center": (
                f"fedcox {link}, one center",
                partial(ours.prepare_centers, link=link, together=True),
            ),
            f"fedcox_{link}_centers": (
                f"fedcox {link}, many centers",
                partial(ours.prepare_centers, link=link, together=False),
            ),
        }
        for name, (label, prepare) in ways.items():
            entrants[name] = Contender(label, prepare, distribution="fedcox", model=link)
    return entrants


CONTENDERS: Mapping[str, Contender] = {
    **_ours(),
    "fedcox_cox": Contender("fedcox Cox", ours.prepare_cox, distribution="fedcox", model="cox"),
    "lifelines": Contender(
        "lifelines", lifelines.prepare, distribution="lifelines", model="cox"
    ),
    "scikit_survival": Contender(
        "scikit-survival",
        scikit_survival.prepare,
        distribution="scikit-survival",
        model="cox",
    ),
    "skglm": Contender("skglm", skglm.prepare, distribution="skglm", model="cox"),
    "statsmodels": Contender(
        "statsmodels", statsmodels.prepare, distribution="statsmodels", model="cox"
    ),
    "stacked_sklearn": Contender(
        "stack + scikit-learn",
        stacked_sklearn.prepare,
        distribution="scikit-learn",
        model="logit",
    ),
    "r_coxph": Contender("R coxph.fit", r_coxph.prepare, program="Rscript", model="cox"),
    "fedcox_training": Contender("fedcox DT-FL", ours.prepare_training, distribution="fedcox"),
    "torch_training": Contender("PyTorch, stacked rows", pytorch.prepare, distribution="torch"),
    "fedcox_concordance": Contender("fedcox", ours.prepare_concordance, distribution="fedcox"),
    "lifelines_concordance": Contender(
        "lifelines", lifelines.prepare_concordance, distribution="lifelines"
    ),
}
