"""Models ready to train or to probe: an architecture, a scheme's draws, and what stays frozen.

Three architectures are our own, hooked and named as HookedTransformer is:

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
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import ActivationCache, FactoredMatrix, HookedRootModule
from transformer_lens.hook_points import HookPoint

from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.models import protocol
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.models.schemes import DRAWN, Drawn, draw, parameters

# ruff: noqa: N815 (weights carry the field's names)

Resid = Float[Tensor, "batch pos d_model"]


@checked
def build_model(
    task: Any,
    gamma: float | None = None,
    norm: str | None = None,
    scheme: str | None = None,
    seed: int = 0,
    *,
    config: ModelConfig | None = None,
    dtype: torch.dtype = torch.float32,
    **sizes: Any,
) -> HookedModel:
    """An untrained model for a task, every weight drawn by a named scheme (``models.schemes``), on
    CPU.

    A HookedTransformer (a native TransformerBridge on TransformerLens 4), a PostNormTransformer for
    ``post``, or the EmbMLP or OneLayer that ``architecture`` asks for. Models of one seed share
    their standard normal draws: between gammas each matrix differs by one factor. Biases other than
    b_U are frozen at 0 unless ``train_biases=True``; the caller's random state stays as it was.

    Args:
        task: an AnchorTask, or anything with ``d_vocab`` and ``length``.
        gamma: initialisation rate, std = d_in^-gamma (paper 1, section "Initialization"); 0.5 is
            near the usual default, larger is a smaller initialisation. ``scheme="torch_default"``
            has no use for it.
        norm, scheme: override those of ``config``, which are ``none`` and ``fan_in`` by default.
        seed: of the normal draws. dtype: of the weights.
        config: sizes and all else; by default those of the preset ``quick``.
        sizes: single fields of ModelConfig, over ``config``.

    Raises ModelError for an unknown size, sizes that the architecture does not allow, a scheme
    without the gamma it needs, and a task without the two sizes.

    >>> from rb_interp.tasks.anchor import AnchorTask
    >>> model = build_model(AnchorTask(), gamma=0.8, n_heads=2)
    >>> tuple(model.W_V.shape), round(model.W_E.std().item() * 64**0.8, 1)
    ((2, 2, 64, 32), 1.0)
    """
    given = {
        name: value
        for name, value in {"norm": norm, "scheme": scheme, **sizes}.items()
        if value is not None
    }
    config = replace(config or ModelConfig(), **given)
    if isinstance(task, type) or not all(
        isinstance(getattr(task, name, None), int) for name in ("d_vocab", "length")
    ):
        raise ModelError(
            f"a {type(task).__name__} tells no vocabulary and length; pass an AnchorTask, or "
            f"anything with "
            f"d_vocab and length."
        )
    weights = draw(config, task.d_vocab, task.length, gamma, seed)
    model = lens_model(config, task.d_vocab, task.length, weights, dtype)
    DRAWN[model] = Drawn(config, gamma)
    return model


def lens_model(
    config: ModelConfig,
    d_vocab: int,
    n_ctx: int,
    weights: Mapping[str, Tensor | np.ndarray],
    dtype: torch.dtype = torch.float32,
) -> HookedModel:
    """A model that holds given weights, by TransformerLens name: a trained member, for instance.

    ``protocol.write_weights`` puts ``exported(weights, config)`` of another member of this shape
    into it. Raises ModelError where a weight is missing, unknown or of another shape.
    """
    transformer = PostNormTransformer if config.norm == "post" else protocol.make_lens_model
    model = SIMPLIFIED.get(config.architecture, transformer)(config, d_vocab, n_ctx, dtype)
    protocol.write_weights(model, exported(weights, config))
    held = protocol.live_parameters(model)
    for parameter in parameters(config, d_vocab, n_ctx):
        held[parameter.name].requires_grad_(parameter.trained)
    return model.eval()  # nothing here depends on the mode, but patching helpers ask for it


def exported(
    weights: Mapping[str, Tensor | np.ndarray], config: ModelConfig
) -> dict[str, Tensor | np.ndarray]:
    """A member's weights as a TransformerLens model holds them: with a copy of a tied embedding as
    the unembedding.

    >>> weights = {"embed.W_E": np.ones((5, 3))}
    >>> {name: value.shape for name, value in exported(weights, ModelConfig(tied=True)).items()}
    {'embed.W_E': (5, 3), 'unembed.W_U': (3, 5), 'unembed.b_U': (5,)}
    """
    if not config.tied or "embed.W_E" not in weights:
        return dict(weights)
    W_E = weights["embed.W_E"]
    return {**weights, "unembed.W_U": W_E.T, "unembed.b_U": 0 * W_E[:, 0]}


def _held(module: str, name: str) -> property:
    """A weight of one module."""
    return property(lambda model: getattr(getattr(model, module), name))


def _stacked(module: str, name: str) -> property:
    """A weight of every layer, stacked along a leading layer axis."""
    return property(
        lambda model: torch.stack([getattr(getattr(block, module), name) for block in model.blocks])
    )


class HookedBase(HookedRootModule):
    """A hooked model with a token embedding ``embed`` and TransformerLens's configuration ``cfg``;
    weights hold 0."""

    W_E = _held("embed", "W_E")  # [d_vocab, d_model]

    def __init__(
        self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.cfg = protocol.lens_config(config, d_vocab, n_ctx, dtype)
        self.embed, self.hook_embed = Embed(self.cfg), HookPoint()

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

    W_Q, W_K, W_V, W_O = (_stacked("attn", name) for name in ("W_Q", "W_K", "W_V", "W_O"))
    b_Q, b_K, b_V, b_O = (_stacked("attn", name) for name in ("b_Q", "b_K", "b_V", "b_O"))
    W_in, b_in, W_out, b_out = (
        _stacked("mlp", name) for name in ("W_in", "b_in", "W_out", "b_out")
    )
    QK = property(
        lambda model: FactoredMatrix(model.W_Q, model.W_K.transpose(-2, -1))
    )  # what each head matches
    OV = property(lambda model: FactoredMatrix(model.W_V, model.W_O))  # what each head moves


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
        heads, d_model, d_head = cfg.n_heads, cfg.d_model, cfg.d_head
        self.W_Q, self.W_K, self.W_V = (_empty(cfg, heads, d_model, d_head) for _ in range(3))
        self.W_O = _empty(cfg, heads, d_head, d_model)
        self.b_Q, self.b_K, self.b_V = (_empty(cfg, heads, d_head) for _ in range(3))
        self.b_O = _empty(cfg, d_model)
        self.scale = math.sqrt(d_head)
        self.hook_q, self.hook_k, self.hook_v = (
            HookPoint(),
            HookPoint(),
            HookPoint(),
        )  # [batch, pos, head, d_head]
        self.hook_attn_scores = HookPoint()  # [batch, head, query, key], -inf above the diagonal
        self.hook_pattern = HookPoint()  # [batch, head, query, key]
        self.hook_z = HookPoint()  # [batch, pos, head, d_head]

    def forward(self, x: Resid) -> Resid:
        into = "batch pos d_model, head d_model d_head -> batch pos head d_head"
        q = self.hook_q(einsum(x, self.W_Q, into) + self.b_Q)
        k = self.hook_k(einsum(x, self.W_K, into) + self.b_K)
        v = self.hook_v(einsum(x, self.W_V, into) + self.b_V)
        scores = (
            einsum(q, k, "batch query head d, batch key head d -> batch head query key")
            / self.scale
        )
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        scores = self.hook_attn_scores(scores.masked_fill(future, -torch.inf))
        pattern = self.hook_pattern(scores.softmax(-1))
        z = self.hook_z(
            einsum(pattern, v, "batch head query key, batch key head d -> batch query head d")
        )
        return (
            einsum(z, self.W_O, "batch pos head d_head, head d_head d_model -> batch pos d_model")
            + self.b_O
        )


class MLP(nn.Module):
    """Two linear maps with an activation between them."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_in, self.b_in = _empty(cfg, cfg.d_model, cfg.d_mlp), _empty(cfg, cfg.d_mlp)
        self.W_out, self.b_out = _empty(cfg, cfg.d_mlp, cfg.d_model), _empty(cfg, cfg.d_model)
        self.act_fn = protocol.ACTIVATIONS[cfg.act_fn]
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
        self.hook_resid_pre, self.hook_attn_out, self.hook_resid_mid = (
            HookPoint(),
            HookPoint(),
            HookPoint(),
        )
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
    """A post-norm transformer to be used like a HookedTransformer; ``cfg`` is that of the pre-norm
    model.

    >>> model = PostNormTransformer(ModelConfig(norm="post"), d_vocab=200, n_ctx=9)
    >>> tuple(model.W_V.shape), tuple(model(torch.zeros(5, 9).long()).shape)
    ((2, 1, 64, 32), (5, 9, 200))
    """

    W_pos = _held("pos_embed", "W_pos")  # [n_ctx, d_model]
    W_U, b_U = _held("unembed", "W_U"), _held("unembed", "b_U")  # [d_model, d_vocab], [d_vocab]

    def __init__(
        self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(config, d_vocab, n_ctx, dtype)
        self.pos_embed, self.hook_pos_embed = PosEmbed(self.cfg), HookPoint()
        self.blocks = nn.ModuleList([Block(self.cfg) for _ in range(config.n_layers)])
        self.unembed = Unembed(self.cfg)
        self.setup()

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        resid = self.hook_embed(self.embed(tokens)) + self.hook_pos_embed(self.pos_embed(tokens))
        for block in self.blocks:
            resid = block(resid)
        return self.unembed(resid)


class SumMLP(nn.Module):
    """act(x W_in) W_out without biases, from the sum of embeddings to logits."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_in, self.W_out = (
            _empty(cfg, cfg.d_model, cfg.d_mlp),
            _empty(cfg, cfg.d_mlp, cfg.d_vocab),
        )
        self.act_fn = protocol.ACTIVATIONS[cfg.act_fn]
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()  # [batch, 1, d_mlp]

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

    W_in, W_out = _held("mlp", "W_in"), _held("mlp", "W_out")  # [d_model, d_mlp], [d_mlp, d_vocab]

    def __init__(
        self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(config, d_vocab, n_ctx, dtype)
        self.cfg.n_layers = self.cfg.n_heads = 0
        self.mlp = SumMLP(self.cfg)
        self.hook_sum, self.hook_logits = HookPoint(), HookPoint()
        self.setup()

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

    def __init__(
        self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(config, d_vocab, n_ctx, dtype)
        block: Any = Block(self.cfg)
        block.ln1, block.ln2 = nn.Identity(), nn.Identity()
        self.blocks = nn.ModuleList([block])
        self.setup()
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(".b_" not in name)

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        return self.blocks[0](self.hook_embed(self.embed(tokens)))


SIMPLIFIED = {"emb_mlp": EmbMLP, "one_layer": OneLayer}
