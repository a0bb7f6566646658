"""Weights of one layer's heads, whatever the model keeps them in."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from rb_interp.models.protocol import HookedModel
from rb_interp.probes.arrays import ArrayModel


def layer_heads(model: HookedModel, layer: int, name: str) -> Float[Tensor, "head rows columns"]:
    """W_Q, W_K, W_V or W_O of all heads of a layer; grouped heads may share one, so that there are fewer.

    ``model.W_V`` would copy the weights of every layer, and in a bridge a block may hold all heads side by side.
    """
    if isinstance(model, ArrayModel):
        return model.array(f"blocks.{layer}.attn.{name}")
    held = getattr(model.blocks[layer].attn, name, None)
    return held if isinstance(held, Tensor) and held.ndim == 3 else getattr(model, name)[layer]
