"""Weights of a transformer written by hand, part by part: what each head and the unembedding do.

A number s on the residual stream becomes the token that is nearest to it: with y' = y - c and s' =
s - c,

    logit_y = kappa (2 y' s' - y'^2) = kappa (s'^2 - (y - s)^2)

whose first term is the same for every y. kappa = 10 puts the right token 10 nats above the next, so
the cross entropy is 1e-4. The centre c keeps the numbers small enough for float32. Tokens that are
no answer are out of reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters

KAPPA = 10.0
"""Nats between the right answer and its neighbours; tokens that are no answer lie 100 times as far
below."""


def drawn(rng: np.random.Generator, low: float, high: float) -> float:
    """One of the sizes that play no part in what a reference is, log-uniform between two bounds."""
    return float(low * (high / low) ** rng.random())


class Blueprint:
    """Weights of a two-layer, one-head transformer without LayerNorm, 0 at first, to be written
    part by part.

    Every named direction of the residual stream is a basis vector; directions without a name are
    spare, and hold nuisances alone. ``constant`` (1 everywhere) and ``position`` (i - (L - 1) / 2)
    are always there. Head units are handed out in order, in each layer one list for scores and one
    for values.
    """

    def __init__(self, task: Any, directions: Sequence[str], **sizes: Any) -> None:
        self.task = task
        self.config = ModelConfig(**{"d_model": 512, "d_head": 32, "d_mlp": 8, **sizes})
        shapes = {p.name: p.shape for p in parameters(self.config, task.d_vocab, task.length)}
        self.weights = {name: np.zeros(shape) for name, shape in shapes.items()}
        self.at = {name: i for i, name in enumerate(["constant", "position", *directions])}
        self.spare = slice(len(self.at), self.config.d_model)
        self.units = {(layer, kind): 0 for layer in range(2) for kind in ("scores", "values")}
        self.set_positions("constant", np.ones(task.length))
        self.set_positions("position", np.arange(task.length) - (task.length - 1) / 2)

    def set_positions(self, direction: str, values: Float[np.ndarray, " pos"]) -> None:
        """Put a number at each position."""
        self.weights["pos_embed.W_pos"][:, self.at[direction]] = values

    def embed(
        self, tokens: Int[np.ndarray, " token"], direction: str, values: float | np.ndarray
    ) -> None:
        """Put a number on each of some tokens."""
        self.weights["embed.W_E"][tokens, self.at[direction]] = values

    def mark_anchors(self, direction: str, value: float) -> None:
        """Mark anchors of both kinds as anchors."""
        for group in ("memory_anchor", "reasoning_anchor"):
            self.embed(self.task.tokens(group), direction, value)

    def add_nuisances(
        self, rng: np.random.Generator, sizes: Mapping[str, float], size: float = 1.0
    ) -> None:
        """Give every token and position a random vector of its own in the spare directions, which
        nothing reads.

        ``sizes`` holds the length of the vectors of whole token groups; ``size`` is that of all
        others.
        """
        length = np.full(self.task.d_vocab, size)
        for group, group_size in sizes.items():
            length[self.task.tokens(group)] = group_size
        lengths = {"embed.W_E": length, "pos_embed.W_pos": np.full(self.task.length, size)}
        for name, norms in lengths.items():
            spare = self.weights[name][:, self.spare]
            vectors = rng.standard_normal(spare.shape)
            spare[:] = norms[:, None] * vectors / np.linalg.norm(vectors, axis=1)[:, None]

    def attend(self, layer: int, query: Mapping[str, float], key: Mapping[str, float]) -> None:
        """Add (query . x_i) (key . x_j) to the score of position i for position j."""
        unit = self._next(layer, "scores")
        W_Q = self.weights[f"blocks.{layer}.attn.W_Q"]
        W_K = self.weights[f"blocks.{layer}.attn.W_K"]
        scale = math.sqrt(self.config.d_head)
        for direction, weight in query.items():
            W_Q[0, self.at[direction], unit] = weight * scale
        for direction, weight in key.items():
            W_K[0, self.at[direction], unit] = weight

    def move(self, layer: int, read: Mapping[str, float], write: Mapping[str, float]) -> None:
        """Move what is read, averaged by the attention, to what is written."""
        unit = self._next(layer, "values")
        W_V = self.weights[f"blocks.{layer}.attn.W_V"]
        W_O = self.weights[f"blocks.{layer}.attn.W_O"]
        for direction, weight in read.items():
            W_V[0, self.at[direction], unit] = weight
        for direction, weight in write.items():
            W_O[0, unit, self.at[direction]] = weight

    def add_weak_values(self, rng: np.random.Generator, largest: float) -> None:
        """Let L0's W_V read the nuisances too, with singular values up to ``largest``; W_O drops
        them."""
        W_V = self.weights["blocks.0.attn.W_V"][0, self.spare, self.units[0, "values"] :]
        W_V[:] = rng.standard_normal(W_V.shape)
        W_V *= largest / np.linalg.norm(W_V, 2)

    def answer(self, unit: Mapping[str, float], centre: float, lowest: int, highest: int) -> None:
        """Read the sum of some directions out as the nearest integer from lowest to highest.

        ``unit`` holds, for each direction, the residual stream's length of the number 1; ``centre``
        is the number that stands at 0 there.
        """
        answers = np.arange(lowest, highest + 1)
        W_U = self.weights["unembed.W_U"]
        b_U = self.weights["unembed.b_U"]
        for direction, length in unit.items():
            W_U[self.at[direction], answers] = 2 * KAPPA * (answers - centre) / length
        b_U[:] = -100 * KAPPA
        b_U[answers] = -KAPPA * (answers - centre) ** 2

    def block(self, name: str, size: int) -> slice:
        """Where ``size`` directions stand that are named ``<name>_0`` and so on."""
        first = self.at[f"{name}_0"]
        return slice(first, first + size)

    def _next(self, layer: int, kind: str) -> int:
        self.units[layer, kind] += 1
        return self.units[layer, kind] - 1
