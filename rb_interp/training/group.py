"""A group of members on an anchor task: the loss reads the answer at the last position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.models.config import ModelConfig
from rb_interp.tasks import SETS, AnchorDataset, AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import Member, MemberGroup, cross_entropy
from rb_interp.training.stacked import stacked_logits
from rb_interp.training.tracking import Drift

DRIFT = "drift/"
"""What the names of the sums of ``training.tracking`` begin with in checkpoints."""


class Group(MemberGroup):
    """Members on an anchor task.

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
        super().__init__(members, model, train, task.d_vocab, task.length, device)
        self.task = task
        self.batches = Batches([task.dataset(seed) for seed in self.seeds], train, self.device)
        data = (self.batches.tokens, self.batches.labels, self.which_seed)
        self.drift = Drift(model, self.weights, *data) if train.track_drift else None

    def losses(
        self, tokens: Int[Tensor, "member batch pos"], labels: Int[Tensor, "member batch"], every_position: bool = False
    ) -> Float[Tensor, " member"]:
        """Mean cross entropy (nats) of each member at the last position."""
        with self.autocast():
            logits = stacked_logits(self.weights, tokens, self.model, every_position=every_position)
        logits = logits[:, :, -1] if every_position else logits
        return cross_entropy(logits, labels).mean(1)

    def gradients(self, every_position: bool = False) -> tuple[Tensor, ...]:
        """Gradients of the current step's batch, in the order of ``trained``; each member's are its own."""
        tokens, labels = self.batches.at(self.step, self.which_seed)
        loss = self.losses(tokens, labels, every_position).sum()
        return torch.autograd.grad(loss, list(self.trained.values()), materialize_grads=True)

    def before_step(self, lr: float) -> None:
        """Add up what theory predicts of the step."""
        if self.drift is not None:
            self.drift.add(self.weights, lr)

    @torch.inference_mode()
    def evaluate(self) -> Float[np.ndarray, "member set 2"]:
        """Loss (nats) and accuracy of each member on the fixed rows of each set; NaN for an empty set."""
        found = np.full((len(self.members), len(SETS), 2), np.nan)
        tokens, labels, bounds = self.batches.fixed(self.which_seed)
        with self.autocast():
            logits = stacked_logits(self.weights, tokens, self.model)
        loss = cross_entropy(logits, labels)
        right = (logits.argmax(-1) == labels).double()  # in float32 16 of 80 would be more than .20
        for index, (start, end) in enumerate(bounds):
            if end > start:
                found[:, index, 0] = loss[:, start:end].mean(1).cpu()
                found[:, index, 1] = right[:, start:end].mean(1).cpu()
        return found

    def state(self, moments: bool = True) -> dict[str, Tensor]:
        """Weights, moments, and the sums of predictions (``drift/name``), members first, copied to CPU."""
        sums = {} if self.drift is None else self.drift.sums
        return super().state(moments) | {f"{DRIFT}{name}": value.cpu().clone() for name, value in sums.items()}

    def load_state(self, state: dict[str, Tensor], step: int) -> None:
        """Continue from what ``state`` returned at a step."""
        super().load_state(state, step)
        for name, value in () if self.drift is None else self.drift.sums.items():
            value.copy_(state[f"{DRIFT}{name}"])


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
