"""What our own hooked models share: how they are called, what they return, and where their weights are found.

Everything here has HookedTransformer's names and meanings; a model says how it computes its logits.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens import ActivationCache, FactoredMatrix, HookedRootModule
from transformer_lens.utilities import lm_cross_entropy_loss

from rb_interp.errors import ModelError, nearest

# ruff: noqa: N802, N815 (weights carry the field's names)


class HookedBase(HookedRootModule):
    """A hooked model with a token embedding ``embed`` and TransformerLens's configuration ``cfg``."""

    cfg: Any
    embed: Any
    return_types: ClassVar[tuple[str, ...]] = ("logits", "loss", "both")

    def logits(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch answer d_vocab"]:
        """The forward pass itself; the last answer is the row's."""
        raise NotImplementedError

    def forward(self, input: Int[Tensor, "*batch pos"], return_type: str | None = "logits") -> Any:
        """Logits ``[batch, pos, d_vocab]``, the mean next-token ``loss`` in nats, both, or None for hooks alone.

        A single row of tokens counts as a batch of one, as in HookedTransformer.

        Raises ModelError for a ``return_type`` that the model does not have and for more positions than ``n_ctx``.
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
        """Token embedding."""
        return self.embed.W_E


def _stacked(module: str, name: str) -> property:
    """A weight of every layer, stacked along a leading layer axis."""
    return property(lambda model: torch.stack([getattr(getattr(block, module), name) for block in model.blocks]))


class HookedBlocks(HookedBase):
    """A hooked model whose ``blocks`` have attention and MLP: their weights as HookedTransformer gives them."""

    W_Q, W_K, W_V, W_O = (_stacked("attn", name) for name in ("W_Q", "W_K", "W_V", "W_O"))
    b_Q, b_K, b_V, b_O = (_stacked("attn", name) for name in ("b_Q", "b_K", "b_V", "b_O"))
    W_in, b_in, W_out, b_out = (_stacked("mlp", name) for name in ("W_in", "b_in", "W_out", "b_out"))

    @property
    def QK(self) -> FactoredMatrix:
        """W_Q W_K^T of every head, what it matches."""
        return FactoredMatrix(self.W_Q, self.W_K.transpose(-2, -1))

    @property
    def OV(self) -> FactoredMatrix:
        """W_V W_O of every head, what it moves."""
        return FactoredMatrix(self.W_V, self.W_O)
