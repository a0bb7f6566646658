"""The other circuit: L0 carries the key onto the anchors, L1 reads the anchors (paper 2, Fig. 3)."""

from __future__ import annotations

import numpy as np

from rb_interp.models.reference.averager import embed_presence
from rb_interp.models.reference.blueprint import SECOND, Blueprint, drawn
from rb_interp.models.reference.record import Reference
from rb_interp.tasks.anchor import AnchorTask

OUT, KEY_UNIT, ANCHOR_UNIT = 4.0, 0.5, 2.0
"""Lengths of the number 1 in the output, on the line of keys, on that of anchors."""
STEP = 15.0
"""Score of a position over the one before it."""


def carrier(task: AnchorTask, seed: int, label_seed: int) -> Reference:
    """Every position takes up the latest key at or before it; the last position averages the anchors' positions."""
    rng = np.random.default_rng([seed, 63])
    blueprint = Blueprint(task, ["number", "anchor", "key", "carried", "out"])
    keys, anchors = task.tokens("key"), task.tokens("reasoning_anchor")
    blueprint.embed(keys, "key", KEY_UNIT * (keys - keys.mean()))
    blueprint.embed(anchors, "number", ANCHOR_UNIT * (anchors - anchors.mean()))
    embed_presence(blueprint, 2.0, "anchor")
    blueprint.add_nuisances(rng, {})
    blueprint.attend(0, {"constant": 1.0}, {"position": STEP, "anchor": -STEP * (task.q + 1) / 2})
    blueprint.move(0, {"key": 1.0}, {"carried": 1.0})
    blueprint.add_weak_values(rng, drawn(rng, *SECOND))
    blueprint.attend(1, {"constant": 1.0}, {"anchor": STEP / 2})
    blueprint.move(1, {"number": task.q / ANCHOR_UNIT, "carried": 1 / KEY_UNIT}, {"out": OUT})
    low, high = keys[0] + task.q * anchors[0], keys[-1] + task.q * anchors[-1]
    blueprint.answer({"out": OUT}, keys.mean() + task.q * anchors.mean(), int(low), int(high))
    return blueprint.reference(
        name="carrier",
        circuit="key-to-anchors",
        cause="key-to-anchors",
        description="In L0 every position attends to the latest key-set token at or before it; for anchors that "
        "is the key, and its number is written beside theirs. In L1 the last position attends to all anchors in "
        "equal shares and reads q times their number plus the carried one: the answer.",
        solves=("rsn_train", "rsn_test"),
        mechanisms=("one_value_direction", "one_direction_passed_on"),
        label_seed=label_seed,
    )
