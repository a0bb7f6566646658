r"""Subspaces of a layer's value input: what is lost without one, or with nothing else.

In the convention x W_V, with U an orthonormal basis [d_model, k]:

    without:  W_V - U U^T W_V            only:  U U^T W_V

Bases are ``token_basis`` (the span of a group's embeddings as the head reads them), ``leading``
(W_V's first left singular vectors) and ``span`` of any vectors. Where the paper's circuit is there
(Fig. 6), the reasoning answers are lost without the anchors' direction, and hold with nothing else.
The control is a random subspace Q of the same dimension with a change of the same Frobenius norm,
head by head: c Q Q^T W_V in place of U U^T W_V. A random subspace holds little of W_V, so c is
often above 1 and reverses the sign of what W_V reads there. It also misses an embedding that fills
few dimensions. Two controls do not (``matched_spans``): spans of as many random tokens of another
group (claim M4b: keys), centred as the group is, or Gaussian directions with the covariance of the
embeddings in use.

How it can mislead. The norm of a change of W_V depends on the basis of the head's values, and so do
a control and W_V's leading direction; the effect of a span of tokens does not. A large W_V
direction that nothing reads costs nothing to remove. Tokens that share a mean share their subspace
too, so bases are less the mean over all anchors and keys. k tokens span k dimensions, however
little lies in most of them. With LayerNorm before the attention, token vectors are LayerNorm's
output; what earlier layers write is in them for layers above the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.interventions.edits import replaced
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.metrics import AnswerAt, MetricLike
from rb_interp.interventions.paired_run import PairedRun
from rb_interp.models.protocol import HookedModel, value_weights
from rb_interp.probes.activations import check_layer_head
from rb_interp.probes.embeddings import token_embeddings, token_groups
from rb_interp.statistics.nulls import random_subspaces
from rb_interp.tasks.inputs import Inputs

__all__ = [
    "Match",
    "leading",
    "matched_spans",
    "span",
    "subspace_effect",
    "token_basis",
    "with_subspace",
]

RANK_TOLERANCE = 1e-6
"""Directions with less than this share of the largest singular value do not count as spanned."""
TINY = torch.finfo(torch.float64).tiny
Basis = Float[np.ndarray, "d_model k"]


class Match(NamedTuple):
    """Subspaces of a control that are drawn from what the model embeds."""

    name: str
    """What they are."""
    bases: list[Basis]
    """One basis a draw."""


def span(vectors: Float[np.ndarray, "n d_model"]) -> Basis:
    """Orthonormal basis of the span of vectors, strongest direction first; k is their rank.

    Raises:
        ModelError: all vectors are zero.

    >>> span(np.array([[0.0, 3.0, 0.0], [0.0, 6.0, 0.0]])).round(6).__abs__().tolist()
    [[0.0], [1.0], [0.0]]
    """
    _, sizes, directions = np.linalg.svd(np.asarray(vectors, dtype=np.float64), full_matrices=False)
    if not (len(sizes) and sizes[0] > 0):
        raise ModelError("these vectors span nothing: give at least one that is not zero.")
    return directions[sizes > RANK_TOLERANCE * sizes[0]].T


def leading(W_V: Float[np.ndarray, "d_model d_head"], *, k: int = 1) -> Basis:
    """The first k left singular vectors of one head's value matrix: what it reads most.

    >>> leading(np.diag([1.0, 3.0])).__abs__().tolist()
    [[0.0], [1.0]]
    """
    U, _, _ = np.linalg.svd(np.asarray(W_V, dtype=np.float64), full_matrices=False)
    return U[:, :k]


@checked
@single_threaded
def token_basis(
    model: HookedModel,
    inputs: Inputs,
    group: str | np.ndarray,
    *,
    layer: int = 0,
    head: int = 0,
    groups: Mapping[str, Any] | None = None,
) -> Basis:
    """Basis of the span of some tokens' embeddings, less the mean over all tokens of ``groups``.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, of which only the length is used, and roles that name the groups.
        group: a token group of the roles, or token ids.
        layer: the layer, counted from 0.
        head: the head as which the embeddings are read.
        groups: name -> token ids, see ``probes.embeddings.token_groups``; by default those of the
            roles.

    Raises:
        ModelError: the model has no such layer, or the embeddings span nothing.
        RolesError: the roles have no such group.
    """
    return span(_centred(model, inputs, group, layer, head, groups))


@checked
@single_threaded
def matched_spans(
    model: HookedModel,
    inputs: Inputs,
    k: int = 1,
    *,
    group: str | np.ndarray | None = None,
    n_draws: int = 20,
    layer: int = 0,
    head: int = 0,
    groups: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Match:
    """Spans that the embedding does fill, as a control: of k random tokens of a group.

    Without a group, of k Gaussian directions with the covariance of the embeddings in use, for
    ``leading``.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, of which only the length is used, and roles that name the groups.
        k: dimensions of each span; no token is in one twice.
        group: a token group of the roles, or token ids; None for Gaussian directions.
        n_draws: how many spans are drawn.
        layer: the layer, counted from 0.
        head: the head as which the embeddings are read.
        groups: name -> token ids, as in `token_basis`.
        seed: seed of the draws.

    Raises:
        ModelError: the model has no such layer, or the embeddings span nothing.
        RolesError: the roles have no such group.
    """
    vectors = _centred(model, inputs, group, layer, head, groups)
    n_tokens = len(vectors)
    if group is None:
        rng = np.random.default_rng([seed, 16])
        directions = rng.standard_normal((n_draws, k, n_tokens)) @ vectors
        bases = [span(draw) for draw in directions]
        return Match("random direction within the embedding", bases)
    rng = np.random.default_rng([seed, 15])
    bases = []
    for _ in range(n_draws):
        tokens = rng.choice(n_tokens, k, replace=False)
        bases.append(span(vectors[tokens]))
    kind = f"{group} tokens" if isinstance(group, str) else "tokens"
    return Match(f"span of as many random {kind}", bases)


def _centred(
    model: HookedModel,
    inputs: Inputs,
    group: str | np.ndarray | None,
    layer: int,
    head: int,
    groups: Mapping[str, Any] | None,
) -> Float[np.ndarray, "token d_model"]:
    """Embeddings of a group as a head reads them, less the mean over all tokens of the groups.

    None takes all of these tokens.
    """
    of_groups = token_groups(groups, inputs.roles, "token_basis")
    all_tokens = np.concatenate(list(of_groups.values()))
    if isinstance(group, str):
        tokens = inputs.roles.group(group, "token_basis")
    else:
        tokens = all_tokens if group is None else group
    length = inputs.tokens.shape[1]
    all_ids = np.concatenate([tokens, all_tokens])
    vectors = token_embeddings(model, all_ids, length, layer, head)
    return vectors[: len(tokens)] - vectors[len(tokens) :].mean(0)


@checked
@single_threaded
def subspace_effect(
    model: HookedModel,
    inputs: Inputs,
    basis: Basis,
    *,
    complement: bool = False,
    layer: int = 0,
    head: int | None = None,
    n_draws: int = 20,
    metric: MetricLike = "loss",
    answer_at: AnswerAt = None,
    match: Match | None = None,
    seed: int = 0,
) -> Effect:
    """What each input loses without a subspace of a layer's value input, or with nothing else.

    Control: random subspaces of the same dimension, or those of ``match``, whose change of W_V (for
    ``complement``: whose W_V) has the same Frobenius norm.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if the metric asks for them.
        basis: orthonormal columns ``[d_model, k]``, as ``span``, ``leading`` and ``token_basis``
            give.
        complement: whether the values read the subspace alone, in place of all but it.
        layer: the layer, counted from 0.
        head: the only head that is changed, with those that share its values if queries are
            grouped; by default all of them.
        n_draws: draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        match: subspaces of the control, as `matched_spans` gives them.
        seed: seed of the draws.

    Raises:
        ModelError: the model has no such layer or head, or the basis is not orthonormal.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> model, data = known.model(), known.task.dataset(seed=0)
    >>> inputs = data.inputs(data.sample("rsn_train", 20))
    >>> basis = token_basis(model, inputs, "reasoning_anchor")
    >>> lost = subspace_effect(model, inputs, basis, metric="accuracy", n_draws=2)
    >>> bool(lost.values.mean() > 0.5)  # nothing is left of the anchors
    True
    """
    pair = PairedRun(model, metric, answer_at, inputs)
    check_layer_head(model, layer, head, "the value subspace")
    W_V = value_weights(model, layer).detach().clone()
    part = _projected(basis, W_V)
    d_model, k = basis.shape
    if match is None:
        rng = np.random.default_rng([seed, 12])
        match = Match("random subspace", list(random_subspaces(n_draws, d_model, k, rng)))
    norm = part.double().norm(dim=(1, 2), keepdim=True)  # of each head
    changes = [part]
    for control_basis in match.bases:
        control = _projected(control_basis, W_V)
        control_norm = control.double().norm(dim=(1, 2), keepdim=True)
        changes.append(control * (norm / control_norm.clamp_min(TINY)).to(part))
    runs = []
    for change in changes:
        with _with_values(model, layer, head, change if complement else W_V - change):
            runs.append(pair.run())
    name = f"values {'read only' if complement else 'without'} {k} dimensions"
    site = f"W_V.{layer}" if head is None else f"W_V.{layer}.{head}"
    return pair.effect(name, site, runs, f"{match.name}, change of the same norm")


@checked
@contextmanager
def with_subspace(
    model: HookedModel,
    basis: Basis,
    *,
    complement: bool = False,
    layer: int = 0,
    head: int | None = None,
) -> Iterator[HookedModel]:
    """A context in which a layer's values do not read a subspace, or with ``complement`` nothing else.

    Args:
        model: any model with TransformerLens's hooks.
        basis: orthonormal columns ``[d_model, k]``.
        complement: whether the values read the subspace alone.
        layer: the layer, counted from 0.
        head: the only head that is changed; by default all of them.

    Raises:
        ModelError: the model has no such layer or head, or the basis is not orthonormal.
    """
    W_V = value_weights(model, layer).detach()
    part = _projected(basis, W_V)
    with _with_values(model, layer, head, part if complement else W_V - part):
        yield model


def _with_values(
    model: HookedModel, layer: int, head: int | None, values: Tensor
) -> AbstractContextManager[None]:
    """A context in which W_V ``[head, d_model, d_head]`` is another, in one head or in all."""
    check_layer_head(model, layer, head, "the value subspace")
    W_V = value_weights(model, layer)
    heads = slice(None) if head is None else head * len(W_V) // model.cfg.n_heads
    return replaced(W_V[heads], values[heads])


def _projected(basis: Basis, W_V: Tensor) -> Tensor:
    """U U^T W_V of every head."""
    U = torch.as_tensor(np.asarray(basis, dtype=np.float64), device=W_V.device)
    d_model = W_V.shape[-2]
    if len(U) != d_model:
        raise ModelError(f"the basis has {len(U)} coordinates; this model has d_model={d_model}.")
    identity = torch.eye(U.shape[1], dtype=U.dtype, device=U.device)
    if not torch.allclose(U.T @ U, identity, atol=1e-5):
        raise ModelError("the basis is not orthonormal; span(vectors) gives one that is.")
    return (U @ (U.T @ W_V.double())).to(W_V)
