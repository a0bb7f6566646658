"""What each intervention costs or moves, beside its placebo, against the initialisation rate, with each criterion."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from rb_interp.claims.causes import CAUSES
from rb_interp.figures.cause_criteria import (
    NATS,
    PANELS,
    UNITS,
    Panel,
    by_seed,
    criteria,
    level,
    quantity_of,
    slot,
    told,
)
from rb_interp.figures.evidence import SMALL, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import interval_text, share_text
from rb_interp.figures.panels import Caption, gamma_axis, offsets, seed_interval, sentence_figure, try_panel
from rb_interp.figures.style import GREY, INK, WIDTH, gamma_colour, gamma_marker, new_figure, styled

COLUMNS = 4
LINEAR = 0.1
"""Nats within which the scale is linear; it is logarithmic beyond."""
SLOTS = {"effect": -0.23, "placebo": 0.19}


@styled
def draw_causes(evidence: Evidence) -> Figure:
    """Effect and placebo of every intervention by rate: each seed, their mean and its 95 % interval."""
    try:
        evidence.table("effects")
    except MissingEvidenceError as missing:
        return sentence_figure(str(missing))
    rows = [PANELS[start : start + COLUMNS] for start in range(0, len(PANELS), COLUMNS)]
    figure = new_figure(0.4 + 2.2 * len(rows), max(WIDTH, COLUMNS * (0.55 + 0.42 * len(evidence.gammas))))
    grid, drawn = figure.subplots(len(rows), COLUMNS, squeeze=False), {}
    for line, panels in zip(grid, rows, strict=True):
        for axes in line[len(panels) :]:
            axes.set_axis_off()
        lines = max(len(criteria(panel)) for panel in panels)
        for axes, panel in zip(line, panels, strict=False):
            try_panel(axes, _panel, evidence, panel)
            _heading(axes, panel, lines)
            if axes.lines:
                drawn[axes] = quantity_of(evidence, panel)
        _nats_scale([axes for axes in line if drawn.get(axes) == NATS])
        _units(line, drawn)
    _share_scale([axes for axes, quantity in drawn.items() if quantity != NATS])
    figure.legend(handles=_legend(evidence), loc="outside upper center", ncols=5, columnspacing=1.2)
    return figure


def _units(row: np.ndarray, drawn: dict[Axes, str]) -> None:
    """The unit beside the first panel of each unit in a row, without numbers at the panels that share it."""
    before = ""
    for axes in row:
        unit = drawn.get(axes, "")
        if unit and unit == before:
            axes.tick_params(labelleft=False)
        elif unit:
            axes.set_ylabel(UNITS[unit])
        before = unit


def _panel(axes: Axes, evidence: Evidence, panel: Panel) -> None:
    found = 0
    for place, gamma in enumerate(evidence.gammas):
        try:
            table = by_seed(evidence, panel, gamma)
        except MissingEvidenceError:
            axes.text(place, 0.5, "no reading", rotation=90, ha="center", va="center", color=GREY, fontsize=6.5,
                      transform=axes.get_xaxis_transform())  # fmt: skip
            continue
        found += 1
        look = gamma_colour(gamma, evidence.gammas), gamma_marker(gamma, evidence.gammas)
        _seeds(axes, place + SLOTS["effect"], table["effect"].to_numpy(), *look, filled=True)
        _seeds(axes, place + SLOTS["placebo"], table["placebo"].to_numpy(), GREY, look[1], filled=False)
    if not found:
        raise MissingEvidenceError(f"This run has no effect of {panel.intervention}.")
    axes.axhline(0, color="#bdbdbd", lw=0.6, zorder=0)
    _criteria(axes, evidence, panel)
    gamma_axis(axes, evidence)
    axes.set_xlabel("rate γ", labelpad=1)


def _seeds(axes: Axes, x: float, values: np.ndarray, colour: object, marker: str, filled: bool) -> None:
    """Seeds as dots beside each other, filled or hollow; on their right the mean as a bar and its interval."""
    values = values[np.isfinite(values)]
    if not len(values):
        return
    face = {"mfc": colour, "mec": "white", "mew": 0.3} if filled else {"mfc": "white", "mec": colour, "mew": 0.7}
    axes.plot(x + offsets(len(values), 0.08), values, ls="", marker=marker, ms=3.1, zorder=3, **face)
    mean, low, high = seed_interval(values)
    at = x + 0.165
    axes.plot([at - 0.055, at + 0.055], [mean, mean], color=colour, lw=2.2, zorder=4, solid_capstyle="butt")
    if np.isfinite(low):
        axes.plot([at, at], [low, high], color=colour, lw=1.1, zorder=2)


def _criteria(axes: Axes, evidence: Evidence, panel: Panel) -> None:
    """Criteria as dashed lines across the marks that they are about; the lowest of several there is named below."""
    found: dict[tuple[float, str], list[tuple[float, str]]] = {}
    for part, ids in criteria(panel).items():
        with suppress(MissingEvidenceError):
            line = level(evidence, part), ids.split(",")[0]
            found.setdefault(slot(part), []).append(line)
    for (gamma, marks), lines in found.items():
        middle = evidence.gammas.index(gamma) + SLOTS[marks]
        end, side = (middle + 0.25, "right") if marks == "placebo" else (middle - 0.13, "left")
        for number, (y, name) in enumerate(sorted(lines, reverse=True)):
            axes.plot([middle - 0.13, middle + 0.24], [y, y], color=INK, lw=0.9, ls=(0, (2.4, 1.2)), zorder=5)
            axes.annotate(name, (end, y), xytext=(0, -1.2 if number else 1.2), textcoords="offset points", zorder=9,
                          fontsize=5.5, ha=side, va="top" if number else "bottom",
                          path_effects=[withStroke(linewidth=1.6, foreground="white")])  # fmt: skip


def _heading(axes: Axes, panel: Panel, lines: int) -> None:
    """Title, and right below it in small type the criteria; ``lines`` keeps the titles of a row level."""
    texts = [told(part, ids) for part, ids in criteria(panel).items()]
    height = 4 + 8.4 * lines
    axes.annotate("\n".join(texts), (0, 1), xycoords="axes fraction", xytext=(0, height - 1), fontsize=5.8,
                  textcoords="offset points", va="top", color="#444444", annotation_clip=False)  # fmt: skip
    axes.set_title(panel.title, fontsize=7.5, pad=height + 1)


def _nats_scale(panels: list[Axes]) -> None:
    """One scale for the panels of a row, linear within LINEAR and logarithmic beyond, with room for every seed.

    The mean of seeds that differ by orders of magnitude has an interval that reaches far below 0, where nothing is.
    """
    if not panels:
        return
    values = [2 * LINEAR, *_drawn_seeds(panels)]
    low, high = min(0.0, *values), max(values)
    powers = [10.0**power for power in range(-1, 1 + int(np.floor(np.log10(max(high, 1)))))]
    ticks = [0, *powers, *(-power for power in powers if power <= -low)]
    for axes in panels:
        axes.set_yscale("symlog", linthresh=LINEAR, linscale=0.7)
        axes.set_ylim(min(2 * low, -0.4 * LINEAR), 3 * high)
        axes.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
        axes.minorticks_off()


def _share_scale(panels: list[Axes]) -> None:
    """One scale for all shares, with room for every seed: a lost accuracy may be negative."""
    for axes in panels:
        axes.set_ylim(min(-0.06, *(value - 0.06 for value in [0.0, *_drawn_seeds(panels)])), 1.12)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])


def _drawn_seeds(panels: list[Axes]) -> list[float]:
    lines = [line for axes in panels for line in axes.lines if line.get_marker() != "None"]
    return [float(y) for line in lines for y in np.ravel(line.get_ydata()) if np.isfinite(y)]


def _legend(evidence: Evidence) -> list[Line2D]:
    last = evidence.gammas[-1]
    colour, marker = gamma_colour(last, evidence.gammas), gamma_marker(last, evidence.gammas)
    return [
        Line2D([], [], ls="", marker=marker, ms=4, mfc=colour, mec="white", mew=0.3, label="effect, one seed"),
        Line2D([], [], color=colour, lw=1.1, marker="_", ms=6, mew=2.2, label="mean, 95 % interval"),
        Line2D([], [], ls="", marker=marker, ms=4, mfc="white", mec=GREY, mew=0.7, label="placebo, one seed"),
        Line2D([], [], color=GREY, lw=1.1, marker="_", ms=6, mew=2.2, label="mean, 95 % interval"),
        Line2D([], [], color=INK, lw=0.9, ls=(0, (2.4, 1.2)), label="criterion"),
    ]


def caption_causes(evidence: Evidence) -> Caption:
    """Caption of the causes, with the numbers of M9 and M10 at the small initialisation."""
    refuted = "; ".join(f"{cause.refuted_if} ({_claims(cause.of)})" for cause in CAUSES)
    try:
        evidence.table("effects")
        shown = _shown(evidence)
    except MissingEvidenceError as missing:
        shown = str(missing)
    return Caption(shown, f"marks on the wrong side of a dashed line: {refuted}.")


def _claims(of: str) -> str:
    return {"M1": "M1, M10", "M8": "M8, M9"}.get(of, of)


def _shown(evidence: Evidence) -> str:
    texts = []
    for name, panel, unit, write in (
        ("an attention of exactly 1/i costs", PANELS[0], "nats", interval_text),
        ("swapping layer 2's output moves the answer by the key in", PANELS[8], "of pairs", share_text),
        ("swapping layer 1's by the sum in", PANELS[9], "of pairs", share_text),
    ):
        try:
            table = by_seed(evidence, panel, SMALL)
        except MissingEvidenceError:
            continue
        effect, placebo = (write(*seed_interval(table[column].dropna())) for column in ("effect", "placebo"))
        texts.append(f"{name} {effect} {unit} (placebo {placebo})")
    numbers = f" At γ = {SMALL:g}, {'; '.join(texts)}." if texts else ""
    return (
        "What happens when a mechanism is taken away or exchanged (filled), beside a placebo of the same form and "
        "size that leaves alone what the mechanism is said to need (hollow, grey): an effect no larger than its "
        f"placebo shows nothing. Nats lost are on a scale that is linear within {LINEAR:g} and logarithmic beyond, "
        "shared by the panels of a row; the interval of seeds that differ by orders of magnitude runs out of it. A "
        "share of answers moved is that of inputs, answered rightly before, whose answer becomes the predicted one, "
        "for the placebo of a swap that of inputs whose answer changes at all; swapped by key (by sum): predicted is "
        "the answer with the other input's key (sum), taken where either circuit carries it (same position: from an "
        "input whose key stands at the same one). Layer 1's attention and W_V are intervened on at half "
        f"(γ = {SMALL:g}) or at the same step (other rates), the rest at the end of training. A dashed line is a "
        "criterion, at the rate that it is about, for the mean over seeds (“.20 + placebo”: that far above the "
        "placebo's mean). M7b is judged on seeds with an accuracy of at least .50 on memory; all are shown."
        f"{numbers}"
    )
