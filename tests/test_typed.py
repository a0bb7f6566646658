"""Arguments are checked where the user calls; numpy's numbers, lists, arrays and tensors give the same values."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import rb_interp as rb
from rb_interp.errors import ArgumentError
from rb_interp.interventions import metrics
from rb_interp.theory import permuted_r2
from rb_interp.typed import as_array, typed

FORMS = {"list": np.ndarray.tolist, "array": np.asarray, "tensor": torch.from_numpy}
LOGITS = torch.tensor([[1.0, 4.0, 2.0], [0.0, 0.0, 5.0]])
TASK = rb.AnchorTask.preset("smoke")


@typed
def asked(
    n: int = 1,
    share: float = 0.5,
    side: Literal["greater", "less"] = "less",
    x: Float[Tensor, "a b"] | None = None,
    rows: Float[np.ndarray, " a"] | None = None,
) -> Any:
    return n, share, side, x, rows


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": "4"}, "asked got n='4'; expected int."),
        ({"share": "4"}, "asked got share='4'; expected float."),
        ({"side": "more"}, "asked got side='more'; expected Literal['greater', 'less']."),
        (
            {"x": torch.ones(3)},
            "asked got x=an array of shape [3] and type torch.float32; expected Float[Tensor, 'a b'] | None.",
        ),
        (
            {"x": torch.ones(3, 2), "rows": np.ones(1)},
            "asked got rows=an array of shape [1] and type float64; expected Float[ndarray, 'a'] | None.",
        ),
        ({"rows": [[1.0], [1.0, 2.0]]}, "asked got [[1.0], [1.0, 2.0]]; expected an array, all rows of one length."),
        ({"m": 1}, "asked: got an unexpected keyword argument 'm'; it takes n, share, side, x, rows."),
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


@pytest.mark.parametrize("form", FORMS)
def test_lists_arrays_and_tensors_give_the_same_values(form: str) -> None:
    give = FORMS[form]
    places = np.array([[1], [2]])
    rows = rb.Inputs(give(places), give(places[:, 0]), rb.tasks.Roles({"key": give(places)}, {"a": give(places[:, 0])}))
    assert rows.tokens.tolist() == places.tolist()
    assert rows.take(give(np.array([1]))).labels.tolist() == [2]
    assert rows.roles.position("key").tolist() == places.tolist()
    assert asked(x=give(places))[3].tolist() == [[1.0], [2.0]]
    metric = metrics.logit_diff(1, give(np.array([0, 2])))
    answers = metrics.Answers(LOGITS, None)
    assert metrics.measure(metric, LOGITS, answers).tolist() == [3.0, -5.0]
    assert as_array(torch.ones(1, dtype=torch.bfloat16)).dtype == np.float32
    m = torch.tensor([[1.0], [-1.0]])
    assert permuted_r2(m, m, np.array(["a", "a"])).item() == permuted_r2(m, m, ["a", "a"]).item()


@pytest.mark.parametrize("given", [[False, True], np.array([False, True]), torch.tensor([False, True]), (True,)])
def test_a_mask_in_place_of_numbers_is_refused(given):
    @typed
    def chosen(layers: Sequence[int] | None = None, layer: int | None = None) -> Any:
        return layers, layer

    assert chosen([0, 1], 1) == ([0, 1], 1)
    with pytest.raises(ArgumentError, match=r"chosen got layers=.*True.*; expected Sequence\[int\] \| None"):
        chosen(given)
    with pytest.raises(ArgumentError, match=r"chosen got layer=True; expected int"):
        chosen(layer=True)
