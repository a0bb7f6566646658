"""What else the paper says of small initialisation: low rank, uniform attention, Proposition 1."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.panels import gamma_axis, interval_of, level, seeds_at, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import CORPUS_COLOURS, CORPUS_MARKERS, GREY, INK, gamma_colour, new_figure
from rb_interp.studies.language.figures.shared import (
    Seeds,
    StyledReading,
    at_places,
    at_rates,
    null_of,
    seeds_by_rate,
    zero_line,
)
from rb_interp.studies.language.words import STAGES, by_rate, first_row_text, group_names, names, notes, reading_text

GROUPS = {**{name: (CORPUS_COLOURS[name], CORPUS_MARKERS[name]) for name in CORPUS_COLOURS}, "all": (INK, "^")}
GROUP_SHIFTS = (-0.38, -0.16, 0.06, 0.28)
LEADING = {"share_1_all": "the first", "share_3_all": "the first 3", "share_10_all": "the first 10"}
MATRICES = {"W_QK": "W$_{QK}$", "W_OV": "W$_{OV}$", "W_in": "W$_{in}$", "W_out": "W$_{out}$"}
LAYERS = (0, 1)
CORPUS_SHIFTS = {"prontoqa": -0.26, "stories": 0.12}
PREDICTED = ("prontoqa", "stories", "all")
MARKS = {"init": ("v", -0.34), "early": ("o", -0.06), "final": ("s", 0.22)}


def draw_rank(evidence: Evidence) -> Figure:
    """Participation ratio over the untrained model's, leading shares of the variance, stable ranks of the weights."""
    figure = new_figure(3.1, 7.8)
    ratio, shares, weights = figure.subplots(1, 3, width_ratios=(1.15, 1, 1.15))
    try_panel(ratio, _ratio, evidence)
    ratio.set_title("embeddings: effective directions,\nfinal over untrained")
    try_panel(shares, _shares, evidence)
    shares.set_title("all tokens in use: variance along\nthe leading directions, final")
    try_panel(weights, _weights, evidence)
    weights.set_title("L0: stable rank,\nfinal over untrained")
    words = {**group_names(evidence), "all": "all tokens in use"}
    entries = [legend.mark(words[group], *look) for group, look in GROUPS.items()]
    entries += [legend.mark(f"γ = {gamma:g}", gamma_colour(gamma, evidence.gammas)) for gamma in evidence.gammas]
    legend.above(figure, [*entries, legend.untrained(width=1.6)], columns=4)
    return figure


def _ratio(axes: Axes, evidence: Evidence) -> None:
    series = [
        StyledReading(f"participation_ratio_{group}", shift, colour, marker)
        for (group, (colour, marker)), shift in zip(GROUPS.items(), GROUP_SHIFTS, strict=True)
    ]
    at_rates(axes, evidence, "embedding_rank", series, spread=0.035)
    zero_line(axes, 1.0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("participation ratio / the untrained model's")


def _shares(axes: Axes, evidence: Evidence) -> None:
    found = {name: seeds_by_rate(evidence, "embedding_rank", name) for name in LEADING}
    drawn = at_places(axes, evidence, found, list(LEADING.values()), width=0.22)
    if not drawn:
        raise MissingEvidenceError("This run has no shares of embedding_rank at stage final.")
    for name, gamma, x in drawn:
        untrained = evidence.untrained("embedding_rank", name, gamma)
        level(axes, x + 0.02, untrained, GREY, half=0.08, width=1.6, zorder=1.0)
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share of the centred variance")


def _weights(axes: Axes, evidence: Evidence) -> None:
    ratios, means = evidence.table("rank_ratios"), evidence.table("rank_ratios_summary")
    found: dict[str, dict[float, Seeds]] = {matrix: {} for matrix in MATRICES}
    for row in means.to_dict("records"):
        here = ratios.loc[(ratios["matrix"] == row["matrix"]) & (ratios["gamma"] == row["gamma"])]
        found[row["matrix"]][row["gamma"]] = (here["ratio"], interval_of(row))
    at_places(axes, evidence, found, list(MATRICES.values()), width=0.25)
    zero_line(axes, 1.0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("stable rank / the untrained model's")


def caption_rank(evidence: Evidence) -> Caption:
    """Caption of the ranks of embedding and weights."""
    null, _ = null_of(evidence, "embedding_rank", "participation_ratio_all", SMALL)
    random = f"{null:.2f}" if math.isfinite(null) else "n/a"
    return Caption(
        "Left: participation ratio, (Σλ)² / Σλ² of the spectrum of the centred embeddings, over that of the same "
        "model untrained: 1 is no change, less is fewer directions (dots: seeds, bars: mean with 95 % interval). All "
        f"tokens in use: {by_rate(evidence, 'embedding_rank', 'participation_ratio_all')} (random vectors at γ = "
        f"{SMALL:g}: {random}). Corpora differ in how many typical tokens they have, so only PrOntoQA and its matched "
        f"tokens can be compared with each other: at γ = {SMALL:g} "
        f"{reading_text(evidence, 'embedding_rank', 'participation_ratio_prontoqa')} and "
        f"{reading_text(evidence, 'embedding_rank', 'participation_ratio_control')}. Middle: share of the variance "
        "along the leading directions. Right: stable rank, squared Frobenius norm over squared largest singular value "
        "(W_QK and W_OV: mean over heads). A small start is soon outweighed by the first few directions and a large "
        "one hides as many under its noise, so a low rank tells how far a model has moved."
        f"{notes(evidence)}",
        f"at γ = {SMALL:g}, ratios that are not below those at larger initialisations: a small initialisation would "
        "not give low rank. No claim is judged on this figure.",
    )


def draw_attention(evidence: Evidence) -> Figure:
    """TV of attention from 1/i by rate: a row per layer, a column per stage, both corpora, every head."""
    figure = new_figure(4.2)
    panels = figure.subplots(len(LAYERS), len(STAGES), sharey=True, squeeze=False)
    for row, layer in zip(panels, LAYERS, strict=True):
        for axes, (stage, words) in zip(row, STAGES.items(), strict=True):
            try_panel(axes, _attention, evidence, layer, stage)
            axes.set_title(f"L{layer}, {words}")
            axes.set_ylim(0, 1)
        row[0].set_ylabel("TV from 1/i" if row[0].lines else "")
    for axes in panels[0]:
        axes.set_xlabel("")
    entries = []
    for corpus, name in names(evidence).items():
        entries += legend.corpora({corpus: f"{name}: a head, mean over seeds"})
        entries.append(legend.line(f"{name}: all heads, 95 %", CORPUS_COLOURS[corpus]))
    legend.above(figure, entries, columns=2)
    return figure


def _attention(axes: Axes, evidence: Evidence, layer: int, stage: str) -> None:
    heads = evidence.summary.query("probe == 'uniformity' and quantity == 'tv' and layer == @layer and stage == @stage")
    if heads.empty or "attention" not in evidence.tables:
        raise MissingEvidenceError(f"No reading of uniformity in L{layer}, stage {stage}.")
    for corpus, shift in CORPUS_SHIFTS.items():
        for place, gamma in enumerate(evidence.gammas):
            here = heads.loc[(heads["set"] == corpus) & (heads["gamma"] == gamma)].sort_values("head")
            if len(here):
                mean = evidence.table("attention", gamma=gamma, stage=stage, set=corpus, layer=layer).iloc[0]
                look = (CORPUS_COLOURS[corpus], CORPUS_MARKERS[corpus])
                seeds_at(axes, place + shift, here["mean"], interval_of(mean), *look, spread=0.08)
    gamma_axis(axes, evidence)


def attention_text(evidence: Evidence, stage: str, corpus: str) -> str:
    """Mean over heads of L0 at the small rate, ``mean [low, high]`` over seeds; ``n/a`` where not read."""
    return first_row_text(evidence.records("attention", gamma=SMALL, stage=stage, set=corpus, layer=0))


def caption_attention(evidence: Evidence) -> Caption:
    """Caption of attention's distance from an average, L0."""
    called = names(evidence).items()
    stages = "; ".join(
        f"{words} " + ", ".join(f"{attention_text(evidence, stage, corpus)} on {name}" for corpus, name in called)
        for stage, words in STAGES.items()
    )
    return Caption(
        "Total variation distance of a row of attention from an average over all preceding tokens, mean over rows and "
        "inputs: 0 is an exact average. Small marks are heads (mean over seeds), bars the mean over "
        f"heads with its 95 % interval over seeds. L0 at γ = {SMALL:g}: {stages}.{notes(evidence)}",
        f"an untrained distance at γ = {SMALL:g} well above 0, or no smaller than at larger initialisations, would "
        "refute Lemma 1 on text. Nothing here is claimed of trained models: the paper speaks of early training.",
    )


def draw_next_token(evidence: Evidence) -> Figure:
    """Correlation of the geometries by rate and stage, a panel for each list of tokens, beside its null."""
    figure = new_figure(3.0)
    panels = figure.subplots(1, len(PREDICTED), sharey=True)
    words = {**names(evidence), "all": "both, all pairs"}
    for axes, group in zip(panels, PREDICTED, strict=True):
        try_panel(axes, _next_token, evidence, group)
        axes.set_title(words[group])
    panels[0].set_ylabel("Spearman over pairs of tokens" if panels[0].lines else "")
    entries = [legend.mark(STAGES[stage], INK, marker) for stage, (marker, _) in MARKS.items()]
    null = legend.line("null: tokens permuted among neighbours in frequency", GREY, width=2.0)
    legend.above(figure, [*entries, null], columns=4)
    return figure


def _next_token(axes: Axes, evidence: Evidence, group: str) -> None:
    name, colour = f"spearman_{group}", GROUPS[group][0]
    series = [StyledReading(name, shift, colour, marker, stage) for stage, (marker, shift) in MARKS.items()]
    for one in at_rates(axes, evidence, "next_token", series, spread=0.05):
        null, _ = null_of(evidence, "next_token", name, one.gamma, one.stage)
        level(axes, one.x + 0.02, null, GREY, half=0.12, width=2.0, zorder=1.0)
    zero_line(axes)
    axes.set_ylim(min(-0.3, axes.get_ylim()[0]), 1.02)


def excess_text(evidence: Evidence, group: str, stage: str) -> str:
    """Reading at the small initialisation with its null: ``0.55 [0.50, 0.60] (null 0.10)``; ``n/a`` where not read."""
    text = reading_text(evidence, "next_token", f"spearman_{group}", stage=stage)
    null, _ = null_of(evidence, "next_token", f"spearman_{group}", SMALL, stage)
    return f"{text} (null {null:.2f})".replace("-", "−") if math.isfinite(null) else text


def caption_next_token(evidence: Evidence) -> Caption:
    """Caption of how next-token distributions predict the geometry of embeddings."""
    called = {**names(evidence), "all": "all pairs"}
    early, final = (
        "; ".join(f"{called[group]} {excess_text(evidence, group, stage)}" for group in PREDICTED)
        for stage in ("early", "final")
    )
    return Caption(
        "P^s is how often each token follows token s in the training text, u the uniform distribution. Drawn: rank "
        "correlation, over pairs of the most frequent typical tokens, of cos(P^s − u, P^s' − u) with the cosine of the "
        "two embeddings; 1 where the geometry of P^s is that of the embeddings, 0 where it tells nothing. Grey bars: "
        "the same after permuting tokens among ten neighbours in frequency, which keeps what frequency alone makes. At "
        f"γ = {SMALL:g}, early: {early}; final: {final}. Over all pairs a correlation arises as soon as the corpora "
        f"are told apart.{notes(evidence)}",
        f"at γ = {SMALL:g}, early, correlations no higher than their grey bars, or than at larger initialisations: the "
        "distribution of labels would not shape the embeddings as Proposition 1 has it. A high correlation late in "
        "training shows little, since every good model ties tokens that share successors. No claim is judged here.",
    )
