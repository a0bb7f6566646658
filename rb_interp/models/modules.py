"""What any model is made of: its modules, seen through the bridges that TransformerLens puts around them.

A bridge of a fused layer of queries, keys and values computes with copies of its parts; the layer itself is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from rb_interp.errors import ModelError

KEYS_AND_VALUES = ("W_K", "W_V", "b_K", "b_V")


def place(tensor: Tensor) -> tuple[int, ...]:
    """Where a tensor lies in memory: tied weights have the same place."""
    return tensor.untyped_storage().data_ptr(), int(tensor.storage_offset()), tensor.numel()


def is_bridge(model: nn.Module) -> bool:
    """Whether a model is one that TransformerLens 4 has put bridges around; needs no import of TransformerLens."""
    return hasattr(model, "tl_parameters") and hasattr(model, "original_model")


def is_native(model: nn.Module) -> bool:
    """Whether a bridge holds TransformerLens's own model, and not one of transformers."""
    return is_bridge(model) and type(model.original_model).__name__ == "NativeModel"


def modules_of(model: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """Path, module and the module that it is part of, of every module once; each bridge is what it stands for.

    >>> [path for path, _, _ in modules_of(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))]
    ['', '0', '1']
    """
    model = model.original_model if is_bridge(model) else model  # pyright: ignore[reportAssignmentType]
    seen: set[int] = set()

    def walk(path: str, module: nn.Module, parent: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module]]:
        module = behind(module)
        if id(module) in seen:
            return
        seen.add(id(module))
        yield path, module, parent
        for name, child in module.named_children():
            inner = path if name in ("_orig_mod", "_checkpoint_wrapped_module") else f"{path}.{name}".lstrip(".")
            yield from walk(inner, child, module)

    yield from walk("", model, model)


def behind(module: nn.Module) -> nn.Module:
    """What a bridge stands for; any other module as it is."""
    while isinstance(original := module._modules.get("_original_component"), nn.Module):
        module = original
    return module


def native_tensors(model: Any) -> dict[str, Tensor]:
    """Every weight of a native bridge under its TransformerLens name, as a view of the model's own memory.

    ``tl_parameters`` repeats the keys and values of grouped queries and makes up what a model lacks; here are those
    that it holds. Raises ModelError where one of its parameters has no such name.
    """
    found = dict(model.tl_parameters())
    for layer, block in enumerate(model.blocks):
        names = {f"blocks.{layer}.attn.{kind}": kind for kind in KEYS_AND_VALUES}
        found |= {name: getattr(block.attn, kind) for name, kind in names.items() if name in found}
    own = {parameter.untyped_storage().data_ptr(): name for name, parameter in model.named_parameters()}
    found = {name: tensor for name, tensor in found.items() if tensor.untyped_storage().data_ptr() in own}
    for tensor in found.values():
        own.pop(tensor.untyped_storage().data_ptr(), None)
    if own:
        raise ModelError(
            f"this {type(model).__name__} holds {', '.join(own.values())}, which have no TransformerLens name."
        )
    return found


def split_layers(model: nn.Module) -> dict[int, Any]:
    """Bridges of attention that compute with copies of a fused layer's parts, by the ``id`` of that layer."""
    if not is_bridge(model):
        return {}
    found = [module for module in model.modules() if hasattr(module, "split_qkv_matrix") and hasattr(module, "qkv")]
    return {id(behind(module.qkv)): module for module in found}  # pyright: ignore[reportArgumentType]


def copies(attention: Any) -> list[nn.Module]:
    """The layers of queries, keys and values that such a bridge computes with."""
    return [behind(getattr(attention, name)) for name in "qkv"]


def split_again(attention: Any) -> None:
    """Write a fused layer into the copies of its parts."""
    parts = attention.split_qkv_matrix(attention.original_component)
    for copy, part in zip(copies(attention), parts, strict=True):
        for name, tensor in copy.named_parameters(recurse=False):
            tensor.copy_(getattr(part, name))
