"""Measure the study of addition and commands: which answers are right at the last step.

    answers     share of rows whose whole answer is right, of every member and set
    contrast    differences between members of the same seed on the held-out set, by the cells of
                CONTRASTS: ``both`` is what the paper compares, and P1 and P2; the others change
                gamma or weight decay alone

The share is accuracy where an answer is one token, and exact match where it is a sequence. A
sequence is read with the right answer before each of its tokens (teacher forcing). That is the same
as exact match under greedy decoding: up to the first wrong token both put the same tokens into the
model, and a wrong token is wrong in both.

Array of the sweeps of addition: ``sums``, 1 where a member answers a + b rightly and 0 elsewhere,
``[a, b]``, both ascending. Where there are more than 100 operands only every so many are read.

How it can mislead. An untrained model reads about 1 / d_vocab on addition and 0 on commands. A
model that memorised its training rows reads 1 on ``train`` and about 0 elsewhere, so the held-out
sets are read beside ``seen_test``: where that is low, nothing general was learned, and the held-out
share says nothing of what kind of rule was. Where ``both`` is large and one of the others too, the
claim is about that one; a difference that gamma makes at one decay alone belongs to both together.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from rb_interp.models.protocol import HookedModel
from rb_interp.probes.activations import logits_of
from rb_interp.runs.measurement import MemberModels, measure_members
from rb_interp.runs.results import StudyResult, arrays_over_seeds, readings_table
from rb_interp.runs.run import Run
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.reading import Reading
from rb_interp.studies.addition_and_scan.addition import AdditionTask
from rb_interp.studies.addition_and_scan.config import HELD_OUT, AdditionAndScanConfig
from rb_interp.tasks.dataset import Dataset
from rb_interp.training.member_group import Member

MAX_OPERANDS = 100
"""Operands of the table of sums, at most."""
Cell = tuple[str, float]
CONTRASTS: dict[str, tuple[Cell, Cell]] = {
    "both": (("high", SMALL), ("low", LARGE)),
    "gamma_low_decay": (("low", SMALL), ("low", LARGE)),
    "gamma_high_decay": (("high", SMALL), ("high", LARGE)),
    "decay_large_init": (("high", LARGE), ("low", LARGE)),
    "decay_small_init": (("high", SMALL), ("low", SMALL)),
}
"""Name -> the two cells, (weight decay, gamma), of which the second is subtracted."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Read the answers of every member of a finished run.

    Raises RunError if a checkpoint is missing or broken.
    """
    config = cast(AdditionAndScanConfig, run.config)
    plan = partial(read_member, probe_rows=config.probe_rows)
    result = measure_members(run, plan, progress=progress)
    readings = readings_table(result.readings, contrasts(result.readings))
    means = arrays_over_seeds(result.arrays)
    return StudyResult(readings, arrays={**result.arrays, **means})


def read_member(
    models: MemberModels, member: Member, probe_rows: int
) -> Iterator[tuple[str, str, Reading]]:
    """The answers of a member at its last step, of at most so many rows of each set."""
    models.load(member, "final")
    data = models.sweep.dataset(member.seed)
    for set in data.sets:
        rows = data.sample(set, probe_rows)
        yield "final", set, answers(models.model, data, rows, untrained=models.untrained)
    task = models.sweep.config.task
    if isinstance(task, AdditionTask):
        sums = table_of_sums(models.model, task, data)
        yield "final", "", Reading("answers", {}, arrays={"sums": sums})


def contrasts(readings: pd.DataFrame, held_out: Mapping[str, str] = HELD_OUT) -> pd.DataFrame:
    """Readings ``contrast`` of every task and seed, ``task:contrast``, from readings ``answers``.

    A seed has none if one of the two members has no finite reading.

    Args:
        readings: of all sweeps. held_out: task -> its held-out set.
    """
    shares = readings.query("probe == 'answers'")
    rows = []
    for (task, set), (name, cells) in product(held_out.items(), CONTRASTS.items()):
        first, second = (_members(shares, f"{task}_{decay}", set, g) for decay, g in cells)
        differences = (first["value"] - second["value"]).dropna()
        for seed, difference in differences.to_dict().items():
            reading = Reading("contrast", {f"{task}:{name}": difference})
            columns = {"gamma": np.nan, "seed": seed, "stage": "final", "set": set}
            rows += reading.rows(**columns, step=first.loc[seed, "step"])
    return readings_table(rows)


def _members(shares: pd.DataFrame, sweep: str, set: str, gamma: float) -> pd.DataFrame:
    """The readings of the members of a cell, by seed."""
    cell = "sweep == @sweep and set == @set and abs(gamma - @gamma) < 1e-9"
    return shares.query(cell).set_index("seed")


def answers(
    model: HookedModel,
    data: Dataset,
    rows: Int[np.ndarray, " row"],
    *,
    untrained: HookedModel | None = None,
) -> Reading:
    """Share of rows whose whole answer is right, ``right``, in [0, 1]; NaN without rows.

    Args:
        model: any model that reads the dataset's tokens. data: whose labels are the answers. rows:
            which are read.
        untrained: the same model at step 0, read beside it; None for no comparison.
    """
    if not len(rows):
        return Reading("answers", {"right": np.nan})
    tokens = data.tokens[rows]
    labels = data.labels[rows]
    values = {"right": float(right(model, tokens, labels).mean())}
    before = {}
    if untrained is not None:
        before["right"] = float(right(untrained, tokens, labels).mean())
    return Reading("answers", values, untrained=before, n=len(rows))


def right(
    model: HookedModel, tokens: Int[np.ndarray, "row pos"], labels: Int[np.ndarray, "row ..."]
) -> Bool[np.ndarray, " row"]:
    """Which rows a model answers rightly.

    The most likely token is the answer's at each of the answer's positions.

    Args:
        labels: ``[row]``, the answer at the last position; or ``[row, pos]``, the next token of the
            answer at each position, -1 where there is none.
    """
    predicted = logits_of(model, tokens, select=lambda logits: logits.argmax(-1)).numpy()
    if labels.ndim == 1:
        return predicted[:, -1] == labels
    return ((predicted == labels) | (labels < 0)).all(1)


def table_of_sums(model: HookedModel, task: AdditionTask, data: Dataset) -> Bool[np.ndarray, "a b"]:
    """Whether a model answers a + b rightly, for all operands.

    Where there are more than 100 operands only every so many are read.
    """
    n = task.operands[1] - task.operands[0] + 1
    stride = -(-n // MAX_OPERANDS)
    operands = np.arange(0, n, stride)
    rows = (operands[:, None] * n + operands).ravel()
    sums = right(model, data.tokens[rows], data.labels[rows])
    return sums.reshape(len(operands), -1)
