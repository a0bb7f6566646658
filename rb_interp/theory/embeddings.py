"""Theorem 1 of paper 1: what small initialisation makes of the token embeddings, in closed form.

Eq. (14), without its noise, for token s and coordinates i = 0 .. d_m - 1:

    reasoning anchor   w_i = exp(-(i - s)^2 / 12) - 1 / d_m
    key                w_i = exp(-(i - s)^2 / 12)

Eq. (12), the general form for a reasoning anchor, noise of the size of the initial embedding:

    w_i = C_1 (C_2 exp(-(i - s)^2 / (2 sigma_P)) - 1 / d_m) + eps,        eps ~ N(0, d_m^{-2 gamma})

A coordinate stands for a label, so use d_vocab of them; the paper validates Eq. (14) at d_m = d_vocab = 200. The paper
says of the constants only that they depend on r_s, eta, L and q. Here C_1 is given, and the rest matches the moments of
P^s (Eq. 8): sigma_P its variance, C_2 = (2 pi sigma_P)^{-1/2} its mass of 1.

How it can mislead. Eq. (12) is centred at s, while P^s is centred at s + E Z + (q - 1) E A. Inner products between
anchors do not see this common shift, but for the edge: a profile with a standard deviation of 11 that is centred at 11
loses a sixth of its mass below 0, which P^s does not. ``centre="label"`` puts it where P^s is. At q = 2 P^s is a
trapezoid, whose flat top a normal curve does not have. The width of Eq. (14), variance 6, is that of no key set: the
paper chose it for drawing, and it describes trained embeddings, not the first steps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import ConfigError, nearest
from rb_interp.theory.label_distributions import reasoning_moments
from rb_interp.typed import typed

if TYPE_CHECKING:
    from rb_interp.tasks import AnchorTask

WIDTH = 12.0
"""Denominator of the exponent in Eq. (14)."""
KINDS = ("reasoning", "key")
CENTRES = ("token", "label")
"""Where a profile peaks: at its token, as Eq. (12) is printed, or at its mean label."""


@typed
def theorem_1_embeddings(
    values: Int[np.ndarray, " token"], n_coordinates: int, kind: str
) -> Float[np.ndarray, "token coordinate"]:
    """Embeddings that Eq. (14) gives tokens of these values, in [-1/n_coordinates, 1].

    ``kind`` is ``reasoning`` or ``key``; ConfigError for others, which have no formula (memory anchors).

    >>> from rb_interp.probes.vectors import cosines
    >>> w = theorem_1_embeddings(np.arange(15, 21), 200, "reasoning")
    >>> cosines(w)[0, 1:].round(3).tolist()
    [0.959, 0.844, 0.683, 0.507, 0.344]
    """
    if kind not in KINDS:
        raise ConfigError(f"Eq. (14) has no formula for kind='{kind}'; {nearest(kind, KINDS)}")
    distance = np.arange(n_coordinates)[None, :] - np.asarray(values)[:, None]
    bump = np.exp(-(distance**2) / WIDTH)
    return bump - 1 / n_coordinates if kind == "reasoning" else bump


@typed
def gaussian_profile(
    task: AnchorTask,
    values: Int[np.ndarray, " token"],
    d_model: int,
    C_1: float = 1.0,
    *,
    centre: str = "token",
    gamma: float | None = None,
    rng: np.random.Generator | None = None,
) -> Float[np.ndarray, "token d_model"]:
    """Eq. (12) for reasoning anchors of these values; without ``rng`` there is no noise.

    In the units of an embedding; without noise each row sums to 0 but for what falls beyond the edges. Raises
    ConfigError for an unknown ``centre``, and for noise without its ``gamma``.

    >>> from rb_interp.tasks import AnchorTask
    >>> w = gaussian_profile(AnchorTask.preset("paper"), np.array([15]), 200, centre="label")[0]
    >>> int(w.argmax()), round(float(w.max()) + 1 / 200, 5)                # 86 + 15, (2 pi 841.5)^-1/2
    (101, 0.01375)
    """
    if centre not in CENTRES:
        raise ConfigError(f"a profile cannot be centred at '{centre}'; {nearest(centre, CENTRES)}")
    if rng is not None and gamma is None:
        raise ConfigError("rng was given without gamma, which sets the size of the noise; give both or neither.")
    shift, variance = reasoning_moments(task)
    peak = np.asarray(values)[:, None] + (shift if centre == "label" else 0.0)
    bump = np.exp(-((np.arange(d_model) - peak) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    profile = C_1 * (bump - 1 / d_model)
    if rng is None or gamma is None:
        return profile
    return profile + rng.standard_normal(profile.shape) * d_model**-gamma
