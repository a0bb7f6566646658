r"""Attention of one head: which role attends to which, and is it uniform on everything it can see?

`attention` (paper 2, Fig. 3). With A the pattern on row r, Q_r and K_r the positions of two roles
in it, and O_rq the other positions that query q sees: itself and those before it, of its window
where attention is local, or all of them where attention looks both ways, and never padding in
front:

    query_to_key          mean over rows r and q in Q_r of a_rq = sum over k in K_r of A_r[q, k]       [0, 1]
    query_to_key_excess   mean over the same of a_rq - |K_r| times the mean of A_r[q, k] over O_rq    [-1, 1]

From one role to all of them the numbers sum to 1 where every position has exactly one of the roles.
The excess leaves out queries that see fewer other positions than positions of the role: they have
no choice.

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

`uniformity` (paper 1, Lemma 1 and Fig. 6: "average operator"). Query i (counted from 1) of the
average operator puts 1/i on each of positions 1..i. The distance of a pattern from it:

    TV_i = 1/2 sum_j |A_ij - 1/i|      entropy_i = -sum_j A_ij ln A_ij / ln i      for i = 2..L  (i = 1 has no choice)

Where attention looks both ways every query sees all L positions, and 1/L stands for 1/i, for i =
1..L. Local attention sees its window. A query that attends to nothing is padding: it does not
count, and i counts no position of it.

How it can mislead. A trained averaging head reads TV near 0 (claim M1 asks for at most .10) and
entropy near 1. A head that looks at one position reads 1 - 1/i, .77 on average over i = 2..9; a
fixed pattern drawn at random reads (1 - 1/i)^i, about .32. But an *untrained* model of small
initialisation also reads 0 (Lemma 1), a larger one too where no LayerNorm precedes the attention:
uniform attention shows a circuit only together with a loss that has fallen. A head may average when
the circuit forms and sharpen later, so say at which step. What is averaged, value_alignment tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy.special import entr

from rb_interp.errors import ModelError, RolesError
from rb_interp.probes._probe import Attention, Found, occupied, pattern, probe
from rb_interp.statistics.nulls import dirichlet_rows, permutations
from rb_interp.statistics.reading import Null
from rb_interp.tasks.inputs import REST, Inputs, Roles

PERMUTED = "roles permuted over rows"
STILL = "the roles stand at the same positions in every row{}, so their null says nothing (p = 1)."
LONE = "{} of {} rows have no other row of the same padding, so their null keeps their roles."
NULLED = ("key", "anchors")
"""Quantities of attention_by_role that have a null."""
EXCESS, LAST = "_excess", "last"
"""The last position is a role of this name, where no other has it."""
ROUNDING = 1e-12
"""What a draw is raised by, so that ties count against the value."""
TOGETHER = 2**22
"""Numbers that a part of a null holds at once, about."""
UNDEFINED = (
    "no position has the query's role, or, for an excess, none of them sees the other role and as "
    "many other "
    "positions."
)
Mask = Bool[np.ndarray, "row pos"]
Looking = Bool[np.ndarray, "row query q"]
Seen = Bool[np.ndarray, "row key k"]
Excess = tuple[Float[np.ndarray, "row query"], float, float]
"""Weights of queries, what is taken off their sum, and how many they are."""


@probe(pattern, UNDEFINED)
def attention(
    read: Attention,
    inputs: Inputs,
    *,
    query: str | Sequence[str] = (),
    to: str | Sequence[str] = (),
) -> Found:
    """Mean attention from some roles to others in one head, in [0, 1], and what it exceeds other
    positions by.

    Values as in the module's table, for each pair of roles; NaN where no position has the query's
    role. Arrays: attention ``[query, key]``, in the order of the roles.

    Args:
        inputs: rows, and roles that name the positions asked for.
        query: roles that look, one name or several; by default every role of the inputs. ``last``
            is the last position where no role has that name, ``rest`` are all positions that no
            role names.
        to: roles that are looked at, likewise. By default a note says how many positions have no
            role.

    Raises RolesError for a role that is not there.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.rows("rsn_test"))
    >>> reading = attention(model, rows, query="anchor", to=["key", "anchor", "noise"], n_null=0)
    >>> round(sum(reading.values[f"anchor_to_{role}"] for role in ("key", "anchor", "noise")), 6)
    1.0
    """
    shape, places, parts = read.pattern.shape[::2], {}, {}
    queries, looking = role_masks(inputs.roles, query, shape)
    keys, seen = role_masks(inputs.roles, to, shape)
    looking &= read.attends[..., None]
    visible = read.visible & (True if read.attends.all() else read.attends[:, None])
    for (q, asks), (k, asked) in product(enumerate(queries), enumerate(keys)):
        places[f"{asks}_to_{asked}"] = q, k
        parts[f"{asks}_to_{asked}"] = excess(looking[..., q], seen[..., k], visible)
    told = inputs.roles.without_a_role(shape[1]) if not to else ""
    return _between(read, looking, seen, places, parts)._replace(told=told)


def _between(
    read: Attention,
    looking: Looking,
    seen: Seen,
    places: Mapping[str, tuple[int, int]],
    parts: Mapping[str, Excess] = {},
    nulled: Sequence[str] = (),
) -> Found:
    """What some roles give to others: by name, the numbers of both roles and the excess of the
    same.

    All have a null of other rows of the same padding, or those that are ``nulled``.
    """
    pattern, alike, still = read.pattern, read.alike, {}
    total = (looking.astype(float).swapaxes(-1, -2) @ pattern @ seen.astype(float)).sum(0)
    table = _per_query(
        total, looking
    )  # mean attention from the positions of each role to those of each role
    values = {name: float(table[place]) for name, place in places.items()}
    for name, (weights, off, count) in parts.items():
        given = np.einsum("rqk,rq,rk->", pattern, weights, seen[..., places[name][1]])
        values[name + EXCESS] = float((given - off) / count)
    still_q, still_k = (looking == looking[alike]).all((0, 1)), (seen == seen[alike]).all((0, 1))
    named, n_lone, padded = (
        nulled or tuple(places),
        int((np.bincount(alike) == 1).sum()),
        bool(alike.any()),
    )
    for name in named:
        q, k = places[name]
        why = LONE.format(n_lone, len(alike)) if n_lone else ""
        why = STILL.format(" of the same padding" * padded) if still_q[q] and still_k[k] else why
        still |= dict.fromkeys([name, name + EXCESS][: 1 + bool(parts)], why) if why else {}

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng, drawn = np.random.default_rng(seed), {}
        for names in [[name] for name in nulled] or [named]:  # these have draws of their own
            orders = permutations(n_null, len(alike), rng, alike)
            draws = _per_query(other_rows(pattern, looking, seen, orders), looking)
            drawn |= {
                name: Null(PERMUTED, draws[(..., *places[name])] + ROUNDING) for name in names
            }
            for name, (weights, off, count) in parts.items():
                given = other_rows(
                    pattern, weights[..., None], seen[..., [places[name][1]]], orders
                )[:, 0, 0]
                drawn[name + EXCESS] = Null(PERMUTED, (given - off) / count + ROUNDING)
        return drawn

    return Found(values, nulls, {"attention": table}, len(pattern), still=still)


@probe(pattern, place={"layer": 1, "head": 0})
def attention_by_role(read: Attention, inputs: Inputs) -> Found:
    """Attention of the last position by role, on the given rows (memory and reasoning inputs: call
    it on each).

    Values, all in [0, 1]: ``key``, ``anchor_1`` .. ``anchor_q``, ``anchors``, ``self`` and
    ``noise`` (all other noise). Array: ``mean_attention`` ``[L]`` by position. ``key`` and
    ``anchors`` have a null.

    Args:
        inputs: rows, and roles that name the positions of ``key`` and ``anchor``.

    Raises RolesError for missing roles, and where one position has two.
    """
    key, anchors = (inputs.roles.position(role, "attention_by_role") for role in ("key", "anchor"))
    both = np.sort(np.concatenate([key, anchors], 1), 1)
    for row in np.flatnonzero((np.diff(both, axis=1) == 0).any(1))[:1].tolist():
        raise RolesError(
            f"attention_by_role got one position twice in row {row}: key {key[row].tolist()}, "
            f"anchor {anchors[row].tolist()}; give every position of a row one role."
        )
    singles = {f"anchor_{i + 1}": anchors[:, [i]] for i in range(anchors.shape[1])}
    named = {"key": key, **singles, "anchors": anchors}
    last, length = read.pattern[:, -1:], read.pattern.shape[-1]
    seen = {name: _mask(at, length) for name, at in named.items()}
    noise, at_end = ~seen["key"] & ~seen["anchors"], np.arange(length) == length - 1
    seen |= {"self": noise & at_end, "noise": noise & ~at_end}
    looking = np.ones((len(last), 1, 1), dtype=bool)
    places = {role: (0, number) for number, role in enumerate(seen)}
    masks = np.stack(list(seen.values()), 2)
    found = _between(read._replace(pattern=last), looking, masks, places, nulled=NULLED)
    return found._replace(arrays={"mean_attention": last[:, 0].mean(0)})


@probe(pattern)
def attention_to_key(read: Attention, inputs: Inputs) -> Found:
    """Attention of each anchor's position to the key in one head, mean over rows, in [0, 1].

    Values: key_from_anchor_1 .. key_from_anchor_q, key_from_last_anchor. Arrays: attention ``[row,
    q]``.

    Args:
        inputs: rows, and roles that name the positions of ``key`` and ``anchor``; RolesError where
            one is missing.
    """
    anchors, key = (occupied(inputs, role, "attention_to_key") for role in ("anchor", "key"))
    pattern, attends = read.pattern, read.attends
    looking = np.stack([_mask(at[:, None], pattern.shape[-1]) & attends for at in anchors.T], 2)
    seen = _mask(key[:, :1], pattern.shape[-1])[..., None]
    places = {f"key_from_anchor_{j + 1}": (j, 0) for j in range(anchors.shape[1])}
    places["key_from_last_anchor"] = (anchors.shape[1] - 1, 0)
    by_row = pattern[np.arange(len(pattern))[:, None], anchors, key[:, :1]]
    return _between(read, looking, seen, places)._replace(arrays={"attention": by_row})


def _mask(places: Int[np.ndarray, "row n"], length: int) -> Mask:
    mask = np.zeros((len(places), length), dtype=bool)
    np.put_along_axis(mask, places, True, 1)
    return mask


def role_masks(
    roles: Roles, given: str | Sequence[str], shape: tuple[int, ...]
) -> tuple[tuple[str, ...], Bool[np.ndarray, "row pos role"]]:
    """The roles asked for, all by default, and which positions of rows of a shape have which."""
    names = (given,) if isinstance(given, str) else tuple(given) or tuple(roles.positions)
    if not names:
        raise RolesError(
            "attention needs roles and got none; pass Inputs(tokens, roles=Roles({name: "
            "positions}))."
        )
    if len({*names}) < len(names):
        raise RolesError(f"attention got the roles {list(names)}; name each of them once.")
    length, masks = shape[1], np.zeros((*shape, len(names)), dtype=bool)
    for number, name in enumerate(names):
        if name in (LAST, REST) and name not in roles.positions:
            masks[:, :, number] = (
                roles.rest(length) if name == REST else np.arange(length) == length - 1
            )
        else:
            masks[:, :, number] = _mask(roles.position(name, "attention"), length)
    return names, masks


def _per_query(
    total: Float[np.ndarray, "*draw q k"], looking: Looking
) -> Float[np.ndarray, "*draw q k"]:
    """A mean over the queries of each role; NaN without a query."""
    count = looking.sum((0, 1))[:, None]
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def other_rows(
    pattern: Float[np.ndarray, "row query key"],
    looking: Shaped[np.ndarray, "row query q"],
    seen: Seen,
    orders: Int[np.ndarray, "draw row"],
) -> Float[np.ndarray, "draw q k"]:
    """What the queries of each role give to the positions of each role, over all rows, with the
    roles of other rows."""
    asks, asked = looking.any((0, 2)), seen.any((0, 2))
    pattern, looking, seen = (
        pattern[:, asks][:, :, asked],
        looking[:, asks].astype(float),
        seen[:, asked].astype(float),
    )
    n, cells = len(pattern), asks.sum() * asked.sum()
    every = np.zeros(
        (n, n, looking.shape[2], seen.shape[2])
    )  # of each row with the roles of each row
    if not cells:  # nobody asks, or nobody is asked for
        return every[0, orders[:, 0]]
    together = max(1, TOGETHER // (cells * every[0, 0].size))
    for start in range(0, n, together):
        part = slice(start, start + together)
        roles = np.einsum("siq,sjk->ijsqk", looking[part], seen[part])
        every[:, part] = (pattern.reshape(n, -1) @ roles.reshape(cells, -1)).reshape(
            n, *roles.shape[2:]
        )
    return every[np.arange(n), orders].sum(1)


def excess(looking: Mask, seen: Mask, visible: Bool[np.ndarray, "*row query key"]) -> Excess:
    """How the queries ``looking`` count for what they give to the positions ``seen`` beyond as many
    others.

    A query that sees n positions of the role and m others, and gives a to the role, gives a - n (1
    - a) / m beyond: so a counts 1 + n / m times, and n / m is taken off. Queries with m < n have no
      choice and do not count.
    """
    n = (visible.astype(float) @ seen.astype(float)[..., None])[..., 0]
    others = visible.sum(-1) - n
    choice = looking & (n > 0) & (others >= n)
    ratio = np.divide(n, others, out=np.zeros_like(n), where=choice)
    return choice + ratio, float(ratio.sum()), float(choice.sum()) or np.nan


@probe(pattern)
def uniformity(
    read: Attention, inputs: Inputs, *, counted: Bool[np.ndarray, "row pos"] | None = None
) -> Found:
    """How far one head's attention is from uniform, on the given rows.

    Values: ``tv`` in [0, 1] and ``entropy`` (1: uniform), means over inputs and queries;
    ``max_deviation``, the largest abs(A_ij - 1/i) of any input. Arrays: ``tv_per_row`` ``[L - 1]``
    (``[L]`` where attention looks both ways), NaN for a query that counts in no row, and
    ``mean_pattern`` ``[L, L]``, means over inputs. Null of ``tv``: random patterns.

    Args:
        inputs: rows of two positions or more, else ModelError; roles and labels are not needed.
        counted: queries that are text, where rows are filled up behind their end; what fills a row
            is no query. By default all.
    """
    pattern, visible = read.pattern, read.visible
    counted = read.attends & (True if counted is None else counted)
    seen, chooses = visible & read.attends[:, None], visible.sum(1) > 1
    sizes = np.maximum(seen.sum(-1), 1)
    deviation, chosen = (
        np.abs(pattern - seen / sizes[..., None]),
        (counted & (sizes > 1))[:, chooses],
    )
    if not chosen.any():
        raise ModelError(
            f"uniformity got {len(pattern)} rows in which no query that counts attends to anything "
            f"and has a choice."
        )
    distance = deviation[:, chooses].sum(-1) / 2
    entropy = entr(pattern[:, chooses]).sum(-1) / np.log(np.maximum(sizes[:, chooses], 2))
    values = {
        "tv": float(distance[chosen].mean()),
        "max_deviation": float(deviation.max(-1)[counted].max()),
        "entropy": float(entropy[chosen].mean()),
    }
    typical = sizes[
        np.abs(sizes.sum(1) - sizes.sum(1).mean()).argmin()
    ]  # of a row with the usual padding
    n = chosen.sum(0)
    per_row = np.where(n > 0, (distance * chosen).sum(0) / np.maximum(n, 1), np.nan)
    arrays = {"tv_per_row": per_row, "mean_pattern": pattern.mean(0)}
    typical = tuple(typical[typical > 1].tolist())
    return Found(
        values,
        lambda n_null, seed: {"tv": simplex_null(typical, n_null, seed)},
        arrays,
        len(inputs),
    )


@lru_cache(maxsize=64)  # heads share it
def simplex_null(sizes: tuple[int, ...], n_null: int, seed: int) -> Null:
    """TV of patterns whose rows are uniform on the simplex of what each query sees, one pattern for
    all inputs."""
    total, rng = np.zeros(n_null), np.random.default_rng(seed)
    for i in sizes:
        total += np.abs(dirichlet_rows(n_null, i, rng) - 1 / i).sum(1) / 2
    return Null("attention rows drawn uniformly from the simplex", total / len(sizes), side="less")
