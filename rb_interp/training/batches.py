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
from rb_interp.tasks.dataset import Dataset, Task
from rb_interp.training.config import TrainConfig

Tokens = Int[Tensor, "seed row pos"]
Labels = Int[Tensor, "seed row ..."]


class Batches:
    """Batches and evaluation rows.

    Attributes:
        tokens, labels: training rows of each seed.
        fixed: evaluation rows of each of the task's sets.

    Raises ConfigError for a batch that cannot be divided among sets, TaskError for tokens beyond the vocabulary and for
    training sets that differ in number of rows.
    """

    def __init__(self, task: Task, datasets: Sequence[Dataset], train: TrainConfig, device: torch.device) -> None:
        self.seeds, self.device, self.epoch = [data.seed for data in datasets], device, -1
        names = datasets[0].batch_sets
        self.parts = len(names)
        if train.batch_size % self.parts:
            raise ConfigError(f"batch_size={train.batch_size} of rows of {names}; give a multiple of {self.parts}.")
        for data in datasets:
            first, last = data.tokens.min(), data.tokens.max()
            if not 0 <= first <= last < task.d_vocab:  # the embedding of another member would be read
                raise TaskError(f"seed {data.seed}: tokens run from {first} to {last}; d_vocab is {task.d_vocab}.")
        every = [[data.rows(name) for name in names] for data in datasets]
        sizes = sorted({len(rows) for each in every for rows in each})
        if len(sizes) > 1 or not sizes[0]:
            raise TaskError(
                f"{names} have {sizes} training rows; give each the same number, for members step together."
            )
        self.n_rows = sizes[0]
        self.size = min(train.batch_size // self.parts, self.n_rows)
        self.tokens, self.labels = self._tensors(datasets, [np.concatenate(each) for each in every])
        chosen = ([data.sample(name, train.eval_rows) for data in datasets] for name in task.sets)
        self.fixed = [self._tensors(datasets, rows) for rows in chosen]

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
