"""Every tensor of any model, with what it is: its input dimension, its group, whether it starts as
a constant.

docs/models.md says what is known and how groups, which are read off names, can mislead. A norm's
weight may stand for its factor or, as in Gemma, for the factor less 1: what a weight of 0 does to
an input tells. A model of transformers under a bridge of TransformerLens is seen through.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from rb_interp.errors import ModelError
from rb_interp.models.protocol import (
    is_bridge,
    modules_of,
    native_tensors,
    original,
    original_model,
    split_layers,
    split_parts,
    unbridged_parameters,
)
from rb_interp.models.schemes import GROUPS, Parameter, lens_parameter

OURS = ("transformer_lens.", "rb_interp.")
"""Packages whose modules hold weights under TransformerLens's names."""
EXPERTS = ("gate_up_proj", "up_proj", "down_proj")
LEAVES = {
    "qk": "q_proj k_proj query key q_lin k_lin q k wq wk to_q to_k q_attn",
    "vo": "v_proj o_proj value v_lin out_lin v o wv to_v to_out",
    "qkv": "c_attn query_key_value qkv_proj Wqkv W_pack qkv",
    "mlp": "c_fc fc1 fc2 fc_in fc_out dense_h_to_4h dense_4h_to_h gate_proj up_proj down_proj gate_up_proj w1 w2 w3 wi "
    "wi_0 wi_1 lin1 lin2 linear1 linear2 W_in W_out W_gate",
    "unembedding": "lm_head embed_out unembed",
}
"""Group -> last parts of a layer's path that say it alone."""
IN_ATTENTION = ("c_proj", "dense", "out_proj", "proj", "out", "wo", "Wo")
"""Last parts of W_O's path within attention, where an MLP may use the same."""
OUT_OF_MLP = [
    "c_proj",
    "dense",
    "dense_4h_to_h",
    "down_proj",
    "fc2",
    "fc_out",
    "w2",
    "wo",
    "lin2",
    "linear2",
    "W_out",
]
OUT_OF_ATTENTION = (*IN_ATTENTION, "o_proj", "out_lin", "o", "to_out")
MULTIHEAD = {
    "in_proj_weight": "qkv",
    "q_proj_weight": "qk",
    "k_proj_weight": "qk",
    "v_proj_weight": "vo",
}
"""Matrices of torch's attention -> their groups."""
_GROUP = {leaf: group for group, leaves in LEAVES.items() for leaf in leaves.split()}
_ATTENTION = re.compile("attn|attention", re.I)
_MLP = re.compile("^(mlp|ffn?|intermediate|output|dense_?relu_?dense)$|feed_?forward", re.I)


@dataclass(frozen=True, eq=False)
class ModelTensor:
    """A tensor of a model."""

    parameter: Parameter
    """What it is."""
    tensor: Tensor
    """Where the model holds it."""
    values: Tensor | None = None
    """Which outputs of a layer of queries, keys and values are values, along ``axis``; None if that
    is not known, or the layer has no others."""
    axis: int = 0
    """Along which outputs lie."""
    padding: int | None = None
    """A row that stays 0, as torch keeps it."""
    tied_to: str = ""
    """The tensor that it is, or repeats."""
    repeats: bool = False
    """Whether it is a copy of ``tied_to``, turned round, in memory of its own."""
    live: tuple[Tensor, ...] = ()
    """Tensors that the model computes with in place of this one, queries and keys before values."""

    def parts(self) -> list[Parameter]:
        """What follows one rate: the tensor, or its queries and keys, and its values."""
        if self.values is None:
            return [self.parameter]
        parts = []
        for group, mask in (("qk", ~self.values), ("vo", self.values)):
            shape = list(self.tensor.shape)
            shape[self.axis] = int(mask.sum())
            parts.append(replace(self.parameter, group=group, shape=tuple(shape)))
        return parts

    def entries(self, group: str) -> Tensor:
        """Every entry of the part of that group, as the model computes with it now, without the
        padding."""
        if self.values is None:
            tensors = self.live or (self.tensor,)
        elif self.live:
            tensors = self.live[:2] if group == "qk" else self.live[2:]
        else:
            mask = self.values if group == "vo" else ~self.values
            numbers = mask.nonzero()[:, 0].to(self.tensor.device)
            tensors = (self.tensor.index_select(self.axis, numbers),)
        if self.padding is not None:
            tensors = (self.tensor[: self.padding], self.tensor[self.padding + 1 :])
        return torch.cat([tensor.detach().flatten() for tensor in tensors])


Described = tuple[str, ModelTensor | None, Tensor]
"""A tensor's path, what it is if that is known, and the tensor."""


def tensors_of(model: Any) -> list[ModelTensor]:
    """Every tensor of a model, in the order of its modules; tied ones once for each name.

    Raises ModelError for what is no model, and if it has a tensor that nothing here describes.

    >>> tensors = tensors_of(nn.Sequential(nn.Linear(2, 3)))
    >>> [(tensor.parameter.name, tensor.parameter.d_in) for tensor in tensors]
    [('0.weight', 2), ('0.bias', 0)]
    """
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"got an object of type {type(model).__name__}; pass a HookedTransformer, a "
            f"TransformerBridge, a model of transformers, or another torch.nn.Module."
        )
    if getattr(model, "_weights_processed", False):
        raise ModelError(
            "this bridge computes with folded weights; use it before enable_compatibility_mode is "
            "called."
        )
    if is_bridge(model) and type(model.original_model).__name__ == "NativeModel":
        described = []
        for name, tensor in native_tensors(model).items():
            described.append((name, lens_tensor(name, tensor, model.cfg, trusted=True), tensor))
    else:
        described = list(_described(model))
    _check(model, described)
    return _tied([item for _, item, _ in described if item is not None])


def _check(model: nn.Module, described: list[Described]) -> None:
    """Raise ModelError if a tensor is not described under any of its names, or cannot be
    written."""
    kind = type(original_model(model)).__name__
    if not described:
        raise ModelError(f"this {kind} has no parameters; give a model that has.")
    for name, _, tensor in described:
        problem = ""
        if tensor.is_meta:
            problem = "has no data (device 'meta')"
        elif not tensor.is_floating_point():
            problem = f"is of type {tensor.dtype}, which is quantised"
        if problem:
            raise ModelError(
                f"'{name}' of this {kind} {problem}; give a model with its weights in floating "
                f"point."
            )
    known = {memory_of(item.tensor) for _, item, _ in described if item is not None}
    unknown = [name for name, _, tensor in described if memory_of(tensor) not in known]
    unknown += unbridged_parameters(model, [tensor for _, _, tensor in described])
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise ModelError(
            f"{len(unknown)} of the tensors of this {kind} are no weight or bias of a linear "
            f"layer, an embedding or a norm: {', '.join(unknown[:5])}{more}; call this for the "
            f"modules that hold none of these, one by one."
        )


def _tied(tensors: list[ModelTensor]) -> list[ModelTensor]:
    """The same, each tied tensor with the name of the first that shares its memory, embeddings
    before others."""
    owners: dict[tuple, Parameter] = {}
    for item in sorted(tensors, key=lambda item: item.parameter.group != "embedding"):
        owners.setdefault(memory_of(item.tensor), item.parameter)
    embeddings = [item for item in tensors if item.parameter.name.endswith("W_E")]
    result = []
    for item in tensors:
        parameter = item.parameter
        owner = owners[memory_of(item.tensor)]
        repeats = False
        if owner.name == parameter.name and embeddings and parameter.name.endswith("W_U"):
            # HookedTransformer has no other way to tie an unembedding than to copy the embedding
            W_U, W_E = item.tensor, embeddings[0].tensor
            same = W_U.device == W_E.device and torch.equal(W_U, W_E.T)
            repeats = same and bool(W_E[:1].ne(W_E).any())
        if repeats:
            owner = embeddings[0].parameter
        if owner.name != parameter.name:
            tied = replace(owner, name=parameter.name, shape=parameter.shape)
            item = replace(item, parameter=tied, tied_to=owner.name, repeats=repeats)
        result.append(item)
    return result


def _described(model: nn.Module) -> Iterator[Described]:
    unembedding = _unembedding(model)
    split = split_layers(model)
    cfg = None if is_bridge(model) else getattr(model, "cfg", None)
    for path, module, parent in modules_of(model):
        trusted = type(module).__module__.startswith(OURS)
        for name, tensor in module.named_parameters(recurse=False):
            full = f"{path}.{name}".lstrip(".")
            item = lens_tensor(full, tensor, cfg, trusted)
            item = item or of_layer(path, module, name, tensor, parent)
            if item is not None and module is unembedding and item.parameter.group:
                parameter = replace(item.parameter, group="unembedding")
                item = replace(item, parameter=parameter)
            if item is not None and id(module) in split:
                parts = [dict(part.named_parameters()) for part in split_parts(split[id(module)])]
                live = tuple(part[name] for part in parts if name in part)
                item = replace(item, live=live)
            yield full, item, tensor


def _unembedding(model: Any) -> nn.Module | None:
    """The unembedding of a model of transformers, whatever its name."""
    try:
        head = original_model(model).get_output_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    return original(head) if isinstance(head, nn.Module) else None


def lens_tensor(name: str, tensor: Tensor, cfg: Any, trusted: bool) -> ModelTensor | None:
    """A weight under a TransformerLens name; of a class of somebody else, if cfg says that its
    shape is the same."""
    path, _, kind = name.rpartition(".")
    kind = kind.lstrip("_")  # HookedTransformer holds grouped keys and values as _W_K and _W_V
    name = f"{path}.{kind}".lstrip(".")
    shape = tuple(tensor.shape)
    trained = tensor.requires_grad
    # BERT's heads have W; elsewhere it may be turned round
    if kind not in GROUPS or (kind == "W" and not trusted):
        is_bias = kind.startswith("b_") and (trusted or cfg is not None)
        is_norm = kind in ("w", "b") and trusted
        if is_bias or is_norm:
            return ModelTensor(lens_parameter(name, shape, 0, trained), tensor)
        return None
    if len(shape) not in (2, 3):
        return None
    if kind == "W_O":
        d_in, sizes = shape[0] * shape[1], ("n_heads", "d_head")
    elif GROUPS[kind] == "embedding":
        d_in, sizes = shape[-1], ("d_model",)
    else:
        d_in, sizes = shape[-2], ("d_mlp",) if kind == "W_out" else ("d_model",)
    if not trusted and d_in != math.prod(getattr(cfg, size, None) or 0 for size in sizes):
        return None
    stopped = not trained and not tensor.any()  # W_Q of a layer that attends uniformly
    parameter = lens_parameter(name, shape, 0 if stopped else d_in, trained)
    if kind in ("W_K", "W_V") and shape[0] != getattr(cfg, "n_heads", shape[0]):
        parameter = replace(parameter, width=0)
    return ModelTensor(parameter, tensor)


def of_layer(
    path: str, module: nn.Module, name: str, tensor: Tensor, parent: nn.Module
) -> ModelTensor | None:
    """A tensor of a layer of torch or of transformers."""
    full = f"{path}.{name}".lstrip(".")
    shape = tuple(tensor.shape)
    constant = ModelTensor(Parameter(full, shape, 0, tensor.requires_grad), tensor)

    def matrix(
        axis: int, group: str, writes: bool = False, width: int | None = None
    ) -> ModelTensor:
        """A weight whose outputs lie along an axis, and its inputs along the other of the last
        two."""
        d_in = shape[-1] if axis == len(shape) - 2 else shape[-2]
        width = shape[1] if width is None else width
        parameter = Parameter(full, shape, d_in, tensor.requires_grad, group, writes, width)
        return ModelTensor(parameter, tensor, axis=axis)

    if isinstance(module, nn.Embedding):
        if path.endswith("bias"):  # a bias for each distance between positions, as in T5
            return constant
        return replace(matrix(0, "embedding"), padding=module.padding_idx)
    is_conv1d = type(module).__name__ == "Conv1D" and hasattr(module, "nf")
    if isinstance(module, nn.Linear) or is_conv1d:
        if name == "weight":
            return _with_values(matrix(int(is_conv1d), group_of(path), writes(path)), parent)
        return constant if name == "bias" else None
    if isinstance(module, nn.MultiheadAttention):
        if name in MULTIHEAD:
            return _with_values(matrix(0, MULTIHEAD[name]), module)
        return constant if name == "in_proj_bias" else None
    is_batch_norm = isinstance(module, nn.modules.batchnorm._BatchNorm)
    if "norm" in type(module).__name__.lower() and not is_batch_norm and len(shape) == 1:
        if name == "weight":
            return _scale_of_norm(constant, module)
        return constant if name == "bias" else None
    if hasattr(module, "is_transposed") and name.removesuffix("_bias") in EXPERTS:
        if name.endswith("_bias"):
            return constant
        return matrix(2 if module.is_transposed else 1, "mlp", name == "down_proj", width=0)
    if "Router" in type(module).__name__ and hasattr(module, "top_k"):
        if name == "weight":
            return matrix(0, "other", width=0)
        return constant if name == "bias" else None
    return None


def _with_values(item: ModelTensor, attention: nn.Module) -> ModelTensor:
    """A layer of queries, keys and values, with which outputs are values if the order of its
    attention is known."""
    if item.parameter.group != "qkv":
        return item
    n = item.tensor.shape[item.axis]
    numbers = torch.arange(n)
    kind = type(attention).__name__
    sizes = vars(attention)
    if kind in ("GPT2Attention", "MptAttention", "MultiheadAttention"):
        n_blocks = 2 if sizes.get("is_cross_attention") else 3  # cross-attention has no queries
        values = numbers >= n - n // n_blocks
    elif kind == "Phi3Attention":
        values = numbers >= n - sizes["num_key_value_heads"] * sizes["head_dim"]
    elif kind in ("GPTNeoXAttention", "BloomAttention"):
        # query, key and value of one head after another
        size = sizes["head_size"] if "head_size" in sizes else sizes["head_dim"]
        values = numbers // size % 3 == 2
    else:
        return item
    return replace(item, values=values)


def _scale_of_norm(item: ModelTensor, norm: nn.Module) -> ModelTensor | None:
    """The weight of a norm; None if it cannot be tried on an input."""
    if item.tensor.is_meta:
        return item
    twin = deepcopy(norm)
    example = torch.linspace(-1, 2, item.tensor.numel()).to(item.tensor)[None]
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
        try:
            out = type(twin).forward(twin, example)
        except Exception:
            return None
    constant = 0.0 if out.any() else 1.0
    return replace(item, parameter=replace(item.parameter, constant=constant))


def group_of(path: str) -> str:
    """Group of matrices that a layer with this path belongs to; ``other`` where its name does not
    tell.

    >>> [group_of(f"h.0.{name}") for name in ("attn.c_proj", "mlp.c_proj", "self_attn.k_proj", "adapter")]
    ['vo', 'mlp', 'qk', 'other']
    """
    *above, leaf = path.split(".")
    if any(_ATTENTION.search(part) for part in above):
        return "vo" if leaf in IN_ATTENTION else _GROUP.get(leaf, "other")
    if any(_MLP.search(part) for part in above):
        return "mlp"
    return _GROUP.get(leaf, "other")


def writes(path: str) -> bool:
    """Whether a layer of attention or of an MLP is its output projection.

    >>> [writes(f"encoder.layer.0.{name}") for name in ("attention.output.dense", "output.dense", "intermediate.dense")]
    [True, True, False]
    """
    *above, leaf = path.split(".")
    outputs = {"vo": OUT_OF_ATTENTION, "mlp": OUT_OF_MLP}.get(group_of(path), ())
    return leaf in outputs and "intermediate" not in above


def memory_of(tensor: Tensor) -> tuple[int, ...]:
    """Where a tensor lies in memory: tied weights lie in the same."""
    return tensor.untyped_storage().data_ptr(), int(tensor.storage_offset()), tensor.numel()
