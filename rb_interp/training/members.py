"""Train members together on any task: who shares an operation, and with whom."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from rb_interp.errors import ArgumentError
from rb_interp.models.config import ModelConfig
from rb_interp.tasks.dataset import Dataset, Task
from rb_interp.training.config import TrainConfig
from rb_interp.training.loop import Trained, Training, resolve_device, torch_settings
from rb_interp.training.member_group import LastGroup, Member, MemberGroup, NextGroup
from rb_interp.training.store import Store
from rb_interp.typed import typed

GROUPS = {"last": LastGroup, "next": NextGroup}
MEMBERS_A_GROUP, ROOM = 8, 1_000_000
"""Members that share each CPU operation: enough to hide its overhead, few enough to stay in cache.

ROOM is in numbers: hidden units, logits and their gradients at the answer's position, of all rows of a batch. Large
batches leave it to fewer members, full ones to one. A member that predicts every next token fills a core alone.
"""
LOGITS_ON_GPU = 4_000_000_000
"""Logits of one pass over all next-token members of a group on a GPU, at most (16 GB as float32)."""
HIDDEN_ON_GPU = 2_400_000_000
"""Hidden units of all layers and positions of a batch, of the last-position members of a group on a GPU, at most.

At the size of paper 2 that is 54 members with 35 GB of activations.
"""


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
        task: what is learned; any object with the attributes of ``tasks.Task``.
        model, train: what learns it, and how.
        gammas, seeds: the members, each initialisation rate with each seed.
        rates: gamma -> learning rate of its members, where it is not ``train.lr``.
        data_seed: of the data, labels and batch order of every member, whose own seed then fixes its initial weights
            alone; None takes each member's own.
        store: where checkpoints go; None keeps nothing.
        progress: show a progress bar.

    Returns:
        Curves and final weights.

    Raises:
        ConfigError: for a device that is not there. ArgumentError: for a member that is named twice.
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

    @property
    def members(self) -> tuple[Member, ...]:
        """Its members, seeds outermost, each with its learning rate and weight decay."""
        train = self.train
        lr = {gamma: self.rates.get(gamma, train.lr) for gamma in self.gammas}
        return tuple(Member(gamma, seed, lr[gamma], train.weight_decay) for seed in self.seeds for gamma in self.gammas)


def train_together(
    task: Task, model: ModelConfig, parts: Sequence[Part], *, data_seed: int | None = None, progress: bool = True
) -> Trained:
    """Train parts that differ in learning rate and weight decay alone in one stack; a store holds one part's members.

    A member takes the steps that it takes alone, up to rounding: bits depend on the members beside it. A part without a
    store is company, and nothing of it is kept. The others, where they have saved states, stand at the same step.

    Returns curves and final weights of the members of all parts, in their order.

    Raises:
        ArgumentError: for parts whose trainings differ in more, the same member twice, and parts that stand at
            different steps.
        ConfigError, TaskError, RunError: as `train_members`.
    """
    train, groups = parts[0].train, [(part.members, part.store) for part in parts]
    if len({replace(part.train, lr=1.0, weight_decay=0.0) for part in parts}) > 1:
        raise ArgumentError("the parts of train_together differ in more than lr and weight_decay; train them apart.")
    members = [member for own, _ in groups for member in own]
    if len(set(members)) < len(members):
        raise ArgumentError(f"a member stands there twice: {members}; give each gamma, seed, lr and decay once.")
    device = resolve_device(train.device)
    with torch_settings(train), ExitStack() as writing:
        for _, store in groups:
            if store is not None:
                writing.enter_context(store.files.writing())
        cores = train.workers or os.cpu_count() or 1
        shares = share_out(members, model, task, train, device, cores, data_seed=data_seed)
        return Training(shares, task, train, groups).run(progress)


def share_out(
    members: Sequence[Member],
    model: ModelConfig,
    task: Task,
    train: TrainConfig,
    device: torch.device,
    workers: int,
    *,
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
            group([members[i] for i in part], model, task, train, device, data)
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
