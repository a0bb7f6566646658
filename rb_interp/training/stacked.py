"""Forward pass of many members at once: every tensor carries a leading member axis.

Exact algebra saves most of the work where the loss reads the last position alone:

- the last block is computed at that position only;
- there, scores are x_j . (W_K q) and the output is (sum_j a_j x_j) W_V, so that neither keys nor
  values of the other positions are ever formed;
- a LayerNorm in front of a matrix is folded into it: (n * w + b) W = n (w W) + b W.

A tied model's unembedding is its token embedding, with no bias. Long rows use torch's fused
attention.

All of it holds to rounding (float64: 1e-12) for the full computation, ``every_position=True``.

Paper 1's simplified models are Emb-MLP (Definition 1) and one layer (Definition 2, Eq. 9):

    Emb-MLP      G(X) = act((sum_j x_j) W_in) W_out,                          x_j = W_E[token j]
    one layer    m = x_L + (sum_j A_Lj x_j) W_V W_O,    f(X) = m + act(m W_in) W_out
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import ACTIVATIONS

StackedWeights = Mapping[str, Tensor]
"""TransformerLens name -> tensor ``[member, ...]``."""
FUSED_LENGTH = 64
"""Positions from which on torch's fused attention pays; below it, two small matrix products are
faster."""


def stacked_logits(
    weights: StackedWeights,
    tokens: Int[Tensor, "member batch pos"],
    model: ModelConfig,
    *,
    every_position: bool = False,
) -> Tensor:
    """Logits of every member on its own tokens.

    Returns ``[member, batch, d_vocab]`` at the last position, or ``[member, batch, pos, d_vocab]``
    with ``every_position`` (one position for Emb-MLP, which has a single answer).
    """
    if model.architecture == "emb_mlp":
        hidden = torch.bmm(token_embeddings(weights, tokens).sum(2), weights["mlp.W_in"])
        logits = torch.bmm(ACTIVATIONS[model.act](hidden), weights["mlp.W_out"])
        return logits[:, :, None] if every_position else logits
    if model.architecture == "one_layer":
        return one_layer_logits(weights, tokens, model, every_position=every_position)
    members, batch, length = tokens.shape
    resid = embed(weights, tokens).view(members, batch * length, model.d_model)
    for layer in range(model.n_layers):
        block = BlockWeights(weights, layer, model)
        if layer == model.n_layers - 1 and not every_position:
            resid = block.at_last_position(resid.view(members, batch, length, model.d_model))
        else:
            resid = block.at_every_position(resid, length)
    logits = unembed(weights, resid, model)
    return logits.view(members, batch, length, -1) if every_position else logits


def embed(
    weights: StackedWeights, tokens: Int[Tensor, "member batch pos"]
) -> Float[Tensor, "member batch pos d_model"]:
    """Token plus position embeddings."""
    positions = weights["pos_embed.W_pos"][:, None, : tokens.shape[2]]
    return token_embeddings(weights, tokens) + positions


def unembed(
    weights: StackedWeights, resid: Float[Tensor, "member row d_model"], model: ModelConfig
) -> Float[Tensor, "member row d_vocab"]:
    """Logits of the last residual stream; a tied model reads them with its token embedding."""
    matrix = weights["embed.W_E"].mT if model.tied else weights["unembed.W_U"]
    bias = None if model.tied else weights["unembed.b_U"]
    if model.norm == "pre":
        matrix, shift = fold(matrix, weights["ln_final.w"], weights["ln_final.b"])
        resid = normalise(resid, model)
        bias = shift if bias is None else shift + bias
    return linear(resid, matrix, bias)


def linear(
    x: Float[Tensor, "member row d_in"],
    matrix: Float[Tensor, "member d_in d_out"],
    bias: Float[Tensor, "member d_out"] | None = None,
) -> Float[Tensor, "member row d_out"]:
    """x W + b, member by member."""
    product = torch.bmm(x, matrix)
    return product if bias is None else product + bias[:, None]


def fold(
    matrix: Float[Tensor, "member d_in d_out"],
    scale: Float[Tensor, "member d_in"],
    shift: Float[Tensor, "member d_in"],
) -> tuple[Float[Tensor, "member d_in d_out"], Float[Tensor, "member d_out"]]:
    """Matrix and bias that do the work of LayerNorm's scale and shift followed by the matrix."""
    return scale[:, :, None] * matrix, torch.bmm(shift[:, None], matrix)[:, 0]


def normalise(x: Float[Tensor, "... d_model"], model: ModelConfig) -> Float[Tensor, "... d_model"]:
    """LayerNorm without scale and shift."""
    return F.layer_norm(x, x.shape[-1:], eps=model.layer_norm_eps)


class BlockWeights:
    """One layer's weights in the form that the computation wants."""

    def __init__(self, weights: StackedWeights, layer: int, model: ModelConfig) -> None:
        self.model = model
        self.weights = weights
        self.prefix = f"blocks.{layer}."
        self.scale = 1 / math.sqrt(model.d_head)

    def __getitem__(self, name: str) -> Tensor:
        return self.weights[self.prefix + name]

    def projection(self, name: str) -> tuple[Tensor, Tensor | None]:
        """Query, key or value matrix [member, d_model, heads * d_head] with its bias, LayerNorm
        folded in."""
        matrix = self[f"attn.W_{name}"].transpose(1, 2).flatten(2)  # heads side by side
        bias = self[f"attn.b_{name}"].flatten(1) if self.model.train_biases else None
        if self.model.norm == "pre":
            matrix, shift = fold(matrix, self["ln1.w"], self["ln1.b"])
            bias = shift if bias is None else bias + shift
        if name != "Q":
            return matrix, bias
        return matrix * self.scale, None if bias is None else bias * self.scale

    def at_every_position(
        self, resid: Float[Tensor, "member row d_model"], length: int
    ) -> Float[Tensor, "member row d_model"]:
        """The whole block on rows that are batch * position."""
        x = self.attention_input(resid)
        heads = self.model.n_heads
        d_head = self.model.d_head
        projections = [self.projection(name) for name in "QKV"]
        matrix = torch.cat([matrix for matrix, _ in projections], -1)
        biases = [bias for _, bias in projections if bias is not None]
        bias = torch.cat(biases, -1) if biases else None
        parts = linear(x, matrix, bias).split(heads * d_head, -1)
        q, k, v = (split_heads(part, length, heads, d_head) for part in parts)
        if length >= FUSED_LENGTH:
            qkv = (q[:, None], k[:, None], v[:, None])
            z = F.scaled_dot_product_attention(*qkv, is_causal=True, scale=1.0)
        else:
            future = q.new_full((length, length), -math.inf).triu(1)
            scores = torch.bmm(q, k.transpose(1, 2)) + future
            z = torch.bmm(scores.softmax(-1), v)
        z = z.view(-1, heads, length, d_head).transpose(1, 2).reshape(*x.shape[:2], heads * d_head)
        return self.feed_forward(self.add_attention(resid, z))

    def at_last_position(
        self, resid: Float[Tensor, "member batch pos d_model"]
    ) -> Float[Tensor, "member batch d_model"]:
        """The block at the last position alone."""
        members, batch, length, d_model = resid.shape
        heads = self.model.n_heads
        d_head = self.model.d_head
        x = self.attention_input(resid)
        last = resid[:, :, -1]
        # The key bias adds q . b_K to the score of every position alike, which the softmax does not
        # see.
        w_q, b_q = self.projection("Q")
        w_k, _ = self.projection("K")
        w_v, b_v = self.projection("V")
        q = linear(self.attention_input(last), w_q, b_q).view(members, batch, heads, d_head)
        w_k = w_k.view(members, d_model, heads, d_head)
        w_v = w_v.view(members, d_model, heads, d_head)
        if heads > 1:
            direction = torch.einsum("mbhk,mdhk->mbhd", q, w_k)
        else:
            direction = linear(q[:, :, 0], w_k[:, :, 0].mT)[:, :, None]
        flat = x.reshape(members * batch, length, d_model)
        direction = direction.reshape(members * batch, heads, 1, d_model)
        scores = (flat[:, None] * direction).sum(-1)
        context = torch.bmm(scores.softmax(-1), flat).view(members, batch, heads, d_model)
        if heads > 1:
            z = torch.einsum("mbhd,mdhk->mbhk", context, w_v)
        else:
            z = linear(context[:, :, 0], w_v[:, :, 0])
        z = z.reshape(members, batch, heads * d_head)
        if b_v is not None:
            z = z + b_v[:, None]
        return self.feed_forward(self.add_attention(last, z))

    def attention_input(self, resid: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        """What the projections read, LayerNorm's scale and shift left to them."""
        return normalise(resid, self.model) if self.model.norm == "pre" else resid

    def add_attention(
        self, resid: Float[Tensor, "member row d_model"], z: Float[Tensor, "member row all_heads"]
    ) -> Float[Tensor, "member row d_model"]:
        """Residual stream after attention (resid_mid)."""
        mid = resid + torch.bmm(z, self["attn.W_O"].flatten(1, 2))
        if self.model.train_biases:
            mid = mid + self["attn.b_O"][:, None]
        return self.after(mid, "ln1")

    def feed_forward(
        self, mid: Float[Tensor, "member row d_model"]
    ) -> Float[Tensor, "member row d_model"]:
        """Residual stream after the MLP (resid_post)."""
        matrix = self["mlp.W_in"]
        bias = self["mlp.b_in"] if self.model.train_biases else None
        x = mid
        if self.model.norm == "pre":
            matrix, shift = fold(matrix, self["ln2.w"], self["ln2.b"])
            bias = shift if bias is None else bias + shift
            x = normalise(mid, self.model)
        hidden = linear(x, matrix, bias)
        if self.model.act == "relu":
            hidden = hidden.relu_()  # nobody else needs what it writes over
        else:
            hidden = ACTIVATIONS[self.model.act](hidden)
        post = mid + torch.bmm(hidden, self["mlp.W_out"])
        if self.model.train_biases:
            post = post + self["mlp.b_out"][:, None]
        return self.after(post, "ln2")

    def after(
        self, x: Float[Tensor, "member row d_model"], name: str
    ) -> Float[Tensor, "member row d_model"]:
        """LayerNorm after the residual addition, if the model has it there."""
        if self.model.norm != "post":
            return x
        shift = self[f"{name}.b"][:, None]
        return torch.addcmul(shift, normalise(x, self.model), self[f"{name}.w"][:, None])


def split_heads(
    x: Float[Tensor, "member row all_heads"], length: int, heads: int, d_head: int
) -> Float[Tensor, "sequence pos d_head"]:
    """One sequence for each member, row and head."""
    if heads == 1:
        return x.view(-1, length, d_head)
    return x.reshape(-1, length, heads, d_head).transpose(1, 2).reshape(-1, length, d_head)


def token_embeddings(
    weights: StackedWeights, tokens: Int[Tensor, "member batch pos"]
) -> Float[Tensor, "member batch pos d_model"]:
    """Each member's own embedding of its tokens."""
    table = weights["embed.W_E"]
    members, d_vocab, d_model = table.shape
    shift = torch.arange(0, members * d_vocab, d_vocab, device=tokens.device).view(-1, 1, 1)
    return F.embedding(tokens + shift, table.reshape(members * d_vocab, d_model))


def one_layer_logits(
    weights: StackedWeights,
    tokens: Int[Tensor, "member batch pos"],
    model: ModelConfig,
    *,
    every_position: bool = False,
) -> Tensor:
    """Logits of the one-layer model, ``[member, batch, d_vocab]`` at the last position, or ``[...,
    pos, d_vocab]``."""
    length = tokens.shape[2]
    x = token_embeddings(weights, tokens)
    rows = x if every_position else x[:, :, -1:]
    w_q, w_k, w_v, w_o = (weights[f"blocks.0.attn.W_{name}"][:, 0] for name in "QKVO")
    q = _rows(rows, w_q) / math.sqrt(model.d_head)
    direction = _rows(q, w_k.mT)
    if every_position:
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        scores = (direction @ x.mT).masked_fill(future, -math.inf)
        context = scores.softmax(-1) @ x
    else:  # products this small cost more as matrix products
        pattern = (x * direction).sum(-1, keepdim=True).softmax(2)
        context = (pattern * x).sum(2, keepdim=True)
    mid = rows + _rows(_rows(context, w_v), w_o)
    hidden = ACTIVATIONS[model.act](_rows(mid, weights["blocks.0.mlp.W_in"]))
    logits = mid + _rows(hidden, weights["blocks.0.mlp.W_out"])
    return logits if every_position else logits[:, :, 0]


def _rows(
    x: Float[Tensor, "member batch pos d_in"], matrix: Float[Tensor, "member d_in d_out"]
) -> Tensor:
    """x W at every position, member by member."""
    members, batch, pos, d_in = x.shape
    return torch.bmm(x.reshape(members, batch * pos, d_in), matrix).view(members, batch, pos, -1)
