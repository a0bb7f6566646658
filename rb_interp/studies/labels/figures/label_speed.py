"""Fig. 8 (left) of paper 1: memory is learned sooner where its labels lie near the sum that reasoning would give."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.curves import learning_curve, mean_band, step_axis
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import over_seeds, seeds_at, threshold, try_panel, written
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import GREY, INK, MEMORY, SET_COLOURS, new_figure, styled
from rb_interp.studies.labels.answer import MEMORIES, mean_text

NEAR = "#3c9bd6"
CURVES = {
    ("keys", "mem"): ("mem1: labels anywhere among the keys", MEMORY, "-"),
    ("near_sum", "mem"): ("mem2: labels near the key", NEAR, (0, (5, 1.2))),
    ("keys", "rsn_train"): ("reasoning beside mem1", SET_COLOURS["rsn_train"], "-"),
    ("near_sum", "rsn_train"): ("reasoning beside mem2", SET_COLOURS["rsn_train"], (0, (1, 1))),
}


@styled
def draw_label_speed(evidence: Evidence) -> Figure:
    """Loss and accuracy of both memory mappings, and the index of their areas by seed (after Fig. 8 left)."""
    figure = new_figure(3.2)
    loss, accuracy, index = figure.subplots(1, 3, width_ratios=(1.25, 1.25, 0.75))
    for axes, column, label in ((loss, "loss", "cross entropy (nats)"), (accuracy, "accuracy", "share correct")):
        try_panel(axes, _curves, evidence, column)
        axes.set_ylabel(label if axes.lines else "")
        axes.set_title(f"{column}, γ = {SMALL:g}")
    try_panel(index, _index, evidence)
    legend.above(figure, [legend.line(words, colour, line, 1.7) for words, colour, line in CURVES.values()], columns=2)
    return figure


def _curves(axes: Axes, evidence: Evidence, column: str) -> None:
    highest = 0.0
    for (sweep, inputs), (_, colour, line) in CURVES.items():
        seeds, means = learning_curve(evidence.sweep(sweep), SMALL, inputs, column)
        mean_band(axes, seeds, means, colour, line)
        step_axis(axes, float(seeds.index.to_numpy().max()))
        highest = max(highest, float(seeds.to_numpy().max()))
    axes.set_ylim(*((-0.02, 1.02) if column == "accuracy" else (0, 1.05 * highest)))


def _index(axes: Axes, evidence: Evidence) -> None:
    values = evidence.values("label_speed", "bias", SMALL).to_numpy()
    seeds_at(axes, 0.0, values, evidence.interval("label_speed", "bias", SMALL), INK)
    axes.axhline(0, color=GREY, lw=0.8, zorder=0)
    threshold(axes, evidence.threshold("R1"), written(evidence, "R1"))
    axes.set_xlim(-0.45, 0.6)
    axes.set_xticks([])
    low, high = min(-0.02, values.min()), max(0.1, values.max())
    axes.set_ylim(low - 0.1 * (high - low), high + 0.15 * (high - low))
    axes.set_ylabel("(A$_{mem1}$ − A$_{mem2}$) / (A$_{mem1}$ + A$_{mem2}$)")
    axes.set_title("index (−1 to 1)")
    axes.set_xlabel(f"{seeds_text(len(values))}, mean, 95 %")


def caption_label_speed(evidence: Evidence) -> Caption:
    """Caption of the speed of the two memory mappings, with what R1 judges."""
    quantities = ("area_mem1", "area_mem2", "bias", "bias_per_entropy")
    first, second, index, fair = (over_seeds(evidence, "label_speed", name, SMALL) for name in quantities)
    memory, reasoning = (
        [mean_text(evidence, sweep, name) for sweep in MEMORIES] for name in ("acc_mem", "acc_rsn_train")
    )
    return Caption(
        "Two sweeps with the same seeds and the same reasoning rows, which differ in their memory labels alone: drawn "
        "from all keys (mem1), or from the integers within the sum of the anchors around the key (mem2). Thin lines "
        "are seeds, thick ones their mean, bands its 95 % interval (from three seeds on). A is the "
        f"mean over training of the loss over ln d_vocab: {first} for mem1 and {second} for mem2, so the index on the "
        f"right is {index}; positive where mem2's loss falls sooner. mem2 also has fewer labels for each key, so a "
        "model that knows the key and no pair already loses less on it; with each loss divided by the entropy of its "
        f"labels the index is {fair}. The loss tells which falls sooner, the accuracy which is memorised: final "
        f"accuracy on memory is {memory[0]} (mem1) and {memory[1]} (mem2). Purple: the same reasoning rows beside "
        f"each, with a final accuracy of {reasoning[0]} and {reasoning[1]}; one model learns both sets, so its memory "
        "labels may speed or slow the rule.",
        "seeds at or below the dashed line on the right (R1), or a light blue loss that falls with the dark one or "
        "after it. Purple lines that differ do not refute R1; they show what the memory labels do to the rule.",
    )
