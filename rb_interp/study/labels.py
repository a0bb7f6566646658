"""Measure the label-distribution experiments (paper 1, Fig. 8): three parts that differ in their memory labels alone.

    keys       labels uniform on the keys                        F_mem,1 of Fig. 8 left
    near_sum   labels uniform on z - sum(a) .. z + sum(a)        F_mem,2 of Fig. 8 left
    ranges     labels uniform on a range of the anchors' group   Fig. 8 right

    R1   (A_mem1 - A_mem2) / (A_mem1 + A_mem2)     A of ``probes.learning_order``; positive: labels near the key sooner
    R1n  the same with each loss divided by the entropy of its label's range, so that knowing ranges counts for nothing
    R2   lowest probability inside a group's range ``probes.label_range``, before memory is learned

How R1 can mislead. The two tasks differ in how much there is to learn: once a model has seen that labels lie near the
key, its loss is that of a narrower set of labels, although no single pair is known. R1 says which loss is lower over
training, which is what the paper shows, and not which mapping is memorised in fewer steps; see the accuracies for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int
from tqdm import tqdm

from rb_interp.errors import RunError
from rb_interp.probes.label_range import label_range
from rb_interp.probes.learning_order import bias_index, label_entropy, learning_order_table
from rb_interp.probes.reading import Reading
from rb_interp.study.measure import MEMORY, joined, typed
from rb_interp.study.models import MemberModels
from rb_interp.study.run import Run
from rb_interp.study.series import SeriesMeasured
from rb_interp.tasks import SETS, AnchorDataset
from rb_interp.tasks.labels import range_entropy
from rb_interp.training.member_group import Member

PARTS = ("keys", "near_sum", "ranges")
"""Parts of the study; each is named like the memory labels of its task."""
BEFORE_MEMORY = "before_memory"
Areas = Mapping[Any, float]
"""(gamma, seed) -> mean over training."""


def measure_labels(parts: Mapping[str, Run], progress: bool = True) -> SeriesMeasured:
    """Read learning curves and outputs of the three finished runs of the label study.

    Readings: learning_order of every part, label_speed (part ``""``), label_range (part ``ranges``). Tables:
    ``in_range`` at every checkpoint that was kept, and ``outputs`` before memory is learned; groups count from 1.

    Raises RunError where a part is missing, has other memory labels than its name says, or other members than the one
    it is compared with, and where a checkpoint is missing or broken.
    """
    _check(parts)
    data = {seed: parts["ranges"].config.task.dataset(seed) for seed in parts["ranges"].config.seeds}
    orders = {name: typed(_learning_order(parts[name])) for name in PARTS}
    found = [_in_part(orders[name], name) for name in PARTS]
    per_entropy = [_areas_per_entropy(parts[name]) for name in ("keys", "near_sum")]
    found.append(_in_part(label_speed(orders["keys"], orders["near_sum"], *per_entropy), ""))
    models, rows, in_range, outputs, arrays = MemberModels(parts["ranges"]), [], [], [], {}
    for member in tqdm(parts["ranges"].members, disable=not progress, unit="member", desc="label ranges"):
        step, along = _along_training(models, member, data[member.seed])
        reading, place = along[step], {"gamma": member.gamma, "seed": member.seed}
        in_range += [{**place, "step": at, **row} for at in sorted(along) for row in _inside(along[at])]
        outputs += [{**place, **row, "step": step} for row in _outputs(reading)]
        rows += [{**place, "stage": BEFORE_MEMORY, "step": step, "rows": MEMORY, **row} for row in reading.table()]
        prefix = f"ranges/{member.gamma}/{member.seed}/{BEFORE_MEMORY}/{MEMORY}/label_range"
        arrays |= {f"{prefix}/{name}": np.asarray(array) for name, array in reading.arrays.items()}
    found.append(_in_part(typed(pd.DataFrame(rows)), "ranges"))
    tables = {"in_range": _in_part(pd.DataFrame(in_range), "ranges"), "outputs": pd.DataFrame(outputs)}
    return SeriesMeasured(joined(*found), tables, arrays)


def label_speed(
    keys: pd.DataFrame, near_sum: pd.DataFrame, keys_per_entropy: Areas, near_sum_per_entropy: Areas
) -> pd.DataFrame:
    """Readings ``label_speed`` of two learning_order tables whose runs differ in their memory labels alone (R1).

    ``bias``: (A_mem1 - A_mem2) / (A_mem1 + A_mem2), in [-1, 1], positive where memory labels near the key (2) are
    learned sooner than labels uniform on the keys (1); ``area_mem1`` and ``area_mem2``, in (0, 1];
    ``bias_per_entropy``, the same index of the two areas per entropy (mean over training of min(L / H, 1), H from
    ``range_entropy``): about 0 where both models know the range of a label and no label. The twin compares two models
    that stay untrained: about 0.
    """
    areas = [table.loc[table["quantity"] == "area_mem"] for table in (keys, near_sum)]
    rows = []
    for pair in areas[0].merge(areas[1], on=["gamma", "seed"], suffixes=("_1", "_2")).to_dict("records"):
        values, twin = (_speed(pair[f"{column}_1"], pair[f"{column}_2"]) for column in ("value", "twin"))
        member = (pair["gamma"], pair["seed"])
        values["bias_per_entropy"] = bias_index(keys_per_entropy[member], near_sum_per_entropy[member])
        twin["bias_per_entropy"] = 0.0  # a uniform guess over the vocabulary is above both entropies
        place = {"gamma": pair["gamma"], "seed": pair["seed"], "stage": "final", "step": pair["step_1"], "rows": ""}
        rows += [{**place, **row} for row in Reading("label_speed", values, twin=twin, n=pair["n_1"]).table()]
    return typed(pd.DataFrame(rows))


def _areas_per_entropy(run: Run) -> Areas:
    """Mean over training of min(L_mem / H, 1) by member, H the mean entropy of a memory label in its range."""
    entropies = {seed: range_entropy(run.config.task.dataset(seed)) for seed in run.config.seeds}
    curves = run.curves()
    memory = curves.loc[curves["set"] == "mem"]
    left = (memory["loss"] / memory["seed"].map(entropies)).clip(upper=1)
    return left.groupby([memory["gamma"], memory["seed"]]).mean().to_dict()


def _speed(area_keys: float, area_near: float) -> dict[str, float]:
    return {"bias": bias_index(area_keys, area_near), "area_mem1": area_keys, "area_mem2": area_near}


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


def _check(parts: Mapping[str, Run]) -> None:
    missing = [name for name in PARTS if name not in parts]
    if missing:
        raise RunError(
            f"the label study got the parts {list(parts)} and needs {list(PARTS)}; train '{missing[0]}' as well."
        )
    for name in PARTS:
        labels = parts[name].config.task.memory_labels
        if labels != name:
            raise RunError(
                f"part '{name}' of the label study has memory_labels='{labels}'; expected '{name}'. Train that part "
                f"with a task of these labels."
            )
    if parts["keys"].members != parts["near_sum"].members:
        raise RunError(
            f"the parts 'keys' and 'near_sum' have other members ({_members(parts['keys'])}; "
            f"{_members(parts['near_sum'])}); train both with the same gammas and seeds."
        )


def _members(run: Run) -> str:
    return f"gammas {list(run.config.gammas)}, seeds {list(run.config.seeds)}"


def _learning_order(run: Run) -> pd.DataFrame:
    task = run.config.task
    data = {seed: task.dataset(seed) for seed in run.config.seeds}
    entropies = {(s, kind): label_entropy(d.labels[d.rows(kind)]) for s, d in data.items() for kind in SETS}
    return learning_order_table(run.curves(), task.d_vocab, entropies)


def _along_training(models: MemberModels, member: Member, data: AnchorDataset) -> tuple[int, dict[int, Reading]]:
    """The step before memory is learned, and the reading there and at every other step that was kept."""
    rows = data.sample(MEMORY, models.run.config.probe_rows)
    seen = data.tokens[rows], data.labels[rows], memory_groups(data, rows), data.task.label_ranges

    def read(stage: str | int) -> tuple[int, Reading]:
        step = models.load(member, stage).step
        return step, label_range(models.model, *seen)

    found = dict(map(read, models.run.kept_steps))
    step, reading = read(BEFORE_MEMORY)
    found[step] = reading
    return step, {at: replace(reading, twin=found[0].values) for at, reading in found.items()}


def _inside(reading: Reading) -> list[dict]:
    accuracy = float(reading.values["accuracy"])
    columns = (reading.arrays["ranges"].tolist(), reading.arrays["inside"].tolist(), reading.arrays["pooled"].tolist())
    return [
        {"group": group, "low": low, "high": high, "inside": inside, "pooled": pooled, "accuracy": accuracy}
        for group, ((low, high), inside, pooled) in enumerate(zip(*columns, strict=True), start=1)
    ]


def _outputs(reading: Reading) -> list[dict]:
    outputs, ranges = reading.arrays["outputs"].tolist(), reading.arrays["ranges"].tolist()
    return [
        {"group": group, "label": label, "probability": probability, "low": low, "high": high}
        for group, (output, (low, high)) in enumerate(zip(outputs, ranges, strict=True), start=1)
        for label, probability in enumerate(output)
    ]


def _in_part(table: pd.DataFrame, part: str) -> pd.DataFrame:
    table.insert(0, "part", part)
    return table
