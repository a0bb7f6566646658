"""A group of members that answer at the last position."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.training.member_group import MemberGroup, cross_entropy
from rb_interp.training.stacked import stacked_logits
from rb_interp.training.tracking import Drift

DRIFT = "drift/"
"""What the names of the sums of ``training.tracking`` begin with in checkpoints."""


class LastGroup(MemberGroup):
    """Members whose loss is read at the last position. Arguments are those of ``MemberGroup``."""

    def prepare(self) -> None:
        """Begin the sums of what theory predicts, where they are asked for."""
        rows = (self.batches.tokens, self.batches.labels, self.which_seed)
        self.drift = Drift(self.model, self.weights, *rows) if self.train.track_drift else None

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
        tokens, labels = self.batches.at(self.step)
        loss = self.losses(tokens[self.which_seed], labels[self.which_seed], every_position).sum()
        return torch.autograd.grad(loss, list(self.trained.values()), materialize_grads=True)

    def before_step(self, lr: Float[Tensor, " member"]) -> None:
        """Add up what theory predicts of the step."""
        if self.drift is not None:
            self.drift.add(self.weights, lr)

    @torch.inference_mode()
    def evaluate(self) -> Float[np.ndarray, "member set 2"]:
        """Loss (nats) and accuracy of each member on the fixed rows of each set; NaN for an empty set."""
        found = np.full((len(self.members), len(self.batches.fixed), 2), np.nan)
        tokens, labels = (torch.cat(part, 1)[self.which_seed] for part in zip(*self.batches.fixed, strict=True))
        with self.autocast():
            logits = stacked_logits(self.weights, tokens, self.model)
        loss = cross_entropy(logits, labels)
        right = (logits.argmax(-1) == labels).double()  # in float32 16 of 80 would be more than .20
        sizes = [rows.shape[1] for rows, _ in self.batches.fixed]
        for index, of_set in enumerate(zip(loss.split(sizes, 1), right.split(sizes, 1), strict=True)):
            if sizes[index]:
                found[:, index] = torch.stack([values.mean(1).double() for values in of_set], 1).cpu()
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
