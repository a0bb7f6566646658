r"""Swaps (claim M9): whether a site of the anchor task's circuits carries what it should.

`key_and_sum` interchanges sites between two inputs. If a site carries the key and
nothing else of the source reaches the answer, the answer becomes

    key: z_source + (sum of the anchors)_base            sum: z_base + (sum of the anchors)_source

The circuits carry them at different sites, CARRIERS. In average-then-key the last position gets the
sum from L0's attention and the key from the last layer's. In key-to-anchors L0's attention brings
the key to the anchors' positions, whose own embeddings bring the sum: there the anchors' embedding
is taken from the source while L0's attention is held as it was, so that the anchors reach the last
position through later layers alone. An embedding holds its position too, so these pairs share it.
The control takes the same sites from the same row with its noise redrawn.

`permuted_number_line` moves the reasoning anchors along a direction u. If they lie on a number line
u, an anchor that is moved along u alone to where another one stands counts as that other one: with
a permutation pi of the anchors,

    E'[a] = E[a] + (E[pi(a)] . u - E[a] . u) u            predicted answer: z + sum of pi(a)

Directions: ``value``, the leading left singular vector of L0's W_V (paper 1, Fig. 6: the one that
the reasoning anchors share); ``component``, the anchors' own first principal component (Fig. 5B);
or any vector. The control moves the anchors by the same permutation along random directions, with a
change of W_E of the same Frobenius norm.

How it can mislead. M9 asks for .90 each, control at most .10. An untrained model has no pairs
(nan). A site that carries the whole answer moves it to z_source + sum_source, and counts as 0. A
low share may mean that another site carries it too, or that the sites add a constant that depends
on the position: members of the paper's circuit often miss by 1 when source and base have their key
at different positions, and seldom when it is the same one (``same_position``). All layers read an
embedding that was moved, and with LayerNorm all its coordinates change with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, TaskError
from rb_interp.interventions.ablating import interchange
from rb_interp.interventions.edits import most_likely, replaced
from rb_interp.interventions.effect import REDRAWN, Effect
from rb_interp.interventions.subspaces import leading
from rb_interp.models.protocol import HookedModel, writable_tensors
from rb_interp.models.structure import caller_hooks
from rb_interp.probes.embeddings import token_vectors
from rb_interp.probes.values import value_matrix
from rb_interp.statistics.nulls import random_directions
from rb_interp.tasks.anchor import AnchorDataset

__all__ = ["KeyAndSum", "key_and_sum", "permuted_number_line"]


class Carriers(NamedTuple):
    """Sites of a circuit; ``{last}`` is the last layer."""

    key: str
    """Carries the key."""
    sum: str
    """Carries the sum."""
    hold: str = ""
    """Stays as in the base while the sum is taken."""


CARRIERS = {
    "average-then-key": Carriers("attn_out.{last}@last", "attn_out.0@last"),
    "key-to-anchors": Carriers("attn_out.0@anchor", "resid_pre.0@anchor", hold="attn_out.0"),
}
"""Circuit -> the sites that carry its key and its sum."""


def check_reasoning(data: AnchorDataset, set: str, caller: str) -> None:
    """Raise TaskError if the answer of a row of the set is not key + sum."""
    n_others = n_other_answers(data, set)
    if n_others:
        raise TaskError(
            f"set='{set}': {caller} needs rows whose answer is key + sum, and {n_others} of its "
            f"{len(data.rows(set))} rows have another; give another set, such as 'rsn_train', of a "
            f"task whose reasoning is key + sum."
        )


def n_other_answers(data: AnchorDataset, set: str) -> int:
    """Rows of a set whose answer is not key + sum."""
    rows = data.rows(set)
    key, total = _key_sum(data, rows)
    return int(np.count_nonzero(key + total != data.labels[rows]))


class KeyAndSum(NamedTuple):
    """Interchange of the key and of the sum on the same pairs, where a circuit carries them."""

    key: Effect
    sum: Effect


@checked
@single_threaded
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
    """Does the answer follow a key, and a sum, taken from another input at a circuit's sites?

    This is claim M9. Pairs are of inputs that the model answers rightly, with different keys and
    different sums of anchors; no row is in two pairs. A model that has no such pair gets NaN and
    n = 0.

    Args:
        model: any model with TransformerLens's hooks.
        data: sequences of the anchor task.
        circuit: whose sites, one of CARRIERS.
        n: pairs, at most.
        set: whose answers are key + sum, such as the reasoning sets.
        same_position: whether the pairs share their key's position; by default only for
            key-to-anchors, whose sites hold it.
        other_answers: take rows whose answer is another too, as of a task whose labels were
            shuffled on purpose.
        seed: seed of the pairs.

    Raises:
        TaskError: an answer of the set is not key + sum.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> swapped = key_and_sum(known.model(), known.task.dataset(seed=0), n=20)
    >>> float(swapped.key.values.mean()), float(swapped.sum.values.mean())
    (1.0, 1.0)
    """
    if not other_answers:
        check_reasoning(data, set, "key_and_sum")
    last = model.cfg.n_layers - 1
    key_site, sum_site, hold = (site.format(last=last) for site in CARRIERS[circuit])
    if same_position is None:
        same_position = circuit == "key-to-anchors"
    base_rows, source_rows = _pairs(model, data, n, set, same_position, seed)
    if not len(base_rows):
        sum_site += f"; held: {hold}" if hold else ""
        return KeyAndSum(_no_interchange(key_site), _no_interchange(sum_site))
    base = data.inputs(base_rows)
    source = data.inputs(source_rows)
    control = data.task.counterfactual(data, base_rows, "noise", seed)
    base_key, base_sum = _key_sum(data, base_rows)
    source_key, source_sum = _key_sum(data, source_rows)
    key_predicted = source_key + base_sum
    sum_predicted = base_key + source_sum
    return KeyAndSum(
        interchange(model, base, source, key_site, key_predicted, control=control),
        interchange(model, base, source, sum_site, sum_predicted, control=control, hold=hold),
    )


def _no_interchange(site: str) -> Effect:
    """The effect of no pair at all."""
    no_control = np.zeros((1, 0))
    return Effect("interchange", site, "moved_as_predicted", np.zeros(0), no_control, REDRAWN)


def _pairs(
    model: HookedModel, data: AnchorDataset, n: int, set: str, same_position: bool, seed: int
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Base and source rows, answered rightly, of different key and sum; a row is in one pair."""
    rng = np.random.default_rng([data.seed, seed, 8])
    rows = rng.permutation(data.rows(set))[: 5 * n]
    if len(rows):
        rows = rows[most_likely(model, data.tokens[rows]) == data.labels[rows]]
    if same_position:
        rows = rows[np.argsort(data.key_position[rows], kind="stable")]
    pairs = rows[: len(rows) // 2 * 2].reshape(-1, 2)
    base, source = pairs.T
    base_key, base_sum = _key_sum(data, base)
    source_key, source_sum = _key_sum(data, source)
    fits = (base_key != source_key) & (base_sum != source_sum)
    if same_position:
        fits &= data.key_position[base] == data.key_position[source]
    selection = rng.permutation(pairs[fits])[:n]
    return selection[:, 0], selection[:, 1]


def _key_sum(data: AnchorDataset, rows: Int[np.ndarray, " row"]) -> tuple[np.ndarray, np.ndarray]:
    """Key and sum of the anchors of each row."""
    anchors = data.tokens[rows[:, None], data.anchor_positions[rows]]
    return data.tokens[rows, data.key_position[rows]], anchors.sum(1)


@checked
@single_threaded
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
    """Share of inputs whose answer becomes z + sum of pi(a), in [0, 1], with the anchors reversed.

    The line of anchors is reversed along a direction. Rows count that are answered rightly and
    whose answer is to change.

    Args:
        model: any model with TransformerLens's hooks and a W_E that can be written.
        data: sequences of the anchor task.
        set: a reasoning set.
        n: rows looked at, at most.
        direction: ``value``, ``component`` or a vector ``[d_model]``, of any length but 0.
        n_draws: draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.
        seed: seed of the draws.

    Raises:
        TaskError: an answer of the set is not key + sum, or a row has no reasoning anchors.
        ModelError: no direction has this name.
    """
    check_reasoning(data, set, "the number line")
    anchors = data.task.tokens("reasoning_anchor")
    rows = data.sample(set, n)
    of_rows = data.tokens[rows[:, None], data.anchor_positions[rows]]
    if not np.isin(of_rows, anchors).all():
        raise TaskError(
            f"set='{set}' has rows without reasoning anchors; give one that has them, such as "
            f"'rsn_train'."
        )
    number = np.arange(len(anchors))
    moves = number[::-1] - number
    change = moves[of_rows - data.task.reasoning_anchors[0]].sum(1)
    is_right = most_likely(model, data.tokens[rows]) == data.labels[rows]
    counts = is_right & (change != 0)
    tokens = data.tokens[rows[counts]]
    predicted = data.labels[rows[counts]] + change[counts]

    vectors = token_vectors(model, anchors)
    name = "a direction"
    if isinstance(direction, str):
        name = f"the {direction} direction"
        if direction == "value":
            direction = leading(value_matrix(model))[:, 0]
        elif direction == "component":
            direction = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)[2][0]
        else:
            raise ModelError(
                f"got direction='{direction}'; expected 'value', 'component' or a vector."
            )
    steps = [_reversal(vectors, np.asarray(direction, dtype=np.float64))]
    rng = np.random.default_rng([seed, 13])
    for control_direction in random_directions(n_draws, vectors.shape[1], rng):
        steps.append(_reversal(vectors, control_direction))

    W_E = writable_tensors(model, {"embed.W_E": model.W_E})["embed.W_E"]
    distance = np.linalg.norm(steps[0])
    follows = []
    for step in steps:
        scale = distance / max(np.linalg.norm(step), np.finfo(float).tiny)
        new = W_E.detach().clone()
        new[torch.as_tensor(anchors)] += torch.as_tensor(step * scale).to(W_E)
        with replaced(W_E, new):
            answers = most_likely(model, tokens) if len(tokens) else np.zeros(0)
        follows.append((answers == predicted) * 1.0)
    values, *controls = follows
    return Effect(
        f"anchors permuted along {name}",
        "W_E",
        "moved_as_predicted",
        values,
        np.array(controls),
        "random direction, change of the same norm",
        before=0.0,
        after=values.mean() if len(tokens) else np.nan,
        answered=float(is_right.mean()),
        notes=caller_hooks(model),
    )


def _reversal(vectors: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """What is added to each anchor's vector so that their coordinates are reversed."""
    unit = direction / np.linalg.norm(direction)
    coordinates = vectors @ unit
    return (coordinates[::-1] - coordinates)[:, None] * unit
