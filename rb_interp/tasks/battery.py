"""Batteries: kinds of rows that are alike for every member of a run.

No member was trained on some of them; docs/task.md has a table. All but the first take combinations
of rsn_train. A kind of which the task has no row is left out, so a task of one anchor has no
``distractor``: a key and an anchor behind it would be a second block.

How it can mislead. Members of a run trained on rows of their seeds, and some of those may equal rows
of a battery; only the masked combinations are new to all. A short row ends at a position where
training never read an answer, so members may fail on it for that alone. The task's rule does not
say which of two blocks counts: both answers are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.tasks.anchor import AnchorDataset, AnchorTask
from rb_interp.tasks.inputs import Inputs, other_positions

ROWS = 1000
"""Rows of each kind of a battery, at most."""
SEED = 10_000
"""Seed of a battery's rows; no member has it."""
TRAINED = "rsn_train"


class Battery(NamedTuple):
    """Rows of one kind; ``distractor``, ``second_key`` and ``second_anchor`` are roles too.

    Of two blocks, ``key``, ``anchor`` and the answer are those of the earlier block. ``second`` has
    the answers of the later block, ``[row]``, and is None if a row has one block.
    """

    inputs: Inputs
    second: Int[np.ndarray, " row"] | None = None


def batteries(task: AnchorTask, rows: int = ROWS, seed: int = SEED) -> dict[str, Battery]:
    """Every kind of rows that a task has, by name; the same call gives the same rows.

    ``rows`` is the number of rows of each kind, at most.

    >>> by_kind = batteries(AnchorTask(), rows=50)
    >>> list(by_kind)[:5]
    ['held_out', 'length_4', 'distractor', 'second_block', 'key_at_0']
    >>> by_kind["length_4"].inputs.tokens.shape
    (50, 4)
    """
    by_kind = {}
    for kind, (inputs, second) in _all_rows(task, seed):
        if len(inputs):
            first = inputs.take(np.arange(len(inputs))[:rows])
            by_kind[kind] = Battery(first, None if second is None else second[:rows])
    return by_kind


def _all_rows(task: AnchorTask, seed: int) -> Iterator[tuple[str, Battery]]:
    data = task.dataset(seed)
    yield "held_out", Battery(data.inputs(_shuffled(data, "rsn_test")))
    numbers = _shuffled(data, TRAINED)
    if not len(numbers):
        return
    if task.length >= task.q + 2:
        short = replace(task, length=task.q + 2).dataset(seed)
        yield f"length_{task.q + 2}", Battery(short.inputs(_shuffled(short, TRAINED)))
        if task.q > 1:
            yield "distractor", _distractor(data, numbers, np.random.default_rng([seed, 6]))
    if task.length >= 2 * (task.q + 1):
        yield "second_block", _second_block(data, numbers, np.random.default_rng([seed, 7]))
    for position in range(task.length - task.q):
        rows = numbers[data.key_position[numbers] == position]
        yield f"key_at_{position}", Battery(data.inputs(rows))


def _shuffled(data: AnchorDataset, set: str) -> Int[np.ndarray, " n"]:
    """The rows of a set in another order: a dataset has those of one combination together."""
    return np.random.default_rng([data.seed, 8]).permutation(data.rows(set))


def _distractor(
    data: AnchorDataset, rows: Int[np.ndarray, " n"], rng: np.random.Generator
) -> Battery:
    """Rows with an anchor in place of one noise token.

    The noise token right behind the block stays, since an anchor there would lengthen the block.
    """
    start = data.key_position[rows][:, None]
    position = np.arange(data.task.length)
    free = (position < start) | (position > start + data.task.q + 1)
    has_room = free.any(1)
    rows = rows[has_room]
    distractor = _draw(free[has_room], rng)[:, None]
    tokens = data.tokens[rows].copy()
    anchors = rng.choice(data.task.tokens("reasoning_anchor"), (len(rows), 1))
    np.put_along_axis(tokens, distractor, anchors, 1)
    positions = {
        "key": data.positions["key"][rows],
        "anchor": data.anchor_positions[rows],
        "distractor": distractor,
    }
    return Battery(_answered(data, rows, tokens, positions))


def _second_block(
    data: AnchorDataset, rows: Int[np.ndarray, " n"], rng: np.random.Generator
) -> Battery:
    """Rows with a second block in place of noise; rows whose two answers are equal are left out."""
    task = data.task
    size = task.q + 1
    start = data.key_position[rows][:, None]
    position = np.arange(task.length)
    is_apart = (position + size <= start) | (position >= start + size)
    free = is_apart & (position + size <= task.length)
    has_room = free.any(1)
    rows = rows[has_room]
    drawn_key = _draw(free[has_room], rng)[:, None]
    tokens = data.tokens[rows].copy()
    combinations = task.combinations(TRAINED)
    keys = rng.choice(task.tokens("key"), (len(rows), 1))
    anchors = combinations[rng.integers(0, len(combinations), len(rows))]
    np.put_along_axis(tokens, drawn_key + np.arange(size), np.hstack([keys, anchors]), 1)
    key_positions = np.sort(np.hstack([data.positions["key"][rows], drawn_key]), axis=1)
    first = _block(key_positions[:, :1], size)
    second = _block(key_positions[:, 1:], size)
    of_first = _answered(data, rows, tokens, first | _second_roles(second))
    of_second = _answered(data, rows, tokens, second | _second_roles(first))
    differ = of_first.labels != of_second.labels
    return Battery(of_first.take(differ), of_second.take(differ).labels)


def _block(key: Int[np.ndarray, "row 1"], size: int) -> dict[str, np.ndarray]:
    """Positions of a block whose key stands at ``key``."""
    return {"key": key, "anchor": key + np.arange(1, size)}


def _second_roles(block: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"second_key": block["key"], "second_anchor": block["anchor"]}


def _draw(free: Bool[np.ndarray, "row pos"], rng: np.random.Generator) -> Int[np.ndarray, " row"]:
    """One of each row's free positions, drawn evenly."""
    return np.where(free, rng.random(free.shape), -1.0).argmax(1)


def _answered(
    data: AnchorDataset,
    rows: Int[np.ndarray, " n"],
    tokens: Int[np.ndarray, "n pos"],
    positions: dict[str, np.ndarray],
) -> Inputs:
    """Changed rows with their roles and the task's answers; noise is all that has no other role."""
    changed = replace(
        data,
        tokens=tokens,
        labels=data.labels[rows],
        set=data.set[rows],
        positions={**positions, "noise": other_positions(positions, tokens.shape[1])},
    )
    all_rows = np.arange(len(rows))
    answers = data.task.answers(changed, all_rows, tokens)
    return replace(changed, labels=answers).inputs(all_rows)
