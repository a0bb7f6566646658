"""A stage: a named point of a member's own learning curves, at which training keeps the member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from rb_interp.typed import typed

Evaluation = Float[np.ndarray, "member set 2"]
"""One evaluation: loss (nats) and accuracy of every member on every set, sets in the task's order."""
HALF = 0.5
"""The stage ``half`` is where the loss on rsn_train is first at most this share of ln d_vocab."""


@typed
@dataclass(frozen=True)
class Stage:
    """When a member is kept.

    Attributes:
        reached: takes an evaluation and the one at step 0. Returns True for each member that the stage holds for.
        keep: ``first`` keeps the first such evaluation, or the last step if none comes. ``last`` keeps the last one.
        with_siblings: keep all members of the same seed too, in the same file.

    >>> learned = Stage(lambda now, start: now[:, 0, 1] >= 0.9)
    >>> learned.reached(np.array([[[0.1, 0.95]], [[2.0, 0.3]]]), np.zeros((2, 1, 2))).tolist()
    [True, False]
    """

    reached: Callable[[Evaluation, Evaluation], Bool[np.ndarray, " member"]]
    keep: Literal["first", "last"] = "first"
    with_siblings: bool = False
