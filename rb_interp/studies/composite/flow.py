"""The flow of a member: by which positions key and pair reach the last one (paper 2, Fig. 3 and
Sec. 5.1).

    via last      L0 brings the pair to the last position, L1 the key; drawn for symmetric solutions
    via anchors   L0 brings the key to both anchors, L1 both anchors to the last position; for inferential ones
    via a2        L0 brings key and first anchor to the second one, L1 that one to the last position; in neither figure
    several       none of these alone
    none          no pair of rows to tell it from

Rows are early (``phase.early``) and of ``seen_test``; each of their positions has one role: key,
a1, a2, last or noise.

Interchange. A source has its base's position and noise, another key and another pair. Both pairs
are trained ones that are no exceptions, both rows are answered rightly, and these four answers
differ:

    base, source         what the two rows are answered
    kb_ps, ks_pb         the base's key with the source's pair, and the source's key with the base's pair

``R:answer`` is the share of pairs that get an answer once the residual stream after L0 is taken
from the source at the roles R, one role or two. Its placebo takes it from the base with its noise
redrawn: ``R:placebo`` is the share of answers that change. A flow has its name from these shares
alone, see `flow_of`. Beside them stands what the last position has from a layer's attention alone,
as in claim M9 of paper 1.

Knock-out. L0's attention from one role to another is set to 0 and the rest of the query's row
scaled to sum to 1. The loss of accuracy is read for key -> anchors and for anchors -> last; the
placebo has two noise positions in place of the anchors, never the last one. For key -> anchors they
are taken after the key where there are two, since no other one sees it.

How it can mislead. An untrained model answers no row rightly: no pairs, so no flow. An interchange
shows that roles suffice to carry something, not that nothing else carries it too. A member that
knows some pairs alone is read on those: see n. Shares of attention say where a position looks;
where they and interchange disagree, interchange decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from rb_interp.interventions.blocked_edges import blocked_edits
from rb_interp.interventions.sites import interchange_edits, most_likely
from rb_interp.models.protocol import HookedModel
from rb_interp.runs.results import StudyResult, frame
from rb_interp.runs.shared_member import Circuit
from rb_interp.statistics.intervals import mean_of_shares, proportion_interval
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.config import EACH, EDGES, FIRST_HOP, SUM
from rb_interp.studies.composite.phase import INFERENTIAL, PHASE_VALUES, SYMMETRIC, Placed, early
from rb_interp.studies.composite.task import CompositeDataset
from rb_interp.tasks.inputs import Inputs

ROLES = ("key", "a1", "a2", "last", "noise")
FLOWS = VIA_LAST, VIA_ANCHORS, VIA_A2, SEVERAL, NONE = (
    "via last",
    "via anchors",
    "via a2",
    "several",
    "none",
)
TAKEN = {
    **{role: (f"resid_post.0@{role}",) for role in ROLES},
    **{
        "+".join(two): tuple(f"resid_post.0@{role}" for role in two)
        for two in combinations(ROLES, 2)
    },
    **{f"L{layer}'s attention at last": (f"attn_out.{layer}@last",) for layer in range(2)},
}
"""What an interchange takes from the source together: name -> sites."""
ANSWERS = ("base", "source", "kb_ps", "ks_pb")
CARRIES, ALONE = 0.80, 0.50
"""Share of pairs from which roles carry something, and below which one anchor alone does not."""
DRAWN_FOR = {INFERENTIAL: VIA_ANCHORS, SYMMETRIC: VIA_LAST}
"""Phase -> the flow that paper 2 draws for it."""
LAYERS = 2


def flow_of(shares: Mapping[str, float]) -> str:
    """The flow by the shares of an interchange, ``R:answer``.

    ``via last``: last:kb_ps and key:ks_pb are at least .80. Else ``via anchors``: a1+a2:source is,
    and neither a1 nor a2 alone gives the source's answer in .50 or more. Else ``via a2``: a2:source
    is at least .80. Else ``several``; ``none`` where the shares are NaN.

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
    """Whether L0's and L1's attention meets the criterion of F1 (``via last``) and of F2 (``via
    anchors``)."""

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
        return Pairs(
            base, source, placebo, {name: answers[at] for name, answers in self.answers.items()}
        )


def inferential_rows(data: CompositeDataset) -> Int[np.ndarray, " row"]:
    """Early rows of seen_test whose pair is no exception."""
    rows = data.rows("seen_test")
    return rows[early(data, rows) & ~data.is_exception(data.pairs[rows])]


def draw_pairs(data: CompositeDataset) -> Pairs:
    """Every pair of rows that an interchange may use, whatever a model answers."""
    rows = inferential_rows(data)
    other, redrawn = (data.task.counterfactual(data, rows, change) for change in ("both", "noise"))
    base, at = data.inputs(rows), data.anchor_positions[rows]
    keys = [np.take_along_axis(one.tokens, at[:, :1] - 1, 1)[:, 0] for one in (base, other)]
    pairs = [np.take_along_axis(one.tokens, at, 1) for one in (base, other)]
    mixed = {"base": (0, 0), "source": (1, 1), "kb_ps": (0, 1), "ks_pb": (1, 0)}
    answers = {
        name: data.task.inferential(keys[key], pairs[pair]) for name, (key, pair) in mixed.items()
    }
    different = np.diff(np.sort(np.stack(list(answers.values())), 0), axis=0).all(0)
    fits = (
        different
        & (keys[0] != keys[1])
        & (pairs[0] != pairs[1]).any(1)
        & ~data.is_exception(pairs[1])
    )
    return Pairs(one_role_each(base), one_role_each(other), one_role_each(redrawn), answers).among(
        fits
    )


def one_role_each(inputs: Inputs) -> Inputs:
    """Early rows whose last position is ``last`` alone, and no noise."""
    noise = inputs.roles.position("noise")
    noise = noise[noise != inputs.tokens.shape[1] - 1].reshape(len(noise), -1)
    return replace(
        inputs, roles=replace(inputs.roles, positions={**inputs.roles.positions, "noise": noise})
    )


def read_interchange(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None
) -> Reading:
    """Shares of pairs by what they are answered once roles are taken from the source, in [0, 1].

    Values: ``R:answer`` and ``R:placebo`` of each R of TAKEN, each role and each two, and each of
    ANSWERS; NaN where no pair is answered rightly. n is the number of pairs.
    """
    pairs = draw_pairs(data)
    values, n = _shares(model, pairs)
    before = {} if untrained is None else _shares(untrained, pairs)[0]
    notes = {} if n else dict.fromkeys(values, "no pair of inputs is answered rightly.")
    return Reading("interchange_roles", values, untrained=before, n=n, notes=notes)


def _shares(model: HookedModel, pairs: Pairs) -> tuple[dict[str, float], int]:
    """The shares, and the number of pairs that they rest on."""
    names = (*ANSWERS, "placebo")
    right = (
        most_likely(model, pairs.base.tokens) == pairs.answers["base"]
        if len(pairs.base)
        else np.zeros(0, bool)
    )
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
        values |= {
            f"{taken}:{name}": float((after == used.answers[name]).mean()) for name in ANSWERS
        }
        values[f"{taken}:placebo"] = float((placebo != used.answers["base"]).mean())
    return values, int(right.sum())


def read_knock_out(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None
) -> Reading:
    """Accuracy on early rows of seen_test that is lost without an edge of L0's attention, in [-1,
    1].

    Values: ``anchors_from_key`` and ``last_from_anchors``, each with ``:placebo``; ``before``, the
    accuracy without any change. n is the number of rows.
    """
    rows = data.rows("seen_test")
    inputs = data.inputs(rows[early(data, rows)])
    values = _losses(model, inputs)
    before = {} if untrained is None else _losses(untrained, inputs)
    return Reading("knock_out", values, untrained=before, n=len(inputs))


def _losses(model: HookedModel, inputs: Inputs) -> dict[str, float]:
    def accuracy(edits: Sequence = ()) -> float:
        return float((most_likely(model, inputs.tokens, edits) == inputs.labels).mean())

    places, rng = inputs.roles.positions, np.random.default_rng([0, 12])
    noise, values = places["noise"], {"before": accuracy()}
    for name, edge in EDGES.items():
        # two of the noise, not the last one; those after the key first where no other one sees it
        order = rng.random(noise.shape) + 2.0 * (noise == inputs.tokens.shape[1] - 1)
        order -= (noise > places["key"]) & (edge[0] == "anchor")
        others = np.take_along_axis(noise, order.argsort(1)[:, :2], 1)
        for what, anchors in ((name, places["anchor"]), (f"{name}:placebo", others)):
            query, key = (anchors if role == "anchor" else places[role] for role in edge)
            values[what] = values["before"] - accuracy(blocked_edits(model, query, key, layer=0))
    return values


RULES = {
    VIA_LAST: (
        ("last:kb_ps", "key:ks_pb"),
        f"taken from another row, the last position brings that row's pair, and the key's position "
        f"its key, in at least {CARRIES:.2f} of the pairs of rows",
    ),
    VIA_ANCHORS: (
        ("a1+a2:source",),
        f"taken from another row, both anchors together bring its answer in at least {CARRIES:.2f} "
        f"of the pairs of rows, and neither does alone in {ALONE:.2f}",
    ),
    VIA_A2: (
        ("a2:source",),
        f"taken from another row, the second anchor brings its answer in at least {CARRIES:.2f} of "
        f"the pairs of rows",
    ),
}
"""Flow -> the shares that it needs, and the same in words."""


def moved(readings: pd.DataFrame) -> dict[tuple[float, int], tuple[dict[str, float], int]]:
    """Gamma and seed of each member with readings ``interchange_roles`` -> its shares, and the
    pairs behind them."""
    found = readings.loc[
        (readings["probe"] == "interchange_roles") & (readings["stage"] == "final")
    ]
    return {
        cast(tuple, place): (
            dict(zip(own["quantity"], own["value"], strict=True)),
            int(own["n"].max()),
        )
        for place, own in found.groupby(["gamma", "seed"])
    }


def circuits(measured: StudyResult) -> dict[tuple[float, int], Circuit]:
    """Gamma and seed of each member -> its flow, with the shares that the name rests on."""
    return {place: circuit_of(shares) for place, (shares, _) in moved(measured.readings).items()}


def circuit_of(shares: Mapping[str, float]) -> Circuit:
    """The flow by the shares of ``read_interchange``, as a circuit."""
    name = flow_of(shares)
    decide, rule = RULES.get(
        name, (tuple(dict.fromkeys(s for of, _ in RULES.values() for s in of)), "")
    )
    return Circuit(name, "interchange", rule, {share: float(shares[share]) for share in decide})


def with_flows(phases: pd.DataFrame, readings: pd.DataFrame) -> pd.DataFrame:
    """The table of phases with the ``flow`` of each member, and the pairs that it rests on."""
    known = {place: (flow_of(shares), n) for place, (shares, n) in moved(readings).items()}
    found = [
        known.get(place, (NONE, 0)) for place in zip(phases["gamma"], phases["seed"], strict=True)
    ]
    table = phases.assign(flow=[flow for flow, _ in found], n_pairs=[n for _, n in found])
    return frame(table, f"gamma seed phase:str flow:str {PHASE_VALUES} n_pairs:int")


def unseen_attention(readings: pd.DataFrame) -> Placed:
    """Readings ``unseen_attention`` of all gammas together, the units of F9; none of models of
    several heads.

    A unit is a member whose attention meets F1's or F2's criterion on trained pairs. ``kept`` is 1
    where it meets the same criterion on unseen, else 0. Its seed is the number of the unit.
    """
    looks, units = readings.loc[readings["probe"] == "attention_between_roles"], []
    for _, own in looks.groupby(["gamma", "seed"]):
        layers = own.pivot_table(
            "value", "quantity", ["set", "layer", "head"], aggfunc="first"
        ).to_dict()
        if len(layers) == 2 * LAYERS and not own["head"].any():
            seen, unseen = (
                flows_by_attention(layers[set, 0, 0], layers[set, 1, 0])
                for set in ("seen_test", "unseen")
            )
            units += [unseen[flow] for flow, met in seen.items() if met]
    for unit, same in enumerate(units):
        yield np.nan, unit, "unseen", Reading("unseen_attention", {"kept": float(same)}, n=1)


def flow_match(phases: pd.DataFrame) -> Placed:
    """Readings ``flow_match``: whether the flow tells the phase of inferential and symmetric
    members, of all gammas.

    ``inferential``: share of inferential members with the flow ``via anchors``, among those with
    that flow or ``via last``; ``symmetric``: share of symmetric ones with ``via last``, among the
    same. ``balanced_accuracy``: their mean. ``other_flow``: share of all these members with another
    flow. Each has the ends ``:low`` and ``:high`` of its Clopper-Pearson interval over n members;
    the mean's are `mean_of_shares`.
    """
    decided = phases.loc[phases["phase"].isin(DRAWN_FOR)]
    drawn = decided.loc[decided["flow"].isin(DRAWN_FOR.values())]
    of = {phase: drawn.loc[drawn["phase"] == phase, "flow"] for phase in DRAWN_FOR}
    counts = {
        phase: (int((of[phase] == flow).sum()), len(of[phase])) for phase, flow in DRAWN_FOR.items()
    }
    found = {phase: (proportion_interval(*count), count[1]) for phase, count in counts.items()}
    found["balanced_accuracy"] = mean_of_shares([*counts.values()]), len(drawn)
    found["other_flow"] = proportion_interval(len(decided) - len(drawn), len(decided)), len(decided)
    for name, (interval, n) in found.items():
        values = dict(zip((name, f"{name}:low", f"{name}:high"), interval, strict=True))
        yield np.nan, 0, "", Reading("flow_match", values, n=n)
