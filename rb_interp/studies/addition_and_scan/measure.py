"""Measure the study of addition and commands: which answers are right at the last step, in every sweep.

    answers    share of rows whose whole answer is right, of every member and set; see ``answers``
    contrast   differences between the cells of the 2 x 2 of gamma and weight decay, see ``contrasts``

Array of the sweeps of addition: ``sums``, 1 where a member answers a + b rightly and 0 elsewhere, ``[a, b]``, both
ascending. Where there are more than 100 operands only every so many are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.models.protocol import HookedModel
from rb_interp.runs.measured import Measured, arrays_over_seeds, curves_summary, over_seeds, readings_table
from rb_interp.runs.members import MemberModels, each_member
from rb_interp.runs.run import Run
from rb_interp.statistics.reading import Reading
from rb_interp.studies.addition_and_scan.addition import AdditionTask
from rb_interp.studies.addition_and_scan.answers import answers, right
from rb_interp.studies.addition_and_scan.config import TASKS, AdditionAndScanConfig
from rb_interp.studies.addition_and_scan.contrasts import contrast_rows, contrasts_table
from rb_interp.tasks.dataset import Dataset
from rb_interp.torch_threads import few_threads
from rb_interp.training.member_group import Member

SIDE = 100
"""Operands of the table of sums, at most."""


class MemberFound(NamedTuple):
    """What was read of a member: a reading by set, and the table of sums where the task is addition."""

    member: Member
    step: int
    readings: dict[str, Reading]
    sums: Bool[np.ndarray, "a b"] | None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of the table of readings."""
        for set, reading in self.readings.items():
            place = {"gamma": self.member.gamma, "seed": self.member.seed, "stage": "final", "step": self.step}
            yield from ({**place, "set": set, **row} for row in reading.rows())


def measure(run: Run, progress: bool = True) -> Measured:
    """Read the answers of every member of a finished run; docs/tables.md has the tables.

    Raises RunError where a checkpoint is missing or broken.
    """
    config, parts, arrays = cast(AdditionAndScanConfig, run.config), [], {}
    for name, sweep in run.sweeps.items():
        work = partial(read_member, probe_rows=config.probe_rows)
        found = each_member(sweep, sweep.sound_members, work, progress=progress, desc=f"answers of {name}")
        parts.append(readings_table([row for one in found for row in one.rows()], sweep=name))
        tables = {f"{name}/{one.member.gamma}/{one.member.seed}/final//answers/sums": one.sums for one in found}
        arrays |= {key: sums for key, sums in tables.items() if sums is not None}
    differences = contrasts_table(readings_table(*parts))
    steps = {task: run.sweep(f"{task}_low").config.train.steps for task in TASKS}
    readings = readings_table(*parts, list(contrast_rows(differences, steps)))
    tables = {
        "contrasts": differences,
        "contrasts_summary": over_seeds(differences, ["task", "contrast"], ["difference"]),
        "curves_summary": curves_summary(run.curves),
    }
    return Measured(readings, tables, arrays | arrays_over_seeds(arrays))


def read_member(models: MemberModels, member: Member, probe_rows: int) -> MemberFound:
    """The answers of a member at its last step, of at most so many rows of each set."""
    data, step = models.sweep.dataset(member.seed), models.load(member, "final").step
    found = {
        set: answers(models.model, data, data.sample(set, probe_rows), untrained=models.untrained) for set in data.sets
    }
    task = models.sweep.config.task
    sums = table_of_sums(models.model, task, data) if isinstance(task, AdditionTask) else None
    return MemberFound(member, step, found, sums)


@few_threads
def table_of_sums(model: HookedModel, task: AdditionTask, data: Dataset) -> Bool[np.ndarray, "a b"]:
    """Whether a model answers a + b rightly, for the operands of ``table_operands``."""
    numbers = table_operands(task) - task.operands[0]
    n = task.operands[1] - task.operands[0] + 1
    rows = (numbers[:, None] * n + numbers).ravel()
    return right(model, data.tokens[rows], data.labels[rows]).reshape(len(numbers), -1)


def table_operands(task: AdditionTask) -> Int[np.ndarray, " n"]:
    """Operands of the table of sums: all, or every so many where there are more than 100.

    >>> table_operands(AdditionTask())[[0, 1, -1]], table_operands(AdditionTask.preset("paper"))[[0, 1, -1]]
    (array([ 0,  1, 99]), array([  0,  10, 990]))
    """
    low, high = task.operands
    return np.arange(low, high + 1, -(-(high - low + 1) // SIDE))
