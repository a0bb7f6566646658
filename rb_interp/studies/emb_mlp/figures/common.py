"""What the figures and the report of the Emb-MLP study share: names, numbers in words, scales with hatched ends."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from rb_interp.claims.learning_order import SMALL
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import near_text, number, seeds_text, two_digits
from rb_interp.figures.panels import note
from rb_interp.figures.style import DASHED, GREY, INK, KEY, MEMORY, REASONING
from rb_interp.studies.emb_mlp.drift import AGREES, FLOOR

SWEEPS = {
    "descent": "Emb-MLP, plain gradient descent",
    "adamw": "Emb-MLP, AdamW",
    "one_layer": "one-layer model, plain gradient descent",
}
ADAPTIVE = "adamw"
"""The sweep whose optimiser rescales gradients: only its cosines mean something, R² ignores the scaling."""
GROUPS = {
    "anchor": ("all anchors", INK),
    "memory_anchor": ("memory anchors", MEMORY),
    "reasoning_anchor": ("reasoning anchors", REASONING),
    "key": ("keys", KEY),
}
LEAVING: dict[str, Any] = {"stage": "leaving", "set": "anchor"}
"""Where agreement of all anchors is read as learning begins."""


def at_leaving(evidence: Evidence, sweep: str, quantity: str, gamma: float = SMALL) -> str:
    """``mean [low, high]`` over seeds of a reading of all anchors' drift at ``leaving``, or ``n/a``."""
    own = evidence.sweep(sweep)
    n = sum(math.isfinite(own.value("drift", quantity, gamma, seed, **LEAVING)) for seed in own.seeds)
    threshold = None if quantity == "r2_permuted" else AGREES
    text = near_text(*own.interval("drift", quantity, gamma, **LEAVING), threshold)
    return text + of_seeds(own, n) if n else number(None)


def of_seeds(own: Evidence, n: int) -> str:
    """`` (n of N seeds)`` where a number rests on fewer seeds than the sweep has, else nothing."""
    return f" ({n} of {seeds_text(len(own.seeds))})" if n < len(own.seeds) else ""


def first_fall(evidence: Evidence, sweep: str, gamma: float, prediction: str = "each_step", metric: str = "r2") -> str:
    """Median step and f at which agreement of all anchors falls below AGREES, with the seeds that differ, in words."""
    where = {"gamma": gamma, "group": "anchor", "prediction": prediction, "metric": metric}
    rows = evidence.sweep(sweep).records("agreement_summary", **where)
    return fall_text(rows[0]) if rows else number(None)


def fall_text(row: dict[str, Any]) -> str:
    """A row of the table ``agreement_summary`` in words.

    >>> row = {"n": 3, "never": 1, "at_first": 0, "step": 50.0, "fraction": 0.8, "n_back": 0}
    >>> fall_text(row)
    'step 50 (f = 0.800), never in 1 of 3 seeds'
    >>> fall_text({**row, "never": 0, "at_first": 3, "n_back": 3, "back": 130.0, "n_again": 1, "again": 250.0})
    'first kept step, 50 (f = 0.800), .90 or more from step 130, below again from step 250'
    """
    seeds, fell = seeds_text(row["n"]), row["n"] - row["never"]
    if not fell:
        return f"never ({seeds})"
    at = f"{number(round(row['step']))} (f = {number(row['fraction'])})"
    text = f"first kept step, {at}" if row["at_first"] == fell else f"step {at}"
    if 0 < row["at_first"] < fell:
        text += f", at the first kept step in {row['at_first']} of {seeds}"
    if row["n_back"]:
        text += f", {two_digits(AGREES)} or more from step {number(round(row['back']))}"
        text += f" in {row['n_back']} of {seeds}" if row["n_back"] < row["n"] else ""
        text += f", below again from step {number(round(row['again']))}" if row["n_again"] else ""
    return text + (f", never in {row['never']} of {seeds}" if row["never"] else "")


def floor_band(axes: Axes, top: float = 1.06) -> None:
    """Scale of a panel of R², with a hatched band below FLOOR for the values that are cut."""
    low = FLOOR - 0.22
    axes.set_ylim(low, top)
    axes.set_yticks([-1, -0.5, 0, 0.5, 1], ["−1", "−.5", "0", ".5", "1"])
    hatched(axes, low, FLOOR, axes.get_yaxis_transform(), "below −1", (0.99, low + 0.03), ha="right", va="bottom")


def hatched(
    axes: Axes, low: float, high: float, transform: Any, text: str, at: tuple[float, float], **look: Any
) -> None:
    """A hatched band between two heights, with a text in it: values that the scale does not show."""
    band = {"fc": "#f4f4f4", "ec": "#d5d5d5", "hatch": "////", "lw": 0, "zorder": 0}
    axes.add_patch(Rectangle((0, low), 1, high - low, transform=transform, **band))
    box = {"fc": "white", "ec": "none", "pad": 0.6, "alpha": 0.9}
    axes.text(*at, text, transform=transform, fontsize=6.5, color="#555555", zorder=9, bbox=box, **look)


def level_line(axes: Axes, y: float, text: str, x: float = 1.015) -> None:
    """A level as a dashed grey line with its value on it, at a share of the width; beside the panel for x > 1."""
    axes.axhline(y, color=GREY, lw=0.8, ls=DASHED, zorder=1)
    right_of_panel = {"va": "center", "annotation_clip": False, "xytext": (0, 0)}
    look = right_of_panel if x > 1 else {"va": "bottom", "zorder": 8, "xytext": (0, 1.5)}
    note(axes, text, (x, y), axes.get_yaxis_transform(), color="#555555", ha="left", **look)
