"""Answers and chains of thought on held-out PrOntoQA, by number of hops."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_evidence import claims_gamma, reading_text
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import Caption, say, seed_interval, try_panel
from rb_interp.figures.style import GREY, INK, WIDTH, new_figure, styled

KINDS = {
    "answer_two_way": ("answer, True against False alone", "#c4312a", "o"),
    "answer": ("answer, whole vocabulary", "#e58a7f", "s"),
    "chain": ("chain, all steps right", INK, "D"),
    "premise": ("step: premise", "#3c9bd6", "^"),
    "rule": ("step: rule from the context", "#0a3d91", "v"),
    "conclusion": ("step: conclusion", "#6d2a78", "P"),
}
ROWS = (("answer_two_way", "answer"), ("chain", "premise", "rule", "conclusion"))
TITLES = ("answer", "chain of thought")
CHANCE = 0.5
BY_NOT = 0.53
"""Share of two-way answers that are right by the query's "not" alone."""


@styled
def draw_skills(evidence: Evidence) -> Figure:
    """Accuracy at the last step against hops: answers above, steps and whole chains below, a column per rate."""
    columns = len(evidence.gammas)
    figure = new_figure(4.4, max(WIDTH, 2.1 * columns))
    if not columns:
        say(figure.subplots(), "This run has no members.")
        return figure
    panels = figure.subplots(2, columns, sharey=True, squeeze=False)
    for row, kinds, title in zip(panels, ROWS, TITLES, strict=True):
        for axes, gamma in zip(row, evidence.gammas, strict=True):
            try_panel(axes, _panel, evidence, gamma, kinds)
            axes.set_title(f"{title}, γ = {gamma:g}")
            axes.set_ylim(-0.03, 1.05)
        row[0].set_ylabel("share right" if row[0].lines else "")
    for axes in panels[1]:
        axes.set_xlabel("hops" if axes.lines else "")
    figure.legend(handles=_legend(), loc="outside upper center", ncols=4)
    return figure


def skill_table(evidence: Evidence, gamma: float, kind: str, step: int | None = None) -> pd.DataFrame:
    """Accuracy of a kind at a kept step, the last one where none is given: hops (index) by seeds.

    Raises MissingEvidenceError where the run has none.
    """
    here = _rows(evidence, gamma, kind, step)
    return here.pivot_table(index="hops", columns="seed", values="accuracy").dropna(how="all")


def pooled(evidence: Evidence, gamma: float, kind: str) -> pd.Series:
    """Accuracy of a kind at the last step over all hops, each example or step alike, by seed (index)."""
    here = _rows(evidence, gamma, kind, None)
    counted = here.assign(right=here["accuracy"].astype(float) * here["n"])
    totals = counted.pivot_table(index="seed", values=["right", "n"], aggfunc="sum")
    return pd.Series(totals["right"] / totals["n"])


def _rows(evidence: Evidence, gamma: float, kind: str, step: int | None) -> pd.DataFrame:
    table = evidence.table("skills")
    here = table.loc[np.isclose(table["gamma"].astype(float), gamma) & (table["kind"] == kind) & (table["n"] > 0)]
    here = here.loc[here["step"] == (here["step"].max() if step is None else step)]
    if here.empty:
        raise MissingEvidenceError(f"This run has no accuracy of “{KINDS[kind][0]}” at γ = {gamma:g}.")
    return here


def _panel(axes: Axes, evidence: Evidence, gamma: float, kinds: tuple[str, ...]) -> None:
    if "answer_two_way" in kinds:
        axes.axhline(CHANCE, color=GREY, lw=0.8, ls=(0, (3, 1.5)), zorder=0)
    for kind in reversed(kinds):  # two-way answers and whole chains, which count most, lie on top
        _, colour, marker = KINDS[kind]
        table = skill_table(evidence, gamma, kind)
        found = np.array([seed_interval(values.dropna()) for _, values in table.iterrows()]).reshape(-1, 3)
        mean, low, high = found.T
        hops = table.index.to_numpy(dtype=float)
        axes.vlines(hops, np.clip(low, 0, 1), np.clip(high, 0, 1), color=colour, lw=0.9, zorder=2)
        axes.plot(hops, mean, color=colour, marker=marker, ms=4, mfc="white", mew=0.9, lw=1.1, zorder=3)
        axes.set_xticks(hops, [f"{int(hop)}" for hop in hops])


def _legend() -> list[Line2D]:
    found = [
        Line2D([], [], color=colour, marker=marker, ms=4, mfc="white", lw=1.1, label=words)
        for words, colour, marker in KINDS.values()
    ]
    return [*found, Line2D([], [], color=GREY, lw=0.8, ls=(0, (3, 1.5)), label="chance of two answers, .50")]


def by_hops(evidence: Evidence, gamma: float, kind: str) -> str:
    """Mean over seeds by hops: ``0.95 at 1 hop, 0.90 at 2 hops``; ``not read`` where there is none."""
    try:
        table = skill_table(evidence, gamma, kind)
    except MissingEvidenceError:
        return "not read"
    means = table.mean(axis=1)
    return ", ".join(f"{value:.2f} at {hops} {'hop' if hops == 1 else 'hops'}" for hops, value in means.items())


def pooled_text(evidence: Evidence, gamma: float, kind: str) -> str:
    """Accuracy over all hops, ``mean [low, high]`` over seeds; ``n/a`` where there is none."""
    try:
        return reading_text(pooled(evidence, gamma, kind))
    except MissingEvidenceError:
        return "n/a"


def examples(evidence: Evidence) -> str:
    """How many held-out examples a seed answers, in words; empty where the run does not tell."""
    try:
        here = _rows(evidence, evidence.gammas[0], "answer_two_way", None) if evidence.gammas else None
    except MissingEvidenceError:
        here = None
    if here is None:
        return ""
    counts = set(here.pivot_table(index="seed", values="n", aggfunc="sum")["n"].astype(int))
    return f"{counts.pop():,} held-out examples a seed, " if len(counts) == 1 else "held-out examples, "


def left_out(evidence: Evidence) -> str:
    """A sentence on the examples that were too long for the model, where there are any: those of many hops."""
    try:
        values = evidence.values("chain", "left_out", claims_gamma(evidence, SMALL))
    except MissingEvidenceError:
        return ""
    mean = float(values.mean())
    return f" Left out as too long for the context, and of many hops: {mean:.0f} examples a seed." if mean else ""


def caption_skills(evidence: Evidence) -> Caption:
    """Caption of the skills, with numbers at the small initialisation."""
    two_way = "; ".join(
        f"{pooled_text(evidence, gamma, 'answer_two_way')} at γ = {gamma:g}" for gamma in evidence.gammas
    )
    return Caption(
        f"Accuracy at the last step by number of hops, {examples(evidence)}{seeds_text(len(evidence.seeds))} (means, "
        "whiskers: 95 % interval). All are teacher-forced: the model sees the right text up to there. Top: the answer "
        "after the right chain of thought, as the likeliest of all tokens, and as True against False alone, where "
        "guessing gives .50 (dashed) and going by the query's “not” alone gives .53. Bottom: a step is right where "
        "each of its tokens is the likeliest; premise, rule and conclusion are the kinds of steps, and a chain is "
        "right where all its steps are, as greedy decoding would give it. A premise copies the question's last "
        "sentence and a conclusion half of the rule before it; a rule takes a choice."
        f"{left_out(evidence)} Answers, True against False, over all hops: {two_way or 'not read'}. At "
        f"γ = {SMALL:g}, chains: {by_hops(evidence, SMALL, 'chain')}.",
        "two-way answers at the dashed line or at .53: the lower loss on PrOntoQA would be one of templates, and no "
        f"reasoning would have been learned, at γ = {SMALL:g} or at all. With the right chain before it an answer "
        "needs its last sentence and the query alone, so only whole chains show reasoning over hops. No claim is "
        "judged here.",
    )
