"""Train members together on any task: who shares an operation, and with whom."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from rb_interp.errors import ArgumentError, ConfigError, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.tasks.protocol import Dataset, Task
from rb_interp.training.config import TrainConfig
from rb_interp.training.last_group import LastGroup
from rb_interp.training.loop import Trained, Training, all_members, chosen_stages, resolve_device, torch_settings
from rb_interp.training.member_group import Member, MemberGroup
from rb_interp.training.next_group import HIDDEN_ON_GPU, LOGITS_ON_GPU, MEMBERS_A_GROUP, ROOM, NextGroup
from rb_interp.training.store import Store
from rb_interp.typed import typed

GROUPS = {"last": LastGroup, "next": NextGroup}


@typed
def train_members(
    task: Task,
    model: ModelConfig,
    train: TrainConfig,
    gammas: Sequence[float],
    seeds: Sequence[int],
    *,
    rates: Mapping[float, float] = {},
    data_seed: int | None = None,
    store: Store | None = None,
    progress: bool = True,
) -> Trained:
    """Train every gamma with every seed in one program.

    With a store, checkpoints are kept: step 0, log-spaced, last, and members where they reach the configured stages. A
    run that was stopped, by Ctrl-C or harder, continues from its last saved state.

    Args:
        task: what is learned; any object with the attributes of ``tasks.protocol.Task``.
        model, train: what learns it, and how.
        gammas, seeds: the members, each initialisation rate with each seed.
        rates: gamma -> learning rate of its members, where it is not ``train.lr``.
        data_seed: of the data, labels and batch order of every member, whose own seed then fixes its initial weights
            alone; None takes each member's own.
        store: where checkpoints go; None keeps nothing.
        progress: show a progress bar.

    Returns:
        Curves, final weights and times.

    Raises:
        ConfigError: for an empty sweep, a stage that the task does not have, and a device that is not there.
        TaskError: for rows that are not what the task promises.
        RunError: where files cannot be used, or somebody else is writing them.

    >>> from rb_interp.tasks import AnchorTask
    >>> tiny = TrainConfig(steps=20, batch_size=16, eval_every=10, eval_rows=20)
    >>> task, model = AnchorTask.preset("smoke"), ModelConfig.preset("smoke")
    >>> trained = train_members(task, model, tiny, [0.8], [0], progress=False)
    >>> trained.curves.steps
    [0, 10, 20]
    """
    part = Part(train, tuple(gammas), tuple(seeds), rates, store)
    return train_together(task, model, [part], data_seed=data_seed, progress=progress)


@dataclass(frozen=True)
class Part:
    """Members that train in one stack with those of other parts, and their own store; see `train_together`."""

    train: TrainConfig
    gammas: tuple[float, ...]
    seeds: tuple[int, ...]
    rates: Mapping[float, float] = field(default_factory=dict)
    store: Store | None = None

    def members(self, alone: bool) -> tuple[Member, ...]:
        """Its members, seeds outermost; in company each has its learning rate and weight decay."""
        members = all_members(self.gammas, self.seeds)
        if alone:
            return members
        decay = self.train.weight_decay
        return tuple(replace(m, lr=self.rates.get(m.gamma, self.train.lr), weight_decay=decay) for m in members)


def alike(train: TrainConfig) -> TrainConfig:
    """A training without its learning rate and weight decay: parts that agree in the rest share a stack."""
    return replace(train, lr=1.0, weight_decay=0.0)


def train_together(
    task: Task, model: ModelConfig, parts: Sequence[Part], *, data_seed: int | None = None, progress: bool = True
) -> Trained:
    """Train parts that differ in learning rate and weight decay alone in one stack; a store holds one part's members.

    A member takes the steps that it takes alone, up to rounding: bits depend on the members beside it. A part without a
    store is company, and nothing of it is kept. The others, where they have saved states, stand at the same step.

    Returns curves and final weights of the members of all parts, in their order, and times.

    Raises:
        ArgumentError: for no part, parts whose trainings differ in more, the same member twice, and parts that stand
            at different steps.
        ConfigError, TaskError, RunError: as `train_members`.
    """
    if not parts or len({alike(part.train) for part in parts}) > 1:
        raise ArgumentError(
            f"train_together got {len(parts)} parts; expected one or more whose trainings differ in lr and "
            f"weight_decay alone. Train the others by themselves."
        )
    train, groups = parts[0].train, [(part.members(len(parts) == 1), part.store) for part in parts]
    members = [member for own, _ in groups for member in own]
    if len(set(members)) < len(members):
        raise ArgumentError("train_together got a member twice; give each gamma, seed, lr and weight_decay once.")
    chosen_stages(task, train)  # before anything is drawn
    if task.predicts not in GROUPS:
        raise ConfigError(f"the task predicts '{task.predicts}'; {nearest(task.predicts, GROUPS)}")
    device = resolve_device(train.device)
    with torch_settings(train), ExitStack() as writing:
        for _, store in groups:
            if store is not None:
                writing.enter_context(store.files.writing())
        cores, rates = train.workers or os.cpu_count() or 1, parts[0].rates if len(parts) == 1 else {}
        shares = share_out(members, model, task, train, device, cores, rates=rates, data_seed=data_seed)
        return Training(shares, task, train, groups).run(progress)


def share_out(
    members: Sequence[Member],
    model: ModelConfig,
    task: Task,
    train: TrainConfig,
    device: torch.device,
    workers: int,
    *,
    rates: Mapping[float, float] = {},
    data_seed: int | None = None,
) -> list[list[MemberGroup]]:
    """Groups of members for each worker: small ones for every thread on CPU, as large as they fit on a GPU."""
    seeds = dict.fromkeys(member.seed for member in members)
    if data_seed is None:
        data = {seed: task.dataset(seed) for seed in seeds}
    else:
        data = dict.fromkeys(seeds, task.dataset(data_seed))
    together = members_a_group(model, task, train, device, data)
    group, cpu = GROUPS[task.predicts], device.type == "cpu"
    shares = np.array_split(np.arange(len(members)), min(workers, len(members)) if cpu else 1)
    return [
        [
            group([members[i] for i in part], model, task, train, device, data, rates)
            for part in np.array_split(share, math.ceil(len(share) / together))
        ]
        for share in shares
    ]


def members_a_group(
    model: ModelConfig, task: Task, train: TrainConfig, device: torch.device, data: Mapping[int, Dataset]
) -> int:
    """How many members share an operation, at least one.

    >>> from rb_interp.tasks import AnchorTask
    >>> task, cpu = AnchorTask(), torch.device("cpu")
    >>> data = {0: task.dataset(0)}
    >>> [members_a_group(ModelConfig(), task, TrainConfig(batch_size=size), cpu, data) for size in (128, 2000)]
    [8, 1]
    >>> members_a_group(ModelConfig(d_mlp=1200), task, TrainConfig(batch_size=2048), torch.device("cuda"), data)
    54
    """
    if device.type == "cpu":
        rows = min(train.batch_size, min(len(each.tokens) for each in data.values()))
        fit = ROOM // (rows * (model.d_mlp + 2 * task.d_vocab)) if task.predicts == "last" else 1
        return max(1, min(MEMBERS_A_GROUP, fit))
    if task.predicts == "last":
        return max(1, HIDDEN_ON_GPU // (train.batch_size * task.length * model.d_mlp * model.n_layers))
    rows = min(train.micro_batch or train.batch_size, train.batch_size)
    return max(1, LOGITS_ON_GPU // (rows * task.length * task.d_vocab))
