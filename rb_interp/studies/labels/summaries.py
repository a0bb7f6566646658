"""Statistics over seeds that figures, captions and answers of the label study show, made once.

curves_summary    loss and accuracy of every sweep along training, mean and interval over seeds
in_range_summary  probability inside each group's range along training, and accuracy on memory (group 0)
outputs_summary   mean output distribution of each group before memory is learned
label_facts       what the answer says in words, see `facts`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rb_interp.runs.measured import curves_summary, over_seeds
from rb_interp.statistics.intervals import paired_differences
from rb_interp.studies.labels.config import BEFORE_MEMORY

PAIR = ("keys", "near_sum")
FACTS = ("gamma", "quantity", "group", "mean", "low", "high", "n")


def summaries(
    curves: pd.DataFrame, readings: pd.DataFrame, tables: Mapping[str, pd.DataFrame], last_step: int
) -> dict[str, pd.DataFrame]:
    """The tables above, of a run's curves and readings and of its tables ``in_range`` and ``outputs``."""
    inside, place = tables["in_range"], ["gamma", "step", "group"]
    accuracy = inside.loc[inside["group"] == 1].assign(group=0)
    steps = [over_seeds(inside, place, ["inside"]), over_seeds(accuracy, place, ["accuracy"])]
    return {
        "curves_summary": curves_summary(curves),
        "in_range_summary": pd.concat(steps, ignore_index=True),
        "outputs_summary": over_seeds(tables["outputs"], ["gamma", "group", "label"], ["probability"]),
        "label_facts": facts(readings, inside, last_step),
    }


def facts(readings: pd.DataFrame, in_range: pd.DataFrame, last_step: int) -> pd.DataFrame:
    """What the answer says in words, for each gamma: columns of FACTS.

    ``rsn_train_difference``: final accuracy on rsn_train in ``keys`` less that in ``near_sum``, paired by seed.
    ``rsn_train_lower``: in how many of n seeds it is lower in ``near_sum``. ``highest_acc_mem``: highest final
    accuracy on memory of any seed of both. ``never_learned``: of how many of n seeds ``before_memory`` is the last
    step. ``pooled``: for each group, the share inside its range of a model that knows the pooled labels alone.
    """
    rows = [fact for gamma in readings["gamma"].unique() for fact in _facts(readings, float(gamma), last_step)]
    pooled = in_range.drop_duplicates(["gamma", "group"])
    for gamma, group, share in zip(pooled["gamma"], pooled["group"], pooled["pooled"], strict=True):
        rows.append({"gamma": gamma, "quantity": "pooled", "group": group, "mean": share})
    table = pd.DataFrame(rows, columns=list(FACTS))
    return table.astype({"mean": float, "low": float, "high": float}).fillna({"group": 0, "n": 0})


def _facts(readings: pd.DataFrame, gamma: float, last_step: int) -> list[dict[str, Any]]:
    here = readings.loc[readings["gamma"] == gamma]
    differences = paired_differences(*(_by_seed(here, sweep, "acc_rsn_train") for sweep in PAIR))
    memory = [value for sweep in PAIR for value in _by_seed(here, sweep, "acc_mem").values()]
    steps = here.loc[here["stage"] == BEFORE_MEMORY].drop_duplicates("seed")["step"].tolist()
    found: list[dict[str, Any]] = []
    if differences:
        table = pd.DataFrame({"gamma": gamma, "rsn_train_difference": list(differences.values())})
        found += over_seeds(table, ["gamma"], ["rsn_train_difference"]).to_dict("records")
        found.append(_count("rsn_train_lower", [value > 0 for value in differences.values()]))
    if memory:
        found.append({"quantity": "highest_acc_mem", "mean": max(memory), "n": len(memory)})
    if steps:
        found.append(_count("never_learned", [step >= last_step for step in steps]))
    return [{"gamma": gamma, **fact} for fact in found]


def _count(quantity: str, true: list[bool]) -> dict[str, Any]:
    return {"quantity": quantity, "mean": sum(true), "n": len(true)}


def _by_seed(readings: pd.DataFrame, sweep: str, quantity: str) -> dict[int, float]:
    place = {"sweep": sweep, "probe": "learning_order", "quantity": quantity}
    rows = readings.loc[(readings[list(place)] == pd.Series(place)).all(axis=1)]
    return dict(zip(rows["seed"].tolist(), rows["value"].tolist(), strict=True))
