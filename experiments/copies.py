r"""Exact copies: other weights with the same logits; and perturbed copies of hand-written models.

With x the residual stream, A a pattern, R invertible, Q orthogonal, C a constant and w any vector,
the gauges are:

    value_basis       W_V R, b_V R, R^-1 W_O of each head       value_rotation   the same with R orthogonal
    query_key_basis   W_Q R, b_Q R, W_K R^-T, b_K R^-T          key_bias         b_K + w: adds q . w to a row of scores
    value_bias        b_V + w, b_O - w W_O: rows of A sum to 1  mlp_order        units of the MLP in another order
    mlp_scale         c W_in, c b_in, W_out / c for c > 0       embedding_shift  W_E + w, W_pos - w
    coordinates       coordinates of x in another order         rotation         x Q
    residual_scale    C x
    mean_shift        to what MLPs and heads write, multiples of (1, ..., 1) are added
    norm_gain         LayerNorm's w and b go into what reads its output: w W and b W, with weight 1 and bias 0

Most hold for every transformer. mlp_scale needs ReLU. rotation and residual_scale need
``norm="none"``: LayerNorm's weights belong to coordinates, and its eps to a length. mean_shift
needs ``pre`` or ``post``: LayerNorm removes the mean. norm_gain needs ``pre``: behind a LayerNorm
of ``post`` stands the residual stream itself. A number added to every logit changes no probability,
but it changes logits, so it is no gauge here.

A perturbed copy has noise in every matrix, a random rotation of the residual stream, and its units
in random order, sign and scale: a circuit that is still known, in weights that look trained. The
noise alone changes what it computes.

Where it misleads. A copy is exact in exact arithmetic: use float64, where logits agree to 1e-10.
Weights that training ties (W_U = W_E^T) are no longer tied in a copy. All functions take weights of
a whole transformer by TransformerLens name and return new ones; what they do not change, they
share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.models.config import NORMS, ModelConfig
from rb_interp.models.reference import Reference

Weights = Mapping[str, Tensor]
READ = ("W_Q", "W_K", "W_V", "W_in", "W_U")
"""Weights that read the residual stream, along their last axis but one."""
WRITE = ("W_E", "W_pos", "W_O", "b_O", "W_out", "b_out")
"""Weights that write it, along their last axis."""
READERS = {"ln1": ("attn.?_Q", "attn.?_K", "attn.?_V"), "ln2": ("mlp.?_in",)}
"""LayerNorm of a block -> what reads it, with W and b in the place of ?."""
NOISE = 0.01
"""Default noise, as a share of each matrix's root mean square."""
LAYER = re.compile(r"blocks\.(\d+)\.")
MOST = 2.0
"""Scales are log-uniform between 1 / MOST and MOST; so are the singular values of R."""


def kind(name: str) -> str:
    """Last part of a weight's name, such as W_Q."""
    return name.rsplit(".", 1)[-1]


def perturbed(reference: Reference, seed: int, noise: float = NOISE) -> Reference:
    """A copy of a reference with noise, and in other coordinates: the same circuit in weights that
    hide it.

    The same seed gives the same copy.
    """
    rng = np.random.default_rng([seed, 66, crc32(reference.name.encode())])
    weights = add_noise(reference.weights, noise, rng)
    weights = rotate_residual(weights, random_rotation(reference.config.d_model, rng))
    weights = rescale_units(permute_heads_and_units(weights, rng), rng)
    return replace(reference, weights=weights)


def add_noise(weights: Weights, level: float, rng: np.random.Generator) -> dict[str, Tensor]:
    """Add to every entry of every matrix W an independent N(0, (level RMS(W))^2), RMS over all
    entries, zeros included.

    So the noise's Frobenius norm is about ``level`` times the matrix's own, and a matrix of zeros
    stays one. Biases and LayerNorm's parameters are left alone.
    """
    changed = dict(weights)
    for name, weight in weights.items():
        if kind(name).startswith("W_"):
            noise = torch.from_numpy(rng.standard_normal(tuple(weight.shape))).to(weight.dtype)
            changed[name] = weight + level * weight.square().mean().sqrt() * noise
    return changed


def rotate_residual(weights: Weights, Q: Tensor) -> dict[str, Tensor]:
    """The same function with residual stream x Q in place of x, Q orthogonal, of a model without
    LayerNorm."""
    changed = {}
    for name, weight in weights.items():
        turn = Q.to(weight.dtype)
        if kind(name) in READ:
            weight = turn.T @ weight
        elif kind(name) in WRITE:
            weight = weight @ turn
        changed[name] = weight
    return changed


def random_rotation(d_model: int, rng: np.random.Generator) -> Tensor:
    """An orthogonal matrix, uniform on all of them (QR of a Gaussian matrix, signs by the diagonal
    of R)."""
    Q, R = np.linalg.qr(rng.standard_normal((d_model, d_model)))
    return torch.from_numpy(Q * np.sign(np.diag(R)))


def permute_heads_and_units(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    """The same function with heads, head units and MLP units in another order, and head units of
    random sign."""
    changed = dict(weights)
    for block in _blocks(weights):
        _permute_heads(changed, block + "attn.", rng)
        _permute_units(changed, block + "mlp.", rng)
    return changed


def _permute_units(weights: dict[str, Tensor], mlp: str, rng: np.random.Generator) -> None:
    order = torch.from_numpy(rng.permutation(weights[mlp + "W_in"].shape[1]))
    weights |= {mlp + name: weights[mlp + name][..., order] for name in ("W_in", "b_in")}
    weights[mlp + "W_out"] = weights[mlp + "W_out"][order]


def _permute_heads(weights: dict[str, Tensor], attn: str, rng: np.random.Generator) -> None:
    n_heads, _, d_head = weights[attn + "W_Q"].shape
    heads, every = torch.from_numpy(rng.permutation(n_heads)), torch.arange(n_heads)[:, None]
    for names in (("W_Q", "b_Q", "W_K", "b_K"), ("W_V", "b_V", "W_O")):
        order = torch.from_numpy(np.stack([rng.permutation(d_head) for _ in range(n_heads)]))
        sign = torch.from_numpy(rng.choice([-1.0, 1.0], (n_heads, d_head)))
        for name in names:
            weight = weights[attn + name][heads]
            reads = (
                name.startswith("W") and name != "W_O"
            )  # [head, d_model, unit]; others have units second
            moved = (weight.mT if reads else weight)[every, order]
            moved = moved * sign.to(weight).reshape(n_heads, d_head, *[1] * (weight.ndim - 2))
            weights[attn + name] = moved.mT if reads else moved


def rescale_units(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    """The same function with W_V and W_O, W_Q and W_K of each head, and both sides of each ReLU
    unit, rescaled.

    A head has one factor for each pair of matrices, so that ratios of singular values stay. For
    ReLU alone: no other activation is homogeneous.
    """
    changed = dict(weights)

    def scale(name: str, by: Tensor) -> None:
        changed[name] = changed[name] * by.to(changed[name].dtype)

    for block in _blocks(weights):
        attn, n_heads = block + "attn.", len(weights[block + "attn.W_Q"])
        for up, bias, down, other in (("W_V", "b_V", "W_O", None), ("W_Q", "b_Q", "W_K", "b_K")):
            c = _scales((n_heads, 1), rng)
            scale(attn + up, c[..., None])
            scale(attn + bias, c)
            scale(attn + down, 1 / c[..., None])
            if other:
                scale(attn + other, 1 / c)
        _rescale_mlp(changed, block + "mlp.", rng)
    return changed


def _rescale_mlp(weights: dict[str, Tensor], mlp: str, rng: np.random.Generator) -> None:
    scale = _scales((weights[mlp + "W_in"].shape[1],), rng).to(weights[mlp + "W_in"])
    weights |= {mlp + name: weights[mlp + name] * scale for name in ("W_in", "b_in")}
    weights[mlp + "W_out"] = weights[mlp + "W_out"] * (1 / scale)[:, None]


def rescale_residual(weights: Weights, factor: float) -> dict[str, Tensor]:
    """The same function with a residual stream ``factor`` times as long, of a model without
    LayerNorm."""
    factors = dict.fromkeys(WRITE, factor) | dict.fromkeys(READ, 1 / factor)
    return {
        name: w * factors[kind(name)] if kind(name) in factors else w for name, w in weights.items()
    }


def _blocks(weights: Weights, part: str = "") -> list[str]:
    """What names of each layer's weights begin with."""
    layers = sorted({int(found[1]) for found in map(LAYER.match, weights) if found})
    return [f"blocks.{layer}.{part}" for layer in layers]


def _scales(shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(np.exp(rng.uniform(-np.log(MOST), np.log(MOST), shape)))


class Gauge(NamedTuple):
    """A change of weights that changes no logit: weights, generator -> new weights, and the norms
    where it is exact."""

    change: Callable[[Weights, np.random.Generator], dict[str, Tensor]]
    norms: tuple[str, ...] = NORMS


def gauges_of(config: ModelConfig) -> tuple[str, ...]:
    """Names of the gauges that are exact for a transformer with these settings.

    >>> set(GAUGES) - set(gauges_of(ModelConfig(norm="pre", act="gelu"))) == {"mlp_scale", "rotation", "residual_scale"}
    True
    """
    exact = [name for name, gauge in GAUGES.items() if config.norm in gauge.norms]
    return tuple(name for name in exact if name != "mlp_scale" or config.act == "relu")


def gauge_copy(
    weights: Weights, name: str, config: ModelConfig, seed: int = 0
) -> dict[str, Tensor]:
    """New weights, by TransformerLens name, with the logits of the given ones; what is not changed
    is shared.

    Args:
        weights: of a transformer, as checkpoints give them; best in float64.
        name: one of GAUGES. config: says whether the gauge is exact for this model. seed: of the
            random change.

    Raises ModelError for a gauge that is not exact for this model.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> copy = gauge_copy(known.weights, "value_basis", known.config)
    >>> sorted({name[-3:] for name in copy if copy[name] is not known.weights[name]})
    ['W_O', 'W_V', 'b_V']
    """
    if name not in gauges_of(config):
        raise ModelError(
            f"gauge '{name}' is not exact for a model with norm='{config.norm}', "
            f"act='{config.act}'; "
            f"exact are {', '.join(gauges_of(config))}."
        )
    return GAUGES[name].change(weights, np.random.default_rng([seed, 14]))


def _bases(weight: Tensor, rng: np.random.Generator, rotation: bool = False) -> Tensor:
    """A random invertible matrix for each head of a weight [head, d_model, d_head], or an
    orthogonal one."""
    n_heads, _, d_head = weight.shape
    found = [random_rotation(d_head, rng) for _ in range(n_heads)]
    if not rotation:
        found = [Q * _scales((d_head,), rng) @ random_rotation(d_head, rng) for Q in found]
    return torch.stack(found).to(weight)


def _based(
    first: str, second: str, rotation: bool = False
) -> Callable[[Weights, np.random.Generator], dict]:
    """W_first R and, where x W_first meets W_second^T (queries and keys), W_second R^-T, or R^-1
    W_second (W_O)."""

    def change(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
        changed = dict(weights)
        for at in _blocks(weights, "attn."):
            R = _bases(weights[f"{at}W_{first}"], rng, rotation)
            changed[f"{at}W_{first}"] = weights[f"{at}W_{first}"] @ R
            changed[f"{at}b_{first}"] = (weights[f"{at}b_{first}"][:, None] @ R)[:, 0]
            other, inverse = weights[f"{at}W_{second}"], torch.linalg.inv(R)
            if second == "O":
                changed[f"{at}W_O"] = inverse @ other
            else:
                changed[f"{at}W_{second}"] = other @ inverse.mT
                changed[f"{at}b_{second}"] = (weights[f"{at}b_{second}"][:, None] @ inverse.mT)[
                    :, 0
                ]
        return changed

    return change


def _key_bias(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    keys = [name for name in weights if kind(name) == "b_K"]
    return {**weights, **{name: weights[name] + _normal(weights[name], rng) for name in keys}}


def _value_bias(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    changed = dict(weights)
    for at in _blocks(weights, "attn."):
        shift = _normal(weights[at + "b_V"], rng)
        changed[at + "b_V"] = weights[at + "b_V"] + shift
        changed[at + "b_O"] = weights[at + "b_O"] - torch.einsum(
            "he,hed->d", shift, weights[at + "W_O"]
        )
    return changed


def _mlp_order(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    changed = dict(weights)
    for mlp in _blocks(weights, "mlp."):
        _permute_units(changed, mlp, rng)
    return changed


def _mlp_scale(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    changed = dict(weights)
    for mlp in _blocks(weights, "mlp."):
        _rescale_mlp(changed, mlp, rng)
    return changed


def _embedding_shift(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    W_E, W_pos = weights["embed.W_E"], weights["pos_embed.W_pos"]
    shift = _normal(W_E[0], rng)
    return {**weights, "embed.W_E": W_E + shift, "pos_embed.W_pos": W_pos - shift}


def _coordinates(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    """Permute the coordinates of the residual stream, LayerNorm's weights with them."""
    order = torch.from_numpy(rng.permutation(weights["embed.W_E"].shape[1]))
    changed = dict(weights)
    for name, weight in weights.items():
        if kind(name) in (*WRITE, "w", "b"):
            changed[name] = weight[..., order]
        elif kind(name) in READ:
            changed[name] = weight[..., order, :]
    return changed


def _rotation(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    return rotate_residual(weights, random_rotation(weights["embed.W_E"].shape[1], rng))


def _residual_scale(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    return rescale_residual(weights, MOST)


def _mean_shift(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    """Add to every vector that heads and MLPs write a multiple of (1, ..., 1), which LayerNorm
    takes away."""
    written = [name for name in weights if kind(name) in ("W_O", "b_O", "W_out", "b_out")]
    return {
        **weights,
        **{name: weights[name] + _normal(weights[name][..., :1], rng) for name in written},
    }


def _norm_gain(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    """LayerNorm's weight and bias in what reads it, as TransformerLens's fold_ln has them."""
    changed = dict(weights)
    readers = {
        f"{at}{ln}": [f"{at}{name}" for name in of]
        for at in _blocks(weights)
        for ln, of in READERS.items()
    }
    for norm, read in {**readers, "ln_final": ["unembed.?_U"]}.items():
        w, b = (weights[f"{norm}.{name}"] for name in "wb")
        for name in read:
            matrix, bias = name.replace("?", "W"), name.replace("?", "b")
            changed[bias] = weights[bias] + b @ weights[matrix]
            changed[matrix] = w[:, None] * weights[matrix]
        changed |= {f"{norm}.w": torch.ones_like(w), f"{norm}.b": torch.zeros_like(b)}
    return changed


def _normal(like: Tensor, rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.standard_normal(tuple(like.shape))).to(like)


GAUGES: dict[str, Gauge] = {
    "value_basis": Gauge(_based("V", "O")),
    "value_rotation": Gauge(_based("V", "O", rotation=True)),
    "query_key_basis": Gauge(_based("Q", "K")),
    "key_bias": Gauge(_key_bias),
    "value_bias": Gauge(_value_bias),
    "mlp_order": Gauge(_mlp_order),
    "mlp_scale": Gauge(_mlp_scale),
    "embedding_shift": Gauge(_embedding_shift),
    "coordinates": Gauge(_coordinates),
    "rotation": Gauge(_rotation, ("none",)),
    "residual_scale": Gauge(_residual_scale, ("none",)),
    "mean_shift": Gauge(_mean_shift, ("pre", "post")),
    "norm_gain": Gauge(_norm_gain, ("pre",)),
}
"""Name -> gauge; the module's docstring has the formulas."""
