"""Measurements of the label study (paper 1, Fig. 8): three sweeps of unlike memory labels.

    R1   (A_mem1 - A_mem2) / (A_mem1 + A_mem2)     A of ``learning_order``; positive: labels near the key sooner
    R1n  the same with each loss divided by the entropy of its label's range, so that knowing ranges
         counts for nothing
    R2   lowest probability inside a group's range, ``probes.label_range``, before memory is learned

How R1 can mislead. A model that has seen that labels lie near the key has the loss of a narrower
set of labels, and knows no single pair. R1 says which loss is lower over training, as the paper
shows. It does not say which mapping is memorised in fewer steps; see the accuracies.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
from jaxtyping import Int

from rb_interp.probes.labels import label_range
from rb_interp.runs import Run, StudyResult, Sweep, readings_table
from rb_interp.runs.measurement import MemberModels, measure_members
from rb_interp.statistics.learning_order import bias_index, learning_order_of
from rb_interp.statistics.reading import Reading
from rb_interp.studies.labels.config import BEFORE_MEMORY, LabelsConfig
from rb_interp.tasks import AnchorDataset
from rb_interp.tasks.anchor import label_bounds
from rb_interp.tasks.dataset import combination_numbers
from rb_interp.training.member_group import Member

Areas = Mapping[Any, float]
"""(gamma, seed) -> mean over training."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Read learning curves and outputs of the three finished sweeps.

    Readings: learning_order of every sweep, label_speed (of no sweep), label_range (of ``ranges``).
    Tables: ``in_range`` at every stored checkpoint, ``outputs`` before memory is learned; groups
    count from 1.

    Raises RunError if a checkpoint is missing or broken.
    """
    orders = {}
    for name, sweep in run.sweeps.items():
        data = {seed: sweep.dataset(seed) for seed in sweep.seeds}
        order = learning_order_of(sweep.curves(), sweep.config.task.d_vocab, data)
        orders[name] = order.assign(sweep=name)
    keys = _areas_per_entropy(run.sweep("keys"))
    near_sum = _areas_per_entropy(run.sweep("near_sum"))
    speed = label_speed(orders["keys"], orders["near_sum"], keys, near_sum)
    probe_rows = cast(LabelsConfig, run.config).probe_rows
    read = partial(_along_training, probe_rows=probe_rows)
    members = measure_members(run, read, ["ranges"], progress)
    readings = readings_table(*orders.values(), speed, members.readings)
    return StudyResult(readings, members.tables)


def label_speed(
    keys: pd.DataFrame, near_sum: pd.DataFrame, keys_per_entropy: Areas, near_sum_per_entropy: Areas
) -> pd.DataFrame:
    """Readings ``label_speed`` of two learning_order tables of unlike memory labels (R1).

    ``bias``: (A_mem1 - A_mem2) / (A_mem1 + A_mem2), in [-1, 1], positive if memory labels near the
    key (2) are learned sooner than labels uniform on the keys (1). ``area_mem1``, ``area_mem2``: in
    (0, 1]. ``bias_per_entropy``: the index of the areas per entropy (mean over training of
    min(L / H, 1), H from ``range_entropy``), about 0 if both models know the range of a label and no
    label. Untrained: two models that stay untrained, about 0.
    """
    first = keys.query("quantity == 'area_mem'")
    second = near_sum.query("quantity == 'area_mem'")
    pairs = first.merge(second, on=["gamma", "seed"], suffixes=("_1", "_2"))
    rows = []
    for pair in pairs.to_dict("records"):
        member = (pair["gamma"], pair["seed"])
        per_entropy = bias_index(keys_per_entropy[member], near_sum_per_entropy[member])
        values = _speed(pair["value_1"], pair["value_2"], per_entropy)
        # a uniform guess is above both entropies
        untrained = _speed(pair["untrained_1"], pair["untrained_2"], 0.0)
        reading = Reading("label_speed", values, untrained=untrained, n=pair["n_1"])
        gamma, seed = member
        rows += reading.rows(gamma=gamma, seed=seed, stage="final", step=pair["step_1"], set="")
    return readings_table(rows)


def _speed(first: float, second: float, per_entropy: float) -> dict[str, float]:
    return {
        "bias": bias_index(first, second),
        "area_mem1": first,
        "area_mem2": second,
        "bias_per_entropy": per_entropy,
    }


def range_entropy(data: AnchorDataset) -> float:
    """Mean entropy (nats) of a memory label that is known to lie in its range.

    The loss of a model that knows the range of each row's label (`label_bounds`) and nothing else.
    The mean is over the memory rows; returns NaN if there are none.

    >>> from rb_interp.tasks import AnchorTask
    >>> bool(np.isclose(range_entropy(AnchorTask().dataset(seed=0)), np.log(40)))         # 40 keys
    True
    """
    task = data.task
    rows = data.rows("mem")
    if not len(rows):
        return math.nan
    low, high = label_bounds(task)
    anchors = np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1)
    combination = combination_numbers(anchors, task.combinations("mem"))
    key = data.tokens[rows, data.key_position[rows]] - task.keys[0]
    return float(np.log((high - low + 1)[combination, key]).mean())


def memory_groups(data: AnchorDataset, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Group of each memory row, counted from 0: the row of ``task.memory_groups()`` of its anchors.

    >>> from rb_interp.tasks import AnchorTask
    >>> task = AnchorTask(memory_anchors=(1, 4), memory_labels="ranges", label_ranges=((30, 49), (30, 69)))
    >>> data = task.dataset(seed=0)
    >>> rows = data.rows("mem")[[0, -1]]
    >>> np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1).tolist(), memory_groups(data, rows)
    ([[1, 1], [4, 4]], array([0, 1]))
    """
    first = data.tokens[rows, data.anchor_positions[rows, 0]]
    return (first - data.task.memory_anchors[0]) // data.task.memory_groups().shape[1]


def _areas_per_entropy(sweep: Sweep) -> Areas:
    """Mean over training of min(L_mem / H, 1) by member; H is the mean entropy of a label's range."""
    entropies = {seed: range_entropy(sweep.dataset(seed)) for seed in sweep.seeds}
    curves = sweep.curves()
    memory = curves.query("set == 'mem'")
    entropy = [entropies[seed] for seed in memory["seed"]]
    left = memory.assign(left=(memory["loss"] / entropy).clip(upper=1))
    return pd.Series(left.groupby(["gamma", "seed"])["left"].mean()).to_dict()


def _along_training(
    models: MemberModels, member: Member, probe_rows: int
) -> Iterator[tuple[str, str, Reading]]:
    """The reading before memory is learned, and tables of the ranges at every stored step."""
    data = models.sweep.dataset(member.seed)
    rows = data.sample("mem", probe_rows)
    inputs = data.inputs(rows)
    groups = memory_groups(data, rows)
    ranges = data.task.label_ranges
    before_memory = models.load(member, BEFORE_MEMORY).step
    untrained: Mapping[str, float] = {}
    for step in sorted({0, before_memory, *models.sweep.checkpoint_steps}):
        models.load(member, BEFORE_MEMORY if step == before_memory else step)
        reading = label_range(models.model, inputs, groups=groups, ranges=ranges)
        if step == 0:
            untrained = reading.values
        arrays = reading.arrays
        low, high = arrays["ranges"].T
        keys = {"group": range(1, len(ranges) + 1), "low": low, "high": high}
        shares = {"inside": arrays["inside"], "pooled": arrays["pooled"]}
        in_range = pd.DataFrame({**keys, **shares, "accuracy": reading.values["accuracy"]})
        tables = {"in_range": in_range}
        values: Mapping[str, float] = {}
        if step == before_memory:
            values = reading.values
            outputs = pd.DataFrame(arrays["outputs"]).assign(**keys)
            tables["outputs"] = outputs.melt([*keys], var_name="label", value_name="probability")
        of_step = replace(reading, values=values, untrained=untrained, arrays={}, tables=tables)
        yield BEFORE_MEMORY, "mem", of_step
