r"""Where does the last position look?  (paper 1, section "Second attention module")

The attention of the last query splits into the roles of the positions it looks at:

    key + anchors + self + noise = 1        with anchors = anchor_1 + ... + anchor_q

``self`` is the last position where it is noise itself; where the last position is an anchor, it counts as that anchor.

How it can mislead. The paper's circuit reads key near 1 in L1 (claims M7 and M7b ask for .90) on
reasoning and on memory inputs. Other circuits read anchors near 1: there L0 has already carried the key
to the anchors. An untrained model reads 1/L for each position, .11 at L = 9, and so does an averaging head. A head that
attends to a position need not use the token there. After L0 the key's position also holds what L0 wrote, and W_V W_O
may drop it; see variance_explained. The null gives each row the roles of another row. A head that prefers fixed
positions is as high under the null. Where roles stand at the same position in every row, the null says nothing (p = 1),
and a note says so. ``attention`` reads the same from a role for the last position, with a null by position beside it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import RolesError
from rb_interp.probes.pattern import Found, pattern_reading, role_of_the_anchor_task, roles_permuted, stand_still
from rb_interp.probes.source import Source
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

LastQuery = Float[np.ndarray, "row pos"]
KeyPositions = Int[np.ndarray, "row key"]
AnchorPositions = Int[np.ndarray, "row anchor"]


def mean_by_role(attention: LastQuery, key: KeyPositions, anchors: AnchorPositions) -> dict[str, float]:
    """Mean attention on each role, from the last query's attention; the four parts sum to 1.

    >>> mean_by_role(np.array([[0.5, 0.2, 0.1, 0.2]]), np.array([[0]]), np.array([[1]]))
    {'key': 0.5, 'anchor_1': 0.2, 'anchors': 0.2, 'self': 0.2, 'noise': 0.1}
    """
    on_anchors = np.take_along_axis(attention, anchors, 1)
    noise = attention.copy()
    np.put_along_axis(noise, np.concatenate([key, anchors], 1), 0.0, 1)
    values = {"key": np.take_along_axis(attention, key, 1).sum(1).mean()}
    values |= {f"anchor_{i + 1}": on_anchors[:, i].mean() for i in range(anchors.shape[1])}
    values |= {"anchors": on_anchors.sum(1).mean(), "self": noise[:, -1].mean(), "noise": noise[:, :-1].sum(1).mean()}
    return {name: float(value) for name, value in values.items()}


def permuted_roles(
    attention: LastQuery, positions: Int[np.ndarray, "row n"], n_null: int, rng: np.random.Generator
) -> Null:
    """Mean attention on a role whose positions are taken from another row."""
    shuffled = positions[permutations(n_null, len(attention), rng)]
    first = attention.shape[1] * np.arange(len(attention))[None, :, None]
    found = attention.ravel().take(first + shuffled)
    return roles_permuted(found.sum(2).mean(1))


def _key_and_anchors(roles: Roles) -> tuple[KeyPositions, AnchorPositions]:
    """Positions of key and anchors; RolesError where one position has two roles."""
    key, anchors = (role_of_the_anchor_task(roles, name, "attention_by_role") for name in ("key", "anchor"))
    both = np.sort(np.concatenate([key, anchors], 1), 1)
    clash = np.flatnonzero((np.diff(both, axis=1) == 0).any(1))
    if len(clash):
        row = int(clash[0])
        raise RolesError(
            f"attention_by_role got one position twice in row {row}: key {key[row].tolist()}, "
            f"anchor {anchors[row].tolist()}; give every position of a row one role."
        )
    return key, anchors


@typed
@few_threads
def attention_by_role(
    model: Source,
    inputs: Inputs,
    *,
    layer: int = 1,
    head: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Attention of the last position by role, on the given rows (memory and reasoning inputs: call it on each).

    Values, all in [0, 1]: ``key``, ``anchor_1`` .. ``anchor_q``, ``anchors`` (their sum), ``self`` (the last position
    where it is noise) and ``noise`` (all other noise); key + anchors + self + noise = 1. Array: ``mean_attention``
    ``[L]`` by position. Nulls of ``key`` and ``anchors``: roles permuted. Source: paper 1, section "Second attention
    module".

    Args:
        model: a model, or the cache of these rows that ``captured`` gives.
        inputs: rows, and roles that name the positions of ``key`` and ``anchor``.
        layer, head: the head that is read, both counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.

    Raises:
        ModelError: for a layer or head that is not there.
        RolesError: for missing roles, and where one position has two. ``attention`` reads roles of any names.
    """

    def measure(attention: LastQuery) -> Found:
        return mean_by_role(attention, *_key_and_anchors(inputs.roles)), {"mean_attention": attention.mean(0)}

    def nulls(attention: LastQuery) -> dict[str, Null]:
        rng, places = np.random.default_rng(seed), zip(("key", "anchors"), _key_and_anchors(inputs.roles), strict=True)
        return {name: permuted_roles(attention, at, n_null, rng) for name, at in places if n_null}

    def fixed() -> list[str]:
        places = zip(("key", "anchors"), _key_and_anchors(inputs.roles), strict=True)
        return [name for name, at in places if stand_still(np.sort(at, 1))]

    return pattern_reading(
        "attention_by_role", model, inputs, layer=layer, head=head, untrained=untrained, measure=measure, nulls=nulls,
        fixed=fixed, queries=-1,
    )  # fmt: skip
