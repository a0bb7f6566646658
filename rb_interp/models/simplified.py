r"""The two simplified models that paper 1 proves things about, with a hook point on every intermediate.

    EmbMLP    Definition 1:  logits = act( (sum over positions of W_E[token]) W_in ) W_out
    OneLayer  Definition 2, Eq. (9):  resid_mid = x + attention(x), x = W_E[tokens];
              logits = resid_post = resid_mid + act(resid_mid W_in) W_out

Neither has positions, LayerNorm, an unembedding or a bias. The paper's assumptions on act (twice differentiable,
act(0) = 0, act'(0) = 1) hold for ``tanh`` and not for ``relu`` and ``gelu``.

What misleads: an EmbMLP sees how often each token occurs and nothing else, so it cannot tell key from noise, nor one
order of two anchors from the other. In OneLayer a residual stream *is* a vector of logits: d_model is d_vocab, and a
token votes for the labels that its embedding has large entries at.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import ActivationCache, FactoredMatrix, HookedRootModule
from transformer_lens.hook_points import HookPoint
from transformer_lens.utilities import lm_cross_entropy_loss

from rb_interp.errors import ModelError, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.lens import lens_config
from rb_interp.models.post_norm import ACTIVATION, Block, Embed
from rb_interp.models.schemes import parameters

# ruff: noqa: N802, N815 (weights carry the field's names)


class Simplified(HookedRootModule):
    """What the two models share: embedding, checks, return types and the cache; weights hold 0 until written."""

    architecture: ClassVar[str]
    return_types: ClassVar[tuple[str, ...]]

    def __init__(self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        if config.architecture != self.architecture:
            raise ModelError(
                f"architecture='{config.architecture}' makes no {type(self).__name__}; use "
                f"architecture='{self.architecture}', or rb_interp.models.build.lens_model, which picks the class."
            )
        self.cfg = lens_config(config, d_vocab, n_ctx, dtype)
        self.embed, self.hook_embed = Embed(self.cfg), HookPoint()

    def finish(self, config: ModelConfig) -> None:
        """Name the hook points and freeze what the architecture does not train."""
        self.setup()
        for parameter in parameters(config, self.cfg.d_vocab, self.cfg.n_ctx):
            self.get_parameter(parameter.name).requires_grad_(parameter.trained)

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch answer d_vocab"]:
        """The forward pass itself; the last answer is the row's."""
        raise NotImplementedError

    def forward(self, input: Int[Tensor, "*batch pos"], return_type: str | None = "logits") -> Any:
        """Logits ``[batch, pos, d_vocab]`` (one position for EmbMLP), or None for hooks alone.

        OneLayer also gives the mean next-token ``loss`` in nats, or ``both``. A single row of tokens counts as a batch
        of one. Raises ModelError for any other ``return_type`` and for more positions than ``n_ctx``.
        """
        if return_type is not None and return_type not in self.return_types:
            hint = nearest(str(return_type), self.return_types)
            raise ModelError(f"return_type='{return_type}' of a {type(self).__name__}; {hint}, or None.")
        tokens = input[None] if input.ndim == 1 else input
        if tokens.shape[1] > self.cfg.n_ctx:
            raise ModelError(
                f"{tokens.shape[1]} positions; this model holds n_ctx={self.cfg.n_ctx}. Pass shorter rows."
            )
        logits = self.logits(tokens)
        if return_type in (None, "logits"):
            return logits if return_type else None
        loss = lm_cross_entropy_loss(logits, tokens)
        return loss if return_type == "loss" else (logits, loss)

    def run_with_cache(self, *args: Any, return_cache_object: bool = True, **kwargs: Any) -> tuple[Any, Any]:
        """Output and activations, as in HookedTransformer: an ActivationCache, or a plain dictionary."""
        out, cache = super().run_with_cache(*args, **kwargs)
        if return_cache_object:
            cache = ActivationCache(cache, self, has_batch_dim=not kwargs.get("remove_batch_dim", False))
        return out, cache

    @property
    def W_E(self) -> Float[Tensor, "d_vocab d_model"]:
        return self.embed.W_E


class SumMLP(nn.Module):
    """act(x W_in) W_out without biases, from the sum of embeddings to logits."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_in = nn.Parameter(torch.zeros(cfg.d_model, cfg.d_mlp, dtype=cfg.dtype))
        self.W_out = nn.Parameter(torch.zeros(cfg.d_mlp, cfg.d_vocab, dtype=cfg.dtype))
        self.act_fn = ACTIVATION[cfg.act_fn]
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()  # [batch, 1, d_mlp]

    def forward(self, x: Float[Tensor, "batch 1 d_model"]) -> Float[Tensor, "batch 1 d_vocab"]:
        return self.hook_post(self.act_fn(self.hook_pre(x @ self.W_in))) @ self.W_out


class EmbMLP(Simplified):
    """An MLP on the sum of embeddings, whatever their order (paper 1, Definition 1): one answer for each row.

    Hooks: ``hook_embed`` [batch, pos, d_model], ``hook_sum`` [batch, 1, d_model], ``mlp.hook_pre`` and
    ``mlp.hook_post`` [batch, 1, d_mlp], ``hook_logits`` [batch, 1, d_vocab]. Rows may have any length up to ``n_ctx``.
    ``cfg`` says 0 layers and 0 heads, since it has no transformer block.

    Raises ModelError where ``config.architecture`` is not ``emb_mlp``.

    >>> model = EmbMLP(ModelConfig(architecture="emb_mlp", n_layers=1, act="tanh"), d_vocab=200, n_ctx=3)
    >>> tuple(model(torch.zeros(5, 3).long()).shape), [name for name, _ in model.named_parameters()]
    ((5, 1, 200), ['embed.W_E', 'mlp.W_in', 'mlp.W_out'])
    """

    architecture = "emb_mlp"
    return_types = ("logits",)

    def __init__(self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(config, d_vocab, n_ctx, dtype)
        self.cfg.n_layers = self.cfg.n_heads = 0
        self.mlp = SumMLP(self.cfg)
        self.hook_sum, self.hook_logits = HookPoint(), HookPoint()
        self.finish(config)

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch 1 d_vocab"]:
        total = self.hook_sum(self.hook_embed(self.embed(tokens)).sum(1, keepdim=True))
        return self.hook_logits(self.mlp(total))

    @property
    def W_in(self) -> Float[Tensor, "d_model d_mlp"]:
        return self.mlp.W_in

    @property
    def W_out(self) -> Float[Tensor, "d_mlp d_vocab"]:
        return self.mlp.W_out


def _of_the_layer(module: str, name: str) -> property:
    """A weight of the single layer with a leading layer axis, as in HookedTransformer."""
    return property(lambda model: getattr(getattr(model.blocks[0], module), name)[None])


class OneLayer(Simplified):
    """One transformer layer read as logits (paper 1, Definition 2, Eq. 9), with HookedTransformer's names and hooks.

    ``blocks.0.hook_resid_post`` holds the logits. The biases that the names include are frozen at 0.

    Raises ModelError where ``config.architecture`` is not ``one_layer``, and where d_model is not d_vocab.

    >>> config = ModelConfig(architecture="one_layer", n_layers=1, act="tanh", d_model=100)
    >>> model = OneLayer(config, d_vocab=100, n_ctx=3)
    >>> tuple(model.W_V.shape), tuple(model(torch.zeros(5, 3).long()).shape)
    ((1, 1, 100, 32), (5, 3, 100))
    """

    architecture = "one_layer"
    return_types = ("logits", "loss", "both")

    def __init__(self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(config, d_vocab, n_ctx, dtype)
        block = Block(self.cfg)
        for name in ("ln1", "ln2"):
            block.register_module(name, nn.Identity())
        self.blocks = nn.ModuleList([block])
        self.finish(config)

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        return self.blocks[0](self.hook_embed(self.embed(tokens)))

    W_Q, W_K, W_V, W_O = (_of_the_layer("attn", name) for name in ("W_Q", "W_K", "W_V", "W_O"))
    b_Q, b_K, b_V, b_O = (_of_the_layer("attn", name) for name in ("b_Q", "b_K", "b_V", "b_O"))
    W_in, b_in, W_out, b_out = (_of_the_layer("mlp", name) for name in ("W_in", "b_in", "W_out", "b_out"))

    @property
    def QK(self) -> FactoredMatrix:
        return FactoredMatrix(self.W_Q, self.W_K.transpose(-2, -1))

    @property
    def OV(self) -> FactoredMatrix:
        return FactoredMatrix(self.W_V, self.W_O)
