"""Transformers written by hand, never trained, whose circuit is known: what a probe says of them
can be checked.

``Reference.description`` says what each one computes. *averager* is the circuit of paper 1, Fig. 6,
and *carrier* that of paper 2, Fig. 3. *condensed* is what a small initialisation gives early in
training.

A number s on the residual stream becomes the token that is nearest to it: with y' = y - c and s' =
s - c,

    logit_y = kappa (2 y' s' - y'^2) = kappa (s'^2 - (y - s)^2)

whose first term is the same for every y. kappa = 10 puts the right token 10 nats above the next, so
the cross entropy is 1e-4. The centre c keeps the numbers small enough for float32. Tokens that are
no answer are out of reach.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import ModelError, TaskError, nearest
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.models.schemes import parameters
from rb_interp.table_repr import TableRepr
from rb_interp.tasks.anchor import AnchorTask

__all__ = ["MECHANISMS", "REFERENCES", "Reference", "reference"]

KAPPA = 10.0
"""Nats between the right answer and its neighbours; tokens that are no answer lie 100 times as far
below."""
SECOND = (0.2, 0.5)
"""Singular values, from and to, of the second direction that L0's W_V reads; the first is 1."""
OUT = 4.0
"""Length of the number 1 where the unembedding reads it: large, so that nothing else weighs much
there."""
KEY_UNIT, ANCHOR_UNIT = 0.5, 2.0
"""Length of the number 1 on the line of keys in W_E, and on the carrier's line of anchors."""
STEP, CARRIER_STEP = 20.0, 15.0
"""Score of a position over the one before it, in the layer that looks for the key."""
PEAK = (11.0, 16.0)
"""L0's score of an anchor over other tokens in the peaked averager, from and to."""
PRESENCE, MEMORY, REASONING = (0.3, 0.6), (4.5, 9.0), (0.15, 0.4)
"""From and to: what marks an anchor, over the line's middle, and lengths of the anchors' nuisances
(_embed_anchors)."""
KEY_ONLY_PRESENCE = (3.5, 7.0)
"""What marks a token as an anchor in key_only's W_E, from and to."""
SHARED = (7.0, 14.0)
"""Lowest and highest length of the vector that all of condensed's embeddings share; each one's own
has length 1."""
SHARE, SHARP, LAST_STEP = 2 / 3, 8.0, 10.0
"""The memoriser: attention of L0 to the nearer of its two positions, score of the farther over all
others; in L1 the score of a position over the one before it."""

MECHANISMS: Mapping[str, str] = {
    "averages": "L0's attention is exactly 1/i",
    "one_value_direction": "one direction dominates L0's W_V: its singular value is 2 or more times the next",
    "values_along_reasoning": "that direction is the one along which reasoning anchors differ from other tokens",
    "values_along_memory": "that direction is the one along which memory anchors differ from other tokens",
    "fetches_key": "in L1 the last position looks at the key, on reasoning inputs",
    "fetches_key_memory": "in L1 the last position looks at the key, on memory inputs",
    "one_direction_passed_on": "one direction dominates L0's W_V W_O: its singular value is 3 or more times the next",
    "needs_reasoning_values": "right answers need directions of reasoning anchors in L0's W_V more than as many keys'",
    "key_from_its_position": "what the last position has of the key, L1's attention brings from the key's position",
    "anchors_by_L0_at_last": "what the last position has of the anchors, L0's attention brings there",
    "key_plus_sum": "at the last position, L1's attention writes the key alone and L0's the anchor sum alone",
}
"""What may be true of a reference, by construction; ``Reference.mechanisms`` holds the names of
what is."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Reference(TableRepr):
    """A transformer of two layers with one head each and no LayerNorm, written by hand for one
    anchor task.

    Attributes:
        circuit: the name that it should get by attention. cause: the name by cause.
        solves: the sets that it answers without an error: of ``mem``, ``rsn_train`` and
            ``rsn_test``.
        mechanisms: names of MECHANISMS, true by construction; every other one is false, but for
            ``unsettled``.
        unsettled: those that construction does not settle.
        label_seed: the seed of the data whose memory labels it knows, if it knows any.
        weights: float64, by TransformerLens name.
    """

    name: str
    circuit: str
    description: str
    solves: tuple[str, ...]
    mechanisms: frozenset[str]
    config: ModelConfig
    task: AnchorTask
    label_seed: int
    weights: Mapping[str, Tensor]
    cause: str = ""
    unsettled: tuple[str, ...] = ()

    @checked
    def model(self, dtype: torch.dtype = torch.float32) -> HookedModel:
        """The reference as an ordinary TransformerLens model, on CPU, in evaluation mode."""
        return lens_model(self.config, self.task.d_vocab, self.task.length, self.weights, dtype)


@checked
def reference(
    name: str, task: AnchorTask | None = None, seed: int = 0, label_seed: int | None = None
) -> Reference:
    """A hand-written transformer for an anchor task (the default one if none is given).

    ``seed`` draws what plays no part, such as the random vectors by which tokens differ.
    ``label_seed`` says whose memory labels the memoriser knows: those of
    ``task.dataset(label_seed)``; by default those of ``seed``.

    Raises ModelError for an unknown name or a task that this reference cannot do, TaskError where
    labels of the reasoning half lie outside the vocabulary.

    >>> found = reference("averager")
    >>> found.circuit, found.solves, "averages" in found.mechanisms
    ('average-then-key', ('rsn_train', 'rsn_test'), True)
    """
    if name not in REFERENCES:
        raise ModelError(f"there is no reference model '{name}'; {nearest(name, REFERENCES)}")
    task = AnchorTask() if task is None else task
    anchors = max(task.reasoning_anchors[1], task.memory_anchors[1])
    highest = task.keys[1] + task.q * anchors
    if highest >= task.d_vocab:
        raise TaskError(
            f"reference models add keys and anchors, here up to {highest}, outside "
            f"d_vocab={task.d_vocab}; "
            f"raise d_vocab above {highest}."
        )
    label_seed = seed if label_seed is None else label_seed
    build, stream, circuit, cause, solves, mechanisms, description = _REFERENCES[name]
    rng = np.random.default_rng([seed, stream])
    blueprint = _memoriser(task, rng, label_seed) if name == "memoriser" else build(task, rng)
    weights = {key: torch.from_numpy(array) for key, array in blueprint.weights.items()}
    facts = (
        circuit,
        description,
        solves,
        frozenset(mechanisms),
        blueprint.config,
        task,
        label_seed,
        weights,
        cause,
    )
    return Reference(
        name, *facts, ("needs_reasoning_values",) if name in ("key_only", "anchors_only") else ()
    )


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
        self.place("constant", np.ones(task.length))
        self.place("position", np.arange(task.length) - (task.length - 1) / 2)

    def place(self, direction: str, values: Float[np.ndarray, " pos"]) -> None:
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
        for group, own in sizes.items():
            length[self.task.tokens(group)] = own
        for name, lengths in (
            ("embed.W_E", length),
            ("pos_embed.W_pos", np.full(self.task.length, size)),
        ):
            vectors = rng.standard_normal(self.weights[name][:, self.spare].shape)
            scaled = lengths[:, None] * vectors / np.linalg.norm(vectors, axis=1)[:, None]
            self.weights[name][:, self.spare] = scaled

    def attend(self, layer: int, query: Mapping[str, float], key: Mapping[str, float]) -> None:
        """Add (query . x_i) (key . x_j) to the score of position i for position j."""
        unit, block = self._next(layer, "scores"), f"blocks.{layer}.attn."
        for direction, weight in query.items():
            self.weights[block + "W_Q"][0, self.at[direction], unit] = weight * math.sqrt(
                self.config.d_head
            )
        for direction, weight in key.items():
            self.weights[block + "W_K"][0, self.at[direction], unit] = weight

    def move(self, layer: int, read: Mapping[str, float], write: Mapping[str, float]) -> None:
        """Move what is read, averaged by the attention, to what is written."""
        unit, block = self._next(layer, "values"), f"blocks.{layer}.attn."
        for direction, weight in read.items():
            self.weights[block + "W_V"][0, self.at[direction], unit] = weight
        for direction, weight in write.items():
            self.weights[block + "W_O"][0, unit, self.at[direction]] = weight

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
        W_U, b_U = self.weights["unembed.W_U"], self.weights["unembed.b_U"]
        for direction, length in unit.items():
            W_U[self.at[direction], answers] = 2 * KAPPA * (answers - centre) / length
        b_U[:] = -100 * KAPPA
        b_U[answers] = -KAPPA * (answers - centre) ** 2

    def _next(self, layer: int, kind: str) -> int:
        self.units[layer, kind] += 1
        return self.units[layer, kind] - 1


def _embed_anchors(blueprint: Blueprint, rng: np.random.Generator) -> tuple[float, float]:
    """The reasoning anchors' number line, what marks all anchors, nuisances; returns the line's
    middle and the mark."""
    # The middle lies far from 0, where other tokens are. Memory anchors have long nuisances: a
    # small cosine with it.
    task = blueprint.task
    anchors = task.tokens("reasoning_anchor")
    others = len(task.tokens("key")) + len(task.tokens("memory_anchor"))
    share = len(anchors) / (len(anchors) + others)
    middle = 3.0 * float(anchors[-1] - anchors[0]) + 1
    presence = drawn(rng, *PRESENCE) * middle
    blueprint.embed(anchors, "number", anchors - anchors.mean() + middle)
    blueprint.mark_anchors("presence", presence)
    own = {"memory_anchor": drawn(rng, *MEMORY) * share * middle}
    own["reasoning_anchor"] = drawn(rng, *REASONING) * (1 - share) * middle
    blueprint.add_nuisances(rng, own)
    return middle, presence


def _embed_keys(blueprint: Blueprint) -> None:
    keys = blueprint.task.tokens("key")
    blueprint.embed(keys, "key", KEY_UNIT * (keys - keys.mean()))


def _fetch_key(blueprint: Blueprint) -> None:
    # A single anchor among L tokens makes ``seen`` 1, which outweighs being later by the whole
    # sequence.
    blueprint.attend(
        1, {"constant": 1.0}, {"position": STEP, "seen": -STEP * (blueprint.task.length + 1)}
    )
    blueprint.move(1, {"key": 1.0}, {"out": OUT / KEY_UNIT})


def _answer_sums(blueprint: Blueprint) -> None:
    task = blueprint.task
    keys, anchors = task.tokens("key"), task.tokens("reasoning_anchor")
    low, high = keys[0] + task.q * anchors[0], keys[-1] + task.q * anchors[-1]
    blueprint.answer({"out": OUT}, keys.mean() + task.q * anchors.mean(), int(low), int(high))


def _key_plus_sum(task: AnchorTask, rng: np.random.Generator, peaked: bool) -> Blueprint:
    blueprint = Blueprint(task, ["number", "presence", "seen", "key", "out"])
    middle, presence = _embed_anchors(blueprint, rng)
    second = drawn(rng, *SECOND)
    _embed_keys(blueprint)
    if peaked:
        blueprint.attend(0, {"constant": 1.0}, {"presence": drawn(rng, *PEAK) / presence})
    averaged = task.q if peaked else task.length
    blueprint.move(0, {"number": 1.0}, {"out": averaged * OUT})
    blueprint.move(0, {"presence": second}, {"seen": task.length / (second * presence)})
    blueprint.weights["blocks.0.attn.b_O"][blueprint.at["out"]] = -task.q * middle * OUT
    blueprint.add_weak_values(rng, second / 2)
    _fetch_key(blueprint)
    _answer_sums(blueprint)
    return blueprint


def _carrier(task: AnchorTask, rng: np.random.Generator) -> Blueprint:
    blueprint = Blueprint(task, ["number", "anchor", "key", "carried", "out"])
    anchors = task.tokens("reasoning_anchor")
    _embed_keys(blueprint)
    blueprint.embed(anchors, "number", ANCHOR_UNIT * (anchors - anchors.mean()))
    blueprint.mark_anchors("anchor", 2.0)
    blueprint.add_nuisances(rng, {})
    blueprint.attend(
        0, {"constant": 1.0}, {"position": CARRIER_STEP, "anchor": -CARRIER_STEP * (task.q + 1) / 2}
    )
    blueprint.move(0, {"key": 1.0}, {"carried": 1.0})
    blueprint.add_weak_values(rng, drawn(rng, *SECOND))
    blueprint.attend(1, {"constant": 1.0}, {"anchor": CARRIER_STEP / 2})
    blueprint.move(1, {"number": task.q / ANCHOR_UNIT, "carried": 1 / KEY_UNIT}, {"out": OUT})
    _answer_sums(blueprint)
    return blueprint


def _key_only(task: AnchorTask, rng: np.random.Generator) -> Blueprint:
    blueprint = Blueprint(task, ["presence", "seen", "key", "out"])
    sums = Counter(task.combinations("rsn_train").sum(1).tolist())
    common = min(sums, key=lambda total: (-sums[total], total), default=0)
    _embed_keys(blueprint)
    presence = drawn(rng, *KEY_ONLY_PRESENCE)
    blueprint.mark_anchors("presence", presence)
    blueprint.add_nuisances(rng, {})
    blueprint.move(0, {"presence": 1.0}, {"seen": task.length / presence})
    blueprint.add_weak_values(rng, drawn(rng, *SECOND))
    _fetch_key(blueprint)
    low, high = task.keys
    blueprint.answer({"out": OUT}, (low + high) / 2 + common, low + common, high + common)
    return blueprint


def _anchors_only(task: AnchorTask, rng: np.random.Generator) -> Blueprint:
    blueprint = Blueprint(task, ["number", "out"])
    anchors = np.concatenate([task.tokens("memory_anchor"), task.tokens("reasoning_anchor")])
    low, high, key = int(anchors.min()), int(anchors.max()), sum(task.keys) // 2
    # All anchors lie between once and twice their range, so that all point along the line.
    middle = 1.5 * (high - low) + 1
    blueprint.embed(anchors, "number", anchors - (low + high) / 2 + middle)
    blueprint.add_nuisances(rng, {})
    blueprint.move(0, {"number": 1.0}, {"out": task.length * OUT})
    blueprint.weights["blocks.0.attn.b_O"][blueprint.at["out"]] = -task.q * middle * OUT
    blueprint.add_weak_values(rng, drawn(rng, *SECOND))
    blueprint.answer(
        {"out": OUT}, key + task.q * (low + high) / 2, key + task.q * low, key + task.q * high
    )
    return blueprint


def _condensed(task: AnchorTask, rng: np.random.Generator) -> Blueprint:
    blueprint = Blueprint(task, ["shared", "out"])
    answer = sum(task.keys) // 2 + task.q * (sum(task.reasoning_anchors) // 2)
    shared = drawn(rng, *SHARED)
    blueprint.embed(np.arange(task.d_vocab), "shared", shared)
    blueprint.add_nuisances(rng, {})
    blueprint.move(0, {"shared": 1.0}, {"out": 1.0})
    blueprint.add_weak_values(rng, drawn(rng, *SECOND))
    blueprint.weights["unembed.W_U"][blueprint.at["out"], answer] = KAPPA / shared
    return blueprint


def _memoriser(task: AnchorTask, rng: np.random.Generator, label_seed: int) -> Blueprint:
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
    keys, memory = task.tokens("key"), task.combinations("mem")
    combinations = np.concatenate([memory, task.combinations("rsn_train")])
    entries = np.column_stack(
        [np.tile(keys, len(combinations)), np.repeat(combinations, len(keys), axis=0)]
    )
    sums = entries[len(memory) * len(keys) :].sum(1)
    labels = np.concatenate([task.dataset(label_seed).label_table.reshape(-1), sums])
    tokens = np.concatenate(
        [task.tokens(name) for name in ("key", "memory_anchor", "reasoning_anchor")]
    )
    n, answers = len(tokens), np.unique(labels)
    named = [f"{block}_{i}" for block in ("token", "mixed", "last", "pair") for i in range(n)]
    named += [
        "anchor",
        *(f"place_{i}" for i in range(task.length)),
        *(f"answer_{y}" for y in answers),
    ]
    sizes = {
        "d_model": 2 + len(named) + 16,
        "d_head": max(2 * n, task.length),
        "d_mlp": len(entries),
    }
    blueprint = Blueprint(task, named, **sizes)
    identity = np.zeros((task.d_vocab, n))
    identity[tokens] = np.linalg.qr(rng.standard_normal((n, n)))[0]
    blueprint.add_nuisances(rng, {}, size=0.5)
    blueprint.weights["embed.W_E"][:, _block(blueprint, "token", n)] = identity
    blueprint.mark_anchors("anchor", 1.0)
    for i, one_hot in enumerate(np.eye(task.length)):
        blueprint.place(f"place_{i}", one_hot)
    for i in range(task.q, task.length):  # L0 looks q - 1 and q positions back, wherever it is
        near = SHARP + np.log(SHARE / (1 - SHARE))
        blueprint.attend(
            0, {f"place_{i}": 1.0}, {f"place_{i - task.q + 1}": near, f"place_{i - task.q}": SHARP}
        )
    last_anchor = {"position": LAST_STEP, "anchor": LAST_STEP * (task.length + 1)}
    blueprint.attend(1, {"constant": 1.0}, last_anchor)
    for i in range(n):
        blueprint.move(0, {f"token_{i}": 1.0}, {f"mixed_{i}": 1.0})
        blueprint.move(1, {f"token_{i}": 1.0}, {f"last_{i}": 1.0})
        blueprint.move(1, {f"mixed_{i}": 1.0}, {f"pair_{i}": 1.0})
    W_in, W_out = blueprint.weights["blocks.1.mlp.W_in"], blueprint.weights["blocks.1.mlp.W_out"]
    key, first, last = entries[:, 0], entries[:, 1], entries[:, -1]
    W_in[_block(blueprint, "last", n)] = 2 * identity[last].T
    W_in[_block(blueprint, "pair", n)] = (
        2 * (identity[first] / SHARE + identity[key] / (1 - SHARE)).T
    )
    blueprint.weights["blocks.1.mlp.b_in"][:] = -5.0  # three tokens match, or the unit is silent
    W_out[np.arange(len(entries)), [blueprint.at[f"answer_{y}"] for y in labels]] = 1.0
    for y in answers:
        blueprint.weights["unembed.W_U"][blueprint.at[f"answer_{y}"], y] = 2 * KAPPA
    held_out = np.add.outer(keys, task.combinations("rsn_test").sum(1))
    free = np.setdiff1d(np.arange(task.d_vocab), [*answers, *held_out.flat])
    if not len(free):
        raise ModelError(
            "the memoriser needs a token that is never a label, for what it does not know; raise "
            "d_vocab."
        )
    blueprint.weights["unembed.b_U"][free[0]] = KAPPA  # where no unit spoke
    return blueprint


def _block(blueprint: Blueprint, name: str, size: int) -> slice:
    first = blueprint.at[f"{name}_0"]
    return slice(first, first + size)


_SUMS = ("rsn_train", "rsn_test")
_AVERAGER = (
    *(
        "one_value_direction",
        "values_along_reasoning",
        "fetches_key",
        "fetches_key_memory",
        "key_plus_sum",
    ),
    *(
        "one_direction_passed_on",
        "needs_reasoning_values",
        "key_from_its_position",
        "anchors_by_L0_at_last",
    ),
)
_ALONG_BOTH = ("values_along_reasoning", "values_along_memory")
_DOMINATES = ("averages", "one_value_direction", "one_direction_passed_on")

# name -> what writes it, the stream of a seed that draws what plays no part, and facts of Reference
_REFERENCES: dict[
    str, tuple[Callable[..., Blueprint], int, str, str, tuple[str, ...], tuple[str, ...], str]
] = {
    "averager": (
        partial(_key_plus_sum, peaked=False),
        60,
        "average-then-key",
        "average-then-key",
        _SUMS,
        ("averages", *_AVERAGER),
        "L0 attends uniformly and averages the number line of the reasoning anchors, times L. L1 "
        "looks at the latest "
        "position that has seen no anchor, the key, and writes its number. Memory anchors count as "
        "0.",
    ),
    "peaked_averager": (
        partial(_key_plus_sum, peaked=True),
        60,
        "mixed",
        "average-then-key",
        _SUMS,
        _AVERAGER,
        "As the averager, but L0 attends to anchors alone, in equal shares, as soon as there is "
        "one.",
    ),
    "carrier": (
        _carrier,
        63,
        "key-to-anchors",
        "key-to-anchors",
        _SUMS,
        _DOMINATES[1:],
        "In L0 every position attends to the latest key-set token at or before it; for anchors "
        "that is the key, and "
        "its number is written beside theirs. In L1 the last position averages the anchors: q "
        "numbers and the carried.",
    ),
    "memoriser": (
        _memoriser,
        65,
        "mixed",
        "gather-at-last-anchor",
        ("mem", "rsn_train"),
        ("needs_reasoning_values",),
        "A look-up table. L0 copies the identities of first anchor and key onto the last anchor, "
        "by position alone; L1 "
        "fetches them; one unit of its MLP for each key and combination trained on writes the "
        "label.",
    ),
    "key_only": (
        _key_only,
        61,
        "none",
        "none",
        (),
        (*_DOMINATES, *_ALONG_BOTH, "fetches_key", "fetches_key_memory", "key_from_its_position"),
        "As the averager, but L0 averages how many anchors there are: the answer is the key plus "
        "the commonest sum.",
    ),
    "anchors_only": (
        _anchors_only,
        62,
        "none",
        "none",
        (),
        (*_DOMINATES, *_ALONG_BOTH, "anchors_by_L0_at_last"),
        "L0 averages one number line of all anchors, L1 writes nothing: the answer is the anchors' "
        "sum plus one key.",
    ),
    "condensed": (
        _condensed,
        64,
        "none",
        "none",
        (),
        _DOMINATES,
        "All embeddings share one large direction and differ by small random parts. The answer is "
        "always the same.",
    ),
}

REFERENCES = tuple(_REFERENCES)
"""Names of the references: three that solve the rule, one that solves the table, three that solve
nothing."""
