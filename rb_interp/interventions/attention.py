r"""What is lost when a pattern is replaced, a look is blocked, or values cannot read a subspace, or
nothing else.

`forced_average` makes a layer's pattern exactly 1/i in every head (claim M10), or gives it another
pattern, such as what another model attends to on the same inputs (``pattern=pattern_of(other,
tokens)``). Controls are random patterns, each one for all inputs: row i is the softmax of Gaussian
logits, scaled to exactly the entropy asked for. They are as sharp as the pattern that they are
compared with, and look at other positions. Or, ``beside``, patterns of other models that do the
same work: a cost that these have too is that of any change of pattern.

How it can mislead. M10 asks that the average costs at most .10 nats and the control at least .20
more, so here the control is to hurt *more* than the effect, and p is near 1. Where attention is
uniform already, as in an untrained model, or where the layer is not used, the average costs
nothing.

Blocked attention: a query cannot attend to some positions; their attention is 0, and the rest is
scaled to sum to 1. Control: as many of the row's noise positions blocked, chosen at random, or
others where no role is called noise. It can mislead: what other heads or layers also bring does not
show when one look is blocked.

Subspaces, in the convention x W_V, with U an orthonormal basis [d_model, k]:

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

It can mislead: the norm of a change of W_V depends on the basis of the head's values, and so do a
control and W_V's leading direction; the effect of a span of tokens does not. A large W_V direction
that nothing reads costs nothing to remove. Tokens that share a mean share their subspace too, so
bases are less the mean over all anchors and keys. k tokens span k dimensions, however little lies
in most of them. With LayerNorm before the attention, token vectors are LayerNorm's output; what
earlier layers write is in them for layers above the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import entr, softmax
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions import sites
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.metrics import AnswerAt, MetricLike
from rb_interp.interventions.paired_run import PairedRun
from rb_interp.interventions.sites import Edit, Site
from rb_interp.models.protocol import HookedModel, value_weights
from rb_interp.models.structure import visible
from rb_interp.probes._probe import check_attends, check_layer_head
from rb_interp.probes.activations import Tokens, capture
from rb_interp.probes.values import token_embeddings, token_groups
from rb_interp.statistics.nulls import random_subspaces
from rb_interp.tasks.inputs import Inputs

__all__ = [
    "Match",
    "blocked_attention",
    "blocked_edits",
    "forced_average",
    "forced_pattern",
    "leading",
]
__all__ += [
    "matched_spans",
    "pattern_of",
    "random_patterns",
    "row_entropies",
    "span",
    "subspace_effect",
]
__all__ += ["token_basis", "with_subspace"]

Places = Int[np.ndarray, "row _"]


def forced_pattern(
    model: HookedModel, pattern: np.ndarray | Tensor, *, layer: int = 0, head: int | None = None
) -> list[Edit]:
    """Edits that set a layer's attention pattern, for the context ``with_edits(model, edits)`` and
    for ``last_logits``.

    Args:
        pattern: ``[query, key]`` or ``[head, query, key]`` for all inputs, ``[row, head, query,
            key]`` for each.
    """
    site, wanted = Site("pattern", layer, unit=head), torch.as_tensor(pattern)
    site.check(model)
    if wanted[..., ~torch.from_numpy(visible(model, layer, wanted.shape[-1]))].any():
        raise ModelError(
            "the pattern attends to later positions; rows are queries, columns keys, later ones 0."
        )

    def change(activation: Tensor, rows: Int[Tensor, " batch"]) -> Tensor:
        heads, changed = slice(None) if head is None else head, activation.clone()
        new = (wanted[rows] if wanted.ndim == 4 else wanted).to(activation)
        changed[:, heads] = new.expand_as(changed)[:, heads]
        return changed

    return [Edit(site.hook, change, len(wanted) if wanted.ndim == 4 else None)]


@checked
@single_threaded
def pattern_of(
    model: HookedModel, tokens: Tokens, *, layer: int = 0
) -> Float[Tensor, "row head query key"]:
    """What every head of a layer attends to.

    Args:
        model: any model with TransformerLens's hooks.
        tokens: integers ``[row, pos]``.
        layer: the layer, counted from 0.
    """
    site = Site("pattern", layer)
    site.check(model)
    pattern = capture(model, tokens, [site.hook])[site.hook]
    if not (attends := pattern.any(-1)).all():
        check_attends(model, attends.numpy())
    return pattern


def _seen(model: HookedModel, inputs: Inputs, layer: int) -> Bool[np.ndarray, "*row query key"]:
    """Which positions each query of a layer may attend to, without what attends to nothing: padding
    in front."""
    attends = pattern_of(model, inputs.tokens, layer=layer).any(-1).any(1).numpy()
    seen = visible(model, layer, attends.shape[1])
    return seen if attends.all() else seen & attends[:, None] & attends[..., None]


@checked
@single_threaded
def row_entropies(
    model: HookedModel, tokens: Tokens, *, layer: int = 0
) -> Float[np.ndarray, "head query"]:
    """Entropy of each query's attention, 0 (one position) to ln i nats at query i; mean over rows
    where it attends.

    Args:
        model: any model with TransformerLens's hooks.
        tokens: integers ``[row, pos]``.
        layer: the layer, counted from 0.
    """
    pattern = pattern_of(model, tokens, layer=layer).double().numpy()
    return entr(pattern).sum(-1).sum(0) / np.maximum(pattern.any(-1).sum(0), 1)


def random_patterns(
    entropies: Float[np.ndarray, "*lead query"],
    rng: np.random.Generator,
    seen: Bool[np.ndarray, "query key"] | None = None,
) -> Float[np.ndarray, "*lead query key"]:
    """Patterns with Gaussian logits, scaled so that every row has the entropy asked for, in nats.

    Row i can have any entropy from 0 to ln i; the first has no choice. ``seen``: what each query
    may attend to, by default what is not later.

    >>> pattern = random_patterns(np.array([0.0, np.log(2), 0.5]), np.random.default_rng(0))
    >>> entr(pattern).sum(1).round(9).tolist()
    [0.0, 0.693147181, 0.5]
    """
    length = entropies.shape[-1]
    seen = np.tri(length, dtype=bool) if seen is None else seen
    most = np.log(seen.sum(1))
    if not (
        (entropies >= -1e-6) & (entropies <= most + 1e-6)
    ).all():  # further outside is no rounding
        raise ModelError(
            "query i (from 1) sees i positions, so its entropy lies between 0 and ln i nats."
        )
    logits = rng.standard_normal((*entropies.shape, length))
    logits -= np.where(seen, logits, -np.inf).max(-1, keepdims=True)

    def rows(scale: np.ndarray) -> np.ndarray:
        return softmax(np.where(seen, logits * scale[..., None], -np.inf), axis=-1)

    low, high = np.zeros(entropies.shape), np.ones(entropies.shape)
    while (short := entr(rows(high)).sum(-1) > np.maximum(entropies, 0)).any():
        high[short] *= 2
    for _ in range(80):  # below the spacing of doubles
        middle = (low + high) / 2
        too_even = entr(rows(middle)).sum(-1) > entropies
        low, high = np.where(too_even, middle, low), np.where(too_even, high, middle)
    return rows(high)


@checked
@single_threaded
def forced_average(
    model: HookedModel,
    inputs: Inputs,
    entropies: Float[np.ndarray, "*head query"] | None = None,
    *,
    pattern: np.ndarray | Tensor | None = None,
    beside: Sequence[np.ndarray | Tensor] = (),
    layer: int = 0,
    head: int | None = None,
    n_draws: int = 20,
    metric: MetricLike = "loss",
    answer_at: AnswerAt = None,
    seed: int = 0,
) -> Effect:
    """Nats that each input loses when a layer's attention is exactly 1/i; unbounded, 0 where it was
    so already.

    i counts the positions that a query sees: all of them in a bidirectional model, its window in a
    local one, and never padding in front.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if the metric asks for them, and with the roles that are named.
        layer: the layer, counted from 0.
        head: the only head that is changed; by default all of them.
        n_draws: draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        seed: seed of the draws.
        entropies: of each query in nats, those that the random patterns are to have;
            ``row_entropies`` of a model that does not average (M10: the member of larger
            initialisation). ``[query]`` or ``[head, query]``.
        pattern: what the layer attends to in place of 1/i. beside: patterns of the control in place
            of random ones.

    Source: paper 1, Fig. 6 ("average operator").
    """
    Site("pattern", layer, unit=head).check(model)
    length, control = inputs.tokens.shape[1], "pattern of another model on the same inputs"
    seen = _seen(model, inputs, layer)
    if entropies is not None:
        if seen.ndim == 3:
            raise ModelError(
                "rows with padding in front have no pattern in common; make one call for each "
                "length."
            )
        control, n_heads = (
            "random fixed pattern of the same entropy",
            1 if head is not None else model.cfg.n_heads,
        )
        wanted = np.broadcast_to(
            np.asarray(entropies, dtype=np.float64), (n_draws, n_heads, length)
        )
        beside = [*random_patterns(wanted, np.random.default_rng([seed, 10]), seen)]
    pair = PairedRun(model, metric, answer_at, inputs)
    average = seen / np.maximum(seen.sum(-1, keepdims=True), 1)
    every = [
        (average if seen.ndim == 2 else average[:, None]) if pattern is None else pattern,
        *beside,
    ]
    runs = (pair.run(forced_pattern(model, one, layer=layer, head=head)) for one in every)
    name = "attention forced to 1/i" if pattern is None else "attention of another model"
    return pair.effect(name, str(Site("pattern", layer, unit=head)), runs, control)


@checked
@single_threaded
def blocked_attention(
    model: HookedModel,
    inputs: Inputs,
    *,
    layer: int,
    query: str = "last",
    key: str = "key",
    head: int | None = None,
    metric: MetricLike = "loss",
    answer_at: AnswerAt = None,
    n_draws: int = 20,
    seed: int = 0,
) -> Effect:
    """What each input loses when one role cannot attend to another in a layer.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if the metric asks for them, and with the roles that are named.
        layer: the layer, counted from 0.
        head: the only head that is changed; by default all of them.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        n_draws: draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.
        seed: seed of the draws.
        query, key: roles, as in ``sites.positions``.

    The control blocks as many noise positions, among those that the query sees and other than the
    query where there are enough. Without a role ``noise`` it blocks positions that have neither of
    the two roles.
    """
    pair, rng = PairedRun(model, metric, answer_at, inputs), np.random.default_rng([seed, 11])
    queries, keys = (
        sites.site_positions(Site("pattern", layer, role), inputs).numpy() for role in (query, key)
    )
    Site("pattern", layer, unit=head).check(model)
    others, seen = _noise(inputs, queries, keys) if n_draws else keys, _seen(model, inputs, layer)
    seen = np.take_along_axis(
        np.broadcast_to(seen, (len(queries), *seen.shape[-2:])), queries[..., None], 1
    )
    hidden = ~np.take_along_axis(seen.any(1), others, 1)
    if few := int(((~hidden).sum(1) < keys.shape[1]).sum()):
        text = (
            f"in {few} rows it blocks positions that the query does not see, which changes nothing."
        )
        pair.notes |= {"control": text} if n_draws else {}
    blocked = [keys, *(_some(others, queries, hidden, keys.shape[1], rng) for _ in range(n_draws))]
    runs = [pair.run(blocked_edits(model, queries, at, layer=layer, head=head)) for at in blocked]
    name, site = (
        f"attention from {query} to {key} blocked",
        str(Site("pattern", layer, query, head)),
    )
    kind = "noise" if "noise" in inputs.roles.positions else "other"
    return pair.effect(name, site, runs, f"as many {kind} positions")


def blocked_edits(
    model: HookedModel, queries: Places, keys: Places, *, layer: int, head: int | None = None
) -> list[Edit]:
    """Edits that set each row's attention from some positions to others to 0 and scale the rest to
    sum to 1."""
    site = Site("pattern", layer, unit=head)
    site.check(model)

    def change(activation: Tensor, rows: Int[Tensor, " batch"]) -> Tensor:
        here, length = torch.arange(len(rows))[:, None], activation.shape[-1]
        query, key = torch.from_numpy(queries)[rows], torch.from_numpy(keys)[rows]
        closed = torch.zeros(len(rows), length, dtype=torch.bool)
        at = torch.cat([query.flatten(), key.flatten()])
        if at.numel() and not 0 <= at.min() <= at.max() < length:
            raise ModelError(
                f"got positions of queries or keys outside the rows, which have 0 to {length - 1}."
            )
        closed[here, key] = True
        seen, attends = (
            torch.from_numpy(visible(model, layer, length)),
            activation.any(-1).any(1).cpu(),
        )
        open_to = (seen[query] & ~closed[:, None] & attends[:, None]).to(
            activation
        )  # [row, n, key], no padding
        if not open_to.any(-1).all():
            raise ModelError(
                f"in L{layer} a query sees nothing but what is blocked; choose a later query."
            )
        kept = activation[here, :, query] * open_to[:, :, None]  # [row, n, head, key]
        kept = torch.where(
            kept.sum(-1, keepdim=True) > 0, kept, open_to[:, :, None].expand_as(kept)
        )
        new = kept / kept.sum(-1, keepdim=True)
        return sites.scatter(site, activation, query, new if head is None else new[:, :, head])

    return [Edit(site.hook, change, len(queries))]


def _noise(inputs: Inputs, queries: Places, keys: Places) -> Places:
    """Positions that a control may block: noise, or where there is no such role those without the
    two roles."""
    if "noise" in inputs.roles.positions:
        free = sites.positions(inputs, "noise")
    else:
        taken = np.concatenate([queries, keys], 1)
        is_free = (np.arange(inputs.tokens.shape[1])[None, :, None] != taken[:, None]).all(-1)
        free = np.argsort(~is_free, axis=1, kind="stable")[:, : int(is_free.sum(1).min())]
    if free.shape[1] < keys.shape[1]:
        raise RolesError(
            f"the control blocks {keys.shape[1]} positions of noise, but rows have "
            f"{free.shape[1]}; block a role with "
            f"fewer positions, or pass n_draws=0 for no control."
        )
    return free


def _some(
    others: Places, queries: Places, hidden: np.ndarray, count: int, rng: np.random.Generator
) -> Places:
    """So many of these positions at random: what a query sees first, then queries themselves, then
    hidden ones."""
    is_query = (others[:, :, None] == queries[:, None]).any(-1)
    order = rng.random(others.shape) + is_query + 2.0 * hidden
    return np.take_along_axis(others, order.argsort(1)[:, :count], 1)


RANK = 1e-6
"""Directions with less than this share of the largest singular value do not count as spanned."""
TINY = torch.finfo(torch.float64).tiny
Basis = Float[np.ndarray, "d_model k"]


class Match(NamedTuple):
    """Subspaces of a control that are drawn from what the model embeds: what they are, in words,
    and a basis a draw."""

    name: str
    bases: list[Basis]


def span(vectors: Float[np.ndarray, "n d_model"]) -> Basis:
    """Orthonormal basis of the span of vectors, strongest direction first; k is their rank.

    >>> span(np.array([[0.0, 3.0, 0.0], [0.0, 6.0, 0.0]])).round(6).__abs__().tolist()
    [[0.0], [1.0], [0.0]]
    """
    _, size, directions = np.linalg.svd(np.asarray(vectors, dtype=np.float64), full_matrices=False)
    if not (len(size) and size[0] > 0):
        raise ModelError("these vectors span nothing: give at least one that is not zero.")
    return directions[size > RANK * size[0]].T


def leading(W_V: Float[np.ndarray, "d_model d_head"], *, k: int = 1) -> Basis:
    """The first k left singular vectors of one head's value matrix: the directions that it reads
    most."""
    return np.linalg.svd(np.asarray(W_V, dtype=np.float64), full_matrices=False)[0][:, :k]


@checked
@single_threaded
def token_basis(
    model: HookedModel,
    inputs: Inputs,
    group: str | np.ndarray,
    *,
    layer: int = 0,
    head: int = 0,
    groups: Mapping | None = None,
) -> Basis:
    """Basis of the span of some tokens' embeddings, as a head reads them, less the mean over all
    tokens of ``groups``.

    Args:
        model: any model with TransformerLens's hooks.
        layer: the layer, counted from 0.
        inputs: rows, of which only the length is used, and roles that name the groups.
        group: a token group of the roles, or token ids.
        groups: name -> token ids, see ``probes.values.token_groups``; by default those of the
            roles.
        head: who reads the embeddings.
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
    groups: Mapping | None = None,
    seed: int = 0,
) -> Match:
    """Spans that the embedding does fill, for the control of another: of k random tokens of a
    group, none twice.

    Without a group, of k Gaussian directions with the covariance of the embeddings in use, for
    ``leading``. Other arguments are those of ``token_basis``.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if the metric asks for them, and with the roles that are named.
        n_draws: draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.
        layer: the layer, counted from 0.
        head: the only head that is changed; by default all of them.
        seed: seed of the draws.
    """
    vectors = _centred(model, inputs, group, layer, head, groups)
    if group is None:
        draws = (
            np.random.default_rng([seed, 16]).standard_normal((n_draws, k, len(vectors))) @ vectors
        )
        return Match("random direction within the embedding", [span(drawn) for drawn in draws])
    rng, words = (
        np.random.default_rng([seed, 15]),
        f"{group} tokens" if isinstance(group, str) else "tokens",
    )
    bases = [span(vectors[rng.choice(len(vectors), k, replace=False)]) for _ in range(n_draws)]
    return Match(f"span of as many random {words}", bases)


def _centred(
    model: HookedModel, inputs: Inputs, group: Any, layer: int, head: int, groups: Mapping | None
) -> Float[np.ndarray, "token d_model"]:
    """Embeddings of a group as a head reads them, less the mean over all tokens of the groups;
    None: of all of them."""
    over = np.concatenate(list(token_groups(groups, inputs.roles, "token_basis").values()))
    ids = (
        inputs.roles.group(group, "token_basis")
        if isinstance(group, str)
        else over
        if group is None
        else group
    )
    vectors = token_embeddings(
        model, np.concatenate([ids, over]), inputs.tokens.shape[1], layer, head
    )
    return vectors[: len(ids)] - vectors[len(ids) :].mean(0)


@checked
@single_threaded
def subspace_effect(
    model: HookedModel,
    inputs: Inputs,
    basis: Basis,
    *,
    keep: bool = False,
    layer: int = 0,
    head: int | None = None,
    n_draws: int = 20,
    metric: MetricLike = "loss",
    answer_at: AnswerAt = None,
    match: Match | None = None,
    seed: int = 0,
) -> Effect:
    """What each input loses without a subspace of a layer's value input, or with nothing else
    (``keep``).

    Control: random subspaces of the same dimension, or those of ``match``, whose change of W_V (for
    ``keep``: whose W_V) has the same Frobenius norm.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if the metric asks for them, and with the roles that are named.
        layer: the layer, counted from 0.
        n_draws: draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        seed: seed of the draws.
        basis: orthonormal columns ``[d_model, k]``, as ``span``, ``leading`` and ``token_basis``
            give.
        head: the only head that is changed, with those that share its values where queries are
            grouped.
    """
    pair = PairedRun(model, metric, answer_at, inputs)
    check_layer_head(model, layer, head, "the value subspace")
    W_V = value_weights(model, layer).detach().clone()
    part, (d_model, k) = _inside(basis, W_V), basis.shape
    if match is None:
        random = random_subspaces(n_draws, d_model, k, np.random.default_rng([seed, 12]))
        match = Match("random subspace", list(random))

    def run(other: Tensor) -> Tensor:
        """Logits without a part, or with nothing else, as large, head by head, as the effect's
        own."""
        own, its = (some.double().norm(dim=(1, 2), keepdim=True) for some in (part, other))
        scaled = other if other is part else other * (own / its.clamp_min(TINY)).to(part)
        with _with_values(model, layer, head, scaled if keep else W_V - scaled):
            return pair.run()

    runs = (run(some) for some in (part, *(_inside(Q, W_V) for Q in match.bases)))
    name, site = f"values {'read only' if keep else 'without'} {k} dimensions", f"W_V.{layer}"
    site += "" if head is None else f".{head}"
    return pair.effect(name, site, runs, f"{match.name}, change of the same norm")


@checked
@contextmanager
def with_subspace(
    model: HookedModel, basis: Basis, *, keep: bool = False, layer: int = 0, head: int | None = None
) -> Iterator[HookedModel]:
    """A context in which a layer's values do not read a subspace, or nothing else, in one head or
    in all."""
    W_V = value_weights(model, layer).detach()
    inside = _inside(basis, W_V)
    with _with_values(model, layer, head, inside if keep else W_V - inside):
        yield model


def _with_values(
    model: HookedModel, layer: int, head: int | None, new: Tensor
) -> AbstractContextManager[None]:
    """A context in which a layer's W_V ``[head, d_model, d_head]`` is another, in one head or in
    all."""
    check_layer_head(model, layer, head, "the value subspace")
    W_V = value_weights(model, layer)
    at = slice(None) if head is None else head * len(W_V) // model.cfg.n_heads
    return sites.replaced(W_V[at], new[at])


def _inside(basis: Basis, W_V: Tensor) -> Tensor:
    """U U^T W_V of every head."""
    U = torch.as_tensor(np.asarray(basis, dtype=np.float64), device=W_V.device)
    if not torch.allclose(
        U.T @ U, torch.eye(U.shape[1], dtype=U.dtype, device=U.device), atol=1e-5
    ):
        raise ModelError("the basis is not orthonormal; span(vectors) gives one that is.")
    return (U @ (U.T @ W_V.double())).to(W_V)
