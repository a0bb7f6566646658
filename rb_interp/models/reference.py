"""Transformers written by hand, never trained, whose circuit is known: what a probe says of them
can be checked.

``Reference.description`` says what each one computes. *averager* is the circuit of paper 1, Fig. 6,
and *carrier* that of paper 2, Fig. 3. *condensed* is what a small initialisation gives early in
training.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import ModelError, TaskError, nearest
from rb_interp.models.blueprint import KAPPA, Blueprint, log_uniform, memoriser
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.table_repr import TableRepr
from rb_interp.tasks.anchor import AnchorTask

__all__ = ["MECHANISMS", "REFERENCES", "Reference", "reference"]

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
    """

    name: str
    """Of REFERENCES."""
    circuit: str
    """The name that it should get by attention."""
    description: str
    """What it computes."""
    solves: tuple[str, ...]
    """The sets that it answers without an error: of ``mem``, ``rsn_train`` and ``rsn_test``."""
    mechanisms: frozenset[str]
    """Names of MECHANISMS, true by construction; every other one is false, but for
    ``unsettled``."""
    config: ModelConfig
    """Its sizes."""
    task: AnchorTask
    """The task that it does."""
    label_seed: int
    """The seed of the data whose memory labels it knows, if it knows any."""
    weights: Mapping[str, Tensor]
    """In float64, by TransformerLens name."""
    cause: str = ""
    """The name that it should get by cause."""
    unsettled: tuple[str, ...] = ()
    """Mechanisms that construction does not settle."""

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

    >>> averager = reference("averager")
    >>> averager.circuit, averager.solves, "averages" in averager.mechanisms
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
            f"d_vocab={task.d_vocab}; raise d_vocab above {highest}."
        )
    label_seed = seed if label_seed is None else label_seed
    design = _DESIGNS[name]
    rng = np.random.default_rng([seed, design.stream])
    if name == "memoriser":
        blueprint = memoriser(task, rng, label_seed)
    else:
        blueprint = design.write(task, rng)
    return Reference(
        name,
        design.circuit,
        design.description,
        design.solves,
        frozenset(design.mechanisms),
        blueprint.config,
        task,
        label_seed,
        {key: torch.from_numpy(array) for key, array in blueprint.weights.items()},
        design.cause,
        design.unsettled,
    )


def _embed_anchors(blueprint: Blueprint, rng: np.random.Generator) -> tuple[float, float]:
    """The reasoning anchors' number line, what marks all anchors, nuisances; returns the line's
    middle and the mark."""
    # The middle lies far from 0, where other tokens are. Memory anchors have long nuisances: a
    # small cosine with it.
    task = blueprint.task
    anchors = task.tokens("reasoning_anchor")
    n_others = len(task.tokens("key")) + len(task.tokens("memory_anchor"))
    share = len(anchors) / (len(anchors) + n_others)
    middle = 3.0 * float(anchors[-1] - anchors[0]) + 1
    presence = log_uniform(rng, *PRESENCE) * middle
    blueprint.embed(anchors, "number", anchors - anchors.mean() + middle)
    blueprint.mark_anchors("presence", presence)
    sizes = {"memory_anchor": log_uniform(rng, *MEMORY) * share * middle}
    sizes["reasoning_anchor"] = log_uniform(rng, *REASONING) * (1 - share) * middle
    blueprint.add_nuisances(rng, sizes)
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
    second = log_uniform(rng, *SECOND)
    _embed_keys(blueprint)
    if peaked:
        blueprint.attend(0, {"constant": 1.0}, {"presence": log_uniform(rng, *PEAK) / presence})
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
    blueprint.add_weak_values(rng, log_uniform(rng, *SECOND))
    blueprint.attend(1, {"constant": 1.0}, {"anchor": CARRIER_STEP / 2})
    blueprint.move(1, {"number": task.q / ANCHOR_UNIT, "carried": 1 / KEY_UNIT}, {"out": OUT})
    _answer_sums(blueprint)
    return blueprint


def _key_only(task: AnchorTask, rng: np.random.Generator) -> Blueprint:
    blueprint = Blueprint(task, ["presence", "seen", "key", "out"])
    sums = Counter(task.combinations("rsn_train").sum(1).tolist())
    common = min(sums, key=lambda total: (-sums[total], total), default=0)
    _embed_keys(blueprint)
    presence = log_uniform(rng, *KEY_ONLY_PRESENCE)
    blueprint.mark_anchors("presence", presence)
    blueprint.add_nuisances(rng, {})
    blueprint.move(0, {"presence": 1.0}, {"seen": task.length / presence})
    blueprint.add_weak_values(rng, log_uniform(rng, *SECOND))
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
    blueprint.add_weak_values(rng, log_uniform(rng, *SECOND))
    blueprint.answer(
        {"out": OUT}, key + task.q * (low + high) / 2, key + task.q * low, key + task.q * high
    )
    return blueprint


def _condensed(task: AnchorTask, rng: np.random.Generator) -> Blueprint:
    blueprint = Blueprint(task, ["shared", "out"])
    answer = sum(task.keys) // 2 + task.q * (sum(task.reasoning_anchors) // 2)
    shared = log_uniform(rng, *SHARED)
    blueprint.embed(np.arange(task.d_vocab), "shared", shared)
    blueprint.add_nuisances(rng, {})
    blueprint.move(0, {"shared": 1.0}, {"out": 1.0})
    blueprint.add_weak_values(rng, log_uniform(rng, *SECOND))
    blueprint.weights["unembed.W_U"][blueprint.at["out"], answer] = KAPPA / shared
    return blueprint


@dataclass(frozen=True)
class Design:
    """How a reference is written, and facts of `Reference`."""

    write: Callable[..., Blueprint]
    """Writes the weights, from the task and a random generator."""
    stream: int
    """The stream of a seed that draws what plays no part."""
    mechanisms: tuple[str, ...]
    description: str
    circuit: str = "none"
    cause: str = "none"
    solves: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()


_SUMS = ("rsn_train", "rsn_test")
_AVERAGER = (
    "one_value_direction",
    "values_along_reasoning",
    "fetches_key",
    "fetches_key_memory",
    "key_plus_sum",
    "one_direction_passed_on",
    "needs_reasoning_values",
    "key_from_its_position",
    "anchors_by_L0_at_last",
)
_ALONG_BOTH = ("values_along_reasoning", "values_along_memory")
_DOMINATES = ("averages", "one_value_direction", "one_direction_passed_on")
_FETCHES = ("fetches_key", "fetches_key_memory", "key_from_its_position")

_DESIGNS = {
    "averager": Design(
        partial(_key_plus_sum, peaked=False),
        stream=60,
        circuit="average-then-key",
        cause="average-then-key",
        solves=_SUMS,
        mechanisms=("averages", *_AVERAGER),
        description="L0 attends uniformly and averages the number line of the reasoning anchors, "
        "times L. L1 looks at the latest position that has seen no anchor, the key, and writes its "
        "number. Memory anchors count as 0.",
    ),
    "peaked_averager": Design(
        partial(_key_plus_sum, peaked=True),
        stream=60,
        circuit="mixed",
        cause="average-then-key",
        solves=_SUMS,
        mechanisms=_AVERAGER,
        description="As the averager, but L0 attends to anchors alone, in equal shares, as soon as "
        "there is one.",
    ),
    "carrier": Design(
        _carrier,
        stream=63,
        circuit="key-to-anchors",
        cause="key-to-anchors",
        solves=_SUMS,
        mechanisms=_DOMINATES[1:],
        description="In L0 every position attends to the latest key-set token at or before it; for "
        "anchors that is the key, and its number is written beside theirs. In L1 the last position "
        "averages the anchors: q numbers and the carried.",
    ),
    "memoriser": Design(
        memoriser,
        stream=65,
        circuit="mixed",
        cause="gather-at-last-anchor",
        solves=("mem", "rsn_train"),
        mechanisms=("needs_reasoning_values",),
        description="A look-up table. L0 copies the identities of first anchor and key onto the "
        "last anchor, by position alone; L1 fetches them; one unit of its MLP for each key and "
        "combination trained on writes the label.",
    ),
    "key_only": Design(
        _key_only,
        stream=61,
        mechanisms=(*_DOMINATES, *_ALONG_BOTH, *_FETCHES),
        description="As the averager, but L0 averages how many anchors there are: the answer is "
        "the key plus the commonest sum.",
        unsettled=("needs_reasoning_values",),
    ),
    "anchors_only": Design(
        _anchors_only,
        stream=62,
        mechanisms=(*_DOMINATES, *_ALONG_BOTH, "anchors_by_L0_at_last"),
        description="L0 averages one number line of all anchors, L1 writes nothing: the answer is "
        "the anchors' sum plus one key.",
        unsettled=("needs_reasoning_values",),
    ),
    "condensed": Design(
        _condensed,
        stream=64,
        mechanisms=_DOMINATES,
        description="All embeddings share one large direction and differ by small random parts. "
        "The answer is always the same.",
    ),
}

REFERENCES = tuple(_DESIGNS)
"""Names of the references: three that solve the rule, one that solves the table, three that solve
nothing."""
