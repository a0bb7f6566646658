"""Docstrings of public functions explain their arguments."""

import inspect
import re
from collections.abc import Callable, Iterator

import pytest

import rb_interp

WITHOUT_ARGS = {"Run.start"}
"""Functions of three or more parameters whose docstring explains them in its sentences."""


def functions() -> Iterator[tuple[str, Callable]]:
    """Every public function by name, and every public method of a public class."""
    for package in (rb_interp, rb_interp.probes, rb_interp.interventions):
        for name in package.__all__:
            value = getattr(package, name)
            members = vars(value).items() if inspect.isclass(value) else [("", value)]
            for method, found in members:
                found = getattr(found, "fget", getattr(found, "func", getattr(found, "__func__", found)))
                if not method.startswith("_") and inspect.isfunction(found):
                    yield (
                        f"{name}.{method}".rstrip("."),
                        inspect.unwrap(found, stop=lambda f: hasattr(f, "__signature__")),
                    )


FUNCTIONS = dict(functions())


def test_the_list_has_functions_and_methods():
    assert {"train_model", "uniformity", "path_patch", "Site.parse", "AnchorTask.tokens"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_explains_arguments(name):
    function = FUNCTIONS[name]
    text = inspect.getdoc(function) or ""
    parameters = [one for one in inspect.signature(function).parameters if one not in ("self", "cls")]
    if len(parameters) >= 3 and name not in WITHOUT_ARGS:
        assert re.search(r"^Args:$", text, re.M), f"{name} has {len(parameters)} parameters and no 'Args:'"
