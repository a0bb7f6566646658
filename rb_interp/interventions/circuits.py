r"""The anchor task's circuits: by which routes key and anchors travel, and the name that follows.

Routes (claims M7r, M8r). A counterfactual changes one thing: the key alone, or one anchor alone.
With m the logit of the new answer less that of the old one at the last position, its effect on a
row is m(changed row) - m(row).

Whatever a change does goes through the residual stream before the last layer. A route is a set of
positions there. Its part is what happens as the row runs with ``resid_pre`` of the last layer taken
from the changed row at these positions:

    share  = sum over rows of (m(the route alone changed) - m(row)) / sum over rows of effects
    needed = 1 - sum over rows of (m(all but the route changed) - m(row)) / sum over rows of effects

both cut off at 0 and 1. The routes are ROUTES. What attention and MLPs of the layers below did on
the way is within them, and so are the MLPs after. The last token is noise, which no counterfactual
changes, so that all that differs at its position came by the attention of the layers below: there
the route is called ``L0_at_last``. Counted are rows that are answered rightly with and without the
change, and end in noise; a model without such rows reads nan.

Source: interchange of one position's state (Geiger et al., 2021, arXiv:2106.02997; Meng et al.,
2022, arXiv:2202.05262). The ratio of sums keeps single rows with a small effect from deciding.

How it can mislead. Parts need not add up to 1: two routes that say the same may each suffice
(shares near 1, needed near 0), and two that only work together may each do nothing alone. A route
says from where the last layer has it and not how it came there: the last anchor may hold the key
alone or key and first anchors together. Where few rows are answered rightly the shares describe
these few.

Circuit by cause: the name of what a model learned, by the routes that key and anchors take to the
answer, by the rules of CIRCUIT_RULES: paper 1, Fig. 6 (average-then-key) and paper 2, Fig. 3,
"inferential" (key-to-anchors). The first that fits is the name. The thresholds were fixed before any model was
read by them. A model that carries the key twice may fit two names; its shares by necessity are low
then. ``mixed`` is said of a model that uses two circuits side by side and of one that uses a way
that has no name here. A name says from where the last layer reads, and not what is added where.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.interventions.edits import most_likely
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.sites import Site
from rb_interp.models.protocol import HookedModel
from rb_interp.probes._core import undefined_notes
from rb_interp.probes.activations import check_labels, check_last_column
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.anchor import AnchorDataset
from rb_interp.tasks.dataset import can_change_anchor, single_anchors
from rb_interp.tasks.inputs import Inputs, Roles, other_positions

__all__ = ["anchor_routes", "circuit_by_cause", "routes"]

ROUTES = (
    "from_key",
    "from_first_anchors",
    "from_last_anchor",
    "from_anchors",
    "L0_at_last",
    "from_noise",
)
"""Positions of the key, all anchors but the last, the last, all of them, the last position, and the
noise before it."""
UNDEFINED = {
    "anchors:": "a change of a single anchor was not given, or none of its rows counts.",
    "first_anchors:": "there is one anchor alone, or one of their changes was not given or has no "
    "row that counts.",
    "": "no row counts: none ends in noise and is answered rightly both as it is and changed.",
}
"""Why a share is NaN."""
NEEDED = ":needed"
"""What the name of a share by necessity ends in."""


@checked
@single_threaded
def routes(model: HookedModel, inputs: Inputs, changed: Mapping[str, Inputs]) -> Reading:
    """Share of each change's effect that travels by each route, in [0, 1]; NaN if no row counts.

    Quantities are ``key:from_key`` (the route alone suffices for this share),
    ``key:from_key:needed`` (this share is lost without it), and so on for each change and each of
    ROUTES, and ``key:rows``, the rows that counted. ``anchors:...`` is the mean over the changes
    ``anchor_1``, ``anchor_2``, ..., ``first_anchors:...`` over all of them but the last anchor's.
    ``n`` is the smallest number of rows of a change.

    Args:
        model: any model with TransformerLens's hooks, of two layers or more.
        inputs: rows with labels and the roles ``key`` and ``anchor``.
        changed: name of a change -> as many rows, with key and anchors at the same positions, and
            their right answers. A row whose answer is the same in both does not count.

    Raises:
        ModelError: the model has one layer, or rows have no labels.
        RolesError: the rows have no key or no anchor.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> model, data = known.model(), known.task.dataset(seed=0)
    >>> rows = data.sample("rsn_train", 50)
    >>> changed = {"key": data.task.counterfactual(data, rows, "key")}
    >>> shares = routes(model, data.inputs(rows), changed).values
    >>> round(shares["key:from_key"], 2), round(shares["key:from_anchors"], 2)
    (1.0, 0.0)
    """
    Site("resid_pre", 0).check(model)
    if model.cfg.n_layers < 2:
        raise ModelError(
            "routes got a model of 1 layer; what enters its last layer is the tokens. Use 2 layers."
        )
    check_labels(inputs, "routes")
    check_last_column(inputs, "routes")
    key = inputs.roles.position("key", "routes")
    anchors = inputs.roles.position("anchor", "routes")
    last = inputs.tokens.shape[1] - 1
    ends_in_noise = (key != last).all(1) & (anchors != last).all(1)
    counts = ends_in_noise & (most_likely(model, inputs.tokens) == inputs.labels)
    values: dict[str, float] = {}
    for change, other in changed.items():
        labels = check_labels(other, "routes")
        is_answered = most_likely(model, other.tokens) == labels
        rows = counts & (labels != inputs.labels) & is_answered
        for name, share in _shares(model, inputs.take(rows), other.take(rows)).items():
            values[f"{change}:{name}"] = share
    n = int(min(values[f"{change}:rows"] for change in changed))
    changes = single_anchors(anchors.shape[1])
    values |= _mean_shares(values, "anchors", changes)
    values |= _mean_shares(values, "first_anchors", changes[:-1])
    return Reading("routes", values, n=n, notes=undefined_notes(values, model, UNDEFINED))


def _mean_shares(
    values: Mapping[str, float], name: str, changes: Sequence[str]
) -> dict[str, float]:
    """Mean of each share over several changes; NaN if one is missing, or there are none."""
    means = {}
    for end in ("", NEEDED):
        for route in ROUTES:
            shares = [values.get(f"{change}:{route}{end}", np.nan) for change in changes]
            means[f"{name}:{route}{end}"] = float(np.mean(shares)) if shares else np.nan
    return means


@checked
@single_threaded
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
        model: any model with TransformerLens's hooks, of two layers or more.
        data: sequences of the anchor task.
        set: whose rows; a changed anchor stays in its set. A row for which the set has no such
            combination does not count for this anchor.
        n: rows of the set, at most; about one in ``length - q`` ends in an anchor and does not
            count.
        rows: which rows of the dataset, in place of ``set`` and ``n``.
        seed: seed of the counterfactuals.

    Raises:
        ModelError: the model has one layer.
    """
    if rows is None:
        rows = data.sample(set, n)
    inputs = data.inputs(rows)
    changed = {}
    for number, change in enumerate(("key", *single_anchors(data.task.q))):
        if number == 0:
            can_change = np.ones(len(rows), dtype=bool)
        else:
            can_change = can_change_anchor(data, rows, number - 1)
        tokens = data.tokens[rows].copy()
        labels = data.labels[rows].copy()
        if can_change.any():  # the other rows are as they were, and do not count
            other = data.task.counterfactual(data, rows[can_change], change, seed)
            tokens[can_change] = other.tokens
            labels[can_change] = other.labels
        changed[change] = Inputs(tokens, labels, inputs.roles)
    return routes(model, inputs, changed)


def _shares(model: HookedModel, inputs: Inputs, other: Inputs) -> dict[str, float]:
    """What each route alone, and all but it, carries of one change, and the number of rows."""
    names = [*ROUTES, *(name + NEEDED for name in ROUTES)]
    n_rows, length = inputs.tokens.shape
    if not n_rows:
        return {**dict.fromkeys(names, np.nan), "rows": 0.0}
    key = inputs.roles.position("key")
    anchors = inputs.roles.position("anchor")
    last = np.full((n_rows, 1), length - 1)
    noise = other_positions({"key": key, "anchor": anchors, "last": last}, length)
    of_routes = (key, anchors[:, :-1], anchors[:, -1:], anchors, last, noise)
    positions: dict[str, np.ndarray] = dict(zip(ROUTES, of_routes, strict=True))
    for name in ROUTES:
        positions[name + NEEDED] = other_positions({name: positions[name]}, length)
    roles = Roles(positions)
    base = Inputs(inputs.tokens, inputs.labels, roles)
    source = Inputs(other.tokens, other.labels, roles)
    filled = [name for name in names if positions[name].shape[1]]
    last_layer = model.cfg.n_layers - 1
    matrix = patching_matrix(
        model, source, base, components=["resid_pre"], layers=[last_layer], roles=filled
    )
    effect = (matrix.clean - matrix.corrupted).sum()
    parts = dict.fromkeys(names, 0.0)  # no position carries nothing
    for name, patched in zip(filled, matrix.patched[0, 0], strict=True):
        parts[name] = (patched - matrix.corrupted).sum() / effect
    shares = {}
    for name, part in parts.items():
        share = 1 - part if name.endswith(NEEDED) else part
        shares[name] = float(np.clip(share, 0, 1))
    return {**shares, "rows": float(n_rows)}


SHARE_MIN = 0.80
"""A route carries a change: at least this share of its effect."""
ACCURACY_MIN = 0.50
"""Something was learned: at least this final accuracy on rsn_train."""


class CircuitRule(NamedTuple):
    """When a model has a circuit's name."""

    shares: tuple[str, str]
    """The two shares that must reach SHARE_MIN."""
    text: str
    """The same in English."""


CIRCUIT_RULES = {
    "average-then-key": CircuitRule(
        ("key_from_key", "anchors_L0_at_last"),
        f"at least {SHARE_MIN:.2f} of the key's effect comes from the key's own position, and at "
        f"least {SHARE_MIN:.2f} of the anchors' by L0's attention to the last position",
    ),
    "gather-at-last-anchor": CircuitRule(
        ("key_from_last_anchor", "first_anchors_from_last_anchor"),
        f"at least {SHARE_MIN:.2f} of the key's effect and of the first anchors' comes from the "
        f"last anchor's position",
    ),
    "key-to-anchors": CircuitRule(
        ("key_from_anchors", "anchors_from_anchors"),
        f"at least {SHARE_MIN:.2f} of the key's effect and of the anchors' comes from the "
        f"positions of the anchors taken together, without being the circuit before",
    ),
}
"""Circuits that have a route, in the order in which they are asked."""
SHARES = {
    "key_from_key": "key:from_key",
    "anchors_L0_at_last": "anchors:L0_at_last",
    "key_from_last_anchor": "key:from_last_anchor",
    "first_anchors_from_last_anchor": "first_anchors:from_last_anchor",
    "key_from_anchors": "key:from_anchors",
    "anchors_from_anchors": "anchors:from_anchors",
}
"""The shares that decide -> the quantities of ``routes`` that they are."""
CAUSE_RULES = {
    **{name: rule.text for name, rule in CIRCUIT_RULES.items()},
    "mixed": "none of them",
    "none": f"final accuracy on rsn_train < {ACCURACY_MIN:.2f}",
}
"""The names and their rules in English."""
CAUSES = tuple(CAUSE_RULES)


@checked
def circuit_by_cause(shares: Mapping[str, float], accuracy: float) -> str:
    """Name the circuit of one model from its shares and its accuracy on rsn_train, all in [0, 1].

    Args:
        shares: quantities of ``routes`` (``routes(...).values``); those of SHARES are used. A share
            that is missing or NaN meets no threshold.
        accuracy: share of the rows of rsn_train that are answered rightly; NaN counts as nothing
            learned.

    Raises:
        ModelError: none of the shares that decide is given, though something was learned.

    >>> circuit_by_cause({"key:from_key": 0.97, "anchors:L0_at_last": 0.8}, accuracy=1.0)
    'average-then-key'
    >>> circuit_by_cause({"key:from_anchors": 0.9, "anchors:from_anchors": 0.79}, accuracy=1.0)
    'mixed'
    """
    if not accuracy >= ACCURACY_MIN:
        return "none"
    if not any(share in shares for share in SHARES.values()):
        raise ModelError(
            f"circuit_by_cause got none of the shares that it judges; pass routes(...).values, "
            f"which has {', '.join(SHARES.values())}."
        )
    for name, rule in CIRCUIT_RULES.items():
        if all(shares.get(SHARES[share], np.nan) >= SHARE_MIN for share in rule.shares):
            return name
    return "mixed"
