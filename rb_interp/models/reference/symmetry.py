r"""Changes of a transformer's weights that leave its function as it is: other coordinates, other units, other scales.

    rotation     x -> x Q, Q orthogonal: W_E Q, W_pos Q, W_O Q, W_out Q, b_O Q, b_out Q; Q^T W_Q, Q^T W_K, ... , Q^T W_U
    heads        any order of heads; within a head any order and sign of the units of (W_Q, W_K) and of (W_V, W_O)
    MLP          any order of units; with ReLU, c W_in and W_out / c for c > 0
    scale        c W_V and W_O / c, c W_Q and W_K / c for each head; and, of the residual stream, see rescale_residual

All are pure functions on weights by TransformerLens name and return new ones; what they do not change, they share.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp.checks import checked
from rb_interp.errors import ModelError, nearest
from rb_interp.models.config import NORMS

READ = ("W_Q", "W_K", "W_V", "W_in", "W_U")
"""Weights that read the residual stream, along their last axis but one."""
WRITE = ("W_E", "W_pos", "W_O", "b_O", "W_out", "b_out")
"""Weights that write it, along their last axis."""

Weights = Mapping[str, Float[Tensor, "..."]]
AXES = {
    **dict.fromkeys(("attn.W_Q", "attn.W_K", "attn.W_V", "attn.W_O"), 3),
    **dict.fromkeys(("attn.b_Q", "attn.b_K", "attn.b_V", "mlp.W_in", "mlp.W_out"), 2),
    "mlp.b_in": 1,
}
"""Weights of a block that are changed here -> how many axes each has."""


def kind(name: str) -> str:
    """Last part of a weight's name.

    >>> kind("blocks.0.attn.W_Q")
    'W_Q'
    """
    return name.rsplit(".", 1)[-1]


@checked
def rotate_residual(weights: Weights, Q: Float[Tensor, "d_model d_model"]) -> dict[str, Tensor]:
    """The same function with residual stream x Q in place of x.

    Raises ModelError where Q is not orthogonal, or where the model has LayerNorm, which no rotation leaves as it is.
    """
    if any(kind(name) == "w" for name in weights):
        raise ModelError("this model has LayerNorm, which a rotation of the residual stream changes; use norm='none'.")
    _check_has(weights, {"embed.W_E": 2})
    d_model = weights["embed.W_E"].shape[1]
    if Q.shape[0] != d_model:
        raise ModelError(f"got a rotation of {Q.shape[0]} dimensions; this model's residual stream has {d_model}.")
    error = float((Q.double().T @ Q.double() - torch.eye(d_model, dtype=torch.float64)).abs().max())
    if not error < 1e-5:
        raise ModelError(f"got a matrix whose Q^T Q misses 1 by {error:.2g}; pass an orthogonal one, as from a QR.")
    changed = {}
    for name, weight in weights.items():
        turn = Q.to(weight.dtype)
        if kind(name) in READ:
            weight = turn.T @ weight
        elif kind(name) in WRITE:
            weight = weight @ turn
        changed[name] = weight
    return changed


@checked
def random_rotation(d_model: int, rng: np.random.Generator) -> Float[Tensor, "d_model d_model"]:
    """An orthogonal matrix, uniform on all of them (QR of a Gaussian matrix, signs by the diagonal of R)."""
    Q, R = np.linalg.qr(rng.standard_normal((d_model, d_model)))
    return torch.from_numpy(Q * np.sign(np.diag(R)))


@checked
def permute_heads_and_units(weights: Weights, rng: np.random.Generator) -> dict[str, Tensor]:
    """The same function with heads, head units and MLP units in another order, and head units of random sign."""
    changed = dict(weights)
    for block in _blocks(weights):
        _permute_heads(changed, block + "attn.", rng)
        order = torch.from_numpy(rng.permutation(changed[block + "mlp.W_in"].shape[1]))
        for name in ("W_in", "b_in"):
            changed[f"{block}mlp.{name}"] = changed[f"{block}mlp.{name}"][..., order]
        changed[block + "mlp.W_out"] = changed[block + "mlp.W_out"][order]
    return changed


def _permute_heads(weights: dict[str, Tensor], attn: str, rng: np.random.Generator) -> None:
    n_heads, _, d_head = weights[attn + "W_Q"].shape
    heads = torch.from_numpy(rng.permutation(n_heads))
    for names in (("W_Q", "b_Q", "W_K", "b_K"), ("W_V", "b_V", "W_O")):
        order = torch.from_numpy(np.stack([rng.permutation(d_head) for _ in range(n_heads)]))
        sign = torch.from_numpy(rng.choice([-1.0, 1.0], (n_heads, d_head)))
        for name in names:
            weight = weights[attn + name][heads]
            if name == "W_O":
                moved = torch.stack([one[o] for one, o in zip(weight, order, strict=True)])
                weights[attn + name] = moved * sign[:, :, None].to(weight.dtype)
            else:
                moved = torch.stack([one[..., o] for one, o in zip(weight, order, strict=True)])
                each = sign[:, None, :] if name.startswith("W") else sign
                weights[attn + name] = moved * each.to(weight.dtype)


@checked(most=(1, 1e6))
def rescale_units(weights: Weights, rng: np.random.Generator, most: float = 2.0) -> dict[str, Tensor]:
    """The same function with W_V and W_O, W_Q and W_K of each head, and both sides of each ReLU unit, rescaled.

    Factors are log-uniform from 1 / most to most. A head has one for each pair of matrices, so that ratios of singular
    values stay. For ReLU alone: no other activation is homogeneous.
    """
    changed = dict(weights)

    def factors(*shape: int) -> Tensor:
        return torch.from_numpy(np.exp(rng.uniform(-math.log(most), math.log(most), shape)))

    def scale(name: str, by: Tensor) -> None:
        changed[name] = changed[name] * by.to(changed[name].dtype)

    for block in _blocks(weights):
        attn, mlp = block + "attn.", block + "mlp."
        n_heads, d_mlp = len(weights[attn + "W_Q"]), weights[mlp + "W_in"].shape[1]
        for up, bias, down, other in (("W_V", "b_V", "W_O", None), ("W_Q", "b_Q", "W_K", "b_K")):
            c = factors(n_heads, 1)
            scale(attn + up, c[..., None])
            scale(attn + bias, c)
            scale(attn + down, 1 / c[..., None])
            if other:
                scale(attn + other, 1 / c)
        c = factors(d_mlp)
        scale(mlp + "W_in", c)
        scale(mlp + "b_in", c)
        scale(mlp + "W_out", 1 / c[:, None])
    return changed


@checked
def rescale_residual(weights: Weights, factor: float, norm: str) -> dict[str, Tensor]:
    """Nearly the same function with a residual stream ``factor`` times as long, for a model of the given norm.

    ``none``: all that write it are multiplied and all that read it divided; exact. ``pre``: all that write it are
    multiplied, and LayerNorm undoes it. ``post``: embeddings and L0's attention, since the stream is normalised
    after it. With LayerNorm the function stays up to ``layer_norm_eps``, which counts where the stream is short.

    Raises ModelError for an unknown norm, one that the weights contradict, or a factor that is not positive.
    """
    if norm not in NORMS:
        raise ModelError(f"norm='{norm}' is not known; {nearest(norm, NORMS)}")
    has = any(name.startswith("ln_final") for name in weights), any(name.endswith("ln1.w") for name in weights)
    found = {(True, True): "pre", (False, True): "post"}.get(has, "none")
    if norm != found:
        raise ModelError(f"norm='{norm}', but these weights are those of a model with norm='{found}'; pass that.")
    if not 0 < factor < math.inf:
        raise ModelError(f"factor={factor}; expected a positive number.")
    first = ("embed.", "pos_embed.", "blocks.0.attn.")
    changed = {}
    for name, weight in weights.items():
        reached = norm != "post" or name.startswith(first)
        if reached and kind(name) in WRITE:
            weight = weight * factor
        elif reached and kind(name) in READ and norm != "pre":
            weight = weight / factor
        changed[name] = weight
    return changed


def _blocks(weights: Weights) -> list[str]:
    """What names of each layer's weights begin with; ModelError where a layer lacks one that is changed here."""
    layers = {int(found[1]) for name in weights if (found := re.match(r"blocks\.(\d{1,9})\.", name))}
    blocks = [f"blocks.{layer}." for layer in sorted(layers)]
    _check_has(weights, {f"{block}{name}": axes for block in blocks or ["blocks.0."] for name, axes in AXES.items()})
    return blocks


def _check_has(weights: Weights, axes: Mapping[str, int]) -> None:
    """Raise ModelError where a weight is missing, or has another number of axes."""
    for name, n in axes.items():
        if name not in weights or weights[name].ndim != n:
            found = f"has {weights[name].ndim} axes" if name in weights else "is missing"
            raise ModelError(
                f"{name} {found}; give the weights of a whole model, each by its name, {name} of {n} axes."
            )
