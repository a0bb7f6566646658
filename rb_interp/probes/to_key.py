"""Does an early layer bring the key to the anchors' positions (the other circuit of the anchor task)?

With A the attention pattern of one head, p_r the key's position in row r and a_rj its j-th anchor's:

    key_from_anchor_j = mean over rows r of A_r[a_rj, p_r]          key_from_last_anchor = key_from_anchor_q      [0, 1]

Paper 2, Fig. 3 ("inferential" information flow): L0 moves the key onto the anchors, L1 moves the anchors'
positions to the last token. In paper 1's own circuit (Fig. 6) L0 averages instead, and reads 1/i from position i.

How it can mislead. At the task's quick sizes a model that carries reads above .99; one that averages about .25, and an
untrained one at small initialisation the mean of 1/i over the anchors' positions: .25 for the first of two anchors in 9
positions, .19 for the second. A head that looks at the previous position reads 1 for the first anchor whatever stands
there: its null, with the roles of another row, is as high, and where the roles never move a note says that the null
says nothing. ``attention`` reads the same with a null by position beside it. Attention to the key does not show that
the key's value is passed on; patch to know.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from rb_interp.probes.check import occupied
from rb_interp.probes.pattern import Found, pattern_reading, role_of_the_anchor_task, roles_permuted, stand_still
from rb_interp.probes.source import Source
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed


@typed
@few_threads
def attention_to_key(
    model: Source,
    inputs: Inputs,
    *,
    layer: int = 0,
    head: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Attention of each anchor's position to the key in one head, mean over rows, in [0, 1].

    Values: key_from_anchor_1 .. key_from_anchor_q, key_from_last_anchor. Null: positions of one row's roles used for
    another row. Arrays: attention [row, q].

    Args:
        model: a model, or the cache of these rows that ``captured`` gives.
        inputs: rows, and roles that name the positions of ``key`` and ``anchor``.
        layer, head: the head that is read, both counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.

    Raises:
        ModelError: for a layer or head that is not there.
        RolesError: for missing roles, and for roles of other rows. ``attention`` reads roles of any names.
    """

    def positions() -> list[np.ndarray]:
        name = "attention_to_key"
        return [occupied(role_of_the_anchor_task(inputs.roles, role, name), role, name) for role in ("anchor", "key")]

    def measure(pattern: np.ndarray) -> Found:
        anchors, key = positions()
        attention = key_pattern(pattern, anchors, key[:, 0])
        return _named(attention.mean(0)), {"attention": attention}

    def nulls(pattern: np.ndarray) -> dict[str, Null]:
        anchors, key = positions()
        orders = permutations(n_null, len(key), np.random.default_rng(seed))
        draws = key_pattern(pattern, anchors[orders], key[orders, 0]).mean(1).T
        return {name: roles_permuted(draw) for name, draw in _named(draws).items() if n_null}

    def fixed() -> list[str]:
        anchors, key = positions()
        return [name for name, at in _named(anchors.T).items() if stand_still(at, key[:, 0])]

    return pattern_reading(
        "attention_to_key", model, inputs, layer=layer, head=head, untrained=untrained, measure=measure, nulls=nulls,
        fixed=fixed,
    )  # fmt: skip


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
