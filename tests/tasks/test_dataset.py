"""Counterfactual rows: one thing differs, the answer follows the task's own rule, and nothing else
moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rb_interp.errors import TaskError
from rb_interp.tasks import AnchorTask, dataset
from rb_interp.tasks.dataset import can_change_anchor

TASK = AnchorTask()
DATA = TASK.dataset(seed=3)


@pytest.fixture(params=["mem", "rsn_train", "rsn_test"])
def rows(request):
    return DATA.sample(request.param, 200)


def parts(tokens, roles):
    return {role: np.take_along_axis(tokens, at, 1) for role, at in roles.positions.items()}


@pytest.mark.parametrize("change", ["key", "anchors", "both", "noise"])
def test_only_what_is_named_differs_and_the_answer_is_the_tasks(rows, change):
    if change == "anchors" and DATA.set[rows[0]] == 2:
        return  # (11, 13) and (13, 11) have one sum
    before, after = DATA.inputs(rows), TASK.counterfactual(DATA, rows, change)
    was, now = parts(before.tokens, before.roles), parts(after.tokens, after.roles)
    changed = {
        "key": ["key"],
        "anchors": ["anchor"],
        "both": ["key", "anchor"],
        "noise": ["noise"],
    }[change]
    for role in ("key", "anchor", "noise"):
        assert (was[role] == now[role]).all() == (role not in changed)
    np.testing.assert_array_equal(after.labels, TASK.answers(DATA, rows, after.tokens))
    assert (
        (after.labels == before.labels).all()
        if change == "noise"
        else (after.labels != before.labels).all()
    )


def test_anchors_stay_in_their_set_and_noise_among_the_keys():
    for name in ("mem", "rsn_train"):
        rows = DATA.sample(name, 300)
        other = TASK.counterfactual(DATA, rows, "anchors")
        known = set(map(tuple, DATA.task.combinations(name).tolist()))
        assert set(map(tuple, parts(other.tokens, other.roles)["anchor"].tolist())) <= known
    noise = parts(TASK.counterfactual(DATA, rows, "noise").tokens, DATA.roles(rows))["noise"]
    assert (noise.min(), noise.max()) == DATA.task.keys


@pytest.mark.parametrize("number", [0, 1, 2])
def test_one_anchor_changes_alone_within_its_set_and_evenly(number):
    task = replace(TASK, q=3, masked=((11, 12, 13), (11, 12, 14), (11, 12, 15)))
    data = task.dataset(0)
    for name in ("mem", "rsn_train", "rsn_test"):
        rows = data.sample(name, 4000)
        can, known = (
            can_change_anchor(data, rows, number),
            set(map(tuple, task.combinations(name).tolist())),
        )
        assert can.all() == (
            name != "rsn_test" or number == 2
        )  # the masked ones differ in their last anchor alone
        if not can.all():
            assert not can.any()
            continue
        other = task.counterfactual(data, rows, f"anchor_{number + 1}")
        before, after = (
            np.take_along_axis(tokens, data.anchor_positions[rows], 1)
            for tokens in (data.tokens[rows], other.tokens)
        )
        assert ((before != after) == (np.arange(3) == number)).all()
        assert (data.tokens[rows] != other.tokens).sum() == len(rows)
        assert set(map(tuple, after.tolist())) <= known
        np.testing.assert_array_equal(other.labels, task.answers(data, rows, other.tokens))
        if name == "mem":
            start = before[:, number] == 1
            counts = np.bincount(after[start, number])[2:]
            assert counts.min() > 0.7 * counts.max()


def test_one_seed_gives_one_draw_and_another_another(rows):
    first, again, other = (
        TASK.counterfactual(DATA, rows, "key", seed).tokens for seed in (0, 0, 1)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_a_row_without_a_counterfactual_and_an_unknown_change_say_so(monkeypatch):
    monkeypatch.setattr(dataset, "TRIES", 20)
    held_out = DATA.sample("rsn_test", 10)
    with pytest.raises(
        TaskError,
        match="10 of 10 rows keep their answer whatever the anchors; use a task with more",
    ):
        TASK.counterfactual(DATA, held_out, "anchors")
    with pytest.raises(TaskError, match="cannot change 'anchor'; did you mean 'anchors'"):
        TASK.counterfactual(DATA, held_out, "anchor")
