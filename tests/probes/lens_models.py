"""Models that somebody else might bring: built with TransformerLens alone, of whichever generation is installed."""

import warnings
from typing import Any

import torch

SIZES = {"n_ctx": 12, "d_vocab": 30, "n_layers": 4, "n_heads": 4, "d_model": 16, "d_head": 4, "d_mlp": 32}
KINDS = {
    "plain": {"act_fn": "relu", "normalization_type": None},
    "gpt2": {"act_fn": "gelu_new", "normalization_type": "LN"},
    "folded": {"act_fn": "gelu_new", "normalization_type": "LNPre"},
    "rotary": {"act_fn": "relu", "normalization_type": "RMS", "positional_embedding_type": "rotary"},
    "grouped": {"act_fn": "relu", "normalization_type": "LN", "n_key_value_heads": 2},
}


def lens_model(kind: str, seed: int = 0, **sizes: int) -> Any:
    """A small model whose every parameter, LayerNorm's and biases too, is away from its default."""
    import transformer_lens

    settings: dict[str, Any] = {**SIZES, **KINDS[kind], **sizes}
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + 1)  # TransformerLens draws the first weights from torch's own generator
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.9 announces that 4.0 will replace this class
        try:
            model = transformer_lens.HookedTransformer(transformer_lens.HookedTransformerConfig(**settings))
        except ImportError:
            from transformer_lens.config import TransformerBridgeConfig
            from transformer_lens.model_bridge import TransformerBridge

            model = TransformerBridge.boot_native(TransformerBridgeConfig(**settings))  # pyright: ignore
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def hooks_on(model: Any) -> list[str]:
    """Names of hook points that still carry a hook."""
    return [name for name, point in model.hook_dict.items() if point.fwd_hooks or point.bwd_hooks]
