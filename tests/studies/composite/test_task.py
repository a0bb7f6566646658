"""The composite task: its rules on every row, each worked out here again from tokens alone."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from blocks import blocks
from hypothesis import given, settings
from hypothesis import strategies as st

from rb_interp.errors import TaskError
from rb_interp.studies.composite.config import CompositeConfig
from rb_interp.studies.composite.task import SETS, CompositeTask

pytestmark = pytest.mark.wide

TASK = CompositeTask(n_sequences=16_000)
DATA = TASK.dataset(seed=3)


@st.composite
def settings_of_a_task(draw):
    n = draw(st.integers(2, 5))
    shifts = tuple(draw(st.lists(st.integers(-7, 7), min_size=n, max_size=n, unique=True)))
    pairs = draw(st.permutations(list(product(range(1, n + 1), repeat=2))))
    cut = draw(st.integers(1, n))
    sums = [shifts[a - 1] + shifts[b - 1] for a, b in pairs]
    exceptions = tuple(
        (pair, total + 3) for pair, total in list(zip(pairs, sums, strict=True))[cut : cut + n - 2]
    )
    return {
        "shifts": shifts,
        "items": (20, 20 + draw(st.integers(12, 40))),
        "length": draw(st.integers(4, 12)),
        "n_sequences": n**2 * draw(st.integers(2, 20)),
        "evaluation_rows": 2 * draw(st.integers(1, 60)),
        "exceptions": exceptions,
        "held_out": tuple(pairs[:cut]),
        "split": draw(st.sampled_from(["code", "text"])),
    }


@settings(max_examples=10, deadline=None)
@given(chosen=settings_of_a_task(), seed=st.integers(0, 2**31))
def test_every_row_obeys_the_definition(chosen, seed):
    task = CompositeTask(**chosen)
    data = task.dataset(seed)
    position, keys, pairs = blocks(data)
    items = data.tokens[data.tokens > len(task.shifts)]
    assert task.items[0] <= items.min() <= items.max() <= task.items[1]

    exceptions, held_out = dict(chosen["exceptions"]), set(chosen["held_out"])
    modulus = task.length - (2 if task.split == "text" else 0)
    trained = {}
    for row, name in enumerate(np.array(SETS)[data.set]):
        first, second = pairs[row]
        total = task.shifts[first - 1] + task.shifts[second - 1]
        assert data.labels[row] == keys[row] + exceptions.get(pairs[row], total)
        assert (pairs[row] in held_out) == (name == "unseen")
        is_test = keys[row] % modulus == position[row]
        if name != "unseen":
            assert is_test == (name == "seen_test")
        if name == "train":
            trained[pairs[row]] = trained.get(pairs[row], 0) + 1

    n = len(task.shifts)
    each = round(task.n_sequences // n**2 * 0.9)
    assert trained == dict.fromkeys(set(product(range(1, n + 1), repeat=2)) - held_out, each)
    unseen = data.rows("unseen")
    assert 2 * (keys[unseen] % modulus == position[unseen]).sum() == len(unseen)
    for name in SETS[1:]:
        rows = data.rows(name)
        assert len(rows) == task.evaluation_rows
        counts = {
            pair: 0
            for pair in product(range(1, n + 1), repeat=2)
            if (pair in held_out) == (name == "unseen")
        }
        for row in rows:
            counts[pairs[row]] += 1
        assert max(counts.values()) - min(counts.values()) <= (2 if name == "unseen" else 1)


def test_inferential_and_symmetric_answers_of_the_held_out_pair():
    keys, pair = np.arange(20, 100), np.tile([4, 3], (80, 1))
    np.testing.assert_array_equal(TASK.inferential(keys, pair), keys - 10)
    np.testing.assert_array_equal(TASK.symmetric(keys, pair), keys - 6)
    np.testing.assert_array_equal(TASK.inferential(keys, pair[:, ::-1]), keys - 10)
    rows = DATA.rows("unseen")
    np.testing.assert_array_equal(
        DATA.labels[rows], TASK.inferential(DATA.keys[rows], DATA.pairs[rows])
    )
    exception = DATA.is_exception(DATA.pairs)
    np.testing.assert_array_equal(exception, (DATA.pairs == [3, 4]).all(1))
    with pytest.raises(TaskError, match=r"the pair \(3, 4\) has no symmetric answer"):
        TASK.symmetric(keys, pair[:, ::-1])
    with pytest.raises(TaskError, match=r"the pair \(4, 3\) has no symmetric answer"):
        TASK.both_unseen().symmetric(keys, pair)
    with pytest.raises(TaskError, match=r"got anchors \[0\]; expected 1 to 4"):
        TASK.inferential(keys[:1], np.array([[0, 0]]))


def test_both_unseen_has_neither_the_exception_nor_its_mirror():
    task = TASK.both_unseen()
    data = task.dataset(0)
    assert set(map(tuple, data.pairs[data.rows("train")].tolist())).isdisjoint({(3, 4), (4, 3)})
    unseen = data.rows("unseen")
    assert set(map(tuple, data.pairs[unseen].tolist())) == {(3, 4), (4, 3)}
    np.testing.assert_array_equal(data.labels[unseen], data.keys[unseen] - 10)
    assert not data.is_exception(data.pairs).any()


def test_the_control_trains_to_its_end_wherever_the_main_sweep_stops():
    config = CompositeConfig.from_preset("smoke")
    train = replace(config.train, stages=("fit",), stop_at="fit")
    assert [sweep.train.stop_at for sweep in replace(config, train=train).sweeps.values()] == [
        "fit",
        "",
    ]


def test_random_exceptions_are_of_the_seed_and_leave_mirrors_of_held_out_pairs_alone():
    task = replace(TASK, n_sequences=1600, random_exceptions=5, held_out=((4, 3), (1, 2)))
    drawn = set()
    for seed in range(12):
        data = task.dataset(seed)
        rows = data.rows("train")
        shift = data.labels[rows] - data.keys[rows]
        pairs = list(map(tuple, data.pairs[rows].tolist()))
        table = dict(zip(pairs, shift.tolist(), strict=True))
        assert all(table[pair] == found for pair, found in zip(pairs, shift.tolist(), strict=True))
        off = {
            pair: found
            for pair, found in table.items()
            if found != sum(task.shifts[a - 1] for a in pair)
        }
        assert off.pop((3, 4)) == -6
        assert len(off) == 5
        assert (2, 1) not in off
        assert all(-16 <= found <= 10 for found in off.values())
        np.testing.assert_array_equal(
            data.is_exception(data.pairs[rows]), shift != _sums(task, data.pairs[rows])
        )
        unseen = data.rows("unseen")
        np.testing.assert_array_equal(
            data.labels[unseen] - data.keys[unseen], _sums(task, data.pairs[unseen])
        )
        drawn |= off.keys()
    assert drawn == set(task.trained) - {(3, 4), (2, 1)}
    assert (task.dataset(0).pair_shifts == task.dataset(0).pair_shifts).all()


def _sums(task, pairs):
    return np.array([sum(task.shifts[anchor - 1] for anchor in pair) for pair in pairs.tolist()])


@pytest.mark.parametrize("name", ["seen_test", "unseen"])
@pytest.mark.parametrize("change", ["key", "anchors", "anchor_1", "anchor_2", "both", "noise"])
def test_a_counterfactual_changes_what_it_names_and_has_the_answer_worked_out_again(name, change):
    rows = DATA.sample(name, 300)
    if name == "unseen" and "anchor" in change:
        with pytest.raises(
            TaskError, match="300 of 300 rows keep their answer"
        ):  # one pair is held out
            TASK.counterfactual(DATA, rows, change)
        return
    other, at = TASK.counterfactual(DATA, rows, change), DATA.key_position[rows]
    was, now = DATA.tokens[rows], other.tokens
    differs = np.concatenate([(was != now)[range(300), at + step][:, None] for step in range(3)], 1)
    rest = (was != now).sum(1) - differs.sum(1)
    keys, pairs = (
        now[range(300), at],
        list(zip(now[range(300), at + 1], now[range(300), at + 2], strict=True)),
    )
    exception = {(3, 4): -6}
    right = [
        x + exception.get(pair, sum((5, 1, -2, -8)[a - 1] for a in pair))
        for x, pair in zip(keys, pairs, strict=True)
    ]
    np.testing.assert_array_equal(other.labels, right)
    assert (other.labels == DATA.labels[rows]).all() == (change == "noise")
    assert (other.labels != DATA.labels[rows]).all() == (change != "noise")
    assert rest.any() == (change == "noise")
    if change != "noise":
        moved = {"key": [1, 0, 0], "anchor_1": [0, 1, 0], "anchor_2": [0, 0, 1]}.get(change)
        if moved:
            np.testing.assert_array_equal(differs, np.tile(moved, (300, 1)) == 1)
        assert differs[:, 0].any() == (change in ("key", "both"))
    np.testing.assert_array_equal(keys % 9 == at, DATA.keys[rows] % 9 == at)
    assert ((4, 3) in pairs) == (name == "unseen")


def test_a_seed_draws_the_same_rows_everywhere_and_evaluation_rows_do_not_hang_on_the_number_of_rows():
    again, other = TASK.dataset(3), TASK.dataset(4)
    np.testing.assert_array_equal(again.tokens, DATA.tokens)
    np.testing.assert_array_equal(again.labels, DATA.labels)
    assert (other.tokens != DATA.tokens).any()
    more = replace(TASK, n_sequences=32_000).dataset(3)
    for name in SETS[1:]:
        np.testing.assert_array_equal(more.tokens[more.rows(name)], DATA.tokens[DATA.rows(name)])
    rows = np.concatenate([DATA.tokens, DATA.labels[:, None]], 1).astype("<i4")
    assert hashlib.sha256(rows.tobytes()).hexdigest()[:16] == "ac4b3d67661f99d1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": (20, 27)}, "leave some position without a test key; use at least 9 items"),
        (
            {"items": (15, 99)},
            "answers run from -1 to 109, outside 0..200; change items, shifts or d_vocab",
        ),
        ({"exceptions": (((4, 3), -6),)}, "the pair (4, 3) is an exception and held out"),
        (
            {"exceptions": (((3, 4), -10),)},
            "has the shift -10, its anchors' sum; give another or leave it out",
        ),
        ({"random_exceptions": 15}, "but 14 trained pairs can become one"),
    ],
)
def test_bad_settings_say_what_to_change(change, message):
    with pytest.raises(TaskError) as caught:
        CompositeTask(**change)
    assert message in str(caught.value)
