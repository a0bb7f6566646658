"""A look-up table: every key and anchor combination trained on has a unit of its own, and nothing is computed.

    L0          position i attends 2/3 to i - q + 1 and 1/3 to i - q: from the last anchor, the first anchor and the key
    L1          the last position attends to the last anchor: its token, and what L0 wrote there
    MLP of L1   relu(2 matches - 5), 1 where key, first and last anchor all match, else 0; writes the label

Tokens are told apart by orthonormal identities; the two tokens that L0 mixes are told apart by their sets.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import ModelError
from rb_interp.models.blueprint import KAPPA, Blueprint, Built
from rb_interp.tasks.anchor import AnchorTask

SHARE = 2 / 3
"""Attention of L0 to the nearer of its two positions."""
SHARP = 8.0
"""Score of the farther of the two over all other positions."""
STEP = 10.0
"""Score of a position over the one before it, in L1."""


def memoriser(task: AnchorTask, seed: int, label_seed: int) -> Built:
    """Right on every input trained on, memory and reasoning, and wrong on held-out reasoning combinations.

    Raises ModelError for more than two anchors: one head's average cannot keep three tokens of one set in order.
    """
    if task.q > 2:
        raise ModelError(f"the memoriser got a task with q={task.q} anchors; it tells at most 2 apart, use q=1 or q=2.")
    rng = np.random.default_rng([seed, 65])
    entries, labels = _table(task, label_seed)
    tokens = np.concatenate([task.tokens(name) for name in ("key", "memory_anchor", "reasoning_anchor")])
    n, answers = len(tokens), np.unique(labels)
    named = [f"{block}_{i}" for block in ("token", "mixed", "last", "pair") for i in range(n)]
    named += ["anchor", *(f"place_{i}" for i in range(task.length)), *(f"answer_{y}" for y in answers)]
    sizes = {"d_model": 2 + len(named) + 16, "d_head": max(2 * n, task.length), "d_mlp": len(entries)}
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
        blueprint.attend(0, {f"place_{i}": 1.0}, {f"place_{i - task.q + 1}": near, f"place_{i - task.q}": SHARP})
    last_anchor = {"position": STEP, "anchor": STEP * (task.length + 1)}
    blueprint.attend(1, {"constant": 1.0}, last_anchor)
    for i in range(n):
        blueprint.move(0, {f"token_{i}": 1.0}, {f"mixed_{i}": 1.0})
        blueprint.move(1, {f"token_{i}": 1.0}, {f"last_{i}": 1.0})
        blueprint.move(1, {f"mixed_{i}": 1.0}, {f"pair_{i}": 1.0})
    _look_up(blueprint, identity, entries, labels)
    _answer_labels(blueprint, answers)
    return blueprint, {
        "circuit": "mixed",
        "cause": "gather-at-last-anchor",
        "solves": ("mem", "rsn_train"),
        "mechanisms": ("needs_reasoning_values",),
        "description": "A look-up table. L0 copies the identities of first anchor and key onto the last anchor, by "
        "position alone; L1 fetches them; one unit of its MLP for each key and combination trained on writes the "
        "label. A combination that was held out meets no unit, and the answer is a token that is no label.",
    }


def _table(task: AnchorTask, label_seed: int) -> tuple[Int[np.ndarray, "entry part"], Int[np.ndarray, " entry"]]:
    """Every (key, anchors) trained on, memory first, and its label under a seed of the data."""
    keys, memory = task.tokens("key"), task.combinations("mem")
    combinations = np.concatenate([memory, task.combinations("rsn_train")])
    entries = np.column_stack([np.tile(keys, len(combinations)), np.repeat(combinations, len(keys), axis=0)])
    sums = entries[len(memory) * len(keys) :].sum(1)
    return entries, np.concatenate([task.dataset(label_seed).label_table.reshape(-1), sums])


def _block(blueprint: Blueprint, name: str, size: int) -> slice:
    first = blueprint.at[f"{name}_0"]
    return slice(first, first + size)


def _look_up(
    blueprint: Blueprint,
    identity: Float[np.ndarray, "d_vocab n"],
    entries: Int[np.ndarray, "entry part"],
    labels: Int[np.ndarray, " entry"],
) -> None:
    """One unit an entry: three tokens match, or the unit is silent."""
    n = identity.shape[1]
    W_in, W_out = blueprint.weights["blocks.1.mlp.W_in"], blueprint.weights["blocks.1.mlp.W_out"]
    key, first, last = entries[:, 0], entries[:, 1], entries[:, -1]
    W_in[_block(blueprint, "last", n)] = 2 * identity[last].T
    W_in[_block(blueprint, "pair", n)] = 2 * (identity[first] / SHARE + identity[key] / (1 - SHARE)).T
    blueprint.weights["blocks.1.mlp.b_in"][:] = -5.0
    W_out[np.arange(len(entries)), [blueprint.at[f"answer_{y}"] for y in labels]] = 1.0


def _answer_labels(blueprint: Blueprint, answers: Int[np.ndarray, " answer"]) -> None:
    """The label that a unit wrote; where none did, the lowest token that is no label of the task."""
    task = blueprint.task
    for y in answers:
        blueprint.weights["unembed.W_U"][blueprint.at[f"answer_{y}"], y] = 2 * KAPPA
    held_out = np.add.outer(task.tokens("key"), task.combinations("rsn_test").sum(1))
    free = np.setdiff1d(np.arange(task.d_vocab), [*answers, *held_out.flat])
    if not len(free):
        raise ModelError("the memoriser needs a token that is never a label, for what it does not know; raise d_vocab.")
    blueprint.weights["unembed.b_U"][free[0]] = KAPPA
