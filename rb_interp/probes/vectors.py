"""Measures of a set of vectors: cosines, components, effective dimension, rank correlations.

Pure numpy in float64. A value that nothing defines (one vector, no variance, not finite) is nan,
without a warning.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Num

__all__ = [
    "cosines",
    "expected_abs_cos",
    "participation",
    "pearson",
    "principal_components",
    "spearman",
]


def cosines(vectors: Float[np.ndarray, "token d"]) -> Float[np.ndarray, "token token"]:
    """Cosine of every pair of rows, in [-1, 1]; nan where a row is zero.

    >>> cosines(np.array([[1.0, 0.0], [3.0, 3.0]])).round(3).tolist()
    [[1.0, 0.707], [0.707, 1.0]]
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(norms > 0, norms, np.nan)
    return unit @ unit.T


def expected_abs_cos(d_model: int) -> float:
    """Mean abs(cos) of two independent random directions in d_model dimensions (E4's reference), in
    (0, 1].

    >>> round(expected_abs_cos(3), 6), round(expected_abs_cos(200) * math.sqrt(200 * math.pi / 2), 2)
    (0.5, 1.0)
    """
    log_ratio = math.lgamma(d_model / 2) - math.lgamma((d_model + 1) / 2)
    return math.exp(log_ratio) / math.sqrt(math.pi)


def principal_components(
    vectors: Float[np.ndarray, "token d"],
) -> tuple[Float[np.ndarray, "token component"], Float[np.ndarray, " component"]]:
    """Scores on the principal components of the centred rows, and each one's share of variance.

    All shares are 0 for no variance.

    Signs are fixed so that the first row lies on the negative side of every component. Rows that
    are not all finite have no components: everything is nan.
    """
    if len(vectors) == 0 or not np.isfinite(vectors).all():
        return np.full((len(vectors), 1), np.nan), np.full(1, np.nan)
    left, singular, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    total = float((singular**2).sum())
    scores = left * singular * np.where(left[0] > 0, -1.0, 1.0)
    return scores, singular**2 / total if total > 0 else singular


def participation(vectors: Float[np.ndarray, "token d"]) -> float:
    """Participation ratio (sum l)^2 / sum l^2 of the centred rows' spectrum: the effective number
    of dimensions.

    >>> participation(np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]]))
    2.0
    """
    _, share = principal_components(vectors)
    return 1 / float((share**2).sum()) if share.any() else math.nan


def mean_off_diagonal(matrix: Float[np.ndarray, "token token"]) -> float:
    """Mean over pairs of distinct rows; nan for fewer than two."""
    return float(pairs(matrix).mean()) if len(matrix) > 1 else math.nan


def pairs(matrix: Num[np.ndarray, "*draw token token"]) -> Num[np.ndarray, "*draw pair"]:
    """The entries above the diagonal, row by row."""
    first, second = np.triu_indices(matrix.shape[-1], 1)
    return matrix[..., first, second]


def ranked_pairs(matrix: Num[np.ndarray, "token token"]) -> Float[np.ndarray, "token token"]:
    """Ranks of a symmetric matrix's entries above the diagonal, mirrored; 0 on the diagonal."""
    ranked = np.zeros(matrix.shape)
    first, second = np.triu_indices(len(matrix), 1)
    ranked[first, second] = ranked[second, first] = ranks(matrix[first, second])
    return ranked


def ranks(values: np.ndarray) -> Float[np.ndarray, " n"]:
    """Ranks from 1, ties sharing their mean (scipy.stats.rankdata)."""
    from scipy.stats import rankdata

    return rankdata(values)


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's rank correlation, in [-1, 1]; nan where one side does not vary or is not finite.

    >>> round(spearman(np.array([1, 2, 3]), np.array([10.0, 30.0, 20.0])), 9)
    0.5
    """
    return pearson(ranks(x), ranks(y)) if np.isfinite(y).all() else math.nan


def pearson(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation, in [-1, 1].

    nan if one side does not vary or has fewer than two entries.
    """
    rows = np.asarray(x, dtype=np.float64)[None]
    return float(row_correlations(rows, np.asarray(y, dtype=np.float64))[0])


def row_correlations(
    rows: Float[np.ndarray, "draw n"], y: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " draw"]:
    """Pearson's correlation of every row with y; nan where either does not vary."""
    if len(y) < 2:
        return np.full(len(rows), np.nan)
    rows = rows - rows.mean(1, keepdims=True)
    y = y - y.mean()
    norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(y)
    return rows @ y / np.where(norms > 0, norms, np.nan)


def gaussian_participations(
    n_draws: int, n: int, d_model: int, rng: np.random.Generator
) -> Float[np.ndarray, " draw"]:
    """Participation ratios of n independent Gaussian vectors, centred; nan for fewer than two.

    Drawn from the bidiagonal form of a Gaussian matrix, see
    ``statistics.nulls.gaussian_singular_values``, of whose squared values only the sum and the sum
    of squares are needed.
    """
    large = max(n - 1, d_model)
    small = min(n - 1, d_model)
    if small < 1:
        return np.full(n_draws, np.nan)
    diagonal = rng.chisquare(np.arange(large, large - small, -1), (n_draws, small))
    below = rng.chisquare(np.arange(small - 1, 0, -1), (n_draws, small - 1))
    main = diagonal.copy()
    main[:, 1:] += below
    beside = (diagonal[:, :-1] * below).sum(1)
    return main.sum(1) ** 2 / ((main**2).sum(1) + 2 * beside)


def gram_participations(gram: Float[np.ndarray, "draw n n"]) -> Float[np.ndarray, " draw"]:
    """Participation ratio of each set of vectors from their inner products, centred: (tr G)^2 /
    tr(G^2)."""
    columns = gram.mean(1, keepdims=True)
    rows = gram.mean(2, keepdims=True)
    centred = gram - columns - rows + gram.mean((1, 2), keepdims=True)
    size = (centred**2).sum((1, 2))
    trace = np.trace(centred, axis1=1, axis2=2)
    return trace**2 / np.where(size > 0, size, np.nan)
