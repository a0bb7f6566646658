"""Rows of the composite task: their sets, positions and roles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from blocks import blocks

from rb_interp.errors import TaskError
from rb_interp.studies.composite.task import SETS, CompositeTask

pytestmark = pytest.mark.wide

TASK = CompositeTask(n_sequences=16_000)
DATA = TASK.dataset(seed=3)


def test_only_the_set_train_is_trained_on_and_no_other_set_shares_a_row_with_it():
    small = CompositeTask(length=4, items=(20, 39), n_sequences=8000).dataset(
        0
    )  # 10,000 rows: most are trained on
    for data in (DATA, small):
        assert data.rows("train").tolist() == np.flatnonzero(data.set == 0).tolist()
        rows = {name: set(map(tuple, data.tokens[data.rows(name)].tolist())) for name in SETS}
        for name in SETS[1:]:
            assert not rows["train"] & rows[name]
    with pytest.raises(
        TaskError, match="n_sequences asks for nearly all rows that there are; lower n_sequences"
    ):
        CompositeTask(length=4, items=(20, 23), n_sequences=8000).dataset(0)


def test_positions_keys_and_noise_are_uniform():
    data = replace(TASK, split="text", evaluation_rows=20_000).dataset(1)
    position, keys, _ = blocks(data)
    m = 7
    for name in ("train", "seen_test"):
        rows = data.rows(name)
        counts = np.bincount(position[rows], minlength=7)
        assert len(counts) == 7
        assert (np.abs(counts - len(rows) / 7) < 5 * np.sqrt(len(rows) / 7)).all()
        for p in range(7):
            fits = [x for x in range(20, 100) if (x % m == p) == (name == "seen_test")]
            counts = np.bincount(keys[rows][position[rows] == p], minlength=100)
            assert counts[fits].sum() == counts.sum()
            even = counts.sum() / len(fits)
            assert (np.abs(counts[fits] - even) < 5 * np.sqrt(even)).all()
    noise = np.bincount(
        np.take_along_axis(data.tokens, data.positions["noise"], 1).ravel(), minlength=100
    )[20:]
    assert (np.abs(noise - noise.mean()) < 5 * np.sqrt(noise.mean())).all()


def test_roles_point_at_what_they_say_and_overlap_at_the_end_alone():
    position, keys, pairs = blocks(DATA)
    roles, at = DATA.roles(), np.arange(len(DATA))
    there = {role: DATA.tokens[at[:, None], places] for role, places in roles.positions.items()}
    assert set(there) == {"key", "a1", "a2", "anchor", "last", "noise"}
    np.testing.assert_array_equal(there["key"][:, 0], keys)
    assert list(zip(there["a1"][:, 0].tolist(), there["a2"][:, 0].tolist(), strict=True)) == pairs
    np.testing.assert_array_equal(there["anchor"], np.array(pairs))
    np.testing.assert_array_equal(there["last"][:, 0], DATA.tokens[:, -1])
    every = np.concatenate([roles.position(role) for role in ("key", "anchor", "noise")], 1)
    np.testing.assert_array_equal(np.sort(every, 1), np.tile(np.arange(9), (len(DATA), 1)))
    at_the_end = position == 6
    np.testing.assert_array_equal(
        (roles.position("a2") == roles.position("last"))[:, 0], at_the_end
    )
    np.testing.assert_array_equal((roles.position("noise") == 8).any(1), ~at_the_end)
    assert set(roles.set.tolist()) == set(SETS)
    assert roles.group("key").tolist() == list(range(20, 100))
    assert roles.group("anchor").tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(DATA.keys, keys)
    np.testing.assert_array_equal(DATA.pairs, np.array(pairs))
