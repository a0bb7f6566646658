"""Every tensor of any model, with what it is; tied ones are told, and what nothing describes is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from rb_interp.errors import ModelError
from rb_interp.models.layers import Held, lens_tensor, of_layer
from rb_interp.models.modules import (
    behind,
    copies,
    is_bridge,
    is_native,
    modules_of,
    native_tensors,
    place,
    split_layers,
)
from rb_interp.models.schemes import Parameter, Rule


def tensors_of(model: Any) -> list[Held]:
    """Every tensor of a model, in the order of its modules; tied ones once for each name.

    Raises ModelError for what is no model, and where it has a tensor that nothing here describes.

    >>> [(each.parameter.name, each.parameter.d_in) for each in tensors_of(nn.Sequential(nn.Linear(2, 3)))]
    [('0.weight', 2), ('0.bias', 0)]
    """
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"got an object of type {type(model).__name__}; pass a HookedTransformer, a TransformerBridge, a model of "
            f"transformers, or another torch.nn.Module."
        )
    if getattr(model, "_weights_processed", False):
        raise ModelError("this bridge computes with folded weights; use it before enable_compatibility_mode is called.")
    found = list(_native(model) if is_native(model) else _described(model))
    _check(model, found)
    return _tied([each for _, each, _ in found if each is not None])


def rule_of(model: Any, rule: Rule) -> Rule:
    """The same rule with the width and depth of a model, where it tells them."""
    config = getattr(model, "cfg", None) or getattr(model, "config", None)
    config = getattr(config, "get_text_config", lambda: config)()
    names = (("d_model", "hidden_size"), ("n_layers", "num_hidden_layers"))
    sizes = [next((getattr(config, name) for name in each if getattr(config, name, None)), 0) for each in names]
    return replace(rule, d_model=sizes[0], n_layers=sizes[1])


def _check(model: nn.Module, found: list[tuple[str, Held | None, Tensor]]) -> None:
    """Raise ModelError where a tensor is not described under any of its names, or cannot be written."""
    kind = type(model.original_model if is_bridge(model) else model).__name__
    if not found:
        raise ModelError(f"this {kind} has no parameters; give a model that has.")
    for name, _, tensor in found:
        if tensor.is_meta or not tensor.is_floating_point():
            what = "has no data (device 'meta')" if tensor.is_meta else f"is of type {tensor.dtype}, which is quantised"
            raise ModelError(f"'{name}' of this {kind} {what}; give a model with its weights in floating point.")
    known = {place(each.tensor) for _, each, _ in found if each is not None}
    unknown = [name for name, _, tensor in found if place(tensor) not in known] + _beside(model, found)
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise ModelError(
            f"{len(unknown)} of the tensors of this {kind} are no weight or bias of a linear layer, an embedding or a "
            f"norm: {', '.join(unknown[:5])}{more}; call this for the modules that hold none of these, one by one."
        )


def _beside(model: Any, found: list[tuple[str, Held | None, Tensor]]) -> list[str]:
    """Parameters of a bridge that stand beside the modules that it bridges."""
    if not is_bridge(model):
        return []
    reached = {tensor.untyped_storage().data_ptr() for _, _, tensor in found}
    for attention in split_layers(model).values():
        reached |= {p.untyped_storage().data_ptr() for copy in copies(attention) for p in copy.parameters()}
    return [name for name, p in model.named_parameters() if p.untyped_storage().data_ptr() not in reached]


def _tied(found: list[Held]) -> list[Held]:
    """The same, each tied tensor with the name of the first that shares its memory, embeddings before others."""
    first: dict[tuple, Parameter] = {}
    for each in sorted(found, key=lambda held: held.parameter.group != "embedding"):
        first.setdefault(place(each.tensor), each.parameter)
    embedding = next((each for each in found if each.parameter.name.endswith("W_E")), None)
    told = []
    for each in found:
        owner, own = first[place(each.tensor)], each.parameter
        if owner.name != own.name:
            own = replace(owner, name=own.name, shape=own.shape)
            each = replace(each, parameter=own, tied_to=owner.name)
        elif embedding is not None and own.name.endswith("W_U") and _repeats(each.tensor, embedding.tensor):
            own = replace(embedding.parameter, name=own.name, shape=own.shape)
            each = replace(each, parameter=own, tied_to=embedding.parameter.name, repeats=True)
        told.append(each)
    return told


def _repeats(W_U: Tensor, W_E: Tensor) -> bool:
    """Whether an unembedding is a copy of the embedding: HookedTransformer has no other way to tie them."""
    return W_U.device == W_E.device and torch.equal(W_U, W_E.T) and bool(W_E[:1].ne(W_E).any())


def _native(model: Any) -> Iterator[tuple[str, Held | None, Tensor]]:
    for name, tensor in native_tensors(model).items():
        yield name, lens_tensor(name, tensor, model.cfg, trusted=True), tensor


def _described(model: nn.Module) -> Iterator[tuple[str, Held | None, Tensor]]:
    head, split, cfg = _head(model), split_layers(model), None if is_bridge(model) else getattr(model, "cfg", None)
    for path, module, parent in modules_of(model):
        for name, tensor in module.named_parameters(recurse=False):
            full = f"{path}.{name}".lstrip(".")
            held = lens_tensor(full, tensor, cfg, _is_ours(module)) or of_layer(path, module, name, tensor, parent)
            if held is not None and module is head and held.parameter.group:
                held = replace(held, parameter=replace(held.parameter, group="unembedding"))
            if held is not None and id(module) in split:
                live = [dict(copy.named_parameters()).get(name) for copy in copies(split[id(module)])]
                held = replace(held, live=tuple(tensor for tensor in live if tensor is not None))
            yield full, held, tensor


def _head(model: Any) -> nn.Module | None:
    """The unembedding of a model of transformers, whatever its name."""
    model = model.original_model if is_bridge(model) else model
    try:
        head = model.get_output_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    return behind(head) if isinstance(head, nn.Module) else None


def _is_ours(module: nn.Module) -> bool:
    return type(module).__module__.split(".")[0] in ("transformer_lens", "rb_interp")
