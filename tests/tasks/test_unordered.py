"""Labels without order, and keys in balance."""

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from rb_interp.errors import TaskError
from rb_interp.tasks import SETS
from rb_interp.tasks.anchor import AnchorTask, range_entropy

SIZES: dict[str, Any] = {
    "length": 3,
    "masked": ((11, 13), (13, 11)),
    "balanced_keys": True,
    "n_sequences": 2000,
}


def listing(**changes: Any) -> AnchorTask:
    """All inputs of three positions, each once, with some settings changed."""
    return AnchorTask(**{**SIZES, **changes})


def labels_of(data) -> dict[tuple[int, ...], set[int]]:
    """Key and ordered anchors of each memory row -> its labels."""
    found = defaultdict(set)
    for row in data.rows("mem").tolist():
        key, anchors = (
            data.tokens[row, data.key_position[row]],
            data.tokens[row, data.anchor_positions[row]],
        )
        found[(int(key), *anchors.tolist())].add(int(data.labels[row]))
    return found


THREE = {"q": 3, "length": 4, "keys": (21, 24), "n_sequences": 1000}


@pytest.mark.parametrize("labels", [{}, {"memory_labels": "near_sum"}, THREE])
def test_unordered_labels_are_those_of_every_order(labels):
    task = listing(masked=(), unordered=True, **labels)
    found = labels_of(task.dataset(1))
    assert len(found) == len(task.tokens("key")) * 5**task.q
    for (key, *anchors), label in found.items():
        assert label == found[(key, *sorted(anchors))]
        assert len(label) == 1
    ordered = labels_of(listing(masked=(), **labels).dataset(1))
    for (key, *anchors), label in ordered.items():
        if anchors == sorted(anchors):
            assert label == found[(key, *anchors)]  # the label of the ascending order serves all
    assert sum(label != found[given] for given, label in ordered.items()) > 0.3 * len(found)


@pytest.mark.parametrize("unordered", [False, True])
def test_labels_keep_their_distribution(unordered):
    """Over seeds: uniform on the keys for each combination, of equal or of different anchors."""
    few: dict[str, Any] = {
        "memory_anchors": (1, 2),
        "reasoning_anchors": (11, 12),
        "masked": (),
        "n_sequences": 80,
    }
    task = listing(keys=(21, 30), unordered=unordered, **few)
    tables = (
        np.array([task.dataset(seed).label_table for seed in range(100)]) - 21
    )  # seed, combination, key
    for combination in range(4):
        counts = np.bincount(tables[:, combination].reshape(-1), minlength=10)
        chi_squared = ((counts - 100) ** 2 / 100).sum()
        assert abs(chi_squared - 9) < 5 * math.sqrt(2 * 9), combination
    agree = (tables[:, 1] == tables[:, 2]).mean()
    assert agree == 1 if unordered else abs(agree - 0.1) < 5 * math.sqrt(0.09 / 1000)


def test_each_new_field_changes_nothing_else():
    plain = listing(balanced_keys=False).dataset(0)
    unordered = listing(balanced_keys=False, unordered=True).dataset(0)
    balanced = listing().dataset(0)
    np.testing.assert_array_equal(unordered.tokens, plain.tokens)
    changed = np.flatnonzero(unordered.labels != plain.labels)
    anchors = plain.tokens[changed, 1:]
    assert len(changed) > 300
    assert (plain.set[changed] == SETS.index("mem")).all()
    assert (
        anchors[:, 0] > anchors[:, 1]
    ).all()  # the later order takes the label of the earlier one
    np.testing.assert_array_equal(balanced.label_table, plain.label_table)
    np.testing.assert_array_equal(balanced.tokens[:, 1:], plain.tokens[:, 1:])


@pytest.mark.parametrize(("repeats", "length"), [(1, 3), (3, 3), (1, 6)])
def test_balanced_keys_stand_equally_often_with_each_combination(repeats, length):
    task = listing(n_sequences=repeats * 2000, length=length)
    data = task.dataset(2)
    at = np.column_stack([data.key_position, data.anchor_positions])
    counts = Counter(map(tuple, np.take_along_axis(data.tokens, at, 1).tolist()))
    assert len(counts) == 50 * 40
    assert set(counts.values()) == {repeats}
    for row in data.rows("rsn_test").tolist():
        assert sorted(data.tokens[row, data.anchor_positions[row]].tolist()) == [11, 13]
    assert len(data.rows("rsn_test")) == repeats * 2 * 40


def test_keys_that_cannot_be_balanced_say_how_many_rows_can():
    message = "15 rows for each memory combination and 15 for each reasoning combination are no multiple of 40 keys"
    with pytest.raises(TaskError, match=f"{message}.*n_sequences=2000 works"):
        listing(n_sequences=750)


def test_range_entropy_by_hand():
    task = AnchorTask(length=3, balanced_keys=True, n_sequences=2000, memory_labels="near_sum")
    sums = np.add.outer(
        np.arange(1, 6), np.arange(1, 6)
    )  # every ordered pair of memory anchors, equally often
    assert range_entropy(task.dataset(seed=0)) == pytest.approx(np.log(2 * sums + 1).mean())
