"""Readings of Delta L, and statistics over seeds for figures and report; each is computed here, once.

All means have 95 % intervals (Student t) whose ends are NaN below two seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from rb_interp.errors import RunError
from rb_interp.runs.measured import curves_summary, over_seeds
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.corpus_loss import corpus_loss
from rb_interp.statistics.learning_order import by_set, readings_of_curves
from rb_interp.statistics.reading import Reading

SIMILARITY = (
    *("cos_prontoqa", "cos_stories", "cos_control", "cos_in_range", "cos_counterpart"),
    *("difference", "difference_control", "difference_counterpart"),
    *("difference_centred", "difference_control_centred", "difference_counterpart_centred"),
)
"""What is read along training."""
KEPT = "kept"
"""In the column ``stage`` of the table ``token_intervals``: read along training, at a kept step."""
MATRICES = ("W_QK", "W_OV", "W_in", "W_out")
ALL_HOPS = 0
"""Stands for all numbers of hops together."""


def derived(
    readings: pd.DataFrame,
    curves: pd.DataFrame,
    skills: pd.DataFrame,
    similarity: pd.DataFrame,
    token_intervals: pd.DataFrame,
) -> dict[str, pd.DataFrame]:
    """Every table of this module by its name."""
    deltas = delta_table(curves)
    ratios = rank_ratios(readings)
    return {
        "curves_summary": curves_summary(curves.assign(sweep="")),
        "deltas": deltas,
        "course": course_table(deltas, similarity),
        "skills_summary": skills_table(skills),
        "token_intervals_summary": token_intervals_table(token_intervals),
        "attention": attention_table(readings),
        "rank_ratios": ratios,
        "rank_ratios_summary": over_seeds(ratios, ["gamma", "matrix"], ["ratio"]),
        "nulls": null_table(readings),
        "early": early_table(readings, curves),
        "paired": paired_table(readings),
    }


def delta_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Delta L at every evaluation, on text trained on: gamma, seed, step, delta_loss.

    Delta L = (L_stories - L_prontoqa) / L_prontoqa: at least -1; 0 where both losses are equal, without an upper end
    where PrOntoQA's loss nears 0.
    """
    wide = curves.pivot(index=["gamma", "seed", "step"], columns="set", values="loss")
    delta = (wide["stories_train"] - wide["prontoqa_train"]) / wide["prontoqa_train"]
    return pd.DataFrame({"delta_loss": delta}).reset_index()


def course_table(deltas: pd.DataFrame, similarity: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds along training: gamma, step, quantity, mean, low, high, n, and ``below``, seeds below 0.

    Quantities are delta_loss (at evaluations) and those of SIMILARITY (at kept steps).
    """
    parts = []
    for table in (deltas, similarity):
        names = [name for name in table if name not in ("gamma", "seed", "step")]
        means = over_seeds(table, ["gamma", "step"], names)
        below = pd.DataFrame((table.set_index(["gamma", "step"])[names] < 0).groupby(level=[0, 1]).sum())
        below = below.reset_index().melt(["gamma", "step"], var_name="quantity", value_name="below")
        parts.append(means.merge(below, on=["gamma", "step", "quantity"]))
    return pd.concat(parts, ignore_index=True)


def token_intervals_table(intervals: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of both ends of the intervals over tokens: gamma, stage, quantity, low, high, n (seeds).

    Seeds share most of their tokens, so the mean is about as wide as the interval of one seed. Stages are init, early
    and final, and ``step N`` for each kept step N.
    """
    stage = intervals["stage"].where(intervals["stage"] != KEPT, "step " + intervals["step"].astype(int).astype(str))
    found = intervals.dropna(subset=["low", "high"]).assign(stage=stage).groupby(["gamma", "stage", "quantity"])
    return found.agg(low=("low", "mean"), high=("high", "mean"), n=("low", "size")).reset_index()


def skills_table(skills: pd.DataFrame) -> pd.DataFrame:
    """Accuracies at the last step: gamma, accuracy_of, hops, mean, low, high, n (seeds).

    At ``hops`` ALL_HOPS every example or sentence counts alike, whatever its number of hops.
    """
    last = skills.loc[(skills["n"] > 0) & (skills["step"] == skills["step"].max())]
    counted = last.assign(right=last["accuracy"] * last["n"])
    pooled = counted.groupby(["gamma", "accuracy_of", "seed"], as_index=False)[["right", "n"]].sum()
    pooled = pooled.assign(accuracy=pooled["right"] / pooled["n"], hops=ALL_HOPS)
    summary = over_seeds(pd.concat([last, pooled]), ["gamma", "accuracy_of", "hops"], ["accuracy"])
    return summary.drop(columns="quantity")


def attention_table(readings: pd.DataFrame) -> pd.DataFrame:
    """Distance of attention from an average, mean over heads: gamma, stage, set, layer, mean, low, high, n (seeds)."""
    place = ["gamma", "stage", "set", "layer"]
    here = readings.loc[(readings["probe"] == "uniformity") & (readings["quantity"] == "tv")]
    heads = here.groupby([*place, "seed"], as_index=False)[["value"]].mean()
    return over_seeds(heads, place, ["value"]).drop(columns="quantity")


def rank_ratios(readings: pd.DataFrame) -> pd.DataFrame:
    """Stable rank of each matrix of L0 at the last step over the untrained model's: gamma, seed, matrix, ratio."""
    here = readings.loc[(readings["probe"] == "weight_rank") & (readings["stage"] == "final")]
    here = here.loc[here["quantity"].isin([f"stable_rank_{matrix}" for matrix in MATRICES]) & (here["layer"] == 0)]
    matrix = here["quantity"].str.removeprefix("stable_rank_")
    return here[["gamma", "seed"]].assign(matrix=matrix, ratio=here["value"] / here["untrained"]).dropna()


def null_table(readings: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds of what the nulls give: probe, quantity, gamma, stage, null_mean, null_sd."""
    here = readings.dropna(subset=["null_mean"])
    means = here.groupby(["probe", "quantity", "gamma", "stage"])[["null_mean", "null_sd"]].mean()
    return pd.DataFrame(means).reset_index()


def early_table(readings: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """When the stage ``early`` was reached, in numbers of members, by gamma.

    Columns: gamma, n, ``at_last`` (members whose ``early`` is the last evaluation), ``at_first`` (the first after step
    0), ``first`` (that step), and ``all`` and ``all_at_first``, n and ``at_first`` of all gammas together.
    """
    steps = readings.loc[(readings["quantity"] == "early_step") & (readings["probe"] == "corpus_loss")]
    steps = steps.dropna(subset=["value"])
    first, last = curves.loc[curves["step"] > 0, "step"].min(), curves["step"].max()
    steps = steps.assign(n=1, at_last=steps["value"] >= last, at_first=steps["value"] == first)
    names = ["n", "at_last", "at_first"]
    found = steps.groupby("gamma", as_index=False)[names].sum().astype(dict.fromkeys(names, "int64"))
    return found.assign(first=first, all=found["n"].sum(), all_at_first=found["at_first"].sum())


def paired_table(readings: pd.DataFrame) -> pd.DataFrame:
    """Two comparisons within each seed: what, mean, low, high, n, and ``count``, how many seeds show it.

    ``rise``: Delta L (mean over training) at the small initialisation less that at the large one; seeds above 0.
    ``beyond``: |G3's difference - its null's mean| in the null's standard deviations; seeds above 2.
    """
    rise = _by_seed(readings, "corpus_loss", "delta_loss", SMALL, "final")["value"]
    rise = (rise - _by_seed(readings, "corpus_loss", "delta_loss", LARGE, "final")["value"]).dropna()
    early = _by_seed(readings, "token_similarity", "difference", SMALL, "early").dropna(subset=["value", "null_mean"])
    beyond = (early["value"] - early["null_mean"]).abs() / early["null_sd"]
    rows = []
    for what, values, above in (("rise", rise, 0), ("beyond", beyond, 2)):
        means = over_seeds(pd.DataFrame({"what": what, "value": values}), ["what"], ["value"])
        rows.append(means.assign(n=len(values), count=int(np.sum(values.to_numpy() > above))))
    return pd.concat(rows, ignore_index=True).drop(columns="quantity")


def _by_seed(readings: pd.DataFrame, probe: str, quantity: str, gamma: float, stage: str) -> pd.DataFrame:
    here = readings.loc[(readings["probe"] == probe) & (readings["quantity"] == quantity)]
    here = here.loc[np.isclose(here["gamma"], gamma) & (here["stage"] == stage)]
    return here.set_index("seed")[["value", "null_mean", "null_sd"]]


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
