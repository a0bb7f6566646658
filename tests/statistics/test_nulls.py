"""Nulls against closed forms within standard errors; disagreement of groups by hand, by brute
force, and calibrated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from rb_interp.statistics import nulls as module
from rb_interp.statistics.nulls import (
    between_less_within,
    dirichlet_rows,
    disagreement,
    excess_disagreement,
    gaussian_product_singular_values,
    gaussian_singular_values,
    pair_means,
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


ANSWERS = np.array([[1, 1, 1, 1], [1, 1, 1, 2], [3, 3, 1, 1], [3, 3, 3, 1], [7, 7, 7, 7]])
GROUPS = ["a", "a", "b", "b", "c"]
D = (
    np.array([[0, 1, 2, 3, 4], [1, 0, 3, 4, 4], [2, 3, 0, 1, 4], [3, 4, 1, 0, 4], [4, 4, 4, 4, 0]])
    / 4
)


def test_five_members_by_hand():
    d = disagreement(ANSWERS)
    np.testing.assert_array_equal(d, D)
    np.testing.assert_allclose(
        excess_disagreement(d, GROUPS),
        [3 / 4 - 1 / 4, 11 / 12 - 1 / 4, 3 / 4 - 1 / 4, 11 / 12 - 1 / 4, np.nan],
    )
    pairs = {names: sorted(values) for names, values in pair_means(d, GROUPS).items()}
    assert pairs == {
        ("a", "a"): [1 / 4],
        ("a", "b"): [2 / 4, 3 / 4, 3 / 4, 1],
        ("a", "c"): [1, 1],
        ("b", "b"): [1 / 4],
        ("b", "c"): [1, 1],
    }
    found = between_less_within(d, GROUPS)
    assert (found.within, found.between, found.difference) == (1 / 4, 7 / 8, 5 / 8)
    assert (found.p_value, found.n_relabelings, found.exact) == (
        2 / 30,
        30,
        True,
    )  # a and b may change places


@pytest.mark.parametrize("groups", ["aabbc", "aaaab", "aabcc"])
def test_the_test_counts_every_distinct_relabeling(groups):
    rng = np.random.default_rng(len(groups))
    d = disagreement(rng.integers(0, 3, (len(groups), 40)))

    def difference(names):
        kinds = {True: [], False: []}
        for i in range(len(names)):
            for j in range(i):
                kinds[names[i] == names[j]].append(d[i, j])
        return np.mean(kinds[False]) - np.mean(kinds[True])

    every = [difference(names) for names in set(itertools.permutations(groups))]
    found = between_less_within(d, list(groups))
    assert found.difference == pytest.approx(difference(groups))
    assert found.p_value == pytest.approx(np.mean(np.array(every) >= difference(groups) - 1e-12))
    assert found.n_relabelings == len(every)


@pytest.mark.parametrize("exact", [True, False])
def test_p_is_uniform_where_groups_mean_nothing(exact, monkeypatch):
    if not exact:
        monkeypatch.setattr(module, "MOST_EXACT", 0)
    rng, groups = np.random.default_rng(5), list("aaabbbb")
    found = [
        between_less_within(np.abs(np.subtract.outer(x, x)), groups, n_draws=69, seed=seed)
        for seed, x in enumerate(rng.normal(size=(100, 7)))
    ]
    assert {one.exact for one in found} == {exact}
    p, steps = np.array([one.p_value for one in found]), 35 if exact else 70
    for level in (
        0.2,
        0.4,
        0.6,
        0.8,
    ):  # multiples of 1 / 35 and of 1 / 70, so the chance of p <= level is the level
        assert round(level * steps, 9).is_integer()
        assert abs((p <= level + 1e-9).mean() - level) < 4 * math.sqrt(level * (1 - level) / len(p))
    spread = math.sqrt((1 - 1 / steps**2) / 12)
    assert abs(p.mean() - (1 + 1 / steps) / 2) < 4 * spread / math.sqrt(len(p))


def test_drawn_relabelings_count_the_one_that_was_seen(monkeypatch):
    monkeypatch.setattr(module, "MOST_EXACT", 0)
    answers = np.repeat(
        [[1]] * 8 + [[2]] * 8, 10, axis=1
    )  # one of 6,435 ways; 19 draws will not find it
    assert (
        between_less_within(disagreement(answers), list("a" * 8 + "b" * 8), n_draws=19).p_value
        == 1 / 20
    )


@pytest.mark.parametrize("at_once", [1, 7])
def test_relabelings_are_looked_at_in_parts(at_once, monkeypatch):
    d = np.abs(np.subtract.outer(x := np.arange(7) ** 2.0, x))
    together = between_less_within(d, list("abababb"))
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    assert between_less_within(d, list("abababb")) == together
    assert 1 / 35 < together.p_value < 1


def test_without_a_pair_of_one_kind_there_is_nothing_to_compare():
    for groups in ("aaa", "abc", "a", ""):
        n = len(groups)
        found = between_less_within(np.ones((n, n)) - np.eye(n), list(groups))
        assert math.isnan(found.difference)
        assert math.isnan(found.p_value)
        assert np.isnan(excess_disagreement(np.ones((n, n)), list(groups))).all()
