r"""Attention changed: patterns replaced, and edges blocked.

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

`blocked_attention` shows what is lost if a query cannot attend to some positions. The blocked
attention is 0, and the rest is scaled to sum to 1. The control blocks as many of the row's noise
positions, chosen at random, or others if no role is called noise.

How it can mislead. What other heads or layers also bring does not show when one edge is blocked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import entr, softmax
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions import sites
from rb_interp.interventions.edits import Edit, scatter
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.metrics import AnswerAt, MetricLike
from rb_interp.interventions.paired_run import PairedRun
from rb_interp.interventions.sites import Site
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import visible
from rb_interp.probes.activations import TokenArray, capture, check_attends
from rb_interp.tasks.inputs import Inputs

__all__ = [
    "blocked_attention",
    "blocked_edits",
    "forced_average",
    "forced_pattern",
    "pattern_of",
    "random_patterns",
    "row_entropies",
]

Pattern = np.ndarray | Tensor
Positions = Int[np.ndarray, "row _"]


def forced_pattern(
    model: HookedModel, pattern: Pattern, *, layer: int = 0, head: int | None = None
) -> list[Edit]:
    """Edits that set a layer's attention pattern, for ``with_edits`` and ``last_logits``.

    Args:
        model: any model with TransformerLens's hooks.
        pattern: ``[query, key]`` or ``[head, query, key]`` for all inputs, ``[row, head, query,
            key]`` for each.
        layer: the layer, counted from 0.
        head: the only head that is changed; by default all of them.

    Raises:
        ModelError: the model has no such pattern, or it attends to what a query does not see.
    """
    site = Site("pattern", layer, unit=head)
    site.check(model)
    target = torch.as_tensor(pattern)
    hidden = ~torch.from_numpy(visible(model, layer, target.shape[-1]))
    if target[..., hidden].any():
        raise ModelError(
            "the pattern attends to later positions; rows are queries, columns keys, later ones 0."
        )
    of_each_row = target.ndim == 4
    heads = slice(None) if head is None else head

    def change(activation: Tensor, rows: Int[Tensor, " batch"]) -> Tensor:
        changed = activation.clone()
        new = target[rows] if of_each_row else target
        new = new.to(activation).expand_as(changed)
        changed[:, heads] = new[:, heads]
        return changed

    return [Edit(site.hook, change, len(target) if of_each_row else None)]


@checked
@single_threaded
def pattern_of(
    model: HookedModel, tokens: TokenArray, *, layer: int = 0
) -> Float[Tensor, "row head query key"]:
    """What every head of a layer attends to; each query's attention sums to 1.

    Args:
        model: any model with TransformerLens's hooks.
        tokens: integers ``[row, pos]``.
        layer: the layer, counted from 0.

    Raises:
        ModelError: the model has no such layer, or no attention there.
    """
    site = Site("pattern", layer)
    site.check(model)
    pattern = capture(model, tokens, [site.hook])[site.hook]
    attends = pattern.any(-1)
    if not attends.all():
        check_attends(model, attends.numpy())
    return pattern


@checked
@single_threaded
def row_entropies(
    model: HookedModel, tokens: TokenArray, *, layer: int = 0
) -> Float[np.ndarray, "head query"]:
    """Entropy of each query's attention, 0 (one position) to ln i nats at query i.

    It is the mean over the rows in which the query attends.

    Args:
        model: any model with TransformerLens's hooks.
        tokens: integers ``[row, pos]``.
        layer: the layer, counted from 0.

    Raises:
        ModelError: the model has no such layer, or no attention there.
    """
    pattern = pattern_of(model, tokens, layer=layer).double().numpy()
    n_attending = pattern.any(-1).sum(0)
    return entr(pattern).sum(-1).sum(0) / np.maximum(n_attending, 1)


def visible_positions(
    model: HookedModel, inputs: Inputs, layer: int
) -> Bool[np.ndarray, "*row query key"]:
    """Which positions each query of a layer may attend to.

    Padding in front attends to nothing and is attended by nothing: then each row has its own.
    """
    attends = pattern_of(model, inputs.tokens, layer=layer).any(-1).any(1).numpy()
    mask = visible(model, layer, attends.shape[1])
    if attends.all():
        return mask
    return mask & attends[:, None] & attends[..., None]


def random_patterns(
    entropies: Float[np.ndarray, "*lead query"],
    rng: np.random.Generator,
    mask: Bool[np.ndarray, "query key"] | None = None,
) -> Float[np.ndarray, "*lead query key"]:
    """Patterns with Gaussian logits, scaled so that every row has the entropy asked for, in nats.

    Args:
        entropies: of each row. Row i can have any from 0 to ln i; the first has no choice.
        rng: draws the logits.
        mask: what each query may attend to, by default what is not later.

    Raises:
        ModelError: a row cannot have its entropy.

    >>> pattern = random_patterns(np.array([0.0, np.log(2), 0.5]), np.random.default_rng(0))
    >>> entr(pattern).sum(1).round(9).tolist()
    [0.0, 0.693147181, 0.5]
    """
    length = entropies.shape[-1]
    if mask is None:
        mask = np.tri(length, dtype=bool)
    largest = np.log(mask.sum(1))
    possible = (entropies >= -1e-6) & (entropies <= largest + 1e-6)  # further off is no rounding
    if not possible.all():
        raise ModelError(
            "query i (from 1) sees i positions, so its entropy lies between 0 and ln i nats."
        )
    logits = rng.standard_normal((*entropies.shape, length))
    logits -= np.where(mask, logits, -np.inf).max(-1, keepdims=True)

    def patterns(scale: np.ndarray) -> np.ndarray:
        scaled = np.where(mask, logits * scale[..., None], -np.inf)
        return softmax(scaled, axis=-1)

    def too_even(scale: np.ndarray, target: np.ndarray) -> np.ndarray:
        return entr(patterns(scale)).sum(-1) > target

    low = np.zeros(entropies.shape)
    high = np.ones(entropies.shape)
    short = too_even(high, np.maximum(entropies, 0))
    while short.any():
        high[short] *= 2
        short = too_even(high, np.maximum(entropies, 0))
    for _ in range(80):  # below the spacing of doubles
        middle = (low + high) / 2
        even = too_even(middle, entropies)
        low = np.where(even, middle, low)
        high = np.where(even, high, middle)
    return patterns(high)


@checked
@single_threaded
def forced_average(
    model: HookedModel,
    inputs: Inputs,
    entropies: Float[np.ndarray, "*head query"] | None = None,
    *,
    pattern: Pattern | None = None,
    beside: Sequence[Pattern] = (),
    layer: int = 0,
    head: int | None = None,
    n_draws: int = 20,
    metric: MetricLike = "loss",
    answer_at: AnswerAt = None,
    seed: int = 0,
) -> Effect:
    """Nats that each input loses if a layer's attention is exactly 1/i; unbounded, 0 if it was so.

    i counts the positions that a query sees: all of them in a bidirectional model, its window in a
    local one, and never padding in front.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if the metric asks for them.
        entropies: of each query in nats, ``[query]`` or ``[head, query]``, those that the random
            patterns are to have; ``row_entropies`` of a model that does not average (M10: the
            member of larger initialisation).
        pattern: what the layer attends to in place of 1/i.
        beside: patterns of the control in place of random ones.
        layer: the layer, counted from 0.
        head: the only head that is changed; by default all of them.
        n_draws: draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        seed: seed of the draws.

    Raises:
        ModelError: the model has no such pattern, an entropy cannot be had, or entropies are given
            for rows with padding in front.

    Source: paper 1, Fig. 6 ("average operator").

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> model, data = known.model(), known.task.dataset(seed=0)
    >>> inputs = data.inputs(data.sample("rsn_train", 20))
    >>> bool(forced_average(model, inputs).values.mean() < 0.01)  # its L0 averages already
    True
    """
    site = Site("pattern", layer, unit=head)
    site.check(model)
    control = "pattern of another model on the same inputs"
    mask = visible_positions(model, inputs, layer)
    if entropies is not None:
        if mask.ndim == 3:
            raise ModelError(
                "rows with padding in front have no pattern in common; make one call for each "
                "length."
            )
        control = "random fixed pattern of the same entropy"
        n_heads = 1 if head is not None else model.cfg.n_heads
        shape = (n_draws, n_heads, inputs.tokens.shape[1])
        target = np.asarray(entropies, dtype=np.float64)
        if head is not None and target.ndim == 2:
            target = target[[head]]
        target = np.broadcast_to(target, shape)
        beside = [*random_patterns(target, np.random.default_rng([seed, 10]), mask)]
    pair = PairedRun(model, metric, answer_at, inputs)
    if pattern is None:
        name = "attention forced to 1/i"
        average = mask / np.maximum(mask.sum(-1, keepdims=True), 1)
        of_each_row = mask.ndim == 3
        patterns = [average[:, None] if of_each_row else average, *beside]
    else:
        name = "attention of another model"
        patterns = [pattern, *beside]
    for new in patterns:
        if np.ndim(new) == 4 and len(new) != len(inputs):
            raise ModelError(
                f"got patterns of {len(new)} rows for {len(inputs)} rows; give as many."
            )
    runs = [pair.run(forced_pattern(model, new, layer=layer, head=head)) for new in patterns]
    return pair.effect(name, str(site), runs, control)


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
    """What each input loses if one role cannot attend to another in a layer.

    The control blocks as many noise positions, among those that the query sees and other than the
    query if there are enough. Without a role ``noise`` it blocks positions that have neither of the
    two roles.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows, with labels if the metric asks for them, and with the two roles.
        layer: the layer, counted from 0.
        query: the role that cannot attend, as in ``sites.positions``.
        key: the role that it cannot attend to.
        head: the only head that is changed; by default all of them.
        metric: a name, such as ``logit_diff`` or ``loss`` (nats), or a function, see
            ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        n_draws: draws of the control, 0 for none; p cannot be below 1 / (1 + draws), .048 for 20.
        seed: seed of the draws.

    Raises:
        ModelError: the model has no such pattern, or a query would see nothing.
        RolesError: the rows have no such role, or too few positions for the control.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> model, data = known.model(), known.task.dataset(seed=0)
    >>> inputs = data.inputs(data.sample("rsn_train", 20))
    >>> lost = blocked_attention(model, inputs, layer=1, metric="accuracy", n_draws=2)
    >>> bool(lost.values.mean() > 0.5 > lost.control.mean())  # L1 attends to the key
    True
    """
    pair = PairedRun(model, metric, answer_at, inputs)
    rng = np.random.default_rng([seed, 11])
    queries = _role_positions(inputs, query, "query")
    keys = _role_positions(inputs, key, "key")
    Site("pattern", layer, unit=head).check(model)
    n_keys = keys.shape[1]
    blocked = [keys]
    if n_draws:
        candidates = control_positions(inputs, queries, keys)
        mask = visible_positions(model, inputs, layer)
        of_rows = np.broadcast_to(mask, (len(queries), *mask.shape[-2:]))
        seen_by_queries = np.take_along_axis(of_rows, queries[..., None], 1).any(1)
        hidden = ~np.take_along_axis(seen_by_queries, candidates, 1)
        n_few = int(((~hidden).sum(1) < n_keys).sum())
        if n_few:
            pair.notes["control"] = (
                f"in {n_few} rows it blocks positions that the query does not see, which changes "
                f"nothing."
            )
        for _ in range(n_draws):
            blocked.append(draw_positions(candidates, queries, hidden, n_keys, rng))
    edits = [blocked_edits(model, queries, keys, layer=layer, head=head) for keys in blocked]
    name = f"attention from {query} to {key} blocked"
    site = str(Site("pattern", layer, query, head))
    kind = "noise" if "noise" in inputs.roles.positions else "other"
    return pair.effect(name, site, map(pair.run, edits), f"as many {kind} positions")


def blocked_edits(
    model: HookedModel, queries: Positions, keys: Positions, *, layer: int, head: int | None = None
) -> list[Edit]:
    """Edits that set each row's attention from some positions to others to 0.

    The rest of these queries' attention is scaled to sum to 1.

    Args:
        model: any model with TransformerLens's hooks.
        queries: positions ``[row, n]``.
        keys: positions ``[row, m]``.
        layer: the layer, counted from 0.
        head: the only head that is changed; by default all of them.

    Raises:
        ModelError: the model has no such pattern; in a pass, positions outside the rows, or a query
            that sees nothing else.
    """
    site = Site("pattern", layer, unit=head)
    site.check(model)

    def change(activation: Tensor, rows: Int[Tensor, " batch"]) -> Tensor:
        query = torch.from_numpy(queries)[rows]
        key = torch.from_numpy(keys)[rows]
        length = activation.shape[-1]
        positions = torch.cat([query.flatten(), key.flatten()])
        if positions.numel() and not 0 <= positions.min() <= positions.max() < length:
            raise ModelError(
                f"got positions of queries or keys outside the rows, which have 0 to {length - 1}."
            )
        row = torch.arange(len(rows))[:, None]
        closed = torch.zeros(len(rows), length, dtype=torch.bool)
        closed[row, key] = True
        attends = activation.any(-1).any(1).cpu()  # no padding
        mask = torch.from_numpy(visible(model, layer, length))[query]
        is_open = (mask & ~closed[:, None] & attends[:, None]).to(activation)  # [row, n, key]
        if not is_open.any(-1).all():
            raise ModelError(
                f"in L{layer} a query sees nothing but what is blocked; choose a later query."
            )
        is_open = is_open[:, :, None]  # of all heads
        rest = activation[row, :, query] * is_open  # [row, n, head, key]
        has_rest = rest.sum(-1, keepdim=True) > 0
        rest = torch.where(has_rest, rest, is_open.expand_as(rest))
        new = rest / rest.sum(-1, keepdim=True)
        return scatter(site, activation, query, new if head is None else new[:, :, head])

    return [Edit(site.hook, change, len(queries))]


def control_positions(inputs: Inputs, queries: Positions, keys: Positions) -> Positions:
    """Positions that a control may block: other noise, or without such a role those of neither role.

    Raises:
        RolesError: there are fewer of them than keys.
    """
    position = np.arange(inputs.tokens.shape[1])[:, None]
    is_free = (position != keys[:, None]).all(-1)
    if "noise" in inputs.roles.positions:
        is_free &= (position == sites.positions(inputs, "noise")[:, None]).any(-1)
    else:
        is_free &= (position != queries[:, None]).all(-1)
    n_free = int(is_free.sum(1).min())
    if n_free < keys.shape[1]:
        raise RolesError(
            f"the control blocks {keys.shape[1]} positions of noise, but rows have {n_free} "
            f"others; block a role with fewer positions, or pass n_draws=0 for no control."
        )
    return np.argsort(~is_free, axis=1, kind="stable")[:, :n_free]


def draw_positions(
    candidates: Positions,
    queries: Positions,
    hidden: Bool[np.ndarray, "row candidate"],
    count: int,
    rng: np.random.Generator,
) -> Positions:
    """So many candidates at random: what a query sees first, then queries, then hidden ones."""
    is_query = (candidates[:, :, None] == queries[:, None]).any(-1)
    order = rng.random(candidates.shape) + is_query + 2.0 * hidden
    return np.take_along_axis(candidates, order.argsort(1)[:, :count], 1)


def _role_positions(inputs: Inputs, role: str, argument: str) -> Positions:
    """Positions of the role that an argument names."""
    try:
        return sites.positions(inputs, role)
    except RolesError as error:
        raise RolesError(f"name a role of these rows by {argument}=: {error}") from None
