r"""Gauge copies: other weights with the same logits, by name, so that a probe can say on which of them it depends.

With x the residual stream, A a pattern, R invertible, Q orthogonal, C a constant and w any vector:

    value_basis       W_V R, b_V R, R^-1 W_O of each head       value_rotation   the same with R orthogonal
    query_key_basis   W_Q R, b_Q R, W_K R^-T, b_K R^-T          key_bias         b_K + w: adds q . w to a row of scores
    value_bias        b_V + w, b_O - w W_O: rows of A sum to 1  heads            heads in another order
    mlp_order         units of the MLP in another order         mlp_scale        c W_in, c b_in, W_out / c for c > 0
    embedding_shift   W_E + w, W_pos - w                        coordinates      coordinates of x in another order
    rotation          x Q                                       residual_scale   C x
    mean_shift        to what MLPs and heads write, multiples of (1, ..., 1) are added

Most hold for every transformer. mlp_scale needs ReLU. rotation and residual_scale need ``norm="none"``: LayerNorm's
weights belong to coordinates, and its eps to a length. mean_shift needs ``pre`` or ``post``: LayerNorm removes the
mean. A number added to every logit changes no probability, but it changes logits, so it is no gauge here.

Where it misleads. A copy is exact in exact arithmetic: use float64, where logits agree to 1e-10. Weights that training
ties (W_U = W_E^T) are no longer tied in a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rb_interp.errors import ModelError, nearest
from rb_interp.lazy import listed
from rb_interp.models.config import NORMS, ModelConfig
from rb_interp.models.reference.symmetry import READ, WRITE, kind, random_rotation, rescale_residual, rotate_residual

__all__ = ["GAUGES", "Gauge", "gauge_copy", "gauges_of"]
__dir__ = listed(__name__)

Weights = Mapping[str, Tensor]
MOST = 2.0
"""Scales are log-uniform between 1 / MOST and MOST; so are the singular values of R."""


class Gauge(NamedTuple):
    """A change of weights that changes no logit: weights, generator -> new weights, and the norms where it is exact."""

    change: Callable[[Weights, np.random.Generator], dict[str, Tensor]]
    norms: tuple[str, ...] = NORMS


def gauges_of(config: ModelConfig) -> tuple[str, ...]:
    """Names of the gauges that are exact for a transformer with these settings.

    >>> set(GAUGES) - set(gauges_of(ModelConfig(norm="pre", act="gelu"))) == {"mlp_scale", "rotation", "residual_scale"}
    True
    """
    exact = [name for name, gauge in GAUGES.items() if config.norm in gauge.norms]
    return tuple(name for name in exact if name != "mlp_scale" or config.act == "relu")


def gauge_copy(weights: Weights, name: str, config: ModelConfig, seed: int = 0) -> dict[str, Tensor]:
    """New weights, by TransformerLens name, with the logits of the given ones; what is not changed is shared.

    Args:
        weights: of a transformer, as ``generations.read_weights`` and checkpoints give them; best in float64.
        name: one of GAUGES. config: says whether the gauge is exact for this model. seed: of the random change.

    Raises ModelError for an unknown name, and for a gauge that is not exact for this model.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> copy = gauge_copy(known.weights, "value_basis", known.config)
    >>> sorted({name[-3:] for name in copy if copy[name] is not known.weights[name]})
    ['W_O', 'W_V', 'b_V']
    """
    if name not in GAUGES:
        raise ModelError(f"there is no gauge '{name}'; {nearest(name, GAUGES)}")
    if name not in gauges_of(config):
        raise ModelError(
            f"gauge '{name}' is not exact for a model with norm='{config.norm}', act='{config.act}'; "
            f"exact are {', '.join(gauges_of(config))}."
        )
    return GAUGES[name].change(weights, np.random.default_rng([seed, 14]))


def _attention(weights: Weights) -> list[str]:
    return [name.removesuffix("W_Q") for name in weights if kind(name) == "W_Q"]


def _mlps(weights: Weights) -> list[str]:
    return [name.removesuffix("W_in") for name in weights if kind(name) == "W_in"]


def _scales(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return np.exp(rng.uniform(-np.log(MOST), np.log(MOST), shape))


def _bases(weight: Tensor, rng: np.random.Generator, rotation: bool = False) -> Tensor:
    """A random invertible matrix for each head of a weight [head, d_model, d_head], or an orthogonal one."""
    n_heads, _, d_head = weight.shape
    found = [random_rotation(d_head, rng) for _ in range(n_heads)]
    if not rotation:
        found = [Q * torch.from_numpy(_scales((d_head,), rng)) @ random_rotation(d_head, rng) for Q in found]
    return torch.stack(found).to(weight)


def _based(first: str, second: str, rotation: bool = False) -> Callable[[Weights, np.random.Generator], dict]:
    """W_first R and, where x W_first meets W_second^T (queries and keys), W_second R^-T, or R^-1 W_second (W_O)."""

    def change(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
        changed = dict(weights)
        for at in _attention(weights):
            R = _bases(weights[f"{at}W_{first}"], rng, rotation)
            changed[f"{at}W_{first}"] = weights[f"{at}W_{first}"] @ R
            changed[f"{at}b_{first}"] = (weights[f"{at}b_{first}"][:, None] @ R)[:, 0]
            other, inverse = weights[f"{at}W_{second}"], torch.linalg.inv(R)
            if second == "O":
                changed[f"{at}W_O"] = inverse @ other
            else:
                changed[f"{at}W_{second}"] = other @ inverse.mT
                changed[f"{at}b_{second}"] = (weights[f"{at}b_{second}"][:, None] @ inverse.mT)[:, 0]
        return changed

    return change


def _key_bias(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    keys = [name for name in weights if kind(name) == "b_K"]
    return {**weights, **{name: weights[name] + _normal(weights[name], rng) for name in keys}}


def _value_bias(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    changed = dict(weights)
    for at in _attention(weights):
        shift = _normal(weights[at + "b_V"], rng)
        changed[at + "b_V"] = weights[at + "b_V"] + shift
        changed[at + "b_O"] = weights[at + "b_O"] - torch.einsum("he,hed->d", shift, weights[at + "W_O"])
    return changed


def _heads(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    changed = dict(weights)
    for at in _attention(weights):
        order = torch.from_numpy(rng.permutation(len(weights[at + "W_Q"])))
        order = order if (order != torch.arange(len(order))).any() else order.roll(1)
        for name in ("W_Q", "b_Q", "W_K", "b_K", "W_V", "b_V", "W_O"):
            changed[at + name] = weights[at + name][order]
    return changed


def _mlp_order(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    changed = dict(weights)
    for at in _mlps(weights):
        order = torch.from_numpy(rng.permutation(weights[at + "W_in"].shape[1]))
        changed |= {at + name: weights[at + name][..., order] for name in ("W_in", "b_in")}
        changed[at + "W_out"] = weights[at + "W_out"][order]
    return changed


def _mlp_scale(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    changed = dict(weights)
    for at in _mlps(weights):
        scale = torch.from_numpy(_scales((weights[at + "W_in"].shape[1],), rng)).to(weights[at + "W_in"])
        changed |= {at + name: weights[at + name] * scale for name in ("W_in", "b_in")}
        changed[at + "W_out"] = weights[at + "W_out"] / scale[:, None]
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
    return rescale_residual(weights, MOST, "none")


def _mean_shift(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    """Add to every vector that heads and MLPs write a multiple of (1, ..., 1), which LayerNorm takes away."""
    written = [name for name in weights if kind(name) in ("W_O", "b_O", "W_out", "b_out")]
    return {**weights, **{name: weights[name] + _normal(weights[name][..., :1], rng) for name in written}}


def _normal(like: Tensor, rng: np.random.Generator) -> Tensor:
    return torch.from_numpy(rng.standard_normal(tuple(like.shape))).to(like)


GAUGES: dict[str, Gauge] = {
    "value_basis": Gauge(_based("V", "O")),
    "value_rotation": Gauge(_based("V", "O", rotation=True)),
    "query_key_basis": Gauge(_based("Q", "K")),
    "key_bias": Gauge(_key_bias),
    "value_bias": Gauge(_value_bias),
    "heads": Gauge(_heads),
    "mlp_order": Gauge(_mlp_order),
    "mlp_scale": Gauge(_mlp_scale),
    "embedding_shift": Gauge(_embedding_shift),
    "coordinates": Gauge(_coordinates),
    "rotation": Gauge(_rotation, ("none",)),
    "residual_scale": Gauge(_residual_scale, ("none",)),
    "mean_shift": Gauge(_mean_shift, ("pre", "post")),
}
"""Name -> gauge; the module's docstring has the formulas."""
