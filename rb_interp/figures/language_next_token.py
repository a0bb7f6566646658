"""Proposition 1 on text: do embeddings take the shape of what follows their tokens? (Eqs. 5 to 8)"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_evidence import STAGES, names, stand_in_note, told, zero_line
from rb_interp.figures.panels import Caption, gamma_axis, seed_interval, seeds_at, try_panel
from rb_interp.figures.style import CORPUS_COLOURS, GREY, INK, new_figure, styled

COLOURS = {"prontoqa": CORPUS_COLOURS["prontoqa"], "stories": CORPUS_COLOURS["stories"], "all": INK}
MARKS = {"init": ("v", -0.34), "early": ("o", -0.06), "final": ("s", 0.22)}
QUANTITY = "spearman"


@styled
def draw_next_token(evidence: Evidence) -> Figure:
    """Correlation of the geometries by rate and stage, a panel for each list of tokens, beside its null."""
    figure = new_figure(3.0)
    panels = figure.subplots(1, len(COLOURS), sharey=True)
    words = {**names(evidence), "all": "both, all pairs"}
    for axes, group in zip(panels, COLOURS, strict=True):
        try_panel(axes, _panel, evidence, group)
        axes.set_title(words[group])
    panels[0].set_ylabel("Spearman over pairs of tokens" if panels[0].lines else "")
    figure.legend(handles=_legend(), loc="outside upper center", ncols=4)
    return figure


def _panel(axes: Axes, evidence: Evidence, group: str) -> None:
    drawn, name = 0, f"{QUANTITY}_{group}"
    for stage, (marker, shift) in MARKS.items():
        for place, gamma in enumerate(evidence.gammas):
            try:
                values = evidence.values("next_token", name, gamma, stage=stage)
            except MissingEvidenceError:
                continue
            drawn += 1
            seeds_at(axes, place + shift, values, COLOURS[group], marker, spread=0.05)
            null = null_mean(evidence, name, gamma, stage)
            axes.plot([place + shift - 0.1, place + shift + 0.14], [null] * 2, color=GREY, lw=2, zorder=1,
                      solid_capstyle="butt")  # fmt: skip
    if not drawn:
        raise MissingEvidenceError(f"This run has no reading of next_token ({name}).")
    zero_line(axes)
    axes.set_ylim(min(-0.3, axes.get_ylim()[0]), 1.02)
    gamma_axis(axes, evidence)


def null_mean(evidence: Evidence, quantity: str, gamma: float, stage: str) -> float:
    """Mean over seeds of what tokens permuted among neighbours in frequency would give; NaN where not read."""
    try:
        values = evidence.values("next_token", quantity, gamma, stage=stage, column="null_mean")
    except MissingEvidenceError:
        return float("nan")
    return seed_interval(values).estimate


def _legend() -> list[Line2D]:
    found = [
        Line2D([], [], ls="", marker=marker, ms=4, mfc="white", mec=INK, label=STAGES[stage])
        for stage, (marker, _) in MARKS.items()
    ]
    return [*found, Line2D([], [], color=GREY, lw=2, label="null: tokens permuted among neighbours in frequency")]


def excess_text(evidence: Evidence, group: str, stage: str) -> str:
    """Reading at the small initialisation with its null: ``0.55 [0.50, 0.60] (null 0.10)``; ``n/a`` where not read."""
    text = told(evidence, "next_token", f"{QUANTITY}_{group}", SMALL, stage=stage)
    null = null_mean(evidence, f"{QUANTITY}_{group}", SMALL, stage)
    return text if null != null else f"{text} (null {null:.2f})".replace("-", "−")


def caption_next_token(evidence: Evidence) -> Caption:
    """Caption of how next-token distributions predict the geometry of embeddings."""
    called = {**names(evidence), "all": "all pairs"}
    early = "; ".join(f"{called[group]} {excess_text(evidence, group, 'early')}" for group in COLOURS)
    final = "; ".join(f"{called[group]} {excess_text(evidence, group, 'final')}" for group in COLOURS)
    return Caption(
        "P^s is how often each token follows token s in the training text, u the uniform distribution. Drawn: rank "
        "correlation, over pairs of the most frequent typical tokens, of cos(P^s − u, P^s' − u) with the cosine of the "
        "two embeddings; 1 where the geometry of P^s is that of the embeddings, 0 where it tells nothing. Grey bars: "
        "the same after permuting tokens among ten neighbours in frequency, which keeps what frequency alone makes. At "
        f"γ = {SMALL:g}, early: {early}; final: {final}. Over all pairs a correlation arises as soon as the corpora "
        f"are told apart.{stand_in_note(evidence)}",
        f"at γ = {SMALL:g}, early, correlations no higher than their grey bars, or than at larger initialisations: the "
        "distribution of labels would not shape the embeddings as Proposition 1 has it. A high correlation late in "
        "training shows little, since every good model ties tokens that share successors. No claim is judged here.",
    )
