"""A battery: rows that are alike for every member of a run, some of a kind that no member was trained on.

    held_out        rows of rsn_test: masked combinations, everything else as in training
    length_<q + 2>  rows of that length: key, anchors and one noise token (length_4 for two anchors)
    distractor      one noise token is a further reasoning anchor, not beside the block's end
    second_block    a second key with anchors of its own stands in the row, with another answer
    key_at_<p>      the key stands at position p

All but the first take combinations of rsn_train. Rows and labels come from ``task.dataset`` and ``task.answers``, drawn
with one seed of their own. A kind of which the task has no row is left out, so a task of one anchor has no
``distractor``: a key and an anchor behind it would be a second block.

How it can mislead. Members of a run trained on rows of their own seeds, and some of those may equal rows here; only the
masked combinations are new to all. A short row ends at a position where training never read an answer, so members may
fail on it for that alone. The task's rule does not say which of two blocks counts: both answers are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.tasks.anchor import AnchorTask
from rb_interp.tasks.dataset import AnchorDataset
from rb_interp.tasks.inputs import Inputs

__all__ = ["Battery", "batteries"]

ROWS = 1000
"""Rows of each kind, at most."""
SEED = 10_000
"""Seed of the rows, which is no member's own."""
TRAINED = "rsn_train"


class Battery(NamedTuple):
    """Rows of one kind.

    Attributes:
        inputs: tokens, right answers and roles; ``distractor``, ``second_key`` and ``second_anchor`` are roles of their
            own. Where there are two blocks, ``key`` and ``anchor`` are those of the earlier one, and so is the answer.
        second: ``[row]``, the later block's answer; None where a row has one block.
    """

    inputs: Inputs
    second: Int[np.ndarray, " row"] | None = None


def batteries(task: AnchorTask, rows: int = ROWS, seed: int = SEED) -> dict[str, Battery]:
    """Every kind of rows that a task has, by name; the same call gives the same rows.

    Args:
        task: whose rule the rows follow. rows: rows of each kind, at most. seed: of the rows.

    >>> found = batteries(AnchorTask(), rows=50)
    >>> list(found)[:5]
    ['held_out', 'length_4', 'distractor', 'second_block', 'key_at_0']
    >>> found["length_4"].inputs.tokens.shape
    (50, 4)
    """
    found = {name: _first(battery, rows) for name, battery in _every(task, seed)}
    return {name: battery for name, battery in found.items() if len(battery.inputs)}


def _every(task: AnchorTask, seed: int) -> Iterator[tuple[str, Battery]]:
    data = task.dataset(seed)
    yield "held_out", Battery(data.inputs(_shuffled(data, "rsn_test")))
    chosen = _shuffled(data, TRAINED)
    if not len(chosen):
        return
    if task.length >= task.q + 2:
        short = replace(task, length=task.q + 2).dataset(seed)
        yield f"length_{task.q + 2}", Battery(short.inputs(_shuffled(short, TRAINED)))
        if task.q > 1:
            yield "distractor", _distractor(data, chosen, np.random.default_rng([seed, 6]))
    if task.length >= 2 * (task.q + 1):
        yield "second_block", _second_block(data, chosen, np.random.default_rng([seed, 7]))
    for position in range(task.length - task.q):
        yield f"key_at_{position}", Battery(data.inputs(chosen[data.key_position[chosen] == position]))


def _shuffled(data: AnchorDataset, set: str) -> Int[np.ndarray, " n"]:
    """The rows of a set in another order: a dataset has those of one combination together."""
    return np.random.default_rng([data.seed, 8]).permutation(data.rows(set))


def _first(battery: Battery, n: int) -> Battery:
    taken = battery.inputs.take(np.arange(len(battery.inputs))[:n])
    return Battery(taken, None if battery.second is None else battery.second[:n])


def _distractor(data: AnchorDataset, rows: Int[np.ndarray, " n"], rng: np.random.Generator) -> Battery:
    """Rows with an anchor in place of one noise token; the one behind the block would make the block longer."""
    start, at = data.key_position[rows][:, None], np.arange(data.task.length)
    free = (at < start) | (at > start + data.task.q + 1)
    has_room = free.any(1)
    rows, place = rows[has_room], _draw(free[has_room], rng)[:, None]
    tokens = data.tokens[rows].copy()
    np.put_along_axis(tokens, place, rng.choice(data.task.tokens("reasoning_anchor"), (len(rows), 1)), 1)
    positions = {"key": data.positions["key"][rows], "anchor": data.anchor_positions[rows], "distractor": place}
    return Battery(_answered(data, rows, tokens, positions))


def _second_block(data: AnchorDataset, rows: Int[np.ndarray, " n"], rng: np.random.Generator) -> Battery:
    """Rows with a second block in place of noise; rows whose two answers are equal are left out."""
    task, size = data.task, data.task.q + 1
    start, at = data.key_position[rows][:, None], np.arange(task.length)
    free = ((at + size <= start) | (at >= start + size)) & (at + size <= task.length)
    has_room = free.any(1)
    rows, place = rows[has_room], _draw(free[has_room], rng)[:, None]
    tokens, combinations = data.tokens[rows].copy(), task.combinations(TRAINED)
    new = [rng.choice(task.tokens("key"), (len(rows), 1)), combinations[rng.integers(0, len(combinations), len(rows))]]
    np.put_along_axis(tokens, place + np.arange(size), np.hstack(new), 1)
    key, later = np.split(np.sort(np.hstack([data.positions["key"][rows], place]), axis=1), 2, axis=1)
    behind = np.arange(1, size)
    blocks = [{"key": at, "anchor": at + behind} for at in (key, later)]

    def answered(block: int) -> Inputs:
        other = {f"second_{role}": at for role, at in blocks[1 - block].items()}
        return _answered(data, rows, tokens, {**blocks[block], **other})

    first, second = answered(0), answered(1)
    differ = first.labels != second.labels
    return Battery(first.take(differ), second.take(differ).labels)


def _draw(free: Bool[np.ndarray, "row pos"], rng: np.random.Generator) -> Int[np.ndarray, " row"]:
    """One of each row's free positions, drawn evenly."""
    return np.where(free, rng.random(free.shape), -1.0).argmax(1)


def _answered(
    data: AnchorDataset, rows: Int[np.ndarray, " n"], tokens: Int[np.ndarray, "n pos"], at: dict[str, np.ndarray]
) -> Inputs:
    """Changed rows with their roles, noise being all that has no other, and the task's own answers."""
    noise = np.ones(tokens.shape, dtype=bool)
    for positions in at.values():
        np.put_along_axis(noise, positions, False, 1)
    n_noise = tokens.shape[1] - sum(positions.shape[1] for positions in at.values())
    roles = {**at, "noise": np.nonzero(noise)[1].reshape(len(rows), n_noise)}
    changed = replace(data, tokens=tokens, labels=data.labels[rows], set=data.set[rows], positions=roles)
    every = np.arange(len(rows))
    return replace(changed, labels=data.task.answers(changed, every, tokens)).inputs(every)
