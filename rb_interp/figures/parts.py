"""What the figures of a study of several parts share: a part, its rates, its stages, and rows of its tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import NullFormatter

from rb_interp.figures.evidence import TABLES, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import near_text, number, seeds_text
from rb_interp.figures.panels import seed_interval
from rb_interp.figures.style import GREY, INK, KEY, MEMORY, REASONING

PARTS = {
    "descent": "Emb-MLP, plain gradient descent",
    "sweep": "Emb-MLP, AdamW",
    "one_layer": "one-layer model, plain gradient descent",
}
ADAPTIVE = "sweep"
"""The part whose optimiser rescales gradients: only its cosines mean something, R² ignores the scaling."""

GROUPS = {
    "anchor": ("all anchors", INK),
    "memory_anchor": ("memory anchors", MEMORY),
    "reasoning_anchor": ("reasoning anchors", REASONING),
    "key": ("keys", KEY),
}
LEVEL = 0.9
"""Agreement of theory and measurement that counts as such, in T1, T4 and the table ``agreement``."""

FLOOR = -1.0
"""R² below this is drawn at it: a prediction that is off by a factor of a hundred has an R² near −10,000."""


def part_of(evidence: Evidence, name: str) -> Evidence:
    """A part of the study, with the study's readings of it. Raises MissingEvidenceError where it has no such part."""
    if name not in evidence.parts:
        raise MissingEvidenceError(f"This study has no part “{name}”.")
    part, readings = evidence.parts[name], evidence.readings
    of_part = readings.loc[readings["part"] == name] if "part" in readings else readings.iloc[:0]
    return part if of_part.empty else replace(part, readings=of_part)


def rates(evidence: Evidence) -> list[float]:
    """Initialisation rates of all parts, ascending, so that a rate has one colour in the whole study."""
    return sorted({gamma for part in evidence.parts.values() for gamma in part.gammas}) or evidence.gammas


def rows_of(evidence: Evidence, table: str, **where: Any) -> pd.DataFrame:
    """Rows of a table in which every named column has the given value (rates to rounding).

    Raises MissingEvidenceError where there is none.
    """
    found = evidence.table(table)
    for column, value in where.items():
        same = np.isclose(found[column].astype(float), value) if column == "gamma" else found[column] == value
        found = found.loc[same]
    if found.empty:
        told = ", ".join(f"γ = {value:g}" if name == "gamma" else str(value) for name, value in where.items())
        raise MissingEvidenceError(f"The table of {TABLES[table]} has no row of {told}.")
    return found


def gammas_of(evidence: Evidence, table: str, **where: Any) -> list[float]:
    """Rates that a table has rows of, ascending."""
    return sorted(rows_of(evidence, table, **where)["gamma"].astype(float).unique().tolist())


def leaving_steps(evidence: Evidence, part: str, gamma: float) -> dict[int, int]:
    """Step of the stage ``leaving`` by seed, for the seeds whose readings tell it."""
    try:
        found = part_of(evidence, part)
    except MissingEvidenceError:
        return {}
    steps = {seed: found.step(gamma, seed, "leaving") for seed in found.seeds}
    return {seed: step for seed, step in steps.items() if step is not None}


def at_leaving(evidence: Evidence, column: str, **where: Any) -> pd.Series:
    """``r2`` or ``cos`` of a prediction at the stage ``leaving``, by seed (index, ascending), without NaN.

    Readings tell it; where there is none, the rows of the table ``drift`` at each member's step. ``where`` names part,
    gamma, group and prediction. Raises MissingEvidenceError where no seed has it.
    """
    name = column if where["prediction"] == "each_step" else f"{column}_{where['prediction']}"
    try:
        found = part_of(evidence, where["part"])
        return found.values("drift", name, where["gamma"], stage="leaving", rows=where["group"])
    except MissingEvidenceError:
        pass
    rows = rows_of(evidence, "drift", **where)
    steps = leaving_steps(evidence, where["part"], where["gamma"])
    here = rows.loc[[steps.get(seed) == step for seed, step in zip(rows["seed"], rows["step"], strict=True)]]
    found = here.drop_duplicates("seed").set_index("seed")[column].astype(float).dropna().sort_index()
    if found.empty:
        raise MissingEvidenceError(f"The table of drifts has no {column} at the stage “leaving” of {where['part']}.")
    return found


def told_at_leaving(evidence: Evidence, column: str, **where: Any) -> str:
    """``mean [low, high]`` over seeds of ``at_leaving``, with their number where some are missing, or ``n/a``."""
    try:
        values = at_leaving(evidence, column, **where)
    except MissingEvidenceError:
        return number(None)
    return near_text(*seed_interval(values), LEVEL) + of_seeds(evidence, where["part"], len(values))


def of_seeds(evidence: Evidence, part: str, n: int) -> str:
    """`` (n of N seeds)`` where a number rests on fewer seeds than the part has, else nothing."""
    total = len(evidence.parts[part].seeds) if part in evidence.parts else n
    return f" ({n} of {seeds_text(total)})" if n < total else ""


def floor_band(axes: Axes, top: float = 1.06) -> None:
    """Scale of a panel of R²: 0 and 1 within, and below FLOOR a hatched band that says what is drawn there."""
    low = FLOOR - 0.22
    axes.set_ylim(low, top)
    axes.set_yticks([-1, -0.5, 0, 0.5, 1], ["−1", "−.5", "0", ".5", "1"])
    axes.add_patch(
        Rectangle(
            (0, low), 1, FLOOR - low, transform=axes.get_yaxis_transform(), fc="#f4f4f4", ec="#d5d5d5",
            hatch="////", lw=0, zorder=0,
        )
    )  # fmt: skip
    axes.text(
        0.99, low + 0.03, "below −1", transform=axes.get_yaxis_transform(), ha="right", va="bottom", fontsize=6.5,
        color="#555555", zorder=9, bbox={"fc": "white", "ec": "none", "pad": 0.6, "alpha": 0.9},
    )  # fmt: skip


def never_band(axes: Axes, low: float, word: str = "never", high: float = 1.0) -> None:
    """A hatched band with a word at its top, between two heights of the panel: for seeds that a scale cannot show."""
    axes.add_patch(
        Rectangle((0, low), 1, high - low, transform=axes.transAxes, fc="#f4f4f4", ec="#d5d5d5", hatch="////", lw=0,
                  zorder=0)
    )  # fmt: skip
    axes.text(
        0.01, high - 0.015, word, transform=axes.transAxes, ha="left", va="top", fontsize=6.5, color="#555555",
        zorder=9, bbox={"fc": "white", "ec": "none", "pad": 0.6, "alpha": 0.9},
    )  # fmt: skip


def log_steps(axes: Axes) -> None:
    """Logarithmic axis of training steps with whole numbers on it."""
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    axes.set_xlabel("training step (log scale)")


def level_line(axes: Axes, y: float, text: str, x: float = 0.99) -> None:
    """A level as a dashed grey line with its value on it, at a share of the width; beside the panel for x > 1."""
    axes.axhline(y, color=GREY, lw=0.8, ls=(0, (3, 1.5)), zorder=1)
    if x > 1:
        axes.annotate(text, (x, y), xycoords=axes.get_yaxis_transform(), fontsize=6.5, ha="left", va="center",
                      color="#555555", annotation_clip=False)  # fmt: skip
        return
    axes.annotate(text, (x, y), xycoords=axes.get_yaxis_transform(), xytext=(0, 1.5), textcoords="offset points",
                  fontsize=6.5, ha="right" if x > 0.5 else "left", va="bottom", color="#555555", zorder=8,
                  path_effects=[withStroke(linewidth=2, foreground="white")])  # fmt: skip
