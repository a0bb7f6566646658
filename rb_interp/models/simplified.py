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
from transformer_lens.hook_points import HookPoint

from rb_interp.errors import ModelError
from rb_interp.models.activations import ACTIVATIONS
from rb_interp.models.config import ModelConfig
from rb_interp.models.generations import lens_config
from rb_interp.models.hooked import HookedBase, HookedBlocks
from rb_interp.models.post_norm import Block, Embed
from rb_interp.models.schemes import parameters

# ruff: noqa: N802 (weights carry the field's names)


def check_architecture(config: ModelConfig, wanted: str, kind: str) -> None:
    """Raise ModelError where a configuration is of another architecture than the class that it was given to."""
    if config.architecture != wanted:
        raise ModelError(
            f"architecture='{config.architecture}' makes no {kind}; use architecture='{wanted}', or "
            f"rb_interp.models.build.lens_model, which picks the class."
        )


def finish(model: HookedBase, config: ModelConfig) -> None:
    """Name the hook points and freeze what the architecture does not train."""
    model.setup()
    for parameter in parameters(config, model.cfg.d_vocab, model.cfg.n_ctx):
        model.get_parameter(parameter.name).requires_grad_(parameter.trained)


class SumMLP(nn.Module):
    """act(x W_in) W_out without biases, from the sum of embeddings to logits."""

    def __init__(self, cfg: Any) -> None:
        super().__init__()
        self.W_in = nn.Parameter(torch.zeros(cfg.d_model, cfg.d_mlp, dtype=cfg.dtype))
        self.W_out = nn.Parameter(torch.zeros(cfg.d_mlp, cfg.d_vocab, dtype=cfg.dtype))
        self.act_fn = ACTIVATIONS[cfg.act_fn]
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()  # [batch, 1, d_mlp]

    def forward(self, x: Float[Tensor, "batch 1 d_model"]) -> Float[Tensor, "batch 1 d_vocab"]:
        return self.hook_post(self.act_fn(self.hook_pre(x @ self.W_in))) @ self.W_out


class EmbMLP(HookedBase):
    """An MLP on the sum of embeddings, whatever their order (paper 1, Definition 1): one answer for each row.

    Hooks: ``hook_embed`` [batch, pos, d_model], ``hook_sum`` [batch, 1, d_model], ``mlp.hook_pre`` and
    ``mlp.hook_post`` [batch, 1, d_mlp], ``hook_logits`` [batch, 1, d_vocab]. Rows may have any length up to ``n_ctx``.
    ``cfg`` says 0 layers and 0 heads, since it has no transformer block.

    Raises ModelError where ``config.architecture`` is not ``emb_mlp``.

    >>> model = EmbMLP(ModelConfig(architecture="emb_mlp", n_layers=1, act="tanh"), d_vocab=200, n_ctx=3)
    >>> tuple(model(torch.zeros(5, 3).long()).shape), [name for name, _ in model.named_parameters()]
    ((5, 1, 200), ['embed.W_E', 'mlp.W_in', 'mlp.W_out'])
    """

    return_types: ClassVar[tuple[str, ...]] = ("logits",)  # one answer has no next token

    def __init__(self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        check_architecture(config, "emb_mlp", "EmbMLP")
        self.cfg = lens_config(config, d_vocab, n_ctx, dtype)
        self.cfg.n_layers = self.cfg.n_heads = 0
        self.embed, self.hook_embed = Embed(self.cfg), HookPoint()
        self.mlp = SumMLP(self.cfg)
        self.hook_sum, self.hook_logits = HookPoint(), HookPoint()
        finish(self, config)

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch 1 d_vocab"]:
        total = self.hook_sum(self.hook_embed(self.embed(tokens)).sum(1, keepdim=True))
        return self.hook_logits(self.mlp(total))

    @property
    def W_in(self) -> Float[Tensor, "d_model d_mlp"]:
        """Input weights of the MLP."""
        return self.mlp.W_in

    @property
    def W_out(self) -> Float[Tensor, "d_mlp d_vocab"]:
        """Output weights, which give the logits."""
        return self.mlp.W_out


class OneLayer(HookedBlocks):
    """One transformer layer read as logits (paper 1, Definition 2, Eq. 9), with HookedTransformer's names and hooks.

    ``blocks.0.hook_resid_post`` holds the logits. The biases that the names include are frozen at 0.

    Raises ModelError where ``config.architecture`` is not ``one_layer``, and where d_model is not d_vocab.

    >>> config = ModelConfig(architecture="one_layer", n_layers=1, act="tanh", d_model=100)
    >>> model = OneLayer(config, d_vocab=100, n_ctx=3)
    >>> tuple(model.W_V.shape), tuple(model(torch.zeros(5, 3).long()).shape)
    ((1, 1, 100, 32), (5, 3, 100))
    """

    def __init__(self, config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        check_architecture(config, "one_layer", "OneLayer")
        self.cfg = lens_config(config, d_vocab, n_ctx, dtype)
        self.embed, self.hook_embed = Embed(self.cfg), HookPoint()
        block = Block(self.cfg)
        for name in ("ln1", "ln2"):
            block.register_module(name, nn.Identity())
        self.blocks = nn.ModuleList([block])
        finish(self, config)

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        return self.blocks[0](self.hook_embed(self.embed(tokens)))
