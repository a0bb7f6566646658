"""Arguments are checked where the user calls, by the function's annotations, and what fits is handed on unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

import rb_interp as rb
from rb_interp.checks import checked
from rb_interp.errors import ArgumentError, RbInterpError

PACKAGES = (
    *("probes", "interventions", "statistics", "claims", "theory", "tasks", "models", "models.reference", "text"),
    "runs",
)
CALLS = [
    (f"{package.__name__}.{name}", value)
    for package in (rb, *(import_module(f"rb_interp.{name}") for name in PACKAGES))
    for name in package.__all__
    if callable(value := getattr(package, name)) and not isinstance(value, type)
]


ROWS = np.zeros(1, dtype=int)


@checked
def asked(
    n: int = 1,
    share: float = 0.5,
    seed: int = 0,
    name: str = "a",
    side: Literal["greater", "less"] = "less",
    layers: Sequence[int] = (),
    options: Mapping[str, float] = {},
    rows: Int[np.ndarray, " row"] = ROWS,
    keep: Callable[[Tensor], Tensor] | None = None,
    inputs: rb.Inputs | None = None,
    pair: tuple[str, str] = ("a", "b"),
    heads: Iterable[int] = (),
) -> Any:
    """What was given."""
    return {**locals()}


@checked
def product(W_in: Float[Tensor, "d_model d_mlp"], W_out: Float[Tensor, "d_mlp d_vocab"]) -> Tensor:
    return W_in @ W_out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": "4"}, "asked got n='4'; expected a whole number from 0 to 100,000,000."),
        ({"n": True}, "asked got n=True; expected a whole number from 0 to 100,000,000."),
        ({"n": 1.0}, "asked got n=1.0; expected a whole number from 0 to 100,000,000."),
        ({"seed": -1}, "asked got seed=-1; expected a whole number of 0 or more, below 2^63."),
        ({"seed": 2**63}, "asked got seed=9223372036854775808; expected a whole number of 0 or more, below 2^63."),
        ({"share": float("nan")}, "asked got share=nan; expected a number."),
        ({"share": 10**400}, "asked got share=a number of many digits; expected a number."),
        ({"name": b"a"}, "asked got name=b'a'; expected a text."),
        ({"side": "more"}, "asked got side='more'; expected 'greater' or 'less'."),
        ({"layers": "01"}, "asked got layers='01'; expected a list, each item a whole number."),
        ({"layers": [0, None]}, "asked got layers with None in it; expected a list, each item a whole number."),
        ({"options": {"x": "y"}}, "asked got options['x']='y'; expected a number."),
        ({"rows": np.zeros((2, 2), dtype=int)}, "asked got rows=an array of shape [2, 2] and type int64; expected an "
         "array of whole numbers of shape [row], not empty."),
        ({"rows": [0.5]}, "asked got rows=[0.5]; expected an array of whole numbers of shape [row], not empty."),
        ({"rows": [[1], [1, 2]]}, "asked got rows=[[1], [1, 2]]; expected an array of whole numbers of shape [row], "
         "not empty."),
        ({"keep": 3}, "asked got keep=3; expected a function of 1 argument or None."),
        ({"keep": lambda: 0}, "asked got keep=a function; expected a function of 1 argument or None."),
        ({"inputs": np.zeros(3)}, "asked got inputs=an array of shape [3] and type float64; expected "
         "rb_interp.tasks.Inputs(tokens, labels, roles) or None."),
        ({"pair": ("a", "b", "c")}, "asked got pair=('a', 'b', 'c'); expected 2 values: a text, a text."),
    ],
)  # fmt: skip
def test_one_sentence_says_what_was_given_and_what_was_expected(given: dict, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        asked(**given)
    assert str(caught.value) == said
    assert isinstance(caught.value, TypeError)


def test_what_fits_is_handed_on_as_the_annotation_says() -> None:
    given = asked(n=np.int64(3), share=1, layers=np.arange(2), rows=[1, 2], options={"x": np.nan}, heads=iter([1]))
    assert given["n"] == 3
    assert given["rows"].dtype == np.int64
    assert given["rows"].tolist() == [1, 2]
    assert given["heads"] == [1]  # looked at, and not used up
    assert asked(rows=torch.tensor([1, 2]))["rows"].tolist() == [1, 2]
    assert isinstance(asked(share=10**30)["share"], float)  # numpy makes an object of such a whole number


def test_sizes_agree_between_arrays_and_floats_of_two_precisions_take_the_wider_one() -> None:
    with pytest.raises(ArgumentError) as caught:
        product(torch.zeros(2, 3), torch.zeros(4, 5))
    sizes, wanted = "W_in [2, 3], W_out [4, 5]", "W_in [d_model, d_mlp], W_out [d_mlp, d_vocab]"
    assert str(caught.value) == f"product got {sizes}; expected {wanted}."
    assert product(torch.ones(2, 3), torch.ones(3, 1).double()).tolist() == [[3.0], [3.0]]


@checked(nan=True, empty=True, n=(5, 9))
def loose(x: Float[np.ndarray, " n"], n: int = 5) -> int:
    return len(x)


@checked
def named(a: int, *, b: int, c: int = 3) -> int:
    return a + b + c


@checked
def free(*values: int, a: int, **others: int) -> tuple[int, ...]:
    return (*values, a, *others.values())


def test_a_function_may_take_nan_nothing_and_a_range_of_its_own() -> None:
    assert (loose([np.nan]), loose([])) == (1, 0)
    with pytest.raises(ArgumentError, match="loose got n=4; expected a whole number from 5 to 9."):
        loose([], n=4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: loose(), "loose got no x=; give each of them."),
        (lambda: loose([1.0], 5, 6), "loose got 6 more than it takes."),
        (lambda: loose([1.0], m=6), "loose has no argument m=; known: n, x"),
        (lambda: named(1, 2), "named got 2 without a name; from there on give names: b=, c=."),
        (lambda: named(1, d=2), "named has no argument d=; known: a, b, c"),
        (lambda: named(c=2), "named got no a=, b=; give each of them."),
        (lambda: free(1, 2, 3), "free got no a=; give each of them."),
    ],
)
def test_names_that_are_missing_unknown_or_not_given_are_told_in_one_sentence(call: Callable, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value) == said
    assert named(1, b=2) == 6
    assert free(1, 2, a=3, further=4) == (1, 2, 3, 4)


@pytest.mark.parametrize(("name", "function"), CALLS, ids=[name for name, _ in CALLS])
def test_nothing_in_place_of_any_required_argument_is_refused_in_one_sentence(name: str, function: Callable) -> None:
    required = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind.name not in ("VAR_KEYWORD", "VAR_POSITIONAL")
    ]
    for first in required:
        with pytest.raises(RbInterpError) as caught:
            function(**dict.fromkeys([first, *required]))
        assert "\n" not in str(caught.value)


@checked
def placed(
    path: Path, x: Float[np.ndarray, " n"], values: Mapping[str, Float[Tensor, " n"]] = {}, whole: int = 0
) -> Any:
    """What was given."""
    return {**locals()}


def test_arrays_and_mappings_of_them_become_those_of_the_wanted_library() -> None:
    given = placed(Path("a"), torch.tensor([1.5, 2.5], dtype=torch.bfloat16), {"a": [1.5], "b": np.ones(2)}, -(2**63))
    assert given["x"].tolist() == [1.5, 2.5]
    assert [type(value) for value in given["values"].values()] == [Tensor, Tensor]
    assert given["whole"] == -(2**63)


@pytest.mark.parametrize(
    ("path", "x", "whole", "said"),
    [
        (Path("a\0b"), [1.0], 0, "placed got path=a PosixPath; expected a path."),
        (Path("a"), [], 0, "x=[]; expected an array of numbers of shape [n], all of them finite, not empty."),
        (Path("a"), [0.5, np.inf], 0, "x=[0.5, inf]; expected an array of numbers of shape [n], all of them finite"),
        (Path("a"), [1.0], -(2**63) - 1, "whole=-9223372036854775809; expected a whole number."),
        (Path("a"), [1.0], 2**63, "whole=9223372036854775808; expected a whole number."),
    ],
)
def test_what_nothing_can_be_made_of_is_refused(path: Path, x: list, whole: int, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        placed(path, x, whole=whole)
    assert said.replace("PosixPath", type(path).__name__) in str(caught.value)


@checked
def failing(keep: Callable[[], None]) -> None:
    keep()


def test_too_little_memory_is_one_sentence_and_other_errors_are_what_they_were() -> None:
    def fail(error: Exception) -> Callable[[], None]:
        def keep() -> None:
            raise error

        return keep

    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ...")):
        with pytest.raises(ArgumentError, match="failing needs more memory than there is; give smaller sizes"):
            failing(fail(error))
    with pytest.raises(RuntimeError, match="^something else$"):
        failing(fail(RuntimeError("something else")))
