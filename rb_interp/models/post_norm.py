"""The post-norm transformer of the paper's group, with HookedTransformer's hooks, weights and names.

    resid_mid  = LN1(resid_pre + attn_out)
    resid_post = LN2(resid_mid + mlp_out)
    logits     = resid_post W_U + b_U

Paper 2, Eqs. (3)-(6), and the group's published code; there is no LayerNorm before the unembedding. Paper 1 leaves
its LayerNorm unstated. What misleads: ``resid_post`` is normalised, so contributions of layers do not add up to it
as they do in pre-norm models, and TransformerLens's decomposition helpers do not apply.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.hook_points import HookPoint

from rb_interp.errors import ModelError
from rb_interp.models.activations import ACTIVATIONS
from rb_interp.models.config import ModelConfig
from rb_interp.models.generations import lens_config
from rb_interp.models.hooked import HookedBlocks

# ruff: noqa: N802 (weights carry the field's names)

Resid = Float[Tensor, "batch pos d_model"]


class LayerNorm(nn.Module):
    """Centre, divide by the standard deviation, scale by ``w`` and shift by ``b``."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.eps = cfg.eps
        self.w = nn.Parameter(torch.ones(cfg.d_model, dtype=cfg.dtype))
        self.b = nn.Parameter(torch.zeros(cfg.d_model, dtype=cfg.dtype))
        self.hook_scale = HookPoint()  # [batch, pos, 1]
        self.hook_normalized = HookPoint()  # [batch, pos, d_model], before w and b

    def forward(self, x: Resid) -> Resid:
        if x.dtype not in (torch.float32, torch.float64):
            x = x.float()  # as HookedTransformer does
        x = x - x.mean(-1, keepdim=True)
        scale = self.hook_scale((x.pow(2).mean(-1, keepdim=True) + self.eps).sqrt())
        return self.hook_normalized(x / scale).to(self.w.dtype) * self.w + self.b


class Embed(nn.Module):
    """Token embedding."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_E = _empty(cfg, cfg.d_vocab, cfg.d_model)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Resid:
        return self.W_E[tokens]


class PosEmbed(nn.Module):
    """Learned position embedding."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_pos = _empty(cfg, cfg.n_ctx, cfg.d_model)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Resid:
        return self.W_pos[: tokens.shape[-1]].expand(len(tokens), -1, -1)


class Attention(nn.Module):
    """Causal attention, scores over sqrt(d_head)."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        heads, d_model, d_head = cfg.n_heads, cfg.d_model, cfg.d_head
        self.W_Q, self.W_K, self.W_V = (_empty(cfg, heads, d_model, d_head) for _ in range(3))
        self.W_O = _empty(cfg, heads, d_head, d_model)
        self.b_Q, self.b_K, self.b_V = (_empty(cfg, heads, d_head) for _ in range(3))
        self.b_O = _empty(cfg, d_model)
        self.scale = math.sqrt(d_head)
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()  # [batch, pos, head, d_head]
        self.hook_attn_scores = HookPoint()  # [batch, head, query, key], -inf above the diagonal
        self.hook_pattern = HookPoint()  # [batch, head, query, key]
        self.hook_z = HookPoint()  # [batch, pos, head, d_head]

    def forward(self, x: Resid) -> Resid:
        into = "batch pos d_model, head d_model d_head -> batch pos head d_head"
        q = self.hook_q(einsum(x, self.W_Q, into) + self.b_Q)
        k = self.hook_k(einsum(x, self.W_K, into) + self.b_K)
        v = self.hook_v(einsum(x, self.W_V, into) + self.b_V)
        scores = einsum(q, k, "batch query head d, batch key head d -> batch head query key") / self.scale
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = self.hook_attn_scores(scores.masked_fill(future, -torch.inf))
        pattern = self.hook_pattern(scores.softmax(-1))
        z = self.hook_z(einsum(pattern, v, "batch head query key, batch key head d -> batch query head d"))
        return einsum(z, self.W_O, "batch pos head d_head, head d_head d_model -> batch pos d_model") + self.b_O


class MLP(nn.Module):
    """Two linear maps with an activation between them."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_in, self.b_in = _empty(cfg, cfg.d_model, cfg.d_mlp), _empty(cfg, cfg.d_mlp)
        self.W_out, self.b_out = _empty(cfg, cfg.d_mlp, cfg.d_model), _empty(cfg, cfg.d_model)
        self.act_fn = ACTIVATIONS[cfg.act_fn]
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()  # [batch, pos, d_mlp]

    def forward(self, x: Resid) -> Resid:
        pre = self.hook_pre(x @ self.W_in + self.b_in)
        return self.hook_post(self.act_fn(pre)) @ self.W_out + self.b_out


class Block(nn.Module):
    """One layer: each sublayer's output is added, then the sum is normalised."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.ln1, self.attn = LayerNorm(cfg), Attention(cfg)
        self.ln2, self.mlp = LayerNorm(cfg), MLP(cfg)
        self.hook_resid_pre, self.hook_attn_out, self.hook_resid_mid = HookPoint(), HookPoint(), HookPoint()
        self.hook_mlp_out, self.hook_resid_post = HookPoint(), HookPoint()

    def forward(self, resid_pre: Resid) -> Resid:
        resid_pre = self.hook_resid_pre(resid_pre)
        attn_out = self.hook_attn_out(self.attn(resid_pre))
        resid_mid = self.hook_resid_mid(self.ln1(resid_pre + attn_out))
        mlp_out = self.hook_mlp_out(self.mlp(resid_mid))
        return self.hook_resid_post(self.ln2(resid_mid + mlp_out))


class Unembed(nn.Module):
    """Logits from the residual stream, with a bias."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_U, self.b_U = _empty(cfg, cfg.d_model, cfg.d_vocab), _empty(cfg, cfg.d_vocab)
        self.hook_in, self.hook_out = HookPoint(), HookPoint()

    def forward(self, resid: Resid) -> Float[Tensor, "batch pos d_vocab"]:
        return self.hook_out(self.hook_in(resid) @ self.W_U + self.b_U)


class PostNormTransformer(HookedBlocks):
    """A post-norm transformer to be used like a HookedTransformer; its weights hold 0 until written.

    Attributes:
        cfg: the same configuration object as that of the pre-norm model of these sizes.
        norm: ``post``, which ``cfg`` has no field for.

    Raises ModelError where ``config.norm`` is not ``post``.

    >>> model = PostNormTransformer(ModelConfig(norm="post"), d_vocab=200, n_ctx=9)
    >>> tuple(model.W_V.shape), tuple(model(torch.zeros(5, 9).long()).shape)
    ((2, 1, 64, 32), (5, 9, 200))
    """

    norm = "post"

    def __init__(self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        if config.norm != "post":
            raise ModelError(
                f"norm='{config.norm}' is no post-norm model; use rb_interp.models.generations.make_lens_model."
            )
        self.cfg = lens_config(config, d_vocab, n_ctx, dtype)
        self.embed, self.hook_embed = Embed(self.cfg), HookPoint()
        self.pos_embed, self.hook_pos_embed = PosEmbed(self.cfg), HookPoint()
        self.blocks = nn.ModuleList([Block(self.cfg) for _ in range(config.n_layers)])
        self.unembed = Unembed(self.cfg)
        self.setup()

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        resid = self.hook_embed(self.embed(tokens)) + self.hook_pos_embed(self.pos_embed(tokens))
        for block in self.blocks:
            resid = block(resid)
        return self.unembed(resid)

    @property
    def W_pos(self) -> Float[Tensor, "n_ctx d_model"]:
        """Position embedding."""
        return self.pos_embed.W_pos

    @property
    def W_U(self) -> Float[Tensor, "d_model d_vocab"]:
        """Unembedding."""
        return self.unembed.W_U

    @property
    def b_U(self) -> Float[Tensor, " d_vocab"]:
        """Bias of the unembedding."""
        return self.unembed.b_U


def _empty(cfg: Any, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape, dtype=cfg.dtype))
