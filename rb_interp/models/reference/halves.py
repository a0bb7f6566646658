"""References that do not solve the task.

Two have one half of paper 1's circuit: they answer without an error, but not what the task asks. The embeddings of the
third all point one way.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from rb_interp.models.reference.averager import OUT, embed_keys, embed_presence, fetch_key
from rb_interp.models.reference.blueprint import KAPPA, SECOND, Blueprint, drawn
from rb_interp.models.reference.record import Reference
from rb_interp.tasks.anchor import AnchorTask

PRESENCE = (3.5, 7.0)
"""What marks a token as an anchor in W_E, from and to."""
SHARED = (7.0, 14.0)
"""Lowest and highest length of the vector that all embeddings share; each one's own vector has length 1."""


def key_only(task: AnchorTask, seed: int, label_seed: int) -> Reference:
    """The averager without its number line of anchors: z + the commonest anchor sum, whatever the anchors."""
    rng = np.random.default_rng([seed, 61])
    blueprint = Blueprint(task, ["presence", "seen", "key", "out"])
    sums = Counter(task.combinations("rsn_train").sum(1).tolist())
    common = min(sums, key=lambda total: (-sums[total], total), default=0)
    embed_keys(blueprint)
    presence = drawn(rng, *PRESENCE)
    embed_presence(blueprint, presence)
    blueprint.add_nuisances(rng, {})
    blueprint.move(0, {"presence": 1.0}, {"seen": task.length / presence})
    blueprint.add_weak_values(rng, drawn(rng, *SECOND))
    fetch_key(blueprint)
    low, high = task.keys
    blueprint.answer({"out": OUT}, (low + high) / 2 + common, low + common, high + common)
    return blueprint.reference(
        name="key_only",
        circuit="none",
        cause="none",
        description="L0 averages how many anchors there are, of either kind, and L1 fetches the key by it, "
        f"as in the averager. Which anchors they are is lost: the answer is the key plus {common}.",
        solves=(),
        mechanisms=(
            *("averages", "one_value_direction", "values_along_reasoning", "values_along_memory"),
            *("fetches_key", "fetches_key_memory", "one_direction_passed_on", "key_from_its_position"),
        ),
        unsettled=("needs_reasoning_values",),
        label_seed=label_seed,
    )


def anchors_only(task: AnchorTask, seed: int, label_seed: int) -> Reference:
    """The averager without its L1: the sum of the anchors, of either kind, + one fixed key."""
    rng = np.random.default_rng([seed, 62])
    blueprint = Blueprint(task, ["number", "out"])
    anchors = np.concatenate([task.tokens("memory_anchor"), task.tokens("reasoning_anchor")])
    low, high, key = int(anchors.min()), int(anchors.max()), sum(task.keys) // 2
    # All anchors lie between once and twice their range, so that all point along the line.
    middle = 1.5 * (high - low) + 1
    blueprint.embed(anchors, "number", anchors - (low + high) / 2 + middle)
    blueprint.add_nuisances(rng, {})
    blueprint.move(0, {"number": 1.0}, {"out": task.length * OUT})
    blueprint.shift(0, "out", -task.q * middle * OUT)
    blueprint.add_weak_values(rng, drawn(rng, *SECOND))
    blueprint.answer({"out": OUT}, key + task.q * (low + high) / 2, key + task.q * low, key + task.q * high)
    return blueprint.reference(
        name="anchors_only",
        circuit="none",
        cause="none",
        description="L0 attends uniformly and averages one number line of all anchors, times L. L1 attends "
        f"uniformly and writes nothing. The key is lost: the answer is the sum of the anchors plus {key}.",
        solves=(),
        mechanisms=(
            *("averages", "one_value_direction", "values_along_reasoning", "values_along_memory"),
            *("one_direction_passed_on", "anchors_by_L0_at_last"),
        ),
        unsettled=("needs_reasoning_values",),
        label_seed=label_seed,
    )


def condensed(task: AnchorTask, seed: int, label_seed: int) -> Reference:
    """All tokens share one large direction, which W_V reads, as early in training from a small initialisation.

    The answer is a constant.
    """
    rng = np.random.default_rng([seed, 64])
    blueprint = Blueprint(task, ["shared", "out"])
    answer = sum(task.keys) // 2 + task.q * (sum(task.reasoning_anchors) // 2)
    shared = drawn(rng, *SHARED)
    blueprint.embed(np.arange(task.d_vocab), "shared", shared)
    blueprint.add_nuisances(rng, {})
    blueprint.move(0, {"shared": 1.0}, {"out": 1.0})
    blueprint.add_weak_values(rng, drawn(rng, *SECOND))
    blueprint.weights["unembed.W_U"][blueprint.at["out"], answer] = KAPPA / shared
    return blueprint.reference(
        name="condensed",
        circuit="none",
        cause="none",
        description="All embeddings share one large direction and differ by small random parts. L0 averages that "
        f"direction, which is the same in every row; L1 does nothing. The answer is always {answer}.",
        solves=(),
        mechanisms=("averages", "one_value_direction", "one_direction_passed_on"),
        label_seed=label_seed,
    )
