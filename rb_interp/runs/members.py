"""The members of a sweep as models, one after another in the same memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from rb_interp.errors import ArgumentError, RunError, shown
from rb_interp.models.build import exported, lens_model
from rb_interp.models.generations import write_weights
from rb_interp.runs.measured import Measured, readings_table
from rb_interp.runs.side_by_side import check_stop, side_by_side
from rb_interp.runs.sweep import Sweep
from rb_interp.statistics.reading import Reading
from rb_interp.torch_threads import few_threads
from rb_interp.training.member_group import Member
from rb_interp.training.store import Checkpoint
from rb_interp.typed import typed

if TYPE_CHECKING:
    from rb_interp.runs.run import Run

Found = TypeVar("Found")


@typed
class MemberModels:
    """Two models that take the weights of each member in turn: building a model costs more than probing it.

    Attributes:
        model: the member that was loaded last. untrained: the same member at step 0. step: at which it was loaded.
    """

    step: int

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, first = sweep, sweep.members[0]
        weights = sweep.weights(first.gamma, first.seed, "init")
        self.model, self.untrained = (lens_model(sweep.config.model, *sweep.sizes, weights) for _ in range(2))

    def load(self, member: Member, stage: str | int) -> Checkpoint:
        """Write a member at a stage into ``model``, and its untrained model into ``untrained``."""
        check_stop()
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
    """``work(models, member)`` of members, in their order, with as many at once as ``train.workers`` says."""
    for seed in dict.fromkeys(member.seed for member in members):
        sweep.dataset(seed)  # drawn once, before several ask for it
    workers = sweep.config.train.workers
    return side_by_side(lambda: MemberModels(sweep), members, work, workers=workers, progress=progress, desc=desc)


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


@few_threads
def probe_members(
    sweep: Sweep, probe: Callable[..., Reading], stage: str | int, set: str, rows: int, options: Mapping[str, Any]
) -> pd.DataFrame:
    """Readings of one probe on every member of a sweep; see ``Run.probe_members``."""
    _check_takes(probe, options)
    models, found = MemberModels(sweep), []
    for member in sweep.sound_members:
        data = sweep.dataset(member.seed)
        inputs = data.inputs(data.sample(set, rows))
        step = models.load(member, stage).step
        reading = probe(models.model, inputs, untrained=models.untrained, **options)
        if not isinstance(reading, Reading):
            raise ArgumentError(f"the probe gave {shown(reading)}; expected a Reading.")
        place = {"gamma": member.gamma, "seed": member.seed, "stage": str(stage), "step": step, "set": set}
        place["reached"] = sweep.reached(stage)[member]
        found += [{**place, **row} for row in reading.rows()]
    return readings_table(found, sweep=sweep.name)


def _check_takes(probe: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise ArgumentError for a probe that does not take a model, inputs, an untrained model and the options."""
    try:
        taken = signature(probe)
    except (ValueError, TypeError):  # as of some that are written in C
        return
    try:
        taken.bind(None, None, untrained=None, **options)
    except TypeError as error:
        call = ", ".join(("model", "inputs", "untrained=...", *(f"{name}=..." for name in options)))
        raise ArgumentError(f"got the probe {shown(probe)}; expected one that takes ({call}): {error}.") from None
