"""Inputs that differ from given rows in one thing: the key, the anchors, one anchor, both, or only
the noise.

Position, set and everything that is not named stay as they were. Patching asks what carries the
difference between a row and its counterfactual. A counterfactual in noise alone has the same
answer; it shows what a patch does that carries nothing.

The rows are of an AnchorDataset, or of another dataset with a key and anchors in each row: it has
``anchor_positions`` and ``fresh_keys(rows, rng)``, and its task has ``q``, ``tokens("key")``,
``combinations(set)`` and ``answers(data, rows, tokens)``.

`batteries` are rows alike for every member of a run, some of a kind that no member was trained on;
docs/task.md has a table of them. All but the first take combinations of rsn_train. A kind of which
the task has no row is left out, so a task of one anchor has no ``distractor``: a key and an anchor
behind it would be a second block.

How it can mislead. Members of a run trained on rows of their own seeds, and some of those may equal
rows here; only the masked combinations are new to all. A short row ends at a position where
training never read an answer, so members may fail on it for that alone. The task's rule does not
say which of two blocks counts: both answers are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.errors import TaskError, nearest
from rb_interp.settings import class_name
from rb_interp.tasks.inputs import Inputs

if TYPE_CHECKING:
    from rb_interp.tasks.anchor import AnchorDataset, AnchorTask

CHANGES = {
    "key": ("key",),
    "anchors": ("anchors",),
    "both": ("key", "anchors"),
    "noise": ("noise",),
}
"""What ``counterfactual`` can change, besides one anchor alone: ``anchor_1`` .. ``anchor_q``."""
TRIES = 1000
"""Draws of a row before giving up on finding another answer."""
ROWS = 1000
"""Rows of each kind of a battery, at most."""
SEED = 10_000
"""Seed of a battery's rows, which is no member's own."""
TRAINED = "rsn_train"


def changed_rows(data: Any, rows: Int[np.ndarray, " row"], change: str, seed: int) -> Inputs:
    """The rows with a change, and their answers by ``data.task.answers``; see
    ``AnchorTask.counterfactual``."""
    changes = CHANGES | {name: (name,) for name in single_anchors(data.task.q)}
    if change not in changes:
        raise TaskError(f"a counterfactual cannot change '{change}'; {nearest(change, changes)}")
    wrong = int((data.task.answers(data, rows, data.tokens[rows]) != data.labels[rows]).sum())
    if wrong:
        raise TaskError(
            f"{wrong} of {len(rows)} labels are not what {class_name(data.task)}.answers gives, so "
            f"the answers of "
            f"changed rows are not known; override answers(data, rows, tokens) as well as the "
            f"labels."
        )
    tokens, labels = data.tokens[rows].copy(), data.labels[rows].copy()
    rng, left = np.random.default_rng([data.seed, seed, 5]), np.arange(len(rows))
    for _ in range(TRIES):
        drawn = _changed(data, rows[left], changes[change], rng)
        found = data.task.answers(data, rows[left], drawn)
        fits = (found != data.labels[rows[left]]) != (change == "noise")
        tokens[left[fits]], labels[left[fits]] = drawn[fits], found[fits]
        left = left[~fits]
        if not len(left):
            return Inputs(tokens, labels, data.roles(rows))
    kept = "change their answer with" if change == "noise" else "keep their answer whatever"
    raise TaskError(
        f"{len(left)} of {len(rows)} rows {kept} the {' and '.join(changes[change])}; "
        f"use a task with more than one key and more than one combination in each set, or another "
        f"change."
    )


def single_anchors(q: int) -> tuple[str, ...]:
    """Names of the changes of one anchor alone, in the order of the anchors."""
    return tuple(f"anchor_{number + 1}" for number in range(q))


def _changed(
    data: Any, rows: Int[np.ndarray, " row"], parts: tuple[str, ...], rng: np.random.Generator
) -> Int[np.ndarray, "row pos"]:
    """The rows with a fresh key, fresh anchors of their own set (all, or one), or fresh noise,
    drawn evenly."""
    tokens, keys = data.tokens[rows].copy(), data.task.tokens("key")
    if "noise" in parts:
        noise = data.positions["noise"][rows]
        np.put_along_axis(tokens, noise, rng.integers(keys[0], keys[-1] + 1, noise.shape), 1)
    if "key" in parts:
        np.put_along_axis(
            tokens, data.positions["key"][rows], data.fresh_keys(rows, rng)[:, None], 1
        )
    single = [number for number, name in enumerate(single_anchors(data.task.q)) if name in parts]
    if "anchors" in parts or single:
        for number, name in enumerate(data.sets):
            here = np.flatnonzero(data.set[rows] == number)
            if len(here):
                combinations, at = data.task.combinations(name), data.anchor_positions[rows[here]]
                if (
                    single
                ):  # a combination that agrees in all places but one, drawn evenly; its own counts
                    fits = _agree_elsewhere(combinations, tokens[here[:, None], at], single[0])
                    chosen = (rng.random(fits.shape) * fits).argmax(1)
                else:
                    chosen = rng.integers(0, len(combinations), len(here))
                tokens[here[:, None], at] = combinations[chosen]
    return tokens


def _agree_elsewhere(
    combinations: Int[np.ndarray, "combination q"], anchors: Int[np.ndarray, "row q"], number: int
) -> Bool[np.ndarray, "row combination"]:
    """Which combinations agree with each row's anchors in all places but one."""
    others = [place for place in range(anchors.shape[1]) if place != number]
    return (anchors[:, None, others] == combinations[None, :, others]).all(2)


def can_change_anchor(
    data: Any, rows: Int[np.ndarray, " row"], number: int
) -> Bool[np.ndarray, " row"]:
    """Whether the set of each row has another combination that differs from its own in one anchor
    alone.

    >>> from rb_interp.tasks import AnchorTask
    >>> data = AnchorTask().dataset(seed=0)
    >>> [bool(can_change_anchor(data, data.rows(set), 0).all()) for set in ("rsn_train", "rsn_test")]
    [True, False]
    """
    found = np.zeros(len(rows), dtype=bool)
    for index, name in enumerate(data.sets):
        here = np.flatnonzero(data.set[rows] == index)
        if len(here):
            anchors = data.tokens[rows[here, None], data.anchor_positions[rows[here]]]
            found[here] = _agree_elsewhere(data.task.combinations(name), anchors, number).sum(1) > 1
    return found


class Battery(NamedTuple):
    """Rows of one kind; ``distractor``, ``second_key`` and ``second_anchor`` are roles of their
    own.

    Where there are two blocks, ``key``, ``anchor`` and the answer are the earlier one's; ``second``
    has the later one's answers, ``[row]``, and is None where a row has one block.
    """

    inputs: Inputs
    second: Int[np.ndarray, " row"] | None = None


def batteries(task: AnchorTask, rows: int = ROWS, seed: int = SEED) -> dict[str, Battery]:
    """Every kind of rows that a task has, at most so many of each, by name; the same call gives the
    same rows.

    >>> from rb_interp.tasks import AnchorTask
    >>> found = batteries(AnchorTask(), rows=50)
    >>> list(found)[:5]
    ['held_out', 'length_4', 'distractor', 'second_block', 'key_at_0']
    >>> found["length_4"].inputs.tokens.shape
    (50, 4)
    """
    return {
        name: Battery(
            inputs.take(np.arange(len(inputs))[:rows]), None if second is None else second[:rows]
        )
        for name, (inputs, second) in _every(task, seed)
        if len(inputs)
    }


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
        yield (
            f"key_at_{position}",
            Battery(data.inputs(chosen[data.key_position[chosen] == position])),
        )


def _shuffled(data: AnchorDataset, set: str) -> Int[np.ndarray, " n"]:
    """The rows of a set in another order: a dataset has those of one combination together."""
    return np.random.default_rng([data.seed, 8]).permutation(data.rows(set))


def _distractor(
    data: AnchorDataset, rows: Int[np.ndarray, " n"], rng: np.random.Generator
) -> Battery:
    """Rows with an anchor in place of one noise token; the one behind the block would make the
    block longer."""
    start, at = data.key_position[rows][:, None], np.arange(data.task.length)
    free = (at < start) | (at > start + data.task.q + 1)
    has_room = free.any(1)
    rows, place = rows[has_room], _draw(free[has_room], rng)[:, None]
    tokens = data.tokens[rows].copy()
    np.put_along_axis(
        tokens, place, rng.choice(data.task.tokens("reasoning_anchor"), (len(rows), 1)), 1
    )
    positions = {
        "key": data.positions["key"][rows],
        "anchor": data.anchor_positions[rows],
        "distractor": place,
    }
    return Battery(_answered(data, rows, tokens, positions))


def _second_block(
    data: AnchorDataset, rows: Int[np.ndarray, " n"], rng: np.random.Generator
) -> Battery:
    """Rows with a second block in place of noise; rows whose two answers are equal are left out."""
    task, size = data.task, data.task.q + 1
    start, at = data.key_position[rows][:, None], np.arange(task.length)
    free = ((at + size <= start) | (at >= start + size)) & (at + size <= task.length)
    has_room = free.any(1)
    rows, place = rows[has_room], _draw(free[has_room], rng)[:, None]
    tokens, combinations = data.tokens[rows].copy(), task.combinations(TRAINED)
    keys = rng.choice(task.tokens("key"), (len(rows), 1))
    new = np.hstack([keys, combinations[rng.integers(0, len(combinations), len(rows))]])
    np.put_along_axis(tokens, place + np.arange(size), new, 1)
    key, later = np.split(
        np.sort(np.hstack([data.positions["key"][rows], place]), axis=1), 2, axis=1
    )
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
    data: AnchorDataset,
    rows: Int[np.ndarray, " n"],
    tokens: Int[np.ndarray, "n pos"],
    at: dict[str, np.ndarray],
) -> Inputs:
    """Changed rows with their roles, noise being all that has no other, and the task's own
    answers."""
    roles = {**at, "noise": other_positions(at, tokens.shape[1])}
    changed = replace(
        data, tokens=tokens, labels=data.labels[rows], set=data.set[rows], positions=roles
    )
    every = np.arange(len(rows))
    return replace(changed, labels=data.task.answers(changed, every, tokens)).inputs(every)


def other_positions(roles: Mapping[str, np.ndarray], length: int) -> Int[np.ndarray, "row n"]:
    """The positions of each row that have no role, in order; every row has as many.

    >>> other_positions({"key": np.array([[0], [1]])}, length=3).tolist()
    [[1, 2], [0, 2]]
    """
    taken = np.concatenate(list(roles.values()), axis=1)
    free = np.ones((len(taken), length), dtype=bool)
    np.put_along_axis(free, taken, False, 1)
    return np.nonzero(free)[1].reshape(len(taken), length - taken.shape[1])
