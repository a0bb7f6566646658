"""The figures of the anchor study; here tasks, circuits and equivalence."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from rb_interp.claims import Term
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.paper_1 import draw_embedding, draw_learning, draw_theory
from rb_interp.settings import SMALL
from rb_interp.statistics.intervals import two_digits
from rb_interp.studies.anchor.figures_causes import (
    draw_causes,
    draw_dynamics,
    draw_patching,
)
from rb_interp.studies.anchor.figures_mechanism import (
    draw_attention_by_role,
    draw_first_layer,
    draw_variance_explained,
)
from rb_interp.tasks import AnchorDataset

CIRCUITS = {
    "average-then-key": ("#0c6b6f", ""),
    "gather-at-last-anchor": ("#9cc9ea", "\\\\\\"),
    "key-to-anchors": ("#e9b949", "///"),
    "mixed": ("#a99bd0", "..."),
    "none": ("#f0c8c0", ""),
}
OTHER = ("#ffffff", "xx")
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
    shown = rows_to_show(data)
    if not shown:
        raise MissingEvidenceError("This run has no sample rows to show.")
    figure, [[axes]] = kit.panels(1, 1, 0.7 + 0.36 * len(shown))
    for y, (name, row) in enumerate(shown):
        anchors = set(data.anchor_positions[row].tolist())
        for position, token in enumerate(data.tokens[row]):
            anchor = position in anchors
            colour = (
                kit.REASONING
                if anchor
                else kit.KEY
                if position == data.key_position[row]
                else kit.NOISE
            )
            axes.add_patch(Rectangle((position - 0.45, y - 0.4), 0.9, 0.8, fc=colour))
            axes.text(
                position,
                y,
                str(token),
                ha="center",
                va="center",
                color="white" if anchor else kit.INK,
            )
        axes.text(
            data.task.length, y, f"→ {data.labels[row]} = {rule(data, name, row)}", va="center"
        )
    axes.set_yticks(range(len(shown)), [kit.SETS[name] for name, _ in shown])
    axes.set(xlim=(-0.6, data.task.length + 5), ylim=(len(shown) - 0.4, -0.6), xticks=[])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    roles = {"key": kit.KEY, "anchor": kit.REASONING, "noise": kit.NOISE}
    kit.legend(figure, 3, [Patch(fc=colour, label=name) for name, colour in roles.items()])
    return figure


def rows_to_show(data: AnchorDataset) -> list[tuple[str, int]]:
    """Two rows with one key and the same anchors, for memory and for reasoning, and a held-out row:
    (set, row)."""
    found: list[tuple[str, int]] = []
    for name in ("mem", "rsn_train"):
        rows = data.rows(name)
        if len(rows):
            block = np.concatenate([data.key_position[:, None], data.anchor_positions], axis=1)[
                rows
            ]
            content, first = np.take_along_axis(data.tokens[rows], block, 1), len(rows) // 3
            same = (content == content[first]).all(1) & (block[:, 0] != block[first, 0])
            found += [(name, int(row)) for row in [rows[first], *rows[same][:1]]]
    return found + [("rsn_test", int(row)) for row in data.rows("rsn_test")[:1]]


def rule(data: AnchorDataset, name: str, row: int) -> str:
    """How a row's label comes about, in one short line."""
    key, anchors = (
        data.tokens[row, data.key_position[row]],
        data.tokens[row, data.anchor_positions[row]],
    )
    if name == "mem":
        return f"table[{key}; {', '.join(map(str, anchors))}], drawn once"
    return " + ".join(map(str, [key, *anchors]))


def look(circuit: str) -> dict[str, Any]:
    """Colour, hatch and edge of a circuit."""
    colour, hatch = CIRCUITS.get(circuit, OTHER)
    return {"fc": colour, "hatch": hatch, "ec": "#555555", "lw": 0.4}


def draw_circuits(evidence: Evidence) -> Figure:
    """Share of seeds per circuit at each rate, by cause and by attention; every member's routes and
    two names."""
    counts, members = evidence.table("circuit_counts"), evidence.table("circuits")
    members = members.sort_values(["gamma", "seed"], ignore_index=True)
    gammas = sorted(counts["gamma"].unique().tolist())
    above, below = 0.6 + 0.28 * len(gammas), 0.9 + 0.155 * len(members)
    figure = kit.new_figure(above + below + 0.7)
    grid = figure.add_gridspec(2, 6, height_ratios=(above, below))
    for column, name in enumerate(("cause", "attention")):
        axes = figure.add_subplot(grid[0, 3 * column : 3 * column + 3])
        for place, gamma in enumerate(gammas):
            here = counts.loc[
                (counts["named_by"] == name) & (counts["gamma"] == gamma) & (counts["n"] > 0)
            ]
            kit.stack(axes, place, {row.circuit: row.share for row in here.itertuples()}, look)
        axes.set_yticks(range(len(gammas)), [f"γ = {gamma:g}" for gamma in gammas])
        axes.set(
            xlim=(0, 1),
            ylim=(len(gammas) - 0.5, -0.5),
            xlabel="share of seeds",
            title=f"named by {name}",
        )
    routes = {
        name: {"fc": colour, "ec": "#555555", "lw": 0.3} for name, (_, colour) in ROUTES.items()
    }
    labels = [f"γ = {row['gamma']:g}, seed {row['seed']}" for row in members.to_dict("records")]
    for column, (change, words) in enumerate(CHANGES.items()):
        axes = figure.add_subplot(grid[1, 2 * column : 2 * column + 2])
        for place, row in enumerate(members.to_dict("records")):
            shares = {}
            for name in ROUTES:
                term = Term("routes", f"{change}:{name}", row["gamma"], "final", "rsn_train")
                shares[name] = evidence.value(term, row["seed"])
            kit.stack(
                axes, place, shares, routes.__getitem__, 0.4 if row["cause"] == "none" else 1.0
            )
        axes.axvline(1, color=kit.INK, lw=0.7, ls=":")
        axes.set(
            ylim=(len(members) - 0.4, -0.6), title=words, xlabel="share of the effect, by route"
        )
        axes.set_yticks(range(len(labels)), labels if not column else [], fontsize=6)
    names = figure.add_subplot(grid[1, 4:])
    for place, row in enumerate(members.to_dict("records")):
        colour = kit.INK if row["cause"] == row["circuit"] else kit.RED
        for x, name in ((-0.1, row["cause"]), (0.6, row["circuit"])):
            names.text(x, place, name, va="center", fontsize=5.4, color=colour)
    names.set(ylim=(len(members) - 0.4, -0.6), title="by cause              by attention")
    names.axis("off")
    known = set(counts["circuit"])
    shown = [name for name in dict.fromkeys([*CIRCUITS, *counts["circuit"]]) if name in known]
    extra = [Patch(**look(name), label=name) for name in shown]
    kit.legend(
        figure,
        4,
        [*extra, *(Patch(**routes[name], label=words) for name, (words, _) in ROUTES.items())],
    )
    return figure


def draw_equivalence(evidence: Evidence) -> Figure:
    """Disagreement of every two members at the small initialisation, ordered by circuit, on two
    kinds of rows."""
    evidence.require(SMALL)
    evidence.table("disagreement")
    figure, [axes] = kit.panels(1, 2, 3.9)
    found: dict[str, None] = {}
    for one, battery in zip(axes, ("held_out", f"length_{evidence.task.q + 2}"), strict=True):
        with kit.missing(one):
            order, table = [*CIRCUITS], evidence.table("battery_accuracy", battery=battery)
            members = [row for row in table.to_dict("records") if row["circuit"] != "none"]
            members.sort(
                key=lambda row: (
                    order.index(row["circuit"]) if row["circuit"] in order else 9,
                    row["seed"],
                )
            )
            place = {row["seed"]: at for at, row in enumerate(members)}
            matrix = np.full((len(members), len(members)), np.nan)
            for pair in evidence.table("disagreement", battery=battery).to_dict("records"):
                a, b = place[pair["seed_a"]], place[pair["seed_b"]]
                matrix[a, b] = matrix[b, a] = pair["disagreement"]
            kit.heat_map(
                one, matrix, list(place), low=0, high=1, colours=kit.ATTENTION, write=two_digits
            )
            for at, row in enumerate(members):
                found[row["circuit"]] = None
                one.add_patch(Rectangle((at - 0.5, -0.92), 1, 0.32, **look(row["circuit"])))
                one.add_patch(Rectangle((-0.92, at - 0.5), 0.32, 1, **look(row["circuit"])))
                kit.note(
                    one,
                    two_digits(row["accuracy"]),
                    (len(members) - 0.4, at),
                    "data",
                    va="center",
                    ha="left",
                )
            one.set(xlim=(-1, len(members) + 0.3), ylim=(len(members) - 0.5, -1))
            one.set(
                xlabel="seed of one member",
                ylabel="seed of the other",
                title=f"{battery} (right: accuracy)",
            )
    kit.legend(figure, 5, [Patch(**look(name), label=name) for name in found])
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
