"""Train the members of an anchor study together: who shares an operation, and with whom."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import torch

from rb_interp.models.config import ModelConfig
from rb_interp.tasks import SETS, AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.group import Group
from rb_interp.training.loop import Trained, Training, all_members, resolve_device, torch_settings
from rb_interp.training.member_group import Member
from rb_interp.training.store import Store

MEMBERS_A_GROUP, ROOM = 8, 1_000_000
"""Members that share each CPU operation: enough to hide its overhead, few enough to stay in cache.

ROOM is in numbers: hidden units, logits and their gradients at the answer's position, of all rows of a batch. Large
batches leave it to fewer members, full ones to one.
"""


def train_members(
    task: AnchorTask,
    model: ModelConfig,
    train: TrainConfig,
    gammas: Sequence[float],
    seeds: Sequence[int],
    *,
    store: Store | None = None,
    progress: bool = True,
) -> Trained:
    """Train every gamma with every seed in one program.

    With a store, checkpoints are kept (step 0, log-spaced, last; and members where they reach the configured stages,
    for ``half`` with the same-seed siblings), and a run that was stopped, by Ctrl-C or harder, continues from its last
    saved state.

    Raises ConfigError for an empty sweep or a device that is not there, RunError where files cannot be used.

    >>> tiny = TrainConfig(steps=20, batch_size=16, eval_every=10, eval_rows=20)
    >>> task, model = AnchorTask.preset("smoke"), ModelConfig.preset("smoke")
    >>> trained = train_members(task, model, tiny, [0.8], [0], progress=False)
    >>> trained.curves.steps
    [0, 10, 20]
    """
    members = all_members(gammas, seeds)
    device = resolve_device(train.device)
    with torch_settings(train):
        shares = share_out(members, model, task, train, device, train.workers or os.cpu_count() or 1)
        return Training(shares, train, SETS, task.d_vocab, store).run(progress)


def share_out(
    members: Sequence[Member],
    model: ModelConfig,
    task: AnchorTask,
    train: TrainConfig,
    device: torch.device,
    workers: int,
) -> list[list[Group]]:
    """Groups of members for each worker: one group of all on a GPU, small ones for every thread on CPU."""
    if device.type != "cpu":
        return [[Group(members, model, task, train, device)]]
    shares = np.array_split(np.arange(len(members)), min(workers, len(members)))
    return [
        [
            Group([members[i] for i in part], model, task, train, device)
            for part in np.array_split(share, math.ceil(len(share) / members_a_group(model, task, train)))
        ]
        for share in shares
    ]


def members_a_group(model: ModelConfig, task: AnchorTask, train: TrainConfig) -> int:
    """How many members share an operation on CPU, at least one.

    >>> members_a_group(ModelConfig(), AnchorTask(), TrainConfig()), members_a_group(
    ...     ModelConfig(), AnchorTask(), TrainConfig(batch_size=2000))
    (8, 1)
    """
    one = min(train.batch_size, task.n_sequences) * (model.d_mlp + 2 * task.d_vocab)
    return max(1, min(MEMBERS_A_GROUP, ROOM // one))
