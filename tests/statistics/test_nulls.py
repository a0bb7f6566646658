"""Nulls against closed forms, within standard errors."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import ks_2samp

from rb_interp.statistics.nulls import (
    dirichlet_rows,
    gaussian_product_singular_values,
    gaussian_singular_values,
    permutations,
    random_directions,
    random_subspaces,
)


def near(draws: np.ndarray, mean: float) -> bool:
    """Whether the draws' mean lies within 4 standard errors of what it should be."""
    return bool(abs(draws.mean() - mean) < 4 * draws.std() / math.sqrt(draws.size))


def test_directions_are_isotropic():
    d = 16
    directions = random_directions(4000, d, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)
    expected = math.gamma(d / 2) / (math.sqrt(math.pi) * math.gamma((d + 1) / 2))
    assert all(
        near(np.abs(directions[:, i]), expected) and near(directions[:, i], 0) for i in (0, 7, 15)
    )


def test_subspaces_hold_k_of_d_of_every_vector():
    d, k = 12, 3
    bases = random_subspaces(3000, d, k, np.random.default_rng(1))
    np.testing.assert_allclose(
        bases.transpose(0, 2, 1) @ bases, np.broadcast_to(np.eye(k), (3000, k, k)), atol=1e-12
    )
    for vector in (
        np.eye(d)[0],
        np.ones(d) / math.sqrt(d),
        np.arange(d) / np.linalg.norm(np.arange(d)),
    ):
        assert near(((vector @ bases) ** 2).sum(1), k / d)


def test_dirichlet_rows_have_the_exact_mean_distance_from_uniform():
    for i in (2, 5, 9):
        rows = dirichlet_rows(4000, i, np.random.default_rng(i))
        np.testing.assert_allclose(rows.sum(1), 1)
        assert near(np.abs(rows - 1 / i).sum(1) / 2, (1 - 1 / i) ** i)


def test_permutations_put_every_element_everywhere():
    n, draws = 6, 6000
    found = permutations(draws, n, np.random.default_rng(2))
    assert (np.sort(found, 1) == np.arange(n)).all()
    shares = np.stack([(found == element).mean(0) for element in range(n)])
    assert np.abs(shares - 1 / n).max() < 4.5 * math.sqrt(1 / n * (1 - 1 / n) / draws)


def test_bidiagonal_draws_are_those_of_the_full_matrix():
    """Dumitriu and Edelman (2002): the same distribution, for tall and wide matrices and the
    smallest shapes."""
    for shape in ((20, 7), (7, 20), (2, 2)):
        rng = np.random.default_rng(3)
        direct = np.linalg.svd(rng.standard_normal((600, *shape)), compute_uv=False)[:, :2]
        drawn = gaussian_singular_values(600, *shape, rng)
        assert min(ks_2samp(direct[:, i], drawn[:, i]).pvalue for i in (0, 1)) > 0.01
        assert ks_2samp(direct[:, 0] / direct[:, 1], drawn[:, 0] / drawn[:, 1]).pvalue > 0.01


def test_products_are_those_of_the_full_matrices():
    for outer, inner in ((20, 7), (7, 20), (2, 2)):
        rng = np.random.default_rng(5)
        A, B = rng.standard_normal((600, outer, inner)), rng.standard_normal((600, inner, outer))
        direct = np.linalg.svd(A @ B, compute_uv=False)[:, :2]
        drawn = gaussian_product_singular_values(600, outer, inner, rng)
        assert min(ks_2samp(direct[:, i], drawn[:, i]).pvalue for i in (0, 1)) > 0.01
        assert ks_2samp(direct[:, 0] / direct[:, 1], drawn[:, 0] / drawn[:, 1]).pvalue > 0.01
