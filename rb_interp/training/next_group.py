"""A group of members that predict every next token.

    L = sum over targets of -ln p(next token) / number of targets

A label of -1 is no target: what fills up a short row plays no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ConfigError, first_line
from rb_interp.models.config import ModelConfig
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import MemberGroup
from rb_interp.training.stacked import stacked_logits

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


Tokens = Int[Tensor, "member row pos"]
TRIM = 64


class NextGroup(MemberGroup):
    """Members whose loss is read at every position. Arguments are those of ``MemberGroup``."""

    @staticmethod
    def check(model: ModelConfig, train: TrainConfig) -> None:
        """Raise ConfigError for a model without positions, and where the drift is asked for."""
        if model.architecture == "emb_mlp" or train.track_drift:
            raise ConfigError(
                f"architecture='{model.architecture}' with track_drift={train.track_drift}; a task that predicts every "
                f"next token needs a transformer or one_layer, and there is no prediction of its drift."
            )

    def prepare(self) -> None:
        """Compile the loss, where that is asked for."""
        self.loss = _compiled(self._loss) if self.train.compile else self._loss

    def gradients(self) -> tuple[Tensor, ...]:
        """Gradients of the current step's batch, in the order of ``trained``, in pieces of ``micro_batch`` rows."""
        tokens, labels = self.batches.at(self.step)
        tokens, labels = trimmed(tokens[self.which_seed], labels[self.which_seed])
        total = (labels >= 0).sum((1, 2))
        found: list[Tensor] | None = None
        for rows, following in self._pieces(tokens, labels):
            loss = self.loss(rows, following, total)
            gradients = torch.autograd.grad(loss, list(self.trained.values()))
            found = list(gradients) if found is None else [a + b for a, b in zip(found, gradients, strict=True)]
        assert found is not None
        return tuple(found)

    def _pieces(self, tokens: Tokens, labels: Tokens) -> Iterator[tuple[Tokens, Tokens]]:
        size = self.train.micro_batch or tokens.shape[1]
        yield from zip(tokens.split(size, 1), labels.split(size, 1), strict=True)

    def _loss(self, tokens: Tokens, labels: Tokens, total: Int[Tensor, " member"]) -> Float[Tensor, ""]:
        """The rows' share of each member's mean loss, summed over members."""
        losses, _ = self._read(tokens, labels)
        return (losses.sum((1, 2)) / total).sum()

    def _read(
        self, tokens: Tokens, labels: Tokens
    ) -> tuple[Float[Tensor, "member row pos"], Float[Tensor, "member row pos d_vocab"]]:
        """Cross entropy (nats) at every position, 0 where there is no target, and the logits."""
        with self.autocast():
            logits = stacked_logits(self.weights, tokens, self.model, every_position=True)
        flat = logits.flatten(0, 2)
        flat = flat.float() if flat.dtype == torch.bfloat16 else flat
        return F.cross_entropy(flat, labels.flatten(), reduction="none", ignore_index=-1).view(labels.shape), logits

    @torch.inference_mode()
    def evaluate(self) -> Float[np.ndarray, "member set 2"]:
        """Mean loss (nats a token) and accuracy of the next token on fixed rows of each set; NaN for an empty set."""
        found = np.full((len(self.members), len(self.batches.fixed), 2), np.nan)
        size = self.train.micro_batch or self.train.batch_size
        for index, rows in enumerate(self.batches.fixed):
            tokens, labels = (part[self.which_seed] for part in rows)
            if not tokens.shape[1]:
                continue
            sums = torch.zeros(2, len(self.members), dtype=torch.float64, device=self.device)
            for piece, following in map(trimmed, tokens.split(size, 1), labels.split(size, 1)):
                losses, logits = self._read(piece, following)
                right = logits.argmax(-1) == following
                sums += torch.stack([losses.double().sum((1, 2)), right.double().sum((1, 2))])
            found[:, index] = (sums / (labels >= 0).sum((1, 2))).T.cpu()
        return found


def trimmed(tokens: Tokens, labels: Tokens) -> tuple[Int[Tensor, "member row _"], Int[Tensor, "member row _"]]:
    """Rows without the last columns in which none has a target, in multiples of TRIM so that few lengths occur."""
    used = (labels >= 0).any(0).any(0).nonzero()
    longest = int(used.max()) + 1 if len(used) else 1
    length = min(labels.shape[-1], -(-longest // TRIM) * TRIM)
    return tokens[:, :, :length], labels[:, :, :length]


def _compiled(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that torch compiles when it is first called; ConfigError where this machine cannot compile it."""
    made = torch.compile(loss)

    def called(*args: Tensor) -> Tensor:
        try:
            return made(*args)
        except Exception as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            raise ConfigError(
                f"compile=True: torch.compile failed here ({first_line(error)}); set compile=False, or install what it "
                f"needs, such as a C++ compiler."
            ) from None

    return called
