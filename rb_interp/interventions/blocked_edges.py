"""Attention edges blocked: what is lost if a query cannot attend to some positions.

The blocked attention is 0, and the rest is scaled to sum to 1. The control blocks as many of the
row's noise positions, chosen at random, or others if no role is called noise.

How it can mislead. What other heads or layers also bring does not show when one edge is blocked.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions import sites
from rb_interp.interventions.edits import Edit, scatter
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.metrics import AnswerAt, MetricLike
from rb_interp.interventions.paired_run import PairedRun
from rb_interp.interventions.patterns import seen_positions
from rb_interp.interventions.sites import Site
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import visible
from rb_interp.tasks.inputs import Inputs

__all__ = ["blocked_attention", "blocked_edits"]

Positions = Int[np.ndarray, "row _"]


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
    queries = _role_positions(inputs, layer, query, "query")
    keys = _role_positions(inputs, layer, key, "key")
    Site("pattern", layer, unit=head).check(model)
    n_keys = keys.shape[1]
    blocked = [keys]
    if n_draws:
        candidates = control_positions(inputs, queries, keys)
        hidden = _hidden_from(queries, candidates, seen_positions(model, inputs, layer))
        n_few = int(((~hidden).sum(1) < n_keys).sum())
        if n_few:
            pair.notes["control"] = (
                f"in {n_few} rows it blocks positions that the query does not see, which changes "
                f"nothing."
            )
        for _ in range(n_draws):
            blocked.append(draw_positions(candidates, queries, hidden, n_keys, rng))
    runs = []
    for positions in blocked:
        runs.append(pair.run(blocked_edits(model, queries, positions, layer=layer, head=head)))
    name = f"attention from {query} to {key} blocked"
    site = str(Site("pattern", layer, query, head))
    kind = "noise" if "noise" in inputs.roles.positions else "other"
    return pair.effect(name, site, runs, f"as many {kind} positions")


def blocked_edits(
    model: HookedModel,
    queries: Positions,
    keys: Positions,
    *,
    layer: int,
    head: int | None = None,
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
        seen = torch.from_numpy(visible(model, layer, length))[query]
        is_open = (seen & ~closed[:, None] & attends[:, None]).to(activation)  # [row, n, key]
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
    """Positions that a control may block: noise, or without such a role those of neither role.

    Raises:
        RolesError: there are fewer of them than keys.
    """
    if "noise" in inputs.roles.positions:
        free = sites.positions(inputs, "noise")
    else:
        taken = np.concatenate([queries, keys], 1)
        position = np.arange(inputs.tokens.shape[1])
        is_free = (position[None, :, None] != taken[:, None]).all(-1)
        n_free = int(is_free.sum(1).min())
        free = np.argsort(~is_free, axis=1, kind="stable")[:, :n_free]
    if free.shape[1] < keys.shape[1]:
        raise RolesError(
            f"the control blocks {keys.shape[1]} positions of noise, but rows have "
            f"{free.shape[1]}; block a role with fewer positions, or pass n_draws=0 for no control."
        )
    return free


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


def _role_positions(inputs: Inputs, layer: int, role: str, argument: str) -> Positions:
    """Positions of the role that an argument names."""
    try:
        return sites.site_positions(Site("pattern", layer, role), inputs).numpy()
    except RolesError as error:
        raise RolesError(f"name a role of these rows by {argument}=: {error}") from None


def _hidden_from(
    queries: Positions, candidates: Positions, seen: Bool[np.ndarray, "*row query key"]
) -> Bool[np.ndarray, "row candidate"]:
    """Whether no query of a row sees a candidate."""
    of_rows = np.broadcast_to(seen, (len(queries), *seen.shape[-2:]))
    seen_by_queries = np.take_along_axis(of_rows, queries[..., None], 1).any(1)
    return ~np.take_along_axis(seen_by_queries, candidates, 1)
