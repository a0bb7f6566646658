"""Arguments are checked where the user calls; numpy's numbers, lists, arrays and tensors give the
same values."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args

import numpy as np
import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Bool, Float
from torch import Tensor

import rb_interp as rb
from rb_interp.arguments import as_array, checked, parameter_hints
from rb_interp.errors import ArgumentError
from rb_interp.interventions import metrics
from rb_interp.probes.embeddings import cosines
from rb_interp.theory import permuted_r2

FORMS = {"list": np.ndarray.tolist, "array": np.asarray, "tensor": torch.from_numpy}
LOGITS = torch.tensor([[1.0, 4.0, 2.0], [0.0, 0.0, 5.0]])
TASK = rb.AnchorTask.preset("smoke")


@pytest.mark.skipif("JAXTYPING_DISABLE" in os.environ, reason="shapes are not checked")
def test_shapes_are_checked_while_testing():
    with pytest.raises(BeartypeCallHintViolation, match="token d"):
        cosines(np.zeros(3))


@checked
def asked(
    n: int = 1,
    share: float = 0.5,
    side: Literal["greater", "less"] = "less",
    x: Float[Tensor, "a b"] | None = None,
    rows: Float[np.ndarray, " a"] | None = None,
    n_null: int = 0,
) -> Any:
    return n, share, side, x, rows, n_null


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": "4"}, "asked got n='4'; expected int."),
        ({"n_null": -1}, "asked got n_null=-1; expected 0 or more."),
        ({"share": "4"}, "asked got share='4'; expected float."),
        ({"side": "more"}, "asked got side='more'; expected 'greater' or 'less'."),
        (
            {"x": torch.ones(3)},
            "asked got x=an array of shape [3] and type torch.float32; expected float "
            "numbers of shape [a b] or None.",
        ),
        (
            {"x": torch.ones(3, 2), "rows": np.ones(1)},
            "asked got rows=an array of shape [1] and type float64; expected float numbers "
            "of shape [a] or None.",
        ),
        (
            {"rows": [[1.0], [1.0, 2.0]]},
            "asked got [[1.0], [1.0, 2.0]]; expected an array, all rows of one length.",
        ),
        (
            {"m": 1},
            "asked: got an unexpected keyword argument 'm'; it takes n, share, side, x, rows, n_null.",
        ),
    ],
)
def test_what_does_not_fit_is_named(given: dict, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        asked(**given)
    assert str(caught.value) == said
    assert "return" in inspect.get_annotations(asked.__wrapped__)  # as it was written


def test_another_argument_is_refused_by_every_probe() -> None:
    with pytest.raises(TypeError, match="weight_rank: got an unexpected keyword argument 'head'"):
        rb.probes.weight_rank(rb.build_model(TASK, gamma=0.8), head=0)
    with pytest.raises(ArgumentError, match="AnchorTask"):  # imported for type checkers alone
        rb.theory.population("anchor", "rsn")  # type: ignore


@pytest.mark.parametrize("kind", [int, np.int64, np.int32])
def test_numpy_numbers_count_as_numbers(kind: type) -> None:
    model = rb.build_model(TASK, gamma=0.8, seed=kind(0))
    rows = rb.Inputs(np.arange(8).reshape(2, 4), [0, 0], rb.tasks.Roles({"last": [[3], [3]]}))
    reading = rb.probes.uniformity(model, rows, layer=kind(1), head=kind(0))
    assert (
        reading.values
        == rb.probes.uniformity(
            rb.build_model(TASK, gamma=0.8, seed=0), rows, layer=1, head=0
        ).values
    )


def test_a_probe_makes_few_calls_of_this_package() -> None:
    """What stands between a user and the formula, in the second call: the first one reads
    annotations."""
    model, calls = rb.build_model(TASK, gamma=0.8, seed=0), []
    rows = rb.Inputs(np.arange(8).reshape(2, 4), roles=rb.Roles({"subject": [[1], [2]]}))

    def count(frame: Any, event: str, _: Any) -> None:
        own = frame.f_code.co_filename.startswith(str(Path(rb.__file__).parent))
        if (
            event == "call" and own and frame.f_code.co_name not in ("hooked", "<lambda>")
        ):  # the tests' shape checks
            calls.append(frame.f_code.co_name)

    for _ in range(2):
        calls.clear()
        sys.setprofile(count)
        try:
            rb.probes.attention(model, rows, layer=1, query="last", to="subject")
        finally:
            sys.setprofile(None)
    assert 20 < len(calls) <= 60


@pytest.mark.parametrize("form", FORMS)
def test_lists_arrays_and_tensors_give_the_same_values(form: str) -> None:
    give = FORMS[form]
    places = np.array([[1], [2]])
    tokens = np.array([[1, 5, 6], [2, 5, 6]])
    rows = rb.Inputs(
        give(tokens),
        give(places[:, 0]),
        rb.tasks.Roles({"key": give(places)}, {"a": give(places[:, 0])}),
    )
    assert rows.tokens.tolist() == tokens.tolist()
    assert rows.take(give(np.array([1]))).labels.tolist() == [2]
    assert rows.roles.position("key").tolist() == places.tolist()
    assert asked(x=give(places))[3].tolist() == [[1.0], [2.0]]
    metric = metrics.logit_diff(1, give(np.array([0, 2])))
    answers = metrics.Answers(LOGITS, None)
    assert metrics.measure(metric, LOGITS, answers).tolist() == [3.0, -5.0]
    assert as_array(torch.ones(1, dtype=torch.bfloat16)).dtype == np.float32
    m = torch.tensor([[1.0], [-1.0]])
    assert permuted_r2(m, m, np.array(["a", "a"])).item() == permuted_r2(m, m, ["a", "a"]).item()


def arguments() -> Iterator[Any]:
    """Of every public function and method that is `checked`: an argument's annotation, and the first
    array in there."""
    packages = (
        rb,
        *(getattr(rb, name) for name in rb.__all__ if inspect.ismodule(getattr(rb, name))),
    )
    names = (
        (package, name)
        for package in packages
        for name in getattr(package, "__all__", vars(package))
    )
    found = {id(value): value for value in (getattr(*place) for place in names)}
    members = (
        one for value in found.values() for one in (value, *getattr(value, "__dict__", {}).values())
    )
    for function in (getattr(one, "__func__", one) for one in members):
        if getattr(function, "__code__", None) is asked.__code__:  # that of all that are `checked`
            for argument, parameter in parameter_hints(function.__wrapped__).items():
                hint = parameter.hint
                kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
                arrays = [kind for kind in kinds if hasattr(kind, "dim_str")]
                if arrays:
                    yield pytest.param(hint, arrays[0], id=f"{function.__qualname__}-{argument}")


@pytest.mark.parametrize(("hint", "kind"), [*arguments()])
def test_every_public_argument_takes_a_list_an_array_or_a_tensor(hint: Any, kind: Any) -> None:
    axes = [
        int(axis) if axis.isdigit() else 3
        for axis in kind.dim_str.split()
        if not axis.startswith(("*", "."))
    ]
    numbers = np.arange(np.prod(axes)).reshape(axes)
    if kind.dtypes == Float.dtypes:
        values = numbers.astype(float)
    else:
        values = numbers.astype(bool) if kind.dtypes == Bool.dtypes else numbers

    def given_back(x: Any) -> Any:
        return x

    given_back.__annotations__["x"] = hint
    for form in FORMS.values():
        taken = checked(given_back)(form(values))
        assert isinstance(taken, kind.array_type | list)
        assert np.asarray(taken).tolist() == values.tolist()


@pytest.mark.parametrize(
    "given", [[False, True], np.array([False, True]), torch.tensor([False, True]), (True,)]
)
def test_a_mask_in_place_of_numbers_is_refused(given):
    @checked
    def chosen(layers: Sequence[int] | None = None, layer: int | None = None) -> Any:
        return layers, layer

    assert chosen([0, 1], 1) == ([0, 1], 1)
    with pytest.raises(
        ArgumentError, match=r"chosen got layers=.*True.*; expected a list of int or None"
    ):
        chosen(given)
    with pytest.raises(ArgumentError, match=r"chosen got layer=True; expected int"):
        chosen(layer=True)
