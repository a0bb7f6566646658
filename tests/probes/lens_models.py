"""Models that somebody else might bring: built with TransformerLens alone, of whichever generation
is installed.

``lens_model`` builds one from a configuration of TransformerLens, and ``bridged`` puts a model of
transformers under TransformerLens's bridge, as ``TransformerBridge.boot_transformers`` does with
one that it downloads.
"""

import warnings
from typing import Any

import torch

from rb_interp.models.protocol import live_tensors

SIZES = {
    "n_ctx": 12,
    "d_vocab": 30,
    "n_layers": 4,
    "n_heads": 4,
    "d_model": 16,
    "d_head": 4,
    "d_mlp": 32,
}
KINDS = {
    "plain": {"act_fn": "relu", "normalization_type": None},
    "gpt2": {"act_fn": "gelu_new", "normalization_type": "LN"},
    "folded": {"act_fn": "gelu_new", "normalization_type": "LNPre"},
    "rotary": {
        "act_fn": "relu",
        "normalization_type": "RMS",
        "positional_embedding_type": "rotary",
    },
    "grouped": {"act_fn": "relu", "normalization_type": "LN", "n_key_value_heads": 2},
}
TRANSFORMERS = {
    "Qwen3": {"num_key_value_heads": 2, "head_dim": 4},
    "Gemma2": {
        "num_key_value_heads": 2,
        "head_dim": 4,
        "query_pre_attn_scalar": 4,
        "sliding_window": 16,
    },
    "GPTNeoX": {},
}
"""Families of transformers: no biases, grouped queries and rotary positions (two of them), and
Pythia's."""


def transformers_model(family: str, seed: int = 0) -> Any:
    """A small model of transformers, two layers of four heads, whose every parameter is away from
    its default."""
    import transformers

    sizes = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 32, "max_position_embeddings": 12}
    config = getattr(transformers, f"{family}Config")(
        **sizes, **TRANSFORMERS[family], attn_implementation="eager"
    )
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(seed + 1)
        kind = "MaskedLM" if family == "Bert" else "CausalLM"
        model = getattr(transformers, f"{family}For{kind}")(config).eval()
    return _away_from_default(model, seed)


def bridged(model: Any) -> Any:
    """A model of transformers under TransformerLens's bridge, which takes its place: read the model
    itself before."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build_bridge_from_module(model, type(model).__name__, hf_config=model.config)


def lens_model(kind: str, seed: int = 0, **sizes: int) -> Any:
    """A small model whose every parameter, LayerNorm's and biases too, is away from its default."""
    import transformer_lens

    settings: dict[str, Any] = {**SIZES, **KINDS[kind], **sizes}
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(
            seed + 1
        )  # TransformerLens draws the first weights from torch's own generator
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # 3.9 announces that 4.0 will replace this class
        try:
            model = transformer_lens.HookedTransformer(
                transformer_lens.HookedTransformerConfig(**settings)
            )
        except ImportError:
            from transformer_lens.config import TransformerBridgeConfig
            from transformer_lens.model_bridge import TransformerBridge

            model = TransformerBridge.boot_native(TransformerBridgeConfig(**settings))  # pyright: ignore
    return _away_from_default(model, seed)


def encoder(seed: int = 0) -> Any:
    """A small HookedEncoder, BERT's kind, with every parameter drawn: TransformerLens leaves some
    as memory was."""
    import pytest

    lens = pytest.importorskip("transformer_lens")
    if not hasattr(lens, "HookedEncoder"):
        pytest.skip("TransformerLens 4 has no HookedEncoder")
    sizes = {
        **SIZES,
        "n_layers": 2,
        **KINDS["gpt2"],
        "attention_dir": "bidirectional",
        "device": "cpu",
    }
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore", DeprecationWarning)
        model = lens.HookedEncoder(lens.HookedTransformerConfig(**sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(parameter.ndim == 1)
    return _away_from_default(model, seed)


def _away_from_default(model: Any, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


class Wrapped(torch.nn.Module):
    """A module of somebody's that holds a model and another part, and passes on what it is
    asked."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.inner, self.other = (
            model,
            torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(2, 2)),
        )

    def __getattr__(self, name: str) -> Any:
        return (
            super().__getattr__(name) if name in ("inner", "other") else getattr(self.inner, name)
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner(*args, **kwargs)


def hooks_on(model: Any) -> list[str]:
    """Names of hook points that still carry a hook."""
    return [name for name, point in model.hook_dict.items() if point.fwd_hooks or point.bwd_hooks]


def read_weights(model) -> dict[str, torch.Tensor]:
    """A copy of every weight by its TransformerLens name."""
    return {name: tensor.detach().clone() for name, tensor in live_tensors(model).items()}
