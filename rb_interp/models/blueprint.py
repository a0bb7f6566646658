r"""Parts of a hand-written transformer: named directions, attention by score, values moved, and integers read out.

A number s on the residual stream becomes the token that is nearest to it: with y' = y - c and s' = s - c,

    logit_y = kappa (2 y' s' - y'^2) = kappa (s'^2 - (y - s)^2)

whose first term is the same for every y. kappa = 10 puts the right token 10 nats above the next, so the cross entropy
is 1e-4. The centre c keeps the numbers small enough for float32. Tokens that are no answer are out of reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters

KAPPA = 10.0
"""Nats between the right answer and its neighbours."""
REFUSED = 100 * KAPPA
"""Nats below which tokens that are no answer lie."""

SECOND = (0.2, 0.5)
"""Singular values, from and to, of the second direction that L0's W_V reads; the first is 1."""

Amounts = Mapping[str, float]
"""Named direction -> weight."""


def drawn(rng: np.random.Generator, low: float, high: float) -> float:
    """One of the sizes that play no part in what a reference is, log-uniform between two bounds."""
    return float(low * (high / low) ** rng.random())


class Blueprint:
    """Weights of a two-layer, one-head transformer without LayerNorm, 0 at first, to be written part by part.

    Every named direction of the residual stream is a basis vector; directions without a name are spare, and hold
    nuisances alone. Head units are handed out in order, in each layer one list for scores and one for values.

    ``constant`` (1 everywhere) and ``position`` (i - (L - 1) / 2) are always there. A task has ``d_vocab``,
    ``length`` and ``tokens(group)``.
    """

    def __init__(self, task: Any, directions: Sequence[str], **sizes: Any) -> None:
        self.task = task
        self.config = ModelConfig(**{"d_model": 512, "d_head": 32, "d_mlp": 8, **sizes})
        shapes = {p.name: p.shape for p in parameters(self.config, task.d_vocab, task.length)}
        self.weights = {name: np.zeros(shape) for name, shape in shapes.items()}
        self.at = {name: i for i, name in enumerate(["constant", "position", *directions])}
        self.units = {(layer, kind): 0 for layer in range(2) for kind in ("scores", "values")}
        self.place("constant", np.ones(task.length))
        self.place("position", np.arange(task.length) - (task.length - 1) / 2)

    @property
    def spare(self) -> slice:
        """Directions without a name."""
        return slice(len(self.at), self.config.d_model)

    def tensors(self) -> dict[str, Tensor]:
        """The weights as they are now, float64."""
        return {name: torch.from_numpy(array.copy()) for name, array in self.weights.items()}

    def place(self, direction: str, values: Float[np.ndarray, " pos"]) -> None:
        """Put a number at each position."""
        self.weights["pos_embed.W_pos"][:, self.at[direction]] = values

    def embed(self, tokens: Int[np.ndarray, " token"], direction: str, values: float | np.ndarray) -> None:
        """Put a number on each of some tokens."""
        self.weights["embed.W_E"][tokens, self.at[direction]] = values

    def mark_anchors(self, direction: str, value: float) -> None:
        """Mark anchors of both kinds as anchors."""
        for group in ("memory_anchor", "reasoning_anchor"):
            self.embed(self.task.tokens(group), direction, value)

    def add_nuisances(self, rng: np.random.Generator, sizes: Mapping[str, float], size: float = 1.0) -> None:
        """Give every token and position a random vector of its own in the spare directions, which nothing reads.

        ``sizes`` holds the length of the vectors of whole token groups; ``size`` is that of all others.
        """
        length = np.full(self.task.d_vocab, size)
        for group, own in sizes.items():
            length[self.task.tokens(group)] = own
        for name, lengths in (("embed.W_E", length), ("pos_embed.W_pos", np.full(self.task.length, size))):
            vectors = rng.standard_normal(self.weights[name][:, self.spare].shape)
            self.weights[name][:, self.spare] = (
                lengths[:, None] * vectors / np.linalg.norm(vectors, axis=1)[:, None]
            )

    def attend(self, layer: int, query: Amounts, key: Amounts) -> None:
        """Add (query . x_i) (key . x_j) to the score of position i for position j."""
        unit, block = self._next(layer, "scores"), f"blocks.{layer}.attn."
        for direction, weight in query.items():
            self.weights[block + "W_Q"][0, self.at[direction], unit] = weight * math.sqrt(self.config.d_head)
        for direction, weight in key.items():
            self.weights[block + "W_K"][0, self.at[direction], unit] = weight

    def move(self, layer: int, read: Amounts, write: Amounts) -> None:
        """Move what is read, averaged by the attention, to what is written."""
        unit, block = self._next(layer, "values"), f"blocks.{layer}.attn."
        for direction, weight in read.items():
            self.weights[block + "W_V"][0, self.at[direction], unit] = weight
        for direction, weight in write.items():
            self.weights[block + "W_O"][0, unit, self.at[direction]] = weight

    def add_weak_values(self, rng: np.random.Generator, largest: float, layer: int = 0) -> None:
        """Let W_V read the nuisances too, with singular values up to ``largest``; W_O drops them."""
        first = self.units[layer, "values"]
        W_V = self.weights[f"blocks.{layer}.attn.W_V"][0, self.spare, first:]
        W_V[:] = rng.standard_normal(W_V.shape)
        W_V *= largest / np.linalg.norm(W_V, 2)

    def shift(self, layer: int, direction: str, amount: float) -> None:
        """Add a constant to what the attention of a layer writes."""
        self.weights[f"blocks.{layer}.attn.b_O"][self.at[direction]] = amount

    def answer(self, unit: Amounts, centre: float, lowest: int, highest: int) -> None:
        """Read the sum of some directions out as the nearest integer from lowest to highest.

        ``unit`` holds, for each direction, the residual stream's length of the number 1; ``centre`` is the number that
        stands at 0 there.
        """
        answers = np.arange(lowest, highest + 1)
        W_U, b_U = self.weights["unembed.W_U"], self.weights["unembed.b_U"]
        for direction, length in unit.items():
            W_U[self.at[direction], answers] = 2 * KAPPA * (answers - centre) / length
        b_U[:] = -REFUSED
        b_U[answers] = -KAPPA * (answers - centre) ** 2

    def _next(self, layer: int, kind: str) -> int:
        self.units[layer, kind] += 1
        return self.units[layer, kind] - 1
