"""The flow of a member: by which positions key and pair reach the last one (paper 2, Fig. 3 and Sec. 5.1).

    via last      L0 brings the pair to the last position, L1 the key; drawn for symmetric solutions
    via anchors   L0 brings the key to both anchors, L1 both anchors to the last position; for inferential ones
    via a2        L0 brings key and first anchor to the second one, L1 that one to the last position; in neither figure
    several       none of these alone
    none          no pair of rows to tell it from

Rows are early (``phase.early``) and of ``seen_test``; each of their positions has one role: key, a1, a2, last or noise.

Interchange. A source has its base's position and noise, another key and another pair. Both pairs are trained ones that
are no exceptions, both rows are answered rightly, and these four answers differ:

    base, source         what the two rows are answered
    kb_ps, ks_pb         the base's key with the source's pair, and the source's key with the base's pair

``R:answer`` is the share of pairs that get an answer once the residual stream after L0 is taken from the source at the
roles R, one role or two. Its placebo takes it from the base with its noise redrawn: ``R:placebo`` is the share of
answers that change. A flow has its name from these shares alone, see `flow_of`. Beside them stands what the last
position has from a layer's attention alone, as in claim M9 of paper 1.

Knock-out. L0's attention from one role to another is set to 0 and the rest of the query's row scaled to sum to 1. The
loss of accuracy is read for key -> anchors and for anchors -> last; the placebo has two noise positions in place of the
anchors, never the last one. For key -> anchors they are taken after the key where there are two, since no other one
sees it.

How it can mislead. An untrained model answers no row rightly: no pairs, so no flow. An interchange shows that roles
suffice to carry something, not that nothing else carries it too. A member that knows some pairs alone is read on those:
see n. Shares of attention say where a position looks; where they and interchange disagree, interchange decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, cast

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.errors import ModelError
from rb_interp.interventions.attention import blocked_edits
from rb_interp.interventions.hooking import interchange_edits
from rb_interp.interventions.interchanging import most_likely
from rb_interp.models.protocol import HookedModel
from rb_interp.runs.measured import Measured
from rb_interp.runs.shared_member import Circuit
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.phase import early
from rb_interp.studies.composite.rows import CompositeDataset
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads

ROLES = ("key", "a1", "a2", "last", "noise")
FLOWS = VIA_LAST, VIA_ANCHORS, VIA_A2, SEVERAL, NONE = ("via last", "via anchors", "via a2", "several", "none")
TAKEN = {
    **{role: (f"resid_post.0@{role}",) for role in ROLES},
    **{"+".join(two): tuple(f"resid_post.0@{role}" for role in two) for two in combinations(ROLES, 2)},
    **{f"L{layer}'s attention at last": (f"attn_out.{layer}@last",) for layer in range(2)},
}
"""What an interchange takes from the source together: name -> sites."""
ANSWERS = ("base", "source", "kb_ps", "ks_pb")
CARRIES, ALONE = 0.80, 0.50
"""Share of pairs from which roles carry something, and below which one anchor alone does not."""
SUM, EACH, FIRST_HOP = 0.80, 0.20, 0.50
"""Attention that F1 and F2 ask for: on two anchors together, on each of them, and from an anchor to the key."""
EDGES = {"anchors_from_key": ("anchor", "key"), "last_from_anchors": ("last", "anchor")}
"""Knocked-out edges of L0: name -> query and key."""
NO_PAIRS = "no pair of inputs is answered rightly."
LAYERS = 2


def flow_of(shares: Mapping[str, float]) -> str:
    """The flow by the shares of an interchange, ``R:answer``.

    ``via last``: last:kb_ps and key:ks_pb are at least .80. Else ``via anchors``: a1+a2:source is, and neither a1 nor
    a2 alone gives the source's answer in .50 or more. Else ``via a2``: a2:source is at least .80. Else ``several``;
    ``none`` where the shares are NaN.

    >>> flow_of({"last:kb_ps": 0.1, "key:ks_pb": 0.0, "a1+a2:source": 0.9, "a1:source": 0.2, "a2:source": 0.3})
    'via anchors'
    """
    if any(np.isnan(share) for share in shares.values()):
        return NONE
    if min(shares["last:kb_ps"], shares["key:ks_pb"]) >= CARRIES:
        return VIA_LAST
    if shares["a1+a2:source"] >= CARRIES and max(shares["a1:source"], shares["a2:source"]) < ALONE:
        return VIA_ANCHORS
    return VIA_A2 if shares["a2:source"] >= CARRIES else SEVERAL


def flows_by_attention(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, bool]:
    """Whether attention meets the criterion of F1 (``via last``) and of F2 (``via anchors``).

    Args:
        first, second: L0's and L1's attention between roles, as the probe ``attention`` names it.
    """

    def gathers(attention: Mapping[str, float]) -> bool:
        parts = attention["last_to_a1"], attention["last_to_a2"]
        return sum(parts) >= SUM and min(parts) >= EACH

    return {
        VIA_LAST: gathers(first) and second["last_to_key"] >= SUM,
        VIA_ANCHORS: min(first["a1_to_key"], first["a2_to_key"]) >= FIRST_HOP and gathers(second),
    }


class Pairs(NamedTuple):
    """Base rows, a source and a placebo for each, and the four answers."""

    base: Inputs
    source: Inputs
    placebo: Inputs
    answers: Mapping[str, Int[np.ndarray, " pair"]]

    def among(self, kept: Bool[np.ndarray, " pair"]) -> Pairs:
        """Some of the pairs."""
        at = np.flatnonzero(kept)
        base, source, placebo = (part.take(at) for part in (self.base, self.source, self.placebo))
        return Pairs(base, source, placebo, {name: answers[at] for name, answers in self.answers.items()})


def inferential_rows(data: CompositeDataset, set: str = "seen_test") -> Int[np.ndarray, " row"]:
    """Early rows of a set whose pair is no exception."""
    rows = data.rows(set)
    return rows[early(data, rows) & ~data.is_exception(data.pairs[rows])]


def draw_pairs(data: CompositeDataset, seed: int = 0) -> Pairs:
    """Every pair of rows that an interchange may use, whatever a model answers; the same seed draws the same."""
    rows = inferential_rows(data)
    other, redrawn = (data.task.counterfactual(data, rows, change, seed) for change in ("both", "noise"))
    base, at = data.inputs(rows), data.anchor_positions[rows]
    keys = [np.take_along_axis(one.tokens, at[:, :1] - 1, 1)[:, 0] for one in (base, other)]
    pairs = [np.take_along_axis(one.tokens, at, 1) for one in (base, other)]
    mixed = {"base": (0, 0), "source": (1, 1), "kb_ps": (0, 1), "ks_pb": (1, 0)}
    answers = {name: data.task.inferential(keys[key], pairs[pair]) for name, (key, pair) in mixed.items()}
    different = np.diff(np.sort(np.stack(list(answers.values())), 0), axis=0).all(0)
    fits = different & (keys[0] != keys[1]) & (pairs[0] != pairs[1]).any(1) & ~data.is_exception(pairs[1])
    return Pairs(_one_role_each(base), _one_role_each(other), _one_role_each(redrawn), answers).among(fits)


def _one_role_each(inputs: Inputs) -> Inputs:
    """Early rows whose last position is ``last`` alone, and no noise."""
    noise = early_positions(inputs, "noise")
    return replace(inputs, roles=replace(inputs.roles, positions={**inputs.roles.positions, "noise": noise}))


def early_positions(inputs: Inputs, role: str) -> Int[np.ndarray, "row n"]:
    """Where a role stands in early rows. Noise counts without the last position."""
    at = inputs.roles.position(role)
    return at[at != inputs.tokens.shape[1] - 1].reshape(len(at), -1) if role == "noise" else at


@few_threads
def read_interchange(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None, seed: int = 0
) -> Reading:
    """Shares of pairs by what they are answered once roles are taken from the source, in [0, 1].

    Values: ``R:answer`` and ``R:placebo`` of each R of TAKEN, each role and each two, and each of ANSWERS; NaN where
    no pair is answered rightly. n is the number of pairs.

    Args:
        model: a model of two layers. data: whose rows. seed: of sources and noise.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises ModelError for another number of layers.
    """
    _check_layers(model, "read_interchange")
    pairs = draw_pairs(data, seed)
    values, n = _shares(model, pairs)
    before = {} if untrained is None else _shares(untrained, pairs)[0]
    return Reading(
        "interchange_roles", values, untrained=before, n=n, notes={} if n else dict.fromkeys(values, NO_PAIRS)
    )


def _shares(model: HookedModel, pairs: Pairs) -> tuple[dict[str, float], int]:
    """The shares, and the number of pairs that they rest on."""
    names = (*ANSWERS, "placebo")
    right = most_likely(model, pairs.base.tokens) == pairs.answers["base"] if len(pairs.base) else np.zeros(0, bool)
    if right.any():
        right &= most_likely(model, pairs.source.tokens) == pairs.answers["source"]
    if not right.any():
        return {f"{taken}:{name}": float("nan") for taken in TAKEN for name in names}, 0
    used, values = pairs.among(right), {}
    for taken, sites in TAKEN.items():
        after, placebo = (
            most_likely(model, used.base.tokens, interchange_edits(model, used.base, source, sites))
            for source in (used.source, used.placebo)
        )
        values |= {f"{taken}:{name}": float((after == used.answers[name]).mean()) for name in ANSWERS}
        values[f"{taken}:placebo"] = float((placebo != used.answers["base"]).mean())
    return values, int(right.sum())


@few_threads
def read_knock_out(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None, seed: int = 0
) -> Reading:
    """Accuracy on early rows of seen_test that is lost without an edge of L0's attention, in [-1, 1].

    Values: ``anchors_from_key`` and ``last_from_anchors``, each with ``:placebo``; ``before``, the accuracy without any
    change. n is the number of rows.

    Args:
        model: a model of two layers. data: whose rows. seed: of the placebo's noise positions.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises ModelError for another number of layers.
    """
    _check_layers(model, "read_knock_out")
    rows = data.rows("seen_test")
    inputs = data.inputs(rows[early(data, rows)])
    values = _losses(model, inputs, seed)
    before = {} if untrained is None else _losses(untrained, inputs, seed)
    return Reading("knock_out", values, untrained=before, n=len(inputs))


def _losses(model: HookedModel, inputs: Inputs, seed: int) -> dict[str, float]:
    def accuracy(edits: Sequence = ()) -> float:
        return float((most_likely(model, inputs.tokens, edits) == inputs.labels).mean())

    places, rng = inputs.roles.positions, np.random.default_rng([seed, 12])
    values = {"before": accuracy()}
    for name, edge in EDGES.items():
        noise = noise_positions(inputs, rng, after_key=edge[0] == "anchor")
        for what, anchors in ((name, places["anchor"]), (f"{name}:placebo", noise)):
            query, key = (anchors if role == "anchor" else places[role] for role in edge)
            values[what] = values["before"] - accuracy(blocked_edits(model, query, key, layer=0))
    return values


def noise_positions(inputs: Inputs, rng: np.random.Generator, *, after_key: bool) -> Int[np.ndarray, "row 2"]:
    """Two noise positions of each row, not the last one; those after the key first where that is asked for."""
    noise, last = inputs.roles.position("noise"), inputs.tokens.shape[1] - 1
    later = after_key & (noise > inputs.roles.position("key"))
    order = rng.random(noise.shape) - later + 2.0 * (noise == last)
    return np.take_along_axis(noise, order.argsort(1)[:, :2], 1)


def _check_layers(model: HookedModel, asker: str) -> None:
    if model.cfg.n_layers != LAYERS:
        raise ModelError(
            f"{asker} got a model of {model.cfg.n_layers} layers; flows are defined for two, so pass one with two."
        )


RULES = {
    VIA_LAST: (
        ("last:kb_ps", "key:ks_pb"),
        f"taken from another row, the last position brings that row's pair, and the key's position its key, in at "
        f"least {CARRIES:.2f} of the pairs of rows",
    ),
    VIA_ANCHORS: (
        ("a1+a2:source",),
        f"taken from another row, both anchors together bring its answer in at least {CARRIES:.2f} of the pairs of "
        f"rows, and neither does alone in {ALONE:.2f}",
    ),
    VIA_A2: (
        ("a2:source",),
        f"taken from another row, the second anchor brings its answer in at least {CARRIES:.2f} of the pairs of rows",
    ),
}
"""Flow -> the shares that it needs, and the same in words."""


def circuits(measured: Measured) -> dict[tuple[float, int], Circuit]:
    """Gamma and seed of each member -> its flow, with the shares that the name rests on."""
    table, found = measured.readings, {}
    shares = table[(table["probe"] == "interchange_roles") & (table["stage"] == "final")]
    for place, own in shares.groupby(["gamma", "seed"]):
        gamma, seed = cast(tuple, place)
        found[float(gamma), int(seed)] = circuit_of(dict(zip(own["quantity"], own["value"], strict=True)))
    return found


def circuit_of(shares: Mapping[str, float]) -> Circuit:
    """The flow by the shares of ``read_interchange``, as a circuit.

    >>> circuit_of({"last:kb_ps": 0.1, "key:ks_pb": 0.0, "a1+a2:source": 0.9, "a1:source": 0.2, "a2:source": 0.3}).name
    'via anchors'
    """
    name = flow_of(shares)
    decide, rule = RULES.get(name, (tuple(dict.fromkeys(s for of, _ in RULES.values() for s in of)), ""))
    return Circuit(name, "interchange", rule, {share: float(shares[share]) for share in decide})
