"""Null distributions: what a quantity reads where the mechanism is absent by construction.

Do members of two groups answer differently more often than members of one?

With d_ab the share of rows that members a and b answer differently, G(a) the group of a:

    excess_a   = mean of d_ab over b in other groups - mean of d_ab over b != a in G(a)
    within     = mean of d_ab over pairs of one group
    between    = mean of d_ab over pairs of two groups
    difference = between - within
    p_value    = share of all relabelings of members, group sizes kept, with at least this difference

The relabelings include the one that was seen, and all distinct ones are made where there are at
most MOST_EXACT; else as many as ``n_draws`` are drawn and p_value = (1 + those that reach it) / (1
+ n_draws). The unit is the member: rows of one member share all its faults, so a test over rows
would call any two networks different. Source: Mielke and Berry, "Permutation Methods", 2007
(multi-response permutation procedures).

How it can mislead. Groups of 3 and 2 have 10 relabelings, so p is .1 at least, and no difference
can reach .05. A small difference does not say that two groups do the same: it says that groups
explain nothing of what members do. Members who all fail, each in its own way, disagree within their
group as much as with anyone else, so their excess is about 0 although another group never fails:
look at the means of each group and at accuracy beside it. A group without a mechanism in common is
compared all the same.
"""

import math
from collections.abc import Sequence
from functools import cache
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigvalsh_tridiagonal

from rb_interp.arguments import checked

__all__ = [
    "Comparison",
    "between_less_within",
    "dirichlet_rows",
    "disagreement",
    "excess_disagreement",
    "gaussian_product_singular_values",
    "gaussian_singular_values",
    "pair_means",
    "permutations",
    "random_directions",
    "random_subspaces",
]


@checked
def random_directions(
    n_draws: int, dim: int, rng: np.random.Generator
) -> Float[np.ndarray, "draw dim"]:
    """Unit vectors, uniform on the sphere.

    The mean absolute cosine with any fixed vector is Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)), about
    sqrt(2 / (pi d)).

    >>> np.linalg.norm(random_directions(2, 5, np.random.default_rng(0)), axis=1).round(12).tolist()
    [1.0, 1.0]
    """
    draws = rng.standard_normal((n_draws, dim))
    return draws / np.linalg.norm(draws, axis=1, keepdims=True)


@checked
def random_subspaces(
    n_draws: int, dim: int, k: int, rng: np.random.Generator
) -> Float[np.ndarray, "draw dim k"]:
    """Orthonormal bases of k-dimensional subspaces, uniform (Haar); k is at most dim.

    A fixed vector has the share k / dim of its squared norm inside, on average.

    >>> basis = random_subspaces(1, 5, 2, np.random.default_rng(0))[0]
    >>> bool(np.allclose(basis.T @ basis, np.eye(2)))
    True
    """
    return np.linalg.qr(rng.standard_normal((n_draws, dim, k)))[0]


@checked
def dirichlet_rows(
    n_draws: int, length: int, rng: np.random.Generator
) -> Float[np.ndarray, "draw length"]:
    """Probability vectors, uniform on the simplex (Dirichlet(1, ..., 1)).

    Their total variation distance from the uniform vector has mean (1 - 1/length)^length: each
    entry is Beta(1, length - 1).

    >>> dirichlet_rows(2, 3, np.random.default_rng(0)).sum(1).round(12).tolist()
    [1.0, 1.0]
    """
    draws = rng.standard_exponential((n_draws, length))
    return draws / draws.sum(1, keepdims=True)


@checked
def permutations(
    n_draws: int, n: int, rng: np.random.Generator, groups: Int[np.ndarray, " n"] | int = 0
) -> Int[np.ndarray, "draw n"]:
    """Independent random permutations of 0..n-1, one a row, each within the groups.

    >>> sorted(permutations(3, 4, np.random.default_rng(0))[1].tolist())
    [0, 1, 2, 3]
    """
    orders = np.tile(np.arange(n), (n_draws, 1))
    for group in np.unique(groups):
        at = np.flatnonzero(np.broadcast_to(groups, n) == group)
        orders[:, at] = rng.permuted(orders[:, at], axis=1)
    return orders


@checked
def gaussian_singular_values(
    n_draws: int, rows: int, columns: int, rng: np.random.Generator, top: int = 2
) -> Float[np.ndarray, "draw top"]:
    """Leading singular values, largest first, of matrices of independent standard normals.

    Drawn without the matrices: a Gaussian matrix reduces to a bidiagonal one of independent chi
    variables (Dumitriu and Edelman, "Matrix models for beta ensembles", 2002). `top` is at most
    min(rows, columns).

    >>> values = gaussian_singular_values(1, 64, 32, np.random.default_rng(0))[0]
    >>> bool(values[0] > values[1] > 0)
    True
    """
    n, m = max(rows, columns), min(rows, columns)
    diagonal = np.sqrt(rng.chisquare(np.arange(n, n - m, -1), (n_draws, m)))
    below = np.sqrt(rng.chisquare(np.arange(m - 1, 0, -1), (n_draws, m - 1)))
    main = diagonal**2
    main[:, 1:] += below**2
    side = diagonal[:, :-1] * below
    window = (m - top, m - 1)
    squared = [
        eigvalsh_tridiagonal(d, e, select="i", select_range=window)
        for d, e in zip(main, side, strict=True)
    ]
    return np.sqrt(np.maximum(np.array(squared).reshape(n_draws, top), 0))[:, ::-1]


@checked
def gaussian_product_singular_values(
    n_draws: int, outer: int, inner: int, rng: np.random.Generator, top: int = 2
) -> Float[np.ndarray, "draw top"]:
    """Leading singular values, largest first, of A B with A [outer, inner] and B [inner, outer] of
    standard normals.

    A and B^T have QR decompositions, so A B has the singular values of R_A R_B^T. R of a Gaussian
    matrix that is not wide has independent entries: chi variables on the diagonal and normals above
    it (Bartlett). `top` is at most the smaller size.

    >>> values = gaussian_product_singular_values(1, 64, 32, np.random.default_rng(0))[0]
    >>> bool(values[0] > values[1] > 0)
    True
    """
    if inner > outer:
        R = rng.standard_normal((2, n_draws, outer, inner))
    else:
        R = np.triu(rng.standard_normal((2, n_draws, inner, inner)), 1)
        R += np.sqrt(rng.chisquare(np.arange(outer, outer - inner, -1), (2, n_draws, inner)))[
            ..., None
        ] * np.eye(inner)
    return np.linalg.svd(R[0] @ R[1].swapaxes(1, 2), compute_uv=False)[:, :top]


MOST_EXACT = 1_000_000
"""Every relabeling is made where there are at most this many: groups of 4, 14 and 2 have
581,400."""
AT_ONCE = 50_000
"""Relabelings that are looked at together, for memory."""


def disagreement(answers: Int[np.ndarray, "member row"]) -> Float[np.ndarray, "member member"]:
    """Share of rows that two members answer differently, in [0, 1], symmetric with 0 on the
    diagonal.

    >>> disagreement(np.array([[1, 2, 3, 4], [1, 2, 0, 0]])).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    return np.array([[float((one != other).mean()) for other in answers] for one in answers])


def excess_disagreement(
    d: Float[np.ndarray, "member member"], groups: Sequence[str]
) -> Float[np.ndarray, " member"]:
    """Each member's mean disagreement with other groups less that with its own group, in [-1, 1].

    ``groups`` has one name a member. NaN for a member with no partner in its group, or none in
    another.

    >>> d = np.array([[0.0, 0.1, 0.5], [0.1, 0.0, 0.7], [0.5, 0.7, 0.0]])
    >>> excess_disagreement(d, ["a", "a", "b"]).round(3).tolist()
    [0.4, 0.6, nan]
    """
    same = np.equal.outer(np.array(groups), np.array(groups))
    own = same & ~np.eye(len(same), dtype=bool)
    return _row_means(d, ~same) - _row_means(d, own)


def pair_means(
    d: Float[np.ndarray, "member member"], groups: Sequence[str]
) -> dict[tuple[str, str], np.ndarray]:
    """Disagreement of every pair of members, by their two groups in alphabetical order; no entry
    without a pair.

    >>> d = np.array([[0.0, 0.1, 0.5], [0.1, 0.0, 0.7], [0.5, 0.7, 0.0]])
    >>> {names: pairs.tolist() for names, pairs in pair_means(d, ["a", "a", "b"]).items()}
    {('a', 'a'): [0.1], ('a', 'b'): [0.5, 0.7]}
    """
    names = [tuple(sorted(pair)) for pair in combinations(groups, 2)]
    above = d[np.triu_indices(len(d), 1)]
    every = combinations_with_replacement(sorted({*groups}), 2)
    each = {pair: above[[name == pair for name in names]] for pair in every}
    return {pair: values for pair, values in each.items() if len(values)}


class Comparison(NamedTuple):
    """Within against between groups; NaN throughout where there is no pair of one kind.

    Attributes:
        within, between: mean over pairs of members of one group, and of two. difference: between
            less within.
        p_value: one-sided, in (0, 1]. n_relabelings: how many p_value rests on. exact: whether
            these are all.
    """

    within: float
    between: float
    difference: float
    p_value: float
    n_relabelings: int
    exact: bool


def between_less_within(
    d: Float[np.ndarray, "member member"], groups: Sequence[str], n_draws: int = 9999, seed: int = 0
) -> Comparison:
    """Mean disagreement between groups less that within, with its permutation test over members.

    ``groups`` has one name a member. Random relabelings are drawn only where there are more than
    MOST_EXACT.

    >>> d = np.ones((4, 4)) - np.eye(4)
    >>> d[0, 1] = d[1, 0] = d[2, 3] = d[3, 2] = 0
    >>> found = between_less_within(d, ["a", "a", "b", "b"])
    >>> found.difference, round(found.p_value, 3)  # one of three ways to make two pairs
    (1.0, 0.333)
    """
    codes = np.unique(np.array(groups, dtype=str), return_inverse=True)[1]
    sizes, pairs = tuple(np.bincount(codes).tolist()), math.comb(len(codes), 2)
    n_within = sum(math.comb(size, 2) for size in sizes)
    if n_within in (0, pairs):
        return Comparison(math.nan, math.nan, math.nan, math.nan, 0, exact=False)
    total = float(d.sum()) / 2

    def difference(
        labels: Int[np.ndarray, "relabeling member"],
    ) -> Float[np.ndarray, " relabeling"]:
        each = [(labels == group).astype(float) for group in range(len(sizes))]
        inside = np.sum([((of @ d) * of).sum(1) for of in each], axis=0) / 2
        return (total - inside) / (pairs - n_within) - inside / n_within

    seen = float(difference(codes[None])[0])
    exact = math.factorial(sum(sizes)) // math.prod(map(math.factorial, sizes)) <= MOST_EXACT
    labels = (
        _every_relabeling(sizes)
        if exact
        else codes[permutations(n_draws, len(codes), np.random.default_rng(seed))]
    )
    parts = np.array_split(labels, math.ceil(len(labels) / AT_ONCE))
    reached = sum(int((difference(part) >= seen - 1e-12).sum()) for part in parts)
    p_value = reached / len(labels) if exact else (1 + reached) / (1 + len(labels))
    pair = np.triu_indices(len(d), 1)
    same = np.equal.outer(codes, codes)[pair]
    within, between = (float(d[pair][chosen].mean()) for chosen in (same, ~same))
    return Comparison(within, between, between - within, p_value, len(labels), exact)


def _row_means(d: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    n = chosen.sum(1)
    return np.divide((d * chosen).sum(1), n, out=np.full(len(d), np.nan), where=n > 0)


@cache
def _every_relabeling(sizes: tuple[int, ...]) -> Int[np.ndarray, "relabeling member"]:
    """Every distinct way to give members the groups 0, 1, ... of these sizes, one a row."""
    last = len(sizes) - 1
    labels = np.full((1, sum(sizes)), last, dtype=np.int8)
    for group, size in enumerate(sizes[:-1]):
        free = np.nonzero(labels == last)[1].reshape(len(labels), -1)
        places = free[:, np.array(list(combinations(range(free.shape[1]), size)))]
        labels = np.repeat(labels, places.shape[1], axis=0)
        np.put_along_axis(labels, places.reshape(-1, size), group, 1)
    return labels
