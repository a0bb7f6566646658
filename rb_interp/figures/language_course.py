"""Claim G3's cosines along training: its sign depends on the step at which one looks."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.language_evidence import claims_gamma, early_steps, zero_line
from rb_interp.figures.learning import mean_band
from rb_interp.figures.panels import seed_interval
from rb_interp.figures.style import CORPUS_COLOURS, CORPUS_MARKERS, INK

APART = 0.08
"""Labels of steps keep this share of the axis between them."""


def course_table(evidence: Evidence, quantity: str, gamma: float) -> pd.DataFrame:
    """A quantity of ``token_similarity`` at every kept step: steps (index, ascending) by seeds.

    Raises MissingEvidenceError where the run has none.
    """
    table = evidence.table("similarity")
    here = table.loc[np.isclose(table["gamma"].astype(float), gamma)].dropna(subset=[quantity])
    if here.empty:
        raise MissingEvidenceError(f"This run has no {quantity} of token_similarity along training at γ = {gamma:g}.")
    return here.pivot_table(index="step", columns="seed", values=quantity)


def draw_course(axes: Axes, evidence: Evidence) -> None:
    """Mean cosines of each list of tokens against training step, with the stage ``early`` of every seed."""
    gamma = claims_gamma(evidence, SMALL)
    steps = np.array([])
    for group, colour in CORPUS_COLOURS.items():
        try:
            table = course_table(evidence, f"cos_{group}", gamma)
        except MissingEvidenceError:
            if group == "control":  # fewer typical tokens in the stories than in PrOntoQA
                continue
            raise
        steps = table.index.to_numpy(dtype=float)
        mean_band(axes, table, colour)
        axes.plot(table.index, table.mean(axis=1), CORPUS_MARKERS[group], ms=4, mfc="white", mec=colour, zorder=4)
    zero_line(axes)
    axes.set_ylabel("mean cos of two tokens")
    _step_axis(axes, steps)
    _mark_early(axes, list(early_steps(evidence, gamma).values()), "early (G3)" if gamma == SMALL else "early")


def _step_axis(axes: Axes, steps: np.ndarray) -> None:
    """Logarithmic from the first kept step on, linear before it, with a tick at every kept step."""
    first = float(steps[steps > 0].min()) if (steps > 0).any() else 1.0
    axes.set_xscale("symlog", linthresh=first, linscale=0.5)
    axes.set_xlim(-0.2 * first, max(1.25 * float(steps.max()), first))
    places = axes.get_xaxis_transform().transform([(step, 0) for step in steps])[:, 0]
    places = (places - places.min()) / (np.ptp(places) or 1)
    shown = zip(steps, legible(places), strict=True)
    axes.set_xticks(steps, [f"{int(step):,}" if kept else "" for step, kept in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("training step")


def legible(places: np.ndarray) -> list[bool]:
    """Which of ascending places in [0, 1] get a label: the last, and each that keeps APART from its neighbours.

    >>> legible(np.array([0.0, 0.05, 0.3, 0.97, 1.0]))
    [True, False, True, False, True]
    """
    kept: list[int] = []
    for at, place in enumerate(places):
        if not kept or (place - places[kept[-1]] >= APART and (places[-1] - place >= APART or at == len(places) - 1)):
            kept.append(at)
    return [at in kept for at in range(len(places))]


def _mark_early(axes: Axes, steps: list[int], text: str) -> None:
    for step in sorted(set(steps)):
        axes.axvline(step, color=INK, lw=0.8, ls=(0, (1, 1.5)), zorder=1)
    if steps:
        axes.annotate(text, (min(steps), 1), xycoords=axes.get_xaxis_transform(), xytext=(3, -1), va="top",
                      textcoords="offset points", fontsize=6.5, zorder=9,
                      path_effects=[withStroke(linewidth=2, foreground="white")])  # fmt: skip


def course_text(evidence: Evidence, gamma: float = SMALL) -> str:
    """G3's difference at every kept step: ``at step 0: 0.000, 2 of 5 below 0; ...``; empty where it was not read.

    With frequency-matched tokens of the stories in place of all of them behind it, where there is such a control.
    """
    try:
        table = course_table(evidence, "difference", gamma)
    except MissingEvidenceError:
        return ""
    matched = _matched(evidence, gamma)
    found = []
    for step, values in table.iterrows():
        values = values.dropna()
        below = f"{int((values < 0).sum())} of {len(values)} below 0"
        beside = f" (matched: {three(matched[step])})" if step in matched else ""
        found.append(f"at step {int(str(step)):,}: {three(float(values.mean()))}, {below}{beside}")
    return "; ".join(found)


def _matched(evidence: Evidence, gamma: float) -> dict[object, float]:
    try:
        return dict(course_table(evidence, "difference_control", gamma).mean(axis=1).items())
    except MissingEvidenceError:
        return {}


def changes_sign(evidence: Evidence, gamma: float = SMALL) -> bool:
    """Whether the 95 % interval of G3's difference lies below 0 at one kept step and above 0 at another."""
    try:
        table = course_table(evidence, "difference", gamma)
    except MissingEvidenceError:
        return False
    found = [seed_interval(values.dropna()) for _, values in table.iterrows()]
    return any(high < 0 for _, _, high in found) and any(low > 0 for _, low, _ in found)


def three(value: float) -> str:
    """A difference of cosines with three decimals and a true minus sign.

    >>> three(-0.0712), three(-0.0001)
    ('−0.071', '0.000')
    """
    return f"{value:.3f}".replace("-0.000", "0.000").replace("-", "−")


def first_evaluation(evidence: Evidence) -> str:
    """A sentence where ``early`` is the first evaluation after step 0 in most members, else nothing."""
    evaluated = evidence.curves["step"].to_numpy(dtype=np.int64)
    if not (evaluated > 0).any():
        return ""
    first = int(evaluated[evaluated > 0].min())
    steps = [step for gamma in evidence.gammas for step in early_steps(evidence, gamma).values()]
    early = sum(step == first for step in steps)
    if 2 * early <= len(steps):
        return ""
    return (
        f"“early” is the first evaluation (step {first:,}) in {early} of {len(steps)} members; evaluations are too far "
        "apart to see it better."
    )
