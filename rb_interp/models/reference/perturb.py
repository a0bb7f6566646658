"""Perturbed copies of a reference: weights that look trained, with a circuit that is still known.

A copy has noise in every matrix, a random rotation of the residual stream, and its units in random order, sign and
scale. The last three change nothing that it computes; the noise is small enough for it to behave as before.
"""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from rb_interp.checks import checked
from rb_interp.errors import ModelError
from rb_interp.models.reference.record import Reference
from rb_interp.models.reference.symmetry import (
    Weights,
    kind,
    permute_heads_and_units,
    random_rotation,
    rescale_units,
    rotate_residual,
)

NOISE = 0.01
"""Default noise, as a share of each matrix's root mean square: see docs/reference_models.md for where each breaks."""


@checked
def perturbed(reference: Reference, seed: int, noise: float = NOISE) -> Reference:
    """A copy of a reference with noise, and in other coordinates: the same circuit in weights that hide it.

    The same seed gives the same copy. Raises ModelError for a noise level that is negative or not finite.
    """
    rng = np.random.default_rng([seed, 66, crc32(reference.name.encode())])
    weights = add_noise(reference.weights, noise, rng)
    weights = rotate_residual(weights, random_rotation(reference.config.d_model, rng))
    weights = rescale_units(permute_heads_and_units(weights, rng), rng)
    return replace(reference, weights=weights)


@checked
def add_noise(weights: Weights, level: float, rng: np.random.Generator) -> dict[str, Tensor]:
    """Add to every entry of every matrix W an independent N(0, (level RMS(W))^2), RMS over all entries, zeros included.

    So the noise's Frobenius norm is about ``level`` times the matrix's own, and a matrix of zeros stays one. Biases and
    LayerNorm's parameters are left alone. Raises ModelError for a level that is negative or not finite.
    """
    if not 0 <= level < np.inf:
        raise ModelError(f"noise level {level}; expected a share of 0 or more, such as 0.01.")
    changed = dict(weights)
    for name, weight in weights.items():
        if kind(name).startswith("W_"):
            noise = torch.from_numpy(rng.standard_normal(tuple(weight.shape))).to(weight.dtype)
            changed[name] = weight + level * weight.square().mean().sqrt() * noise
    return changed
