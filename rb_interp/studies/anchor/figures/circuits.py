"""How often each circuit occurs at each rate, and in which member."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import new_figure

CIRCUITS = {
    "average-then-key": ("#0c6b6f", ""), "key-to-anchors": ("#e9b949", "///"),
    "mixed": ("#a99bd0", "..."), "none": ("#e2e2e2", ""),
}  # fmt: skip
OTHER = ("#ffffff", "xx")
EDGE = "#555555"


def draw_circuits(evidence: Evidence) -> Figure:
    """Share of seeds per circuit at each rate with counts (left), and every member's circuit (right)."""
    counts, members = evidence.table("circuit_counts"), evidence.table("circuits")
    gammas = sorted(counts["gamma"].astype(float).unique().tolist())
    figure = new_figure(1.15 + 0.42 * max(len(gammas), 2))
    bars, grid = figure.subplots(1, 2, width_ratios=(1.2, 1))
    _bars(bars, counts, gammas)
    _grid(grid, members, gammas)
    names = counts["circuit"].astype(str).unique().tolist()
    entries = [legend.area(name, *CIRCUITS.get(name, OTHER), edge=EDGE) for name in names]
    legend.above(figure, entries, columns=len(entries))
    return figure


def look(circuit: str) -> dict[str, Any]:
    """Colour, hatch and edge of a circuit."""
    colour, hatch = CIRCUITS.get(circuit, OTHER)
    return {"fc": colour, "hatch": hatch, "ec": EDGE, "lw": 0.4}


def _bars(axes: Axes, counts: pd.DataFrame, gammas: list[float]) -> None:
    for place, gamma in enumerate(gammas):
        start = 0.0
        for row in counts.loc[(counts["gamma"] == gamma) & (counts["n"] > 0)].to_dict("records"):
            axes.barh(place, row["share"], 0.7, left=start, **look(row["circuit"]))
            box = {"fc": "white", "ec": "none", "pad": 1.2}
            text = {"ha": "center", "va": "center", "fontsize": 8, "bbox": box}
            axes.text(start + row["share"] / 2, place, str(row["n"]), **text)
            start += row["share"]
    axes.set_yticks(range(len(gammas)), [f"γ = {gamma:g}" for gamma in gammas])
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), xlabel="share of seeds (written: number of seeds)")


def _grid(axes: Axes, members: pd.DataFrame, gammas: list[float]) -> None:
    seeds = sorted(members["seed"].astype(int).unique().tolist())
    for row in members.to_dict("records"):
        x, y = seeds.index(int(row["seed"])), gammas.index(float(row["gamma"]))
        axes.add_patch(Rectangle((x - 0.42, y - 0.35), 0.84, 0.7, **look(row["circuit"])))
    axes.set(xlim=(-0.6, len(seeds) - 0.4), ylim=(len(gammas) - 0.5, -0.5))
    axes.set_xticks(range(len(seeds)), [str(seed) for seed in seeds])
    axes.set_yticks(range(len(gammas)), [""] * len(gammas))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("seed (a column shares data and draws)")


def caption_circuits(evidence: Evidence) -> Caption:
    """Caption of the circuits, with their numbers at the small initialisation."""
    counts = evidence.table("circuit_counts")
    rows = counts.loc[(counts["gamma"] == SMALL) & (counts["n"] > 0)].to_dict("records")
    named = ", ".join(f"{row['circuit']} {row['n']}" for row in rows)
    named = f"{named} of {seeds_text(rows[0]['total'])}" if rows else "no circuit was named there"
    return Caption(
        f"The circuit that each member ends up with, named by fixed thresholds on its readings. At γ = {SMALL:g}: "
        f"{named}. Average-then-key is the paper's reading (L0 averages, the last layer fetches the key); "
        "key-to-anchors carries the key to the anchors in L0 and reads them in the last.",
        "that small initialisation leads to the paper's circuit: a small share of average-then-key at γ = "
        f"{SMALL:g}, or as large a share at the other rates. With few seeds a share is coarse: one of five seeds is "
        "already 20 %.",
    )
