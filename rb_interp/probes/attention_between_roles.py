r"""Which role attends to which: the attention of one head, from each role to each role.

With A the pattern of one head on row r, Q_r and K_r the positions of two roles in it:

    query_to_key = sum over rows r and q in Q_r of sum over k in K_r of A_r[q, k] / sum over rows r of |Q_r|     [0, 1]

A position has one role, the first of those asked for that names it. From one role to all of them the numbers sum to 1
where every position has one of the roles. Paper 2, Fig. 3, draws these numbers as the width of its lines.

How it can mislead. A role of many positions is given more by a head that looks anywhere: an averaging head reads about
n / L for n positions of L. An early position can look at few others: the second one of a row gives half to the first
under an even pattern. Attention shows where a position looks, not what it takes; see interchange. The null gives each
row the roles of another row, so a head that prefers fixed positions reads as much there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from rb_interp.checks import checked
from rb_interp.errors import RolesError
from rb_interp.probes.pattern import Found, pattern_reading
from rb_interp.probes.source import Source
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads

NOBODY = "no position has the query's role."


@checked
@few_threads
def attention_between_roles(
    model: Source,
    inputs: Inputs,
    *,
    roles: Sequence[str] = ("key", "anchor", "noise"),
    layer: int = 0,
    head: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Mean attention from every role to every role in one head, in [0, 1].

    Values: ``{query}_to_{key}`` of each pair of roles; NaN where no position has the query's role. Null of each: the
    roles of another row. Arrays: attention ``[query, key]``, in the order of ``roles``.

    Args:
        model: a model, or the cache of these rows that ``captured`` gives.
        inputs: rows, and roles that name the positions asked for.
        roles: names; a position with several of them counts as the first.
        layer, head: the head that is read, both counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.

    Raises:
        ModelError: for a layer or head that is not there.
        RolesError: for a role that is not there, or that is named twice.

    Source: paper 2, Fig. 3.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> reading = attention_between_roles(model, data.inputs(data.rows("rsn_test")), n_null=0)
    >>> round(sum(reading.values[f"anchor_to_{role}"] for role in ("key", "anchor", "noise")), 6)
    1.0
    """
    names = [f"{query}_to_{key}" for query in roles for key in roles]

    def named(between: Float[np.ndarray, "query key *draw"]) -> dict:
        return dict(zip(names, between.reshape(len(names), *between.shape[2:]), strict=True))

    def measure(pattern: np.ndarray) -> Found:
        found = between_roles(pattern, role_masks(inputs.roles, roles, pattern.shape[-1]))
        return {name: float(value) for name, value in named(found).items()}, {"attention": found}

    def nulls(pattern: np.ndarray) -> dict[str, Null]:
        masks, rng = role_masks(inputs.roles, roles, pattern.shape[-1]), np.random.default_rng(seed)
        draws = [between_roles(pattern, masks[order]) for order in permutations(n_null, len(pattern), rng)]
        every = named(np.stack(draws, -1)).items() if draws else ()
        return {name: Null("roles permuted over rows", values) for name, values in every}

    return pattern_reading(
        "attention_between_roles", model, inputs, layer=layer, head=head, untrained=untrained, measure=measure,
        nulls=nulls, why=NOBODY,
    )  # fmt: skip


def role_masks(roles: Roles, names: Sequence[str], length: int) -> Bool[np.ndarray, "row pos role"]:
    """Which position of each row has which role, the first of those named; RolesError for unknown and repeated ones.

    >>> roles = Roles({"last": np.array([[2]]), "noise": np.array([[0, 2]])})
    >>> role_masks(roles, ("last", "noise"), 3)[0].astype(int).tolist()
    [[0, 1], [0, 0], [1, 0]]
    """
    if len(set(names)) < len(names):
        raise RolesError(f"attention_between_roles got the roles {list(names)}; name each of them once.")
    masks = np.zeros((len(roles), length, len(names)), dtype=bool)
    for number, name in enumerate(names):
        here = np.zeros((len(roles), length), dtype=bool)
        np.put_along_axis(here, roles.position(name, "attention_between_roles"), True, 1)
        masks[:, :, number] = here & ~masks.any(2)
    return masks


def between_roles(
    pattern: Float[np.ndarray, "row query key"], masks: Bool[np.ndarray, "row pos role"]
) -> Float[np.ndarray, "role role"]:
    """Mean attention ``[query, key]`` from the positions of each role to those of each role; NaN without a query.

    >>> even = np.tril(np.ones((1, 3, 3))) / np.arange(1, 4)[:, None]
    >>> masks = np.eye(3, dtype=bool)[None, :, [0, 2]]  # the first and the last position
    >>> between_roles(even, masks).round(3).tolist()
    [[1.0, 0.0], [0.333, 0.333]]
    """
    of = masks.astype(float)
    total = (of.transpose(0, 2, 1) @ pattern @ of).sum(0)
    count = of.sum((0, 1))[:, None]
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
