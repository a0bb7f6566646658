"""The figures of the anchor study; here tasks, mechanism, circuits and equivalence."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from rb_interp.claims import Term
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.paper_1 import draw_embedding, draw_learning, draw_theory
from rb_interp.settings import LARGE, MIDDLE, SMALL
from rb_interp.statistics.intervals import mean_text, two_digits
from rb_interp.studies.anchor.figures_causes import (
    draw_causes,
    draw_dynamics,
    draw_patching,
    forward,
    in_words,
)
from rb_interp.tasks import AnchorDataset

PARTS = {
    "key": ("key", kit.KEY),
    "anchors": ("anchors", kit.REASONING),
    "self": ("itself (noise)", "#7d7d7d"),
    "noise": ("other noise", kit.NOISE),
}
GROUPINGS = ("key", "anchor_sum", "anchors", "key_and_sum", "interaction")


def draw_first_layer(evidence: Evidence) -> Figure:
    """Mean attention against 1/i, spectrum of W_V, its leading vector's mean cosines with anchors
    (after Fig. 6)."""
    figure, [patterns, [by_row, spectrum, alignment]] = kit.panels(2, 3, 5.4)
    length = evidence.task.length
    average = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
    uniformity = evidence.condition("M1").of
    for axes, (gamma, stage) in zip(patterns, ((LARGE, "matched"), (SMALL, "half")), strict=False):
        with kit.missing(axes):
            term = replace(uniformity, gamma=gamma, stage=stage)
            seed, pattern = evidence.first(replace(term, quantity="mean_pattern"))
            distance = two_digits(evidence.value(term, seed))
            _pattern(
                axes, pattern, f"γ = {gamma:g}, {stage}, seed {seed}\nmean distance {distance}"
            )
    _pattern(patterns[2], average, "average operator: 1/i")
    with kit.missing(by_row):
        _distance_by_row(by_row, evidence, uniformity)
    with kit.missing(spectrum):
        ratio = evidence.condition("M3").of
        values = replace(ratio, quantity="singular_values")
        trained = [array / array[0] for array in evidence.array(values).values()]
        _ranked(spectrum, evidence, trained, SMALL, f"γ = {SMALL:g}, half", 1)
        start = evidence.array(replace(values, stage="init"))
        _untrained(spectrum, [array / array[0] for array in start.values()], 1)
        spectrum.set(ylim=(0, 1.06), xlabel="singular value k of L0's W$_V$")
        spectrum.set_ylabel("s$_k$ / s$_1$")
        spectrum.set_title(f"s$_1$/s$_2$ = {mean_text(*evidence.spread(ratio))}")
    with kit.missing(alignment):
        memory = kit.Series(evidence.condition("M5").of, "memory anchors", kit.BLUE, "s")
        reasoning = kit.Series(evidence.condition("M4").of, "reasoning anchors", kit.RED, "D")
        kit.rates(alignment, evidence, memory, reasoning, untrained=True)
        for claim in ("M4", "M5"):
            kit.threshold(alignment, evidence, claim, gamma=SMALL)
        alignment.set(
            ylim=(0, 1.05),
            ylabel="mean |cos(u$_1$, anchor)|",
            title="leading vector of W$_V$, half",
        )
    kit.legend(figure, 4)
    return figure


def _pattern(axes: Axes, pattern: np.ndarray, title: str) -> None:
    """A mean pattern of attention in %, written out where there are few positions."""

    def percent(value: float) -> str:
        return f"{value:.0f}" if value else ""

    positions = np.arange(1, len(pattern) + 1)
    write = percent if len(pattern) <= 12 else None
    look: dict[str, Any] = {"low": 0, "high": 100, "colours": kit.ATTENTION, "write": write}
    kit.heat_map(axes, 100 * pattern, positions, **look)
    axes.set(xlabel="position j (cells: attention in %)", ylabel="position i", title=title)


def _distance_by_row(axes: Axes, evidence: Evidence, uniformity: Term) -> None:
    """Distance of each row of L0's attention from 1/i, seeds and their mean by rate."""
    rows = replace(uniformity, quantity="tv_per_row")
    with_arrays = {key.partition("/")[0] for key in evidence.arrays}
    for gamma in evidence.gammas:
        if gamma in (LARGE, MIDDLE, SMALL) and str(gamma) in with_arrays:
            stage = "half" if gamma == SMALL else "matched"
            arrays = evidence.array(replace(rows, gamma=gamma, stage=stage))
            _ranked(axes, evidence, arrays.values(), gamma, f"γ = {gamma:g}, {stage}", 2)
    start = evidence.array(replace(rows, stage="init"))
    _untrained(axes, start.values(), 2)
    kit.threshold(axes, evidence, "M1")
    axes.set(ylim=(0, None), xlabel="position i", title="row by row")
    axes.set_ylabel("distance from 1/i (TV, 0 to 1)")


def _untrained(axes: Axes, arrays: Iterable[np.ndarray], first: int) -> None:
    """The mean of untrained models over its places."""
    mean = np.mean([*arrays], 0)
    places = np.arange(first, len(mean) + first)
    axes.plot(places, mean, color=kit.GREY, ls="--", label="untrained models")


def _ranked(
    axes: Axes,
    evidence: Evidence,
    seeds: Iterable[np.ndarray],
    gamma: float,
    label: str,
    first: int,
) -> None:
    """An array of every seed over its places, and its mean."""
    mean = np.mean([*seeds], 0)
    places = np.arange(first, len(mean) + first)
    colour, marker = kit.gamma_look(gamma, evidence.gammas)
    axes.plot(places, np.transpose([*seeds]), color=colour, lw=0.5, alpha=0.5)
    axes.plot(places, mean, color=colour, marker=marker, ms=3.5, lw=1.5, label=label)


def draw_attention_by_role(evidence: Evidence) -> Figure:
    """L1's attention from the last position to key, anchors, itself and noise, one bar per seed and
    rate."""
    figure, axes = kit.panels(2, 1, 3.7, max(kit.WIDTH, 2.1 * len(evidence.shown_gammas)))
    looks: dict[str, dict[str, Any]] = {name: {"fc": colour} for name, (_, colour) in PARTS.items()}
    claims = {"M7": "reasoning inputs", "M7b": "memory inputs"}
    for panel, (claim, inputs) in zip(axes[:, 0], claims.items(), strict=True):
        with kit.missing(panel):
            _attention_bars(panel, evidence, claim, inputs, looks)
    kit.legend(figure, 6, [Patch(**looks[name], label=label) for name, (label, _) in PARTS.items()])
    return figure


def _attention_bars(
    axes: Axes, evidence: Evidence, claim: str, inputs: str, looks: dict[str, dict[str, Any]]
) -> None:
    """The parts of the attention that a claim reads, one bar a seed."""
    condition = evidence.condition(claim)
    start = 0.0
    ticks: dict[float, str] = {}
    title = inputs
    reason = MissingEvidenceError("This run has no members.")
    for gamma in evidence.gammas:
        key = replace(condition.of, gamma=gamma)
        try:
            columns = {part: evidence.values(replace(key, quantity=part)) for part in PARTS}
        except MissingEvidenceError as error:
            reason = error
            title += f", not read at γ = {gamma:g}"
            continue
        untrained = evidence.values(key, "untrained").to_dict()
        first = start
        for seed, shares in pd.DataFrame(columns).dropna().iterrows():
            kit.stack(axes, start, shares.to_dict(), looks.__getitem__, upright=True)
            height = float(untrained.get(seed, np.nan))
            kit.level(axes, start, height, kit.INK, 0.4, label="key, untrained")
            ticks[start] = str(seed)
            start += 1
        if gamma == condition.of.gamma:
            look = {"zorder": 2, "label": "threshold of M7, M7b"}
            kit.dashed(axes, first - 0.5, start - 0.5, condition.threshold, **look)
        text = f"γ = {gamma:g}: key {mean_text(*evidence.spread(key))}"
        middle = (first + start - 1) / 2
        axes.text(middle, 1.03, text, ha="center", va="bottom", fontsize=7)
        start += 1.2
    if not ticks:
        raise reason
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set(ylim=(0, 1.16), ylabel="attention (share)", xlabel="seed", title=title)


def draw_variance_explained(evidence: Evidence) -> Figure:
    """Share of variance by component and grouping at the small initialisation, and the two shares
    of M8 by rate."""
    evidence.require(SMALL)
    shares = Term("variance_explained", "", SMALL, "final", "rsn_train")
    readings = evidence.readings
    quantities = readings.query("probe == @shares.probe")["quantity"]
    components = sorted({name.split(":")[0] for name in quantities}, key=forward)
    if not components:
        raise MissingEvidenceError(f"This run has no reading of {shares.probe}.")
    figure = kit.new_figure(3.6)
    grid = figure.add_gridspec(2, 2, width_ratios=(2, 1))
    table = figure.add_subplot(grid[:, 0])
    single = [f"anchor_{i}" for i in range(1, evidence.task.q + 1)] if evidence.task.q > 1 else []
    groupings = [*GROUPINGS[:2], *single, *GROUPINGS[2:]]
    medians = []
    for component in components:
        terms = [replace(shares, quantity=f"{component}:{grouping}") for grouping in groupings]
        medians.append([evidence.spread(term).estimate for term in terms])
    names = [in_words(component) for component in components]
    columns = [grouping.replace("_", "\n") for grouping in groupings]
    kit.share_map(table, medians, names, columns, aspect="auto", size=7)
    table.set_title(f"share of variance explained, γ = {SMALL:g}, final, median")
    for number, title in enumerate(("key in L1's attention", "sum in L0's")):
        axes = figure.add_subplot(grid[number, 1])
        with kit.missing(axes):
            series = kit.Series(evidence.condition("M8", number).of)
            kit.rates(axes, evidence, series, untrained=True)
            kit.threshold(axes, evidence, "M8", number, SMALL)
            axes.set(ylim=(-0.05, 1.1), title=f"{title} output")
    return figure


CIRCUITS = {
    "average-then-key": ("#0c6b6f", ""),
    "gather-at-last-anchor": ("#9cc9ea", "\\\\\\"),
    "key-to-anchors": ("#e9b949", "///"),
    "mixed": ("#a99bd0", "..."),
    "none": ("#f0c8c0", ""),
}
OTHER_LOOK = ("#ffffff", "xx")
ROUTES = {
    "from_key": ("from the key", kit.KEY),
    "from_first_anchors": ("from the first anchors", "#a8d8c6"),
    "from_last_anchor": ("from the last anchor", kit.REASONING),
    "L0_at_last": ("L0's attention to the last position", kit.BLUE),
    "from_noise": ("from noise", kit.NOISE),
}
"""Routes that share no position, in the order in which they are drawn."""
CHANGES = {"key": "the key is changed", "anchors": "one anchor is changed (mean)"}


def draw_tasks(evidence: Evidence) -> Figure:
    """Sample sequences with their roles and labels (after Fig. 2)."""
    data = evidence.task.dataset(seed=0)
    samples = rows_to_show(data)
    if not samples:
        raise MissingEvidenceError("This run has no sample rows to show.")
    figure, [[axes]] = kit.panels(1, 1, 0.7 + 0.36 * len(samples))
    roles = {"key": kit.KEY, "anchor": kit.REASONING, "noise": kit.NOISE}
    for y, (name, row) in enumerate(samples):
        role_of = dict.fromkeys(data.anchor_positions[row].tolist(), "anchor")
        role_of[int(data.key_position[row])] = "key"
        for position, token in enumerate(data.tokens[row]):
            role = role_of.get(position, "noise")
            axes.add_patch(Rectangle((position - 0.45, y - 0.4), 0.9, 0.8, fc=roles[role]))
            ink = "white" if role == "anchor" else kit.INK
            axes.text(position, y, str(token), ha="center", va="center", color=ink)
        answer = f"→ {data.labels[row]} = {rule(data, name, row)}"
        axes.text(data.task.length, y, answer, va="center")
    axes.set_yticks(range(len(samples)), [kit.SETS[name] for name, _ in samples])
    axes.set(xlim=(-0.6, data.task.length + 5), ylim=(len(samples) - 0.4, -0.6), xticks=[])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    kit.legend(figure, 3, [Patch(fc=colour, label=name) for name, colour in roles.items()])
    return figure


def rows_to_show(data: AnchorDataset) -> list[tuple[str, int]]:
    """Two rows with one key and the same anchors, for memory and for reasoning, and a held-out row:
    (set, row)."""
    examples: list[tuple[str, int]] = []
    blocks = np.column_stack([data.key_position, data.anchor_positions])
    for name in ("mem", "rsn_train"):
        rows = data.rows(name)
        if len(rows):
            block = blocks[rows]
            content = np.take_along_axis(data.tokens[rows], block, 1)
            first = len(rows) // 3
            same = (content == content[first]).all(1) & (block[:, 0] != block[first, 0])
            examples += [(name, int(row)) for row in [rows[first], *rows[same][:1]]]
    return examples + [("rsn_test", int(row)) for row in data.rows("rsn_test")[:1]]


def rule(data: AnchorDataset, name: str, row: int) -> str:
    """How a row's label comes about, in one short line."""
    key = str(data.tokens[row, data.key_position[row]])
    anchors = map(str, data.tokens[row, data.anchor_positions[row]])
    if name == "mem":
        return f"table[{key}; {', '.join(anchors)}], drawn once"
    return " + ".join([key, *anchors])


def look(circuit: str) -> dict[str, Any]:
    """Colour, hatch and edge of a circuit."""
    colour, hatch = CIRCUITS.get(circuit, OTHER_LOOK)
    return {"fc": colour, "hatch": hatch, "ec": "#555555", "lw": 0.4}


def route_look(route: str) -> dict[str, Any]:
    """Colour and edge of a route."""
    return {"fc": ROUTES[route][1], "ec": "#555555", "lw": 0.3}


def draw_circuits(evidence: Evidence) -> Figure:
    """Share of seeds per circuit at each rate, by cause and by attention; every member's routes and
    two names."""
    counts = evidence.table("circuit_counts")
    members = evidence.table("circuits").sort_values(["gamma", "seed"]).to_dict("records")
    gammas = sorted(counts["gamma"].unique().tolist())
    above, below = 0.6 + 0.28 * len(gammas), 0.9 + 0.155 * len(members)
    figure = kit.new_figure(above + below + 0.7)
    grid = figure.add_gridspec(2, 6, height_ratios=(above, below))
    for column, name in enumerate(("cause", "attention")):
        axes = figure.add_subplot(grid[0, 3 * column : 3 * column + 3])
        for y, gamma in enumerate(gammas):
            rows = evidence.records("circuit_counts", named_by=name, gamma=gamma)
            kit.stack(axes, y, {row["circuit"]: row["share"] for row in rows}, look)
        axes.set_yticks(range(len(gammas)), [f"γ = {gamma:g}" for gamma in gammas])
        axes.set(xlim=(0, 1), ylim=(len(gammas) - 0.5, -0.5))
        axes.set(xlabel="share of seeds", title=f"named by {name}")
    downwards = (len(members) - 0.4, -0.6)
    for column, (change, label) in enumerate(CHANGES.items()):
        axes = figure.add_subplot(grid[1, 2 * column : 2 * column + 2])
        for y, member in enumerate(members):
            shares = {}
            for name in ROUTES:
                term = Term("routes", f"{change}:{name}", member["gamma"], "final", "rsn_train")
                shares[name] = evidence.value(term, member["seed"])
            alpha = 0.4 if member["cause"] == "none" else 1.0
            kit.stack(axes, y, shares, route_look, alpha)
        axes.axvline(1, color=kit.INK, lw=0.7, ls=":")
        axes.set(ylim=downwards, title=label, xlabel="share of the effect, by route")
        labels = [f"γ = {member['gamma']:g}, seed {member['seed']}" for member in members]
        axes.set_yticks(range(len(labels)), [] if column else labels, fontsize=6)
    names = figure.add_subplot(grid[1, 4:])
    for y, member in enumerate(members):
        colour = kit.INK if member["cause"] == member["circuit"] else kit.RED
        for x, name in ((-0.1, member["cause"]), (0.6, member["circuit"])):
            names.text(x, y, name, va="center", fontsize=5.4, color=colour)
    names.set(ylim=downwards, title="by cause              by attention")
    names.axis("off")
    present = set(counts["circuit"])
    circuits = [name for name in dict.fromkeys([*CIRCUITS, *counts["circuit"]]) if name in present]
    patches = [Patch(**look(name), label=name) for name in circuits]
    patches += [Patch(**route_look(name), label=label) for name, (label, _) in ROUTES.items()]
    kit.legend(figure, 4, patches)
    return figure


def draw_equivalence(evidence: Evidence) -> Figure:
    """Disagreement of every two members at the small initialisation, ordered by circuit, on two
    kinds of rows."""
    evidence.require(SMALL)
    evidence.table("disagreement")
    figure, [axes] = kit.panels(1, 2, 3.9)
    order = [*CIRCUITS]
    circuits: dict[str, Patch] = {}
    for panel, battery in zip(axes, ("held_out", f"length_{evidence.task.q + 2}"), strict=True):
        with kit.missing(panel):
            table = evidence.table("battery_accuracy", battery=battery)
            table = table.query("circuit != 'none'")
            rank = table["circuit"].map(lambda name: order.index(name) if name in order else 9)
            members = table.assign(rank=rank).sort_values(["rank", "seed"]).set_index("seed")
            pairs = evidence.table("disagreement", battery=battery)
            matrix = pairs.pivot(index="seed_a", columns="seed_b", values="disagreement")
            matrix = matrix.reindex(index=members.index, columns=members.index)
            matrix = matrix.fillna(matrix.T)
            kit.share_map(panel, matrix, [*members.index])
            for number, member in enumerate(members.to_dict("records")):
                colours = look(member["circuit"])
                circuits[member["circuit"]] = Patch(**colours, label=member["circuit"])
                panel.add_patch(Rectangle((number - 0.5, -0.92), 1, 0.32, **colours))
                panel.add_patch(Rectangle((-0.92, number - 0.5), 0.32, 1, **colours))
                accuracy = two_digits(member["accuracy"])
                right = len(members) - 0.4
                kit.note(panel, accuracy, (right, number), va="center", ha="left")
            panel.set(xlim=(-1, len(members) + 0.3), ylim=(len(members) - 0.5, -1))
            panel.set(xlabel="seed of one member", ylabel="seed of the other")
            panel.set_title(f"{battery} (right: accuracy)")
    kit.legend(figure, 5, [*circuits.values()])
    return figure


FIGURES = {
    "tasks": draw_tasks,
    "learning": lambda evidence: draw_learning(evidence, "A"),
    "circuits": draw_circuits,
    "equivalence": draw_equivalence,
    "causes": draw_causes,
    "first_layer": draw_first_layer,
    "attention_by_role": draw_attention_by_role,
    "variance_explained": draw_variance_explained,
    "patching_matrix": draw_patching,
    "dynamics": draw_dynamics,
    "embedding": draw_embedding,
    "theory": draw_theory,
}
