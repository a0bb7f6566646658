"""The four cells of gamma and weight decay, as every figure of this study shows them."""

from __future__ import annotations

from rb_interp.figures.style import GAMMA_RAMP
from rb_interp.studies.addition_and_scan.config import DECAYS, LARGE, SMALL

GAMMAS = (LARGE, SMALL)
COLOURS = {LARGE: GAMMA_RAMP(0.0), SMALL: GAMMA_RAMP(1.0)}
MARKERS = {"low": "o", "high": "s"}
CELLS = tuple((decay, gamma) for gamma in GAMMAS for decay in DECAYS)
"""Weight decay and gamma."""


def cell_text(decay: str, gamma: float) -> str:
    """What a cell is called.

    >>> cell_text("high", 0.8)
    'γ = 0.8, weight decay 0.1'
    """
    return f"γ = {gamma:g}, weight decay {DECAYS[decay]:g}"
