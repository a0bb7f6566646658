"""Typical tokens and their matches by hand."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from rb_interp.probes.typical import (
    frequency_ratio,
    matched,
    nearest_tokens,
    token_table,
    typical_tokens,
)

HAND = np.array([[19, 20, 30, 28, 0, 0, 300, 603], [0, 0, 1, 2, 500, 19, 29, 449]])
"""Both corpora have 1,000 tokens, so that the smoothed ratio is (a + 1) / (b + 1)."""


def test_a_token_needs_both_enough_occurrences_and_the_ratio():
    """Token 0 is one short of 20, token 3 has 29 / 3; token 6 has 301 / 30 in spite of 29 in the
    other corpus."""
    assert HAND.sum(1).tolist() == [1000, 1000]
    np.testing.assert_allclose(
        frequency_ratio(HAND)[[1, 2, 6, 7]], [21, 31 / 2, 301 / 30, 604 / 450]
    )
    found = typical_tokens(HAND)
    assert (found.prontoqa.tolist(), found.stories.tolist()) == ([6, 2, 1], [4])


def test_frequencies_count_and_not_occurrences():
    """A corpus of ten times the length has ten times the counts and the same typical tokens."""
    counts = np.zeros((2, 40), dtype=np.int64)
    counts[0, :10], counts[1, 10:20], counts[:, 20:] = 50_000, 500_000, [[5_000], [60_000]]
    found = typical_tokens(counts)
    assert (sorted(found.prontoqa), sorted(found.stories)) == (list(range(10)), list(range(10, 20)))


def test_the_match_is_the_best_of_all_one_to_one_matches():
    rng = np.random.default_rng(0)
    for _ in range(20):
        totals = rng.integers(20, 2000, 10)
        wanted, offered = np.arange(4), np.arange(4, 10)
        control, mismatch = matched(totals, wanted, offered)
        costs = [
            np.abs(np.log(totals[wanted] / totals[list(others)])).mean()
            for others in permutations(offered, 4)
        ]
        assert mismatch == pytest.approx(min(costs))
        assert len(set(control.tolist())) == 4
        assert np.abs(np.log(totals[wanted] / totals[control])).mean() == pytest.approx(mismatch)


def test_the_second_direction_takes_the_nearest_of_prontoqas_and_leaves_out_what_has_none():
    """Totals 100 and 40 of PrOntoQA; 63 and 64 lie on either side of sqrt(100 * 40) = 63.2, 39 and
    101 outside."""
    totals = np.array([100, 40, 63, 64, 39, 101, 40])
    within, counterpart, mismatch = nearest_tokens(totals, np.array([0, 1]), np.arange(2, 7))
    assert (within.tolist(), counterpart.tolist()) == ([2, 3, 6], [1, 0, 1])
    assert mismatch == pytest.approx((math.log(63 / 40) + math.log(100 / 64)) / 3)
    for offered, wanted in (([0, 1], [4, 5]), ([], [2]), ([0], [])):
        none = nearest_tokens(totals, np.array(offered, dtype=int), np.array(wanted, dtype=int))
        assert (none[0].size, none[1].size, math.isnan(none[2])) == (0, 0, True)


def test_equal_frequencies_match_exactly_by_the_count_in_both_corpora():
    counts = np.array([[90, 40, 0, 0, 7, 500], [0, 0, 40, 120, 83, 389]])
    found = typical_tokens(counts)
    assert (found.prontoqa.tolist(), found.stories.tolist()) == ([0, 1], [3, 4, 2])
    assert found.control.tolist() == [4, 2]  # token 4 has 83 + 7 occurrences
    assert found.mismatch == 0


def test_table_shows_each_typical_token_with_the_ratio_of_its_own_corpus():
    counts = np.array([[50, 0, 0, 950], [0, 100, 51, 849]])
    table = token_table(counts, [" is", " dog", " ran", "."])
    assert [(row["token"], row["text"], row["corpus"], row["control"]) for row in table] == [
        (0, " is", "prontoqa", False),
        (1, " dog", "stories", False),
        (2, " ran", "stories", True),
    ]
    assert [row["ratio"] for row in table] == pytest.approx([51, 101, 52])
    assert [row["counterpart"] for row in table] == [0, 0, 0]  # 51 and 100 are not within 50 to 50
    assert (table[1]["count_prontoqa"], table[1]["count_stories"]) == (0, 100)
