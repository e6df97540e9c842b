"""What `help` says of the public names: it teaches, and its examples run."""

from __future__ import annotations

import doctest
import inspect
import re
import warnings
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import fedcox
from tests.docs.pages import ROOT

SOURCE = ROOT / "src"
#: Made by a fit, a training or a plan, never by hand: what counts is what to look at.
RESULTS = {"FittedStudy", "StudyPlan", "TrainedNetwork"}
#: Their arguments are the sentence that is raised or shown.
MESSAGES = {"FedcoxError", "FedcoxWarning"}
#: What fits on a page of a terminal.
LONGEST = 40

every_name = pytest.mark.parametrize("name", fedcox.__all__)


def text_of(value: object) -> str:
    return inspect.getdoc(value) or ""


def failures(example: doctest.DocTest) -> str:
    """What an example prints that it does not show; a warning is a failure, too."""
    said: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(example, out=said.append)
    return "".join(said)


@pytest.mark.parametrize("name", ["", *fedcox.__all__])
def test_the_example_of_a_public_name_runs_as_it_is_typed(name: str) -> None:
    text = text_of(getattr(fedcox, name) if name else fedcox)
    example = doctest.DocTestParser().get_doctest(text, {}, name or "fedcox", None, None)
    assert example.examples, "Show a few lines that run."
    assert "import fedcox" in example.examples[0].source + example.examples[1].source
    assert any(line.want for line in example.examples)
    assert not failures(example)


def modules_with_examples() -> list[str]:
    files = [file for file in sorted(SOURCE.rglob("*.py")) if ">>> " in file.read_text("utf-8")]
    return [module_of(file) for file in files if file.name != "__init__.py"]


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts)


@pytest.mark.parametrize("module", modules_with_examples())
def test_the_examples_of_other_names_run(module: str) -> None:
    public = {f"{module}.{name}" for name in fedcox.__all__}
    for example in doctest.DocTestFinder().find(import_module(module)):
        if example.name not in public:
            assert not failures(example), example.name


@every_name
def test_a_public_name_is_told_in_a_line_and_a_page_with_what_to_do_next(name: str) -> None:
    lines = text_of(getattr(fedcox, name)).splitlines()
    assert lines[0].endswith(".")
    assert lines[1] == ""
    assert len(lines) <= LONGEST
    assert re.search(r"^Next: ", "\n".join(lines), re.MULTILINE)


@every_name
def test_every_parameter_of_a_public_name_is_explained(name: str) -> None:
    value = getattr(fedcox, name)
    if name in RESULTS | MESSAGES:
        return
    explained = re.findall(r"^(\w+(?:, \w+)*)  +\S|^(\w+)    \S", text_of(value), re.MULTILINE)
    known = {part for row in explained for cell in row for part in cell.split(", ")}
    parameters = [parameter.lstrip("_") for parameter in inspect.signature(value).parameters]
    assert [parameter for parameter in parameters if parameter not in known] == []


@every_name
def test_every_public_method_says_what_it_does(name: str) -> None:
    value: Any = getattr(fedcox, name)
    for member, made in vars(value).items() if inspect.isclass(value) else ():
        if member.startswith(("_", "model_")):
            continue
        if isinstance(made, FunctionType | classmethod | property | cached_property):
            assert text_of(getattr(value, member)), member


def test_the_package_lists_every_public_name() -> None:
    listed = set(re.findall(r"\w+", text_of(fedcox)))
    assert set(fedcox.__all__) <= listed


@pytest.mark.parametrize("name", ["", *fedcox.__all__])
def test_what_a_docstring_points_to_is_there(name: str) -> None:
    text = text_of(getattr(fedcox, name) if name else fedcox)
    for page in re.findall(r"docs/[\w/-]+\.md", text):
        assert (ROOT / page).is_file(), page
    for other in re.findall(r"\bfedcox\.([A-Z]\w*|fit|plan|train_network)\b", text):
        assert other in fedcox.__all__, other


@pytest.mark.parametrize("name", sorted({*fedcox.__all__} - MESSAGES))
def test_a_signature_is_read_at_a_glance(name: str) -> None:
    signature = str(inspect.signature(getattr(fedcox, name)))
    assert " at 0x" not in signature  # of a function that stands for nothing
    assert "pydantic" not in signature
