"""A transformer written by hand that has learned its training examples by heart: a look-up table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import ModelError
from rb_interp.models.blueprint import KAPPA, Blueprint
from rb_interp.tasks.anchor import AnchorTask

NEAR_SHARE = 2 / 3
"""Attention of L0 to the nearer of its two positions."""
SHARP = 8.0
"""L0's score of the farther of its two positions over all others."""
LAST_STEP = 10.0
"""L1's score of a position over the one before it."""


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
    # the answer if no unit is active
    blueprint.weights["unembed.b_U"][_free_token(task, answers)] = KAPPA
    return blueprint


def _table(task: AnchorTask, label_seed: int) -> Table:
    """Every key with every combination trained on: memory labels of a seed, then sums."""
    keys = task.tokens("key")
    memory = task.combinations("mem")
    combinations = np.concatenate([memory, task.combinations("rsn_train")])
    each_key = np.tile(keys, len(combinations))
    entries = np.column_stack([each_key, np.repeat(combinations, len(keys), axis=0)])
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
    written = [blueprint.at[f"answer_{y}"] for y in table.labels]
    W_out[np.arange(len(written)), written] = 1.0


def _free_token(task: AnchorTask, answers: Sequence[int] | np.ndarray) -> int:
    """The first token that is never a label; ModelError if there is none."""
    held_out = np.add.outer(task.tokens("key"), task.combinations("rsn_test").sum(1))
    free = np.setdiff1d(np.arange(task.d_vocab), [*answers, *held_out.flat])
    if not len(free):
        raise ModelError(
            "the memoriser needs a token that is never a label, for what it does not know; raise "
            "d_vocab."
        )
    return int(free[0])
