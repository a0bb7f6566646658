"""Fig. 1 of paper 1: loss on PrOntoQA and on TinyStories while a GPT-2 learns both."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_evidence import (
    CORPORA,
    EARLY,
    early_steps,
    entropies,
    loss_table,
    names,
    never_early,
    stand_in_note,
    told,
)
from rb_interp.figures.learning import band, step_axis, thin
from rb_interp.figures.numbers import number, seeds_text
from rb_interp.figures.panels import Caption, say, try_panel
from rb_interp.figures.style import CORPUS_COLOURS, GREY, INK, WIDTH, new_figure, styled

ENDS = {"train": "-", "test": (0, (4, 1.6))}
LIMIT = 1.5
"""The loss axis ends at this many times the larger unigram entropy, where curves go higher."""


@styled
def draw_language_loss(evidence: Evidence) -> Figure:
    """Loss of each corpus against training step, trained on and held out, one panel per rate (after Fig. 1)."""
    columns = len(evidence.gammas)
    figure = new_figure(2.9, max(WIDTH, 2.1 * columns))
    if not columns:
        say(figure.subplots(), "This run has no learning curves.")
        return figure
    panels = figure.subplots(1, columns, sharey=True, squeeze=False)[0]
    for place, (axes, gamma) in enumerate(zip(panels, evidence.gammas, strict=True)):
        try_panel(axes, _panel, evidence, gamma, named=place == columns - 1)
        seeds = evidence.curves.loc[np.isclose(evidence.curves["gamma"], gamma), "seed"].nunique()
        delta = told(evidence, "corpus_loss", "delta_loss", gamma)
        axes.set_title(f"γ = {gamma:g}   ({seeds_text(seeds)})\nΔL = {delta}")
    panels[0].set_ylim(0, loss_limit(evidence))
    panels[0].set_ylabel("loss (nats per token)")
    figure.legend(handles=_legend(evidence), loc="outside upper center", ncols=3)
    return figure


def loss_limit(evidence: Evidence) -> float:
    """Upper end of the loss axis in nats: what curves need after their first twentieth, within LIMIT entropies."""
    later = evidence.curves.loc[evidence.curves["step"] > 0.05 * evidence.curves["step"].max(), "loss"].astype(float)
    highest = float(later.max()) if later.notna().any() else 1.0
    known = entropies(evidence)
    return 1.08 * max(min(highest, LIMIT * max(known.values())) if known else highest, max(known.values(), default=0))


def _panel(axes: Axes, evidence: Evidence, gamma: float, named: bool) -> None:
    for corpus in CORPORA:
        for end, line in ENDS.items():
            _curve(axes, evidence, f"{corpus}_{end}", gamma, CORPUS_COLOURS[corpus], line)
    for corpus, entropy in entropies(evidence).items():
        axes.axhline(entropy, color=CORPUS_COLOURS[corpus], lw=0.7, ls=(0, (1, 2)), zorder=1)
    steps = list(early_steps(evidence, gamma).values())
    if steps:  # an empty line outside the axes would have no place, and the layout none either
        axes.plot(steps, np.zeros(len(steps)), "^", ms=6, color=INK, mec="white", mew=0.5, clip_on=False, zorder=6)
    if named and entropies(evidence):
        middle = float(np.mean(list(entropies(evidence).values())))
        axes.annotate("unigram\nentropies", (1, middle), xycoords=axes.get_yaxis_transform(), xytext=(3, 0), ha="left",
                      va="center", fontsize=6.5, textcoords="offset points", color="#555555",
                      annotation_clip=False)  # fmt: skip
    step_axis(axes, float(evidence.curves["step"].to_numpy().max()))


def _curve(axes: Axes, evidence: Evidence, rows: str, gamma: float, colour: str, line: object) -> None:
    try:
        table = loss_table(evidence, rows, gamma)
    except MissingEvidenceError:
        if rows.endswith("_train"):
            raise
        return
    table = table.loc[thin(table.index.to_numpy())]
    mean, low, high = band(table)
    if line == "-":
        axes.plot(table.index, table.to_numpy(), color=colour, lw=0.4, alpha=0.4, zorder=2)
        if table.shape[1] > 2:
            axes.fill_between(table.index, low, high, color=colour, alpha=0.12, lw=0, zorder=1)
    axes.plot(table.index, mean, color=colour, lw=1.6 if line == "-" else 1.1, ls=line, zorder=3)


def _legend(evidence: Evidence) -> list[Line2D]:
    words = {"train": "trained on", "test": "held out"}
    lines = [
        Line2D([], [], color=CORPUS_COLOURS[corpus], ls=line, lw=1.6, label=f"{name}, {words[end]}")
        for corpus, name in names(evidence).items()
        for end, line in ENDS.items()
    ]
    lines.append(Line2D([], [], color=GREY, lw=0.5, label="one seed, trained on"))
    lines.append(Line2D([], [], color=INK, marker="^", ls="", ms=5, label="stage “early” of a seed"))
    return lines


def caption_language_loss(evidence: Evidence) -> Caption:
    """Caption of the loss curves, with the final losses on held-out text."""
    called = names(evidence)
    final = "; ".join(
        f"{called[corpus]} {told(evidence, 'corpus_loss', f'loss_{corpus}_test', SMALL)}" for corpus in CORPORA
    )
    limit = loss_limit(evidence) if len(evidence.curves) else np.inf
    cut = f" Losses above {number(limit)} nats lie outside the panels." if _highest(evidence) > limit else ""
    late = never_early(evidence, SMALL)
    return Caption(
        f"Next-token loss on {called['prontoqa']} (red) and {called['stories']} (blue) of one GPT-2 that learns both, "
        f"mixed 1:1, for {seeds_text(len(evidence.seeds))}: text trained on (solid) and held out (dashed). Thick lines "
        "are means, bands their 95 % interval. Dotted: each corpus's unigram entropy, what a model that knows only how "
        "often each token occurs would lose. ΔL above each panel is the mean over training of (blue − red) / red. "
        f"Triangles, {EARLY}. Final held-out losses at γ = {SMALL:g}, nats per token: {final}.{cut}"
        f"{f' {late}' if late else ''}{stand_in_note(evidence)}",
        f"at γ = {SMALL:g}, a blue curve that falls together with the red one or below it (G1). That red lies lower "
        "shows little by itself: PrOntoQA is made from templates, so whatever learns word order loses less on it. Gaps "
        "that do not widen from left to right would refute what is claimed of initialisation (G2).",
    )


def _highest(evidence: Evidence) -> float:
    return float(evidence.curves["loss"].to_numpy(dtype=float).max()) if len(evidence.curves) else 0.0
