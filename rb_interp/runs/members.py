"""The members of a sweep as models, one after another in the same memory."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from rb_interp.errors import RunError
from rb_interp.models.build import exported, lens_model
from rb_interp.models.protocol import write_weights
from rb_interp.runs.measured import Measured, readings_table
from rb_interp.runs.sweep import Sweep
from rb_interp.statistics.reading import Reading
from rb_interp.training.member_group import Member
from rb_interp.training.store import Checkpoint
from rb_interp.typed import typed

if TYPE_CHECKING:
    from rb_interp.runs.run import Run

Found = TypeVar("Found")
MOST = 4
"""Threads, at most: Python's own part of a small model's pass is done by one at a time."""


@typed
class MemberModels:
    """Two models that take the weights of each member in turn: building a model costs more than probing it.

    Attributes:
        model: the member that was loaded last. untrained: the same member at step 0. step: at which it was loaded.
    """

    step: int
    stopped = False

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, first = sweep, sweep.members[0]
        weights = sweep.weights(first.gamma, first.seed, "init")
        self.model, self.untrained = (lens_model(sweep.config.model, *sweep.sizes, weights) for _ in range(2))

    def load(self, member: Member, stage: str | int) -> Checkpoint:
        """Write a member at a stage into ``model``, and its untrained model into ``untrained``."""
        if self.stopped:
            raise RunError("another member's work has failed, or Ctrl-C ended it.")
        checkpoint = self.sweep.checkpoint(stage, member.gamma, member.seed)
        weights = checkpoint.member(member.gamma, member.seed)
        if not all(weight.isfinite().all() for weight in weights.values()):
            raise RunError(
                f"the member with gamma={member.gamma:g}, seed={member.seed} diverged: its weights at step "
                f"{checkpoint.step} are not finite. Train it with a lower --lr."
            )
        config = self.sweep.config.model
        write_weights(self.untrained, exported(self.sweep.weights(member.gamma, member.seed, "init"), config))
        write_weights(self.model, exported(weights, config))
        self.step = checkpoint.step
        return checkpoint


def each_member(
    sweep: Sweep,
    members: Sequence[Member],
    work: Callable[[MemberModels, Member], Found],
    *,
    progress: bool = True,
    desc: str = "",
) -> list[Found]:
    """``work(models, member)`` of members, in their order, with as many at once as ``train.workers`` says.

    Each thread has models of its own. Threads and not processes: torch lets the others run while it computes, and a new
    process would first import it. What a member's work raises reaches the caller as it is; the others end when they
    load the next checkpoint, as they do after Ctrl-C.
    """
    for seed in dict.fromkeys(member.seed for member in members):
        sweep.dataset(seed)  # drawn once, before several ask for it
    n = min(sweep.config.train.workers or min(os.cpu_count() or 1, MOST), len(members))
    every = [MemberModels(sweep) for _ in range(n)]
    idle = every.copy()

    def one(member: Member) -> Found:
        models = idle.pop()
        try:
            return work(models, member)
        finally:
            idle.append(models)

    bar = {"disable": not progress, "unit": "member", "desc": desc}
    if n < 2:
        return [one(member) for member in tqdm(members, **bar)]
    with ThreadPoolExecutor(n, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)) as pool:
        futures = [pool.submit(copy_context().run, one, member) for member in members]
        try:
            return [future.result() for future in tqdm(futures, **bar)]
        except BaseException:
            for models in every:
                models.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise


Plan = Callable[[MemberModels, Member], Iterable[tuple[str, str, Reading]]]
"""All that is read of a member: stage, set and reading, each taken at the step at which the models were loaded last."""


def measure_members(run: Run, plan: Plan, sweeps: Iterable[str] | None = None, progress: bool = True) -> Measured:
    """What a plan reads of every sound member of a run's sweeps: readings, and the tables and arrays that they hold.

    A reading's table is kept where the study declares it, with gamma, seed, stage and the like where they are its keys.
    """
    rows, tables, arrays = [], defaultdict(list), {}
    for name in run.sweeps if sweeps is None else sweeps:
        sweep = run.sweep(name)

        def read(models: MemberModels, member: Member) -> list[tuple[int, str, str, Reading]]:
            return [(models.step, *one) for one in plan(models, member)]

        found = each_member(sweep, sweep.sound_members, read, progress=progress, desc=f"probing {name}".strip())
        for member, readings in zip(sweep.sound_members, found, strict=True):
            for step, stage, set, reading in readings:
                place = {"sweep": name, "gamma": member.gamma, "seed": member.seed, "stage": stage, "set": set}
                prefix = "/".join(map(str, (*place.values(), reading.probe))).removeprefix("/")
                place["step"] = step
                rows += [{**place, **row} for row in reading.rows()]
                arrays |= {f"{prefix}/{array}": np.asarray(value) for array, value in reading.arrays.items()}
                for table in reading.tables.keys() & run.study.tables.keys():
                    keys = {key: value for key, value in place.items() if key in run.study.tables[table].split()}
                    tables[table].append(reading.tables[table].assign(**keys))
    joined = {table: pd.concat(parts, ignore_index=True) for table, parts in tables.items()}
    return Measured(readings_table(rows), joined, arrays)
