r"""Routes: by which way does the key, and each anchor, reach the answer?  (claims M7r, M8r)

A counterfactual changes one thing: the key alone, or one anchor alone. With m the logit of the new answer less that of
the old one at the last position, its effect on a row is m(changed row) - m(row).

Whatever a change does goes through the residual stream before the last layer. A route is a set of positions there. Its
part is what happens as the row runs with ``resid_pre`` of the last layer taken from the changed row at these positions:

    share  = sum over rows of (m(the route alone changed) - m(row)) / sum over rows of effects
    needed = 1 - sum over rows of (m(all but the route changed) - m(row)) / sum over rows of effects

both cut off at 0 and 1. The routes are ROUTES. What attention and MLPs of the layers below did on the way is within
them, and so are the MLPs after. The last token is noise, which no counterfactual changes, so that all that differs at
its position came by the attention of the layers below: there the route is called ``L0_at_last``. From all other
positions only the last layer's attention leads to the answer.

Counted are rows that are answered rightly with and without the change, and end in noise. The effect of such a row is
positive. A model without such rows reads nan.

Source: interchange of one position's state (Geiger et al., 2021, arXiv:2106.02997; Meng et al., 2022,
arXiv:2202.05262). The ratio of sums keeps single rows with a small effect from deciding.

How it can mislead. Parts need not add up to 1: two routes that say the same may each suffice (shares near 1, needed
near 0), and two that only work together may each do nothing alone. So read both numbers. A route says from where the
last layer has it and not how it came there: the last anchor may hold the key alone or key and first anchors together.
Routes are of the key's and of single anchors' changes within one set. Where few rows are answered rightly the shares
describe these few.

Circuit by cause: the name of what a model learned, by the routes that key and anchors take to the answer, by the rules
of NAMED: paper 1, Fig. 6 (average-then-key) and paper 2, Fig. 3, "inferential" (key-to-anchors). The first that fits is
the name. The thresholds were fixed before any model was read by them. Heads play no part, so a head that writes nothing
changes no name. A model that carries the key twice may fit two names and gets the first; its shares by necessity are
low then. ``mixed`` is said of a model that uses two circuits side by side and of one that uses a way that has no name
here. A name says from where the last layer reads, and not what is added where.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from rb_interp.errors import ModelError
from rb_interp.interventions.interchanging import most_likely
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.sites import Site, intervention
from rb_interp.models.protocol import HookedModel
from rb_interp.probes._probe import check_labels, undefined
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.anchor import AnchorDataset
from rb_interp.tasks.counterfactual import can_change_anchor, single_anchors
from rb_interp.tasks.inputs import Inputs, Roles
from rb_interp.typed import typed

__all__ = ["anchor_routes", "circuit_by_cause", "routes"]

ROUTES = ("from_key", "from_first_anchors", "from_last_anchor", "from_anchors", "L0_at_last", "from_noise")
"""Positions of the key, all anchors but the last, the last, all of them, the last position, and the noise before it."""
UNDEFINED = {
    "anchors:": "a change of a single anchor was not given, or none of its rows counts.",
    "first_anchors:": "there is one anchor alone, or one of their changes was not given or has no row that counts.",
    "": "no row counts: none ends in noise and is answered rightly both as it is and changed.",
}
"""Why a share is NaN."""
NEEDED = ":needed"
"""What the name of a share by necessity ends in."""


@intervention
def routes(model: HookedModel, inputs: Inputs, changed: Mapping[str, Inputs]) -> Reading:
    """Share of each change's effect that travels by each route, in [0, 1]; nan where no row counts.

    Quantities are ``key:from_key`` (the route alone suffices for this share), ``key:from_key:needed`` (this share is
    lost without it), and so on for each change and each of ROUTES, and ``key:rows``, the rows that counted.
    ``anchors:...`` is the mean over the changes ``anchor_1``, ``anchor_2``, ..., ``first_anchors:...`` over all of them
    but the last anchor's. ``n`` is the smallest number of rows of a change.

    Args:
        model: of two layers or more, with any number of heads.
        inputs: rows with labels and the roles ``key`` and ``anchor``.
        changed: name of a change -> as many rows, with key and anchors at the same positions, and their right answers.
            A row whose answer is the same in both does not count.

    Raises ModelError for a model of one layer or without attention, and where rows are no pairs, RolesError where key
    or anchors are missing.

    >>> from rb_interp.models.reference import reference
    >>> data, model = (known := reference("averager")).task.dataset(seed=0), known.model()
    >>> rows = data.sample("rsn_train", 50)
    >>> found = routes(model, data.inputs(rows), {"key": data.task.counterfactual(data, rows, "key")})
    >>> round(found.values["key:from_key"], 2), round(found.values["key:from_anchors"], 2)
    (1.0, 0.0)
    """
    Site("resid_pre", 0).check(model)
    if model.cfg.n_layers < 2:
        raise ModelError("routes got a model of 1 layer; what enters its last layer is the tokens. Use 2 layers.")
    check_labels(inputs, "routes")
    taken = np.concatenate([inputs.roles.position(role, "routes") for role in ("key", "anchor")], 1)
    ends_in_noise = (taken != inputs.tokens.shape[1] - 1).all(1)
    counts = ends_in_noise & (most_likely(model, inputs.tokens) == inputs.labels)
    values: dict[str, float] = {}
    for change, other in changed.items():
        labels = check_labels(other, "routes")
        rows = counts & (labels != inputs.labels) & (most_likely(model, other.tokens) == labels)
        shares = _shares(model, inputs.take(rows), other.take(rows))
        values |= {f"{change}:{name}": value for name, value in shares.items()}
    n = int(min(values[f"{change}:rows"] for change in changed))
    names = single_anchors(inputs.roles.position("anchor").shape[1])
    for group, over in (("anchors", names), ("first_anchors", names[:-1])):
        for quantity in (name + end for end in ("", NEEDED) for name in ROUTES):
            shares = [values.get(f"{one}:{quantity}", np.nan) for one in over]
            values[f"{group}:{quantity}"] = float(np.mean(shares)) if over else np.nan
    return Reading("routes", values, n=n, notes=undefined(values, model, UNDEFINED))


@intervention
def anchor_routes(
    model: HookedModel,
    data: AnchorDataset,
    *,
    set: str = "rsn_train",
    n: int = 300,
    rows: Int[np.ndarray, " row"] | None = None,
    seed: int = 0,
) -> Reading:
    """``routes`` of the key and of each anchor, on rows of a dataset's set.

    Args:
        set: whose rows; a changed anchor stays in its set. A row for which the set has no such combination does not
            count for this anchor.
        n: rows of the set, at most; about one in ``length - q`` ends in an anchor and does not count.
        rows: which rows of the dataset, in place of ``set`` and ``n``. seed: of the counterfactuals.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("carrier")
    >>> found = anchor_routes(known.model(), known.task.dataset(seed=0), n=50)
    >>> round(found.values["key:from_anchors"], 2), round(found.values["anchors:from_anchors"], 2)
    (1.0, 1.0)
    """
    rows = data.sample(set, n) if rows is None else rows
    changed = {}
    for number, change in enumerate(("key", *single_anchors(data.task.q))):
        tokens, labels = data.tokens[rows].copy(), data.labels[rows].copy()
        can = can_change_anchor(data, rows, number - 1) if number else np.ones(len(rows), dtype=bool)
        if can.any():  # the other rows are as they were, and do not count
            other = data.task.counterfactual(data, rows[can], change, seed)
            tokens[can], labels[can] = other.tokens, other.labels
        changed[change] = Inputs(tokens, labels, data.roles(rows))
    return routes(model, data.inputs(rows), changed)


def _shares(model: HookedModel, inputs: Inputs, other: Inputs) -> dict[str, float]:
    """What each route alone, and all but it, carries of one change, and the number of rows."""
    if not len(inputs):
        return {name + end: np.nan for end in ("", NEEDED) for name in ROUTES} | {"rows": 0.0}
    places = _places(inputs.roles, inputs.tokens.shape[1])
    roles = Roles(places)
    base, source = (Inputs(rows.tokens, rows.labels, roles) for rows in (inputs, other))
    last = model.cfg.n_layers - 1
    found = patching_matrix(model, source, base, components=("resid_pre",), layers=(last,), roles=tuple(places))
    parts = (found.patched[0, 0] - found.corrupted).sum(1) / (found.clean - found.corrupted).sum()
    alone, others = parts[: len(ROUTES)], parts[len(ROUTES) :]
    shares = np.clip(np.concatenate([alone, 1 - others]), 0, 1)
    return dict(zip(places, map(float, shares), strict=True)) | {"rows": float(len(inputs))}


def _places(roles: Roles, length: int) -> dict[str, Int[np.ndarray, "row n"]]:
    """Positions of each route, and of all but it, in rows that end in noise."""

    def others(positions: Int[np.ndarray, "row n"]) -> Int[np.ndarray, "row m"]:
        free = np.ones((len(positions), length), dtype=bool)
        np.put_along_axis(free, positions, False, 1)
        return np.nonzero(free)[1].reshape(len(positions), -1)

    key, anchors, last = roles.position("key"), roles.position("anchor"), np.full((len(roles), 1), length - 1)
    noise = others(np.concatenate([key, anchors, last], 1))
    at = dict(zip(ROUTES, (key, anchors[:, :-1], anchors[:, -1:], anchors, last, noise), strict=True))
    return at | {name + NEEDED: others(positions) for name, positions in at.items()}


SHARE_MIN = 0.80
"""A route carries a change: at least this share of its effect."""
ACCURACY_MIN = 0.50
"""Something was learned: at least this final accuracy on rsn_train."""


class Rule(NamedTuple):
    """A name's rule: the two shares that must reach SHARE_MIN, and the same in words."""

    shares: tuple[str, str]
    words: str


NAMED = {
    "average-then-key": Rule(
        ("key_from_key", "anchors_L0_at_last"),
        f"at least {SHARE_MIN:.2f} of the key's effect comes from the key's own position, and at least "
        f"{SHARE_MIN:.2f} of the anchors' by L0's attention to the last position",
    ),
    "gather-at-last-anchor": Rule(
        ("key_from_last_anchor", "first_anchors_from_last_anchor"),
        f"at least {SHARE_MIN:.2f} of the key's effect and of the first anchors' comes from the last anchor's position",
    ),
    "key-to-anchors": Rule(
        ("key_from_anchors", "anchors_from_anchors"),
        f"at least {SHARE_MIN:.2f} of the key's effect and of the anchors' comes from the positions of the anchors "
        "taken together, without being the circuit before",
    ),
}
"""Circuits that have a route, in the order in which they are asked."""
SHARES = {share: re.sub("_(?=from_|L0_)", ":", share) for rule in NAMED.values() for share in rule.shares}
"""The shares that decide -> the quantities of ``routes`` that they are."""
CAUSE_RULES = {
    **{name: rule.words for name, rule in NAMED.items()},
    "mixed": "none of them",
    "none": f"final accuracy on rsn_train < {ACCURACY_MIN:.2f}",
}
"""The names and their rules in words."""
CAUSES = tuple(CAUSE_RULES)


@typed
def circuit_by_cause(shares: Mapping[str, float], accuracy: float) -> str:
    """Name the circuit of one model from its shares and its accuracy on rsn_train, all in [0, 1].

    Args:
        shares: quantities of ``routes`` (``routes(...).values``); those of SHARES are used. A share that is missing or
            nan meets no threshold.
        accuracy: share of the rows of rsn_train that are answered rightly; nan counts as nothing learned.

    >>> circuit_by_cause({"key:from_key": 0.97, "anchors:L0_at_last": 0.8}, accuracy=1.0)
    'average-then-key'
    >>> circuit_by_cause({"key:from_anchors": 0.9, "anchors:from_anchors": 0.79}, accuracy=1.0)
    'mixed'
    """
    if not accuracy >= ACCURACY_MIN:
        return "none"
    for name, rule in NAMED.items():
        if all(shares.get(SHARES[share], np.nan) >= SHARE_MIN for share in rule.shares):
            return name
    return "mixed"
