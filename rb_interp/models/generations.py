"""The bridge to TransformerLens: the only module that builds its models and imports what only one generation has.

Up to 3.9 a model is a ``HookedTransformer``; from 4.0 on it is a ``TransformerBridge`` booted from a native
configuration. Either way the model computes the textbook transformer: scores over sqrt(d_head), causal softmax,
learned positions, an unembedding of its own with a bias, and with ``pre`` LayerNorm as in GPT-2. ``gelu`` is the exact
one, x Phi(x), as in ``torch.nn.functional.gelu``; ``gelu_new`` is GPT-2's. No weight is folded or centred.

Hooks read the same in both generations, and editing one does the same, save two on 4.x: ``attn.hook_attn_scores``
holds the pattern, not the scores, and editing it does nothing; editing ``hook_resid_mid`` reaches the MLP alone and
not the residual stream (edit ``hook_attn_out`` instead).

Everything here speaks the names and shapes of HookedTransformer's state dict (``blocks.0.attn.W_Q`` of shape
``[n_heads, d_model, d_head]``), whatever a generation stores behind them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from transformer_lens import HookedRootModule

from rb_interp.errors import ModelError, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel

try:  # 4.0 removed both; there, asking for them raises ImportError
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    GENERATION = 3
except ImportError:
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    GENERATION = 4


def resid_mid_is_a_copy(model: HookedModel) -> bool:
    """Whether ``hook_resid_mid`` feeds the MLP alone (a 4.x bridge), so that editing it leaves the residual stream."""
    return not isinstance(model, HookedRootModule)


def lens_config(config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32) -> Any:
    """TransformerLens's configuration object of a model: what its ``cfg`` holds, in either generation."""
    fields = {
        "n_layers": config.n_layers,
        "n_heads": config.n_heads,
        "d_model": config.d_model,
        "d_head": config.d_head,
        "d_mlp": config.d_mlp,
        "d_vocab": d_vocab,
        "d_vocab_out": d_vocab,
        "n_ctx": n_ctx,
        "act_fn": "relu" if config.act == "tanh" else config.act,
        "normalization_type": None if config.norm == "none" else "LN",
        "eps": config.layer_norm_eps,
        "init_weights": False,
        "device": "cpu",
        "dtype": dtype,
    }
    found = HookedTransformerConfig(**fields) if GENERATION == 3 else TransformerBridgeConfig(**fields)
    found.act_fn = config.act  # set late: TransformerLens has no tanh, and its constructor refuses the name
    return found


def make_lens_model(
    config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype = torch.float32
) -> HookedModel:
    """A model whose weights hold nothing yet, on CPU; the caller's random state stays as it was."""
    named = replace(config, act="relu") if config.act == "tanh" else config
    cfg = lens_config(named, d_vocab, n_ctx, dtype)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "HookedTransformer is deprecated", DeprecationWarning)
        model = HookedTransformer(cfg) if GENERATION == 3 else _native_bridge(cfg)
    if config.act == "tanh":
        _use_tanh(model)
    return cast(HookedModel, model)


def _native_bridge(cfg: Any) -> HookedModel:
    """A native bridge whose unembedding bias is a parameter, as in HookedTransformer, and not a fixed zero."""
    model: Any = TransformerBridge.boot_native(cfg, device="cpu", dtype=cfg.dtype)
    head = model.unembed.original_component
    bias = head.bias.detach().clone()
    del head.bias
    head.register_parameter("bias", torch.nn.Parameter(bias))
    return model


def _use_tanh(model: HookedModel) -> None:
    """Swap the activation in each MLP of this one model; TransformerLens's own table is global and stays as it is."""
    for block in model.blocks:
        if GENERATION == 3:
            block.mlp.act_fn = torch.tanh
        else:
            block.mlp.original_component.act = torch.tanh
    model.cfg.act_fn = "tanh"


def live_tensors(model: HookedModel) -> dict[str, Tensor]:
    """Every weight by its TransformerLens name, as a view of the model's own memory: writing to it writes the model."""
    if hasattr(model, "tl_parameters"):
        return cast(Any, model).tl_parameters()
    return dict(model.named_parameters())


def live_parameters(model: HookedModel) -> dict[str, torch.nn.Parameter]:
    """The parameter that holds each named weight of a model built here; a bridge stores some under another shape."""
    owner = {parameter.data_ptr(): parameter for parameter in model.parameters()}
    return {name: owner[tensor.data_ptr()] for name, tensor in live_tensors(model).items()}


def read_weights(model: HookedModel) -> dict[str, Tensor]:
    """A copy of every weight under the names and shapes of HookedTransformer's state dict, whatever the model."""
    copy = {name: tensor.detach().clone() for name, tensor in live_tensors(model).items()}
    return {name: tensor.contiguous() for name, tensor in copy.items()}


def write_weights(model: HookedModel, weights: Mapping[str, Tensor | np.ndarray]) -> None:
    """Write every weight of a model in place, cast to its dtype and device; nothing is written if anything is wrong.

    Raises ModelError naming what is missing, unknown or of another shape.
    """
    with torch.no_grad():
        held = writable_tensors(model, weights)
        missing = [name for name in live_tensors(model) if name not in held]
        if missing:
            total = len(missing) + len(held)
            raise ModelError(
                f"{len(missing)} of {total} weights are missing: {', '.join(missing)}; write all of them."
            )
        for name, tensor in held.items():
            value = weights[name]
            tensor.copy_(value if isinstance(value, Tensor) else torch.tensor(np.ascontiguousarray(value)))


def writable_tensors(model: HookedModel, weights: Mapping[str, Tensor | np.ndarray]) -> dict[str, Tensor]:
    """The model's own tensors of the given names.

    Raises ModelError for an unknown name, another shape, or a weight that this model derives from others.
    """
    held, own = live_tensors(model), _storages(model)
    for name, value in weights.items():
        if name not in held:
            raise ModelError(f"this model has no weight '{name}'; {nearest(name, held)}")
        if tuple(value.shape) != tuple(held[name].shape):
            raise ModelError(
                f"'{name}' has shape {tuple(value.shape)}; this model holds {tuple(held[name].shape)}. "
                f"Use the ModelConfig, d_vocab and n_ctx that the weights were made with."
            )
        if held[name].untyped_storage().data_ptr() not in own:
            raise ModelError(
                f"'{name}' of this {type(model).__name__} is derived from other weights; write those instead."
            )
    return {name: held[name] for name in weights}


def value_weights(model: HookedModel, layer: int) -> Tensor:
    """W_V of a layer ``[head, d_model, d_head]`` where the model holds it: writing to it writes the model.

    Queries that are grouped share it, so that it has fewer heads than the model. Raises ModelError where it is derived
    from other weights.
    """
    attention = model.blocks[layer].attn
    W_V = attention.W_V if getattr(attention, "_W_V", None) is None else attention._W_V
    if W_V.untyped_storage().data_ptr() not in _storages(model):
        raise ModelError(f"W_V of this {type(model).__name__} is derived from other weights; write those instead.")
    return W_V


def _storages(model: HookedModel) -> set[int]:
    """Where a model's own tensors lie in memory."""
    return {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
