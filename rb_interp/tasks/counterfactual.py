"""Inputs that differ from given rows in one thing: the key, the anchors, both, or only the noise.

Position, kind (memory or reasoning) and everything that is not named stay as they were. Patching asks what carries the
difference between a row and its counterfactual; a counterfactual in noise alone has the same answer, and so shows what
a patch does that carries nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from rb_interp.errors import TaskError, nearest
from rb_interp.tasks.roles import Roles

if TYPE_CHECKING:
    from rb_interp.tasks.dataset import AnchorDataset

CHANGES = {"key": ("key",), "anchors": ("anchors",), "both": ("key", "anchors"), "noise": ("noise",)}
"""What ``counterfactual`` can change."""
TRIES = 1000
"""Draws of a row before giving up on finding another answer."""


@dataclass(frozen=True)
class Inputs:
    """Rows of a task that need not be rows of its dataset.

    Attributes:
        tokens: ``[row, pos]``. labels: ``[row]``, the right answer at the last position. roles: of these rows.
    """

    tokens: Int[np.ndarray, "row pos"]
    labels: Int[np.ndarray, " row"]
    roles: Roles

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: np.ndarray) -> Inputs:
        """A selection of rows (indices or a boolean mask)."""
        return Inputs(self.tokens[rows], self.labels[rows], self.roles.take(rows))


def inputs(data: AnchorDataset, rows: Int[np.ndarray, " row"]) -> Inputs:
    """Rows of a dataset as they are."""
    return Inputs(data.tokens[rows], data.labels[rows], data.roles(rows))


def counterfactual(data: AnchorDataset, rows: Int[np.ndarray, " row"], change: str, seed: int = 0) -> Inputs:
    """The same rows with another ``key``, other ``anchors``, ``both``, or other ``noise``, and their right answers.

    A changed key or combination is drawn evenly from the others of its own set (memory, reasoning trained on, held
    out), again and again until it has another right answer. Noise is drawn anew from all keys. The same seed gives the
    same rows.

    Raises TaskError for an unknown change, and where a row has no counterfactual with another answer.

    >>> from rb_interp.tasks import AnchorTask
    >>> data = AnchorTask().dataset(seed=0)
    >>> rows = data.sample("rsn_train", 50)
    >>> other = counterfactual(data, rows, "key")
    >>> at = data.key_position[rows]
    >>> key = lambda tokens: tokens[range(50), at]
    >>> bool((other.labels - data.labels[rows] == key(other.tokens) - key(data.tokens[rows])).all())
    True
    >>> bool((counterfactual(data, rows, "noise").labels == data.labels[rows]).all())
    True
    """
    if change not in CHANGES:
        raise TaskError(f"a counterfactual cannot change '{change}'; {nearest(change, CHANGES)}")
    tokens, rng = data.tokens[rows].copy(), np.random.default_rng([data.seed, seed, 5])
    roles = data.roles(rows)
    if change == "noise":
        keys = data.task.tokens("key")
        noise = roles.position("noise")
        np.put_along_axis(tokens, noise, rng.integers(keys[0], keys[-1] + 1, noise.shape), 1)
        return Inputs(tokens, data.labels[rows], roles)
    labels, left = data.labels[rows].copy(), np.arange(len(rows))
    for _ in range(TRIES):
        drawn = _changed(data, rows[left], CHANGES[change], rng)
        found = answers(data, rows[left], drawn)
        other = found != data.labels[rows[left]]
        tokens[left[other]], labels[left[other]] = drawn[other], found[other]
        left = left[~other]
        if not len(left):
            return Inputs(tokens, labels, roles)
    raise TaskError(
        f"{len(left)} of {len(rows)} rows keep their answer whatever the {' and '.join(CHANGES[change])}; "
        f"use a task with more than one key and more than one combination in each set."
    )


def answers(
    data: AnchorDataset, rows: Int[np.ndarray, " row"], tokens: Int[np.ndarray, "row pos"]
) -> Int[np.ndarray, " row"]:
    """Right answers of tokens that hold key and anchors where the given rows do, and are of their kind."""
    key = np.take_along_axis(tokens, data.key_position[rows, None], 1)[:, 0]
    anchors = np.take_along_axis(tokens, data.anchor_positions[rows], 1)
    labels = key + anchors.sum(1)
    memory = data.kind[rows] == 0
    if memory.any():
        found = {combination: i for i, combination in enumerate(map(tuple, data.task.combinations("mem").tolist()))}
        index = [found[combination] for combination in map(tuple, anchors[memory].tolist())]
        labels[memory] = data.label_table[index, key[memory] - data.task.keys[0]]
    return labels


def _changed(
    data: AnchorDataset, rows: Int[np.ndarray, " row"], parts: tuple[str, ...], rng: np.random.Generator
) -> Int[np.ndarray, "row pos"]:
    """The rows with a fresh key or fresh anchors of their own set, drawn evenly."""
    from rb_interp.tasks.dataset import SETS

    tokens = data.tokens[rows].copy()
    if "key" in parts:
        keys = data.task.tokens("key")
        np.put_along_axis(tokens, data.key_position[rows, None], rng.choice(keys, (len(rows), 1)), 1)
    if "anchors" in parts:
        for number, name in enumerate(SETS):
            here = np.flatnonzero(data.kind[rows] == number)
            if len(here):
                combinations = data.task.combinations(name)
                drawn = combinations[rng.integers(0, len(combinations), len(here))]
                tokens[here[:, None], data.anchor_positions[rows[here]]] = drawn
    return tokens
