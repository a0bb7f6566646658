"""What members read and what is kept along training: batches, sums of what theory predicts, spectra
of embeddings.

Seed and step alone decide a batch. It takes the same number of rows from each of the dataset's
``batch_sets``; seed and epoch fix the order of each. Evaluations are on fixed rows of each set.

The sums are of what ``theory.drift`` predicts of a step from the weights that it began with, times
its learning rate: ``map`` of an Emb-MLP, whose R never changes; ``attention``, ``direct`` and
``value`` (the flow of W_V) of one layer. Under AdamW the same sums are kept.

Spectra (paper 2, Fig. 12): a task names groups of tokens in an attribute ``spectra``: name -> token
ids. With X their embeddings, n of them, less their mean, the leading eigenvalues of X^T X / n are
kept beside loss and accuracy. They are sorted at each evaluation, so one place in the order need
not be one direction throughout.
"""

from collections.abc import Mapping, Sequence
from inspect import unwrap
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ConfigError, TaskError
from rb_interp.models.config import ModelConfig
from rb_interp.tasks.dataset import Dataset, Task
from rb_interp.theory.drift import emb_mlp_map, one_layer_maps, pull, value_flow
from rb_interp.training.config import TrainConfig

SeedWeights = Mapping[str, Tensor]


class Batches:
    """Training rows of each seed (``tokens``, ``labels``), and evaluation rows of each of the
    task's sets (``fixed``). A dataset's ``weights`` of labels, where it has them, are a third part
    of training rows.

    Raises ConfigError for a batch that cannot be divided among sets, TaskError for tokens beyond
    the vocabulary and for training sets that differ in number of rows.
    """

    def __init__(
        self, task: Task, datasets: Sequence[Dataset], train: TrainConfig, device: torch.device
    ) -> None:
        self.seeds = [data.seed for data in datasets]
        self.device = device
        self.epoch = -1
        names = datasets[0].batch_sets
        self.parts = len(names)
        if train.batch_size % self.parts:
            raise ConfigError(
                f"batch_size={train.batch_size} of rows of {names}; give a multiple of "
                f"{self.parts}."
            )
        rows_of_seeds = []
        sizes: set[int] = set()
        for data in datasets:
            first = data.tokens.min()
            last = data.tokens.max()
            # Beyond the vocabulary the embedding of another member would be read.
            if not 0 <= first <= last < task.d_vocab:
                raise TaskError(
                    f"seed {data.seed}: tokens run from {first} to {last}; d_vocab is "
                    f"{task.d_vocab}."
                )
            rows_of_sets = [data.rows(name) for name in names]
            sizes.update(map(len, rows_of_sets))
            rows_of_seeds.append(np.concatenate(rows_of_sets))
        if len(sizes) > 1 or 0 in sizes:
            raise TaskError(
                f"{names} have {sorted(sizes)} training rows; give each the same number, for "
                f"members step together."
            )
        (self.n_rows,) = sizes
        self.size = min(train.batch_size // self.parts, self.n_rows)
        # In a full batch the order plays no part.
        self.whole = self.parts == 1 and self.size == self.n_rows
        shape = (len(self.seeds), self.parts, self.n_rows)
        self.order = torch.empty(shape, dtype=torch.int64, device=device)
        self.tokens, self.labels = self._tensors(datasets, rows_of_seeds)
        self.trained = (self.tokens, self.labels)
        weights: list[Any] = [getattr(data, "weights", None) for data in datasets]
        if weights[0] is not None:
            rows = [part[rows] for part, rows in zip(weights, rows_of_seeds, strict=True)]
            self.trained += (torch.from_numpy(np.stack(rows)).to(device),)
        self.fixed = []
        for name in task.sets:
            rows = [data.sample(name, train.eval_rows) for data in datasets]
            self.fixed.append(self._tensors(datasets, rows))

    def _tensors(
        self, datasets: Sequence[Dataset], rows: Sequence[np.ndarray]
    ) -> tuple[Int[Tensor, "seed row pos"], Int[Tensor, "seed row ..."]]:
        """Tokens and labels of some rows of each seed, on the device."""
        pairs = list(zip(datasets, rows, strict=True))
        tokens = [np.asarray(data.tokens[part], dtype=np.int64) for data, part in pairs]
        labels = [np.asarray(data.labels[part], dtype=np.int64) for data, part in pairs]
        return (
            torch.from_numpy(np.stack(tokens)).to(self.device),
            torch.from_numpy(np.stack(labels)).to(self.device),
        )

    def of_step(self, step: int) -> tuple[Tensor, ...]:
        """Rows of a step for each seed, their labels, and weights of these if there are any."""
        batch, _ = self.begin(step)
        return self.rows(torch.tensor([batch], device=self.device))

    def begin(self, step: int) -> tuple[int, int]:
        """Lay out the order of a step's epoch; returns the number of the step's batch, and how many
        batches are left."""
        per_epoch = self.n_rows // self.size
        epoch, batch = divmod(step, per_epoch)
        if epoch != self.epoch and not self.whole:
            orders = []
            for seed in self.seeds:
                rng = np.random.default_rng([seed, 5, epoch])
                starts = range(0, self.parts * self.n_rows, self.n_rows)
                orders.append([rng.permutation(self.n_rows) + start for start in starts])
            self.order.copy_(torch.from_numpy(np.array(orders)))
            self.epoch = epoch
        return batch, per_epoch - batch

    def rows(self, batch: Int[Tensor, " 1"]) -> tuple[Tensor, ...]:
        """Rows of a batch of the epoch that was laid out, as `of_step`; the batch's number is read
        on the device."""
        if self.whole:
            return self.trained
        columns = batch * self.size + torch.arange(self.size, device=self.device)
        rows = self.order[:, :, columns].flatten(1)
        seeds = torch.arange(len(self.seeds), device=self.device)[:, None]
        return tuple(part[seeds, rows] for part in self.trained)


class Drift:
    """The sums of a group of members, ``sums``: name -> ``[member, ...]``; ConfigError for a
    transformer.

    ``which_seed`` says for each member whose training rows it reads.
    """

    def __init__(
        self,
        model: ModelConfig,
        weights: SeedWeights,
        tokens: Int[Tensor, "seed row pos"],
        labels: Int[Tensor, "seed row"],
        which_seed: Int[Tensor, " member"],
    ) -> None:
        if model.architecture == "transformer":
            raise ConfigError(
                "track_drift with architecture='transformer'; the propositions are about one_layer "
                "and emb_mlp models."
            )
        self.model = model
        self.length = tokens.shape[2]
        table = weights["embed.W_E"]
        pulls = pull(tokens, labels, table.shape[1], dtype=table.dtype)
        self.pulls: Float[Tensor, "member d_vocab d_vocab"] = pulls[which_seed]
        self.sums = {name: torch.zeros_like(value) for name, value in self._rates(weights).items()}

    @torch.no_grad()
    def add(self, weights: SeedWeights, lr: Float[Tensor, " member"]) -> None:
        """Add the prediction of one step, with each member's learning rate."""
        for name, rate in self._rates(weights).items():
            shape = [-1] + [1] * (rate.ndim - 1)
            self.sums[name].addcmul_(rate, lr.view(shape))

    @torch.no_grad()
    def _rates(self, weights: SeedWeights) -> dict[str, Tensor]:
        """The predictions of one step. Arguments are right here, at every step, so they are not
        checked."""
        if self.model.architecture == "emb_mlp":
            return {"map": unwrap(emb_mlp_map)(weights["mlp.W_in"], weights["mlp.W_out"])}
        w_v = weights["blocks.0.attn.W_V"][:, 0]
        w_o = weights["blocks.0.attn.W_O"][:, 0]
        w_in = weights["blocks.0.mlp.W_in"]
        w_out = weights["blocks.0.mlp.W_out"]
        attention, direct = unwrap(one_layer_maps)(w_v, w_o, w_in, w_out)
        value = unwrap(value_flow)(weights["embed.W_E"], self.pulls, w_o, w_in, w_out, self.length)
        return {"attention": attention, "direct": direct, "value": value}


N_EIGENVALUES = 10
"""Eigenvalues that are kept, at most."""


@torch.no_grad()
def leading_eigenvalues(
    vectors: Float[Tensor, "member token d_model"],
) -> Float[np.ndarray, "member rank"]:
    """Leading eigenvalues of each member's covariance, largest first, in float64.

    NaN if a vector of the member is not finite.

    >>> vectors = torch.tensor([[[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]])
    >>> leading_eigenvalues(vectors).round(6).tolist()
    [[4.5, 0.5]]
    """
    finite = vectors.isfinite().all(-1).all(-1)
    x = torch.where(finite[:, None, None], vectors, 0).double()
    x = x - x.mean(1, keepdim=True)
    few_tokens = x.shape[1] < x.shape[2]
    gram = x @ x.mT if few_tokens else x.mT @ x  # with the same eigenvalues, but for zeros
    eigenvalues = torch.linalg.eigvalsh(gram / x.shape[1]).flip(-1)
    leading = eigenvalues[:, :N_EIGENVALUES].clamp(min=0)
    return torch.where(finite[:, None], leading, torch.nan).cpu().numpy()
