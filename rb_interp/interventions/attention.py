r"""What is lost when an attention pattern is replaced by a fixed one or by another model's.

    forced_average       L0's pattern is exactly 1/i in every head (claim M10)
    forced_pattern_of    ... or what another model attends to on the same inputs
    average_beside       exactly 1/i, beside what other models attend to on the same inputs

Controls. For forced patterns: random patterns, each one for all inputs, as attention by position is: row i is the
softmax of Gaussian logits, scaled so that its entropy is exactly the one asked for. They are as sharp as the pattern
that they are compared with, and look at other positions. For ``average_beside``: patterns of other models that do the
same work, such as members of the same circuit. A cost that these have too is that of any change of pattern; one that
they do not have is that of the average.

How it can mislead. M10 asks that the average costs at most .10 nats and the control at least .20 more, so here the
control is to hurt *more* than the effect, and the p-value of the effect is near 1. Where attention is uniform already,
forcing the average changes nothing, so an untrained model loses 0 nats. A model that does not use the layer loses
nothing either; then the control costs nothing too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import entr, softmax
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.answers import AnswerAt, Cost
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.metrics import Measured
from rb_interp.interventions.sites import Edit, Site
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.probes.averaging import average_operator
from rb_interp.probes.capturing import Tokens, capture
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = [
    "average_beside",
    "forced_average",
    "forced_pattern",
    "forced_pattern_of",
    "pattern_of",
    "random_patterns",
    "row_entropies",
]

CONTROL = "random fixed pattern of the same entropy"
BESIDE = "pattern of another model on the same inputs"
STEPS = 80
"""Halvings of the search for an entropy: below the spacing of doubles."""
TOLERANCE = 1e-6
"""Entropies this far outside what a row can have count as rounding."""


def forced_pattern(
    model: HookedModel, pattern: np.ndarray | Tensor, *, layer: int = 0, head: int | None = None
) -> list[Edit]:
    """Edits that set a layer's attention pattern, for the context ``with_edits(model, edits)`` and for ``last_logits``.

    Args:
        pattern: ``[query, key]`` or ``[head, query, key]`` for all inputs, ``[row, head, query, key]`` for each.
        head: the only head whose pattern is set; by default all of them.

    Raises ModelError for a layer or head that is not there, another shape, or a pattern that looks ahead.
    """
    site = Site("pattern", layer, head=head)
    site.check(model)
    wanted, heads = torch.as_tensor(pattern), model.cfg.n_heads
    *lead, n_queries, n_keys = wanted.shape if wanted.ndim in (2, 3, 4) else (0, 0, 0)
    if n_queries != n_keys or (lead and lead[-1] not in (1, heads)):
        raise ModelError(
            f"got a pattern of shape {list(wanted.shape)}; expected [query, key], [head, query, key] or "
            f"[row, head, query, key], as many queries as keys, and {heads} or 1 in place of head."
        )
    if wanted.triu(1).any():
        raise ModelError("the pattern attends to later positions; rows are queries, columns keys, later ones 0.")

    def change(activation: Tensor, rows: Int[Tensor, " batch"]) -> Tensor:
        if activation.shape[-1] != n_keys:
            raise ModelError(f"the pattern has {n_keys} positions, the rows have {activation.shape[-1]}.")
        new = (wanted[rows] if wanted.ndim == 4 else wanted).to(activation).expand_as(activation)
        if head is None:
            return new.clone()
        changed = activation.clone()
        changed[:, head] = new[:, head]
        return changed

    return [Edit(site.hook, change)]


@typed
@few_threads
def row_entropies(
    model: HookedModel, tokens: Tokens, *, layer: int = 0, head: int | None = None
) -> Float[np.ndarray, "*head query"]:
    """Entropy of each query's attention in nats, mean over inputs, from 0 (one position) to ln i at query i.

    ``[query]`` for one head, ``[head, query]`` for all of them.
    """
    site = Site("pattern", layer, head=head)
    site.check(model)
    entropies = entr(capture(model, tokens, [site.hook])[site.hook].double().numpy()).sum(-1).mean(0)
    return entropies if head is None else entropies[head]


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
    length = entropies.shape[-1]
    most = np.log(np.arange(1, length + 1))
    if not ((entropies >= -TOLERANCE) & (entropies <= most + TOLERANCE)).all():
        raise ModelError(
            f"got entropies from {np.min(entropies):.3g} to {np.max(entropies):.3g} nats; "
            f"query i (from 1) sees i positions, so its entropy lies between 0 and ln i."
        )
    seen = np.tri(length, dtype=bool)
    logits = rng.standard_normal((*entropies.shape, length))
    logits -= np.where(seen, logits, -np.inf).max(-1, keepdims=True)

    def rows(scale: np.ndarray) -> np.ndarray:
        return softmax(np.where(seen, logits * scale[..., None], -np.inf), axis=-1)

    low, high = np.zeros(entropies.shape), np.ones(entropies.shape)
    while (short := entr(rows(high)).sum(-1) > np.maximum(entropies, 0)).any():
        high[short] *= 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        too_even = entr(rows(middle)).sum(-1) > entropies
        low, high = np.where(too_even, middle, low), np.where(too_even, high, middle)
    return rows(high)


@typed
@few_threads
def forced_average(
    model: HookedModel,
    inputs: Inputs,
    entropies: Float[np.ndarray, "*head query"],
    *,
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
        layer: the layer, counted from 0. head: the only head that is forced; by default all of them.
        n_draws, seed: number of random patterns of the control, and their seed.
        metric: in place of nats, a name or a function, see ``interventions.metrics``. answer_at: where it is read.

    Raises:
        ModelError: for a layer, head or metric that is not there, and for entropies of other sizes.

    Source: paper 1, Fig. 6 ("average operator").
    """
    hooked(model, "forced_average")
    average = average_operator(inputs.tokens.shape[1])
    control = _control_patterns(model, inputs, entropies, head, n_draws, seed)
    cost = Cost(model, inputs, metric, "forced_average", answer_at)
    return _forced("attention forced to 1/i", model, cost, layer, head, [average, *control])


@typed
@few_threads
def forced_pattern_of(
    model: HookedModel,
    other: HookedModel,
    inputs: Inputs,
    *,
    layer: int = 0,
    head: int | None = None,
    n_draws: int = 20,
    metric: Measured = "loss",
    answer_at: AnswerAt = None,
    seed: int = 0,
) -> Effect:
    """Nats that each input loses when a layer attends as another model's does on the same input; unbounded.

    The random patterns have the other model's entropies; ``metric`` and ``answer_at`` are those of `forced_average`.
    Raises ModelError for a layer or head that either lacks, and for another number of heads.
    """
    site = Site("pattern", layer, head=head)
    site.check(other)
    if model.cfg.n_heads != other.cfg.n_heads:
        raise ModelError(
            f"this model has {model.cfg.n_heads} heads, the other {other.cfg.n_heads}; compare models with as many."
        )
    pattern = pattern_of(other, inputs.tokens, layer=layer)
    entropies = row_entropies(other, inputs.tokens, layer=layer, head=head)
    control = _control_patterns(model, inputs, entropies, head, n_draws, seed)
    cost = Cost(model, inputs, metric, "forced_pattern_of", answer_at)
    return _forced("attention of another model", model, cost, layer, head, [pattern, *control])


@few_threads
def pattern_of(model: HookedModel, tokens: Tokens, *, layer: int = 0) -> Float[Tensor, "row head query key"]:
    """What every head of a layer attends to, for ``forced_pattern`` and ``average_beside``.

    Raises ModelError for a layer that is not there.
    """
    site = Site("pattern", layer)
    site.check(model)
    return capture(model, tokens, [site.hook])[site.hook]


@typed
@few_threads
def average_beside(
    model: HookedModel,
    inputs: Inputs,
    patterns: Sequence[np.ndarray | Tensor],
    *,
    layer: int = 0,
    metric: Measured = "loss",
    answer_at: AnswerAt = None,
) -> Effect:
    """Nats that each input loses when a layer's attention is exactly 1/i, beside given patterns; unbounded.

    Args:
        inputs: rows, with labels where the metric asks for them.
        patterns: one for each draw of the control, as ``pattern_of`` gives them for other models on the same inputs.
        metric, answer_at: as for `forced_average`.

    Raises ModelError for a layer that is not there, and for patterns of another shape.
    """
    average = average_operator(inputs.tokens.shape[1])
    cost = Cost(model, inputs, metric, "average_beside", answer_at)
    return _forced("attention forced to 1/i", model, cost, layer, None, [average, *patterns], BESIDE)


def _control_patterns(
    model: HookedModel, inputs: Inputs, entropies: np.ndarray, head: int | None, n_draws: int, seed: int
) -> Float[np.ndarray, "draw head query key"]:
    """Random patterns for each head, the same for all inputs; one head's stands in every head's place."""
    shape = (1 if head is not None else model.cfg.n_heads, inputs.tokens.shape[1])
    given = np.asarray(entropies, dtype=np.float64)
    if given.shape not in (shape, shape[1:]):
        raise ModelError(
            f"got entropies of shape {list(given.shape)}; expected [{shape[1]}], one for each position, "
            f"or [{shape[0]}, {shape[1]}], for each head."
        )
    return random_patterns(np.broadcast_to(given, (n_draws, *shape)), np.random.default_rng([seed, 10]))


def _forced(
    name: str,
    model: HookedModel,
    cost: Cost,
    layer: int,
    head: int | None,
    patterns: Iterable[np.ndarray | Tensor],
    control_name: str = CONTROL,
) -> Effect:
    runs = (cost.logits(forced_pattern(model, pattern, layer=layer, head=head)) for pattern in patterns)
    return cost.effect(name, str(Site("pattern", layer, head=head)), runs, control_name)
