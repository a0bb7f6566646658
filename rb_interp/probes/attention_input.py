"""What a token's embedding looks like where a head's attention reads it: the residual stream or LayerNorm's output.

Models differ in where they normalise and in what their hooks record (``ln1.hook_normalized`` stands before LayerNorm's
weight and bias), so nothing is assumed: the tensor taken is the one that reproduces the head's own value vectors,
``hook_v = x W_V + b_V``, where a model without biases has no b_V.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capture import capture
from rb_interp.probes.check import has_attention

TOLERANCE = 0.02
"""Relative error up to which a tensor counts as the attention's input; float32 reaches 1e-6, bfloat16 about 1e-2."""


def attention_inputs(model: HookedModel, rows: Int[Tensor, "row pos"], layer: int, head: int) -> tuple[str, Tensor]:
    """Where the head reads (``residual`` or ``normalised``), and the tensor ``[row, pos, d_model]`` in float64.

    Raises ModelError where neither reproduces the head's value vectors.
    """
    block = f"blocks.{layer}."
    wanted = [block + "attn.hook_v", block + "hook_resid_pre"]
    wanted += [block + name for name in ("ln1.hook_normalized", "ln1.hook_out") if block + name in model.hook_dict]
    found = {name.removeprefix(block): value.double() for name, value in capture(model, rows, wanted).items()}
    for name in found.keys() - {"attn.hook_v"}:
        found[name] = _read_by(head, found[name], model.cfg.n_heads)
    candidates = [("residual", found["hook_resid_pre"])]
    candidates += [("normalised", x) for x in _normalised(model, layer, found)]
    errors = [_value_error(model, found["attn.hook_v"], x, layer, head) for _, x in candidates]
    error = min(errors)
    if not error <= TOLERANCE:
        raise ModelError(
            f"cannot tell what enters attention in L{layer}: x W_V + b_V misses head {head}'s "
            f"hook_v by {error:.0%}. It needs hook_v, and hook_resid_pre or ln1.hook_normalized, as in TransformerLens."
        )
    return candidates[errors.index(error)]


def _read_by(head: int, x: Tensor, n_heads: int) -> Float[Tensor, "row pos d_model"]:
    """What one head is given; ``use_attn_in`` and ``use_split_qkv_input`` make a copy of it for each head."""
    return x if x.ndim == 3 else x[:, :, head * x.shape[2] // n_heads]


def _normalised(model: HookedModel, layer: int, found: dict[str, Tensor]) -> list[Tensor]:
    """LayerNorm's output as recorded, and with the weight and bias that follow ``hook_normalized`` in 3.x."""
    candidates = [found[name] for name in ("ln1.hook_out", "ln1.hook_normalized") if name in found]
    norm = getattr(model.blocks[layer], "ln1", None)
    weight, bias = (getattr(norm, name, None) for name in ("w", "b"))
    if "ln1.hook_normalized" in found and isinstance(weight, Tensor):
        scaled = found["ln1.hook_normalized"] * weight.detach().cpu().double()
        candidates.append(scaled + bias.detach().cpu().double() if isinstance(bias, Tensor) else scaled)
    return candidates


def _value_error(model: HookedModel, v: Tensor, x: Tensor, layer: int, head: int) -> float:
    """Relative error of x W_V + b_V against the head's recorded value vectors."""
    W_V, b_V = model.W_V[layer].detach().cpu().double(), getattr(model.blocks[layer].attn, "b_V", None)
    own, group = head * len(W_V) // model.cfg.n_heads, head * v.shape[2] // model.cfg.n_heads
    size = v[:, :, group].norm().clamp_min(torch.finfo(torch.float64).tiny)
    bias = 0 if b_V is None else b_V[own].detach().cpu().double()
    return float((x @ W_V[own] + bias - v[:, :, group]).norm() / size)


def token_embeddings(
    model: HookedModel, ids: Int[np.ndarray, " token"], length: int, layer: int, head: int
) -> Float[np.ndarray, "token d_model"]:
    """Embedding of each token as the head reads it, in float64.

    W_E where the head reads the residual stream, and where a model has no head; else LayerNorm's output on constant
    sequences of ``length`` positions, averaged over them.
    """
    rows = torch.as_tensor(np.repeat(np.asarray(ids)[:, None], length, 1))
    if has_attention(model):
        kind, inputs = attention_inputs(model, rows, layer, head)
        if kind == "normalised":
            return inputs.mean(1).numpy()
    return model.W_E.detach()[torch.as_tensor(ids)].double().cpu().numpy()
