"""Equal training loss: how much of what was learned carries over to held-out pairs.

From learning curves alone. A window is five evaluations in a row, and every number is its mean:

    window at a level     the first whose loss on rsn_train is at most the level, 3.0 or 2.65 nats
    gap                   loss on rsn_test - loss on rsn_train, in nats; mean of both levels
    gap_LEVEL             the same at one level
    acc_gap_LEVEL         accuracy on rsn_train - accuracy on rsn_test, in [-1, 1]
    loss_LEVEL, step_LEVEL   loss on rsn_train, and the window's first step
    acc_gap_at_ACCURACY   acc_gap at the first window with an accuracy on rsn_train of .5, .7, .9

Members are compared where they have learned equally much, so neither the learning rate nor the
number of steps decides, as they do for the bias index B.

How it can mislead. A member that never comes to a level has no number (nan), and neither has an
untrained one: its seed does not count, so look at how many do. Where the loss falls fast from one
evaluation to the next, the window lies below the level: compare ``loss_LEVEL``. A member that
memorises reads a gap that grows with each level, one that learns the rule a gap near 0; but so does
a member that has only learned how frequent the labels are, if the level lies near their entropy.
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from rb_interp.statistics.learning_order import (
    Curve,
    by_set,
    losses_and_accuracies,
    readings_of_curves,
)
from rb_interp.statistics.reading import Reading

__all__ = ["ACCURACIES", "LEVELS", "equal_loss", "equal_loss_table", "first_window"]

LEVELS = (3.0, 2.65)
"""Training losses in nats."""
ACCURACIES = (0.5, 0.7, 0.9)
"""Training accuracies."""
WINDOW = 5
"""Evaluations that are averaged."""


def first_window(values: Curve, level: float) -> slice | None:
    """The first five evaluations in a row whose mean is at most a level; None if there are none.

    >>> first_window(np.array([9.0, 3.0, 3.0, 3.0, 3.0, 3.0, 2.0]), 3.0)
    slice(1, 6, None)
    """
    if len(values) < WINDOW:
        return None
    means = np.lib.stride_tricks.sliding_window_view(values, WINDOW).mean(-1)
    reached = means <= level
    start = int(reached.argmax())
    return slice(start, start + WINDOW) if reached[start] else None


def equal_loss(
    losses: Mapping[str, Curve],
    accuracies: Mapping[str, Curve],
    steps: Int[np.ndarray, " evaluation"],
) -> Reading:
    """Read one member's gaps from its curves (set -> one number per evaluation).

    The untrained model has none of them. ``n`` is the number of evaluations.
    """
    loss, accuracy = losses["rsn_train"], accuracies["rsn_train"]
    held_out = np.full(len(loss), math.nan)
    loss_gap = losses.get("rsn_test", held_out) - loss
    accuracy_gap = accuracy - accuracies.get("rsn_test", held_out)
    values = {"gap": math.nan}
    for level in LEVELS:
        window = first_window(loss, level)
        values[f"gap_{level:g}"] = _mean(loss_gap, window)
        values[f"acc_gap_{level:g}"] = _mean(accuracy_gap, window)
        values[f"loss_{level:g}"] = _mean(loss, window)
        values[f"step_{level:g}"] = float(steps[window][0]) if window else math.nan
    values["gap"] = float(np.mean([values[f"gap_{level:g}"] for level in LEVELS]))
    for trained in ACCURACIES:
        window = first_window(-accuracy, -trained)
        values[f"acc_gap_at_{trained:g}"] = _mean(accuracy_gap, window)
    return Reading("equal_loss", values, untrained=dict.fromkeys(values, math.nan), n=len(steps))


def _mean(curve: Float[np.ndarray, " evaluation"], window: slice | None) -> float:
    return math.nan if window is None else float(curve[window].mean())


def equal_loss_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Readings table of every member in a curves table, see `readings_of_curves`."""

    def read(member: pd.DataFrame, seed: int) -> Reading:
        sets = by_set(member)
        steps = sets["rsn_train"]["step"].to_numpy()
        return equal_loss(*losses_and_accuracies(sets), steps)

    return readings_of_curves(curves, read)
