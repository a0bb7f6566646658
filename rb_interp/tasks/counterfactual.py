"""Inputs that differ from given rows in one thing: key, anchors, one anchor, both, or noise.

Position, set and everything that is not named stay as they were. Patching asks what carries the
difference between a row and its counterfactual. A counterfactual in noise alone has the same
answer; it shows what a patch does that carries nothing.

The rows are of an AnchorDataset, or of another dataset with a key and anchors in each row: it has
``anchor_positions`` and ``fresh_keys(rows, rng)``, and its task has ``q``, ``tokens("key")``,
``combinations(set)`` and ``answers(data, rows, tokens)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.errors import TaskError, nearest
from rb_interp.settings import class_name
from rb_interp.tasks.inputs import Inputs

CHANGES = {
    "key": ("key",),
    "anchors": ("anchors",),
    "both": ("key", "anchors"),
    "noise": ("noise",),
}
"""What ``counterfactual`` can change, besides one anchor alone: ``anchor_1`` .. ``anchor_q``."""
TRIES = 1000
"""Draws of a row before giving up on finding another answer."""


def changed_rows(data: Any, rows: Int[np.ndarray, " row"], change: str, seed: int) -> Inputs:
    """The rows with a change, and their answers by ``data.task.answers``.

    See ``AnchorTask.counterfactual``.
    """
    changes = CHANGES | {name: (name,) for name in single_anchors(data.task.q)}
    if change not in changes:
        raise TaskError(f"a counterfactual cannot change '{change}'; {nearest(change, changes)}")
    answers = data.task.answers(data, rows, data.tokens[rows])
    n_wrong = int((answers != data.labels[rows]).sum())
    if n_wrong:
        raise TaskError(
            f"{n_wrong} of {len(rows)} labels are not what {class_name(data.task)}.answers gives, "
            f"so the answers of changed rows are not known; override answers(data, rows, tokens) "
            f"as well as the labels."
        )
    tokens = data.tokens[rows].copy()
    labels = data.labels[rows].copy()
    rng = np.random.default_rng([data.seed, seed, 5])
    left = np.arange(len(rows))
    for _ in range(TRIES):
        redrawn = _redrawn(data, rows[left], changes[change], rng)
        answers = data.task.answers(data, rows[left], redrawn)
        differs = answers != data.labels[rows[left]]
        fits = ~differs if change == "noise" else differs
        tokens[left[fits]] = redrawn[fits]
        labels[left[fits]] = answers[fits]
        left = left[~fits]
        if not len(left):
            return Inputs(tokens, labels, data.roles(rows))
    failure = "change their answer with" if change == "noise" else "keep their answer whatever"
    raise TaskError(
        f"{len(left)} of {len(rows)} rows {failure} the {' and '.join(changes[change])}; use a task "
        f"with more than one key and more than one combination in each set, or another change."
    )


def single_anchors(q: int) -> tuple[str, ...]:
    """Names of the changes of one anchor alone, in the order of the anchors."""
    return tuple(f"anchor_{number + 1}" for number in range(q))


def _redrawn(
    data: Any, rows: Int[np.ndarray, " row"], parts: tuple[str, ...], rng: np.random.Generator
) -> Int[np.ndarray, "row pos"]:
    """The rows with a fresh key, fresh anchors of their set (all, or one), or fresh noise."""
    tokens = data.tokens[rows].copy()
    if "noise" in parts:
        keys = data.task.tokens("key")
        noise = data.positions["noise"][rows]
        np.put_along_axis(tokens, noise, rng.integers(keys[0], keys[-1] + 1, noise.shape), 1)
    if "key" in parts:
        fresh = data.fresh_keys(rows, rng)
        np.put_along_axis(tokens, data.positions["key"][rows], fresh[:, None], 1)
    single = [number for number, name in enumerate(single_anchors(data.task.q)) if name in parts]
    if "anchors" not in parts and not single:
        return tokens
    for number, name in enumerate(data.sets):
        members = np.flatnonzero(data.set[rows] == number)
        if not len(members):
            continue
        combinations = data.task.combinations(name)
        cells = members[:, None], data.anchor_positions[rows[members]]
        if single:
            # any combination that agrees in all other anchors, the row's included
            fits = _agree_elsewhere(combinations, tokens[cells], single[0])
            chosen = (rng.random(fits.shape) * fits).argmax(1)
        else:
            chosen = rng.integers(0, len(combinations), len(members))
        tokens[cells] = combinations[chosen]
    return tokens


def _agree_elsewhere(
    combinations: Int[np.ndarray, "combination q"], anchors: Int[np.ndarray, "row q"], number: int
) -> Bool[np.ndarray, "row combination"]:
    """Whether each combination agrees with each row's anchors in all anchors but one."""
    elsewhere = np.arange(anchors.shape[1]) != number
    return (anchors[:, None, elsewhere] == combinations[None, :, elsewhere]).all(2)


def can_change_anchor(
    data: Any, rows: Int[np.ndarray, " row"], number: int
) -> Bool[np.ndarray, " row"]:
    """Whether the set of each row has another combination that differs in one anchor alone.

    >>> from rb_interp.tasks import AnchorTask
    >>> data = AnchorTask().dataset(seed=0)
    >>> [bool(can_change_anchor(data, data.rows(set), 0).all()) for set in ("rsn_train", "rsn_test")]
    [True, False]
    """
    changeable = np.zeros(len(rows), dtype=bool)
    for index, name in enumerate(data.sets):
        members = np.flatnonzero(data.set[rows] == index)
        if len(members):
            chosen = rows[members]
            anchors = data.tokens[chosen[:, None], data.anchor_positions[chosen]]
            agree = _agree_elsewhere(data.task.combinations(name), anchors, number)
            changeable[members] = agree.sum(1) > 1
    return changeable
