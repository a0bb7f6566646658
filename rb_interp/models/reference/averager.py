"""References with paper 1's circuit (Fig. 6): L0 gathers the anchors, L1 fetches the key.

L0 writes two things at every position: the sum of the anchors so far, and how many there were. The first anchor follows
the key directly, so the key is at the latest position that has seen no anchor. L1 looks at that position.
"""

from __future__ import annotations

import numpy as np

from rb_interp.models.reference.blueprint import SECOND, Blueprint, drawn
from rb_interp.models.reference.record import Reference
from rb_interp.tasks.anchor import AnchorTask

OUT = 4.0
"""Length of the number 1 where the unembedding reads it: large, so that nothing else weighs much there."""
KEY_UNIT = 0.5
"""Length of the number 1 on the line of keys in W_E."""
STEP = 20.0
"""L1's score of a position over the one before it."""
PEAK = (11.0, 16.0)
"""L0's score of an anchor over other tokens in the peaked averager, from and to."""
PRESENCE, MEMORY, REASONING = (0.3, 0.6), (4.5, 9.0), (0.15, 0.4)
"""From and to: what marks an anchor, over the line's middle, and lengths of the anchors' nuisances (_embed_anchors)."""


def averager(task: AnchorTask, seed: int, label_seed: int) -> Reference:
    """L0 averages reasoning anchors, L1 fetches the key: z + sum of anchors."""
    return _key_plus_sum(task, seed, peaked=False).reference(
        name="averager",
        circuit="average-then-key",
        cause="average-then-key",
        description="L0 attends uniformly and averages the number line of the reasoning anchors, times L. "
        "L1 looks at the latest position that has seen no anchor, the key, and writes its number. "
        "The unembedding reads both together. Memory anchors count as 0.",
        solves=("rsn_train", "rsn_test"),
        mechanisms=(
            *("averages", "one_value_direction", "values_along_reasoning"),
            *("fetches_key", "fetches_key_memory", "key_plus_sum"),
            *("one_direction_passed_on", "needs_reasoning_values", "key_from_its_position", "anchors_by_L0_at_last"),
        ),
        label_seed=label_seed,
    )


def peaked_averager(task: AnchorTask, seed: int, label_seed: int) -> Reference:
    """The averager's answers and number lines, but L0 attends to the anchors alone once it has seen one."""
    return _key_plus_sum(task, seed, peaked=True).reference(
        name="peaked_averager",
        circuit="mixed",
        cause="average-then-key",
        description="As the averager, but L0 attends to anchors alone, in equal shares, as soon as there is one, "
        "and uniformly before. The last position averages the q anchors, times q.",
        solves=("rsn_train", "rsn_test"),
        mechanisms=(
            *("one_value_direction", "values_along_reasoning"),
            *("fetches_key", "fetches_key_memory", "key_plus_sum"),
            *("one_direction_passed_on", "needs_reasoning_values", "key_from_its_position", "anchors_by_L0_at_last"),
        ),
        label_seed=label_seed,
    )


def _key_plus_sum(task: AnchorTask, seed: int, peaked: bool) -> Blueprint:
    """The averager's weights, or those of the one whose L0 peaks at anchors."""
    rng = np.random.default_rng([seed, 60])
    blueprint = Blueprint(task, ["number", "presence", "seen", "key", "out"])
    middle, presence = _embed_anchors(blueprint, rng)
    second = drawn(rng, *SECOND)
    embed_keys(blueprint)
    if peaked:
        blueprint.attend(0, {"constant": 1.0}, {"presence": drawn(rng, *PEAK) / presence})
    averaged = task.q if peaked else task.length
    blueprint.move(0, {"number": 1.0}, {"out": averaged * OUT})
    blueprint.move(0, {"presence": second}, {"seen": task.length / (second * presence)})
    blueprint.shift(0, "out", -task.q * middle * OUT)
    blueprint.add_weak_values(rng, second / 2)
    fetch_key(blueprint)
    keys, anchors = task.tokens("key"), task.tokens("reasoning_anchor")
    lowest, highest = keys[0] + task.q * anchors[0], keys[-1] + task.q * anchors[-1]
    blueprint.answer({"out": OUT}, keys.mean() + task.q * anchors.mean(), int(lowest), int(highest))
    return blueprint


def _embed_anchors(blueprint: Blueprint, rng: np.random.Generator) -> tuple[float, float]:
    """Reasoning anchors on a number line, presence on all anchors, nuisances; returns the line's middle, and presence.

    The line's middle lies far from 0, where all other tokens are, so that reasoning anchors point along it. Memory
    anchors have long nuisances, so that their cosine with it is small even after centring.
    """
    task = blueprint.task
    anchors = task.tokens("reasoning_anchor")
    others = len(task.tokens("key")) + len(task.tokens("memory_anchor"))
    share = len(anchors) / (len(anchors) + others)
    middle = 3.0 * float(anchors[-1] - anchors[0]) + 1
    presence = drawn(rng, *PRESENCE) * middle
    blueprint.embed(anchors, "number", anchors - anchors.mean() + middle)
    embed_presence(blueprint, presence)
    own = drawn(rng, *MEMORY) * share * middle, drawn(rng, *REASONING) * (1 - share) * middle
    blueprint.add_nuisances(rng, {"memory_anchor": own[0], "reasoning_anchor": own[1]})
    return middle, presence


def embed_presence(blueprint: Blueprint, presence: float, direction: str = "presence") -> None:
    """Mark anchors of both kinds as anchors."""
    for group in ("memory_anchor", "reasoning_anchor"):
        blueprint.embed(blueprint.task.tokens(group), direction, presence)


def embed_keys(blueprint: Blueprint) -> None:
    """Put keys on a number line, centred."""
    keys = blueprint.task.tokens("key")
    blueprint.embed(keys, "key", KEY_UNIT * (keys - keys.mean()))


def fetch_key(blueprint: Blueprint) -> None:
    """L1: the last position looks at the latest position with no anchor seen, and copies its number.

    A single anchor among L tokens makes ``seen`` 1, which outweighs being later by the whole sequence.
    """
    blueprint.attend(1, {"constant": 1.0}, {"position": STEP, "seen": -STEP * (blueprint.task.length + 1)})
    blueprint.move(1, {"key": 1.0}, {"out": OUT / KEY_UNIT})
