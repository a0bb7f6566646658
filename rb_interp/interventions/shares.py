"""Shares of the way from one run to another, mean(part) / mean(whole) over paired inputs, and their intervals."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import special
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.tasks.inputs import Inputs

Direction = Literal["denoise", "noise"]
SHARES = {"denoise": "recovered", "noise": "lost"}
"""Direction -> what its share is called: clean cells recover in corrupted rows, corrupted ones lose in clean rows."""


def check_distinct(
    first: Float[np.ndarray, " row"], second: Float[np.ndarray, " row"], metric: str, names: str = "clean corrupted"
) -> None:
    """Raise ModelError where the mean metric of two runs is the same, so that there is nothing to recover."""
    gap, scale = first.mean() - second.mean(), np.abs(first).mean() + np.abs(second).mean()
    if not np.isfinite(scale):
        raise ModelError(f"the mean {metric} is not finite, so the model has diverged; use one that has not.")
    if not abs(gap) > 1e-6 * scale:
        one, other = names.split()
        raise ModelError(
            f"the mean {metric} is {first.mean():.3g} on the {one} rows and {second.mean():.3g} on the {other} ones, "
            f"so there is nothing to recover; let them differ in what the answer depends on, with another right answer."
        )


def check_control(control: Inputs | None, source: Inputs, base: Inputs, asker: str) -> None:
    """Raise ModelError where a control was made of the source's rows, and so carries what the source carries."""
    if control is None or control.labels is None or source.labels is None or base.labels is None:
        return
    shapes = {rows.labels.shape for rows in (control, source, base) if rows.labels is not None}
    if len(shapes) == 1 and (control.labels == source.labels).all() and (source.labels != base.labels).any():
        raise ModelError(
            f"{asker} got a control with the right answers of the rows that activations are taken from, so it is like "
            f"the effect and no control; make it of the rows that run: with_tokens_of(other, 'noise') of these."
        )


def ratio_interval(
    part: Float[np.ndarray, "*cell row"], whole: Float[np.ndarray, " row"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*cell"], Float[np.ndarray, "*cell"]]:
    """Ends of the interval of mean(part) / mean(whole) over paired inputs (Fieller, 1954).

    It holds every ratio r for which the mean of ``part - r whole`` is within t standard errors of 0, and so covers as
    promised however small the mean of ``whole``. Where that itself is within t standard errors of 0, any ratio may be
    true: the interval is the whole line.

    >>> low, high = ratio_interval(np.array([[0.0, 1.0, 2.0, 1.0]]), np.array([2.0, 2.0, 2.0, 2.0]))
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([-0.15], [1.15])
    """
    n, a, b = len(whole), np.asarray(part.mean(-1)), whole.mean()
    line = np.full(a.shape, -np.inf), np.full(a.shape, np.inf)
    if n < 2:
        return line
    scale = special.stdtrit(n - 1, (1 + confidence) / 2) ** 2 / (n * (n - 1))
    part, whole = part - a[..., None], whole - b
    square = b * b - scale * (whole * whole).sum()
    if square <= 0:
        return line
    middle = a * b - scale * (part * whole).sum(-1)
    half = np.sqrt(np.maximum(middle**2 - square * (a * a - scale * (part * part).sum(-1)), 0))
    ratio = a / b  # lies between the two, save for rounding
    ends = np.minimum(ratio, (middle - half) / square), np.maximum(ratio, (middle + half) / square)
    return np.asarray(ends[0]), np.asarray(ends[1])


def check_pairs(first: str, tokens: Tensor, second: str, others: Tensor) -> None:
    """Raise ModelError where two sets of tokens differ in number of rows or in length."""
    if tokens.shape != others.shape:
        raise ModelError(
            f"{first} has tokens of shape {list(tokens.shape)} and {second} of {list(others.shape)}; patching needs "
            f"pairs: one row for each row, of the same length."
        )
