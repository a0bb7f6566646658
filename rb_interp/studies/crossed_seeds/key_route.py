"""From which position the key enters the last layer, as shares of its effect on the answer.

    D = logit of the new answer - logit of the old one, at the last position
    share of a route = sum over rows of (D with the route - D) / sum over rows of (D of the changed row - D)

The changed row has another key; position, noise and anchors stay. A route is the last layer's ``resid_pre`` at the
positions of a role, taken from the changed row. Rows count that end in noise and are answered rightly with and without
the change. Shares are cut off at 0 and 1. Routes need not add up to 1: the last layer is not linear.

This is the definition of docs/claims.md, "Second criteria", for the key alone. Everything that the study knows of
circuits comes from `key_routes` and `route_name`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.interventions.hooking import last_logits
from rb_interp.interventions.patching import patched_logits
from rb_interp.models.protocol import HookedModel
from rb_interp.statistics.reading import Reading
from rb_interp.tasks import AnchorDataset

ROUTES = {"own_position": "key", "anchors": "anchor"}
"""Names of routes, and the role at whose positions each enters the last layer."""
CARRIES, LEARNED = 0.80, 0.50
"""A route has the name where its share is at least this; nothing has one where accuracy on rsn_train is below that."""


def key_routes(model: HookedModel, data: AnchorDataset, rows: Int[np.ndarray, " row"]) -> Reading:
    """Share of the key's effect by each route of ROUTES, in [0, 1]; NaN where no row counts.

    Args:
        rows: rows of the data to take from; ``n`` of the reading says how many of them count.
    """
    rows = rows[data.anchor_positions[rows, -1] < data.task.length - 1]
    nothing = Reading("key_routes", dict.fromkeys(ROUTES, float("nan")))
    if not len(rows):
        return nothing
    base, changed = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    old, new = last_logits(model, base.tokens), last_logits(model, changed.tokens)
    right = (old.argmax(1).numpy() == base.labels) & (new.argmax(1).numpy() == changed.labels)
    if not right.any():
        return nothing
    base, changed, before = base.take(right), changed.take(right), old[right]
    labels = (changed.labels, base.labels)
    start = _difference(before, *labels)
    whole = (_difference(new[right], *labels) - start).sum()
    last, shares = model.cfg.n_layers - 1, {}
    for route, role in ROUTES.items():
        site = f"resid_pre.{last}@{role}"
        logits = patched_logits(model, base.tokens, base.roles, changed.tokens, changed.roles, site)
        shares[route] = float(np.clip((_difference(logits, *labels) - start).sum() / whole, 0, 1))
    return Reading("key_routes", shares, n=len(base))


def _difference(logits: Tensor, new: np.ndarray | None, old: np.ndarray | None) -> Float[np.ndarray, " row"]:
    found, rows = logits.double().numpy(), np.arange(len(logits))
    return found[rows, new] - found[rows, old]


def route_name(shares: Mapping[str, float], accuracy: float) -> str:
    """The route that carries the key: a name of ROUTES, ``mixed``, or ``none`` where nothing was learned.

    >>> route_name({"own_position": 0.95, "anchors": 0.02}, accuracy=1.0)
    'own_position'
    """
    if not accuracy >= LEARNED or not all(np.isfinite(share) for share in shares.values()):
        return "none"
    return next((route for route, share in shares.items() if share >= CARRIES), "mixed")
