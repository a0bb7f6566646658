"""Measure the label study (paper 1, Fig. 8): three sweeps that differ in their memory labels alone, see ``config``.

    R1   (A_mem1 - A_mem2) / (A_mem1 + A_mem2)     A of ``learning_order``; positive: labels near the key sooner
    R1n  the same with each loss divided by the entropy of its label's range, so that knowing ranges counts for nothing
    R2   lowest probability inside a group's range, ``probes.label_range``, before memory is learned

Statistics over seeds that figures, captions and answers show are made once, see `summaries`:

    curves_summary    loss and accuracy of every sweep along training, mean and interval over seeds
    in_range_summary  probability inside each group's range along training, and accuracy on memory (group 0)
    outputs_summary   mean output distribution of each group before memory is learned
    label_facts       what the answer says in words, see `facts`

How R1 can mislead. A model that has seen that labels lie near the key has the loss of a narrower set of labels, and
knows no single pair. R1 says which loss is lower over training, as the paper shows. It does not say which mapping is
memorised in fewer steps; see the accuracies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd
from jaxtyping import Int
from tqdm import tqdm

from rb_interp.probes.labels import label_range
from rb_interp.runs.measured import Measured, curves_summary, over_seeds, readings_table
from rb_interp.runs.members import MemberModels
from rb_interp.runs.run import Run
from rb_interp.runs.sweep import Sweep
from rb_interp.statistics.intervals import paired_differences
from rb_interp.statistics.learning_order import bias_index, learning_order_of
from rb_interp.statistics.reading import Reading
from rb_interp.studies.labels.config import BEFORE_MEMORY, LabelsConfig
from rb_interp.tasks import AnchorDataset
from rb_interp.tasks.labels import range_entropy
from rb_interp.training.member_group import Member

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


Areas = Mapping[Any, float]
"""(gamma, seed) -> mean over training."""


def measure(run: Run, progress: bool = True) -> Measured:
    """Read learning curves and outputs of the three finished sweeps.

    Readings: learning_order of every sweep, label_speed (of no sweep), label_range (of ``ranges``). Tables:
    ``in_range`` at every checkpoint that was kept, ``outputs`` before memory is learned, and those of `summaries`;
    groups count from 1.

    Raises RunError where a checkpoint is missing or broken.
    """
    orders = {}
    for name, sweep in run.sweeps.items():
        data = {seed: sweep.dataset(seed) for seed in sweep.seeds}
        orders[name] = learning_order_of(sweep.curves(), sweep.config.task.d_vocab, data).assign(sweep=name)
    keys, near_sum = (_areas_per_entropy(run.sweep(name)) for name in PAIR)
    speed = label_speed(orders["keys"], orders["near_sum"], keys, near_sum)
    ranges = run.sweep("ranges")
    inside, tables, arrays = _label_ranges(ranges, cast(LabelsConfig, run.config).probe_rows, progress)
    readings = readings_table(*orders.values(), speed, inside)
    made = summaries(run.curves, readings, tables, ranges.config.train.steps)
    return Measured(readings, {**tables, **made}, arrays)


def label_speed(
    keys: pd.DataFrame, near_sum: pd.DataFrame, keys_per_entropy: Areas, near_sum_per_entropy: Areas
) -> pd.DataFrame:
    """Readings ``label_speed`` of two learning_order tables whose members differ in their memory labels alone (R1).

    ``bias``: (A_mem1 - A_mem2) / (A_mem1 + A_mem2), in [-1, 1], positive where memory labels near the key (2) are
    learned sooner than labels uniform on the keys (1). ``area_mem1``, ``area_mem2``: in (0, 1]. ``bias_per_entropy``:
    the index of the areas per entropy (mean over training of min(L / H, 1), H from ``range_entropy``), about 0 where
    both models know the range of a label and no label. Untrained: two models that stay untrained, about 0.
    """
    first, second = (table.loc[table["quantity"] == "area_mem"] for table in (keys, near_sum))
    rows = []
    for pair in first.merge(second, on=["gamma", "seed"], suffixes=("_1", "_2")).to_dict("records"):
        member = (pair["gamma"], pair["seed"])
        per_entropy = bias_index(keys_per_entropy[member], near_sum_per_entropy[member])
        values = _speed(pair["value_1"], pair["value_2"], per_entropy)
        untrained = _speed(pair["untrained_1"], pair["untrained_2"], 0.0)  # a uniform guess is above both entropies
        place = {"gamma": pair["gamma"], "seed": pair["seed"], "stage": "final", "step": pair["step_1"], "set": ""}
        reading = Reading("label_speed", values, untrained=untrained, n=pair["n_1"])
        rows += [{**place, **row} for row in reading.rows()]
    return readings_table(rows)


def _speed(first: float, second: float, per_entropy: float) -> dict[str, float]:
    index = bias_index(first, second)
    return {"bias": index, "area_mem1": first, "area_mem2": second, "bias_per_entropy": per_entropy}


def memory_groups(data: AnchorDataset, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Group of each memory row, counted from 0: its anchors all come from that row of ``task.memory_groups()``.

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
    """Mean over training of min(L_mem / H, 1) by member, H the mean entropy of a memory label in its range."""
    entropies = {seed: range_entropy(sweep.dataset(seed)) for seed in sweep.seeds}
    curves = sweep.curves()
    memory = curves.loc[curves["set"] == "mem"]
    left = (memory["loss"] / memory["seed"].map(entropies)).clip(upper=1)
    return left.groupby([memory["gamma"], memory["seed"]]).mean().to_dict()


def _label_ranges(
    sweep: Sweep, probe_rows: int, progress: bool
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame], dict[str, np.ndarray]]:
    """Readings before memory is learned, tables ``in_range`` and ``outputs``, and arrays."""
    models, found, in_range, outputs, arrays = MemberModels(sweep), [], [], [], {}
    for member in tqdm(sweep.sound_members, disable=not progress, unit="member", desc="label ranges"):
        step, along = _along_training(models, member, sweep.dataset(member.seed), probe_rows)
        reading, place = along[step], {"gamma": member.gamma, "seed": member.seed}
        in_range += [{**place, "step": at, **row} for at in sorted(along) for row in _inside(along[at])]
        outputs += [{**place, **row, "step": step} for row in _outputs(reading)]
        place |= {"stage": BEFORE_MEMORY, "step": step, "set": "mem"}
        found += [{**place, **row} for row in reading.rows()]
        prefix = f"ranges/{member.gamma}/{member.seed}/{BEFORE_MEMORY}/mem/label_range"
        arrays |= {f"{prefix}/{name}": np.asarray(array) for name, array in reading.arrays.items()}
    tables = {"in_range": pd.DataFrame(in_range).assign(sweep="ranges"), "outputs": pd.DataFrame(outputs)}
    return readings_table(found, sweep="ranges"), tables, arrays


def _along_training(
    models: MemberModels, member: Member, data: AnchorDataset, probe_rows: int
) -> tuple[int, dict[int, Reading]]:
    """The step before memory is learned, and the reading there and at every other step that was kept."""
    rows = data.sample("mem", probe_rows)
    seen, ranges = data.inputs(rows), {"groups": memory_groups(data, rows), "ranges": data.task.label_ranges}

    def read(stage: str | int) -> tuple[int, Reading]:
        step = models.load(member, stage).step
        return step, label_range(models.model, seen, **ranges)

    step, reading = read(BEFORE_MEMORY)
    found = dict(map(read, models.sweep.checkpoint_steps)) | {step: reading}
    return step, {at: replace(reading, untrained=found[0].values) for at, reading in found.items()}


def _inside(reading: Reading) -> list[dict]:
    accuracy = float(reading.values["accuracy"])
    columns = (reading.arrays[name].tolist() for name in ("ranges", "inside", "pooled"))
    return [
        {"group": group, "low": low, "high": high, "inside": inside, "pooled": pooled, "accuracy": accuracy}
        for group, ((low, high), inside, pooled) in enumerate(zip(*columns, strict=True), start=1)
    ]


def _outputs(reading: Reading) -> list[dict]:
    columns = (reading.arrays[name].tolist() for name in ("outputs", "ranges"))
    return [
        {"group": group, "label": label, "probability": probability, "low": low, "high": high}
        for group, (output, (low, high)) in enumerate(zip(*columns, strict=True), start=1)
        for label, probability in enumerate(output)
    ]
