"""A model whose embeddings all point one way, as early in training from a small initialisation."""

from __future__ import annotations

import numpy as np

from rb_interp.models.reference.blueprint import KAPPA, SECOND, Blueprint, drawn
from rb_interp.models.reference.record import Reference
from rb_interp.tasks.anchor import AnchorTask

SHARED = (7.0, 14.0)
"""Lowest and highest length of the vector that all embeddings share; each one's own vector has length 1."""


def condensed(task: AnchorTask, seed: int, label_seed: int) -> Reference:
    """All tokens share one large direction, which W_V reads; the answer is a constant."""
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
