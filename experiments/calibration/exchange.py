r"""Forward pass of many members of two layers in which activations can be taken from other rows.

Sites, in the order in which they are computed (all tensors begin with ``[member, row]``):

    resid_pre.0   [pos, d_model]   token plus position embedding
    pattern.0     [head, query, key]
    attn_out.0    [pos, d_model]
    resid_pre.1   [pos, d_model]   what the last layer reads
    pattern.1     [head, key]      of the last position
    log_pattern.0, log_pattern.1   their logarithms, finite where a pattern is too small for its number format
    attn_out.1    [d_model]        at the last position
    logits        [d_vocab]        at the last position

What misleads: an exchange at ``resid_pre.1`` takes all that a position holds, its own token and
place included; one at ``attn_out.0`` takes what attention brought there alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rb_interp.models.config import ModelConfig
from rb_interp.training.stacked import BlockWeights, StackedWeights, embed, linear, unembed


class Exchange(NamedTuple):
    """Values that replace a site's own at the positions where ``mask`` is true."""

    mask: Bool[Tensor, "member row pos"]
    values: Float[Tensor, "member row pos d_model"]


def run_with_exchanges(
    weights: StackedWeights,
    tokens: Int[Tensor, "member row pos"],
    model: ModelConfig,
    exchanges: Mapping[str, Exchange] | None = None,
) -> dict[str, Tensor]:
    """What every member computes at every site, with some positions' activations replaced.

    Args:
        weights: by TransformerLens name, members first. tokens: each member's own rows.
        model: a transformer of two layers. exchanges: by site, of ``resid_pre.0``, ``attn_out.0``
            and ``resid_pre.1``.

    Returns:
        Site -> activation, after the exchange.
    """
    exchanges = exchanges or {}

    def exchanged(site: str, own: Tensor) -> Tensor:
        if site not in exchanges:
            return own
        return torch.where(exchanges[site].mask[..., None], exchanges[site].values, own)

    found: dict[str, Tensor] = {}
    first, last = BlockWeights(weights, 0, model), BlockWeights(weights, 1, model)
    x = found["resid_pre.0"] = exchanged("resid_pre.0", embed(weights, tokens))
    found["log_pattern.0"], z = _attend(first, x, every_query=True)
    out = found["attn_out.0"] = exchanged("attn_out.0", _write(first, z))
    x = found["resid_pre.1"] = exchanged("resid_pre.1", _rest(first, x, out))
    log_pattern, z = _attend(last, x, every_query=False)
    found["log_pattern.1"], out = log_pattern[..., 0, :], _write(last, z)[:, :, 0]
    found |= {f"pattern.{layer}": found[f"log_pattern.{layer}"].exp() for layer in (0, 1)}
    found["attn_out.1"] = out
    found["logits"] = unembed(weights, _rest(last, x[:, :, -1:], out[:, :, None])[:, :, 0], model)
    return found


def _attend(
    block: BlockWeights, x: Float[Tensor, "member row pos d_model"], every_query: bool
) -> tuple[Float[Tensor, "member row head query key"], Float[Tensor, "member row query all_heads"]]:
    """Logarithm of the attention pattern, and what attention brings; queries of the last position
    alone, or of all."""
    members, rows, length, _ = x.shape
    x = block.attention_input(x)
    asking = x if every_query else x[:, :, -1:]
    heads = []
    for name, source in zip("QKV", (asking, x, x), strict=True):
        part = linear(source.flatten(1, 2), *block.projection(name))
        heads.append(
            part.view(members, rows, source.shape[2], block.model.n_heads, -1).transpose(2, 3)
        )
    q, k, v = heads
    scores = q @ k.mT
    if every_query:
        scores = scores + scores.new_full((length, length), -math.inf).triu(1)
    log_pattern = scores.log_softmax(-1)
    return log_pattern, (log_pattern.exp() @ v).transpose(2, 3).flatten(3)


def _write(
    block: BlockWeights, z: Float[Tensor, "member row query all_heads"]
) -> Float[Tensor, "member row query d_model"]:
    """Attention's output."""
    bias = block["attn.b_O"] if block.model.train_biases else None
    return linear(z.flatten(1, 2), block["attn.W_O"].flatten(1, 2), bias).unflatten(1, z.shape[1:3])


def _rest(
    block: BlockWeights,
    resid: Float[Tensor, "member row query d_model"],
    out: Float[Tensor, "member row query d_model"],
) -> Float[Tensor, "member row query d_model"]:
    """Residual stream after the block, from its start and attention's output."""
    mid = block.after((resid + out).flatten(1, 2), "ln1")
    return block.feed_forward(mid).unflatten(1, resid.shape[1:3])
