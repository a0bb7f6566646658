r"""The anchor task's circuits: by which routes key and anchors travel, and whether a site carries
what it should.

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
answer, by the rules of NAMED: paper 1, Fig. 6 (average-then-key) and paper 2, Fig. 3, "inferential"
(key-to-anchors). The first that fits is the name. The thresholds were fixed before any model was
read by them. A model that carries the key twice may fit two names; its shares by necessity are low
then. ``mixed`` is said of a model that uses two circuits side by side and of one that uses a way
that has no name here. A name says from where the last layer reads, and not what is added where.

Swaps (claim M9). `key_and_sum` interchanges sites between two inputs. If a site carries the key and
nothing else of the source reaches the answer, the answer becomes

    key: z_source + (sum of the anchors)_base            sum: z_base + (sum of the anchors)_source

The circuits carry them at different sites, CARRIERS. In average-then-key the last position gets the
sum from L0's attention and the key from the last layer's. In key-to-anchors L0's attention brings
the key to the anchors' positions, whose own embeddings bring the sum: there the anchors' embedding
is taken from the source while L0's attention is held as it was, so that the anchors reach the last
position through later layers alone. An embedding holds its position too, so these pairs share it.
The control takes the same sites from the same row with its noise redrawn.

`permuted_number_line` moves the reasoning anchors along a direction u. If they lie on a number line
u, an anchor that is moved along u alone to where another one stands counts as that other one: with
a permutation pi of the anchors,

    E'[a] = E[a] + (E[pi(a)] . u - E[a] . u) u            predicted answer: z + sum of pi(a)

Directions: ``value``, the leading left singular vector of L0's W_V (paper 1, Fig. 6: the one that
the reasoning anchors share); ``component``, the anchors' own first principal component (Fig. 5B);
or any vector. The control moves the anchors by the same permutation along random directions, with a
change of W_E of the same Frobenius norm.

How it can mislead. M9 asks for .90 each, control at most .10. An untrained model has no pairs
(nan). A site that carries the whole answer moves it to z_source + sum_source, and counts as 0. A
low share may mean that another site carries it too, or that the sites add a constant that depends
on the position: members of the paper's circuit often miss by 1 when source and base have their key
at different positions, and seldom when it is the same one (``same_position``). All layers read an
embedding that was moved, and with LayerNorm all its coordinates change with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, TaskError
from rb_interp.interventions.ablating import interchange
from rb_interp.interventions.attention import leading
from rb_interp.interventions.effect import REDRAWN, Effect
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.sites import Site, most_likely, replaced
from rb_interp.models.hooking import caller_hooks
from rb_interp.models.protocol import HookedModel, writable_tensors
from rb_interp.probes._probe import check_labels, undefined
from rb_interp.probes.embeddings import token_vectors
from rb_interp.probes.values import value_matrix
from rb_interp.statistics.nulls import random_directions
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.anchor import AnchorDataset
from rb_interp.tasks.counterfactual import can_change_anchor, single_anchors
from rb_interp.tasks.inputs import Inputs, Roles

__all__ = [
    "KeyAndSum",
    "anchor_routes",
    "circuit_by_cause",
    "key_and_sum",
    "permuted_number_line",
    "routes",
]

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
    "first_anchors:": "there is one anchor alone, or one of their changes was not given or has no row that counts.",
    "": "no row counts: none ends in noise and is answered rightly both as it is and changed.",
}
"""Why a share is NaN."""
NEEDED = ":needed"
"""What the name of a share by necessity ends in."""


@checked
@single_threaded
def routes(model: HookedModel, inputs: Inputs, changed: Mapping[str, Inputs]) -> Reading:
    """Share of each change's effect that travels by each route, in [0, 1]; nan where no row counts.

    Quantities are ``key:from_key`` (the route alone suffices for this share),
    ``key:from_key:needed`` (this share is lost without it), and so on for each change and each of
    ROUTES, and ``key:rows``, the rows that counted. ``anchors:...`` is the mean over the changes
    ``anchor_1``, ``anchor_2``, ..., ``first_anchors:...`` over all of them but the last anchor's.
    ``n`` is the smallest number of rows of a change.

    Args:
        model: any model with TransformerLens's hooks.
        inputs: rows with labels and the roles ``key`` and ``anchor``, for a model of two layers or
            more.
        changed: name of a change -> as many rows, with key and anchors at the same positions, and
            their right answers. A row whose answer is the same in both does not count.

    >>> from rb_interp.models.reference import reference
    >>> data, model = (known := reference("averager")).task.dataset(seed=0), known.model()
    >>> rows = data.sample("rsn_train", 50)
    >>> found = routes(model, data.inputs(rows), {"key": data.task.counterfactual(data, rows, "key")})
    >>> round(found.values["key:from_key"], 2), round(found.values["key:from_anchors"], 2)
    (1.0, 0.0)
    """
    Site("resid_pre", 0).check(model)
    if model.cfg.n_layers < 2:
        raise ModelError(
            "routes got a model of 1 layer; what enters its last layer is the tokens. Use 2 layers."
        )
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
        model: any model with TransformerLens's hooks.
        set: whose rows; a changed anchor stays in its set. A row for which the set has no such
            combination does not count for this anchor.
        n: rows of the set, at most; about one in ``length - q`` ends in an anchor and does not
            count.
        rows: which rows of the dataset, in place of ``set`` and ``n``. seed: of the
            counterfactuals.
    """
    rows = data.sample(set, n) if rows is None else rows
    given, changed = data.inputs(rows), {}
    for number, change in enumerate(("key", *single_anchors(data.task.q))):
        tokens, labels = data.tokens[rows].copy(), data.labels[rows].copy()
        can = (
            can_change_anchor(data, rows, number - 1) if number else np.ones(len(rows), dtype=bool)
        )
        if can.any():  # the other rows are as they were, and do not count
            other = data.task.counterfactual(data, rows[can], change, seed)
            tokens[can], labels[can] = other.tokens, other.labels
        changed[change] = Inputs(tokens, labels, given.roles)
    return routes(model, given, changed)


def _shares(model: HookedModel, inputs: Inputs, other: Inputs) -> dict[str, float]:
    """What each route alone, and all but it, carries of one change, and the number of rows."""
    names = [*ROUTES, *(name + NEEDED for name in ROUTES)]
    n_rows = len(inputs)
    if not n_rows:
        return {**dict.fromkeys(names, np.nan), "rows": 0.0}
    positions = _route_positions(inputs)
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


def _route_positions(inputs: Inputs) -> dict[str, Int[np.ndarray, "row n"]]:
    """Positions of each route, and of all but it under its name by necessity."""
    n_rows, length = inputs.tokens.shape

    def all_but(positions: Int[np.ndarray, "row n"]) -> Int[np.ndarray, "row m"]:
        free = np.ones((n_rows, length), dtype=bool)
        np.put_along_axis(free, positions, False, 1)
        return np.nonzero(free)[1].reshape(n_rows, -1)

    key = inputs.roles.position("key")
    anchors = inputs.roles.position("anchor")
    last = np.full((n_rows, 1), length - 1)
    noise = all_but(np.concatenate([key, anchors, last], 1))
    routes = (key, anchors[:, :-1], anchors[:, -1:], anchors, last, noise)
    positions = dict(zip(ROUTES, routes, strict=True))
    without = {name + NEEDED: all_but(of_route) for name, of_route in positions.items()}
    return positions | without


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
        f"at least {SHARE_MIN:.2f} of the key's effect comes from the key's own position, and at "
        f"least "
        f"{SHARE_MIN:.2f} of the anchors' by L0's attention to the last position",
    ),
    "gather-at-last-anchor": Rule(
        ("key_from_last_anchor", "first_anchors_from_last_anchor"),
        f"at least {SHARE_MIN:.2f} of the key's effect and of the first anchors' comes from the "
        f"last anchor's position",
    ),
    "key-to-anchors": Rule(
        ("key_from_anchors", "anchors_from_anchors"),
        f"at least {SHARE_MIN:.2f} of the key's effect and of the anchors' comes from the "
        f"positions of the anchors "
        "taken together, without being the circuit before",
    ),
}
"""Circuits that have a route, in the order in which they are asked."""
SHARES = {
    share: re.sub("_(?=from_|L0_)", ":", share) for rule in NAMED.values() for share in rule.shares
}
"""The shares that decide -> the quantities of ``routes`` that they are."""
CAUSE_RULES = {
    **{name: rule.words for name, rule in NAMED.items()},
    "mixed": "none of them",
    "none": f"final accuracy on rsn_train < {ACCURACY_MIN:.2f}",
}
"""The names and their rules in words."""
CAUSES = tuple(CAUSE_RULES)


@checked
def circuit_by_cause(shares: Mapping[str, float], accuracy: float) -> str:
    """Name the circuit of one model from its shares and its accuracy on rsn_train, all in [0, 1].

    Args:
        shares: quantities of ``routes`` (``routes(...).values``); those of SHARES are used. A share
            that is missing or nan meets no threshold.
        accuracy: share of the rows of rsn_train that are answered rightly; nan counts as nothing
            learned.

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


CARRIERS = {
    "average-then-key": ("attn_out.{last}@last", "attn_out.0@last"),
    "key-to-anchors": ("attn_out.0@anchor", "resid_pre.0@anchor", "attn_out.0"),
}
"""Circuit -> where it carries the key and where the sum, and what stays as in the base while the
sum is taken."""


def check_reasoning(data: AnchorDataset, set: str, asker: str) -> None:
    """Raise TaskError where the answer of a row of the set is not key + sum."""
    if other := n_other_answers(data, set):
        raise TaskError(
            f"set='{set}': {asker} needs rows whose answer is key + sum, and {other} of its "
            f"{len(data.rows(set))} rows "
            f"have another; give another set, such as 'rsn_train', of a task whose reasoning is "
            f"key + sum."
        )


def n_other_answers(data: AnchorDataset, set: str) -> int:
    """Rows of a set whose answer is not key + sum."""
    key, total = _key_sum(data, rows := data.rows(set))
    return int(np.count_nonzero(key + total != data.labels[rows]))


class KeyAndSum(NamedTuple):
    """Interchange of the key and of the sum where a circuit carries them: effects on the same
    pairs, with controls."""

    key: Effect
    sum: Effect


@checked
@single_threaded
def key_and_sum(
    model: HookedModel,
    data: AnchorDataset,
    *,
    circuit: str = "average-then-key",
    n: int = 200,
    set: str = "rsn_train",
    same_position: bool | None = None,
    other_answers: bool = False,
    seed: int = 0,
) -> KeyAndSum:
    """Does the answer follow a key, and a sum, taken from another input where the circuit carries
    them?  (claim M9)

    Up to ``n`` pairs of inputs that the model answers rightly, with different keys and different
    sums of anchors; no row is in two pairs. A model that has no such pair gets nan and n = 0.

    Args:
        model: any model with TransformerLens's hooks.
        seed: seed of the draws.
        circuit: whose sites, one of CARRIERS. set: whose answers are key + sum, such as the
            reasoning sets.
        same_position: whether the pairs share their key's position; by default only for
            key-to-anchors, whose sites hold it.
        other_answers: take rows whose answer is another too, as of a task whose labels were
            shuffled on purpose.
    """
    if not other_answers:
        check_reasoning(data, set, "key_and_sum")
    key_at, sum_at, *hold = (text.format(last=model.cfg.n_layers - 1) for text in CARRIERS[circuit])
    shared = circuit == "key-to-anchors" if same_position is None else same_position
    base_rows, source_rows = _pairs(model, data, n, set, shared, seed)
    if not len(base_rows):
        places = key_at, sum_at + (f"; held: {' + '.join(hold)}" if hold else "")
        none = np.zeros(0), np.zeros((1, 0)), REDRAWN
        return KeyAndSum(*(Effect("interchange", at, "moved_as_predicted", *none) for at in places))
    base, source = data.inputs(base_rows), data.inputs(source_rows)
    control = data.task.counterfactual(data, base_rows, "noise", seed)
    (base_key, base_sum), (source_key, source_sum) = (
        _key_sum(data, at) for at in (base_rows, source_rows)
    )
    return KeyAndSum(
        interchange(model, base, source, key_at, source_key + base_sum, control=control),
        interchange(model, base, source, sum_at, base_key + source_sum, control=control, hold=hold),
    )


def _pairs(
    model: HookedModel, data: AnchorDataset, n: int, set: str, same_position: bool, seed: int
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Base and source rows, answered rightly, of different key and sum; every row in one pair at
    most."""
    rng = np.random.default_rng([data.seed, seed, 8])
    rows = rng.permutation(data.rows(set))[: 5 * n]
    rows = rows[most_likely(model, data.tokens[rows]) == data.labels[rows]] if len(rows) else rows
    if same_position:
        rows = rows[np.argsort(data.key_position[rows], kind="stable")]
    pairs = rows[: len(rows) // 2 * 2].reshape(-1, 2)
    (key, total), (other_key, other_total) = (_key_sum(data, at) for at in pairs.T)
    fits = (key != other_key) & (total != other_total)
    if same_position:
        fits &= np.equal(*data.key_position[pairs].T)
    chosen = rng.permutation(pairs[fits])[:n]
    return chosen[:, 0], chosen[:, 1]


def _key_sum(data: AnchorDataset, rows: Int[np.ndarray, " row"]) -> tuple[np.ndarray, np.ndarray]:
    """Key and sum of the anchors of each row."""
    anchors = data.tokens[rows[:, None], data.anchor_positions[rows]]
    return data.tokens[rows, data.key_position[rows]], anchors.sum(1)


@checked
@single_threaded
def permuted_number_line(
    model: HookedModel,
    data: AnchorDataset,
    *,
    set: str = "rsn_train",
    n: int = 300,
    direction: str | Float[np.ndarray, " d_model"] = "value",
    n_draws: int = 20,
    seed: int = 0,
) -> Effect:
    """Share of inputs whose answer becomes z + sum of pi(a) when the line of anchors is reversed,
    in [0, 1].

    Args:
        model: any model with TransformerLens's hooks.
        n_draws: draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.
        seed: seed of the draws.
        set: a reasoning set. n: rows looked at; those that are answered rightly and whose answer is
            to change count.
        direction: ``value``, ``component`` or a vector ``[d_model]``, of any length but 0.
    """
    check_reasoning(data, set, "the number line")
    anchors, rows = data.task.tokens("reasoning_anchor"), data.sample(set, n)
    own = data.tokens[rows[:, None], data.anchor_positions[rows]]
    if not np.isin(own, anchors).all():
        raise TaskError(
            f"set='{set}' has rows without reasoning anchors; give one that has them, such as "
            f"'rsn_train'."
        )
    order = np.arange(len(anchors))
    by = (order[::-1] - order)[own - data.task.reasoning_anchors[0]].sum(1)
    right = most_likely(model, data.tokens[rows]) == data.labels[rows]
    counts = right & (by != 0)
    tokens, predicted = data.tokens[rows[counts]], data.labels[rows[counts]] + by[counts]
    vectors, name = token_vectors(model, anchors), "a direction"
    if isinstance(direction, str):
        named = {
            "value": lambda: leading(value_matrix(model))[:, 0],
            "component": lambda: np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)[2][
                0
            ],
        }
        name, direction = f"the {direction} direction", named[direction]()

    def moved(along: np.ndarray) -> np.ndarray:
        """What is added to each anchor's vector."""
        unit = along / np.linalg.norm(along)
        line = vectors @ unit
        return (line[::-1] - line)[:, None] * unit

    W_E = writable_tensors(model, {"embed.W_E": model.W_E})["embed.W_E"]
    change, runs = moved(np.asarray(direction, dtype=np.float64)), []
    others = random_directions(n_draws, vectors.shape[1], np.random.default_rng([seed, 13]))
    for step in (change, *map(moved, others)):
        as_far = step * (np.linalg.norm(change) / max(np.linalg.norm(step), np.finfo(float).tiny))
        new = W_E.detach().clone()
        new[torch.as_tensor(anchors)] += torch.as_tensor(as_far).to(W_E)
        with replaced(W_E, new):
            runs.append(
                (most_likely(model, tokens) == predicted) * 1.0 if len(tokens) else np.zeros(0)
            )
    control = "random direction, change of the same norm"
    values, *other = runs
    about = 0.0, values.mean() if len(tokens) else np.nan, float(right.mean()), caller_hooks(model)
    done = f"anchors permuted along {name}", "W_E", "moved_as_predicted"
    return Effect(*done, values, np.array(other), control, *about)
