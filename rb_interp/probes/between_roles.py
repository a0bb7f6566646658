r"""Which role attends to which: the attention of one head, from the positions of some roles to those of others.

With A the pattern of one head on row r, Q_r and K_r the positions of two roles in it, and O_rq the other positions that
query q sees:

    query_to_key          mean over rows r and q in Q_r of a_rq = sum over k in K_r of A_r[q, k]       [0, 1]
    query_to_key_excess   mean over the same of a_rq - |K_r| times the mean of A_r[q, k] over O_rq    [-1, 1]

A position has one role, the first of those asked for that names it. From one role to all of them the numbers sum to 1
where every position has one of the roles. Paper 2, Fig. 3, draws these numbers as the width of its lines. The excess
leaves out queries that see fewer other positions than positions of the role: they have no choice.

How it can mislead. A role of many positions is given more by a head that looks anywhere: an averaging head reads about
n / L for n positions of L, and an excess of 0. An early position can look at few others: the second one of a row gives
half to the first under an even pattern. Attention shows where a position looks, not what it takes; see interchange.

There are two nulls, since there are two ways to find a role. The null of query_to_key gives each row the roles of
another row: it asks whether the head follows what stands in the row. Where roles stand at fixed offsets or places it
says nothing: a previous-token head reads as much under it, and a note says so where the places are the same. The null
of the excess draws one pattern for all rows, each query uniform on the simplex of what it sees: it asks whether the
head looks at these places more than a head with any preference for places would. A small p of the excess alone shows
where a head looks and not why: what stands there is then as good a reason as where it stands. Nobody sees what comes
later, so the excess is for causal attention.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from rb_interp.errors import RolesError
from rb_interp.probes.excess import excess, random_excess
from rb_interp.probes.pattern import Found, pattern_reading, roles_permuted, stand_still
from rb_interp.probes.source import Source
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

EXCESS = "_excess"
LAST = "last"
"""The last position, where no role has this name."""
TOGETHER = 2**22
"""Numbers that a part of a null holds at once, about."""
BY_PLACE = "attention drawn at random, by position"
UNDEFINED = (
    "no position has the query's role, or, for an excess, none of them sees the other role and as many other positions."
)
"""Why a value is NaN."""
Pattern = Float[np.ndarray, "row pos pos"]
Masks = Bool[np.ndarray, "row pos role"]


@typed
@few_threads
def attention(
    model: Source,
    inputs: Inputs,
    *,
    query: str | Sequence[str] = (),
    to: str | Sequence[str] = (),
    layer: int = 0,
    head: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Mean attention from some roles to others in one head, in [0, 1], and what it exceeds other positions by.

    Values: ``{query}_to_{key}`` of each pair of roles, and ``{query}_to_{key}_excess``; NaN where no position has the
    query's role. Nulls: the roles of another row, and for the excess
    attention drawn at random by position. Arrays: attention
    ``[query, key]``, in the order of the roles.

    Args:
        model: a model, or its activations on these rows.
        inputs: rows, and roles that name the positions asked for.
        query: roles that look, one name or several; by default every role of the inputs. ``last`` is the last position
            where no role has that name.
        to: roles that are looked at, likewise. A position with several of them counts as the first.
        layer, head: the head that is read, both counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.

    Raises:
        ModelError: for a layer or head that is not there.
        RolesError: for a role that is not there, or that is named twice.

    Source: paper 2, Fig. 3.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.rows("rsn_test"))
    >>> reading = attention(model, rows, query="anchor", to=["key", "anchor", "noise"], n_null=0)
    >>> round(sum(reading.values[f"anchor_to_{role}"] for role in ("key", "anchor", "noise")), 6)
    1.0
    """
    queries, keys = (_names(given, inputs.roles) for given in (query, to))
    places = {f"{q}_to_{k}": (at_q, at_k) for at_q, q in enumerate(queries) for at_k, k in enumerate(keys)}

    def masks(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        length = rows.shape[-1]
        return role_masks(inputs.roles, queries, length), role_masks(inputs.roles, keys, length)

    def measure(pattern: Pattern) -> Found:
        looking, seen = masks(pattern)
        found = between_roles(pattern, looking, seen)
        values = {name: float(found[at]) for name, at in places.items()}
        for name, (at_q, at_k) in places.items():
            values[f"{name}{EXCESS}"] = excess(pattern, looking[..., at_q], seen[..., at_k])
        return values, {"attention": found}

    def nulls(pattern: Pattern) -> dict[str, Null]:
        if not n_null:
            return {}
        looking, seen = masks(pattern)
        draws = other_rows(pattern, looking, seen, n_null, seed)
        found = {name: roles_permuted(draws[:, at_q, at_k]) for name, (at_q, at_k) in places.items()}
        for name, (at_q, at_k) in places.items():
            by_place = random_excess(looking[..., at_q], seen[..., at_k], n_null, seed)
            found[f"{name}{EXCESS}"] = Null(BY_PLACE, by_place)
        return found

    def fixed() -> list[str]:
        looking, seen = masks(inputs.tokens)
        return [name for name, (at_q, at_k) in places.items() if stand_still(looking[..., at_q], seen[..., at_k])]

    return pattern_reading(
        "attention", model, inputs, layer=layer, head=head, untrained=untrained, measure=measure, nulls=nulls,
        fixed=fixed, why=UNDEFINED,
    )  # fmt: skip


def _names(given: str | Sequence[str], roles: Roles) -> tuple[str, ...]:
    """The roles asked for; all of them by default."""
    names = (given,) if isinstance(given, str) else tuple(given) or tuple(roles.positions)
    if not names:
        raise RolesError("attention needs roles and got none; pass Inputs(tokens, roles=Roles({name: positions})).")
    return names


def role_masks(roles: Roles, names: Sequence[str], length: int) -> Masks:
    """Which position of each row has which role, the first of those named; RolesError for unknown and repeated ones.

    >>> roles = Roles({"last": np.array([[2]]), "noise": np.array([[0, 2]])})
    >>> role_masks(roles, ("last", "noise"), 3)[0].astype(int).tolist()
    [[0, 1], [0, 0], [1, 0]]
    """
    if len(set(names)) < len(names):
        raise RolesError(f"attention got the roles {list(names)}; name each of them once.")
    masks = np.zeros((len(roles), length, len(names)), dtype=bool)
    for number, name in enumerate(names):
        here = np.zeros((len(roles), length), dtype=bool)
        if name == LAST and name not in roles.positions:
            here[:, -1] = True
        else:
            np.put_along_axis(here, roles.position(name, "attention"), True, 1)
        masks[:, :, number] = here & ~masks.any(2)
    return masks


def between_roles(
    pattern: Pattern, looking: Bool[np.ndarray, "*draw row pos query"], seen: Bool[np.ndarray, "*draw row pos key"]
) -> Float[np.ndarray, "*draw query key"]:
    """Mean attention from the positions of each role to those of each role; NaN without a query.

    >>> even = np.tril(np.ones((1, 3, 3))) / np.arange(1, 4)[:, None]
    >>> masks = np.eye(3, dtype=bool)[None, :, [0, 2]]  # the first and the last position
    >>> between_roles(even, masks, masks).round(3).tolist()
    [[1.0, 0.0], [0.333, 0.333]]
    """
    total = (looking.astype(float).swapaxes(-1, -2) @ pattern @ seen.astype(float)).sum(-3)
    count = looking.sum((-3, -2))[..., None]
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def other_rows(
    pattern: Pattern,
    looking: Bool[np.ndarray, "row pos query"],
    seen: Bool[np.ndarray, "row pos key"],
    n_null: int,
    seed: int,
) -> Float[np.ndarray, "draw query key"]:
    """`between_roles` with the roles of other rows."""
    n, length = pattern.shape[:2]
    orders = permutations(n_null, n, np.random.default_rng(seed))
    every = np.zeros((n, n, looking.shape[2], seen.shape[2]))  # of each row with the roles of each row
    together = max(1, TOGETHER // (length**2 * every[0, 0].size))
    for part in (slice(at, at + together) for at in range(0, n, together)):
        asked = np.einsum("siq,sjk->ijsqk", looking[part].astype(float), seen[part].astype(float))
        every[:, part] = (pattern.reshape(n, -1) @ asked.reshape(length**2, -1)).reshape(n, *asked.shape[2:])
    total, count = every[np.arange(n), orders].sum(1), looking.sum((0, 1))[:, None]
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
