r"""What is lost when a layer's values cannot read a subspace of the residual stream, or can read nothing else?

In the convention x W_V, with U an orthonormal basis [d_model, k]:

    without:  W_V - U U^T W_V            only:  U U^T W_V

Where the paper's circuit is there (Fig. 6: the leading direction of L0's W_V is that of the reasoning anchors),
the reasoning answers are lost without the anchors' subspace, or without W_V's own leading direction, and hold with
nothing else. Bases: ``token_basis`` (the span of a group's embeddings as the head reads them), ``leading`` (W_V's
first left singular vectors), ``span`` of any vectors.

The control is a random subspace Q of the same dimension with a change of the same Frobenius norm, head by head:
without, W_V - c Q Q^T W_V with |c Q Q^T W_V| = |U U^T W_V|; only, c Q Q^T W_V of the same norm as U U^T W_V. A random
subspace holds little of W_V, so c is often above 1. Then the control reverses the sign of what W_V reads there.

A random subspace misses an embedding that fills few dimensions. Two controls do not; their change has the same norm
too (``matched_spans``): spans of as many random tokens of another group (claim M4b: keys), centred as the group is, or
Gaussian directions with the covariance of the embeddings in use.

How it can mislead. The norm of a change of W_V depends on the basis of the head's values. So a control depends on it,
and so does W_V's leading direction; the effect of a span of tokens does not. A large W_V direction that nothing reads
costs nothing to remove. Tokens that share a mean share their subspace too, so bases are less the mean over all anchors
and keys. k tokens span k dimensions, however little lies in most of them. With LayerNorm before the attention, token
vectors are LayerNorm's output; what earlier layers write is in them for layers above the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.hooking import replaced
from rb_interp.interventions.metrics import AnswerAt, Comparison, Measured
from rb_interp.interventions.sites import intervention
from rb_interp.models.generations import value_weights
from rb_interp.models.protocol import HookedModel
from rb_interp.probes._probe import check_layer_head
from rb_interp.probes.values import token_embeddings, token_groups
from rb_interp.statistics.nulls import random_subspaces
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

__all__ = ["Match", "leading", "matched_spans", "span", "subspace_effect", "token_basis", "with_subspace"]

RANK = 1e-6
"""Directions with less than this share of the largest singular value do not count as spanned."""

TINY = torch.finfo(torch.float64).tiny

Basis = Float[np.ndarray, "d_model k"]


class Match(NamedTuple):
    """Subspaces of a control that are drawn from what the model embeds: what they are, in words, and a basis a draw."""

    name: str
    bases: list[Basis]


def span(vectors: Float[np.ndarray, "n d_model"]) -> Basis:
    """Orthonormal basis of the span of vectors, strongest direction first; k is their rank.

    >>> span(np.array([[0.0, 3.0, 0.0], [0.0, 6.0, 0.0]])).round(6).__abs__().tolist()
    [[0.0], [1.0], [0.0]]

    Raises ModelError where all vectors are zero.
    """
    _, size, directions = np.linalg.svd(np.asarray(vectors, dtype=np.float64), full_matrices=False)
    if not (len(size) and size[0] > 0):
        raise ModelError("these vectors span nothing: give at least one that is not zero.")
    return directions[size > RANK * size[0]].T


def leading(W_V: Float[np.ndarray, "d_model d_head"], *, k: int = 1) -> Basis:
    """The first k left singular vectors of one head's value matrix: the directions that it reads most."""
    return np.linalg.svd(np.asarray(W_V, dtype=np.float64), full_matrices=False)[0][:, :k]


@intervention
def token_basis(
    model: HookedModel,
    inputs: Inputs,
    group: str | np.ndarray,
    *,
    layer: int = 0,
    head: int = 0,
    groups: Mapping | None = None,
) -> Basis:
    """Basis of the span of some tokens' embeddings, as a head reads them, less the mean over all tokens of ``groups``.

    Args:
        inputs: rows, of which only the length is used, and roles that name the groups.
        group: a token group of the roles, or token ids.
        groups: name -> token ids, see ``probes.values.token_groups``; by default those of the roles.
        head: who reads the embeddings.
    """
    return span(_centred(model, inputs, group, layer, head, groups))


@intervention
def matched_spans(
    model: HookedModel,
    inputs: Inputs,
    k: int = 1,
    *,
    group: str | np.ndarray | None = None,
    n_draws: int = 20,
    layer: int = 0,
    head: int = 0,
    groups: Mapping | None = None,
    seed: int = 0,
) -> Match:
    """Spans that the embedding does fill, for the control of another: of k random tokens of a group, none twice.

    Without a group, of k Gaussian directions with the covariance of the embeddings in use, for ``leading``.

    Args:
        group, groups, head: as for ``token_basis``.
    """
    vectors = _centred(model, inputs, group, layer, head, groups)
    if group is None:
        draws = np.random.default_rng([seed, 16]).standard_normal((n_draws, k, len(vectors))) @ vectors
        return Match("random direction within the embedding", [span(drawn) for drawn in draws])
    rng, words = np.random.default_rng([seed, 15]), f"{group} tokens" if isinstance(group, str) else "tokens"
    bases = [span(vectors[rng.choice(len(vectors), k, replace=False)]) for _ in range(n_draws)]
    return Match(f"span of as many random {words}", bases)


def _centred(
    model: HookedModel, inputs: Inputs, group: str | np.ndarray | None, layer: int, head: int, groups: Mapping | None
) -> Float[np.ndarray, "token d_model"]:
    """Embeddings of a group as a head reads them, less the mean over all tokens of the groups; None: of all of them."""
    over = np.concatenate(list(token_groups(groups, inputs.roles, "token_basis").values()))
    ids = inputs.roles.group(group, "token_basis") if isinstance(group, str) else over if group is None else group
    vectors = token_embeddings(model, np.concatenate([ids, over]), inputs.tokens.shape[1], layer, head)
    return vectors[: len(ids)] - vectors[len(ids) :].mean(0)


@intervention
def subspace_effect(
    model: HookedModel,
    inputs: Inputs,
    basis: Basis,
    *,
    keep: bool = False,
    layer: int = 0,
    head: int | None = None,
    n_draws: int = 20,
    metric: Measured = "loss",
    answer_at: AnswerAt = None,
    match: Match | None = None,
    seed: int = 0,
) -> Effect:
    """What each input loses without a subspace of a layer's value input, or with nothing else (``keep``).

    Control: random subspaces of the same dimension, or those of ``match``, whose change of W_V (for ``keep``: whose
    W_V) has the same Frobenius norm.

    Args:
        inputs: rows, with labels where the metric asks for them.
        basis: orthonormal columns ``[d_model, k]``, as ``span``, ``leading`` and ``token_basis`` give.
        keep: whether the values read nothing but the subspace, instead of all but it.
        head: the only head that is changed, with those that share its values where queries are grouped.
        match: the control's subspaces in place of random ones, from ``matched_spans``.

    Raises ModelError for a basis that is not orthonormal, and for a derived W_V.
    """
    pair = Comparison(model, metric, answer_at, inputs)
    check_layer_head(model, layer, head, "the value subspace")
    W_V = value_weights(model, layer).detach().clone()
    part, (d_model, k) = _inside(basis, W_V), basis.shape
    if match is None:
        random = random_subspaces(n_draws, d_model, k, np.random.default_rng([seed, 12]))
        match = Match("random subspace", list(random))

    def norms(part: Tensor) -> Tensor:
        return part.double().norm(dim=(1, 2), keepdim=True)

    def run(other: Tensor) -> Tensor:
        """Logits without a part, or with nothing else, as large, head by head, as the effect's own."""
        scaled = other if other is part else other * (norms(part) / norms(other).clamp_min(TINY)).to(part)
        with _with_values(model, layer, head, scaled if keep else W_V - scaled):
            return pair.run()

    runs = (run(some) for some in (part, *(_inside(Q, W_V) for Q in match.bases)))
    name, site = f"values {'read only' if keep else 'without'} {k} dimensions", f"W_V.{layer}"
    control = f"{match.name}, change of the same norm"
    return pair.cost(name, site + ("" if head is None else f".{head}"), runs, control)


@typed
@contextmanager
def with_subspace(
    model: HookedModel, basis: Basis, *, keep: bool = False, layer: int = 0, head: int | None = None
) -> Iterator[HookedModel]:
    """A context in which a layer's values do not read a subspace, or nothing else, in one head or in all.

    Raises ModelError for a basis that is not orthonormal, and for a derived W_V.
    """
    W_V = value_weights(model, layer).detach()
    inside = _inside(basis, W_V)
    with _with_values(model, layer, head, inside if keep else W_V - inside):
        yield model


def _with_values(model: HookedModel, layer: int, head: int | None, new: Tensor) -> AbstractContextManager[None]:
    """A context in which a layer's W_V ``[head, d_model, d_head]`` is another, in one head or in all."""
    check_layer_head(model, layer, head, "the value subspace")
    W_V = value_weights(model, layer)
    at = slice(None) if head is None else head * len(W_V) // model.cfg.n_heads
    return replaced(W_V[at], new[at])


def _inside(basis: Basis, W_V: Tensor) -> Tensor:
    """U U^T W_V of every head."""
    U = torch.as_tensor(np.asarray(basis, dtype=np.float64), device=W_V.device)
    if not torch.allclose(U.T @ U, torch.eye(U.shape[1], dtype=U.dtype, device=U.device), atol=1e-5):
        raise ModelError("the basis is not orthonormal; span(vectors) gives one that is.")
    return (U @ (U.T @ W_V.double())).to(W_V)
