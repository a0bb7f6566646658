"""The 2 x 2 of initialisation and weight decay as differences between members of the same seed.

    both               (gamma .8, decay .1) less (gamma .3, decay .01)    what the paper compares, and P1 and P2
    gamma_low_decay    gamma .8 less gamma .3, both with decay .01         gamma alone
    gamma_high_decay   gamma .8 less gamma .3, both with decay .1
    decay_large_init   decay .1 less decay .01, both with gamma .3         weight decay alone
    decay_small_init   decay .1 less decay .01, both with gamma .8

They are read on the set that is held out. Where ``both`` is large and one of the others too, the claim is about that
one; a difference that gamma makes at one decay alone belongs to both together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.runs.measured import frame
from rb_interp.statistics.intervals import paired_differences
from rb_interp.statistics.reading import Reading
from rb_interp.studies.addition_and_scan.config import LARGE, SMALL, TASKS

Cell = tuple[str, float]
CONTRASTS: dict[str, tuple[Cell, Cell]] = {
    "both": (("high", SMALL), ("low", LARGE)),
    "gamma_low_decay": (("low", SMALL), ("low", LARGE)),
    "gamma_high_decay": (("high", SMALL), ("high", LARGE)),
    "decay_large_init": (("high", LARGE), ("low", LARGE)),
    "decay_small_init": (("high", SMALL), ("low", SMALL)),
}
"""Name -> the two cells, (weight decay, gamma), of which the second is subtracted."""


HELD_OUT = {task: "block" if task == "addition" else "composites" for task in TASKS}
"""Task -> the set that is held out for the claims."""


def contrasts_table(readings: pd.DataFrame, held_out: Mapping[str, str] = HELD_OUT) -> pd.DataFrame:
    """The differences of every task and seed, of readings ``answers`` of all sweeps: the table ``contrasts``.

    A seed of which one of the two members has no finite reading has no row, and a task without sweeps has none.
    """
    rows = []
    for task, set in held_out.items():
        for name, (first, second) in CONTRASTS.items():
            found = paired_differences(*(_cell(readings, task, set, cell) for cell in (first, second)))
            rows += [
                {"task": task, "contrast": name, "seed": seed, "difference": difference}
                for seed, difference in found.items()
                if np.isfinite(difference)
            ]
    return frame(rows, "task:str contrast:str seed difference")


def contrast_rows(
    contrasts: pd.DataFrame, steps: Mapping[str, int], held_out: Mapping[str, str] = HELD_OUT
) -> Iterator[dict[str, Any]]:
    """The same as rows of readings ``contrast`` of both gammas together, so that their gamma is NaN.

    Args:
        contrasts: the table. steps: task -> step at which its members were read.
    """
    for row in contrasts.to_dict("records"):
        place = {"gamma": np.nan, "seed": row["seed"], "stage": "final", "step": steps[row["task"]], "sweep": ""}
        reading = Reading("contrast", {f"{row['task']}:{row['contrast']}": row["difference"]})
        yield from ({**place, "set": held_out[row["task"]], **one} for one in reading.rows())


def _cell(readings: pd.DataFrame, task: str, set: str, cell: Cell) -> dict[int, float]:
    """Seed -> share of right answers on the held-out set, in one of the four cells."""
    decay, gamma = cell
    here = readings.loc[
        (readings["sweep"] == f"{task}_{decay}")
        & np.isclose(readings["gamma"], gamma)
        & (readings["set"] == set)
        & (readings["probe"] == "answers")
    ]
    return dict(zip(here["seed"].tolist(), here["value"].tolist(), strict=True))
