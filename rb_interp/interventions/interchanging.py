r"""Does a site carry the key, or the sum, and does the model read an anchor's number off one direction?  (claim M9)

`key_and_sum` interchanges sites between two inputs. If a site carries the key and nothing else of the source reaches
the answer, the answer becomes

    key: z_source + (sum of the anchors)_base            sum: z_base + (sum of the anchors)_source

The two circuits of the anchor task carry them at different sites, CARRIERS. In average-then-key the last position gets
the sum from L0's attention and the key from the last layer's. In key-to-anchors L0's attention brings the key
to the anchors' positions, whose own embeddings bring the sum: there the anchors' embedding is taken from the source
while L0's attention is held as it was at all positions, so that the anchors reach the last one through later
layers alone. An embedding holds its position too, so these pairs share it.

The control takes the same sites from the same row with its noise redrawn, which changes nothing where a site carries
only key or sum.

`permuted_number_line` moves the reasoning anchors along a direction u. If they lie on a number line u, an anchor that
is moved along u alone to where another one stands counts as that other one: with a permutation pi of the anchors,

    E'[a] = E[a] + (E[pi(a)] . u - E[a] . u) u            predicted answer: z + sum of pi(a)

Directions: ``value``, the leading left singular vector of L0's W_V (paper 1, Fig. 6: the one that the reasoning
anchors share); ``component``, the anchors' own first principal component (Fig. 5B); or any vector. Only inputs that
are answered rightly, and whose predicted answer is another one, are counted. The control moves the anchors by the same
permutation along random directions, with a change of W_E of the same Frobenius norm, and counts the same.

How it can mislead. M9 asks for .90 each, control at most .10. An untrained model answers almost nothing rightly and has
no pairs (nan). A site that carries the whole answer moves it to z_source + sum_source, and counts as 0. A high share
says that the site suffices to carry key or sum. A low share may mean that another site carries it too, or that the
sites add a constant that depends on the position: at the quick sizes members of the paper's circuit often miss by 1
when source and base have their key at different positions, and seldom when it is the same one (``same_position``).
Pairs are of inputs answered rightly, so read the accuracy beside them. A number along u may be read from elsewhere too:
then the answer changes, but not as predicted. All layers read the changed embedding, not only L0's values. With
LayerNorm, moving along u also changes the vector's length, and all its coordinates with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from rb_interp.errors import TaskError
from rb_interp.interventions.ablating import interchange
from rb_interp.interventions.effect import REDRAWN, Effect, effect_of
from rb_interp.interventions.hooking import Edit, last_logits, with_weights
from rb_interp.interventions.sites import intervention
from rb_interp.interventions.subspace import leading
from rb_interp.models.generations import live_tensors
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import Tokens
from rb_interp.probes.embeddings import token_vectors
from rb_interp.probes.values import value_matrix
from rb_interp.statistics.nulls import random_directions
from rb_interp.tasks.anchor import AnchorDataset

__all__ = ["KeyAndSum", "key_and_sum", "permuted_number_line"]


CARRIERS = {
    "average-then-key": ("attn_out.{last}@last", "attn_out.0@last"),
    "key-to-anchors": ("attn_out.0@anchor", "resid_pre.0@anchor", "attn_out.0"),
}
"""Circuit -> where it carries the key and where the sum, and what stays as in the base while the sum is taken."""
HOLDS_POSITION = ("key-to-anchors",)
"""Circuits whose sites also hold the position, so that source and base must have their key at the same one."""


def check_reasoning(data: AnchorDataset, set: str, asker: str) -> None:
    """Raise TaskError where the answer of a row of the set is not key + sum."""
    other = n_other_answers(data, set)
    if other:
        raise TaskError(
            f"set='{set}': {asker} needs rows whose answer is key + sum, and {other} of its {len(data.rows(set))} rows "
            f"have another; give another set, such as 'rsn_train', of a task whose reasoning is key + sum."
        )


def n_other_answers(data: AnchorDataset, set: str) -> int:
    """Rows of a set whose answer is not key + sum."""
    rows = data.rows(set)
    key, total = _key_sum(data, rows)
    return int(np.count_nonzero(key + total != data.labels[rows]))


def most_likely(model: HookedModel, tokens: Tokens, edits: Sequence[Edit] = ()) -> Int[np.ndarray, " row"]:
    """The most likely answer at the last position of each row, under edits."""
    return last_logits(model, tokens, edits).argmax(1).numpy()


class KeyAndSum(NamedTuple):
    """Interchange of the key and of the sum where a circuit carries them: effects on the same pairs, with controls."""

    key: Effect
    sum: Effect


@intervention
def key_and_sum(
    model: HookedModel,
    data: AnchorDataset,
    *,
    circuit: str = "average-then-key",
    n: int = 200,
    set: str = "rsn_train",
    same_position: bool | None = None,
    other_answers: bool = False,
    seed: int = 0,
) -> KeyAndSum:
    """Does the answer follow a key, and a sum, taken from another input where the circuit carries them?  (claim M9)

    Up to ``n`` pairs of inputs that the model answers rightly, with different keys and different sums of anchors; no
    row is in two pairs. A model that has no such pair gets nan and n = 0. All answers asked for lie in the vocabulary.

    Args:
        circuit: whose sites, one of CARRIERS. set: whose answers are key + sum, such as the reasoning sets.
        same_position: whether the pairs share their key's position; by default only where the circuit's sites hold it.
        other_answers: take rows whose answer is another too, as of a task whose labels were shuffled on purpose.

    Raises TaskError for rows whose answer is not key + sum.
    """
    if not other_answers:
        check_reasoning(data, set, "key_and_sum")
    key_at, sum_at, *hold = (text.format(last=model.cfg.n_layers - 1) for text in CARRIERS[circuit])
    shared = circuit in HOLDS_POSITION if same_position is None else same_position
    base_rows, source_rows = _pairs(model, data, n, set, shared, seed)
    if not len(base_rows):
        places = key_at, sum_at + (f"; held: {' + '.join(hold)}" if hold else "")
        none = np.zeros(0), np.zeros((1, 0)), REDRAWN
        return KeyAndSum(*(Effect("interchange", at, "moved_as_predicted", *none) for at in places))
    base, source = data.inputs(base_rows), data.inputs(source_rows)
    control = data.task.counterfactual(data, base_rows, "noise", seed)
    (base_key, base_sum), (source_key, source_sum) = (_key_sum(data, at) for at in (base_rows, source_rows))
    return KeyAndSum(
        interchange(model, base, source, key_at, source_key + base_sum, control=control),
        interchange(model, base, source, sum_at, base_key + source_sum, control=control, hold=hold),
    )


def _pairs(
    model: HookedModel, data: AnchorDataset, n: int, set: str, same_position: bool, seed: int
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Base and source rows, answered rightly, of different key and sum; every row in one pair at most."""
    rng = np.random.default_rng([data.seed, seed, 8])
    rows = rng.permutation(data.rows(set))[: 5 * n]
    rows = rows[most_likely(model, data.tokens[rows]) == data.labels[rows]] if len(rows) else rows
    if same_position:
        rows = rows[np.argsort(data.key_position[rows], kind="stable")]
    pairs = rows[: len(rows) // 2 * 2].reshape(-1, 2)
    (key, total), (other_key, other_total) = (_key_sum(data, at) for at in pairs.T)
    fits = (key != other_key) & (total != other_total)
    if same_position:
        fits &= np.equal(*data.key_position[pairs].T)
    chosen = rng.permutation(pairs[fits])[:n]
    return chosen[:, 0], chosen[:, 1]


def _key_sum(data: AnchorDataset, rows: Int[np.ndarray, " row"]) -> tuple[np.ndarray, np.ndarray]:
    """Key and sum of the anchors of each row."""
    return data.tokens[rows, data.key_position[rows]], data.tokens[rows[:, None], data.anchor_positions[rows]].sum(1)


def moves(
    vectors: Float[np.ndarray, "token d_model"],
    permutation: Int[np.ndarray, " token"],
    direction: Float[np.ndarray, " d_model"],
) -> Float[np.ndarray, "token d_model"]:
    """What is added to each vector so that its coordinate along a direction becomes that of another.

    >>> moves(np.array([[1.0, 7.0], [4.0, 9.0]]), np.array([1, 0]), np.array([2.0, 0.0]))[:, 0].tolist()
    [3.0, -3.0]
    """
    unit = direction / np.linalg.norm(direction)
    coordinates = vectors @ unit
    return (coordinates[permutation] - coordinates)[:, None] * unit


@intervention
def permuted_number_line(
    model: HookedModel,
    data: AnchorDataset,
    *,
    set: str = "rsn_train",
    n: int = 300,
    direction: str | Float[np.ndarray, " d_model"] = "value",
    n_draws: int = 20,
    seed: int = 0,
) -> Effect:
    """Share of inputs whose answer becomes z + sum of pi(a) when the line of anchors is reversed, in [0, 1].

    Args:
        set: a reasoning set. n: rows looked at; those that are answered rightly and whose answer is to change count.
        direction: ``value``, ``component`` or a vector ``[d_model]``, of any length but 0.

    No such input: an effect of nan with n = 0. Raises TaskError for rows whose answer is not key + sum, and for rows
    without reasoning anchors.
    """
    check_reasoning(data, set, "the number line")
    anchors, rows = data.task.tokens("reasoning_anchor"), data.sample(set, n)
    own = data.tokens[rows[:, None], data.anchor_positions[rows]]
    if not np.isin(own, anchors).all():
        raise TaskError(f"set='{set}' has rows without reasoning anchors; give one that has them, such as 'rsn_train'.")
    order = np.arange(len(anchors))[::-1]
    by = (order - order[::-1])[own - data.task.reasoning_anchors[0]].sum(1)
    counts = (most_likely(model, data.tokens[rows]) == data.labels[rows]) & (by != 0)
    tokens, predicted = data.tokens[rows[counts]], data.labels[rows[counts]] + by[counts]
    vectors, along = token_vectors(model, anchors), direction
    if isinstance(direction, str):
        named = {
            "value": lambda: leading(value_matrix(model))[:, 0],
            "component": lambda: np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)[2][0],
        }
        along = named[direction]()
    change = moves(vectors, order, np.asarray(along, dtype=np.float64))

    def as_predicted(change: np.ndarray) -> np.ndarray:
        if not len(tokens):
            return np.zeros(0)
        with _moved(model, anchors, change):
            return (most_likely(model, tokens) == predicted) * 1.0

    runs = [as_predicted(change)]
    for other in random_directions(n_draws, vectors.shape[1], np.random.default_rng([seed, 13])):
        step = moves(vectors, order, other)
        step *= np.linalg.norm(change) / max(np.linalg.norm(step), np.finfo(float).tiny)
        runs.append(as_predicted(step))
    name = "anchors permuted along " + (f"the {direction} direction" if isinstance(direction, str) else "a direction")
    return effect_of(name, "W_E", "moved_as_predicted", runs, "random direction, change of the same norm")


@contextmanager
def _moved(model: HookedModel, tokens: Int[np.ndarray, " token"], change: np.ndarray) -> Iterator[None]:
    """A context in which ``change`` is added to the tokens' embeddings."""
    W_E = live_tensors(model)["embed.W_E"].detach().clone()
    W_E[torch.as_tensor(tokens)] += torch.as_tensor(change).to(W_E)
    with with_weights(model, {"embed.W_E": W_E}):
        yield
