"""Plain arrays in place of a model: what a probe reads, by the names that TransformerLens gives it.

Those of every layer may be given together, under a short name:

    pattern [layer, row, head, query, key]
    resid_pre, resid_mid, resid_post, attn_out, mlp_out [layer, row, pos, d_model]
    q, k, v, z [layer, row, pos, head, d_head]      logits [row, pos, d_vocab]
    W_Q, W_K, W_V [layer, head, d_model, d_head]    W_O [layer, head, d_head, d_model]
    W_in [layer, d_model, d_mlp]    W_out [layer, d_mlp, d_model]
    W_E [d_vocab, d_model]          W_U [d_model, d_vocab]
    token_inputs [d_vocab, d_model] or [layer, d_vocab, d_model]

Weights are in the convention x W. ``token_inputs`` is each token's embedding as attention reads it:
W_E where no LayerNorm stands before the attention, else LayerNorm's output for each token.

How it can mislead. Arrays do not know their tokens: activations must be of the rows whose roles and
labels the probe is given, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import numpy as np
import torch
from beartype.vale import Is
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import ModelError, describe, nearest
from rb_interp.models.protocol import HookedModel, hooked

if TYPE_CHECKING:
    from transformer_lens import ActivationCache

    ActivationSource: TypeAlias = "HookedModel | ActivationCache | Arrays"
else:
    ActivationSource = Annotated[object, Is[lambda value: hooked(value, caches=True) is not None]]

RESIDUALS = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")
BY_LAYER = {
    "pattern": ("attn.hook_pattern", "row head query key"),
    **{name: (f"attn.hook_{name}", "row pos head d_head") for name in "qkvz"},
    **{name: (f"hook_{name}", "row pos d_model") for name in RESIDUALS},
    **{name: (f"attn.{name}", "head d_model d_head") for name in ("W_Q", "W_K", "W_V")},
    "W_O": ("attn.W_O", "head d_head d_model"),
    "W_in": ("mlp.W_in", "d_model d_mlp"),
    "W_out": ("mlp.W_out", "d_mlp d_model"),
    "token_inputs": ("token_inputs", "d_vocab d_model"),
}
"""Short name -> the name within a block, and the axes of one layer."""
WHOLE = {
    "W_E": ("embed.W_E", "d_vocab d_model"),
    "W_U": ("unembed.W_U", "d_model d_vocab"),
    "logits": ("logits", "row pos d_vocab"),
}
"""Short name of what has no layer -> its full name, and its axes."""
AXES = dict([*BY_LAYER.values(), *WHOLE.values()])
GROUPED = ("attn.W_V", "attn.W_K", "attn.hook_v", "attn.hook_k")
"""What heads may share."""
DEFAULT_CONTEXT = 10**6
"""Positions of a row if no array has any."""
SIZED_BY = {"d_model": "'resid_pre' or 'W_E'", "d_head": "'W_V'", "d_vocab": "'W_E'"}
"""Size -> arrays whose shapes have it."""
SUM_TOLERANCE = 0.05
"""By how much attention in half precision may miss a sum of 1."""


class MissingArrayError(ModelError, AttributeError):
    """An array that a probe reads was not given; `hasattr` says no."""


def model_of(source: ActivationSource) -> HookedModel:
    """The model that a source is, or that its activations are of."""
    if hasattr(source, "cache_dict"):
        return cast(Any, source).model
    return cast(Any, source)


@checked
def from_arrays(
    arrays: Mapping[Any, Any] | None = None, *, attn_only: bool = False, **keywords: Any
) -> Arrays:
    """A source for every probe from plain arrays, numpy's or torch's; ``untrained=`` takes such a
    source as well.

    A probe that reads an array which is not there says which one to add. From ``W_E`` alone
    ``geometry`` reads the embedding itself; with heads it reads your ``token_inputs``. Raises
    ModelError for a name that is not known, and an array of another number of axes.

    Args:
        arrays: by name: ``blocks.0.attn.hook_pattern``, ``blocks.0.attn.W_V``, ``("pattern", 0)``,
            or a short name of the module's table with all layers, stacked or as a list or mapping
            by layer.
        attn_only: whether the layers have no MLP.
        keywords: the same by short name. A pattern does not tell that its layer is local, so what
            lies outside the window counts as seen.

    >>> from rb_interp import Inputs
    >>> from rb_interp.probes import uniformity
    >>> even = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    >>> source = from_arrays(pattern=np.tile(even, (2, 1, 3, 1, 1)))       # [layer, row, head, query, key]
    >>> uniformity(source, Inputs(np.array([[1, 2, 3, 4]])), layer=1, head=2).values["tv"]
    0.0
    """
    tensors: dict[str, Tensor] = {}
    for name, value in {**(arrays or {}), **keywords}.items():
        tensors |= _by_full_name(name, value)
    return Arrays(tensors, attn_only)


class _Named(SimpleNamespace):
    """Arrays of one part of a model, or sizes, as attributes; MissingArrayError names one that is
    not there."""

    def __getattr__(self, name: str) -> Any:
        raise missing_array(self.__dict__.get("prefix", "") + name)


class Arrays(_Named):
    """Activations and weights under TransformerLens's names, as a cache and as what they know of
    its model."""

    def __init__(self, arrays: Mapping[str, Tensor], attn_only: bool) -> None:
        sizes = _sizes(arrays)
        whole = {name: arrays[full] for name, (full, _) in WHOLE.items() if full in arrays}
        super().__init__(
            arrays=arrays,
            hook_dict=dict.fromkeys(name for name in arrays if "hook_" in name),
            cfg=_Named(attn_only=attn_only, **sizes),
            **whole,
        )
        self.cache_dict = arrays
        self.model = self
        shared = {name: arrays[name] for name in ("token_inputs",) if name in arrays}
        self.blocks = []
        for layer in range(sizes["n_layers"]):
            prefix = f"blocks.{layer}."
            parts = {part: _Named(prefix=f"{prefix}{part}.") for part in ("attn", "mlp")}
            block = _Named(prefix=prefix, **shared, **parts)
            self.blocks.append(block)
            for name, array in arrays.items():
                if name.startswith(prefix):
                    part, _, last = name.removeprefix(prefix).rpartition(".")
                    setattr(parts.get(part, block), last, array)

    def __repr__(self) -> str:
        names = sorted({name.rpartition(".")[2] for name in self.arrays})
        return f"Arrays({self.cfg.n_layers} layers: {', '.join(names)})"

    def parameters(self) -> Iterator[Tensor]:
        """The weights."""
        return (array for name, array in self.arrays.items() if ".W_" in name or ".b_" in name)


def missing_array(name: str) -> MissingArrayError:
    """The error for an array, or for a size that no array has."""
    name = WHOLE.get(name, (name,))[0]
    if name in SIZED_BY:
        return MissingArrayError(
            f"these arrays do not tell {name}; add {SIZED_BY[name]} to from_arrays."
        )
    axes = axes_of(name)
    if not axes and not _is_full(name):
        known = ", ".join([*BY_LAYER, *WHOLE])
        return MissingArrayError(f"arrays in place of a model have no '{name}', only {known}.")
    shape = f" [{', '.join(axes)}]" if axes else ""
    return MissingArrayError(f"these arrays have no '{name}'{shape}; add it to from_arrays.")


def _is_full(name: Any) -> bool:
    """Whether a name is the full one of a hook or a weight, and no short one."""
    return isinstance(name, str) and ("." in name or name.startswith("hook_"))


def axes_of(name: str) -> list[str]:
    """The axes of an array by its full name; none if they are not known."""
    within = name.split(".", 2)[-1] if name.startswith("blocks.") else name
    return AXES.get(within, "").split()


def fits_heads(name: str, size: int, n_heads: int) -> bool:
    """Whether an array has the heads of its model, which may share what is in GROUPED."""
    shared = name.endswith(GROUPED) and size > 0 and n_heads % size == 0
    return size == n_heads or shared


def _sizes(arrays: Mapping[str, Tensor]) -> dict[str, int]:
    """What the shapes of some arrays tell of their model."""
    layers = [int(name.split(".")[1]) for name in arrays if name.startswith("blocks.")]
    sizes = {"n_layers": max(layers, default=-1) + 1, "n_ctx": DEFAULT_CONTEXT}
    heads = {}
    for name, array in arrays.items():
        axes = axes_of(name)
        shape = dict(zip(axes, array.shape, strict=True)) if axes else {}
        if "head" in shape:
            heads[name] = shape["head"]
        if "pos" in shape:
            sizes["n_ctx"] = shape["pos"]
        sizes |= {axis: shape[axis] for axis in SIZED_BY if axis in shape}
    # without heads no probe can ask for another than 0
    n_heads = max(heads.values(), default=int(bool(layers)))
    unequal = {name: size for name, size in heads.items() if not fits_heads(name, size, n_heads)}
    if unequal:
        raise ModelError(
            f"from_arrays got {n_heads} heads, and other numbers in {unequal}; give arrays of one "
            f"model."
        )
    return sizes | {"n_heads": n_heads}


def _by_full_name(name: Any, value: Any) -> dict[str, Tensor]:
    """The arrays under one name, by full name."""
    if isinstance(name, tuple) and len(name) == 2 and name[0] in BY_LAYER:
        name = f"blocks.{name[1]}.{BY_LAYER[name[0]][0]}"
    by_layer = isinstance(value, Mapping | list | tuple)
    one_for_all = name == "token_inputs" and not by_layer and np.ndim(value) == 2
    if name in WHOLE or one_for_all or _is_full(name):
        full = WHOLE[name][0] if name in WHOLE else str(name)
        return {full: _array(full, str(name), value)}
    if name not in BY_LAYER:
        known = nearest(str(name), [*BY_LAYER, *WHOLE])
        raise ModelError(
            f"from_arrays does not know {describe(name)}, nor is it the full name of a hook; {known}"
        )
    arrays = {}
    for layer, array in value.items() if isinstance(value, Mapping) else enumerate(value):
        full = f"blocks.{layer}.{BY_LAYER[name][0]}"
        arrays[full] = _array(full, f"{name} of L{layer}", array)
    if not arrays:
        eager = "; a model of transformers gives its attentions with attn_implementation='eager'"
        raise ModelError(f"from_arrays got {name} of no layer{eager if name == 'pattern' else ''}.")
    return arrays


def _array(full: str, name: str, value: Any) -> Tensor:
    """An array as a tensor on CPU; ModelError if it has another number of axes."""
    if isinstance(value, Tensor):
        array = value.detach().cpu()
    else:
        array = torch.as_tensor(np.asarray(value))
    axes = axes_of(full)
    if axes and array.ndim != len(axes):
        raise ModelError(
            f"from_arrays got {name} of shape {list(array.shape)}; expected [{', '.join(axes)}] "
            f"for each layer."
        )
    return _pattern(name, array) if full.endswith("hook_pattern") else array


def _pattern(name: str, pattern: Tensor) -> Tensor:
    """A pattern with 0 at queries of padding; ModelError if its rows do not sum to 1."""
    attends = pattern.any(-1)  # a query of padding attends to nothing
    sums = pattern.double().sum(-1)
    wrong = ((sums - 1).abs() > SUM_TOLERANCE) & attends
    if pattern.min() < 0 or not attends.any() or wrong.any():
        raise ModelError(
            f"from_arrays got {name} with rows that sum to {float(sums.min()):.3g} to "
            f"{float(sums.max()):.3g}; "
            f"expected attention after its softmax, each row of which sums to 1."
        )
    ahead = pattern.triu(1).any(-1)
    even = (pattern == pattern[..., :1]).all(-1)
    causal = not ahead[..., :-1].all()
    # transformers gives a query of padding in front the same of every position
    if causal and (even | ~ahead).all():
        pattern = pattern.masked_fill((even & ahead)[..., None], 0)
    # both ways: the end that no query of any head attends to
    if pattern.shape[1] > 1 and pattern.triu(1).any():
        unseen = ~pattern.any((1, 2))
        behind = unseen.flip(1).int().cumprod(1).flip(1).bool()
        pattern = pattern.masked_fill(behind[:, None, :, None], 0)
    return pattern
