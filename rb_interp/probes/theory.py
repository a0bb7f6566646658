"""Theorem 1 of paper 1: what small initialisation makes of the token embeddings, in closed form.

Eq. (14), without its noise, for token s and coordinates i = 0 .. d_m - 1:

    reasoning anchor   w_i = exp(-(i - s)^2 / 12) - 1 / d_m
    key                w_i = exp(-(i - s)^2 / 12)

The paper validates it at d_m = d_vocab = 200. A coordinate stands for a label, so use d_vocab of them.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import ConfigError, nearest

WIDTH = 12.0
"""Denominator of the exponent in Eq. (14)."""
KINDS = ("reasoning", "key")


def theorem_1_embeddings(
    values: Int[np.ndarray, " token"], n_coordinates: int, kind: str
) -> Float[np.ndarray, "token coordinate"]:
    """Embeddings that Eq. (14) gives tokens of these values; ``kind`` is ``reasoning`` or ``key``.

    Entries lie in [-1/n_coordinates, 1]. Raises ConfigError where the kind has no formula (memory anchors).

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
