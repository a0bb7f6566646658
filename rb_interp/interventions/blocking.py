r"""What is lost when a query cannot attend to some positions: their attention is 0, and the rest is scaled to sum to 1.

Control: as many of the row's noise positions blocked, chosen at random, or others where no role is called noise.

How it can mislead. A query that attended to nothing but the blocked positions attends evenly to the rest. What other
heads or layers also bring does not show when one look is blocked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions.answers import AnswerAt, Cost, answer_logits
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.metrics import Measured
from rb_interp.interventions.sites import Edit, Site, positions
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["blocked_attention", "blocked_attention_costs"]

BLOCKED = "as many noise positions"


@typed
@few_threads
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
        layer: the layer, counted from 0. head: the only head that is blocked; by default all of them.
        query, key: roles, as in ``sites.positions``.
        metric, answer_at: as for `forced_average`.
        n_draws, seed: draws of the control, and their seed; p cannot be below 1 / (1 + draws), .048 for 20.

    The control blocks as many noise positions, among those that the query sees and other than the query where there
    are enough. Without a role ``noise`` it blocks positions that have neither of the two roles.

    Raises:
        ModelError: where nothing is left to attend to.
        RolesError: for missing roles, and for too little noise.
    """
    hooked(model, "blocked_attention")
    asked = {"layer": layer, "query": query, "key": key, "head": head, "n_draws": n_draws, "seed": seed}
    (found,) = blocked_attention_costs(model, inputs, (metric,), answer_at=answer_at, **asked).values()
    return found


@typed
@few_threads
def blocked_attention_costs(
    model: HookedModel,
    inputs: Inputs,
    metrics: Sequence[Measured] = ("loss", "accuracy"),
    *,
    layer: int,
    query: str = "last",
    key: str = "key",
    head: int | None = None,
    answer_at: AnswerAt = None,
    n_draws: int = 5,
    seed: int = 0,
) -> dict[str, Effect]:
    """`blocked_attention` in several metrics, from the same runs: quantity, such as ``loss_increase`` -> effect.

    ``n_draws`` of the control: 5 give its mean, and no p below .17. All else is as for `blocked_attention`.
    """
    length = inputs.tokens.shape[1]
    queries, keys = (positions(inputs.roles, role, length, "blocked_attention") for role in (query, key))
    rng = np.random.default_rng([seed, 11])
    before = answer_logits(model, inputs, (), answer_at, "blocked_attention")
    costs = [Cost(model, inputs, metric, "blocked_attention", answer_at, before) for metric in metrics]
    others = _noise(inputs, queries, keys) if n_draws else keys
    blocked = [keys, *(_some(others, queries, keys.shape[1], rng) for _ in range(n_draws))]
    runs = [costs[0].logits(blocked_edits(model, queries, at, layer=layer, head=head)) for at in blocked]
    name, site = f"attention from {query} to {key} blocked", str(Site("pattern", layer, query, head))
    control = BLOCKED if "noise" in inputs.roles.positions else "as many other positions"
    return {cost.quantity: cost.effect(name, site, runs, control) for cost in costs}


def blocked_edits(
    model: HookedModel,
    queries: Int[np.ndarray, "row n"],
    keys: Int[np.ndarray, "row m"],
    *,
    layer: int,
    head: int | None = None,
) -> list[Edit]:
    """Edits that set each row's attention from some positions to others to 0 and scale the rest to sum to 1.

    Raises ModelError where a query sees nothing but what is blocked.
    """
    site = Site("pattern", layer, head=head)
    site.check(model)

    def change(activation: Tensor, rows: Int[Tensor, " batch"]) -> Tensor:
        here = torch.arange(len(rows))[:, None]
        length = activation.shape[-1]
        query, key = torch.from_numpy(queries)[rows], torch.from_numpy(keys)[rows]
        closed = torch.zeros(len(rows), length, dtype=torch.bool)
        closed[here, key] = True
        open_to = (torch.ones(length, length).tril().bool()[query] & ~closed[:, None]).to(activation)  # [row, n, key]
        if not open_to.any(-1).all():
            raise ModelError(
                f"in L{layer} a query sees nothing but what is blocked; choose a later query or fewer keys."
            )
        changed = activation.clone()
        kept = activation[here, :, query] * open_to[:, :, None]  # [row, n, head, key]
        kept = torch.where(kept.sum(-1, keepdim=True) > 0, kept, open_to[:, :, None].expand_as(kept))
        new = kept / kept.sum(-1, keepdim=True)
        if head is None:
            changed[here, :, query] = new
        else:
            changed[here, head, query] = new[:, :, head]
        return changed

    return [Edit(site.hook, change)]


def _noise(
    inputs: Inputs, queries: Int[np.ndarray, "row n"], keys: Int[np.ndarray, "row m"]
) -> Int[np.ndarray, "row count"]:
    """Positions that a control may block: noise, or where there is no such role those without the two roles.

    Raises RolesError where rows have fewer than are blocked.
    """
    if "noise" in inputs.roles.positions:
        found = inputs.roles.position("noise", "blocked_attention")
        least = found.shape[1]
    else:
        taken = np.concatenate([queries, keys], 1)
        free = (np.arange(inputs.tokens.shape[1])[None, :, None] != taken[:, None]).all(-1)
        least = int(free.sum(1).min())
        found = np.argsort(~free, axis=1, kind="stable")[:, :least]
    if least < keys.shape[1]:
        raise RolesError(
            f"blocked_attention blocks {keys.shape[1]} positions and its control as many of noise, but rows have "
            f"{least}; block a role with fewer positions, or pass n_draws=0 for no control."
        )
    return found


def _some(
    others: Int[np.ndarray, "row count"], queries: Int[np.ndarray, "row n"], count: int, rng: np.random.Generator
) -> Int[np.ndarray, "row some"]:
    """So many of these positions at random: those that a query sees first, then queries themselves, then later ones."""
    is_query = (others[:, :, None] == queries[:, None]).any(-1)
    order = rng.random(others.shape) + is_query + 2.0 * (others > queries.max(1, keepdims=True))
    return np.take_along_axis(others, order.argsort(1)[:, :count], 1)
