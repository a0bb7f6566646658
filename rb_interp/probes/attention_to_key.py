"""Does an early layer bring the key to the anchors' positions (the other circuit of the anchor task)?

With A the attention pattern of one head, p_r the key's position in row r and a_rj its j-th anchor's:

    key_from_anchor_j = mean over rows r of A_r[a_rj, p_r]          key_from_last_anchor = key_from_anchor_q      [0, 1]

Paper 2, Fig. 3 ("inferential" information flow): L0 moves the key onto the anchors, L1 moves the anchors'
positions to the last token. In paper 1's own circuit (Fig. 6) L0 averages instead, and reads 1/i from position i.

How it can mislead. At the task's quick sizes a model that carries reads above .99; one that averages about .25, and an
untrained one at small initialisation the mean of 1/i over the anchors' positions: .25 for the first of two anchors in
9 positions, .19 for the second. A head that looks at the previous position reads 1 for the first anchor whatever
stands there: its null, with the roles of another row, is as high. Attention to the key does not show that the key's
value is passed on; patch to know.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capture import head_pattern
from rb_interp.probes.check import check_layer_head, check_rows
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads


@few_threads
def attention_to_key(
    model: HookedModel,
    inputs: Inputs,
    *,
    layer: int = 0,
    head: int = 0,
    untrained: HookedModel | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Attention of each anchor's position to the key in one head, mean over rows, in [0, 1].

    Values: key_from_anchor_1 .. key_from_anchor_q, key_from_last_anchor. Null: positions of one row's roles used for
    another row. Arrays: attention [row, q].

    Raises ModelError for a layer or head that is not there, RolesError for missing roles or roles of other rows.
    """
    check_layer_head(model, layer, head, "attention_to_key", untrained)
    rows = check_rows(inputs, "attention_to_key")
    key, anchors = (inputs.roles.position(role, "attention_to_key") for role in ("key", "anchor"))
    key = key[:, 0]
    pattern = head_pattern(model, rows, layer, head)
    attention = key_pattern(pattern, anchors, key)
    values, nulls = _named(attention.mean(0)), {}
    if n_null:
        orders = np.random.default_rng(seed).permuted(np.tile(np.arange(len(key)), (n_null, 1)), axis=1)
        draws = key_pattern(pattern, anchors[orders], key[orders]).mean(1).T
        nulls = {name: Null("roles permuted over rows", draw) for name, draw in _named(draws).items()}
    untrained_values = {}
    if untrained is not None:
        untrained_values = _named(key_pattern(head_pattern(untrained, rows, layer, head), anchors, key).mean(0))
    arrays = {"attention": attention}
    return Reading(
        "attention_to_key", values, layer, head, untrained=untrained_values, nulls=nulls, arrays=arrays, n=len(key)
    )


def key_pattern(
    pattern: Float[np.ndarray, "row query key"],
    anchors: Int[np.ndarray, "*draw row q"],
    key: Int[np.ndarray, "*draw row"],
) -> Float[np.ndarray, "*draw row q"]:
    """Attention from each anchor's position to the key's, row by row.

    >>> uniform = np.tril(np.ones((1, 4, 4))) / np.arange(1, 5)[:, None]
    >>> key_pattern(uniform, np.array([[1, 3]]), np.array([0])).tolist()
    [[0.5, 0.25]]
    """
    return pattern[np.arange(len(pattern))[:, None], anchors, key[..., None]]


def _named(by_anchor: np.ndarray) -> dict:
    named = {f"key_from_anchor_{j + 1}": value for j, value in enumerate(by_anchor)}
    return {**named, "key_from_last_anchor": by_anchor[-1]}
