"""Figures of the census."""

from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from census.claims import NORMS
from census.measure import GROUPS, NUMBERS, PAPERS, with_gap
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.kit import BLUE, INK, RED, heat_map, legend, panels
from rb_interp.studies.anchor.figures import CIRCUITS, look

WORDS = {"none": "no LayerNorm", "post": "post-norm", "pre": "pre-norm"}
MEAN = {
    "bias": "B",
    "gap": "gap in loss (nats)",
    "tv_half": "TV of L0",
    PAPERS: "share of\n" + PAPERS,
}
MEAN |= {name: f"share of\n{name}" for name in NUMBERS if name not in MEAN}


def free(evidence: Evidence, name: str) -> pd.DataFrame:
    table = evidence.table(name)
    return with_gap(table[table["L0"] == "free"])


def map_panels(
    evidence: Evidence, fill: Callable[[Axes, pd.DataFrame, list, list], None]
) -> Figure:
    """A panel for each norm: gammas down, learning rates across."""
    table = free(evidence, "map")
    gammas, rates = sorted(table["gamma"].unique()), sorted(table["lr"].unique())
    norms = [norm for norm in NORMS if norm in set(table["norm"])]
    figure, axes = panels(1, len(norms), 0.9 + 0.33 * len(gammas), sharey=True)
    for panel, norm in zip(axes[0], norms, strict=True):
        fill(panel, table[table["norm"] == norm], gammas, rates)
        panel.set_xticks(range(len(rates)), [f"{rate:g}".lstrip("0") for rate in rates])
        panel.set_yticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
        panel.set(title=WORDS[norm], xlabel="learning rate")
        panel.set(xlim=(-0.5, len(rates) - 0.5), ylim=(len(gammas) - 0.5, -0.5))
    axes[0, 0].set_ylabel("γ")
    return figure


def draw_map(evidence: Evidence) -> Figure:
    """Circuits by cause of the members of each cell."""

    def fill(axes: Axes, table: pd.DataFrame, gammas: list, rates: list) -> None:
        for (gamma, rate), here in table.groupby(["gamma", "lr"]):
            left = rates.index(rate) - 0.44
            shares = here["circuit"].fillna("none").value_counts(normalize=True)
            for circuit in CIRCUITS:
                width = 0.88 * shares.get(circuit, 0.0)
                place = (left, gammas.index(gamma) - 0.38)
                axes.add_patch(Rectangle(place, width, 0.76, **look(circuit)))
                left += width

    figure = map_panels(evidence, fill)
    legend(figure, len(CIRCUITS), [Patch(**look(name), label=name) for name in CIRCUITS])
    return figure


def draw_gap(evidence: Evidence) -> Figure:
    """Mean gap between held-out and trained loss, where the trained loss is 3.0 and 2.65 nats."""

    def fill(axes: Axes, table: pd.DataFrame, gammas: list, rates: list) -> None:
        means = table.pivot_table("gap", "gamma", "lr").reindex(gammas, columns=rates)
        heat_map(
            axes, means.to_numpy(), low=-1.0, high=1.0, write="{:.2f}".format, aspect="auto", size=6
        )

    return map_panels(evidence, fill)


def draw_groups(evidence: Evidence) -> Figure:
    """What gamma .8 in place of .5 in one group of matrices does, without LayerNorm and after it."""
    table = evidence.table("groups")
    figure, axes = panels(1, len(NUMBERS), 2.2, sharey=True)
    for panel, number in zip(axes[0], NUMBERS, strict=True):
        for shift, (norm, colour) in enumerate((("none", RED), ("post", BLUE))):
            rows = (table["number"] == number) & (table["norm"] == norm)
            here = table[rows].set_index("term")
            for y, group in enumerate(GROUPS):
                if group in here.index:
                    row, place = here.loc[group], y + 0.24 * shift - 0.12
                    panel.plot([row["low"], row["high"]], [place, place], color=colour, lw=1.1)
                    panel.plot(row["mean"], place, "o", color=colour, ms=4)
        panel.axvline(0, color=INK, lw=0.6)
        panel.set(title=MEAN[number], ylim=(len(GROUPS) - 0.5, -0.5))
    axes[0, 0].set_yticks(range(len(GROUPS)), GROUPS)
    legend(
        figure, 2, [Patch(color=RED, label=WORDS["none"]), Patch(color=BLUE, label=WORDS["post"])]
    )
    return figure


FIGURES = {"map": draw_map, "gap": draw_gap, "groups": draw_groups}
