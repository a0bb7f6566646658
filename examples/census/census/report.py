"""Figures of the census."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from census.claims import NORMS
from census.measure import GROUPS, NUMBERS, with_gap
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.kit import BLUE, INK, RED, heat_map, legend, panels
from rb_interp.studies.anchor.figures import CIRCUITS, look

WORDS = {"none": "no LayerNorm", "post": "post-norm", "pre": "pre-norm"}
MEAN = {
    "bias": "B",
    "gap": "gap (nats)",
    "tv_half": "TV of L0",
}
MEAN |= {name: f"share,\n{name}" for name in NUMBERS if name not in MEAN}


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
        panel.set_xticks(range(len(rates)), [f"{rate:g}".lstrip("0") for rate in rates])
        panel.set_yticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
        here = table[table["norm"] == norm]
        fill(panel, here, gammas, rates)
        panel.set(title=f"{WORDS[norm]}, n {len(here)}", xlabel="learning rate")
        panel.set(xlim=(-0.5, len(rates) - 0.5), ylim=(len(gammas) - 0.5, -0.5))
    axes[0, 0].set_ylabel("γ")
    return figure


def draw_map(evidence: Evidence) -> Figure:
    """Circuits by cause of the members of each cell; a member that is missing leaves it white."""
    n_seeds = len(evidence.seeds)

    def fill(axes: Axes, table: pd.DataFrame, gammas: list, rates: list) -> None:
        for (gamma, rate), here in table.groupby(["gamma", "lr"]):
            left = rates.index(rate) - 0.44
            shares = here["circuit"].value_counts() / n_seeds
            for circuit in CIRCUITS:
                width = 0.88 * shares.get(circuit, 0.0)
                place = (left, gammas.index(gamma) - 0.38)
                axes.add_patch(Rectangle(place, width, 0.76, **look(circuit)))
                left += width

    figure = map_panels(evidence, fill)
    legend(figure, len(CIRCUITS), [Patch(**look(name), label=name) for name in CIRCUITS])
    return figure


def draw_gap(evidence: Evidence) -> Figure:
    """Mean gap between held-out and trained loss, where the trained loss is 3.0 and 2.65 nats; n
    where not all seeds have it."""

    def fill(axes: Axes, table: pd.DataFrame, gammas: list, rates: list) -> None:
        means, counts = (
            table.pivot_table("gap", "gamma", "lr", how).reindex(gammas, columns=rates)
            for how in ("mean", "count")
        )
        heat_map(
            axes, means.to_numpy(), low=-1.0, high=1.0, write="{:.2f}".format, aspect="auto", size=6
        )
        for row, column in np.argwhere((counts > 0) & (counts < len(evidence.seeds))):
            ink = "white" if abs(means.iat[row, column]) > 0.6 else INK
            text = {"color": ink, "fontsize": 5, "ha": "center", "va": "bottom"}
            axes.text(column, row + 0.44, f"n {counts.iat[row, column]:.0f}", **text)

    return map_panels(evidence, fill)


def draw_groups(evidence: Evidence) -> Figure:
    """What gamma .8 in place of .5 in one group of matrices does, without LayerNorm and after it."""
    table = evidence.table("groups")
    figure, axes = panels(2, 4, 3.6, sharey=True)
    colours = {"none": RED, "post": BLUE}
    shown = [norm for norm in colours if norm in set(table["norm"])]
    for panel, number in zip(axes.flat, NUMBERS, strict=True):
        here = table[table["number"] == number].set_index("term")
        for shift, norm in enumerate(shown):
            effects = here[here["norm"] == norm].reindex(GROUPS)
            y = np.arange(len(GROUPS)) + 0.24 * shift - 0.12
            panel.hlines(y, effects["low"], effects["high"], color=colours[norm], lw=1.1)
            panel.plot(effects["mean"], y, "o", color=colours[norm], ms=4)
        n = here.groupby("norm")["n"].first()
        seeds = ", ".join(f"n {n[norm]:.0f}" for norm in shown if norm in n)
        panel.axvline(0, color=INK, lw=0.6)
        panel.set(title=MEAN[number], xlabel=seeds, ylim=(len(GROUPS) - 0.5, -0.5))
    for row in axes:
        row[0].set_yticks(range(len(GROUPS)), GROUPS)
    legend(figure, 2, [Patch(color=colours[norm], label=WORDS[norm]) for norm in shown])
    return figure


def draw_forks(evidence: Evidence) -> Figure:
    """Forks by their loss: whether copy and member have the same circuit."""
    table = evidence.table("forks")
    gammas = sorted(table["gamma"].unique())
    figure, axes = panels(1, len(gammas), 1.8, sharex=True, sharey=True)
    for panel, gamma in zip(axes[0], gammas, strict=True):
        here = table[table["gamma"] == gamma]
        same = (here["circuit"] == here["sibling"]).to_numpy()
        for colour, chosen in ((BLUE, same), (RED, ~same)):
            panel.plot(here["loss"][chosen], here["seed"][chosen], "o", color=colour, ms=4)
        panel.set(title=f"γ = {gamma:g}, n {len(here)}", xlabel="loss on rsn_train (nats)")
    axes[0, 0].set(ylabel="seed")
    axes[0, 0].invert_xaxis()
    legend(figure, 2, [Patch(color=BLUE, label="one circuit"), Patch(color=RED, label="another")])
    return figure


FIGURES = {"map": draw_map, "gap": draw_gap, "groups": draw_groups, "forks": draw_forks}
