"""A made-up label study: labels near the key sooner, and outputs in their range before memory is learned."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd
from made_up import MadeUp, remade

from rb_interp.figures.evidence import Evidence
from rb_interp.probes.labels import pooled_inside
from rb_interp.statistics.learning_order import learning_order_table
from rb_interp.studies.labels import LABELS
from rb_interp.studies.labels.config import LabelsConfig
from rb_interp.studies.labels.measure import summaries
from rb_interp.tasks import SETS

LAST, STEPS, GROUPS = 6000, range(0, 6001, 300), (1, 2, 3, 4)


def make_labels(seeds: int = 3) -> Evidence:
    """Evidence of a study at ``quick``'s tasks with made-up curves of 6,000 steps."""
    made = MadeUp(LABELS, LabelsConfig.from_preset("quick", seeds=tuple(range(seeds))))
    ranges, members = made.config.ranges.task.label_ranges, {"gamma": [0.8], "seed": range(seeds)}
    made.fill("curves", _curve, sweep=made.config.sweeps, **members, set=SETS, step=STEPS)
    for sweep, curves in made.tables()["curves"].groupby("sweep", sort=False):
        made.extend("readings", learning_order_table(curves, 200, {}).assign(sweep=sweep))
    rng, inside = np.random.default_rng(5), partial(_inside, ranges)
    for seed in range(seeds):
        one, two = 0.61 + 0.02 * rng.normal(), 0.44 + 0.02 * rng.normal()
        speed = {"bias": (one - two) / (one + two), "bias_per_entropy": 0.003 * seed - 0.004}
        place = {"gamma": 0.8, "seed": seed, "step": LAST}
        made.reading("label_speed", {**speed, "area_mem1": one, "area_mem2": two}, **place, n=21)
        place |= {"sweep": "ranges", "step": _before(seed)}
        groups = [inside(**place, group=group) for group in GROUPS]
        values = {f"inside_{group}": found["inside"] for group, found in zip(GROUPS, groups, strict=True)}
        values |= {"lowest_inside": min(values.values()), "pooled": min(pooled_inside(ranges))}
        values["accuracy"] = groups[0]["accuracy"]
        made.reading("label_range", values, **place, stage="before_memory", set="mem")
    kept = sorted({*STEPS, *map(_before, range(seeds))})
    made.fill("in_range", inside, sweep=["ranges"], **members, step=kept, group=GROUPS)
    made.fill("outputs", partial(_output, ranges), **members, group=GROUPS, label=range(200))
    return made.evidence(_statistics, "quick", command="rb-interp reproduce labels", toml="", versions={}, host={})


def with_readings(evidence: Evidence, readings: pd.DataFrame) -> Evidence:
    """The same study with other readings, and the statistics of these."""
    return remade(LABELS, replace(evidence, readings=readings), _statistics)


def _statistics(evidence: Evidence) -> dict[str, pd.DataFrame]:
    return summaries(evidence.curves, evidence.readings, evidence.tables, LAST)


def _curve(sweep, gamma, seed, set, step):
    half = {"mem": 3500 / (1.8 if sweep == "near_sum" else 1), "rsn_train": 1500, "rsn_test": 2000}[set]
    left = 1 / (1 + (step / (half * (1 + 0.05 * seed))) ** 4)
    return {"loss": 5.3 * left + 0.1, "accuracy": 0.97 - 0.96 * left}


def _before(seed):
    """The step before memory is learned."""
    return 1200 + 150 * seed


def _inside(ranges, sweep, gamma, seed, step, group):
    if step not in (*STEPS, _before(seed)):
        return None
    (low, high), least = ranges[group - 1], 0.1 * group
    inside = least + (0.97 - least) / (1 + (500 / max(step, 1)) ** 3) - 0.01 * seed
    accuracy = float(np.clip((step - 1000) / 4000, 0.02, 0.95))
    return {
        "low": low,
        "high": high,
        "inside": inside,
        "pooled": pooled_inside(ranges)[group - 1],
        "accuracy": accuracy,
    }


@cache
def _outputs(low, high, seed, group):
    labels, noise = np.arange(200), np.random.default_rng([seed, group]).normal(size=200)
    soft = np.exp(0.1 * noise) / (1 + np.exp(-(labels - low) / 1.5)) / (1 + np.exp((labels - high) / 1.5))
    return soft / soft.sum()


def _output(ranges, gamma, seed, group, label):
    low, high = ranges[group - 1]
    return {"step": _before(seed), "low": low, "high": high, "probability": _outputs(low, high, seed, group)[label]}
