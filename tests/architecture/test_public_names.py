"""What `import fedcox` offers, and what it does not load."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import fedcox

PUBLIC = [
    "Bags",
    "Cohort",
    "DiscreteTimeCox",
    "FedcoxError",
    "FedcoxWarning",
    "FittedStudy",
    "InProcess",
    "NetworkAdam",
    "NetworkAveraging",
    "NetworkPlan",
    "OwnModule",
    "Perceptron",
    "PrivateNetwork",
    "ProportionalHazards",
    "Study",
    "StudyPlan",
    "TileScorer",
    "TileScorerWithTable",
    "TimeGrid",
    "TrainedNetwork",
    "concordance_index",
    "fit",
    "plan",
    "train_network",
]


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh Python has loaded after running `code`."""
    ask = "import json, sys; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\n{ask}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(ended.stdout))


def test_the_public_names_are_these_sorted_and_no_others() -> None:
    assert fedcox.__all__ == sorted(fedcox.__all__) == PUBLIC
    assert sorted(dir(fedcox)) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_resolves_to_what_is_called_so(name: str) -> None:
    value = getattr(fedcox, name)
    assert value.__name__ == name
    assert value.__module__.startswith("fedcox.")
    assert value.__doc__


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Fit'"):
        _ = fedcox.Fit


def test_importing_fedcox_loads_nothing_heavy() -> None:
    heavy = {"numpy", "pandas", "scipy", "pyarrow", "pydantic", "rich", "jinja2", "matplotlib"}
    assert not loaded_by("import fedcox") & heavy


def test_the_help_text_loads_no_mathematics() -> None:
    heavy = {"numpy", "pandas", "scipy", "pyarrow", "pydantic", "jinja2", "matplotlib"}
    assert not loaded_by("import fedcox.cli.main") & heavy


def test_fitting_needs_no_library_that_a_hospital_does_not_install() -> None:
    rivals = {"lifelines", "sklearn", "sksurv", "statsmodels", "torch", "nvflare"}
    code = (
        "from fedcox import DiscreteTimeCox\n"
        "DiscreteTimeCox().fit([[0.], [1.], [0.], [1.]], ([3, 1, 2, 2], [1, 1, 0, 1]))"
    )
    assert not loaded_by(code) & rivals


def test_every_warning_of_a_fit_is_a_class_of_its_name() -> None:
    import fedcox.errors as errors

    here = [value for value in vars(errors).values() if isinstance(value, type)]
    classes = [kind for kind in here if kind.__module__ == errors.__name__]
    assert len(classes) > 10
    drawn = errors.__doc__ or ""
    for kind in classes:
        assert issubclass(kind, (errors.FedcoxError, errors.FedcoxWarning))
        assert kind.__name__ in drawn
        assert kind.__doc__
