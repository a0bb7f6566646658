"""Sums, each worked out again."""

from itertools import product

import numpy as np
import pytest

from rb_interp.studies.addition_and_scan.addition import SETS, AdditionTask


@pytest.mark.parametrize(
    ("low", "high", "first", "last", "share"),
    [(0, 14, 4, 6, 0.1), (7, 12, 7, 7, 0.4), (30, 33, 30, 32, 0.0)],
)
def test_every_sum_obeys_the_definition(low, high, first, last, share):
    task = AdditionTask((low, high), (first, last), share)
    data = task.dataset(7)
    numbers = range(low, high + 1)
    found = {}
    for (a, plus, b, equals), answer, name in zip(
        data.tokens.tolist(), data.labels.tolist(), data.roles().set, strict=True
    ):
        assert (plus, equals) == (2 * high + 1, 2 * high + 2)
        assert answer == a + b
        inside = first <= a <= last and first <= b <= last
        assert inside == (name == "block")
        found[(a, b)] = name
    assert set(found) == set(product(numbers, numbers))
    assert len(found) == len(data)
    assert tuple(len(data.rows(name)) for name in SETS) == task.counts
    others = len(data) - task.counts[2]
    assert task.counts[1] == round(share * others)
    assert data.rows("train").tolist() == np.flatnonzero(data.set == 0).tolist()
    assert task.d_vocab == data.tokens.max() + 1 > data.labels.max()


def test_a_seed_draws_the_same_rows_and_another_seed_other_test_rows_alone():
    task = AdditionTask()
    one, again, other = task.dataset(3), task.dataset(3), task.dataset(4)
    np.testing.assert_array_equal(one.set, again.set)
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_array_equal(one.rows("block"), other.rows("block"))
    assert set(one.rows("seen_test")) != set(other.rows("seen_test"))
    for role, token in (("a", 0), ("b", 2), ("last", 3)):
        assert (one.positions[role] == token).all()
