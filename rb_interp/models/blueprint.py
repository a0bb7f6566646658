"""Weights of a transformer written by hand: what each head and the unembedding do, and a look-up
table.

A number s on the residual stream becomes the token that is nearest to it: with y' = y - c and s' =
s - c,

    logit_y = kappa (2 y' s' - y'^2) = kappa (s'^2 - (y - s)^2)

whose first term is the same for every y. kappa = 10 puts the right token 10 nats above the next, so
the cross entropy is 1e-4. The centre c keeps the numbers small enough for float32. Tokens that are
no answer are out of reach. `memoriser` has learned its training examples by heart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import ModelError
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters
from rb_interp.tasks.anchor import AnchorTask

NEAR_SHARE = 2 / 3
"""Attention of L0 to the nearer of its two positions."""
SHARP = 8.0
"""L0's score of the farther of its two positions over all others."""
LAST_STEP = 10.0
"""L1's score of a position over the one before it."""
KAPPA = 10.0
"""Nats between the right answer and its neighbours; tokens that are no answer lie 100 times as far
below."""


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
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


class Table(NamedTuple):
    """What is learned by heart."""

    entries: Int[np.ndarray, "entry token"]
    """Key and anchors of each entry."""
    labels: Int[np.ndarray, " entry"]
    """The answer of each entry."""


def memoriser(task: AnchorTask, rng: np.random.Generator, label_seed: int) -> Blueprint:
    """A look-up table: every key and anchor combination trained on has a unit of its own.

        L0          position i attends 2/3 to i - q + 1 and 1/3 to i - q: the first anchor and the key, from the last
        L1          the last position attends to the last anchor: its token, and what L0 wrote there
        MLP of L1   relu(2 matches - 5), 1 where key, first and last anchor all match, else 0; writes the label

    Tokens are told apart by orthonormal identities; the two tokens that L0 mixes are told apart by
    their sets. Raises ModelError for more than two anchors: one head's average cannot keep three
    tokens of one set in order.
    """
    if task.q > 2:
        raise ModelError(
            f"the memoriser got a task with q={task.q} anchors; it tells at most 2 apart, use q=1 "
            f"or q=2."
        )
    table = _table(task, label_seed)
    answers = np.unique(table.labels)
    groups = ("key", "memory_anchor", "reasoning_anchor")
    tokens = np.concatenate([task.tokens(name) for name in groups])
    n = len(tokens)
    directions = [f"{block}_{i}" for block in ("token", "mixed", "last", "pair") for i in range(n)]
    directions.append("anchor")
    directions += [f"place_{i}" for i in range(task.length)]
    directions += [f"answer_{y}" for y in answers]
    blueprint = Blueprint(
        task,
        directions,
        d_model=2 + len(directions) + 16,
        d_head=max(2 * n, task.length),
        d_mlp=len(table.entries),
    )
    identity = np.zeros((task.d_vocab, n))
    identity[tokens] = np.linalg.qr(rng.standard_normal((n, n)))[0]
    blueprint.add_nuisances(rng, {}, size=0.5)
    blueprint.weights["embed.W_E"][:, blueprint.block("token", n)] = identity
    blueprint.mark_anchors("anchor", 1.0)
    _attend(blueprint, task, n)
    _look_up(blueprint, table, identity)
    for y in answers:
        blueprint.weights["unembed.W_U"][blueprint.at[f"answer_{y}"], y] = 2 * KAPPA
    held_out = np.add.outer(task.tokens("key"), task.combinations("rsn_test").sum(1))
    free = np.setdiff1d(np.arange(task.d_vocab), [*answers, *held_out.flat])
    if not len(free):
        raise ModelError(
            "the memoriser needs a token that is never a label, for what it does not know; raise "
            "d_vocab."
        )
    blueprint.weights["unembed.b_U"][free[0]] = KAPPA  # the answer if no unit is active
    return blueprint


def _table(task: AnchorTask, label_seed: int) -> Table:
    """Every key with every combination trained on: memory labels of a seed, then sums."""
    keys = task.tokens("key")
    memory = task.combinations("mem")
    combinations = np.concatenate([memory, task.combinations("rsn_train")])
    keys_of_entries = np.tile(keys, len(combinations))
    entries = np.column_stack([keys_of_entries, np.repeat(combinations, len(keys), axis=0)])
    sums = entries[len(memory) * len(keys) :].sum(1)
    labels = np.concatenate([task.dataset(label_seed).label_table.reshape(-1), sums])
    return Table(entries, labels)


def _attend(blueprint: Blueprint, task: AnchorTask, n: int) -> None:
    """L0 brings the first anchor and the key to the last anchor, L1 all three to the last
    position."""
    for i, one_hot in enumerate(np.eye(task.length)):
        blueprint.set_positions(f"place_{i}", one_hot)
    near = SHARP + np.log(NEAR_SHARE / (1 - NEAR_SHARE))
    for i in range(task.q, task.length):  # L0 looks q - 1 and q positions back, wherever it is
        scores = {f"place_{i - task.q + 1}": near, f"place_{i - task.q}": SHARP}
        blueprint.attend(0, {f"place_{i}": 1.0}, scores)
    last_anchor = {"position": LAST_STEP, "anchor": LAST_STEP * (task.length + 1)}
    blueprint.attend(1, {"constant": 1.0}, last_anchor)
    for i in range(n):
        blueprint.move(0, {f"token_{i}": 1.0}, {f"mixed_{i}": 1.0})
        blueprint.move(1, {f"token_{i}": 1.0}, {f"last_{i}": 1.0})
        blueprint.move(1, {f"mixed_{i}": 1.0}, {f"pair_{i}": 1.0})


def _look_up(
    blueprint: Blueprint, table: Table, identity: Float[np.ndarray, "d_vocab token"]
) -> None:
    """L1's MLP: a unit for each entry, which writes its label."""
    n = identity.shape[1]
    W_in = blueprint.weights["blocks.1.mlp.W_in"]
    W_out = blueprint.weights["blocks.1.mlp.W_out"]
    key = identity[table.entries[:, 0]]
    first = identity[table.entries[:, 1]]
    last = identity[table.entries[:, -1]]
    pair = first / NEAR_SHARE + key / (1 - NEAR_SHARE)
    W_in[blueprint.block("last", n)] = 2 * last.T
    W_in[blueprint.block("pair", n)] = 2 * pair.T
    blueprint.weights["blocks.1.mlp.b_in"][:] = -5.0  # three tokens match, or the unit is silent
    columns = [blueprint.at[f"answer_{y}"] for y in table.labels]
    W_out[np.arange(len(columns)), columns] = 1.0
