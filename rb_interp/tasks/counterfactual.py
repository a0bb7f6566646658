"""Inputs that differ from given rows in one thing: the key, the anchors, both, or only the noise.

Position, set and everything that is not named stay as they were. Patching asks what carries the difference between a
row and its counterfactual. A counterfactual in noise alone has the same answer; it shows what a patch does that carries
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from rb_interp.errors import TaskError, nearest
from rb_interp.tasks.fingerprint import class_name
from rb_interp.tasks.inputs import Inputs

if TYPE_CHECKING:
    from rb_interp.tasks.dataset import AnchorDataset

CHANGES = {"key": ("key",), "anchors": ("anchors",), "both": ("key", "anchors"), "noise": ("noise",)}
"""What ``counterfactual`` can change."""
TRIES = 1000
"""Draws of a row before giving up on finding another answer."""


def changed_rows(data: AnchorDataset, rows: Int[np.ndarray, " row"], change: str, seed: int) -> Inputs:
    """The rows with a change, and their answers by ``data.task.answers``; see ``AnchorTask.counterfactual``."""
    if change not in CHANGES:
        raise TaskError(f"a counterfactual cannot change '{change}'; {nearest(change, CHANGES)}")
    _check_rule(data, rows)
    tokens, labels = data.tokens[rows].copy(), data.labels[rows].copy()
    rng, left = np.random.default_rng([data.seed, seed, 5]), np.arange(len(rows))
    for _ in range(TRIES):
        drawn = _changed(data, rows[left], CHANGES[change], rng)
        found = data.task.answers(data, rows[left], drawn)
        fits = (found != data.labels[rows[left]]) != (change == "noise")
        tokens[left[fits]], labels[left[fits]] = drawn[fits], found[fits]
        left = left[~fits]
        if not len(left):
            return Inputs(tokens, labels, data.roles(rows))
    what = " and ".join(CHANGES[change])
    if change == "noise":
        raise TaskError(f"{len(left)} of {len(rows)} rows change their answer with the noise; ask for another change.")
    raise TaskError(
        f"{len(left)} of {len(rows)} rows keep their answer whatever the {what}; "
        f"use a task with more than one key and more than one combination in each set."
    )


def _check_rule(data: AnchorDataset, rows: Int[np.ndarray, " row"]) -> None:
    """Raise TaskError where the rows' labels are not what the task's own rule says."""
    wrong = int((data.task.answers(data, rows, data.tokens[rows]) != data.labels[rows]).sum())
    if wrong:
        raise TaskError(
            f"{wrong} of {len(rows)} labels are not what {class_name(data.task)}.answers gives, so the answers of "
            f"changed rows are not known; override answers(data, rows, tokens) as well as the labels."
        )


def _changed(
    data: AnchorDataset, rows: Int[np.ndarray, " row"], parts: tuple[str, ...], rng: np.random.Generator
) -> Int[np.ndarray, "row pos"]:
    """The rows with a fresh key, fresh anchors of their own set, or fresh noise, drawn evenly."""
    tokens, keys = data.tokens[rows].copy(), data.task.tokens("key")
    if "noise" in parts:
        noise = data.positions["noise"][rows]
        np.put_along_axis(tokens, noise, rng.integers(keys[0], keys[-1] + 1, noise.shape), 1)
    if "key" in parts:
        np.put_along_axis(tokens, data.positions["key"][rows], rng.choice(keys, (len(rows), 1)), 1)
    if "anchors" in parts:
        for number, name in enumerate(data.sets):
            here = np.flatnonzero(data.set[rows] == number)
            if len(here):
                combinations = data.task.combinations(name)
                drawn = combinations[rng.integers(0, len(combinations), len(here))]
                tokens[here[:, None], data.anchor_positions[rows[here]]] = drawn
    return tokens
