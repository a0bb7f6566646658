"""Train members together on any task: who shares an operation, and with whom.

`train_model` trains one model of any shape the plain way: the peer that the stacked trainer is
measured against.
"""

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from tqdm import tqdm

from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.tasks.dataset import Dataset, Task
from rb_interp.training.config import TrainConfig, evaluation_steps, learning_rate
from rb_interp.training.loop import Trained, Training, resolve_device, torch_settings
from rb_interp.training.member_group import (
    LastGroup,
    Member,
    MemberGroup,
    NextGroup,
)
from rb_interp.training.store import CheckpointStore
from rb_interp.training.tracking import Batches
from rb_interp.training.updates import make_optimiser

GROUPS = {"last": LastGroup, "next": NextGroup}
MEMBERS_A_GROUP = 8
"""Members that share each CPU operation, at most: enough to hide its overhead."""
CACHED_NUMBERS = 1_000_000
"""Numbers of a group that stay in a core's cache: hidden units, logits and their gradients at the
answer's position, of all rows of a batch. A member that predicts every next token fills a core
alone."""
LOGITS_ON_GPU = 4_000_000_000
"""Logits of one pass over all next-token members of a group on a GPU, at most (16 GB as
float32)."""
HIDDEN_ON_GPU = 2_400_000_000
"""Hidden units of all layers and positions of a batch, of the last-position members of a group on a
GPU, at most.

At the size of paper 2 that is 54 members with 35 GB of activations.
"""
TOKENS_AT_ONCE = 100_000
"""Tokens that are evaluated at once."""


@checked
def train_members(
    task: Task,
    gammas: Sequence[float],
    seeds: Sequence[int] = (0,),
    *,
    config: ModelConfig | None = None,
    train: TrainConfig | None = None,
    rates: Mapping[float, float] = {},
    data_seed: int | None = None,
    store: CheckpointStore | None = None,
    progress: bool = True,
) -> Trained:
    """Train every gamma with every seed in one program; with a store, a run that was stopped
    continues.

    Args:
        task: what is learned; any object with the attributes of ``tasks.Task``.
        gammas, seeds: the members, each initialisation rate with each seed.
        config: what learns it; by default, as for ``build_model``, two layers with one head each and
            no norm.
        train: how; by default ``TrainConfig()``.
        rates: gamma of ``gammas`` -> learning rate of its members, where it is not ``train.lr``.
        data_seed: of the data, labels and batch order of every member, whose own seed then fixes
            its initial weights alone; None takes each member's own.
        store: where checkpoints go; None keeps nothing. Its fingerprint tells task, config, train,
            rates and data_seed apart; nothing else compares them.
        progress: show a progress bar.

    Returns curves and final weights; ``trained.model(gamma=0.8, seed=0)`` is a member. Raises
    ConfigError for a device that is not there,
    ArgumentError for a member that is named twice or a rate of no gamma, TaskError for rows that are not what the task
    promises, and RunError where files cannot be used, or somebody else is writing them.

    >>> from rb_interp.tasks import AnchorTask
    >>> tiny = TrainConfig(steps=20, batch_size=16, eval_every=10, eval_rows=20)
    >>> task, model = AnchorTask.preset("smoke"), ModelConfig.preset("smoke")
    >>> trained = train_members(task, [0.8], config=model, train=tiny, progress=False)
    >>> trained.curves.steps
    [0, 10, 20]
    >>> trained.model(gamma=0.8, seed=0, stage="init").cfg.n_layers
    2
    """
    if not set(rates) <= set(gammas):
        raise ArgumentError(f"rates={rates} has a gamma that is none of {gammas}; leave it out.")
    part = Part(train or TrainConfig(), tuple(gammas), tuple(seeds), rates, store)
    config = config or ModelConfig()
    return train_together(task, config, [part], data_seed=data_seed, progress=progress)


@dataclass(frozen=True)
class Part:
    """Members that train in one stack with those of other parts, and their own store; see
    `train_together`."""

    train: TrainConfig
    gammas: tuple[float, ...]
    seeds: tuple[int, ...]
    rates: Mapping[float, float] = field(default_factory=dict)
    store: CheckpointStore | None = None

    @property
    def members(self) -> tuple[Member, ...]:
        """Its members, seeds outermost, each with its learning rate and weight decay."""
        train = self.train
        members = []
        for seed in self.seeds:
            for gamma in self.gammas:
                lr = self.rates.get(gamma, train.lr)
                members.append(Member(gamma, seed, lr, train.weight_decay))
        return tuple(members)


def train_together(
    task: Task,
    model: ModelConfig,
    parts: Sequence[Part],
    *,
    data_seed: int | None = None,
    progress: bool = True,
) -> Trained:
    """Train parts that differ in learning rate and weight decay alone in one stack; a store holds
    one part's members.

    A member takes the steps that it takes alone, up to rounding: bits depend on the members beside
    it. A part without a store is company, and nothing of it is kept. The others, where they have
    saved states, stand at the same step.

    Returns curves and final weights of the members of all parts, in their order; of members that
    share gamma and seed its ``model`` is the first. Raises as
    `train_members`, and ArgumentError for parts whose trainings differ in more and parts that stand
    at different steps.
    """
    train = parts[0].train
    if len({replace(part.train, lr=1.0, weight_decay=0.0) for part in parts}) > 1:
        raise ArgumentError(
            "the parts of train_together differ in more than lr and weight_decay; train them apart."
        )
    members = [member for part in parts for member in part.members]
    if len(set(members)) < len(members):
        raise ArgumentError(
            f"a member stands there twice: {members}; give each gamma, seed, lr and decay once."
        )
    device = resolve_device(train.device)
    with torch_settings(train), ExitStack() as writing:
        for part in parts:
            if part.store is not None:
                writing.enter_context(part.store.files.writing())
        cores = train.workers or os.cpu_count() or 1
        apart = {}
        if train.stop_at:  # members of a group stop together, and a part may be company
            apart = {member: index for index, part in enumerate(parts) for member in part.members}
        shares = share_out(members, model, task, train, device, cores, apart, data_seed=data_seed)
        stored = [(part.members, part.store) for part in parts]
        return Training(shares, task, train, stored).run(progress)


def share_out(
    members: Sequence[Member],
    model: ModelConfig,
    task: Task,
    train: TrainConfig,
    device: torch.device,
    workers: int,
    apart: Mapping[Member, int],
    *,
    data_seed: int | None = None,
) -> list[list[MemberGroup]]:
    """Groups of members for each worker: small ones for every thread on CPU, as large as they fit
    on a GPU.

    Members of seeds with other numbers of rows are in groups of their own, since a group steps
    together; so are those with other numbers in ``apart``.
    """
    seeds = dict.fromkeys(member.seed for member in members)
    if data_seed is None:
        data = {seed: task.dataset(seed) for seed in seeds}
    else:
        data = dict.fromkeys(seeds, task.dataset(data_seed))
    largest = members_a_group(model, task, train, device, data)
    n_shares = min(workers, len(members)) if device.type == "cpu" else 1
    make_group = GROUPS[task.predicts]
    sizes = {seed: _sizes(rows, train) for seed, rows in data.items()}
    shares = []
    for share in np.array_split(np.arange(len(members)), n_shares):
        groups = []
        for part in np.array_split(share, math.ceil(len(share) / largest)):
            part_members = [members[index] for index in part]
            for _, group_members in groupby(
                part_members, key=lambda member: (sizes[member.seed], apart.get(member))
            ):
                groups.append(make_group(list(group_members), model, task, train, device, data))
        shares.append(groups)
    return shares


def _sizes(data: Dataset, train: TrainConfig) -> list[int]:
    """Numbers of rows that members of one group share: of each part of a batch, and of each set's
    evaluation."""
    in_batches = [len(data.rows(name)) for name in data.batch_sets]
    evaluated = [min(len(data.rows(name)), train.eval_rows) for name in data.sets]
    return in_batches + evaluated


def members_a_group(
    model: ModelConfig,
    task: Task,
    train: TrainConfig,
    device: torch.device,
    data: Mapping[int, Dataset],
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
        if task.predicts == "next":
            return 1
        rows = min(train.batch_size, *(len(dataset.tokens) for dataset in data.values()))
        numbers = rows * (model.d_mlp + 2 * task.d_vocab)
        return max(1, min(MEMBERS_A_GROUP, CACHED_NUMBERS // numbers))
    if task.predicts == "last":
        hidden = train.batch_size * task.length * model.d_mlp * model.n_layers
        return max(1, HIDDEN_ON_GPU // hidden)
    rows = min(train.micro_batch or train.batch_size, train.batch_size)
    return max(1, LOGITS_ON_GPU // (rows * task.length * task.d_vocab))


@checked
def train_model(
    model: HookedModel,
    task: Task,
    train: TrainConfig | None = None,
    *,
    seed: int = 0,
    progress: bool = True,
) -> pd.DataFrame:
    """Train any TransformerLens model on a task, in place, with the loss at the last position.

    Data and batch order are those that ``train_members`` uses for the same seed; only parameters
    with ``requires_grad`` change.

    Args:
        model: is changed in place. task: what it is trained on. train: schedule and optimiser.
        seed: of the data and of the batch order. progress: whether a progress bar is shown.

    Returns a table of step, set, loss (nats) and accuracy. The loss is NaN from where training
    diverges.
    """
    train = train or TrainConfig()
    parameters = [p for p in model.parameters() if p.requires_grad]
    device = parameters[0].device
    optimiser = make_optimiser(parameters, train)
    data = task.dataset(seed)
    batches = Batches(task, [data], train, device)
    marks = set(evaluation_steps(train))
    rows = []
    steps = range(train.steps + 1)
    with tqdm(steps, disable=not progress, unit="step", desc="training one model") as bar:
        for step in bar:
            if step in marks:
                losses = evaluate_model(model, data, train.eval_rows)
                rows += [{"step": step, **row} for row in losses]
            if step == train.steps:
                break
            tokens, labels = batches.of_step(step)
            loss = F.cross_entropy(model(tokens[0])[:, -1], labels[0])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            if train.clip > 0:
                torch.nn.utils.clip_grad_norm_(parameters, train.clip)
            optimiser.param_groups[0]["lr"] = learning_rate(step, train)
            optimiser.step()
    return pd.DataFrame(rows)


@torch.no_grad()
def evaluate_model(model: HookedModel, data: Dataset, n_rows: int = 1000) -> list[dict]:
    """Loss (nats) and accuracy of all labels of up to ``n_rows`` fixed rows of each set that has
    any; -1 is none."""
    device = next(model.parameters()).device
    result = []
    for name in data.sets:
        rows = data.sample(name, n_rows)
        if not len(rows):
            continue
        total_loss = 0.0
        n_right = 0
        n_labels = 0
        for part in np.array_split(rows, max(1, data.tokens[rows].size // TOKENS_AT_ONCE)):
            tokens = torch.from_numpy(np.asarray(data.tokens[part])).to(device)
            labels = torch.from_numpy(np.asarray(data.labels[part])).long().view(len(part), -1)
            logits = model(tokens)[:, -labels.shape[1] :].flatten(0, 1).cpu()
            labels = labels.flatten()
            loss = F.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
            total_loss += float(loss)
            n_right += int((logits.argmax(-1) == labels).sum())
            n_labels += int((labels >= 0).sum())
        if n_labels:
            accuracy = n_right / n_labels
            result.append({"set": name, "loss": total_loss / n_labels, "accuracy": accuracy})
    return result
