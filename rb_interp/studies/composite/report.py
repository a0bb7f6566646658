"""What the report says of composite functions: how the unseen pair is answered, and by which flow."""

from __future__ import annotations

import math
from collections import Counter

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, share_text, two_digits
from rb_interp.figures.panels import over_seeds
from rb_interp.probes.neuron_groups import ALIKE
from rb_interp.report.section import Block, Cell, Figure, Heading, Narrative, Paragraph, Row, Section, Table
from rb_interp.studies.composite.config import GAMMAS, MIDDLE, SMALL
from rb_interp.studies.composite.phase import DECIDED, INFERENTIAL, PHASES, SYMMETRIC
from rb_interp.studies.composite.report_exception import exception_section
from rb_interp.studies.composite.report_vectors import complexity_section, representation_section
from rb_interp.studies.composite.task import FITTED

MISSING = "This run has no phases and flows; “rb-interp probe RUN” makes them."
MATCH = {
    "inferential": "inferential members with the flow via anchors, not via last",
    "symmetric": "symmetric members with the flow via last, not via anchors",
    "balanced_accuracy": "mean of the two: the flow tells the phase",
    "other_flow": "inferential and symmetric members with another flow",
}
CARRIED = {"source": "source", "kb_ps": "kb_ps", "ks_pb": "ks_pb", "base": "base", "other": "other",
           "placebo": "placebo"}  # fmt: skip
"""Column of ``interchange_by_flow`` -> its heading."""
BOTH = {
    "F1: L0, last to anchors": ("attention_between_roles", "last_to_anchors", False),
    "F1 and M7: L1, last to key": ("attention_between_roles", "last_to_key", True),
    "F4: last gives kb_ps": ("interchange_roles", "last:kb_ps", False),
    "F4: key gives ks_pb": ("interchange_roles", "key:ks_pb", False),
    "M9: L0’s attention at last gives kb_ps": ("interchange_roles", "L0's attention at last:kb_ps", False),
    "M9: L1’s attention at last gives ks_pb": ("interchange_roles", "L1's attention at last:ks_pb", False),
}
"""Heading -> probe, quantity, and whether the last layer is read."""
BOTH_PAPERS = (
    "Paper 1 draws the flow via last for small initialisations of another task, paper 2 for symmetric solutions, "
    "which larger ones have. Here both papers' readings are of the same members. M7 and M9 are claims of the anchor "
    "study. M7: the last layer looks at the key. M9: L0's attention brings the anchors to the last position, and the "
    "last layer's attention brings the key."
)
APART = 0.10
"""Difference between a share over all positions and over early ones from which the report warns."""
OTHERS = 6
"""Answers that a table of answers lists, the most frequent ones."""


def narrative(evidence: Evidence) -> Narrative:
    """Answer, and sections on phases, flows and representations."""
    members = evidence.records("phases")
    if not members:
        return Narrative((MISSING,))
    answer = (*_phases(evidence), *_flows(evidence))
    makers = (_phase_section, _flow_section, representation_section, complexity_section, exception_section)
    return Narrative(answer, _warnings(evidence), sections=tuple(make(evidence) for make in makers))


def _phases(evidence: Evidence) -> list[str]:
    """How many members of each rate are in each phase, with the medians of I and S."""
    found = []
    for gamma in evidence.gammas:
        counts = Counter[str]()
        for row in evidence.records("phase_counts", gamma=gamma):
            counts[row["phase"]] += row["n"]
        if not counts:
            continue
        named = ", ".join(f"{counts[phase]} {phase}" for phase in PHASES if counts[phase])
        shares = (over_seeds(evidence, "phase", name, gamma, write=share_text) for name in "IS")
        text = f"γ = {gamma:g}, {seeds_text(counts.total())}: {named}"
        found.append("{}; inferential answers {}, symmetric answers {} (median [range]).".format(text, *shares))
    return found


def _flows(evidence: Evidence) -> list[str]:
    """How many members of each phase have each flow, over all rates."""
    counts: dict[str, Counter[str]] = {}
    for row in evidence.records("phase_counts"):
        counts.setdefault(row["phase"], Counter())[row["flow"]] += row["n"]
    found = [
        f"{phase} members: " + ", ".join(f"{n} {flow}" for flow, n in counts[phase].most_common())
        for phase in PHASES
        if phase in counts and phase != "unfit"
    ]
    return [f"Flows by interchange, over all γ: {'; '.join(found)}."] if found else []


def _warnings(evidence: Evidence) -> tuple[str, ...]:
    """What keeps claims from being judged, and members whose shares differ between early keys and all."""
    found, missing = [], [f"{gamma:g}" for gamma in GAMMAS if gamma not in evidence.gammas]
    if missing:
        found.append(f"Claims that read γ = {', '.join(missing)} are not judged: this run has no member there.")
    for gamma, phase, ids in (
        (MIDDLE, SYMMETRIC, "F1, F3, F4, F6, F8, D2"),
        (SMALL, INFERENTIAL, "F2, F3, F5, F6, D1, D4, D5"),
    ):
        at = evidence.records("phase_counts", gamma=gamma)
        if at and not any(row["n"] for row in at if row["phase"] == phase):
            found.append(f"No member at γ = {gamma:g} is {phase}, so {ids} say nothing of {phase} solutions here.")
    found.append(
        "Claims that need a grid of γ, other depths, learning rates or weight decays (C7 to C12) are not judged here; "
        "the paper's Fig. 2 takes the best of nine learning rates for each mapping, and these runs have one."
    )
    differing = [
        f"γ = {row['gamma']:g}, seed {row['seed']} ({', '.join(shares)})"
        for row in _sorted(evidence)
        if (shares := _apart(row))
    ]
    if differing:
        found.append(
            f"Shares over all positions of the key and over early ones differ by more than {APART:.2f} in "
            f"{'; '.join(differing)}. A phase counts all positions."
        )
    return tuple(found)


def _apart(member: dict) -> list[str]:
    """Shares of a member that differ between all keys and early ones."""
    pairs = {name: (member[name], member[f"{name}_early"]) for name in "IS"}
    return [f"{name} {a:.2f}, early {b:.2f}" for name, (a, b) in pairs.items() if abs(a - b) > APART]


def _phase_section(evidence: Evidence) -> Section:
    note = Paragraph(
        "Accuracies, I and S at the last step. “Early” counts rows whose key leaves noise between the anchors and the "
        "last position; it decides nothing, since the paper counts all positions.", "soft",
    )  # fmt: skip
    blocks: list[Block] = [Figure("phases"), _members(evidence), note]
    blocks += [Heading("What the unseen pair is answered"), _answers(evidence)]
    return Section("phases", "Phases", tuple(blocks), short="Phases")


def _members(evidence: Evidence) -> Table:
    numbers = {"I": "I", "S": "S", "O": "O", "I_early": "I, early", "S_early": "S, early", "acc_train": "trained on",
               "acc_seen_train": "seen_train", "acc_seen_test": "seen_test"}  # fmt: skip
    rows = [
        Row(
            (Cell(str(member["seed"]), head=True), Cell(member["phase"], number=False),
             *(Cell(two_digits(member[name])) for name in numbers)),
            group=f"γ = {member['gamma']:g}",
        )
        for member in _sorted(evidence)
    ]  # fmt: skip
    return Table(("seed", "phase", *numbers.values()), tuple(rows), dense=True)


def _sorted(evidence: Evidence) -> list[dict]:
    return sorted(evidence.records("phases"), key=lambda member: (member["gamma"], member["seed"]))


def _answers(evidence: Evidence) -> Table:
    """The most frequent answers of each member, as what is added to the inferential answer."""
    rows = []
    for member in _sorted(evidence):
        place = {name: member[name] for name in ("gamma", "seed")}
        found = sorted(evidence.records("answers", **place), key=lambda row: -row["count"])
        text = ", ".join(f"{row['difference']:+d}: {two_digits(row['share'])}" for row in found[:OTHERS])
        more = f" and {len(found) - OTHERS} more" if len(found) > OTHERS else ""
        cells = (Cell(str(member["seed"]), head=True), Cell(text.replace("-", "−") + more, number=False))
        rows.append(Row(cells, group=f"γ = {member['gamma']:g}"))
    return Table(("seed", "answer less the inferential one: share of rows"), tuple(rows), dense=True)


def _flow_section(evidence: Evidence) -> Section:
    blocks: list[Block] = [
        Figure("diagram"),
        Figure("attention"),
        Figure("flows"),
        Heading("Does the flow tell the phase?"),
    ]
    match = {row["quantity"]: row for row in evidence.records("flow_match")}
    rows = [
        Row((Cell(words, head=True), Cell(share_text(*(match[name][end] for end in ("value", "low", "high")))),
             Cell(str(int(match[name]["n"])))))
        for name, words in MATCH.items()
        if name in match and match[name]["n"]
    ]  # fmt: skip
    if rows:
        blocks.append(Table(("share of members, over all γ", "[95 % interval]", "members"), tuple(rows)))
    else:
        blocks.append(Paragraph("No member of this run is inferential or symmetric."))
    blocks += [Heading("What roles carry, one and two together"), *_carried(evidence)]
    blocks += [Heading("The same models by both papers"), Paragraph(BOTH_PAPERS, "soft"), _both_papers(evidence)]
    blocks += [Heading("Without an edge of L0's attention"), _knock_out(evidence)]
    return Section("flows", "Information flow", tuple(blocks), short="Flows")


def _carried(evidence: Evidence) -> list[Block]:
    """Median shares over the members of each flow, for each role and each two."""
    records = evidence.records("interchange_by_flow")
    if not records:
        return [Paragraph("No member of this run answers a pair of inputs rightly, so nothing can be taken.")]
    rows = [
        Row((Cell(row["roles"], head=True), *(Cell(two_digits(row[name])) for name in CARRIED)),
            group=f"{row['flow']}, {row['members']} member{'s' * (row['members'] > 1)}")
        for row in records
    ]  # fmt: skip
    text = (
        "Medians over the members of a flow, whatever their γ: share of pairs that get each answer once the residual "
        "stream after L0 is taken from the source at these roles. Placebo: share of answers that change where the "
        "source is the base with other noise."
    )
    return [Paragraph(text, "soft"), Table(("taken", *CARRIED.values()), tuple(rows), dense=True)]


def _both_papers(evidence: Evidence) -> Table:
    """What F1 and F4 of this study read, and what M7 and M9 of the anchor study would, of the same members."""
    rows = []
    for gamma in evidence.gammas:
        cells = [
            Cell(over_seeds(evidence, probe, quantity, gamma, set="seen_test", write=share_text, deepest=deepest))
            for probe, quantity, deepest in BOTH.values()
        ]
        rows.append(Row((Cell(f"γ = {gamma:g}", head=True), *cells)))
    return Table(("median [range] over seeds", *BOTH), tuple(rows), dense=True)


def _knock_out(evidence: Evidence) -> Table:
    """Accuracy that is lost without each edge, median and range over seeds."""
    edges = {"anchors_from_key": "from anchors to key", "last_from_anchors": "from last to anchors"}
    rows = []
    for gamma in evidence.gammas:
        cells = [
            Cell(over_seeds(evidence, "knock_out", f"{edge}{end}", gamma, set="seen_test", write=share_text))
            for edge in edges
            for end in ("", ":placebo")
        ]
        if any(math.isfinite(evidence.spread("knock_out", edge, gamma, set="seen_test")[0]) for edge in edges):
            rows.append(Row((Cell(f"γ = {gamma:g}", head=True), *cells)))
    columns = [text for edge in edges.values() for text in (edge, f"{edge}, placebo")]
    return Table(("accuracy on seen_test lost", *columns), tuple(rows))


GLOSSARY: dict[str, str] = {
    "key, a1, a2, last, noise": (
        "Roles of positions. The key is directly followed by two anchors, a1 and a2; last is the last position, where "
        "the answer is read; noise is everything else."
    ),
    "seen_train, seen_test, unseen": (
        "Fresh rows of trained pairs with training keys, rows of trained pairs with test keys, and rows of the pair "
        "that was never trained. A test key is one that never stood at its position in training."
    ),
    "exception": "A pair that is trained with another shift than the sum of its anchors' shifts.",
    "inferential, symmetric": (
        "Two answers to the unseen pair: key plus the shifts of both anchors, or what the mirrored pair, which is an "
        "exception, was trained to give. I and S are the shares of rows answered so, O is the rest."
    ),
    "phase": (
        f"unfit: accuracy on seen_test below {two_digits(FITTED)}. Else inferential where I is at least "
        f"{two_digits(DECIDED)}, symmetric where S is, and mixed where neither is. At the last step."
    ),
    "flow": (
        "By which positions key and pair reach the last one, told by interchange: via last (L0 brings the pair to the "
        "last position, L1 the key), via anchors (L0 brings the key to both anchors, L1 both to the last position), "
        "via a2 (all of it through the second anchor), several (none of these alone), none (no pair of rows answered "
        "rightly)."
    ),
    "interchange, source, kb_ps, ks_pb": (
        "The residual stream after L0 is taken from a source row at some roles, while a base row is run. kb_ps is the "
        "answer of the base's key with the source's pair, ks_pb that of the source's key with the base's pair."
    ),
    "place of the exception": (
        "The edge of L0's attention, from one role to another, whose loss turns the exception's rows to the "
        "inferential answer while the other seen pairs keep theirs; none where no edge does. Even seeds suggest a "
        "place for each kind of member, odd seeds test it. Exploratory."
    ),
    "participation ratio (PR), stable rank": (
        "Effective number of directions of a matrix with singular values s: (Σs²)² / Σs⁴, and Σs² over the largest s². "
        "Of the items: the first of these, of the eigenvalues of their covariance."
    ),
    "neurons, condensation": (
        "Neurons of a matrix are its columns, the input weights of one output each. Condensation is the share of their "
        f"pairs with an absolute cosine above {two_digits(ALIKE)}."
    ),
    "C(k)": "Mean cosine of the embeddings of items k apart, less the mean of all items.",
    "placebo": (
        "The same intervention where it should do nothing: the source is the base with its noise redrawn, or two noise "
        "positions stand in place of the two anchors."
    ),
    "v, u, grid": (
        "v is the last position after L1's attention, its residual connection and, in post-norm models, its LayerNorm; "
        "u is L1's value vector at the first anchor's position. The grid is rows of every trained pair that is no "
        "exception, with keys 30 to 40 at one early position and some draws of noise that all of them share."
    ),
    "equal, different targets": (
        "Pairs of rows of the grid with the same noise, whose answers (for v) or results of the first step, key plus "
        "the first shift (for u), are the same, or are not."
    ),
    "share of variance": (
        "The part of a vector's variance over rows that lies between groups of rows, adjusted for the number of groups "
        "(omega squared): 1 where the group fixes the vector, about 0 where it says nothing."
    ),
}
