r"""What is lost when an attention pattern is replaced by a fixed one or by another model's, or a look is blocked.

`forced_average` makes a layer's pattern exactly 1/i in every head (claim M10), or gives it another pattern, such as
what another model attends to on the same inputs (``pattern=pattern_of(other, tokens)``).

Controls. Random patterns, each one for all inputs, as attention by position is: row i is the softmax of Gaussian
logits, scaled so that its entropy is exactly the one asked for. They are as sharp as the pattern that they are compared
with, and look at other positions. Or, ``beside``, patterns of other models that do the same work, such as members of
the same circuit. A cost that these have too is that of any change of pattern; one that they do not have is that of the
average.

How it can mislead. M10 asks that the average costs at most .10 nats and the control at least .20 more, so here the
control is to hurt *more* than the effect, and the p-value of the effect is near 1. Where attention is uniform already,
forcing the average changes nothing, so an untrained model loses 0 nats. A model that does not use the layer loses
nothing either; then the control costs nothing too.

Blocked attention: a query cannot attend to some positions; their attention is 0, and the rest is scaled to sum to 1.
Control: as many of the row's noise positions blocked, chosen at random, or others where no role is called noise. It can
mislead: a query that attended to nothing but the blocked positions attends evenly to the rest, and what other heads or
layers also bring does not show when one look is blocked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import entr, softmax
from torch import Tensor

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.hooking import Edit
from rb_interp.interventions.metrics import AnswerAt, Comparison, Measured
from rb_interp.interventions.sites import Site, intervention, positions, scatter
from rb_interp.models.protocol import HookedModel
from rb_interp.probes._attention import average_operator
from rb_interp.probes.capturing import Tokens, capture
from rb_interp.tasks.inputs import Inputs

__all__ = ["blocked_attention", "forced_average", "forced_pattern", "pattern_of", "random_patterns", "row_entropies"]


def forced_pattern(
    model: HookedModel, pattern: np.ndarray | Tensor, *, layer: int = 0, head: int | None = None
) -> list[Edit]:
    """Edits that set a layer's attention pattern, for the context ``with_edits(model, edits)`` and for ``last_logits``.

    Args:
        pattern: ``[query, key]`` or ``[head, query, key]`` for all inputs, ``[row, head, query, key]`` for each.

    Raises ModelError for a layer or head that is not there, and for a pattern that looks ahead.
    """
    site, wanted = Site("pattern", layer, unit=head), torch.as_tensor(pattern)
    site.check(model)
    if wanted.triu(1).any():
        raise ModelError("the pattern attends to later positions; rows are queries, columns keys, later ones 0.")

    def change(activation: Tensor, rows: Int[Tensor, " batch"]) -> Tensor:
        new = (wanted[rows] if wanted.ndim == 4 else wanted).to(activation).expand_as(activation)
        if head is None:
            return new.clone()
        return activation.index_copy(1, torch.tensor([head], device=activation.device), new[:, head, None])

    return [Edit(site.hook, change, len(wanted) if wanted.ndim == 4 else None)]


@intervention
def pattern_of(model: HookedModel, tokens: Tokens, *, layer: int = 0) -> Float[Tensor, "row head query key"]:
    """What every head of a layer attends to. Raises ModelError for a layer that is not there."""
    site = Site("pattern", layer)
    site.check(model)
    return capture(model, tokens, [site.hook])[site.hook]


@intervention
def row_entropies(model: HookedModel, tokens: Tokens, *, layer: int = 0) -> Float[np.ndarray, "head query"]:
    """Entropy of each query's attention in nats, mean over inputs, from 0 (one position) to ln i at query i."""
    return entr(pattern_of(model, tokens, layer=layer).double().numpy()).sum(-1).mean(0)


def random_patterns(
    entropies: Float[np.ndarray, "*lead query"], rng: np.random.Generator
) -> Float[np.ndarray, "*lead query key"]:
    """Causal patterns with Gaussian logits, scaled so that every row has the entropy asked for, in nats.

    Row i can have any entropy from 0 to ln i; the first has no choice.

    >>> pattern = random_patterns(np.array([0.0, np.log(2), 0.5]), np.random.default_rng(0))
    >>> entr(pattern).sum(1).round(9).tolist()
    [0.0, 0.693147181, 0.5]

    Raises ModelError for entropies that a row cannot have.
    """
    most = np.log(np.arange(1, (length := entropies.shape[-1]) + 1))
    if not ((entropies >= -1e-6) & (entropies <= most + 1e-6)).all():  # further outside is no rounding
        raise ModelError(
            f"got entropies from {np.min(entropies):.3g} to {np.max(entropies):.3g} nats; query i (from 1) sees i "
            f"positions, so its entropy lies between 0 and ln i."
        )
    seen = np.tri(length, dtype=bool)
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


@intervention
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
    metric: Measured = "loss",
    answer_at: AnswerAt = None,
    seed: int = 0,
) -> Effect:
    """Nats that each input loses when a layer's attention is exactly 1/i; unbounded, 0 where it was so already.

    Args:
        inputs: rows, with labels where the metric asks for them.
        entropies: of each query in nats, those that the random patterns are to have; ``row_entropies`` of a model that
            does not average (M10: the member of larger initialisation). ``[query]`` or ``[head, query]``.
        pattern: what the layer attends to in place of 1/i, for instance ``pattern_of`` another model.
        beside: patterns of the control in place of random ones, for instance ``pattern_of`` other members.

    Raises ModelError for a layer, head or metric that is not there. Source: paper 1, Fig. 6 ("average operator").
    """
    length, control = inputs.tokens.shape[1], "pattern of another model on the same inputs"
    if entropies is not None:
        control, shape = (
            "random fixed pattern of the same entropy",
            (1 if head is not None else model.cfg.n_heads, length),
        )
        wanted = np.broadcast_to(np.asarray(entropies, dtype=np.float64), (n_draws, *shape))
        beside = [*random_patterns(wanted, np.random.default_rng([seed, 10]))]
    pair = Comparison(model, metric, answer_at, inputs)
    every = [average_operator(length) if pattern is None else pattern, *beside]
    runs = (pair.run(forced_pattern(model, one, layer=layer, head=head)) for one in every)
    name = "attention forced to 1/i" if pattern is None else "attention of another model"
    return pair.cost(name, str(Site("pattern", layer, unit=head)), runs, control)


@intervention
def blocked_attention(
    model: HookedModel,
    inputs: Inputs,
    *,
    layer: int,
    query: str = "last",
    key: str = "key",
    head: int | None = None,
    metric: Measured = "loss",
    answer_at: AnswerAt = None,
    n_draws: int = 20,
    seed: int = 0,
) -> Effect:
    """What each input loses when one role cannot attend to another in a layer.

    Args:
        inputs: rows with roles, and with labels where the metric asks for them.
        query, key: roles, as in ``sites.positions``.

    The control blocks as many noise positions, among those that the query sees and other than the query where there
    are enough. Without a role ``noise`` it blocks positions that have neither of the two roles.

    Raises ModelError where nothing is left to attend to, RolesError for missing roles, and for too little noise.
    """
    length, rng = inputs.tokens.shape[1], np.random.default_rng([seed, 11])
    queries, keys = (positions(inputs.roles, role, length) for role in (query, key))
    pair = Comparison(model, metric, answer_at, inputs)
    others = _noise(inputs, queries, keys) if n_draws else keys
    blocked = [keys, *(_some(others, queries, keys.shape[1], rng) for _ in range(n_draws))]
    runs = [pair.run(blocked_edits(model, queries, at, layer=layer, head=head)) for at in blocked]
    name, site = f"attention from {query} to {key} blocked", str(Site("pattern", layer, query, head))
    control = "as many noise positions" if "noise" in inputs.roles.positions else "as many other positions"
    return pair.cost(name, site, runs, control)


def blocked_edits(
    model: HookedModel,
    queries: Int[np.ndarray, "row n"],
    keys: Int[np.ndarray, "row m"],
    *,
    layer: int,
    head: int | None = None,
) -> list[Edit]:
    """Edits that set each row's attention from some positions to others to 0 and scale the rest to sum to 1."""
    site = Site("pattern", layer, unit=head)
    site.check(model)

    def change(activation: Tensor, rows: Int[Tensor, " batch"]) -> Tensor:
        here, length = torch.arange(len(rows))[:, None], activation.shape[-1]
        query, key = torch.from_numpy(queries)[rows], torch.from_numpy(keys)[rows]
        closed = torch.zeros(len(rows), length, dtype=torch.bool)
        closed[here, key] = True
        open_to = (torch.ones(length, length).tril().bool()[query] & ~closed[:, None]).to(activation)  # [row, n, key]
        if not open_to.any(-1).all():
            raise ModelError(f"in L{layer} a query sees nothing but what is blocked; choose a later query.")
        kept = activation[here, :, query] * open_to[:, :, None]  # [row, n, head, key]
        kept = torch.where(kept.sum(-1, keepdim=True) > 0, kept, open_to[:, :, None].expand_as(kept))
        new = kept / kept.sum(-1, keepdim=True)
        return scatter(site, activation, query, new if head is None else new[:, :, head])

    return [Edit(site.hook, change, len(queries))]


def _noise(
    inputs: Inputs, queries: Int[np.ndarray, "row n"], keys: Int[np.ndarray, "row m"]
) -> Int[np.ndarray, "row count"]:
    """Positions that a control may block: noise, or where there is no such role those without the two roles."""
    if "noise" in inputs.roles.positions:
        free = inputs.roles.position("noise")
    else:
        taken = np.concatenate([queries, keys], 1)
        is_free = (np.arange(inputs.tokens.shape[1])[None, :, None] != taken[:, None]).all(-1)
        free = np.argsort(~is_free, axis=1, kind="stable")[:, : int(is_free.sum(1).min())]
    if free.shape[1] < keys.shape[1]:
        raise RolesError(
            f"the control blocks {keys.shape[1]} positions of noise, but rows have {free.shape[1]}; block a role with "
            f"fewer positions, or pass n_draws=0 for no control."
        )
    return free


def _some(
    others: Int[np.ndarray, "row count"], queries: Int[np.ndarray, "row n"], count: int, rng: np.random.Generator
) -> Int[np.ndarray, "row some"]:
    """So many of these positions at random: those that a query sees first, then queries themselves, then later ones."""
    is_query = (others[:, :, None] == queries[:, None]).any(-1)
    order = rng.random(others.shape) + is_query + 2.0 * (others > queries.max(1, keepdims=True))
    return np.take_along_axis(others, order.argsort(1)[:, :count], 1)
