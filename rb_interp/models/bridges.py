"""Bridges of TransformerLens 4: which model is one, what it stands for, and what it computes with.

A bridge puts its own modules around those of a model of transformers, or of TransformerLens's
native model. Around a fused layer of queries, keys and values it computes with copies of the
layer's parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from rb_interp.errors import ModelError

WRAPPERS = ("_orig_mod", "_checkpoint_wrapped_module")
"""Names under which a wrapper holds the module itself: they are left out of paths."""


def is_bridge(model: nn.Module) -> bool:
    """Whether a model is one that TransformerLens 4 has put bridges around; needs no import of
    TransformerLens."""
    return hasattr(model, "tl_parameters") and hasattr(model, "original_model")


def is_native(model: Any) -> bool:
    """Whether a model is a bridge around TransformerLens's own model."""
    return is_bridge(model) and type(model.original_model).__name__ == "NativeModel"


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
    seen: set[int] = set()

    def walk(
        path: str, module: nn.Module, parent: nn.Module
    ) -> Iterator[tuple[str, nn.Module, nn.Module]]:
        module = original(module)
        if id(module) in seen:
            return
        seen.add(id(module))
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
