"""Stacked forward passes of paper 1's simplified models: Emb-MLP (Definition 1), one layer (Definition 2, Eq. 9).

    Emb-MLP      G(X) = act((sum_j x_j) W_in) W_out,                          x_j = W_E[token j]
    one layer    m = x_L + (sum_j A_Lj x_j) W_V W_O,    f(X) = m + act(m W_in) W_out

The one-layer model computes its answer at the last position, so nothing else is computed unless asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.models.activations import ACTIVATIONS
from rb_interp.models.config import ModelConfig

Weights = Mapping[str, Tensor]


def token_embeddings(
    weights: Weights, tokens: Int[Tensor, "member batch pos"]
) -> Float[Tensor, "member batch pos d_model"]:
    """Each member's own embedding of its tokens."""
    table = weights["embed.W_E"]
    members, d_vocab, d_model = table.shape
    shift = torch.arange(0, members * d_vocab, d_vocab, device=tokens.device).view(-1, 1, 1)
    return F.embedding(tokens + shift, table.reshape(members * d_vocab, d_model))


def emb_mlp_logits(
    weights: Weights, tokens: Int[Tensor, "member batch pos"], model: ModelConfig
) -> Float[Tensor, "member batch d_vocab"]:
    """Logits of Emb-MLP, the same for every order of a row's tokens."""
    hidden = torch.bmm(token_embeddings(weights, tokens).sum(2), weights["mlp.W_in"])
    return torch.bmm(ACTIVATIONS[model.act](hidden), weights["mlp.W_out"])


def one_layer_logits(
    weights: Weights, tokens: Int[Tensor, "member batch pos"], model: ModelConfig, *, every_position: bool = False
) -> Tensor:
    """Logits of the one-layer model, ``[member, batch, d_vocab]`` at the last position, or ``[..., pos, d_vocab]``."""
    length = tokens.shape[2]
    x = token_embeddings(weights, tokens)
    rows = x if every_position else x[:, :, -1:]
    w_q, w_k, w_v = (weights[f"blocks.0.attn.W_{name}"][:, 0] for name in "QKV")
    asked = _rows(_rows(rows, w_q) / math.sqrt(model.d_head), w_k.mT)
    if every_position:
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        context = (asked @ x.mT).masked_fill(future, -math.inf).softmax(-1) @ x
    else:  # products this small cost more as matrix products
        context = ((x * asked).sum(-1, keepdim=True).softmax(2) * x).sum(2, keepdim=True)
    mid = rows + _rows(_rows(context, w_v), weights["blocks.0.attn.W_O"][:, 0])
    hidden = ACTIVATIONS[model.act](_rows(mid, weights["blocks.0.mlp.W_in"]))
    logits = mid + _rows(hidden, weights["blocks.0.mlp.W_out"])
    return logits if every_position else logits[:, :, 0]


def _rows(x: Float[Tensor, "member batch pos d_in"], matrix: Float[Tensor, "member d_in d_out"]) -> Tensor:
    """x W at every position, member by member."""
    members, batch, pos, d_in = x.shape
    return torch.bmm(x.reshape(members, batch * pos, d_in), matrix).view(members, batch, pos, -1)
