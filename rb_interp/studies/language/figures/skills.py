"""Answers and chains of thought on held-out PrOntoQA, by number of hops."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.numbers import seeds_text, two_digits
from rb_interp.figures.panels import try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import DASHED, GREY, INK
from rb_interp.studies.language.answer import BY_CHANCE, BY_NOT
from rb_interp.studies.language.figures.shared import rate_columns
from rb_interp.studies.language.words import KINDS, by_hops, left_out, pooled_text, skill

LOOKS = {
    "answer_two_way": ("#c4312a", "o"),
    "answer": ("#e58a7f", "s"),
    "chain": (INK, "D"),
    "premise": ("#3c9bd6", "^"),
    "rule": ("#0a3d91", "v"),
    "conclusion": ("#6d2a78", "P"),
}
ROWS = {"answer": ("answer_two_way", "answer"), "chain of thought": ("chain", "premise", "rule", "conclusion")}


def draw(evidence: Evidence) -> Figure:
    """Accuracy at the last step against hops: answers above, steps and whole chains below, a column per rate."""
    figure, panels = rate_columns(evidence, 4.4, rows=2)
    for row, (title, kinds) in zip(panels, ROWS.items(), strict=True):
        for axes, gamma in zip(row, evidence.gammas, strict=True):
            try_panel(axes, _panel, evidence, gamma, kinds)
            axes.set_title(f"{title}, γ = {gamma:g}")
            axes.set_ylim(-0.03, 1.05)
        row[0].set_ylabel("share right" if row[0].lines else "")
    for axes in panels[1]:
        axes.set_xlabel("hops" if axes.lines else "")
    entries = [
        legend.line(KINDS[kind], colour, width=1.1, marker=marker, ms=4, mfc="white")
        for kind, (colour, marker) in LOOKS.items()
    ]
    legend.above(
        figure, [*entries, legend.line(f"chance of two answers, {two_digits(BY_CHANCE)}", GREY, DASHED, 0.8)], columns=4
    )
    return figure


def _panel(axes: Axes, evidence: Evidence, gamma: float, kinds: tuple[str, ...]) -> None:
    if "answer_two_way" in kinds:
        axes.axhline(BY_CHANCE, color=GREY, lw=0.8, ls=DASHED, zorder=0)
    for kind in reversed(kinds):  # two-way answers and whole chains, which count most, lie on top
        rows = pd.DataFrame(skill(evidence, gamma, kind)[1:])
        if rows.empty:
            raise MissingEvidenceError(f"This run has no accuracy of “{KINDS[kind]}” at γ = {gamma:g}.")
        colour, marker = LOOKS[kind]
        axes.vlines(rows["hops"], rows["low"].clip(0, 1), rows["high"].clip(0, 1), color=colour, lw=0.9, zorder=2)
        axes.plot(rows["hops"], rows["mean"], color=colour, marker=marker, ms=4, mfc="white", mew=0.9, lw=1.1, zorder=3)
        axes.set_xticks(rows["hops"], [f"{hops}" for hops in rows["hops"]])


def examples(evidence: Evidence) -> str:
    """How many held-out examples a seed answers, in words; empty where the run does not tell."""
    rows = evidence.readings.query("probe == 'chain' and quantity == 'answer_two_way' and stage == 'final'")
    counts = set(rows.loc[rows["gamma"].isin(evidence.gammas[:1]), "n"])
    if not counts:
        return ""
    return f"{counts.pop():,} held-out examples a seed, " if len(counts) == 1 else "held-out examples, "


def caption(evidence: Evidence) -> Caption:
    """Caption of the skills, with numbers at the small initialisation."""
    two_way = "; ".join(
        f"{pooled_text(evidence, gamma, 'answer_two_way')} at γ = {gamma:g}" for gamma in evidence.gammas
    )
    by_not = two_digits(BY_NOT)
    return Caption(
        f"Accuracy at the last step by number of hops, {examples(evidence)}{seeds_text(len(evidence.seeds))} (means, "
        "whiskers: 95 % interval). All are teacher-forced: the model sees the right text up to there. Top: the answer "
        "after the right chain of thought, as the likeliest of all tokens, and as True against False alone, where "
        f"guessing gives {two_digits(BY_CHANCE)} (dashed) and going by the query's “not” alone gives {by_not}. Bottom: "
        "a step is right where "
        "each of its tokens is the likeliest; premise, rule and conclusion are the kinds of steps, and a chain is "
        "right where all its steps are, as greedy decoding would give it. A premise copies the question's last "
        "sentence and a conclusion half of the rule before it; a rule takes a choice."
        f"{left_out(evidence)} Answers, True against False, over all hops: {two_way or 'not read'}. At "
        f"γ = {SMALL:g}, chains: {by_hops(evidence, 'chain')}.",
        f"two-way answers at the dashed line or at {by_not}: the lower loss on PrOntoQA would be one of templates, and "
        f"no reasoning would have been learned, at γ = {SMALL:g} or at all. With the right chain before it an answer "
        "needs its last sentence and the query alone, so only whole chains show reasoning over hops. No claim is "
        "judged here.",
    )
