"""Learning curves of members as readings: the table is checked, split by member and set, and read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from rb_interp.errors import RunError
from rb_interp.statistics.reading import Reading

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("gamma", "seed", "step", "set", "loss", "accuracy")

Curve = Float[np.ndarray, " evaluation"]


def readings_of_curves(curves: pd.DataFrame, read: Callable[[pd.DataFrame, str, int], Reading]) -> pd.DataFrame:
    """Readings table (stage ``final``, set ``""``) of every member in a curves table.

    Args:
        curves: columns COLUMNS, one row per evaluation of a set.
        read: takes the rows of one member, its name in messages, and its seed.

    Raises RunError where the table is empty or lacks a column, or a member has an evaluation twice.
    """
    import pandas as pd

    if curves.empty or not {*COLUMNS} <= {*curves.columns}:
        raise RunError(
            f"the curves table has {len(curves)} rows and the columns {list(curves.columns)}; expected "
            f"{', '.join(COLUMNS[:-1])} and {COLUMNS[-1]}, one row per evaluation."
        )
    blocks = []
    for _, member in curves.groupby(["gamma", "seed"], sort=True):
        gamma, seed = member["gamma"].iloc[0], int(member["seed"].iloc[0])
        name = f"member gamma={gamma}, seed={seed}"
        if member.duplicated(["step", "set"]).any():
            raise RunError(f"{name} has an evaluation twice; drop duplicated (step, set) rows.")
        block = pd.DataFrame(read(member, name, seed).rows())
        place = {
            "gamma": gamma,
            "seed": seed,
            "stage": "final",
            "step": int(member["step"].to_numpy().max()),
            "set": "",
        }
        blocks.append(block.assign(**place)[[*place, *block.columns]])
    return pd.concat(blocks, ignore_index=True)


def by_set(member: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """A member's evaluations of each set, by step."""
    return {str(name): rows.sort_values("step") for name, rows in member.groupby("set")}
