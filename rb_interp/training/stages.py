"""Stages of a member that its own learning curves decide, and that are kept when they come.

    half           first evaluation with f_rsn_train <= 1/2, with the same-seed siblings;  f = min(L / ln d_vocab, 1)
    leaving        first evaluation with f_rsn_train < .99: the member leaves the plateau that it starts on
    before_memory  last evaluation with accuracy on mem <= .20
    early          first evaluation with pooled loss (mean over the two training sets) <= 80 % of its start (claim G3)

A first one that never comes is the last step. ``before_memory`` is written again at every evaluation that meets it.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float

from rb_interp.tasks import SETS

HALF, LEAVING, MEMORY_ACCURACY, EARLY = 0.5, 0.99, 0.20, 0.80
FIRST = ("half", "leaving", "early")
WITH_SIBLINGS = ("half",)


def meets(
    stage: str, values: Float[np.ndarray, "member set 2"], start: Float[np.ndarray, "member set 2"], d_vocab: int
) -> Bool[np.ndarray, " member"]:
    """Which members an evaluation (loss and accuracy by set, training sets first) puts at a stage.

    ``start`` is the evaluation at step 0.

    >>> now = np.array([[[5.3, 0.0], [2.6, 0.1], [5.3, 0.0]]])
    >>> [bool(meets(stage, now, now, d_vocab=200)[0]) for stage in ("half", "leaving", "before_memory")]
    [True, True, True]
    """
    if stage == "early":
        return np.nanmean(values[:, :2, 0], axis=1) <= EARLY * np.nanmean(start[:, :2, 0], axis=1)
    if stage == "before_memory":
        return values[:, SETS.index("mem"), 1] <= MEMORY_ACCURACY
    fraction = values[:, SETS.index("rsn_train"), 0] / math.log(d_vocab)
    return fraction <= HALF if stage == "half" else fraction < LEAVING
