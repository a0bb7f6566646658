"""The flow of a member: by which positions key and pair reach the last one.

After paper 2, Fig. 3 and Sec. 5.1:

    via last      L0 brings the pair to the last position, L1 the key; drawn for symmetric
                  solutions
    via anchors   L0 brings the key to both anchors, L1 both anchors to the last position; drawn for
                  inferential ones
    via a2        L0 brings key and first anchor to the second one, L1 that one to the last
                  position; in neither figure
    several       none of these alone
    none          no pair of rows to tell it from

Rows are early (``phase.early``) and of ``seen_test``; each of their positions has one role: key,
a1, a2, last or noise.

Interchange. A source has its base's position and noise, another key and another pair. Both pairs
are trained ones that are no exceptions, both rows are answered rightly, and these four answers
differ:

    base, source    what the two rows are answered
    kb_ps, ks_pb    the base's key with the source's pair, and the source's key with the base's pair

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

from rb_interp.interventions.edits import interchange_edits, most_likely
from rb_interp.interventions.patterns import blocked_edits
from rb_interp.models.protocol import HookedModel
from rb_interp.runs.results import StudyResult, frame
from rb_interp.runs.shared_member import Circuit
from rb_interp.statistics.intervals import mean_of_shares, proportion_interval
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.config import ANCHOR_MIN, ANCHORS_MIN, EDGES, FIRST_HOP_MIN
from rb_interp.studies.composite.phase import (
    INFERENTIAL,
    PHASE_VALUES,
    SYMMETRIC,
    MemberReading,
    early,
)
from rb_interp.studies.composite.task import CompositeDataset
from rb_interp.tasks.inputs import Inputs

ROLES = ("key", "a1", "a2", "last", "noise")
VIA_LAST = "via last"
VIA_ANCHORS = "via anchors"
VIA_A2 = "via a2"
SEVERAL = "several"
NONE = "none"
SITES: dict[str, tuple[str, ...]] = {role: (f"resid_post.0@{role}",) for role in ROLES}
"""What an interchange takes from the source together: name -> sites."""
for _first, _second in combinations(ROLES, 2):
    SITES[f"{_first}+{_second}"] = SITES[_first] + SITES[_second]
for _layer in range(2):
    SITES[f"L{_layer}'s attention at last"] = (f"attn_out.{_layer}@last",)
ANSWERS = ("base", "source", "kb_ps", "ks_pb")
CARRIES = 0.80
"""Share of pairs from which roles carry something."""
ALONE = 0.50
"""Share of pairs below which one anchor alone does not carry it."""
FLOW_OF_PHASE = {INFERENTIAL: VIA_ANCHORS, SYMMETRIC: VIA_LAST}
"""Phase -> the flow that paper 2 draws for it."""
LAYERS = 2


def flow_of(shares: Mapping[str, float]) -> str:
    """The flow by the shares of an interchange, ``R:answer``.

    ``via last``: last:kb_ps and key:ks_pb are at least .80. Else ``via anchors``: a1+a2:source is,
    and neither a1 nor a2 alone gives the source's answer in .50 or more. Else ``via a2``: a2:source
    is at least .80. Else ``several``; ``none`` if the shares are NaN.

    >>> shares = {"last:kb_ps": 0.1, "key:ks_pb": 0.0}
    >>> flow_of(shares | {"a1+a2:source": 0.9, "a1:source": 0.2, "a2:source": 0.3})
    'via anchors'
    """
    if any(np.isnan(share) for share in shares.values()):
        return NONE
    if min(shares["last:kb_ps"], shares["key:ks_pb"]) >= CARRIES:
        return VIA_LAST
    alone = max(shares["a1:source"], shares["a2:source"])
    if shares["a1+a2:source"] >= CARRIES and alone < ALONE:
        return VIA_ANCHORS
    if shares["a2:source"] >= CARRIES:
        return VIA_A2
    return SEVERAL


def flows_by_attention(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, bool]:
    """Whether attention meets the criterion of F1 (``via last``) and of F2 (``via anchors``).

    Args:
        first: L0's attention between roles. second: L1's.
    """
    fetches_key = second["last_to_key"] >= ANCHORS_MIN
    anchors_fetch_key = min(first["a1_to_key"], first["a2_to_key"]) >= FIRST_HOP_MIN
    return {
        VIA_LAST: _gathers_anchors(first) and fetches_key,
        VIA_ANCHORS: anchors_fetch_key and _gathers_anchors(second),
    }


def _gathers_anchors(attention: Mapping[str, float]) -> bool:
    """Whether the last position attends to the anchors together, and to each of them."""
    first = attention["last_to_a1"]
    second = attention["last_to_a2"]
    return first + second >= ANCHORS_MIN and min(first, second) >= ANCHOR_MIN


class InterchangePairs(NamedTuple):
    """Pairs of rows, and the four answers of each."""

    base: Inputs
    source: Inputs
    placebo: Inputs
    """The base with its noise redrawn."""
    answers: Mapping[str, Int[np.ndarray, " pair"]]
    """Answers by name, see ANSWERS."""

    def select(self, mask: Bool[np.ndarray, " pair"]) -> InterchangePairs:
        """Some of the pairs."""
        numbers = np.flatnonzero(mask)
        answers = {name: answer[numbers] for name, answer in self.answers.items()}
        base = self.base.take(numbers)
        return InterchangePairs(
            base, self.source.take(numbers), self.placebo.take(numbers), answers
        )


def inferential_rows(data: CompositeDataset) -> Int[np.ndarray, " row"]:
    """Early rows of seen_test whose pair is no exception."""
    rows = data.rows("seen_test")
    return rows[early(data, rows) & ~data.is_exception(data.pairs[rows])]


def draw_pairs(data: CompositeDataset) -> InterchangePairs:
    """Every pair of rows that an interchange may use, whatever a model answers."""
    task = data.task
    rows = inferential_rows(data)
    source = task.counterfactual(data, rows, "both")
    placebo = task.counterfactual(data, rows, "noise")
    keys = data.keys[rows]
    pairs = data.pairs[rows]
    anchors = data.anchor_positions[rows]
    source_keys = np.take_along_axis(source.tokens, anchors[:, :1] - 1, 1)[:, 0]
    source_pairs = np.take_along_axis(source.tokens, anchors, 1)
    answers = {
        "base": task.inferential(keys, pairs),
        "source": task.inferential(source_keys, source_pairs),
        "kb_ps": task.inferential(keys, source_pairs),
        "ks_pb": task.inferential(source_keys, pairs),
    }
    ascending = np.sort([*answers.values()], axis=0)
    usable = (np.diff(ascending, axis=0) > 0).all(0)
    usable &= keys != source_keys
    usable &= (pairs != source_pairs).any(1)
    usable &= ~data.is_exception(source_pairs)
    base = with_distinct_roles(data.inputs(rows))
    source = with_distinct_roles(source)
    return InterchangePairs(base, source, with_distinct_roles(placebo), answers).select(usable)


def with_distinct_roles(inputs: Inputs) -> Inputs:
    """Early rows whose last position is ``last`` alone, and no noise."""
    positions = dict(inputs.roles.positions)
    noise = inputs.roles.position("noise")
    before_last = noise != inputs.tokens.shape[1] - 1
    positions["noise"] = noise[before_last].reshape(len(noise), -1)
    return replace(inputs, roles=replace(inputs.roles, positions=positions))


def read_interchange(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None
) -> Reading:
    """Shares of pairs by what they are answered once roles are taken from the source, in [0, 1].

    Values: ``R:answer`` and ``R:placebo`` of each R of SITES and each of ANSWERS; NaN if no pair is
    answered rightly. n is the number of pairs.
    """
    pairs = draw_pairs(data)
    values, n = _shares(model, pairs)
    before = {} if untrained is None else _shares(untrained, pairs)[0]
    notes = {} if n else dict.fromkeys(values, "no pair of inputs is answered rightly.")
    return Reading("interchange_roles", values, untrained=before, n=n, notes=notes)


def _shares(model: HookedModel, pairs: InterchangePairs) -> tuple[dict[str, float], int]:
    """The shares, and the number of pairs that they rest on."""
    right = np.zeros(len(pairs.base), dtype=bool)
    if len(right):
        right = most_likely(model, pairs.base.tokens) == pairs.answers["base"]
        right &= most_likely(model, pairs.source.tokens) == pairs.answers["source"]
    if not right.any():
        quantities = product(SITES, (*ANSWERS, "placebo"))
        return {f"{roles}:{name}": np.nan for roles, name in quantities}, 0
    pairs_right = pairs.select(right)
    values = {}
    for roles, sites in SITES.items():
        edits = interchange_edits(model, pairs_right.base, pairs_right.source, sites)
        changed = most_likely(model, pairs_right.base.tokens, edits)
        for name in ANSWERS:
            values[f"{roles}:{name}"] = float((changed == pairs_right.answers[name]).mean())
        edits = interchange_edits(model, pairs_right.base, pairs_right.placebo, sites)
        redrawn = most_likely(model, pairs_right.base.tokens, edits)
        values[f"{roles}:placebo"] = float((redrawn != pairs_right.answers["base"]).mean())
    return values, int(right.sum())


def read_knock_out(
    model: HookedModel, data: CompositeDataset, *, untrained: HookedModel | None = None
) -> Reading:
    """Accuracy on early rows of seen_test that is lost without an edge of L0's attention.

    It is in [-1, 1]. Values: ``anchors_from_key`` and ``last_from_anchors``, each with
    ``:placebo``; ``before``, the accuracy without any change. n is the number of rows.
    """
    rows = data.rows("seen_test")
    inputs = data.inputs(rows[early(data, rows)])
    values = _losses(model, inputs)
    before = {} if untrained is None else _losses(untrained, inputs)
    return Reading("knock_out", values, untrained=before, n=len(inputs))


def _accuracy(model: HookedModel, inputs: Inputs, edits: Sequence = ()) -> float:
    """Share of rows that are answered rightly under edits."""
    return float((most_likely(model, inputs.tokens, edits) == inputs.labels).mean())


def _losses(model: HookedModel, inputs: Inputs) -> dict[str, float]:
    """Values of `read_knock_out`."""
    positions = inputs.roles.positions
    noise = positions["noise"]
    rng = np.random.default_rng([0, 12])
    before = _accuracy(model, inputs)
    values = {"before": before}
    for name, (query, key) in EDGES.items():
        order = rng.random(noise.shape)
        order += 2.0 * (noise == inputs.tokens.shape[1] - 1)  # the last position comes last
        if query == "anchor":  # and noise after the key, which alone sees it, comes first
            order -= noise > positions["key"]
        in_place = np.take_along_axis(noise, order.argsort(1)[:, :2], 1)
        placebo = {**positions, "anchor": in_place}
        for quantity, edge in ((name, positions), (f"{name}:placebo", placebo)):
            edits = blocked_edits(model, edge[query], edge[key], layer=0)
            values[quantity] = before - _accuracy(model, inputs, edits)
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


DECIDING = tuple(share for shares, _ in RULES.values() for share in shares)
"""The shares that any flow needs."""


def interchange_shares(
    readings: pd.DataFrame,
) -> dict[tuple[float, int], tuple[dict[str, float], int]]:
    """Gamma and seed of a member -> its shares of an interchange, and the number of pairs."""
    final = readings.query("stage == 'final' and probe == 'interchange_roles'")
    members = {}
    for member, rows in final.groupby(["gamma", "seed"]):
        shares = rows.set_index("quantity")["value"].to_dict()
        members[cast(tuple, member)] = (shares, int(rows["n"].to_numpy().max()))
    return members


def circuits(measured: StudyResult) -> dict[tuple[float, int], Circuit]:
    """Gamma and seed of a member -> its flow, with the shares that the name rests on."""
    members = interchange_shares(measured.readings)
    return {member: circuit_of(shares) for member, (shares, _) in members.items()}


def circuit_of(shares: Mapping[str, float]) -> Circuit:
    """The flow by the shares of ``read_interchange``, as a circuit."""
    name = flow_of(shares)
    deciding, rule = RULES.get(name, (DECIDING, ""))
    return Circuit(name, "interchange", rule, {share: float(shares[share]) for share in deciding})


def with_flows(phases: pd.DataFrame, readings: pd.DataFrame) -> pd.DataFrame:
    """The table of phases with the ``flow`` of each member, and the pairs that it rests on."""
    members = interchange_shares(readings)
    rows = phases.to_dict("records")
    for row in rows:
        shares, n = members.get((row["gamma"], row["seed"]), ({}, 0))
        row["flow"] = flow_of(shares) if shares else NONE
        row["n_pairs"] = n
    return frame(rows, f"gamma seed phase:str flow:str {PHASE_VALUES} n_pairs:int")


def unseen_attention(readings: pd.DataFrame) -> Iterator[MemberReading]:
    """Readings ``unseen_attention`` of all gammas together, the units of F9.

    A unit is a member whose attention meets F1's or F2's criterion on trained pairs. ``kept`` is 1
    if it meets the same criterion on unseen, else 0. Its seed is the number of the unit. Models of
    several heads have none.
    """
    attention = readings.query("probe == 'attention_between_roles'")
    n_units = 0
    for _, rows in attention.groupby(["gamma", "seed"]):
        keys = ["set", "layer", "head"]
        layers = rows.pivot_table("value", "quantity", keys, aggfunc="first").to_dict()
        if len(layers) != 2 * LAYERS or any(rows["head"]):
            continue
        seen = flows_by_attention(layers["seen_test", 0, 0], layers["seen_test", 1, 0])
        unseen = flows_by_attention(layers["unseen", 0, 0], layers["unseen", 1, 0])
        for flow in seen:
            if seen[flow]:
                reading = Reading("unseen_attention", {"kept": float(unseen[flow])}, n=1)
                yield np.nan, n_units, "unseen", reading
                n_units += 1


def flow_match(phases: pd.DataFrame) -> Iterator[MemberReading]:
    """Readings ``flow_match``: whether the flow tells inferential from symmetric members.

    ``inferential``: share of inferential members with the flow ``via anchors``, among those with
    that flow or ``via last``; ``symmetric``: share of symmetric ones with ``via last``, among the
    same. ``balanced_accuracy``: their mean. ``other_flow``: share of all these members with another
    flow. Each has the ends ``:low`` and ``:high`` of its Clopper-Pearson interval over n members;
    the mean's are `mean_of_shares`. All are of all gammas together.
    """
    decided = phases.loc[phases["phase"].isin(FLOW_OF_PHASE)]
    members = decided.loc[decided["flow"].isin(FLOW_OF_PHASE.values())]
    counts = {}
    for phase, flow in FLOW_OF_PHASE.items():
        flows = members.query("phase == @phase")["flow"]
        counts[phase] = (int((flows == flow).sum()), len(flows))
    intervals = {phase: (proportion_interval(*count), count[1]) for phase, count in counts.items()}
    intervals["balanced_accuracy"] = (mean_of_shares(list(counts.values())), len(members))
    n = len(decided)
    intervals["other_flow"] = (proportion_interval(n - len(members), n), n)
    for name, (interval, n) in intervals.items():
        share, low, high = interval
        values = {name: share, f"{name}:low": low, f"{name}:high": high}
        yield np.nan, 0, "", Reading("flow_match", values, n=n)
