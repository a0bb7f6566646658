"""TransformerLens's interface and its bridges: what probes ask of a model, in both generations.

A ``HookedTransformer``, a ``TransformerBridge`` and the models of this package are a `HookedModel`.
A type checker checks it. At run time the name is a check for ``cfg``: a probe names what else it
misses itself.

Up to 3.9 a model is a ``HookedTransformer``; from 4.0 on it is a ``TransformerBridge`` booted from
a native configuration. Either way it computes the textbook transformer (docs/models.md), and no
weight is folded or centred.

Everything here speaks the names and shapes of HookedTransformer's state dict (``blocks.0.attn.W_Q``
of shape ``[n_heads, d_model, d_head]``), whatever a generation stores behind them. TransformerLens
is imported where a model is built, so that training runs without it.

A bridge puts its own modules around those of a model of transformers, or of TransformerLens's
native model. Around a fused layer of queries, keys and values it computes with copies of the
layer's parts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import numpy as np
import torch
from beartype.vale import Is
from torch import Tensor, nn
from torch.nn.functional import gelu

from rb_interp.errors import ModelError, nearest
from rb_interp.models.config import ModelConfig

# ruff: noqa: N802 (weights carry the field's names)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": gelu,
    "gelu_new": partial(gelu, approximate="tanh"),
    "tanh": torch.tanh,
}
"""Activations of the MLP by their name in ModelConfig."""

if TYPE_CHECKING:

    class HookedModel(Protocol):
        """A model with TransformerLens's hook names and weights; see its documentation for their
        shapes.

        Attributes:
            cfg: ``n_layers``, ``n_heads``, ``d_model``, ``d_vocab``, ``n_ctx`` and the other sizes.
            hook_dict: every hook point by its full name, such as ``blocks.0.attn.hook_pattern``.
            W_E: token embedding ``[d_vocab, d_model]``, all that a probe of the embedding needs.
            W_V, W_O: weights of attention ``[layer, head, ...]``, where the model has attention.
            embed, blocks, unembed: what is given the tokens, the layers, and what maps the residual
                stream to logits. ``blocks[layer].attn.b_V`` is None, or missing, where values have
                no bias.
        """

        cfg: Any

        @property
        def hook_dict(self) -> Any: ...
        @property
        def W_E(self) -> Tensor: ...
        @property
        def W_V(self) -> Tensor: ...
        @property
        def W_O(self) -> Tensor: ...
        @property
        def embed(self) -> Any: ...
        @property
        def blocks(self) -> Any: ...
        @property
        def unembed(self) -> Any: ...
        def __call__(self, tokens: Tensor) -> Any: ...
        def run_with_cache(self, *args: Any, **kwargs: Any) -> Any: ...
        def hooks(self, fwd_hooks: Any = ...) -> AbstractContextManager: ...
        def parameters(self) -> Iterator[nn.Parameter]: ...
        def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...
        def buffers(self) -> Iterator[Tensor]: ...
        def modules(self) -> Iterator[nn.Module]: ...
        def eval(self) -> Any: ...

else:
    HookedModel = Annotated[object, Is[lambda value: hooked(value) is not None]]


def hooked(source: Any, caller: str = "", *, caches: bool = False) -> Any:
    """A hooked model, or activations of one if ``caches`` are read; ModelError for anything
    else."""
    is_cache = hasattr(source, "cache_dict")
    model = source.model if is_cache else source
    has_hooks = hasattr(model, "hook_dict") or not isinstance(model, nn.Module)
    problem = ""
    if is_cache and not caches:
        if hasattr(model, "arrays"):
            problem = "arrays and needs a model that runs; pass one."
        else:
            problem = "an ActivationCache and needs a model; pass cache.model."
    elif "_orig_mod" in getattr(model, "_modules", ()):
        problem = (
            "a model wrapped by torch.compile, in which hooks need not fire; pass the inner model: "
            "model._orig_mod."
        )
    elif isinstance(source, type) or not (has_hooks and hasattr(model, "cfg")):
        problem = (
            f"an object of type {type(source).__name__}; pass a HookedTransformer, or a model with "
            f"its hook names and cfg."
        )
    if problem:
        raise ModelError(f"{caller} got {problem}".lstrip())
    return source


def lens_config(config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype) -> Any:
    """TransformerLens's configuration object of a model: what its ``cfg`` holds, in either
    generation.

    Its constructor refuses tanh, which stands as relu there; whoever builds the model writes it.
    """
    fields = {
        name: getattr(config, name)
        for name in ("n_layers", "n_heads", "d_model", "d_head", "d_mlp")
    }
    fields |= {
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
    try:  # 4.0 removed it; there, asking for it raises ImportError
        from transformer_lens import HookedTransformerConfig as Configuration
    except ImportError:
        from transformer_lens.config import TransformerBridgeConfig as Configuration
    return Configuration(**fields)


def make_lens_model(
    config: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype
) -> HookedModel:
    """A model whose weights hold nothing yet, on CPU; the caller's random state stays as it was."""
    cfg = lens_config(config, d_vocab, n_ctx, dtype)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "HookedTransformer is deprecated", DeprecationWarning)
        try:
            from transformer_lens import HookedTransformer

            model: Any = HookedTransformer(cfg)
        except ImportError:
            from transformer_lens.model_bridge import TransformerBridge

            model = TransformerBridge.boot_native(cfg, device="cpu", dtype=dtype)
            head = model.unembed.original_component  # its bias is a fixed zero there
            bias = head.bias.detach().clone()
            del head.bias
            head.register_parameter("bias", nn.Parameter(bias))
    if config.act == "tanh":  # in this one model; TransformerLens's own table is global
        for block in model.blocks:
            if hasattr(block.mlp, "original_component"):
                block.mlp.original_component.act = torch.tanh
            else:
                block.mlp.act_fn = torch.tanh
        model.cfg.act_fn = "tanh"
    return model


def live_tensors(model: HookedModel) -> dict[str, Tensor]:
    """Every weight by its TransformerLens name, as a view of the model's own memory: writing to it
    writes the model."""
    if hasattr(model, "tl_parameters"):
        return cast(Any, model).tl_parameters()
    return dict(model.named_parameters())


def live_parameters(model: HookedModel) -> dict[str, nn.Parameter]:
    """The parameter that holds each named weight of a model built here; a bridge stores some under
    another shape."""
    owner = {parameter.data_ptr(): parameter for parameter in model.parameters()}
    return {name: owner[tensor.data_ptr()] for name, tensor in live_tensors(model).items()}


def write_weights(model: HookedModel, weights: Mapping[str, Tensor | np.ndarray]) -> None:
    """Write every weight of a model in place, cast to its dtype and device; ModelError, and nothing
    written, if not."""
    with torch.no_grad():
        tensors = writable_tensors(model, weights)
        missing = [name for name in live_tensors(model) if name not in tensors]
        if missing:
            total = len(missing) + len(tensors)
            raise ModelError(
                f"{len(missing)} of {total} weights are missing: {', '.join(missing)}; write all "
                f"of them."
            )
        for name, tensor in tensors.items():
            value = weights[name]
            if not isinstance(value, Tensor):
                value = torch.tensor(np.ascontiguousarray(value))
            tensor.copy_(value)


def writable_tensors(
    model: HookedModel, weights: Mapping[str, Tensor | np.ndarray]
) -> dict[str, Tensor]:
    """The model's own tensors of the given names; ModelError without such a one, or for another
    shape."""
    tensors = live_tensors(model)
    storages = _storages(model)
    for name, value in weights.items():
        if name not in tensors:
            raise ModelError(f"this model has no weight '{name}'; {nearest(name, tensors)}")
        tensor = tensors[name]
        if tuple(value.shape) != tuple(tensor.shape):
            raise ModelError(
                f"'{name}' has shape {tuple(value.shape)}; this model holds {tuple(tensor.shape)}. "
                f"Use the ModelConfig, d_vocab and n_ctx that the weights were made with."
            )
        if _storage(tensor) not in storages:
            raise ModelError(
                f"'{name}' of this {type(model).__name__} is derived from other weights; write "
                f"those instead."
            )
    return {name: tensors[name] for name in weights}


def value_weights(model: HookedModel, layer: int) -> Tensor:
    """W_V of a layer ``[head, d_model, d_head]`` where the model holds it: writing to it writes the
    model.

    Queries that are grouped share it, so that it has fewer heads than the model. Raises ModelError
    where it is derived from other weights.
    """
    attention = model.blocks[layer].attn
    W_V = attention.W_V if getattr(attention, "_W_V", None) is None else attention._W_V
    if _storage(W_V) not in _storages(model):
        raise ModelError(
            f"W_V of this {type(model).__name__} is derived from other weights; write those "
            f"instead."
        )
    return W_V


def _storages(model: HookedModel) -> set[int]:
    """Where a model's own tensors lie in memory."""
    return {_storage(tensor) for tensor in (*model.parameters(), *model.buffers())}


WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module")
"""Names under which a wrapper holds the module itself: they are left out of paths."""


def is_bridge(model: nn.Module) -> bool:
    """Whether a model is one that TransformerLens 4 has put bridges around; needs no import of
    TransformerLens."""
    return hasattr(model, "tl_parameters") and hasattr(model, "original_model")


def original(module: nn.Module) -> nn.Module:
    """What a bridge stands for; any other module as it is."""
    while isinstance(inner := module._modules.get("_original_component"), nn.Module):
        module = inner
    return module


def original_model(model: Any) -> Any:
    """The model that a bridge was put around; any other model as it is."""
    return model.original_model if is_bridge(model) else model


def resid_mid_is_a_copy(model: Any) -> bool:
    """Whether ``hook_resid_mid`` feeds the MLP alone (a 4.x bridge), so that editing it leaves the
    residual stream."""
    from transformer_lens import HookedRootModule

    return not isinstance(model, HookedRootModule)


def modules_of(model: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """Path, module and the module that it is part of, of every module once; each bridge is what it
    stands for.

    >>> [path for path, _, _ in modules_of(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))]
    ['', '0', '1']
    """
    root = original_model(model)
    module_ids: set[int] = set()

    def walk(
        path: str, module: nn.Module, parent: nn.Module
    ) -> Iterator[tuple[str, nn.Module, nn.Module]]:
        module = original(module)
        if id(module) in module_ids:
            return
        module_ids.add(id(module))
        yield path, module, parent
        for name, child in module.named_children():
            child_path = path if name in WRAPPERS else f"{path}.{name}".lstrip(".")
            yield from walk(child_path, child, module)

    yield from walk("", root, root)


def native_tensors(model: Any) -> dict[str, Tensor]:
    """Every weight of a native bridge under its TransformerLens name, as a view of the model's own
    memory.

    ``tl_parameters`` repeats the keys and values of grouped queries and makes up what a model
    lacks. Raises ModelError for a parameter without such a name.
    """
    tensors = dict(model.tl_parameters())
    for layer, block in enumerate(model.blocks):
        for kind in ("W_K", "W_V", "b_K", "b_V"):
            name = f"blocks.{layer}.attn.{kind}"
            if name in tensors:
                tensors[name] = getattr(block.attn, kind)
    owned = {_storage(parameter): name for name, parameter in model.named_parameters()}
    tensors = {name: tensor for name, tensor in tensors.items() if _storage(tensor) in owned}
    for tensor in tensors.values():
        owned.pop(_storage(tensor), None)
    if owned:
        raise ModelError(
            f"this {type(model).__name__} holds {', '.join(owned.values())}, which have no "
            f"TransformerLens name."
        )
    return tensors


def split_layers(model: nn.Module) -> dict[int, Any]:
    """Bridges of attention that compute with copies of a fused layer's parts, by the ``id`` of that
    layer."""
    if not is_bridge(model):
        return {}
    layers = {}
    for module in model.modules():
        if hasattr(module, "split_qkv_matrix") and hasattr(module, "qkv"):
            layers[id(original(module.qkv))] = module  # pyright: ignore[reportArgumentType]
    return layers


def split_parts(attention: Any) -> list[nn.Module]:
    """The layers of queries, keys and values that such a bridge computes with."""
    return [original(getattr(attention, name)) for name in "qkv"]


def write_split_parts(attention: Any) -> None:
    """Write a fused layer into the copies of its parts."""
    parts = attention.split_qkv_matrix(attention.original_component)
    for copy, part in zip(split_parts(attention), parts, strict=True):
        for name, tensor in copy.named_parameters(recurse=False):
            tensor.copy_(getattr(part, name))


def unbridged_parameters(model: Any, tensors: list[Tensor]) -> list[str]:
    """Names of a bridge's parameters that are none of these tensors, nor copies of their parts."""
    if not is_bridge(model):
        return []
    reached = {_storage(tensor) for tensor in tensors}
    for attention in split_layers(model).values():
        for copy in split_parts(attention):
            reached |= {_storage(parameter) for parameter in copy.parameters()}
    parameters = model.named_parameters()
    return [name for name, parameter in parameters if _storage(parameter) not in reached]


def _storage(tensor: Tensor) -> int:
    """The address of a tensor's memory."""
    return tensor.untyped_storage().data_ptr()
