"""What initialisation and weight decay do to held-out rows, together and each alone."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text, share_text
from rb_interp.figures.panels import interval_of, seeds_at, spread_of, threshold, try_panel, written
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import BLUE, GREY, INK, RED, new_figure, styled
from rb_interp.studies.addition_and_scan.config import HIGH, LARGE, LOW, SMALL, TASKS

LOOKS = {
    "both": ("both", INK, "D"),
    "gamma_low_decay": (f"γ\nat\n{LOW:g}", BLUE, "o"),
    "gamma_high_decay": (f"γ\nat\n{HIGH:g}", BLUE, "o"),
    "decay_large_init": (f"decay\nat\n{LARGE:g}", RED, "s"),
    "decay_small_init": (f"decay\nat\n{SMALL:g}", RED, "s"),
}
"""Contrast -> label, colour and marker."""


@styled
def draw_differences(evidence: Evidence) -> Figure:
    """The contrasts of every task and seed, with mean and interval."""
    figure = new_figure(3.0)
    panels = figure.subplots(1, len(TASKS), sharey=True)
    for axes, task in zip(panels, TASKS, strict=True):
        try_panel(axes, _contrasts, evidence, task)
        axes.set_title(task_text(evidence, task).replace(", ", ",\n"))
    panels[0].set_ylabel("difference in the share right (held-out rows)")
    entries = [
        legend.seed_dot("γ and weight decay together", INK, "D"),
        legend.seed_dot(f"γ alone ({SMALL:g} less {LARGE:g})", BLUE),
        legend.seed_dot(f"weight decay alone ({HIGH:g} less {LOW:g})", RED, "s"),
        legend.mean_interval(),
    ]
    legend.above(figure, entries, columns=4)
    return figure


def _contrasts(axes: Axes, evidence: Evidence, task: str) -> None:
    for place, (name, (_, colour, marker)) in enumerate(LOOKS.items()):
        rows = evidence.records("contrasts", task=task, contrast=name)
        (means,) = evidence.records("contrasts_summary", task=task, contrast=name) or (None,)
        if means is not None:
            values = [row["difference"] for row in sorted(rows, key=lambda row: row["seed"])]
            seeds_at(axes, place - 0.1, values, interval_of(means), colour, marker, spread=0.14)
    evidence.table("contrasts", task=task)
    axes.axhline(0, color=GREY, lw=0.8, zorder=0)
    claim = "P1" if task == "addition" else "P2"
    threshold(axes, evidence.threshold(claim), written(evidence, claim), x=0.99)
    axes.set_xticks(range(len(LOOKS)), [label for label, _, _ in LOOKS.values()], fontsize=5.5)
    axes.set_xlim(-0.5, len(LOOKS) - 0.4)


def task_text(evidence: Evidence, task: str) -> str:
    """What a task is called."""
    if task == "addition":
        return task
    rows = evidence.sweep(f"{task}_low").task.n_sequences
    return f"commands, {rows:,} rows"


def caption_differences(evidence: Evidence) -> Caption:
    """Caption of the contrasts, with what P1 and P2 judge."""
    found = []
    for task in TASKS:
        row = next(iter(evidence.records("contrasts_summary", task=task, contrast="both")), None)
        found += [f"{task_text(evidence, task)}: {share_text(*spread_of(row))}"] if row else []
    together = f" Both together, median [range]: {'; '.join(found)}." if found else ""
    return Caption(
        "Differences in the share of right answers on held-out rows (the block, commands with jump) between two "
        f"members of the same seed, {seeds_text(len(evidence.seeds))}. Black changes γ from "
        f"{LARGE:g} to {SMALL:g} and weight decay from {LOW:g} to {HIGH:g}, as the paper does; blue changes γ alone at "
        "either decay, red "
        f"weight decay alone at either γ.{together}",
        "black diamonds below the dashed line (P1, P2). Blue that is as high as black says that the claim is about "
        "initialisation alone, red that it is about weight decay alone.",
    )
