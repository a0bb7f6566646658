"""What a token's embedding looks like where a head's attention reads it: the residual stream or LayerNorm's output.

Models differ in where they normalise and in what their hooks record (``ln1.hook_normalized`` stands before LayerNorm's
weight and bias), so nothing is assumed: the tensor taken is the one that reproduces the head's own value vectors,
``hook_v = x W_V + b_V``, where a model without biases has no b_V.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.arrays import ArrayModel
from rb_interp.probes.capturing import capture_other, layer_heads
from rb_interp.probes.check import has_attention
from rb_interp.probes.source import Source, model_of

Found = dict[str, Tensor]
TOLERANCE = 0.02
"""Relative error up to which a tensor counts as the attention's input; float32 reaches 1e-6, bfloat16 about 1e-2."""
ROWS_TO_TELL, POSITIONS_TO_TELL = 2, 4
"""Rows on which the candidates are compared, and positions of each."""


def attention_inputs(source: Source, rows: Int[Tensor, "row pos"], layer: int, head: int) -> tuple[str, Tensor]:
    """Where the head reads (``residual`` or ``normalised``), and the tensor ``[row, pos, d_model]`` in float64.

    Which it is, ROWS_TO_TELL of the rows tell. Raises ModelError where neither reproduces the head's value vectors.
    """
    model, block = model_of(source), f"blocks.{layer}."
    wanted = [block + "attn.hook_v", block + "hook_resid_pre"]
    wanted += [block + name for name in ("ln1.hook_normalized", "ln1.hook_out") if block + name in model.hook_dict]
    found = {name.removeprefix(block): value for name, value in capture_other(source, rows, wanted).items()}
    for name in found.keys() - {"attn.hook_v"}:
        found[name] = _read_by(head, found[name], model.cfg.n_heads)
    some = np.unique(np.linspace(0, len(rows) - 1, ROWS_TO_TELL).astype(int))
    few = {name: value[some, :POSITIONS_TO_TELL].double() for name, value in found.items()}
    candidates = _candidates(model, layer, few)
    errors = _value_errors(model, few["attn.hook_v"], [read(few) for _, read in candidates], layer, head)
    error = min(errors)
    if math.isnan(error):
        raise ModelError(f"what enters attention in L{layer} is not finite: the model's training has diverged.")
    if not error <= TOLERANCE:
        raise ModelError(
            f"cannot tell what enters attention in L{layer}: x W_V + b_V misses head {head}'s "
            f"hook_v by {error:.0%}. It needs hook_v, and hook_resid_pre or ln1.hook_normalized, as in TransformerLens."
        )
    kind, read = candidates[errors.index(error)]
    return kind, read(found).double()


def _candidates(model: HookedModel, layer: int, found: Found) -> list[tuple[str, Callable[[Found], Tensor]]]:
    """What the head may read, by kind, as functions of what was recorded.

    LayerNorm's output counts as recorded, and with the weight and bias that follow ``hook_normalized`` in 3.x.
    """
    norm = getattr(model.blocks[layer], "ln1", None)
    weight, bias = (getattr(norm, name, None) for name in ("w", "b"))
    candidates: list[tuple[str, Callable[[Found], Tensor]]] = [("residual", lambda found: found["hook_resid_pre"])]
    for name in ("ln1.hook_out", "ln1.hook_normalized"):
        if name in found:
            candidates.append(("normalised", lambda found, name=name: found[name]))
    if "ln1.hook_normalized" in found and isinstance(weight, Tensor):
        times = weight.detach().cpu().double()
        plus = bias.detach().cpu().double() if isinstance(bias, Tensor) else 0.0
        candidates.append(("normalised", lambda found: found["ln1.hook_normalized"] * times + plus))
    return candidates


def _read_by(head: int, x: Tensor, n_heads: int) -> Float[Tensor, "row pos d_model"]:
    """What one head is given; ``use_attn_in`` and ``use_split_qkv_input`` make a copy of it for each head."""
    return x if x.ndim == 3 else x[:, :, head * x.shape[2] // n_heads]


def _value_errors(model: HookedModel, v: Tensor, candidates: list[Tensor], layer: int, head: int) -> list[float]:
    """Relative error of each x W_V + b_V against the head's recorded value vectors."""
    W_V, b_V = layer_heads(model, layer, "W_V").detach(), getattr(model.blocks[layer].attn, "b_V", None)
    own, group = head * len(W_V) // model.cfg.n_heads, head * v.shape[2] // model.cfg.n_heads
    weight, wanted = W_V[own].cpu().double(), v[:, :, group]
    size = wanted.norm().clamp_min(torch.finfo(torch.float64).tiny)
    bias = 0 if b_V is None else b_V[own].detach().cpu().double()
    return [float((x @ weight + bias - wanted).norm() / size) for x in candidates]


def token_embeddings(
    source: Source, ids: Int[np.ndarray, " token"], length: int, layer: int, head: int
) -> Float[np.ndarray, "token d_model"]:
    """Embedding of each token as the head reads it, in float64.

    W_E where the head reads the residual stream, and where a model has no head; else LayerNorm's output on constant
    sequences of ``length`` positions, averaged over them. Of arrays it is their ``token_inputs``.
    """
    model, rows = model_of(source), torch.as_tensor(np.repeat(np.asarray(ids)[:, None], length, 1))
    if has_attention(model) and isinstance(model, ArrayModel):
        return model.token_inputs(layer)[torch.as_tensor(ids)].double().numpy()
    if has_attention(model):
        kind, inputs = attention_inputs(source, rows, layer, head)
        if kind == "normalised":
            return inputs.mean(1).numpy()
    return model.W_E.detach()[torch.as_tensor(ids)].double().cpu().numpy()
