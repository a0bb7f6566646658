"""A group of members on one device: weights, optimiser, batches, evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw, parameters
from rb_interp.tasks import SETS, AnchorDataset, AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.schedule import learning_rate
from rb_interp.training.stacked import stacked_logits
from rb_interp.training.tracking import Drift

MOMENTS = ("exp_avg", "exp_avg_sq")
DRIFT = "drift/"
"""What the names of the sums of ``training.tracking`` begin with in checkpoints."""


@dataclass(frozen=True, order=True)
class Member:
    """One model of a study: its initialisation rate and its seed (data, labels, batch order, normal draws)."""

    gamma: float
    seed: int


class Group:
    """Members that take every step together; their losses, gradients and clipping stay apart.

    Args:
        members: who is in the group. model, task, train: the shared configuration.
        device: where the tensors live.
    """

    def __init__(
        self,
        members: Sequence[Member],
        model: ModelConfig,
        task: AnchorTask,
        train: TrainConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        self.members, self.model, self.task, self.train = tuple(members), model, task, train
        self.device = torch.device(device)
        self.dtype = torch.float64 if train.dtype == "float64" else torch.float32
        self.step = 0
        seeds = sorted({member.seed for member in members})
        self.which_seed = torch.tensor([seeds.index(m.seed) for m in members], device=self.device)
        self.batches = Batches([task.dataset(seed) for seed in seeds], train, self.device)
        self.weights = self._initial_weights()
        trained = {p.name for p in parameters(model, task.d_vocab, task.length) if p.trained}
        self.trained = {name: w.requires_grad_() for name, w in self.weights.items() if name in trained}
        self.optimiser = make_optimiser(list(self.trained.values()), train)
        data = (self.batches.tokens, self.batches.labels, self.which_seed)
        self.drift = Drift(model, self.weights, *data) if train.track_drift else None

    def _initial_weights(self) -> dict[str, Tensor]:
        drawn = [draw(self.model, self.task.d_vocab, self.task.length, m.gamma, m.seed) for m in self.members]
        return {
            name: torch.from_numpy(np.stack([d[name] for d in drawn])).to(self.device, self.dtype) for name in drawn[0]
        }

    def losses(
        self, tokens: Int[Tensor, "member batch pos"], labels: Int[Tensor, "member batch"], every_position: bool = False
    ) -> Float[Tensor, " member"]:
        """Mean cross entropy (nats) of each member at the last position."""
        with self._autocast():
            logits = stacked_logits(self.weights, tokens, self.model, every_position=every_position)
        logits = logits[:, :, -1] if every_position else logits
        return cross_entropy(logits, labels).mean(1)

    def gradients(self, every_position: bool = False) -> tuple[Tensor, ...]:
        """Gradients of the current step's batch, in the order of ``trained``; each member's are its own."""
        tokens, labels = self.batches.at(self.step, self.which_seed)
        loss = self.losses(tokens, labels, every_position).sum()
        return torch.autograd.grad(loss, list(self.trained.values()), materialize_grads=True)

    def advance(self, steps: int) -> None:
        """Take optimiser steps."""
        for _ in range(steps):
            lr = learning_rate(self.step, self.train)
            if self.drift is not None:
                self.drift.add(self.weights, lr)
            gradients = self.gradients()
            if self.train.clip > 0:
                clip_per_member(gradients, self.train.clip)
            for weight, gradient in zip(self.trained.values(), gradients, strict=True):
                weight.grad = gradient.contiguous()  # the fused optimiser ignores strides
            self.optimiser.param_groups[0]["lr"] = lr
            self.optimiser.step()
            self.step += 1

    @torch.inference_mode()
    def evaluate(self) -> Float[np.ndarray, "member set 2"]:
        """Loss (nats) and accuracy of each member on the fixed rows of each set; NaN for an empty set."""
        found = np.full((len(self.members), len(SETS), 2), np.nan)
        tokens, labels, bounds = self.batches.fixed(self.which_seed)
        with self._autocast():
            logits = stacked_logits(self.weights, tokens, self.model)
        loss = cross_entropy(logits, labels)
        right = (logits.argmax(-1) == labels).double()  # in float32 16 of 80 would be more than .20
        for index, (start, end) in enumerate(bounds):
            if end > start:
                found[:, index, 0] = loss[:, start:end].mean(1).cpu()
                found[:, index, 1] = right[:, start:end].mean(1).cpu()
        return found

    def state(self, moments: bool = True) -> dict[str, Tensor]:
        """Weights (``name``), moments (``exp_avg/name``, ``exp_avg_sq/name``) and sums (``drift/name``), copied to CPU.

        Members come first.
        """
        kept = {name: weight.detach().cpu().clone() for name, weight in self.weights.items()}
        sums = {} if self.drift is None else self.drift.sums
        kept |= {f"{DRIFT}{name}": value.cpu().clone() for name, value in sums.items()}
        for name, weight in self.trained.items() if moments and self.train.optimiser == "adamw" else ():
            for moment in MOMENTS:
                value = self.optimiser.state[weight].get(moment, torch.zeros_like(weight))
                kept[f"{moment}/{name}"] = value.detach().cpu().clone()
        return kept

    def load_state(self, state: dict[str, Tensor], step: int) -> None:
        """Continue from what ``state`` returned at a step."""
        self.step = step
        for name, weight in self.weights.items():
            weight.data.copy_(state[name])
        for name, value in () if self.drift is None else self.drift.sums.items():
            value.copy_(state[f"{DRIFT}{name}"])
        for name, weight in self.trained.items() if step and self.train.optimiser == "adamw" else ():
            moments = {m: state[f"{m}/{name}"].to(self.device, self.dtype) for m in MOMENTS}
            self.optimiser.state[weight] = {"step": torch.tensor(float(step), device=self.device), **moments}

    def _autocast(self):
        if self.train.dtype == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()


def make_optimiser(parameters: Sequence[Tensor], train: TrainConfig) -> torch.optim.Optimizer:
    """AdamW or plain gradient descent, as configured."""
    if train.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=train.lr, weight_decay=train.weight_decay, fused=True)
    return torch.optim.AdamW(
        parameters, lr=train.lr, betas=train.betas, eps=train.eps, weight_decay=train.weight_decay, fused=True
    )


class Batches:
    """Training batches and fixed evaluation rows of several seeds; the step alone decides a batch."""

    def __init__(self, datasets: Sequence[AnchorDataset], train: TrainConfig, device: torch.device) -> None:
        self.seeds, self.size, self.epoch = [d.seed for d in datasets], train.batch_size, -1
        rows = [d.rows("train") for d in datasets]
        self.n_rows = len(rows[0])
        self.size = min(self.size, self.n_rows)
        stack = [torch.from_numpy(np.stack(x)).to(device) for x in _pick(datasets, rows)]
        self.tokens, self.labels = stack
        samples = [[d.sample(kind, train.eval_rows) for kind in SETS] for d in datasets]
        ends = np.cumsum([len(rows) for rows in samples[0]]).tolist()
        self.bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        chosen = [np.concatenate(s) for s in samples]
        self.fixed_tokens, self.fixed_labels = (
            torch.from_numpy(np.stack(x)).to(device) for x in _pick(datasets, chosen)
        )

    def at(self, step: int, which: Int[Tensor, " member"]) -> tuple[Tensor, Tensor]:
        """Tokens [member, batch, pos] and labels [member, batch] of a step."""
        if self.size == self.n_rows:  # full batch: the order plays no part
            return self.tokens[which], self.labels[which]
        per_epoch = self.n_rows // self.size
        epoch, index = divmod(step, per_epoch)
        if epoch != self.epoch:
            orders = [np.random.default_rng([seed, 5, epoch]).permutation(self.n_rows) for seed in self.seeds]
            self.order, self.epoch = torch.from_numpy(np.stack(orders)).to(self.tokens.device), epoch
        rows = self.order[:, index * self.size : (index + 1) * self.size]
        labels = self.labels.gather(1, rows)
        tokens = self.tokens.gather(1, rows[:, :, None].expand(-1, -1, self.tokens.shape[2]))
        return tokens[which], labels[which]

    def fixed(self, which: Int[Tensor, " member"]) -> tuple[Tensor, Tensor, list[tuple[int, int]]]:
        """Evaluation tokens and labels of each member, and where each set starts and ends."""
        return self.fixed_tokens[which], self.fixed_labels[which], self.bounds


def _pick(datasets: Sequence[AnchorDataset], rows: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    pairs = [(d.tokens[r], d.labels[r]) for d, r in zip(datasets, rows, strict=True)]
    return [p[0] for p in pairs], [p[1] for p in pairs]


def cross_entropy(
    logits: Float[Tensor, "member batch d_vocab"], labels: Int[Tensor, "member batch"]
) -> Float[Tensor, "member batch"]:
    """Cross entropy of every row, in nats."""
    return F.cross_entropy(logits.flatten(0, 1).float() if logits.dtype == torch.bfloat16 else logits.flatten(0, 1),
                           labels.flatten(), reduction="none").view_as(labels)  # fmt: skip


def clip_per_member(gradients: Sequence[Tensor], largest: float) -> None:
    """Scale each member's gradients, in place, to a norm of at most ``largest`` (as torch's clip_grad_norm_)."""
    squares = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0)
    scale = (largest / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.ndim - 1)))
