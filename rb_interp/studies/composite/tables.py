"""Tables of the composite study: what was read of each member, and statistics over members.

phases           one row a member: phase, flow, shares, accuracies, and whether attention meets F1's or F2's criterion
phase_counts     how many members of each gamma are in each phase with each flow
flow_match       over all members that are inferential or symmetric: does the flow tell the phase? See `flow_match`
answers          histogram of what is answered to unseen
by_position      I and S by position of the key
interchange      what pairs are answered once roles are taken from the source; ``_by_flow``: medians over members
attention        from every role to every role
matrices         spectra and condensation of every matrix; see `complexity`
exception_...    where the exception is stored; see ``exception``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rb_interp.runs.measured import curves_summary, frame, over_seeds, readings_table
from rb_interp.statistics.intervals import mean_of_shares, proportion_interval
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.complexity import complexity_summaries, matrix_rows
from rb_interp.studies.composite.config import MIDDLE
from rb_interp.studies.composite.exception import EDGES, fitted, place_of, qualifying, suggestions, use_of
from rb_interp.studies.composite.flow import (
    ANSWERS,
    FLOWS,
    LAYERS,
    NONE,
    ROLES,
    TAKEN,
    VIA_ANCHORS,
    VIA_LAST,
    flow_of,
    flows_by_attention,
)
from rb_interp.studies.composite.phase import ACCURACIES, INFERENTIAL, PHASES, SYMMETRIC, UNFIT, phase_of
from rb_interp.training.member_group import Member

CRITERIA = {VIA_LAST: "attention_last", VIA_ANCHORS: "attention_anchors"}
"""Flow -> column of ``phases`` that says whether attention meets its criterion; with ``_unseen`` on unseen."""
DRAWN_FOR = {INFERENTIAL: VIA_ANCHORS, SYMMETRIC: VIA_LAST}
"""Phase -> the flow that paper 2 draws for it."""

COLUMNS = {
    "phases": (
        "gamma seed phase:str flow:str I S O I_early S_early acc_train acc_seen_train acc_seen_test "
        "n_pairs:int attention_last:bool attention_anchors:bool attention_last_unseen:bool "
        "attention_anchors_unseen:bool"
    ),
    "answers": "gamma seed difference:int count:int share",
    "by_position": "gamma seed position:int I S n",
    "interchange": "gamma seed roles:str base source kb_ps ks_pb other placebo n",
    "attention": "gamma seed set layer:int head:int query:str key:str attention untrained",
    "exception_edges": "gamma seed edge:str turned kept qualifies:bool n:int",
    "exception_places": "gamma seed used_for:str phase:str flow:str place:str others:str learned",
    "matrices": (
        "gamma seed layer:int matrix:str participation participation_untrained stable_rank "
        "stable_rank_untrained condensed condensed_untrained condensed_signed condensed_signed_untrained "
        "groups groups_untrained"
    ),
}
"""Table with rows for every member -> its columns."""


class MemberFound(NamedTuple):
    """What was read of a member at its last step: (set, reading), in the order in which they were taken."""

    member: Member
    step: int
    readings: Sequence[tuple[str, Reading]]

    def of(self, probe: str, set: str = "") -> list[Reading]:
        """The readings of a probe on a set."""
        return [reading for where, reading in self.readings if (reading.probe, where) == (probe, set)]

    @property
    def place(self) -> dict[str, float]:
        """Gamma and seed."""
        return {"gamma": self.member.gamma, "seed": self.member.seed}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of the table of readings."""
        for set, reading in self.readings:
            place = {**self.place, "stage": "final", "step": self.step, "set": set}
            yield from ({**place, **row} for row in reading.rows())


def member_tables(found: Sequence[MemberFound]) -> dict[str, pd.DataFrame]:
    """The tables that have rows for every member."""
    rows = {"phases": _phase_rows, "answers": _rows_of("answers"), "by_position": _rows_of("by_position"),
            "interchange": _interchange_rows, "attention": _attention_rows, "exception_edges": _edge_rows,
            "exception_places": _place_rows,
            "matrices": lambda one: matrix_rows([*one.of("weight_spectra"), *one.of("condensation")])}  # fmt: skip
    return {
        name: frame([{**one.place, **row} for one in found for row in make(one)], COLUMNS[name])
        for name, make in rows.items()
    }


def _rows_of(table: str) -> Any:
    return lambda one: one.of("phase")[0].tables[table].to_dict("records")


def _phase_rows(one: MemberFound) -> list[dict[str, Any]]:
    values, moved = one.of("phase")[0].values, one.of("interchange_roles", "seen_test")
    row = {name: values[name] for name in ("I", "S", "O", "I_early", "S_early", *(f"acc_{x}" for x in ACCURACIES))}
    row |= {"phase": phase_of(values["acc_seen_test"], values["I"], values["S"])}
    row |= {"flow": flow_of(moved[0].values) if moved else NONE, "n_pairs": moved[0].n if moved else 0}
    for set, suffix in (("seen_test", ""), ("unseen", "_unseen")):
        met = _by_attention(one.of("attention_between_roles", set))
        row |= {f"{column}{suffix}": met.get(flow, False) for flow, column in CRITERIA.items()}
    return [row]


def _by_attention(layers: Sequence[Reading]) -> dict[str, bool]:
    """Which flows' criteria attention meets; nothing for models of several heads, or of other than two layers."""
    if len(layers) != LAYERS or any(reading.head for reading in layers):
        return {}
    first, second = layers
    return flows_by_attention(first.values, second.values)


def _interchange_rows(one: MemberFound) -> list[dict[str, Any]]:
    rows = []
    for reading in one.of("interchange_roles", "seen_test"):
        for roles in TAKEN:
            row = {name: reading.values[f"{roles}:{name}"] for name in (*ANSWERS, "placebo")}
            other = 1 - sum(row[name] for name in ANSWERS)
            rows.append({"roles": roles, **row, "other": other, "n": reading.n})
    return rows


def _attention_rows(one: MemberFound) -> list[dict[str, Any]]:
    return [
        {"set": set, "layer": reading.layer, "head": reading.head, "query": query, "key": key,
         "attention": reading.values[f"{query}_to_{key}"], "untrained": reading.untrained[f"{query}_to_{key}"]}
        for set in ("seen_test", "unseen")
        for reading in one.of("attention_between_roles", set)
        for query, key in product(ROLES, ROLES)
    ]  # fmt: skip


def _edge_rows(one: MemberFound) -> list[dict[str, Any]]:
    return [
        {"edge": edge, "turned": reading.values[f"{edge}:turned"], "kept": reading.values[f"{edge}:kept"],
         "qualifies": edge in qualifying(reading.values), "n": reading.n}
        for reading in one.of("exception_edges", "seen_test")
        for edge in EDGES
    ]  # fmt: skip


def _place_rows(one: MemberFound) -> list[dict[str, Any]]:
    (own,) = _phase_rows(one)
    return [
        {"used_for": use_of(one.member.seed), "phase": own["phase"], "flow": own["flow"],
         "place": place_of(reading.values), "others": ", ".join(qualifying(reading.values)[1:]),
         "learned": reading.values["before:learned"]}
        for reading in one.of("exception_edges", "seen_test")
    ]  # fmt: skip


def unseen_attention(phases: pd.DataFrame, step: int) -> pd.DataFrame:
    """Readings ``unseen_attention`` of all gammas together, the units of F9.

    A unit is a member whose attention meets F1's or F2's criterion on trained pairs. ``kept`` is 1 where it meets the
    same criterion on unseen, else 0. Its gamma is NaN and its seed the number of the unit.
    """
    kept = [
        float(row[f"{column}_unseen"])
        for row in phases.to_dict("records")
        for column in CRITERIA.values()
        if row[column]
    ]
    place = {"gamma": np.nan, "stage": "final", "step": step, "set": "unseen"}
    rows = [
        {**place, "seed": number, **row}
        for number, value in enumerate(kept)
        for row in Reading("unseen_attention", {"kept": value}, n=1).rows()
    ]
    return readings_table(rows)


def summaries(tables: Mapping[str, pd.DataFrame], curves: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tables of statistics over members."""
    place = ["gamma", "flow", "set", "layer", "head", "query", "key"]
    attention = tables["attention"].merge(tables["phases"][["gamma", "seed", "flow"]], on=["gamma", "seed"])
    return {
        "phase_counts": phase_counts(tables["phases"]),
        "interchange_by_flow": interchange_by_flow(tables["interchange"], tables["phases"]),
        "flow_match": flow_match(tables["phases"]),
        "exception_counts": exception_counts(tables["exception_places"]),
        "exception_test": frame(suggestions(tables["exception_places"]), "by:str right low high n:int"),
        "by_position_summary": over_seeds(tables["by_position"], ["gamma", "position"], ["I", "S"]),
        "attention_summary": over_seeds(attention, place, ["attention", "untrained"]),
        "curves_summary": curves_summary(curves),
        **complexity_summaries(tables),
    }


def memorising(phases: pd.DataFrame, curves: pd.DataFrame, step: int) -> pd.DataFrame:
    """Readings ``memorising`` of every member that is unfit on seen_test, the numbers of C3m.

    ``train``: accuracy on the rows that were trained on; ``gap``: that less accuracy on seen_train; ``loss``: on rows
    of train at the last evaluation, in nats, NaN where ``curves`` has none.
    """
    last = curves.loc[curves["set"] == "train"].sort_values("step").groupby(["gamma", "seed"])["loss"].last()
    rows = []
    for row in phases.loc[phases["phase"] == UNFIT].to_dict("records"):
        place = {"gamma": row["gamma"], "seed": row["seed"]}
        values = {"train": row["acc_train"], "gap": row["acc_train"] - row["acc_seen_train"]}
        values["loss"] = last.get(tuple(place.values()), np.nan)
        place |= {"stage": "final", "step": step, "set": "train"}
        rows += [{**place, **one} for one in Reading("memorising", values, n=1).rows()]
    return readings_table(rows)


def two_phases(phases: pd.DataFrame, step: int) -> pd.DataFrame:
    """Readings ``two_phases`` of each seed over its fitted members at gammas of .5 and above, the numbers of C6.

    ``decided``: share of them that are inferential or symmetric, NaN where none is fitted. n is how many there are.
    """
    rows = []
    for seed, members in phases.loc[phases["gamma"] >= MIDDLE - 1e-9].groupby("seed"):
        fitted = members.loc[members["phase"] != UNFIT]
        share = float(fitted["phase"].isin(DRAWN_FOR).mean()) if len(fitted) else np.nan
        place = {"gamma": np.nan, "seed": seed, "stage": "final", "step": step, "set": ""}
        rows += [{**place, **row} for row in Reading("two_phases", {"decided": share}, n=len(fitted)).rows()]
    return readings_table(rows)


def flow_readings(match: pd.DataFrame, step: int) -> pd.DataFrame:
    """Readings ``flow_match`` of all gammas together, the numbers of F7 with their intervals; gamma is NaN."""
    place = {"gamma": np.nan, "seed": 0, "stage": "final", "step": step, "set": ""}
    rows = []
    for row in match.to_dict("records"):
        values = {row["quantity"]: row["value"], **{f"{row['quantity']}:{end}": row[end] for end in ("low", "high")}}
        rows += [{**place, **one} for one in Reading("flow_match", values, n=row["n"]).rows()]
    return readings_table(rows)


def phase_counts(phases: pd.DataFrame) -> pd.DataFrame:
    """Members of each gamma by phase and flow, in the order of PHASES and FLOWS, without pairs that do not occur."""
    rows = []
    for gamma, members in phases.groupby("gamma", sort=True):
        for phase, flow in product(PHASES, FLOWS):
            n = int(np.sum((members["phase"] == phase) & (members["flow"] == flow)))
            rows += [{"gamma": gamma, "phase": phase, "flow": flow, "n": n, "total": len(members)}] if n else []
    return frame(rows, "gamma phase:str flow:str n total:int")


def interchange_by_flow(interchange: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """Median shares over all members of each flow, in the order of FLOWS and TAKEN; members without a pair are out."""
    known = interchange.loc[interchange["n"] > 0].merge(phases[["gamma", "seed", "flow"]], on=["gamma", "seed"])
    rows = []
    for flow, taken in product(FLOWS, TAKEN):
        here = known.loc[(known["flow"] == flow) & (known["roles"] == taken)]
        if len(here):
            medians = {name: float(here[name].median()) for name in (*ANSWERS, "other", "placebo")}
            rows.append({"flow": flow, "roles": taken, **medians, "members": len(here)})
    return frame(rows, "flow:str roles:str base source kb_ps ks_pb other placebo members:int")


def exception_counts(places: pd.DataFrame) -> pd.DataFrame:
    """Fitted members by use, phase, flow and place of the exception, the most frequent first in each use."""
    counts = fitted(places).value_counts(["used_for", "phase", "flow", "place"], sort=False).rename("n").reset_index()
    counts = counts.sort_values(["used_for", "n", "phase", "flow", "place"], ascending=[True, False, True, True, True])
    return frame(counts.to_dict("records"), "used_for:str phase:str flow:str place:str n:int")


def flow_match(phases: pd.DataFrame) -> pd.DataFrame:
    """Whether the flow tells the phase, over all inferential and symmetric members, whatever their gamma (after F7).

    ``inferential``: share of inferential members with the flow ``via anchors``, among those with that flow or ``via
    last``; ``symmetric``: share of symmetric ones with ``via last``, among the same. ``balanced_accuracy``: their mean.
    ``other_flow``: share of all these members with another flow. low and high are Clopper-Pearson intervals over n
    members; the mean's are `mean_of_shares`.
    """
    decided = phases.loc[phases["phase"].isin(DRAWN_FOR)]
    drawn = decided.loc[decided["flow"].isin(DRAWN_FOR.values())]
    rows, counts = [], []
    for phase, flow in DRAWN_FOR.items():
        flows = drawn.loc[drawn["phase"] == phase, "flow"]
        counts.append((int((flows == flow).sum()), len(flows)))
        rows.append((phase, *proportion_interval(*counts[-1]), len(flows)))
    others = len(decided) - len(drawn)
    rows.append(("balanced_accuracy", *mean_of_shares(counts), len(drawn)))
    rows.append(("other_flow", *proportion_interval(others, len(decided)), len(decided)))
    return frame(rows, "quantity value low high n")
