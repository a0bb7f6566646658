"""Inputs that differ from given rows in one thing: the key, the anchors, one anchor, both, or only the noise.

Position, set and everything that is not named stay as they were. Patching asks what carries the difference between a
row and its counterfactual. A counterfactual in noise alone has the same answer; it shows what a patch does that carries
nothing.

The rows are of an AnchorDataset, or of another dataset with a key and anchors in each row: it has ``anchor_positions``
and ``fresh_keys(rows, rng)``, and its task has ``q``, ``tokens("key")``, ``combinations(set)`` and
``answers(data, rows, tokens)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.errors import TaskError, nearest
from rb_interp.settings import class_name
from rb_interp.tasks.inputs import Inputs

CHANGES = {"key": ("key",), "anchors": ("anchors",), "both": ("key", "anchors"), "noise": ("noise",)}
"""What ``counterfactual`` can change, besides one anchor alone: ``anchor_1`` .. ``anchor_q``."""
TRIES = 1000
"""Draws of a row before giving up on finding another answer."""


def changed_rows(data: Any, rows: Int[np.ndarray, " row"], change: str, seed: int) -> Inputs:
    """The rows with a change, and their answers by ``data.task.answers``; see ``AnchorTask.counterfactual``."""
    changes = CHANGES | {name: (name,) for name in single_anchors(data.task.q)}
    if change not in changes:
        raise TaskError(f"a counterfactual cannot change '{change}'; {nearest(change, changes)}")
    wrong = int((data.task.answers(data, rows, data.tokens[rows]) != data.labels[rows]).sum())
    if wrong:
        raise TaskError(
            f"{wrong} of {len(rows)} labels are not what {class_name(data.task)}.answers gives, so the answers of "
            f"changed rows are not known; override answers(data, rows, tokens) as well as the labels."
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
    what = " and ".join(changes[change])
    if change == "noise":
        raise TaskError(f"{len(left)} of {len(rows)} rows change their answer with the noise; ask for another change.")
    raise TaskError(
        f"{len(left)} of {len(rows)} rows keep their answer whatever the {what}; "
        f"use a task with more than one key and more than one combination in each set."
    )


def single_anchors(q: int) -> tuple[str, ...]:
    """Names of the changes of one anchor alone, in the order of the anchors.

    >>> single_anchors(2)
    ('anchor_1', 'anchor_2')
    """
    return tuple(f"anchor_{number + 1}" for number in range(q))


def _changed(
    data: Any, rows: Int[np.ndarray, " row"], parts: tuple[str, ...], rng: np.random.Generator
) -> Int[np.ndarray, "row pos"]:
    """The rows with a fresh key, fresh anchors of their own set (all, or one), or fresh noise, drawn evenly."""
    tokens, keys = data.tokens[rows].copy(), data.task.tokens("key")
    if "noise" in parts:
        noise = data.positions["noise"][rows]
        np.put_along_axis(tokens, noise, rng.integers(keys[0], keys[-1] + 1, noise.shape), 1)
    if "key" in parts:
        np.put_along_axis(tokens, data.positions["key"][rows], data.fresh_keys(rows, rng)[:, None], 1)
    single = [number for number, name in enumerate(single_anchors(data.task.q)) if name in parts]
    if "anchors" in parts or single:
        for number, name in enumerate(data.sets):
            here = np.flatnonzero(data.set[rows] == number)
            if len(here):
                combinations, at = data.task.combinations(name), data.anchor_positions[rows[here]]
                if single:  # a combination that agrees in all places but one, drawn evenly; its own counts
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


def can_change_anchor(data: Any, rows: Int[np.ndarray, " row"], number: int) -> Bool[np.ndarray, " row"]:
    """Whether the set of each row has another combination that differs from its own in one anchor alone.

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
