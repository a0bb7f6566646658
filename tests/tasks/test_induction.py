"""What the induction model's heads do, by plain loops over raw patterns and by plain hooks: the
probes' truth."""

import numpy as np
import pytest
from induction import INDUCTION, OTHER, PREVIOUS, accuracy, known, patterns, rows

from rb_interp.errors import TaskError
from rb_interp.tasks import Task
from rb_interp.tasks.induction import InductionTask


def looked_back(pattern) -> float:
    """Mean attention of the block's positions, from the second on, to the position before each."""
    return float(
        np.mean([row[at, at - 1] for row in pattern for at in range(1, known().task.block)])
    )


def looked_up(pattern) -> float:
    """Mean attention of the last position to the one behind the place where its token stands in the
    block."""
    found = []
    for tokens, row in zip(rows().tokens.tolist(), pattern, strict=True):
        found.append(row[-1, tokens.index(tokens[-1]) + 1])
    return float(np.mean(found))


def test_each_head_looks_where_it_is_said_to():
    found, before = patterns(known().model), patterns(known().untrained)
    assert looked_back(found[PREVIOUS]) > 0.8 > 0.25 > looked_back(found[OTHER])
    assert (
        min(looked_up(found[head]) for head in INDUCTION)
        > 0.8
        > 0.2
        > max(looked_up(found[head]) for head in (PREVIOUS, OTHER))
    )
    assert max(looked_up(before[head]) for head in before) < 0.2
    assert (
        max(looked_back(before[head]) for head in before) < 0.45
    )  # the second position has two to look at


def test_the_heads_do_the_work():
    model = known().model
    assert accuracy(model) > 0.98 > 0.2 > accuracy(known().untrained)
    assert accuracy(model, PREVIOUS) < 0.3
    assert accuracy(model, OTHER) > 0.9
    assert (
        min(accuracy(model, head) for head in INDUCTION) > 0.9 > 0.2 > accuracy(model, *INDUCTION)
    )


def test_held_out_rows_that_would_be_trained_on_are_refused():
    with pytest.raises(TaskError, match="held-out ones are trained on; give more than d_vocab=8"):
        InductionTask(d_vocab=8, block=5, pairs=1).dataset(0)


def test_rows_hold_what_the_roles_say():
    task = InductionTask(d_vocab=7, block=5, pairs=3, n_sequences=50)
    assert isinstance(task, Task)
    data = task.dataset(0)
    assert data.tokens.shape == (55, task.length) == (55, 10)
    assert all(
        np.array_equal(getattr(task.dataset(0), name), getattr(data, name))
        for name in ("tokens", "labels")
    )
    for tokens, labels in zip(data.tokens.tolist(), data.labels.tolist(), strict=True):
        block = tokens[:5]
        assert len(np.unique(block)) == 5
        for at in (5, 7, 9):
            assert labels[at] == block[block.index(tokens[at]) + 1]
            assert at == 9 or tokens[at + 1] == labels[at]
        assert [label for at, label in enumerate(labels) if at not in (5, 7, 9)] == [-1] * 7
    assert (
        data.inputs(np.array([3, 4])).labels.tolist() == data.labels[3:5, 9].tolist()
    )  # the last answer alone
    inputs = task.inputs(20, seed=1)
    answers = np.asarray(inputs.labels)
    for row, tokens in enumerate(inputs.tokens.tolist()):
        first, second, query, other = (
            inputs.roles.position(role)[row].tolist()
            for role in ("first", "second", "query", "other")
        )
        assert (first, second, query) == ([tokens.index(tokens[9])], [first[0] + 1], [9])
        assert sorted(first + second + other) == list(range(5))
        assert answers[row] == tokens[second[0]]
    with pytest.raises(
        TaskError, match="block=8 of d_vocab=7 tokens; its tokens differ, so give fewer"
    ):
        InductionTask(d_vocab=7)
