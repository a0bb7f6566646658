"""Three architectures of our own, hooked and named as HookedTransformer is.

    PostNormTransformer  resid_mid = LN1(resid_pre + attn_out);  resid_post = LN2(resid_mid +
    mlp_out)
                         logits = resid_post W_U + b_U
    EmbMLP               Definition 1:  logits = act( (sum over positions of W_E[token]) W_in ) W_out
    OneLayer             Definition 2, Eq. (9):  resid_mid = x + attention(x), x = W_E[tokens];
                         logits = resid_post = resid_mid + act(resid_mid W_in) W_out

The first is that of the paper's group (paper 2, Eqs. (3)-(6), and its published code); paper 1
leaves its LayerNorm unstated. Paper 1 proves things about the other two. docs/models.md and
docs/theory.md say how each can mislead.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import ActivationCache, FactoredMatrix, HookedRootModule
from transformer_lens.hook_points import HookPoint

from rb_interp.errors import ModelError
from rb_interp.models import protocol
from rb_interp.models.config import ModelConfig

# ruff: noqa: N802, N815 (weights carry the field's names)

Resid = Float[Tensor, "batch pos d_model"]


def _weight(module: str, name: str) -> property:
    """A weight of one module."""
    return property(lambda model: getattr(getattr(model, module), name))


def _stacked(module: str, name: str) -> property:
    """A weight of every layer, stacked along a leading layer axis."""

    def weights(model: Any) -> Tensor:
        return torch.stack([getattr(getattr(block, module), name) for block in model.blocks])

    return property(weights)


class HookedBase(HookedRootModule):
    """A hooked model with a token embedding ``embed`` and TransformerLens's configuration ``cfg``;
    weights hold 0."""

    W_E = _weight("embed", "W_E")  # [d_vocab, d_model]

    def __init__(
        self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.cfg = protocol.lens_config(config, d_vocab, n_ctx, dtype)
        self.cfg.act_fn = config.act
        self.embed = Embed(self.cfg)
        self.hook_embed = HookPoint()
        self.build()
        self.setup()

    def build(self) -> None:
        """Make what comes after the embedding."""

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch answer d_vocab"]:
        """The forward pass itself; the last answer is the row's."""
        raise NotImplementedError

    def forward(self, input: Int[Tensor, "*batch pos"], return_type: str | None = "logits") -> Any:
        """Logits ``[batch, pos, d_vocab]``, or None for hooks alone; a row of tokens counts as a
        batch of one.

        Raises ModelError for another ``return_type`` and for more positions than ``n_ctx``.
        """
        if return_type not in ("logits", None):
            raise ModelError(
                f"return_type='{return_type}' of a {type(self).__name__}; it has 'logits' and None."
            )
        tokens = input[None] if input.ndim == 1 else input
        if tokens.shape[1] > self.cfg.n_ctx:
            raise ModelError(
                f"{tokens.shape[1]} positions; this model holds n_ctx={self.cfg.n_ctx}. Pass "
                f"shorter rows."
            )
        logits = self.logits(tokens)
        return logits if return_type else None

    def run_with_cache(
        self, *args: Any, return_cache_object: bool = True, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Output and activations, as in HookedTransformer: an ActivationCache, or a plain
        dictionary."""
        out, cache = super().run_with_cache(*args, **kwargs)
        if return_cache_object:
            cache = ActivationCache(
                cache, self, has_batch_dim=not kwargs.get("remove_batch_dim", False)
            )
        return out, cache


class HookedBlocks(HookedBase):
    """A hooked model whose ``blocks`` have attention and MLP: their weights as HookedTransformer
    gives them."""

    W_Q = _stacked("attn", "W_Q")
    W_K = _stacked("attn", "W_K")
    W_V = _stacked("attn", "W_V")
    W_O = _stacked("attn", "W_O")
    b_Q = _stacked("attn", "b_Q")
    b_K = _stacked("attn", "b_K")
    b_V = _stacked("attn", "b_V")
    b_O = _stacked("attn", "b_O")
    W_in = _stacked("mlp", "W_in")
    b_in = _stacked("mlp", "b_in")
    W_out = _stacked("mlp", "W_out")
    b_out = _stacked("mlp", "b_out")

    @property
    def QK(self) -> FactoredMatrix:
        """What each head matches."""
        return FactoredMatrix(self.W_Q, self.W_K.transpose(-2, -1))

    @property
    def OV(self) -> FactoredMatrix:
        """What each head moves."""
        return FactoredMatrix(self.W_V, self.W_O)


def _empty(cfg: Any, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape, dtype=cfg.dtype))


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
        self.W_Q = _empty(cfg, cfg.n_heads, cfg.d_model, cfg.d_head)
        self.W_K = _empty(cfg, cfg.n_heads, cfg.d_model, cfg.d_head)
        self.W_V = _empty(cfg, cfg.n_heads, cfg.d_model, cfg.d_head)
        self.W_O = _empty(cfg, cfg.n_heads, cfg.d_head, cfg.d_model)
        self.b_Q = _empty(cfg, cfg.n_heads, cfg.d_head)
        self.b_K = _empty(cfg, cfg.n_heads, cfg.d_head)
        self.b_V = _empty(cfg, cfg.n_heads, cfg.d_head)
        self.b_O = _empty(cfg, cfg.d_model)
        self.scale = math.sqrt(cfg.d_head)
        self.hook_q = HookPoint()  # [batch, pos, head, d_head]
        self.hook_k = HookPoint()
        self.hook_v = HookPoint()
        self.hook_attn_scores = HookPoint()  # [batch, head, query, key], -inf above the diagonal
        self.hook_pattern = HookPoint()  # [batch, head, query, key]
        self.hook_z = HookPoint()  # [batch, pos, head, d_head]

    def forward(self, x: Resid) -> Resid:
        into = "batch pos d_model, head d_model d_head -> batch pos head d_head"
        q = self.hook_q(einsum(x, self.W_Q, into) + self.b_Q)
        k = self.hook_k(einsum(x, self.W_K, into) + self.b_K)
        v = self.hook_v(einsum(x, self.W_V, into) + self.b_V)
        scores = einsum(q, k, "batch query head d, batch key head d -> batch head query key")
        scores = scores / self.scale
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = self.hook_attn_scores(scores.masked_fill(future, -torch.inf))
        pattern = self.hook_pattern(scores.softmax(-1))
        z = einsum(pattern, v, "batch head query key, batch key head d -> batch query head d")
        z = self.hook_z(z)
        out = "batch pos head d_head, head d_head d_model -> batch pos d_model"
        return einsum(z, self.W_O, out) + self.b_O


class MLP(nn.Module):
    """Two linear maps with an activation between them."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_in = _empty(cfg, cfg.d_model, cfg.d_mlp)
        self.b_in = _empty(cfg, cfg.d_mlp)
        self.W_out = _empty(cfg, cfg.d_mlp, cfg.d_model)
        self.b_out = _empty(cfg, cfg.d_model)
        self.act_fn = protocol.ACTIVATIONS[cfg.act_fn]
        self.hook_pre = HookPoint()  # [batch, pos, d_mlp]
        self.hook_post = HookPoint()

    def forward(self, x: Resid) -> Resid:
        pre = self.hook_pre(x @ self.W_in + self.b_in)
        return self.hook_post(self.act_fn(pre)) @ self.W_out + self.b_out


class Block(nn.Module):
    """One layer: each sublayer's output is added, then the sum is normalised."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.ln1 = LayerNorm(cfg)
        self.attn = Attention(cfg)
        self.ln2 = LayerNorm(cfg)
        self.mlp = MLP(cfg)
        self.hook_resid_pre = HookPoint()
        self.hook_attn_out = HookPoint()
        self.hook_resid_mid = HookPoint()
        self.hook_mlp_out = HookPoint()
        self.hook_resid_post = HookPoint()

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
        self.W_U = _empty(cfg, cfg.d_model, cfg.d_vocab)
        self.b_U = _empty(cfg, cfg.d_vocab)
        self.hook_in = HookPoint()
        self.hook_out = HookPoint()

    def forward(self, resid: Resid) -> Float[Tensor, "batch pos d_vocab"]:
        return self.hook_out(self.hook_in(resid) @ self.W_U + self.b_U)


class PostNormTransformer(HookedBlocks):
    """A post-norm transformer to be used like a HookedTransformer; ``cfg`` is that of the pre-norm
    model.

    >>> model = PostNormTransformer(ModelConfig(norm="post"), d_vocab=200, n_ctx=9)
    >>> tuple(model.W_V.shape), tuple(model(torch.zeros(5, 9).long()).shape)
    ((2, 1, 64, 32), (5, 9, 200))
    """

    W_pos = _weight("pos_embed", "W_pos")  # [n_ctx, d_model]
    W_U = _weight("unembed", "W_U")  # [d_model, d_vocab]
    b_U = _weight("unembed", "b_U")  # [d_vocab]

    def build(self) -> None:
        self.pos_embed = PosEmbed(self.cfg)
        self.hook_pos_embed = HookPoint()
        self.blocks = nn.ModuleList([Block(self.cfg) for _ in range(self.cfg.n_layers)])
        self.unembed = Unembed(self.cfg)

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        resid = self.hook_embed(self.embed(tokens)) + self.hook_pos_embed(self.pos_embed(tokens))
        for block in self.blocks:
            resid = block(resid)
        return self.unembed(resid)


class SumMLP(nn.Module):
    """act(x W_in) W_out without biases, from the sum of embeddings to logits."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_in = _empty(cfg, cfg.d_model, cfg.d_mlp)
        self.W_out = _empty(cfg, cfg.d_mlp, cfg.d_vocab)
        self.act_fn = protocol.ACTIVATIONS[cfg.act_fn]
        self.hook_pre = HookPoint()  # [batch, 1, d_mlp]
        self.hook_post = HookPoint()

    def forward(self, x: Float[Tensor, "batch 1 d_model"]) -> Float[Tensor, "batch 1 d_vocab"]:
        return self.hook_post(self.act_fn(self.hook_pre(x @ self.W_in))) @ self.W_out


class EmbMLP(HookedBase):
    """An MLP on the sum of embeddings, whatever their order (paper 1, Definition 1): one answer for
    each row.

    Hooks: ``hook_embed`` [batch, pos, d_model], ``hook_sum`` [batch, 1, d_model], ``mlp.hook_pre``
    and ``mlp.hook_post`` [batch, 1, d_mlp], ``hook_logits`` [batch, 1, d_vocab]. Rows may have any
    length up to ``n_ctx``. ``cfg`` says 0 layers and 0 heads, since it has no transformer block.

    >>> model = EmbMLP(ModelConfig(architecture="emb_mlp", n_layers=1, act="tanh"), d_vocab=200, n_ctx=3)
    >>> tuple(model(torch.zeros(5, 3).long()).shape), [name for name, _ in model.named_parameters()]
    ((5, 1, 200), ['embed.W_E', 'mlp.W_in', 'mlp.W_out'])
    """

    W_in = _weight("mlp", "W_in")  # [d_model, d_mlp]
    W_out = _weight("mlp", "W_out")  # [d_mlp, d_vocab]

    def build(self) -> None:
        self.cfg.n_layers = 0
        self.cfg.n_heads = 0
        self.mlp = SumMLP(self.cfg)
        self.hook_sum = HookPoint()
        self.hook_logits = HookPoint()

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch 1 d_vocab"]:
        total = self.hook_sum(self.hook_embed(self.embed(tokens)).sum(1, keepdim=True))
        return self.hook_logits(self.mlp(total))


class OneLayer(HookedBlocks):
    """One transformer layer read as logits (paper 1, Definition 2, Eq. 9), with HookedTransformer's
    names and hooks.

    ``blocks.0.hook_resid_post`` holds the logits. Its attention and MLP have biases, which stay at
    0.

    >>> config = ModelConfig(architecture="one_layer", n_layers=1, act="tanh", d_model=100)
    >>> model = OneLayer(config, d_vocab=100, n_ctx=3)
    >>> tuple(model.W_V.shape), tuple(model(torch.zeros(5, 3).long()).shape)
    ((1, 1, 100, 32), (5, 3, 100))
    """

    def build(self) -> None:
        block: Any = Block(self.cfg)
        block.ln1 = nn.Identity()
        block.ln2 = nn.Identity()
        self.blocks = nn.ModuleList([block])
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(".b_" not in name)

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        return self.blocks[0](self.hook_embed(self.embed(tokens)))
