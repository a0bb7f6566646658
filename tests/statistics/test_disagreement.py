"""Disagreement of groups by hand, by brute force, and calibrated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from rb_interp.statistics import disagreement as module
from rb_interp.statistics.disagreement import (
    between_less_within,
    disagreement,
    excess_disagreement,
    pair_means,
)

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
    monkeypatch.setattr(module, "RELABELING_CHUNK", at_once)
    assert between_less_within(d, list("abababb")) == together
    assert 1 / 35 < together.p_value < 1


def test_without_a_pair_of_one_kind_there_is_nothing_to_compare():
    for groups in ("aaa", "abc", "a", ""):
        n = len(groups)
        found = between_less_within(np.ones((n, n)) - np.eye(n), list(groups))
        assert math.isnan(found.difference)
        assert math.isnan(found.p_value)
        assert np.isnan(excess_disagreement(np.ones((n, n)), list(groups))).all()
