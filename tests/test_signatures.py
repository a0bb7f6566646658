"""Public calls are plain functions: the signature and the docstring at the ``def`` are the whole
ones."""

import inspect
import re
from pathlib import Path

import pytest

import rb_interp as rb

PACKAGES = [rb, *(value for name in rb.__all__ if inspect.ismodule(value := getattr(rb, name)))]
FUNCTIONS = {
    (package.__name__, name): getattr(package, name)
    for package in PACKAGES
    for name in getattr(package, "__all__", ())
    if inspect.isfunction(getattr(package, name))
}
PROBES = {
    name: function
    for (package, name), function in FUNCTIONS.items()
    if package == "rb_interp.probes" and "n_null" in inspect.signature(function).parameters
}
INTERVENTIONS = {
    name: function
    for (package, name), function in FUNCTIONS.items()
    if package == "rb_interp.interventions"
}
PASSED_ON = {
    "scan": "options",  # of the probe
    "from_arrays": "keywords",  # names of hook points and weights
    "build_model": "sizes",  # fields of ModelConfig
    "judge_checks": "options",  # of judge
    "judge_within": "options",
    "readings_table": "parts",
}
"""Function -> the argument that stands for any number of others."""


@pytest.mark.parametrize(("package", "name"), FUNCTIONS)
def test_the_signature_is_that_of_the_def(package: str, name: str) -> None:
    function = FUNCTIONS[package, name]
    definition = inspect.unwrap(function)
    assert not any("__signature__" in vars(value) for value in (function, definition))
    assert definition.__code__.co_name == name
    assert Path(definition.__code__.co_filename).is_relative_to(Path(rb.__file__).parent)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(definition).parameters.values()
    assert {p.name for p in parameters if p.kind in variadic} <= {PASSED_ON.get(name)}


@pytest.mark.parametrize("name", [*PROBES, *INTERVENTIONS])
def test_the_docstring_has_each_argument(name: str) -> None:
    function = (PROBES | INTERVENTIONS)[name]
    text = inspect.getdoc(function) or ""
    arguments = text.partition("Args:")[2]
    for parameter in inspect.signature(function).parameters:
        is_listed = re.search(rf"\b{parameter}\b(, \w+)*:", arguments)
        assert is_listed or f"``{parameter}``" in text, parameter


@pytest.mark.parametrize("kind", ["reportCallIssue", "reportArgumentType"])
@pytest.mark.parametrize(
    ("page", "functions"), [("probes", PROBES), ("interventions", INTERVENTIONS)]
)
def test_a_type_checker_is_given_a_mistake_in_each(page: str, functions: dict, kind: str) -> None:
    """Pyright, which CI runs, refuses each: otherwise it reports the comment as unnecessary."""
    text = (Path(__file__).parent / f"static_types/{page}.py").read_text("utf-8")
    planted = re.findall(rf"^    {page}\.(\w+)\(.*# pyright: ignore\[{kind}\]$", text, re.M)
    assert {*planted} == {*functions}
