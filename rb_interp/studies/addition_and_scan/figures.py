"""Figures of addition and commands by cell of gamma and weight decay, after Figs. 6a and 17a of
paper 2.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from rb_interp.claims import Term
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.intervals import mean_text
from rb_interp.studies.addition_and_scan.addition import AdditionTask
from rb_interp.studies.addition_and_scan.config import DECAYS, HELD_OUT, SIZES, TASKS

COLOURS = {LARGE: kit.GAMMA_RAMP(0.0), SMALL: kit.GAMMA_RAMP(1.0)}
MARKERS = {"low": "o", "high": "s"}
CELLS = tuple((decay, gamma) for gamma in (LARGE, SMALL) for decay in DECAYS)
"""Weight decay and gamma."""
SETS = {
    "composites": "jump with other words\n(held out)",
    "seen_test": "other commands without jump\n(not trained)",
    "train": "trained on\n(dashed: what P2 asks for)",
}
LOW, HIGH = DECAYS.values()
LOOKS = {
    "both": ("both", "γ and weight decay together", kit.INK, "D"),
    "gamma_low_decay": (f"γ\nat\n{LOW:g}", f"γ alone ({SMALL:g} less {LARGE:g})", kit.BLUE, "o"),
    "gamma_high_decay": (f"γ\nat\n{HIGH:g}", "", kit.BLUE, "o"),
    "decay_large_init": (
        f"decay\nat\n{LARGE:g}",
        f"weight decay alone ({HIGH:g} less {LOW:g})",
        kit.RED,
        "s",
    ),
    "decay_small_init": (f"decay\nat\n{SMALL:g}", "", kit.RED, "s"),
}
"""Contrast -> tick, words in the legend, colour and marker."""


def cell_text(decay: str, gamma: float) -> str:
    """What a cell is called."""
    return f"γ = {gamma:g}, weight decay {DECAYS[decay]:g}"


def draw_shares(axes: Axes, evidence: Evidence, ticks: list[tuple[str, str]]) -> None:
    """The share of right answers of every member, cells beside each other around each place of the
    axis.

    ``ticks``: first part of the sweeps' names, and whose rows. Raises MissingEvidenceError where
    nothing was read.
    """
    labels: set[str] = set()
    for tick, (task, rows) in enumerate(ticks):
        for number, (decay, gamma) in enumerate(CELLS):
            term = Term("answers", "right", gamma, "final", rows, sweep=f"{task}_{decay}")
            try:
                values = evidence.values(term)
            except MissingEvidenceError:
                continue
            label = cell_text(decay, gamma)
            x = tick + 0.2 * (number - 1.5)
            legend_label = "" if label in labels else label
            look = (COLOURS[gamma], MARKERS[decay], 0.04, legend_label)
            kit.dots(axes, x, values, evidence.interval(term), *look)
            labels.add(label)
    if not labels:
        raise MissingEvidenceError("This run has no readings of answers.")
    axes.set(xlim=(-0.55, len(ticks) - 0.45), ylim=(-0.03, 1.08))


def draw_commands(evidence: Evidence) -> Figure:
    """Exact match of every member: a panel for each set, numbers of rows from left to right."""
    figure, [axes] = kit.panels(1, len(SETS), 3.1, sharey=True)
    for panel, (rows, title) in zip(axes, SETS.items(), strict=True):
        with kit.missing(panel):
            draw_shares(panel, evidence, [(f"scan_{size}", rows) for size in SIZES])
            sizes = [f"{evidence.sweep(f'scan_{size}_low').task.n_sequences:,}" for size in SIZES]
            panel.set_xticks(range(len(SIZES)), sizes)
            panel.set(title=title, xlabel="rows trained on")
            if rows == "train":
                kit.threshold(panel, evidence, "P2", 1)
    axes[0].set_ylabel("exact match (share of commands)")
    kit.legend(figure, 2)
    return figure


def draw_sums(evidence: Evidence) -> Figure:
    """Share of seeds that answer each sum, a panel for each cell; the held-out block framed (after
    Fig. 17a)."""
    figure, axes = kit.panels(2, 2, 7.0, sharex=True, sharey=True)
    for panel, (gamma, decay) in zip(
        axes.flat, ((g, d) for d in DECAYS for g in (LARGE, SMALL)), strict=True
    ):
        with kit.missing(panel):
            sweep = evidence.sweep(f"addition_{decay}")
            sums = sweep.mean_array(Term("answers", "sums", gamma, "final"))
            kit.heat_map(panel, sums, low=0, high=1, colours=kit.ATTENTION)
            task: AdditionTask = sweep.task
            (low, high), (first, last) = task.operands, task.block
            stride = -(-(high - low + 1) // len(sums))  # operands between two that are shown
            start, side = (first - low) / stride - 0.5, (last - first) / stride + 1
            panel.add_patch(Rectangle((start, start), side, side, fill=False, ec=kit.RED, lw=1.4))
            ticks = range(0, len(sums), -(-len(sums) // 5))
            panel.set_xticks(ticks, [str(low + stride * tick) for tick in ticks])
            panel.set_yticks(ticks, [str(low + stride * tick) for tick in ticks])
            panel.set_ylim(-0.5, len(sums) - 0.5)
            block = mean_text(*sweep.spread(Term("answers", "right", gamma, "final", "block")))
            panel.set_title(f"{cell_text(decay, gamma)}\nblock: {block}")
    images = [image for panel in axes.flat for image in panel.images]
    if images:
        figure.colorbar(
            images[0], ax=axes, shrink=0.5, label="share of seeds that answer a + b rightly"
        )
    axes[0, 0].set_ylabel("first operand a")
    axes[1, 0].set(xlabel="second operand b", ylabel="first operand a")
    kit.legend(figure, 1, [Patch(fc="none", ec=kit.RED, lw=1.4, label="held-out block")])
    return figure


def draw_differences(evidence: Evidence) -> Figure:
    """The contrasts of every task and seed, with mean and interval."""
    figure, [axes] = kit.panels(1, len(TASKS), 3.0, sharey=True)
    for panel, task in zip(axes, TASKS, strict=True):
        with kit.missing(panel):
            for x, (name, (_, label, colour, marker)) in enumerate(LOOKS.items()):
                quantity = f"{task}:{name}"
                term = Term("contrast", quantity, None, "final", HELD_OUT[task])
                try:
                    values = evidence.values(term)
                except MissingEvidenceError:  # a member diverged in every seed
                    continue
                interval = evidence.interval(term)
                kit.dots(panel, x - 0.1, values, interval, colour, marker, 0.14, label)
            kit.zero(panel)
            kit.threshold(panel, evidence, "P1" if task == "addition" else "P2")
            panel.set_xticks(range(len(LOOKS)), [tick for tick, *_ in LOOKS.values()], fontsize=5.5)
            panel.set_title(task.replace("scan_", "commands, "))
    axes[0].set_ylabel("difference in the share right (held-out rows)")
    kit.legend(figure, 4)
    return figure


FIGURES = {"commands": draw_commands, "sums": draw_sums, "differences": draw_differences}
