"""Readings of Delta L, one block a member, from the learning curves of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from rb_interp.errors import RunError
from rb_interp.statistics.corpus_loss import corpus_loss
from rb_interp.statistics.curves import by_set, readings_of_curves
from rb_interp.statistics.reading import Reading


def corpus_loss_table(curves: pd.DataFrame, entropies: Mapping[int, tuple[float, float]]) -> pd.DataFrame:
    """Readings table of every member in a curves table, see `readings_of_curves`; entropies by seed.

    Raises RunError also where a member's sets were not evaluated at the same steps.
    """

    def read(member: pd.DataFrame, name: str, seed: int) -> Reading:
        sets, steps = by_set(member), np.unique(member["step"].to_numpy())
        for key, rows in sets.items():
            if not np.array_equal(rows["step"].to_numpy(), steps):
                raise RunError(
                    f"{name} has {len(rows)} evaluations of '{key}' and {len(steps)} steps; evaluate every set at the "
                    f"same steps."
                )
        losses = {key: rows["loss"].to_numpy(dtype=np.float64) for key, rows in sets.items()}
        return corpus_loss(losses, steps, entropies.get(seed, (math.nan, math.nan)))

    return readings_of_curves(curves, read)
