"""The battery's rows, against a reader of rows that knows the rule and none of the code that wrote
them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rb_interp.tasks import AnchorTask, batteries

TASK = AnchorTask(n_sequences=4000)


@pytest.fixture(scope="module")
def found():
    return batteries(TASK, rows=200)


def blocks(task, row) -> list[tuple[int, int]]:
    """Position and plain answer of every key that exactly q reasoning anchors or more follow."""
    low, high = task.reasoning_anchors
    is_anchor = [low <= token <= high for token in row]
    starts = [
        p
        for p in range(len(row) - task.q)
        if not is_anchor[p] and all(is_anchor[p + 1 : p + 1 + task.q])
    ]
    return [(p, int(sum(row[p : p + 1 + task.q]))) for p in starts]


@pytest.mark.parametrize(
    "task",
    [TASK, replace(TASK, q=3, masked=((11, 12, 13),)), replace(TASK, length=5)],
    ids=["plain", "q", "length"],
)
def test_every_label_is_the_rules_and_every_row_is_of_its_kind(task):
    found = batteries(task, rows=200)
    for name, (inputs, second) in found.items():
        n_anchors = task.q + (1 if name == "distractor" else 0)
        for row, label, key, at in zip(
            inputs.tokens,
            inputs.labels,
            inputs.roles.position("key")[:, 0],
            range(len(inputs)),
            strict=True,
        ):
            read = blocks(task, row)
            assert read[0] == (key, label)
            assert (inputs.roles.position("anchor")[at] == key + 1 + np.arange(task.q)).all()
            anchors = (row >= task.reasoning_anchors[0]) & (row <= task.reasoning_anchors[1])
            if second is None:
                assert len(read) == 1
                assert anchors.sum() == n_anchors
            else:
                assert [answer for _, answer in read] == [label, second[at]]
                assert label != second[at]
            masked = tuple(row[key + 1 : key + 1 + task.q]) in task.masked
            assert masked == (name == "held_out")
        roles = np.hstack(list(inputs.roles.positions.values()))
        assert (
            np.sort(roles, 1) == np.arange(inputs.tokens.shape[1])
        ).all()  # every position has one role
    assert found[f"length_{task.q + 2}"].inputs.tokens.shape[1] == task.q + 2
    for position in range(task.length - task.q):
        assert (found[f"key_at_{position}"].inputs.roles.position("key") == position).all()


def test_a_distractor_is_no_part_of_the_block_and_stands_anywhere_else(found):
    roles = found["distractor"].inputs.roles
    beyond = roles.position("distractor") - roles.position("key")
    assert set(np.unique(beyond)) == set(range(-6, 9)) - {0, 1, 2, 3}


def test_rows_are_the_same_at_every_call_and_another_seed_gives_others(found):
    again, other = batteries(TASK, rows=200), batteries(TASK, rows=200, seed=1)
    assert list(found) == [
        "held_out",
        "length_4",
        "distractor",
        "second_block",
        *(f"key_at_{p}" for p in range(7)),
    ]
    for name, battery in found.items():
        assert (battery.inputs.tokens == again[name].inputs.tokens).all()
        assert (battery.inputs.tokens != other[name].inputs.tokens).any()
        combinations = np.take_along_axis(
            battery.inputs.tokens, battery.inputs.roles.position("anchor"), 1
        )
        assert len(np.unique(combinations, axis=0)) == (
            2 if name == "held_out" else 23
        )  # not the first ones alone


def test_a_kind_without_rows_is_left_out():
    assert "distractor" not in batteries(replace(TASK, q=1, masked=((13,),)), rows=10)
    assert "held_out" not in batteries(replace(TASK, masked=()), rows=10)
    assert list(batteries(replace(TASK, length=3), rows=10)) == ["held_out", "key_at_0"]
    kinds = ["held_out", "length_4", "distractor", "key_at_0", "key_at_1"]
    assert list(batteries(replace(TASK, length=4), rows=10)) == kinds
