"""Rules of the anchor task on every row, labels without order, balanced keys, and subclasses."""

import hashlib
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rb_interp.errors import TaskError
from rb_interp.tasks import SETS, AnchorTask, Dataset, fingerprint
from rb_interp.tasks.dataset import label_entropy


@st.composite
def settings_of_a_task(draw):
    q = draw(st.integers(1, 4))
    length = draw(st.integers(q + 1, q + 6))
    n_anchors = draw(st.integers(2, 3 if q > 2 else 5))
    kind = draw(st.sampled_from(["keys", "near_sum", "ranges"]))
    masked = draw(
        st.sets(st.tuples(*[st.integers(11, 10 + n_anchors)] * q), max_size=n_anchors**q - 1)
    )
    return {
        "q": q,
        "length": length,
        "keys": (40, 40 + draw(st.integers(0, 20))),
        "memory_anchors": (1, 2 * n_anchors),
        "reasoning_anchors": (11, 10 + n_anchors),
        "masked": tuple(sorted(masked)),
        "n_sequences": 2 * 3 * (2 * n_anchors) ** q,
        "memory_labels": kind,
        "label_ranges": ((30, 49), (30, 69)) if kind == "ranges" else (),
        "memory_share": draw(st.sampled_from([0.25, 0.5, 0.75])),
    }


@settings(max_examples=20, deadline=None)
@given(chosen=settings_of_a_task(), seed=st.integers(0, 2**31))
def test_every_row_obeys_the_definition(chosen, seed):
    task = AnchorTask(**chosen)
    data = task.dataset(seed)
    rows = np.arange(len(data))
    key = data.tokens[rows, data.key_position]
    anchors = np.take_along_axis(data.tokens, data.anchor_positions, 1)
    memory = data.set == SETS.index("mem")

    np.testing.assert_array_equal(
        data.anchor_positions, data.key_position[:, None] + 1 + np.arange(task.q)
    )
    np.testing.assert_array_equal(data.labels[~memory], (key + anchors.sum(1))[~memory])
    is_anchor = np.zeros_like(data.tokens, dtype=bool)
    np.put_along_axis(is_anchor, data.anchor_positions, True, 1)
    assert np.isin(data.tokens[~is_anchor], task.tokens("key")).all()
    assert np.isin(anchors[memory], task.tokens("memory_anchor")).all()
    assert np.isin(anchors[~memory], task.tokens("reasoning_anchor")).all()

    masked = {tuple(c) for c in task.masked}
    for row in np.flatnonzero(~memory):
        assert (tuple(anchors[row].tolist()) in masked) == (SETS[data.set[row]] == "rsn_test")

    table: dict = {}
    for row in np.flatnonzero(memory):
        pair, label = (int(key[row]), *anchors[row].tolist()), int(data.labels[row])
        assert table.setdefault(pair, label) == label
        total = int(anchors[row].sum())
        low, high = {
            "keys": task.keys,
            "near_sum": (key[row] - total, key[row] + total),
            "ranges": (30, 49 if anchors[row, 0] <= task.memory_anchors[1] // 2 else 69),
        }[task.memory_labels]
        assert low <= label <= high

    for name in ("mem", "rsn"):
        of_set = memory if name == "mem" else ~memory
        _, counts = np.unique(anchors[of_set], axis=0, return_counts=True)
        assert len(set(counts.tolist())) == 1


def test_roles_of_every_row_partition_its_positions():
    task = AnchorTask.preset("smoke")
    data = task.dataset(3)
    roles = data.roles()
    together = np.concatenate([roles.position(name) for name in ("key", "anchor", "noise")], 1)
    np.testing.assert_array_equal(
        np.sort(together, 1), np.tile(np.arange(task.length), (len(data), 1))
    )
    np.testing.assert_array_equal(roles.position("key")[:, 0], data.key_position)
    assert set(roles.set.tolist()) == set(SETS)


def test_the_block_occurs_at_every_position():
    data = AnchorTask().dataset(0)
    counts = np.bincount(data.key_position, minlength=7)
    assert len(counts) == 7
    expected = len(data) / 7
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize(
    ("preset", "digest"),
    [("smoke", "825b315b9af33bcf"), ("quick", "ba7f5b76e6895537"), ("paper", "0976cf8fe98c2565")],
)
def test_a_seed_draws_the_same_rows_everywhere(preset, digest):
    data = AnchorTask.preset(preset).dataset(0)
    rows = np.concatenate([data.tokens, data.labels[:, None]], 1).astype("<i4")
    assert hashlib.sha256(rows.tobytes()).hexdigest()[:16] == digest


def test_samples_are_fixed_and_of_their_set():
    data = AnchorTask().dataset(0)
    first, again = data.sample("rsn_test", 100), data.sample("rsn_test", 100)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first)) == 100
    assert (data.set[first] == SETS.index("rsn_test")).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory_anchors": (1, 25)}, "overlap; choose disjoint ranges"),
        ({"d_vocab": 80}, "raise d_vocab above 90"),
        ({"masked": ((11, 16),)}, "not one of q=2 reasoning anchors"),
        ({"n_sequences": 20}, "raise n_sequences"),
        (
            {"memory_labels": "ranges", "label_ranges": ((30, 40), (30, 50))},
            "do not split into 2 equal groups",
        ),
    ],
)
def test_bad_settings_say_what_to_change(change, message):
    with pytest.raises(
        TaskError, match=message.replace("(", r"\(").replace(")", r"\)").replace(".", r"\.")
    ):
        AnchorTask(**change)


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


def test_a_member_is_informed_below_the_entropy_of_its_labels():
    task = AnchorTask()
    data = task.dataset(seed=0)
    entropy = label_entropy(data.labels[data.rows("rsn_train")])
    losses = np.zeros((2, len(SETS), 2))
    losses[:, SETS.index("rsn_train"), 0] = entropy - np.array([0.18, 0.22])
    assert task.stages["informed"].reached(losses, losses).tolist() == [False, True]


def test_a_member_is_settled_a_thousand_steps_after_it_answers_999_rows_of_1000():
    values = np.zeros((2, len(SETS), 2))
    values[:, SETS.index("rsn_train"), 1] = [0.9985, 0.999]
    settled = AnchorTask().stages["settled"]
    assert settled.reached(values, values).tolist() == [False, True]
    assert settled.delay == 1000


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


class Doubled(AnchorTask):
    """Reasoning answers are key + 2 a_1 + a_2."""

    def answers(self, data, rows, tokens):
        labels = super().answers(data, rows, tokens)
        first = np.take_along_axis(tokens, data.anchor_positions[rows, :1], 1)[:, 0]
        return np.where(data.set[rows] == 0, labels, labels + first)


class Relabelled(AnchorTask):
    """Changes the labels and does not say by which rule."""

    def dataset(self, seed):
        data = super().dataset(seed)
        return replace(data, labels=(data.labels + 1) % self.d_vocab)


def test_a_subclass_has_its_own_labels_and_counterfactual_answers():
    task = Doubled()
    data, plain = task.dataset(2), AnchorTask().dataset(2)
    np.testing.assert_array_equal(data.tokens, plain.tokens)
    for name in ("rsn_train", "rsn_test"):
        rows = data.sample(name, 100)
        for change in ("key", "both", "noise"):
            other = task.counterfactual(data, rows, change)
            key = np.take_along_axis(other.tokens, other.roles.position("key"), 1)[:, 0]
            first, second = np.take_along_axis(other.tokens, other.roles.position("anchor"), 1).T
            np.testing.assert_array_equal(other.labels, key + 2 * first + second)
            assert ((other.labels == data.labels[rows]) == (change == "noise")).all()
    memory = data.rows("mem")
    np.testing.assert_array_equal(data.labels[memory], plain.labels[memory])


@pytest.mark.parametrize("change", ["key", "noise"])
def test_labels_without_a_rule_have_no_counterfactual(change):
    data = Relabelled().dataset(0)
    with pytest.raises(
        TaskError,
        match=r"30 of 30 labels are not what .*Relabelled.answers gives.* override answers",
    ):
        data.task.counterfactual(data, data.sample("rsn_train", 30), change)


def test_noise_is_drawn_until_the_answer_is_the_same():
    class Noisy(AnchorTask):
        def answers(self, data, rows, tokens):
            return super().answers(data, rows, tokens) + tokens.sum(1) % 2

    data = Noisy().dataset(0)
    rows = data.sample("rsn_train", 50)
    other = data.task.counterfactual(data, rows, "noise")
    np.testing.assert_array_equal(other.labels, data.labels[rows])
    np.testing.assert_array_equal(other.tokens.sum(1) % 2, data.tokens[rows].sum(1) % 2)
    assert (other.tokens != data.tokens[rows]).any(1).all()


def test_a_fingerprint_is_of_class_and_settings():
    plain = AnchorTask()
    others = [Doubled(), Relabelled(), replace(plain, masked=()), replace(plain, length=6)]
    assert len({task.fingerprint() for task in [plain, *others]}) == 5
    assert plain.fingerprint() == AnchorTask(q=2, masked=((11, 13), (13, 11))).fingerprint()

    @dataclass(frozen=True)
    class Other:
        inner: AnchorTask = plain
        table: tuple = (1.5, None, {"a": (True,)})
        rows: np.ndarray = field(default_factory=lambda: np.arange(3))
        seen: list = field(default_factory=list, compare=False)

    assert (
        fingerprint(Other())
        == fingerprint(Other(seen=[1]))
        != fingerprint(Other(rows=np.arange(4)))
    )
    assert fingerprint(Other()) != fingerprint(Other(inner=Doubled()))
    with pytest.raises(
        TaskError, match=r"the setting 'table' is a function, which is no plain data; give numbers"
    ):
        fingerprint(replace(Other(), table=(lambda: 0,)))
    with pytest.raises(TaskError, match="no instance of a dataclass; write a fingerprint"):
        fingerprint("task")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"positions": {"key": np.zeros((2, 1))}},
            r"toy: numbers of rows differ .*'set': 3, \"positions\['key'\]\": 2",
        ),
        (
            {"set": np.array([0, 1, 2])},
            r"set holds 0 to 2; expected indices into sets=\('seen', 'new'\)",
        ),
        ({"train_sets": ("sen",)}, "there is no set 'sen'; did you mean 'seen'"),
    ],
)
def test_a_dataset_that_contradicts_itself_says_where(changes, message):
    good = {"labels": np.zeros(3, int), "set": np.array([0, 0, 1]), "train_sets": ("seen",)}
    with pytest.raises(TaskError, match=message):
        Dataset(0, np.zeros((3, 2), int), sets=("seen", "new"), name="toy", **{**good, **changes})
