r"""Does the model read an anchor's number off one direction of its embedding?

If the reasoning anchors lie on a number line u, an anchor that is moved along u alone to where another one stands
counts as that other one: with a permutation pi of the anchors,

    E'[a] = E[a] + (E[pi(a)] . u - E[a] . u) u            predicted answer: z + sum of pi(a)

Directions: ``value``, the leading left singular vector of L0's W_V (paper 1, Fig. 6: the one that the reasoning
anchors share); ``component``, the anchors' own first principal component (Fig. 5B); or any vector. Only inputs that
are answered rightly, and whose predicted answer is another one, are counted.

The control moves the anchors by the same permutation along random directions, with a change of W_E of the same
Frobenius norm, and counts the same: the inputs whose answer becomes the predicted one.

How it can mislead. The number may lie along u and be read from elsewhere too: then the answer changes, but not as
predicted. All layers read the changed embedding, not only L0's values. Where W_V's leading direction is not that
of the anchors, nothing says that u is a number line. With LayerNorm, moving along u also changes the vector's length,
and all its coordinates with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float, Int

from rb_interp.errors import ModelError, TaskError, nearest
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.hooking import with_weights
from rb_interp.interventions.interchanging import check_reasoning, most_likely
from rb_interp.interventions.subspace import leading
from rb_interp.models.generations import live_tensors
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.embeddings import token_vectors
from rb_interp.probes.values import value_matrix
from rb_interp.statistics.nulls import random_directions
from rb_interp.tasks.dataset import AnchorDataset
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["permuted_coordinates", "permuted_number_line"]

DIRECTIONS = ("value", "component")
"""Directions that have a name."""

Embeddings = Float[np.ndarray, "token d_model"]
Direction = np.ndarray
"""``[d_model]``, of any length but 0. The annotation leaves the shape to ``moves``, whose message says what to do."""


@typed
@contextmanager
def permuted_coordinates(
    model: HookedModel,
    tokens: Int[np.ndarray, " token"],
    permutation: Int[np.ndarray, " token"],
    direction: Direction,
) -> Iterator[HookedModel]:
    """A context in which each token's embedding has, along a direction, the coordinate of the token it is sent to.

    ``permutation[i]`` is the place in ``tokens`` of the one whose coordinate ``tokens[i]`` gets. The rest of each
    embedding stays as it was. Raises ModelError for a direction of another width, or of length 0.
    """
    vectors = token_vectors(model, tokens)
    with _moved(model, tokens, moves(vectors, permutation, direction)):
        yield model


def moves(vectors: Embeddings, permutation: Int[np.ndarray, " token"], direction: Direction) -> Embeddings:
    """What is added to each vector so that its coordinate along a direction becomes that of another.

    >>> moves(np.array([[1.0, 7.0], [4.0, 9.0]]), np.array([1, 0]), np.array([2.0, 0.0]))[:, 0].tolist()
    [3.0, -3.0]
    """
    size = np.linalg.norm(direction)
    if np.shape(direction) != vectors.shape[1:] or not size > 0:
        raise ModelError(
            f"got a direction of shape {list(np.shape(direction))} and length {size:.3g}; expected d_model "
            f"{vectors.shape[1]} numbers, not all of them 0."
        )
    unit = direction / size
    coordinates = vectors @ unit
    return (coordinates[permutation] - coordinates)[:, None] * unit


@typed
@few_threads
def permuted_number_line(
    model: HookedModel,
    data: AnchorDataset,
    *,
    set: str = "rsn_train",
    n: int = 300,
    permutation: Sequence[int] | Int[np.ndarray, " anchor"] | None = None,
    direction: str | Direction = "value",
    n_draws: int = 20,
    seed: int = 0,
) -> Effect:
    """Share of inputs whose answer becomes z + sum of pi(a) when the anchors change places on a line, in [0, 1].

    Args:
        set: a reasoning set. n: rows looked at; those that are answered rightly and whose answer is to change count.
        permutation: the place, among the reasoning anchors in ascending order, that each is moved to; by default the
            line is reversed.
        direction: ``value``, ``component`` or a vector ``[d_model]``.

    No such input: an effect of nan with n = 0. Raises ModelError for an unknown direction or no permutation, TaskError
    for rows whose answer is not key + sum, and for rows without reasoning anchors.
    """
    check_reasoning(data, set, "the number line")
    anchors, rows = data.task.tokens("reasoning_anchor"), data.sample(set, n)
    own = data.tokens[rows[:, None], data.anchor_positions[rows]]
    if not np.isin(own, anchors).all():
        raise TaskError(f"set='{set}' has rows without reasoning anchors; give one that has them, such as 'rsn_train'.")
    places = np.arange(len(anchors))
    order = places[::-1] if permutation is None else np.asarray(permutation)
    if order.shape != places.shape or (np.sort(order) != places).any():
        raise ModelError(
            f"got {order.tolist()}; expected a permutation of 0 to {places[-1]}, one for each reasoning anchor."
        )
    by = (order - places)[own - data.task.reasoning_anchors[0]].sum(1)
    counts = (most_likely(model, data.tokens[rows]) == data.labels[rows]) & (by != 0)
    tokens, predicted = data.tokens[rows[counts]], data.labels[rows[counts]] + by[counts]
    vectors = token_vectors(model, anchors)
    change = moves(vectors, order, _direction(model, vectors, direction))

    def as_predicted(change: Embeddings) -> np.ndarray:
        if not len(tokens):
            return np.zeros(0)
        with _moved(model, anchors, change):
            return (most_likely(model, tokens) == predicted) * 1.0

    moved, others = as_predicted(change), []
    for other in random_directions(n_draws, vectors.shape[1], np.random.default_rng([seed, 13])):
        along = moves(vectors, order, other)
        along *= np.linalg.norm(change) / max(np.linalg.norm(along), np.finfo(float).tiny)
        others.append(as_predicted(along))
    name = "anchors permuted along " + (f"the {direction} direction" if isinstance(direction, str) else "a direction")
    control = "random direction, change of the same norm"
    return Effect(name, "W_E", "moved_as_predicted", moved, np.reshape(others, (n_draws, len(tokens))), control)


def _direction(model: HookedModel, vectors: Embeddings, direction: str | Direction) -> Direction:
    if not isinstance(direction, str):
        return np.asarray(direction, dtype=np.float64)
    if direction not in DIRECTIONS:
        hint = nearest(direction, DIRECTIONS)
        raise ModelError(f"there is no direction '{direction}', and it is no vector; {hint}")
    if direction == "value":
        return leading(value_matrix(model))[:, 0]
    return np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)[2][0]


@contextmanager
def _moved(model: HookedModel, tokens: Int[np.ndarray, " token"], change: Embeddings) -> Iterator[None]:
    """A context in which ``change`` is added to the tokens' embeddings."""
    W_E = live_tensors(model)["embed.W_E"].detach().clone()
    W_E[torch.as_tensor(tokens)] += torch.as_tensor(change).to(W_E)
    with with_weights(model, {"embed.W_E": W_E}):
        yield
