"""Every tensor of any model, with what it is: its input dimension, its group, whether it starts as
a constant.

docs/models.md says what is known and how groups, which are read off names, can mislead. A norm's
weight may stand for its factor or, as in Gemma, for the factor less 1: what a weight of 0 does to
an input tells. A model of transformers under a bridge of TransformerLens is seen through; a bridge
of a fused layer computes with copies of its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from rb_interp.errors import ModelError
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
_GROUP = {leaf: group for group, leaves in LEAVES.items() for leaf in leaves.split()}
_ATTENTION = re.compile("attn|attention", re.I)
_MLP = re.compile("^(mlp|ffn?|intermediate|output|dense_?relu_?dense)$|feed_?forward", re.I)


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor of a model.

    Attributes:
        parameter: what it is. tensor: where the model holds it.
        values: which outputs of a layer of queries, keys and values are values, where that is
            known, along ``axis``.
        padding: a row that stays 0, as torch keeps it.
        tied_to: the tensor that it is, or repeats (``repeats``: turned round, in memory of its
            own).
        live: tensors that the model computes with in place of this one, queries and keys before
            values.
    """

    parameter: Parameter
    tensor: Tensor
    values: Tensor | None = None
    axis: int = 0
    padding: int | None = None
    tied_to: str = ""
    repeats: bool = False
    live: tuple[Tensor, ...] = ()

    def parts(self) -> list[Parameter]:
        """What follows one rate: the tensor, or its queries and keys, and its values."""
        if self.values is None:
            return [self.parameter]
        sizes = [int(chosen.sum()) for chosen in (~self.values, self.values)]
        shapes = [
            (*self.tensor.shape[: self.axis], size, *self.tensor.shape[self.axis + 1 :])
            for size in sizes
        ]
        named = zip(("qk", "vo"), shapes, strict=True)
        return [replace(self.parameter, group=group, shape=shape) for group, shape in named]

    def entries(self, group: str) -> Tensor:
        """Every entry of the part of that group, as the model computes with it now, without the
        padding."""
        if self.values is None:
            tensors = self.live or (self.tensor,)
        elif self.live:
            tensors = self.live[:2] if group == "qk" else self.live[2:]
        else:
            chosen = self.values if group == "vo" else ~self.values
            tensors = (
                self.tensor.index_select(self.axis, chosen.nonzero()[:, 0].to(self.tensor.device)),
            )
        if self.padding is not None:
            tensors = (self.tensor[: self.padding], self.tensor[self.padding + 1 :])
        return torch.cat([tensor.detach().flatten() for tensor in tensors])


def tensors_of(model: Any) -> list[Held]:
    """Every tensor of a model, in the order of its modules; tied ones once for each name.

    Raises ModelError for what is no model, and where it has a tensor that nothing here describes.

    >>> [(each.parameter.name, each.parameter.d_in) for each in tensors_of(nn.Sequential(nn.Linear(2, 3)))]
    [('0.weight', 2), ('0.bias', 0)]
    """
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"got an object of type {type(model).__name__}; pass a HookedTransformer, a "
            f"TransformerBridge, a model of "
            f"transformers, or another torch.nn.Module."
        )
    if getattr(model, "_weights_processed", False):
        raise ModelError(
            "this bridge computes with folded weights; use it before enable_compatibility_mode is "
            "called."
        )
    if (
        is_bridge(model) and type(model.original_model).__name__ == "NativeModel"
    ):  # TransformerLens's own model
        native = native_tensors(model).items()
        found = [
            (name, lens_tensor(name, tensor, model.cfg, trusted=True), tensor)
            for name, tensor in native
        ]
    else:
        found = list(_described(model))
    _check(model, found)
    return _tied([each for _, each, _ in found if each is not None])


def _check(model: nn.Module, found: list[tuple[str, Held | None, Tensor]]) -> None:
    """Raise ModelError where a tensor is not described under any of its names, or cannot be
    written."""
    kind = type(model.original_model if is_bridge(model) else model).__name__
    if not found:
        raise ModelError(f"this {kind} has no parameters; give a model that has.")
    for name, _, tensor in found:
        if tensor.is_meta or not tensor.is_floating_point():
            quantised = f"is of type {tensor.dtype}, which is quantised"
            what = "has no data (device 'meta')" if tensor.is_meta else quantised
            raise ModelError(
                f"'{name}' of this {kind} {what}; give a model with its weights in floating point."
            )
    known = {place(each.tensor) for _, each, _ in found if each is not None}
    unknown = [name for name, _, tensor in found if place(tensor) not in known] + _beside(
        model, found
    )
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise ModelError(
            f"{len(unknown)} of the tensors of this {kind} are no weight or bias of a linear "
            f"layer, an embedding or a "
            f"norm: {', '.join(unknown[:5])}{more}; call this for the modules that hold none of "
            f"these, one by one."
        )


def _beside(model: Any, found: list[tuple[str, Held | None, Tensor]]) -> list[str]:
    """Parameters of a bridge that stand beside the modules that it bridges."""
    if not is_bridge(model):
        return []
    reached = {tensor.untyped_storage().data_ptr() for _, _, tensor in found}
    for attention in split_layers(model).values():
        reached |= {
            p.untyped_storage().data_ptr() for copy in copies(attention) for p in copy.parameters()
        }
    return [
        name
        for name, p in model.named_parameters()
        if p.untyped_storage().data_ptr() not in reached
    ]


def _tied(found: list[Held]) -> list[Held]:
    """The same, each tied tensor with the name of the first that shares its memory, embeddings
    before others."""
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
        elif (
            embedding is not None
            and own.name.endswith("W_U")
            and _repeats(each.tensor, embedding.tensor)
        ):
            own = replace(embedding.parameter, name=own.name, shape=own.shape)
            each = replace(each, parameter=own, tied_to=embedding.parameter.name, repeats=True)
        told.append(each)
    return told


def _repeats(W_U: Tensor, W_E: Tensor) -> bool:
    """Whether an unembedding is a copy of the embedding: HookedTransformer has no other way to tie
    them."""
    return W_U.device == W_E.device and torch.equal(W_U, W_E.T) and bool(W_E[:1].ne(W_E).any())


def _described(model: nn.Module) -> Iterator[tuple[str, Held | None, Tensor]]:
    head, split, cfg = (
        _head(model),
        split_layers(model),
        None if is_bridge(model) else getattr(model, "cfg", None),
    )
    for path, module, parent in modules_of(model):
        for name, tensor in module.named_parameters(recurse=False):
            full = f"{path}.{name}".lstrip(".")
            ours = type(module).__module__.startswith(OURS)
            held = lens_tensor(full, tensor, cfg, ours) or of_layer(
                path, module, name, tensor, parent
            )
            if held is not None and module is head and held.parameter.group:
                held = replace(held, parameter=replace(held.parameter, group="unembedding"))
            if held is not None and id(module) in split:
                live = [
                    dict(copy.named_parameters()).get(name) for copy in copies(split[id(module)])
                ]
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


def lens_tensor(name: str, tensor: Tensor, cfg: Any, trusted: bool) -> Held | None:
    """A weight under a TransformerLens name; of a class of somebody else, where cfg says that its
    shape is the same."""
    path, _, kind = name.rpartition(".")
    kind = kind.lstrip("_")  # HookedTransformer holds grouped keys and values as _W_K and _W_V
    shape, name = tuple(tensor.shape), f"{path}.{kind}".lstrip(".")
    if kind not in GROUPS or (
        kind == "W" and not trusted
    ):  # BERT's heads have W; elsewhere it may be turned round
        known = (kind in ("w", "b") and trusted) or (
            kind.startswith("b_") and (trusted or cfg is not None)
        )
        return Held(lens_parameter(name, shape, 0, tensor.requires_grad), tensor) if known else None
    if len(shape) not in (2, 3):
        return None
    d_in = (
        shape[0] * shape[1]
        if kind == "W_O"
        else shape[-1]
        if GROUPS[kind] == "embedding"
        else shape[-2]
    )
    sizes = {"W_O": ("n_heads", "d_head"), "W_out": ("d_mlp",)}.get(kind, ("d_model",))
    expected = [getattr(cfg, size, None) or 0 for size in sizes]
    if not trusted and d_in != expected[0] * (expected[-1] if len(expected) > 1 else 1):
        return None
    stopped = not tensor.requires_grad and not tensor.any()  # W_Q of a layer that attends uniformly
    parameter = lens_parameter(name, shape, 0 if stopped else d_in, tensor.requires_grad)
    grouped = kind in ("W_K", "W_V") and shape[0] != getattr(cfg, "n_heads", shape[0])
    return Held(replace(parameter, width=0) if grouped else parameter, tensor)


def of_layer(
    path: str, module: nn.Module, name: str, tensor: Tensor, parent: nn.Module
) -> Held | None:
    """A tensor of a layer of torch or of transformers."""
    full, shape, trained = f"{path}.{name}".lstrip("."), tuple(tensor.shape), tensor.requires_grad
    constant = Held(Parameter(full, shape, 0, trained), tensor)

    def matrix(axis: int, group: str, writing: bool = False, width: int | None = None) -> Held:
        """A weight whose outputs lie along an axis, and its inputs along the other of the last
        two."""
        d_in = shape[-1] if axis == len(shape) - 2 else shape[-2]
        width = shape[1] if width is None else width
        return Held(Parameter(full, shape, d_in, trained, group, writing, width), tensor, axis=axis)

    if isinstance(module, nn.Embedding):
        if path.endswith("bias"):  # a bias for each distance between positions, as in T5
            return constant
        return replace(matrix(0, "embedding"), padding=module.padding_idx)
    transposed = type(module).__name__ == "Conv1D" and hasattr(module, "nf")
    if isinstance(module, nn.Linear) or transposed:
        if name == "bias":
            return constant
        return (
            _with_values(matrix(int(transposed), group_of(path), writes(path)), parent)
            if name == "weight"
            else None
        )
    if isinstance(module, nn.MultiheadAttention):
        groups = {
            "in_proj_weight": "qkv",
            "q_proj_weight": "qk",
            "k_proj_weight": "qk",
            "v_proj_weight": "vo",
        }
        if name == "in_proj_bias":
            return constant
        return _with_values(matrix(0, groups[name]), module) if name in groups else None
    norm = "norm" in type(module).__name__.lower() and not isinstance(
        module, nn.modules.batchnorm._BatchNorm
    )
    if norm and len(shape) == 1:
        return (
            constant
            if name == "bias"
            else _scale_of_norm(constant, module)
            if name == "weight"
            else None
        )
    if hasattr(module, "is_transposed") and (
        name in EXPERTS or name.removesuffix("_bias") in EXPERTS
    ):
        if name.endswith("_bias"):
            return constant
        return matrix(2 if module.is_transposed else 1, "mlp", name == "down_proj", width=0)
    if (
        "Router" in type(module).__name__
        and name in ("weight", "bias")
        and hasattr(module, "top_k")
    ):
        return constant if name == "bias" else matrix(0, "other", width=0)
    return None


def _with_values(held: Held, attention: nn.Module) -> Held:
    """A layer of queries, keys and values, with which outputs are values where the order of its
    attention is known."""
    if held.parameter.group != "qkv":
        return held
    n, kind = held.tensor.shape[held.axis], type(attention).__name__
    at, sizes = torch.arange(n), vars(attention)
    if kind in ("GPT2Attention", "MptAttention", "MultiheadAttention"):
        # blocks, without queries in cross-attention
        values = at >= n - n // (2 if sizes.get("is_cross_attention") else 3)
    elif kind == "Phi3Attention":
        values = at >= n - sizes["num_key_value_heads"] * sizes["head_dim"]
    elif kind in (
        "GPTNeoXAttention",
        "BloomAttention",
    ):  # query, key and value of one head after another
        values = at // (sizes["head_size"] if "head_size" in sizes else sizes["head_dim"]) % 3 == 2
    else:
        return held
    return replace(held, values=values)


def _scale_of_norm(held: Held, norm: nn.Module) -> Held | None:
    """The weight of a norm; None where it cannot be tried on an input."""
    if held.tensor.is_meta:
        return held
    twin = deepcopy(norm)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
        try:
            out = type(twin).forward(
                twin, torch.linspace(-1, 2, held.tensor.numel()).to(held.tensor)[None]
            )
        except Exception:
            return None
    return replace(held, parameter=replace(held.parameter, constant=0.0 if out.any() else 1.0))


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


def place(tensor: Tensor) -> tuple[int, ...]:
    """Where a tensor lies in memory: tied weights have the same place."""
    return tensor.untyped_storage().data_ptr(), int(tensor.storage_offset()), tensor.numel()


def is_bridge(model: nn.Module) -> bool:
    """Whether a model is one that TransformerLens 4 has put bridges around; needs no import of
    TransformerLens."""
    return hasattr(model, "tl_parameters") and hasattr(model, "original_model")


def modules_of(model: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """Path, module and the module that it is part of, of every module once; each bridge is what it
    stands for.

    >>> [path for path, _, _ in modules_of(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))]
    ['', '0', '1']
    """
    model = model.original_model if is_bridge(model) else model  # pyright: ignore[reportAssignmentType]
    seen: set[int] = set()

    def walk(
        path: str, module: nn.Module, parent: nn.Module
    ) -> Iterator[tuple[str, nn.Module, nn.Module]]:
        module = behind(module)
        if id(module) in seen:
            return
        seen.add(id(module))
        yield path, module, parent
        for name, child in module.named_children():
            inner = (
                path
                if name in ("_orig_mod", "_checkpoint_wrapped_module")
                else f"{path}.{name}".lstrip(".")
            )
            yield from walk(inner, child, module)

    yield from walk("", model, model)


def behind(module: nn.Module) -> nn.Module:
    """What a bridge stands for; any other module as it is."""
    while isinstance(original := module._modules.get("_original_component"), nn.Module):
        module = original
    return module


def native_tensors(model: Any) -> dict[str, Tensor]:
    """Every weight of a native bridge under its TransformerLens name, as a view of the model's own
    memory.

    ``tl_parameters`` repeats the keys and values of grouped queries and makes up what a model
    lacks. Raises ModelError for a parameter without such a name.
    """
    found = dict(model.tl_parameters())
    for layer, block in enumerate(model.blocks):
        names = {f"blocks.{layer}.attn.{kind}": kind for kind in ("W_K", "W_V", "b_K", "b_V")}
        found |= {name: getattr(block.attn, kind) for name, kind in names.items() if name in found}
    own = {
        parameter.untyped_storage().data_ptr(): name for name, parameter in model.named_parameters()
    }
    found = {
        name: tensor for name, tensor in found.items() if tensor.untyped_storage().data_ptr() in own
    }
    for tensor in found.values():
        own.pop(tensor.untyped_storage().data_ptr(), None)
    if own:
        raise ModelError(
            f"this {type(model).__name__} holds {', '.join(own.values())}, which have no "
            f"TransformerLens name."
        )
    return found


def split_layers(model: nn.Module) -> dict[int, Any]:
    """Bridges of attention that compute with copies of a fused layer's parts, by the ``id`` of that
    layer."""
    if not is_bridge(model):
        return {}
    found = [
        module
        for module in model.modules()
        if hasattr(module, "split_qkv_matrix") and hasattr(module, "qkv")
    ]
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
