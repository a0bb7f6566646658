"""Training batches and fixed evaluation rows of several seeds; seed and step alone decide a batch.

A batch takes the same number of rows from each of the dataset's ``batch_sets``. Seed and epoch fix the order of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ConfigError, TaskError
from rb_interp.tasks.protocol import Dataset, Task
from rb_interp.training.config import TrainConfig

Tokens = Int[Tensor, "seed row pos"]
Labels = Int[Tensor, "seed row ..."]


class Batches:
    """Batches and evaluation rows.

    Attributes:
        tokens, labels: training rows of each seed.
        fixed: evaluation rows of each of the task's sets.

    Raises ConfigError for a batch that cannot be divided among sets, TaskError for rows that the task's sizes do not
    allow or that differ in number.
    """

    def __init__(self, task: Task, datasets: Sequence[Dataset], train: TrainConfig, device: torch.device) -> None:
        self.seeds, self.device, self.epoch = [data.seed for data in datasets], device, -1
        self.parts = len(datasets[0].batch_sets)
        if train.batch_size % self.parts:
            raise ConfigError(
                f"batch_size={train.batch_size}; a batch takes as many rows from each of "
                f"{', '.join(datasets[0].batch_sets)}, so give a multiple of {self.parts}."
            )
        for data in datasets:
            _check(task, data)
        every = [[data.rows(name) for name in data.batch_sets] for data in datasets]
        self.n_rows = _same_number([rows for each in every for rows in each], "training rows")
        self.size = min(train.batch_size // self.parts, self.n_rows)
        self.tokens, self.labels = self._tensors(datasets, [np.concatenate(each) for each in every])
        self.fixed: list[tuple[Tokens, Labels]] = []
        for name in task.sets:
            chosen = [data.sample(name, train.eval_rows) for data in datasets]
            _same_number(chosen, f"rows of {name}")
            self.fixed.append(self._tensors(datasets, chosen))

    def _tensors(self, datasets: Sequence[Dataset], rows: Sequence[np.ndarray]) -> tuple[Tokens, Labels]:
        pairs = [(data.tokens[at], data.labels[at]) for data, at in zip(datasets, rows, strict=True)]
        stacked = (np.stack([np.asarray(x, dtype=np.int64) for x in part]) for part in zip(*pairs, strict=True))
        tokens, labels = (torch.from_numpy(part).to(self.device) for part in stacked)
        return tokens, labels

    def at(self, step: int) -> tuple[Tokens, Labels]:
        """Rows of a step for each seed, and their labels."""
        if self.parts == 1 and self.size == self.n_rows:  # full batch: the order plays no part
            return self.tokens, self.labels
        epoch, index = divmod(step, self.n_rows // self.size)
        if epoch != self.epoch:
            self.order = torch.from_numpy(np.stack([self._order(seed, epoch) for seed in self.seeds])).to(self.device)
            self.epoch = epoch
        rows = self.order[:, :, index * self.size : (index + 1) * self.size].flatten(1)
        here = torch.arange(len(self.seeds), device=self.device)[:, None]
        return self.tokens[here, rows], self.labels[here, rows]

    def _order(self, seed: int, epoch: int) -> Int[np.ndarray, "part row"]:
        rng = np.random.default_rng([seed, 5, epoch])
        return np.stack([rng.permutation(self.n_rows) + part * self.n_rows for part in range(self.parts)])


def _same_number(rows: Sequence[np.ndarray], what: str) -> int:
    """The number of rows that all have; TaskError where they differ or there is none to train on."""
    numbers = sorted({len(each) for each in rows})
    if len(numbers) > 1:
        raise TaskError(
            f"the numbers of {what} differ between seeds or batch sets: {numbers}; members take steps together, so "
            f"give each the same number."
        )
    if what == "training rows" and not numbers[0]:
        raise TaskError("the task has no training rows; check its train_sets.")
    return numbers[0]


def _check(task: Task, data: Dataset) -> None:
    """Raise TaskError where rows do not have the sizes that the task promises."""
    shape = data.tokens.shape if task.predicts == "next" else data.tokens.shape[:1]
    if data.tokens.shape[1] != task.length or data.labels.shape != shape:
        raise TaskError(
            f"seed {data.seed}: tokens {list(data.tokens.shape)} and labels {list(data.labels.shape)}; a task with "
            f"length={task.length} and predicts='{task.predicts}' needs {[len(data.tokens), task.length]} and "
            f"{[len(data.tokens), *shape[1:]]}."
        )
    least = -1 if task.predicts == "next" else 0
    for name, values, low in (("tokens", data.tokens, 0), ("labels", data.labels, least)):
        if values.size and not low <= values.min() <= values.max() < task.d_vocab:
            raise TaskError(
                f"seed {data.seed}: {name} run from {values.min()} to {values.max()}; expected {low} to "
                f"{task.d_vocab - 1}, below d_vocab={task.d_vocab}."
            )
