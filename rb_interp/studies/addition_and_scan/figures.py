"""Figures of the study of addition and commands, by cell of gamma and weight decay (paper 2, Figs. 6a and 17a).

sums          which sums are answered rightly
commands      exact match on commands by number of training rows
differences   what initialisation and weight decay do to held-out rows, together and each alone
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text, share_text, two_digits
from rb_interp.figures.panels import (
    heat_map,
    interval_of,
    over_seeds,
    seeds_at,
    spread_of,
    threshold,
    try_panel,
    written,
)
from rb_interp.figures.spec import Caption, FigureSpec
from rb_interp.figures.style import ATTENTION, BLUE, GAMMA_RAMP, GREY, INK, RED, new_figure, styled
from rb_interp.studies.addition_and_scan.addition import AdditionTask
from rb_interp.studies.addition_and_scan.config import DECAYS, HIGH, LARGE, LOW, SIZES, SMALL, TASKS

GAMMAS = (LARGE, SMALL)
COLOURS = {LARGE: GAMMA_RAMP(0.0), SMALL: GAMMA_RAMP(1.0)}
MARKERS = {"low": "o", "high": "s"}
CELLS = tuple((decay, gamma) for gamma in GAMMAS for decay in DECAYS)
"""Weight decay and gamma."""
APART = 0.2
"""Distance of neighbouring cells on an axis."""


def cell_text(decay: str, gamma: float) -> str:
    """What a cell is called.

    >>> cell_text("high", 0.8)
    'γ = 0.8, weight decay 0.1'
    """
    return f"γ = {gamma:g}, weight decay {DECAYS[decay]:g}"


def draw_shares(axes: Axes, evidence: Evidence, task: str, set: str, place: int) -> int:
    """The share of right answers of every member on a set, cells beside each other around a place of the axis.

    Args:
        task: first part of the sweeps' names. set: whose rows. place: on the axis.

    Returns how many cells were drawn, those without readings left out.
    """
    drawn = 0
    for number, (decay, gamma) in enumerate(CELLS):
        sweep = evidence.sweep(f"{task}_{decay}")
        try:
            values = sweep.values("answers", "right", gamma, set=set)
        except MissingEvidenceError:
            continue
        x, interval = place + (number - 1.5) * APART, sweep.interval("answers", "right", gamma, set=set)
        seeds_at(axes, x, values, interval, COLOURS[gamma], MARKERS[decay], spread=0.04)
        drawn += 1
    return drawn


def legend_entries() -> list[Line2D]:
    """The cells, and what dots and whiskers are."""
    lines = [
        legend.line(cell_text(*cell), COLOURS[cell[1]], width=1.2, marker=MARKERS[cell[0]], ms=3.8, mfc="white")
        for cell in CELLS
    ]
    return [*lines, legend.seed_dot(), legend.mean_interval(INK)]


TICKS = 5


@styled
def draw_sums(evidence: Evidence) -> Figure:
    """Share of seeds that answer each sum rightly; columns are gammas, rows weight decays, the block is framed."""
    figure = new_figure(7.0)
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for row, decay in zip(panels, DECAYS, strict=True):
        for axes, gamma in zip(row, GAMMAS, strict=True):
            try_panel(axes, _table, evidence, decay, gamma)
            sweep = evidence.sweep(f"addition_{decay}")
            block = over_seeds(sweep, "answers", "right", gamma, set="block", write=share_text)
            axes.set_title(f"{cell_text(decay, gamma)}\nblock: {block}")
    for axes in panels[1]:
        axes.set_xlabel("second operand b")
    for axes in panels[:, 0]:
        axes.set_ylabel("first operand a")
    images = [image for axes in panels.ravel() for image in axes.images]
    if images:
        figure.colorbar(images[0], ax=panels, shrink=0.5, label="share of seeds that answer a + b rightly")
    legend.above(figure, [legend.area("held-out block", "none", edge=RED, width=1.4)], columns=1)
    return figure


def _table(axes: Axes, evidence: Evidence, decay: str, gamma: float) -> None:
    sweep = evidence.sweep(f"addition_{decay}")
    sums = sweep.mean_array("answers", "sums", gamma, stage="final")
    heat_map(axes, sums, low=0, high=1, colours=ATTENTION)
    task: AdditionTask = sweep.task
    (low, high), (first, last) = task.operands, task.block
    every = -(-(high - low + 1) // len(sums))  # operands between two that are shown
    start, side = (first - low) / every - 0.5, (last - first + 1) / every
    axes.add_patch(Rectangle((start, start), side, side, fill=False, ec=RED, lw=1.4))
    places = range(0, len(sums), -(-len(sums) // TICKS))
    names = [str(low + every * place) for place in places]
    axes.set_xticks(places, names)
    axes.set_yticks(places, names)
    axes.set_ylim(-0.5, len(sums) - 0.5)


def caption_sums(evidence: Evidence) -> Caption:
    """Caption of the table of sums, with what P1 judges."""
    cells = {"high": SMALL, "low": LARGE}
    trained, tested = (
        {
            decay: over_seeds(evidence.sweep(f"addition_{decay}"), "answers", "right", gamma, set=set, write=share_text)
            for decay, gamma in cells.items()
        }
        for set in ("train", "seen_test")
    )
    least, learned = (two_digits(evidence.threshold("P1", number)) for number in (0, 1))
    return Caption(
        f"Each cell is one sum a + b at the last step, {seeds_text(len(evidence.seeds))}. Sums with both operands in "
        "the framed block were never trained, nor was a tenth of the others, which each seed draws. Above each panel: "
        "accuracy on the block (median [range]). P1 compares bottom right with top left. Accuracy on the sums that "
        f"were trained is {trained['high']} at bottom right and {trained['low']} at top left; on other sums outside "
        f"the block it is {tested['high']} and {tested['low']}.",
        f"an accuracy on the block at bottom right that is less than {least} above the one at top left, or members of "
        f"these two panels with an accuracy below {learned} on what they were trained on (P1).",
    )


SETS = {
    "composites": "jump with other words\n(held out)",
    "seen_test": "other commands without jump\n(not trained)",
    "train": "trained on\n(dashed: what P2 asks for)",
}


@styled
def draw_commands(evidence: Evidence) -> Figure:
    """Exact match of every member: a panel for each set, numbers of rows from left to right."""
    figure = new_figure(3.1)
    panels = figure.subplots(1, len(SETS), sharey=True)
    for axes, (set, title) in zip(panels, SETS.items(), strict=True):
        try_panel(axes, _shares, evidence, set)
        axes.set_title(title)
        axes.set_xlabel("rows trained on")
    threshold(panels[-1], evidence.threshold("P2", 1), "")
    panels[0].set(ylim=(-0.03, 1.08), ylabel="exact match (share of commands)")
    legend.above(figure, legend_entries(), columns=3)
    return figure


def _shares(axes: Axes, evidence: Evidence, set: str) -> None:
    if not sum(draw_shares(axes, evidence, f"scan_{size}", set, place) for place, size in enumerate(SIZES)):
        raise MissingEvidenceError(f"This run has no readings of commands on {set}.")
    axes.set_xticks(range(len(SIZES)), [f"{_rows(evidence, size):,}" for size in SIZES])
    axes.set_xlim(-0.55, len(SIZES) - 0.45)


def _rows(evidence: Evidence, size: str) -> int:
    return evidence.sweep(f"scan_{size}_low").task.n_sequences


def caption_commands(evidence: Evidence) -> Caption:
    """Caption of exact match, with what P2 judges."""
    found = []
    for size in SIZES:
        high, low = (
            over_seeds(
                evidence.sweep(f"scan_{size}_{decay}"), "answers", "right", gamma, set="composites", write=share_text
            )
            for decay, gamma in (("high", SMALL), ("low", LARGE))
        )
        found.append(f"{high} against {low} with {_rows(evidence, size):,} rows")
    least, learned = (two_digits(evidence.threshold("P2", number)) for number in (0, 1))
    return Caption(
        "Share of commands whose whole sequence of actions is right under greedy decoding, at the last step, "
        f"{seeds_text(len(evidence.seeds))}, with mean and 95 % interval. On the left jump stands with other words; in "
        "training it only occurs alone. P2 compares the dark squares with the light dots: on composites "
        f"{'; '.join(found)} (median [range]).",
        f"on the left, at some number of rows, dark squares less than {least} above the light dots of the same seeds; "
        f"on the right, dark squares or light dots below {learned} (P2).",
    )


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


FIGURES: tuple[FigureSpec, ...] = (
    FigureSpec("sums", "Which sums are answered rightly (after Fig. 17a)", draw_sums, caption_sums, ("P1",)),
    FigureSpec(
        "commands", "Commands by number of training rows (after Fig. 6a)", draw_commands, caption_commands, ("P2",)
    ),
    FigureSpec(
        "differences", "Initialisation and weight decay apart", draw_differences, caption_differences, ("P1", "P2")
    ),
)
