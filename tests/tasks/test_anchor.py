"""Task rules on every row, for any settings that the task accepts."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rb_interp.errors import TaskError
from rb_interp.tasks import SETS, AnchorTask


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
            "cannot be split into 2 equal groups",
        ),
    ],
)
def test_bad_settings_say_what_to_change(change, message):
    with pytest.raises(
        TaskError, match=message.replace("(", r"\(").replace(")", r"\)").replace(".", r"\.")
    ):
        AnchorTask(**change)
