r"""Attention of one head: which role attends to which?

`attention` (paper 2, Fig. 3). With A the pattern on row r, Q_r and K_r the positions of two roles
in it, and O_rq the other positions that query q sees: itself and those before it, of its window
where attention is local, or all of them where attention looks both ways, and never padding in
front:

    query_to_key          mean over rows r and q in Q_r of a_rq = sum over k in K_r of A_r[q, k]       [0, 1]
    query_to_key_excess   mean over the same of a_rq - |K_r| times the mean of A_r[q, k] over O_rq    [-1, 1]

From one role to all of them the numbers sum to 1 where every position has exactly one of the roles.
The excess leaves out queries that see no position of the role, or fewer others than those: they
have no choice. Its |K_r| are the positions of the role that q sees.

`attention_by_role` (paper 1, "Second attention module") is the same from the last position, in the
anchor task's words: key + anchors + self + noise = 1 with anchors = anchor_1 + ... + anchor_q.
``self`` is the last position where it is noise itself; where it is an anchor, it counts as that
anchor.

`attention_to_key` (paper 2, Fig. 3, "inferential" flow: L0 moves the key onto the anchors, L1 moves
the anchors' positions to the last token) is the same from each anchor: key_from_anchor_j = mean
over rows of A_r[a_rj, p_r].

The null gives each row the roles of another row, one of the same padding in front, and keeps the
pattern: it asks whether the head follows what stands in the row. A head that prefers a place, or a
distance, reads as much under it. Where the places are the same in every row p is 1, and a note says
so: read the size of the excess beside an untrained model's. Patterns drawn at random are no null:
under them any preference for a place is significant.

How it can mislead. An averaging head gives about n / L to a role of n positions of L, and an excess
of 0. An early position can look at few others: the second one of a row gives half to the first
under an even pattern. The paper's circuit reads key near 1 in L1 (claims M7 and M7b ask for .90);
other circuits read anchors near 1, since L0 has already carried the key to them. An untrained model
reads 1/L for each position. After L0 the key's position also holds what L0 wrote, and W_V W_O may
drop it; see variance_explained. A model that carries reads key_from_anchor_j above .99, one that
averages about .25, an untrained one at small initialisation the mean of 1/i over the anchors'
positions (.25 and .19). A head that looks at the previous position reads 1 for the first anchor.
Attention shows where a position looks, not what it takes, nor that it is passed on; patch to know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import RolesError
from rb_interp.models.arrays import ActivationSource
from rb_interp.probes._core import HeadAttention, Measurement, read_head
from rb_interp.probes.activations import check_last_column, occupied
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import NO_POSITION, REST, Inputs, Roles, role_positions

PERMUTED = "roles permuted over rows"
FIXED_ROLES_NOTE = (
    "the roles stand at the same positions in every row{}, so their null says nothing (p = 1)."
)
LONE_ROWS_NOTE = (
    "{} of {} rows have no other row of the same padding, so their null keeps their roles."
)
WITH_NULL = ("key", "anchors")
"""Quantities of attention_by_role that have a null."""
EXCESS = "_excess"
ROUNDING = 1e-12
"""Draws that are less than the value by this much are ties, which count against it."""
NULL_CHUNK = 2**22
"""Numbers that one part of a null takes in memory, about."""
UNDEFINED = (
    "no position has the query's role, or, for an excess, none of them sees the other role and as "
    "many other positions."
)
PositionMask = Bool[np.ndarray, "row pos"]
Queries = Bool[np.ndarray, "row query q"]
"""Which positions have each of the roles that look."""
Keys = Bool[np.ndarray, "row key k"]
"""Which positions have each of the roles that are looked at."""
RolePairs = Mapping[str, tuple[int, int]]
"""Quantity -> numbers of the role that looks and of the role that is looked at."""


class Excess(NamedTuple):
    """How queries count in an excess: (weighted sum - offset) / count."""

    weights: Float[np.ndarray, "row query"]
    offset: float
    count: float


@checked
@single_threaded
def attention(
    model: ActivationSource,
    inputs: Inputs,
    *,
    layer: int = 0,
    head: int = 0,
    query: str | Sequence[str] = (),
    to: str | Sequence[str] = (),
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Mean attention from some roles to others in one head, in [0, 1], and its excess.

    Values as in the module's table, for each pair of roles; NaN if no position has the query's
    role. Null: roles permuted over rows. Arrays: attention ``[query, key]``, in the order of the
    roles.

    Args:
        model: a model, its activations on these rows (``captured``), or arrays (``from_arrays``).
        inputs: rows, and roles that name the positions asked for.
        layer, head: numbers, counted from 0.
        query: roles that look, one name or several; by default every role of the inputs. Built in
            are ``last``, ``all``, ``rest`` (the positions that no role names) and the like, as in
            ``interventions.sites``.
        to: roles that are looked at, likewise. By default a note says how many positions have no
            role.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises ModelError for a layer or head that does not exist, RolesError for a role that does not.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.rows("rsn_test"))
    >>> reading = attention(model, rows, query="anchor", to=["key", "anchor", "noise"], n_null=0)
    >>> round(sum(reading.values[f"anchor_to_{role}"] for role in ("key", "anchor", "noise")), 6)
    1.0
    """
    measure = partial(attention_between_roles, roles=inputs.roles, query=query, to=to)
    return read_head(
        "attention", model, inputs, layer, head, measure, untrained, n_null, seed, UNDEFINED
    )


def attention_between_roles(
    attention: HeadAttention, roles: Roles, query: str | Sequence[str], to: str | Sequence[str]
) -> Measurement:
    """The values of `attention`, read from a head's pattern."""
    rows_and_length = attention.pattern.shape[::2]
    query_names, queries = role_masks(roles, query, rows_and_length)
    key_names, keys = role_masks(roles, to, rows_and_length)
    queries &= attention.attends[..., None]
    visible = attention.visible
    if not attention.attends.all():
        visible = visible & attention.attends[:, None]
    pairs = {}
    excesses = {}
    for q, query_name in enumerate(query_names):
        for k, key_name in enumerate(key_names):
            name = f"{query_name}_to_{key_name}"
            pairs[name] = q, k
            excesses[name] = excess(queries[..., q], keys[..., k], visible)
    note = "" if to else roles.without_a_role(rows_and_length[1])
    return measure_pairs(attention, queries, keys, pairs, excesses)._replace(note=note)


@checked
@single_threaded
def attention_by_role(
    model: ActivationSource,
    inputs: Inputs,
    *,
    layer: int = 1,
    head: int = 0,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Attention of the last position by role; call it on memory and reasoning inputs apart.

    Values, all in [0, 1]: ``key``, ``anchor_1`` .. ``anchor_q``, ``anchors``, ``self`` and
    ``noise`` (all other noise). Array: ``mean_attention`` ``[L]`` by position. ``key`` and
    ``anchors`` have a null.

    Args:
        model: a model, its activations on these rows (``captured``), or arrays (``from_arrays``).
        inputs: rows, and roles that name the positions of ``key`` and ``anchor``.
        layer, head: numbers, counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises ModelError for a layer or head that does not exist, RolesError for missing roles, and if
    one position has two.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> reading = attention_by_role(model, data.inputs(data.rows("rsn_test")), n_null=0)
    >>> round(sum(reading.values[role] for role in ("key", "anchors", "self", "noise")), 6)
    1.0
    """
    check_last_column(inputs, "attention_by_role")
    measure = partial(attention_of_last, roles=inputs.roles)
    return read_head(
        "attention_by_role", model, inputs, layer, head, measure, untrained, n_null, seed
    )


def attention_of_last(attention: HeadAttention, roles: Roles) -> Measurement:
    """The values of `attention_by_role`, read from a head's pattern."""
    key = roles.position("key", "attention_by_role")
    anchors = roles.position("anchor", "attention_by_role")
    role_columns = np.sort(np.concatenate([key, anchors], 1), 1)
    repeated = np.flatnonzero((np.diff(role_columns, axis=1) == 0).any(1))
    if len(repeated):
        row = repeated[0]
        raise RolesError(
            f"attention_by_role got one position twice in row {row}: key {key[row].tolist()}, "
            f"anchor {anchors[row].tolist()}; give every position of a row one role."
        )
    pattern = attention.pattern[:, -1:]
    length = pattern.shape[-1]
    is_last = np.arange(length) == length - 1
    masks = {"key": _mask(key, length)}
    for number in range(anchors.shape[1]):
        masks[f"anchor_{number + 1}"] = _mask(anchors[:, [number]], length)
    masks["anchors"] = _mask(anchors, length)
    noise = ~masks["key"] & ~masks["anchors"]
    masks["self"] = noise & is_last
    masks["noise"] = noise & ~is_last
    queries = np.ones((len(pattern), 1, 1), bool)
    keys = np.stack(list(masks.values()), 2)
    pairs = {role: (0, number) for number, role in enumerate(masks)}
    last = attention._replace(pattern=pattern)
    measurement = measure_pairs(last, queries, keys, pairs, with_null=WITH_NULL)
    return measurement._replace(arrays={"mean_attention": pattern[:, 0].mean(0)})


@checked
@single_threaded
def attention_to_key(
    model: ActivationSource,
    inputs: Inputs,
    *,
    layer: int = 0,
    head: int = 0,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Attention of each anchor's position to the key in one head, mean over rows, in [0, 1].

    Values: key_from_anchor_1 .. key_from_anchor_q, key_from_last_anchor. Null: roles permuted over
    rows. Arrays: attention ``[row, q]``.

    Args:
        model: a model, its activations on these rows (``captured``), or arrays (``from_arrays``).
        inputs: rows, and roles that name the positions of ``key`` and ``anchor``.
        layer, head: numbers, counted from 0.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises ModelError for a layer or head that does not exist, RolesError for missing roles.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> reading = attention_to_key(model, data.inputs(data.rows("rsn_test")), n_null=0)
    >>> list(reading.values)
    ['key_from_anchor_1', 'key_from_anchor_2', 'key_from_last_anchor']
    """
    measure = partial(attention_of_anchors, inputs=inputs)
    return read_head(
        "attention_to_key", model, inputs, layer, head, measure, untrained, n_null, seed
    )


def attention_of_anchors(attention: HeadAttention, inputs: Inputs) -> Measurement:
    """The values of `attention_to_key`, read from a head's pattern."""
    anchors = occupied(inputs, "anchor", "attention_to_key")
    key = occupied(inputs, "key", "attention_to_key")[:, :1]
    pattern = attention.pattern
    n_rows, _, length = pattern.shape
    count = anchors.shape[1]
    masks = [_mask(anchors[:, [number]], length) for number in range(count)]
    queries = np.stack(masks, 2) & attention.attends[..., None]
    keys = _mask(key, length)[..., None]
    pairs = {f"key_from_anchor_{number + 1}": (number, 0) for number in range(count)}
    pairs["key_from_last_anchor"] = count - 1, 0
    by_row = pattern[np.arange(n_rows)[:, None], anchors, key]
    return measure_pairs(attention, queries, keys, pairs)._replace(arrays={"attention": by_row})


def measure_pairs(
    attention: HeadAttention,
    queries: Queries,
    keys: Keys,
    pairs: RolePairs,
    excesses: Mapping[str, Excess] = {},
    with_null: Sequence[str] = (),
) -> Measurement:
    """Mean attention between pairs of roles, and its excess, with a null of other rows' roles.

    Args:
        excesses: by the names of the pairs; none for no excess.
        with_null: pairs that have a null, each with draws of its own; by default all, which share
            their draws.
    """
    pattern = attention.pattern
    total = (queries.astype(float).swapaxes(-1, -2) @ pattern @ keys.astype(float)).sum(0)
    count = queries.sum((0, 1))[:, None]
    table = total / np.where(count > 0, count, np.nan)
    values = {}
    for name, pair in pairs.items():
        values[name] = float(table[pair])
    for name, (weights, offset, n) in excesses.items():
        key = keys[..., pairs[name][1]]
        mass = np.einsum("rqk,rq,rk->", pattern, weights, key)
        values[name + EXCESS] = float((mass - offset) / n)
    batches = [[name] for name in with_null] if with_null else [list(pairs)]

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng = np.random.default_rng(seed)
        nulls = {}
        for names in batches:
            orders = permutations(n_null, len(pattern), rng, attention.padding_group)
            total = other_rows(pattern, queries, keys, orders)
            table = total / np.where(count > 0, count, np.nan)
            for name in names:
                draws = table[(..., *pairs[name])]
                nulls[name] = Null(PERMUTED, draws, tolerance=ROUNDING)
            for name, (weights, offset, n) in excesses.items():
                key = keys[..., [pairs[name][1]]]
                mass = other_rows(pattern, weights[..., None], key, orders)[:, 0, 0]
                draws = (mass - offset) / n
                nulls[name + EXCESS] = Null(PERMUTED, draws, tolerance=ROUNDING)
        return nulls

    group = attention.padding_group
    fixed_queries = (queries == queries[group]).all((0, 1))
    fixed_keys = (keys == keys[group]).all((0, 1))
    n_lone = int((np.bincount(group) == 1).sum())
    padded = " of the same padding" if group.any() else ""
    notes = {}
    for name in with_null or pairs:
        q, k = pairs[name]
        if fixed_queries[q] and fixed_keys[k]:
            notes[name] = FIXED_ROLES_NOTE.format(padded)
        elif n_lone:
            notes[name] = LONE_ROWS_NOTE.format(n_lone, len(group))
    for name in set(notes) & set(excesses):
        notes[name + EXCESS] = notes[name]
    return Measurement(values, draw_nulls, {"attention": table}, len(pattern), null_notes=notes)


def _mask(positions: Int[np.ndarray, "row n"], length: int) -> PositionMask:
    mask = np.zeros((len(positions), length), dtype=bool)
    np.put_along_axis(mask, positions, True, 1)
    return mask


def role_masks(
    roles: Roles, asked: str | Sequence[str], shape: tuple[int, ...]
) -> tuple[tuple[str, ...], Bool[np.ndarray, "row pos role"]]:
    """The names of the roles asked for, all by default, and which positions of rows have which."""
    names = (asked,) if isinstance(asked, str) else tuple(asked) or tuple(roles.positions)
    if not names:
        raise RolesError(
            "attention needs roles and got none; pass Inputs(tokens, roles=Roles({name: "
            "positions}))."
        )
    if len({*names}) < len(names):
        raise RolesError(f"attention got the roles {list(names)}; name each of them once.")
    masks = np.zeros((*shape, len(names)), dtype=bool)
    for number, name in enumerate(names):
        if name == REST and name not in roles.positions:
            masks[:, :, number] = roles.rest(shape)
        else:
            positions = role_positions(roles, name, shape, "attention")
            if asked and shape[0] and not positions.size:
                raise RolesError(NO_POSITION.format(name))
            np.put_along_axis(masks[:, :, number], positions, True, 1)
    return names, masks


def other_rows(
    pattern: Float[np.ndarray, "row query key"],
    queries: Shaped[np.ndarray, "row query q"],
    keys: Keys,
    orders: Int[np.ndarray, "draw row"],
) -> Float[np.ndarray, "draw q k"]:
    """What queries of each role give to keys of each role, summed over rows with others' roles."""
    used_queries = queries.any((0, 2))
    used_keys = keys.any((0, 2))
    pattern = pattern[:, used_queries][:, :, used_keys]
    queries = queries[:, used_queries].astype(float)
    keys = keys[:, used_keys].astype(float)
    n = len(pattern)
    cells = pattern.shape[1] * pattern.shape[2]
    # few rows differ in where their roles stand
    places = np.concatenate([queries.reshape(n, -1), keys.reshape(n, -1)], 1)
    _, first, which = np.unique(places, axis=0, return_index=True, return_inverse=True)
    queries, keys = queries[first], keys[first]
    orders = which.ravel()[orders]
    sums = np.zeros((n, len(first), queries.shape[2], keys.shape[2]))  # [row, places, q, k]
    if not cells:
        return sums[0, orders[:, 0]]
    chunk = max(1, NULL_CHUNK // (cells * sums[0, 0].size))
    flat = pattern.reshape(n, -1)
    for start in range(0, len(first), chunk):
        part = slice(start, start + chunk)
        roles = np.einsum("siq,sjk->ijsqk", queries[part], keys[part])
        sums[:, part] = (flat @ roles.reshape(cells, -1)).reshape(n, *roles.shape[2:])
    return sums[np.arange(n), orders].sum(1)


def excess(
    queries: PositionMask, keys: PositionMask, visible: Bool[np.ndarray, "*row query key"]
) -> Excess:
    """How queries count for what they give to the positions ``keys`` beyond as many others.

    A query that sees n positions of the role and m others, and gives a to the role, gives a - n (1
    - a) / m beyond: so a counts 1 + n / m times, and n / m is taken off. Queries with m < n have no
    choice and do not count.
    """
    n = (visible.astype(float) @ keys.astype(float)[..., None])[..., 0]
    n_other = visible.sum(-1) - n
    choice = queries & (n > 0) & (n_other >= n)
    ratio = np.divide(n, n_other, out=np.zeros_like(n), where=choice)
    return Excess(choice + ratio, float(ratio.sum()), float(choice.sum()) or np.nan)
