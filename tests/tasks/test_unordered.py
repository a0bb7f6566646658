"""Labels without order, keys in balance, and the loss that ordered labels leave to a model that knows no order."""

import math
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rb_interp.errors import TaskError
from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import SETS
from rb_interp.tasks.anchor import AnchorTask
from rb_interp.tasks.labels import irreducible_loss, range_entropy
from rb_interp.training.config import TrainConfig
from rb_interp.training.plain import evaluate_model, train_model

SIZES: dict[str, Any] = {"length": 3, "masked": ((11, 13), (13, 11)), "balanced_keys": True, "n_sequences": 2000}
TINY: dict[str, Any] = {
    "length": 3, "keys": (10, 13), "memory_anchors": (0, 2), "reasoning_anchors": (5, 6), "masked": (),
    "d_vocab": 26, "n_sequences": 288, "balanced_keys": True,
}  # fmt: skip


def listing(**changes: Any) -> AnchorTask:
    """All inputs of three positions, each once, with some settings changed."""
    return AnchorTask(**{**SIZES, **changes})


def labels_of(data) -> dict[tuple[int, ...], set[int]]:
    """Key and ordered anchors of each memory row -> its labels."""
    found = defaultdict(set)
    for row in data.rows("mem").tolist():
        key, anchors = data.tokens[row, data.key_position[row]], data.tokens[row, data.anchor_positions[row]]
        found[(int(key), *anchors.tolist())].add(int(data.labels[row]))
    return found


@pytest.mark.parametrize("labels", [{}, {"memory_labels": "near_sum"}, {"q": 3, "length": 4, "n_sequences": 20_000}])
def test_unordered_labels_are_those_of_every_order(labels):
    task = listing(masked=(), unordered=True, **labels)
    found = labels_of(task.dataset(1))
    assert len(found) == 40 * 5**task.q
    for (key, *anchors), label in found.items():
        assert label == found[(key, *sorted(anchors))]
        assert len(label) == 1
    ordered = labels_of(listing(masked=(), **labels).dataset(1))
    for (key, *anchors), label in ordered.items():
        if anchors == sorted(anchors):
            assert label == found[(key, *anchors)]  # the label of the ascending order serves all
    assert sum(label != found[given] for given, label in ordered.items()) > 0.3 * len(found)


def test_groups_of_label_ranges_stay_their_own():
    task = listing(
        memory_labels="ranges",
        label_ranges=((30, 49), (70, 89)),
        memory_anchors=(1, 4),
        unordered=True,
        n_sequences=16_000,
    )
    for (_, first, second), label in labels_of(task.dataset(0)).items():
        low = 30 if first <= 2 else 70
        assert (first <= 2) == (second <= 2)
        assert low <= min(label) <= max(label) <= low + 19


@pytest.mark.parametrize("unordered", [False, True])
def test_labels_keep_their_distribution(unordered):
    """Over seeds: uniform on the keys for each combination, of equal or of different anchors."""
    task = listing(keys=(21, 30), memory_anchors=(1, 2), unordered=unordered)
    tables = np.array([task.dataset(seed).label_table for seed in range(100)]) - 21  # seed, combination, key
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
    assert (anchors[:, 0] > anchors[:, 1]).all()  # the later order takes the label of the earlier one
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


def test_loss_without_order_by_hand():
    """Each (z, {a, b}) with a != b comes twice; where its labels differ, no answer beats one half for each."""
    data = listing().dataset(0)
    table = labels_of(data)
    differ = [table[key, a, b] != table[key, b, a] for key, a, b in table]
    expected = np.mean(differ) * math.log(2)
    assert 0.7 < np.mean(differ) <= 0.8  # 20 of 25 combinations have a != b, and 1 in 40 of those agree by chance
    assert irreducible_loss(data, "mem") == pytest.approx(expected, rel=1e-12)
    assert irreducible_loss(data, "rsn_train") == irreducible_loss(data, "rsn_test") == 0
    assert irreducible_loss(listing(unordered=True).dataset(0), "mem") == 0
    train = len(data.rows("mem")) / len(data.rows("train"))
    assert irreducible_loss(data, "train") == pytest.approx(train * expected, rel=1e-12)


def test_loss_without_order_counts_rows():
    """Rows of {10, 0, 1} have labels 20, 20 and 21: (2 ln(3/2) + ln 3) nats over four rows, the row of {11, 0, 0} 0."""
    tokens, labels = np.array([[10, 0, 1], [10, 1, 0], [10, 0, 1], [11, 0, 0]]), np.array([20, 20, 21, 21])
    sets = np.full(4, SETS.index("mem"))
    drawn = AnchorTask(**TINY).dataset(0)
    positions = {role: at[:4] for role, at in drawn.positions.items()}
    data = replace(drawn, tokens=tokens, labels=labels, set=sets, positions=positions)
    assert irreducible_loss(data, "mem") == pytest.approx((2 * math.log(3 / 2) + math.log(3)) / 4, rel=1e-12)
    assert irreducible_loss(data, "rsn_test") == 0


@pytest.mark.trains
@pytest.mark.wide
def test_emb_mlp_cannot_go_below_the_floor_of_ordered_labels():
    config = ModelConfig(architecture="emb_mlp", n_layers=1, act="tanh", d_model=32, d_mlp=64)
    losses, floors = {}, {}
    for unordered in (False, True):
        task = AnchorTask(**TINY, unordered=unordered)
        model = build_model(task, gamma=0.5, config=config)
        train_model(model, task, TrainConfig(steps=600, batch_size=144, lr=1e-2), progress=False)
        data = task.dataset(0)
        found = {row["set"]: row["loss"] for row in evaluate_model(model, data)}
        losses[unordered], floors[unordered] = found["mem"], irreducible_loss(data, "mem")
        assert found["rsn_train"] < 0.1
    assert floors[True] == 0
    assert floors[False] <= losses[False] < floors[False] + 0.1
    assert losses[True] < 0.1 < floors[False]  # .004, .27; two instruction sets differ by 1e-8


def test_range_entropy_by_hand():
    task = AnchorTask(length=3, balanced_keys=True, n_sequences=2000, memory_labels="near_sum")
    sums = np.add.outer(np.arange(1, 6), np.arange(1, 6))  # every ordered pair of memory anchors, equally often
    assert range_entropy(task.dataset(seed=0)) == pytest.approx(np.log(2 * sums + 1).mean())
