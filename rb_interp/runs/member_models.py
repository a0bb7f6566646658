"""Members as models, and what is read of each: side by side, in threads with models of their
own."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from rb_interp.arguments import checked
from rb_interp.errors import RunError
from rb_interp.runs.folder import RunFolder
from rb_interp.runs.results import StudyResult, readings_table
from rb_interp.runs.sweep import Sweep
from rb_interp.statistics.reading import Reading
from rb_interp.training.member_group import Member
from rb_interp.training.store import Checkpoint

T = TypeVar("T")
MAX_THREADS = 4
"""Threads, at most: Python's own part of a small model's pass is done by one at a time."""


@checked
class MemberModels:
    """Two models that take the weights of each member in turn: building a model costs more than
    probing it.

    Attributes:
        model: the member that was loaded last. untrained: the same member at step 0. step: at which
            it was loaded.
    """

    step: int
    stopped = False

    def __init__(self, sweep: Sweep) -> None:
        from rb_interp.models.build import lens_model

        self.sweep = sweep
        first = sweep.members[0]
        weights = sweep.weights(first.gamma, first.seed, "init")
        self.model = lens_model(sweep.config.model, *sweep.sizes, weights)
        self.untrained = lens_model(sweep.config.model, *sweep.sizes, weights)

    def load(self, member: Member, stage: str | int) -> Checkpoint:
        """Write a member at a stage into ``model``, and its untrained model into ``untrained``."""
        from rb_interp.models.build import exported
        from rb_interp.models.protocol import write_weights

        if self.stopped:
            raise RunError("another member's work has failed, or Ctrl-C ended it.")
        checkpoint = self.sweep.checkpoint(stage, member.gamma, member.seed)
        weights = checkpoint.member(member.gamma, member.seed)
        if not all(weight.isfinite().all() for weight in weights.values()):
            raise RunError(
                f"the member with gamma={member.gamma:g}, seed={member.seed} diverged: its weights "
                f"at step {checkpoint.step} are not finite. Train it with a lower --lr."
            )
        config = self.sweep.config.model
        initial = self.sweep.weights(member.gamma, member.seed, "init")
        write_weights(self.untrained, exported(initial, config))
        write_weights(self.model, exported(weights, config))
        self.step = checkpoint.step
        return checkpoint


def each_member(
    sweep: Sweep,
    members: Sequence[Member],
    work: Callable[[MemberModels, Member], T],
    *,
    progress: bool = True,
    desc: str = "",
) -> list[T]:
    """``work(models, member)`` of members, in their order, with as many at once as
    ``train.workers`` says.

    Each thread has models of its own. If a member's work raises, or after Ctrl-C, the others end
    when they load the next checkpoint.
    """
    for seed in dict.fromkeys(member.seed for member in members):
        sweep.dataset(seed)  # drawn once, before several ask for it
    n_threads = sweep.config.train.workers or min(os.cpu_count() or 1, MAX_THREADS)
    n_threads = min(n_threads, len(members))
    models_of_threads = [MemberModels(sweep) for _ in range(n_threads)]
    idle = models_of_threads.copy()

    def with_models(member: Member) -> T:
        models = idle.pop()
        try:
            return work(models, member)
        finally:
            idle.append(models)

    options: dict[str, Any] = {"disable": not progress, "unit": "member", "desc": desc}
    if n_threads < 2:
        with tqdm(members, **options) as bar:  # closed before an error is printed
            return [with_models(member) for member in bar]
    torch_threads = (torch.get_num_threads(),)
    with ThreadPoolExecutor(n_threads, "", torch.set_num_threads, torch_threads) as pool:
        futures = [pool.submit(copy_context().run, with_models, member) for member in members]
        try:
            with tqdm(futures, **options) as bar:
                return [future.result() for future in bar]
        except BaseException:
            for models in models_of_threads:
                models.stopped = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise


Plan = Callable[[MemberModels, Member], Iterable[tuple[str, str, Reading]]]
"""All that is read of a member: stage, set and reading, each taken at the step at which the models
were loaded last."""


def measure_members(
    run: RunFolder, plan: Plan, sweeps: Iterable[str] | None = None, progress: bool = True
) -> StudyResult:
    """What a plan reads of every sound member of a run's sweeps.

    Further tables of readings are in the result if the study declares them.
    """

    def read(models: MemberModels, member: Member) -> list[tuple[int, str, str, Reading]]:
        return [(models.step, *reading) for reading in plan(models, member)]

    rows: list[dict[str, Any]] = []
    tables: defaultdict[str, list[pd.DataFrame]] = defaultdict(list)
    arrays: dict[str, np.ndarray] = {}
    for name in run.sweeps if sweeps is None else sweeps:
        sweep = run.sweep(name)
        members = sweep.sound_members
        desc = f"probing {name}".strip()
        results = each_member(sweep, members, read, progress=progress, desc=desc)
        for member, readings in zip(members, results, strict=True):
            for step, stage, set, reading in readings:
                place = {
                    "sweep": name,
                    "gamma": member.gamma,
                    "seed": member.seed,
                    "stage": stage,
                    "set": set,
                }
                prefix = "/".join(map(str, (*place.values(), reading.probe))).removeprefix("/")
                for array, values in reading.arrays.items():
                    arrays[f"{prefix}/{array}"] = np.asarray(values)
                place["step"] = step
                rows += [{**place, **row} for row in reading.rows()]
                for table in reading.tables.keys() & run.study.tables.keys():
                    declared = _selected(place, run.study.tables[table].split())
                    tables[table].append(reading.tables[table].assign(**declared))
    joined = {table: pd.concat(parts, ignore_index=True) for table, parts in tables.items()}
    return StudyResult(readings_table(rows), joined, arrays)


def _selected(place: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in place.items() if key in keys}
