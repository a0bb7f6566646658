"""A source made of plain arrays: activations and weights from nnsight, pyvene, a torch module, or a file.

Arrays have the names that TransformerLens gives them. Those of every layer may be given together, under a short name:

    pattern [layer, row, head, query, key]      resid_pre, resid_mid, resid_post, attn_out, mlp_out [layer, row, pos, d]
    q, k, v, z [layer, row, pos, head, d_head]  logits [row, pos, d_vocab]
    W_Q, W_K, W_V [layer, head, d_model, d_head]    W_O [layer, head, d_head, d_model]     W_E [d_vocab, d_model]
    W_in [layer, d_model, d_mlp]    W_out [layer, d_mlp, d_model]
    token_inputs [d_vocab, d_model] or [layer, d_vocab, d_model]: each token's embedding as attention reads it

Weights are in the convention x W. ``token_inputs`` is W_E where no LayerNorm stands before the attention, else
LayerNorm's output for each token; arrays cannot be run, so that nobody else knows it.

How it can mislead. Arrays do not know their tokens: activations must be of the rows whose roles the probe is given, in
their order. Only numbers of rows and positions can be checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rb_interp.errors import ModelError, nearest, shown
from rb_interp.typed import typed

BY_LAYER = {
    "pattern": ("attn.hook_pattern", "row head query key"),
    **{name: (f"attn.hook_{name}", "row pos head d_head") for name in "qkvz"},
    **{
        name: (f"hook_{name}", "row pos d_model")
        for name in ["resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out"]
    },
    **{name: (f"attn.{name}", "head d_model d_head") for name in ("W_Q", "W_K", "W_V")},
    "W_O": ("attn.W_O", "head d_head d_model"),
    "W_in": ("mlp.W_in", "d_model d_mlp"),
    "W_out": ("mlp.W_out", "d_mlp d_model"),
    "token_inputs": ("token_inputs", "d_vocab d_model"),
}
"""Short name -> the name within a block, and the axes of one layer."""
WHOLE = {"W_E": ("embed.W_E", "d_vocab d_model"), "logits": ("logits", "row pos d_vocab")}
AXES = dict([*BY_LAYER.values(), *WHOLE.values()])
GROUPED = ("attn.W_V", "attn.W_K", "attn.hook_v", "attn.hook_k")
"""What heads may share."""
LONGEST = 10**6
"""Positions of a row where no array tells them."""
SIZES = ("n_layers", "n_heads", "d_model", "d_head", "d_vocab", "n_ctx")
TELLING = {"d_model": "'resid_pre' or 'W_E'", "d_head": "'W_V'", "d_vocab": "'W_E'"}
"""Size -> arrays that tell it."""
SUM = 0.05
"""By how much attention in half precision may miss a sum of 1."""


class MissingArrayError(ModelError, AttributeError):
    """An array that a probe reads was not given; `hasattr` says no."""


class Arrays:
    """Activations and weights by name, in place of a model or a cache; see `from_arrays`."""

    has_batch_dim = True

    def __init__(self, held: Mapping[str, Tensor], attn_only: bool) -> None:
        self.cache_dict, self.model = dict(held), ArrayModel(held, attn_only)


class ArrayModel:
    """What arrays know of their model: sizes and weights under TransformerLens's names."""

    def __init__(self, held: Mapping[str, Tensor], attn_only: bool) -> None:
        self.arrays, self.hook_dict = held, dict.fromkeys(name for name in held if "hook_" in name)
        self.cfg = _Sizes(attn_only=attn_only, **_sizes(held))
        layers = range(self.cfg.n_layers)
        self.blocks = [SimpleNamespace(attn=_Part(self, at, "attn"), mlp=_Part(self, at, "mlp")) for at in layers]

    def array(self, name: str) -> Tensor:
        """An array by its full name; MissingArrayError says which one to add."""
        if name not in self.arrays:
            shape = f" [{', '.join(_axes(name))}]" if _axes(name) else ""
            raise MissingArrayError(f"these arrays have no '{name}'{shape}; add it to from_arrays.")
        return self.arrays[name]

    @property
    def W_E(self) -> Tensor:  # noqa: N802 (weights carry the field's names)
        """Token embedding."""
        return self.array("embed.W_E")

    @property
    def logits(self) -> Tensor:
        """Outputs for the rows."""
        return self.array("logits")

    def token_inputs(self, layer: int) -> Tensor:
        """Each token's embedding as a layer's attention reads it."""
        return self.array("token_inputs" if "token_inputs" in self.arrays else f"blocks.{layer}.token_inputs")

    def parameters(self) -> Iterator[Tensor]:
        """The weights."""
        return (array for name, array in self.arrays.items() if ".W_" in name or ".b_" in name)


class _Part:
    """Attention or MLP of a block: its weights as attributes."""

    def __init__(self, model: ArrayModel, layer: int, part: str) -> None:
        self._of = model, f"blocks.{layer}.{part}."

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("__"):
            raise AttributeError(name)
        model, place = self._of
        return model.array(place + name)


class _Sizes(SimpleNamespace):
    """Sizes as far as the arrays tell them."""

    def __getattr__(self, name: str) -> Any:
        if name in SIZES:
            those = TELLING.get(name, "an array that has it")
            raise MissingArrayError(f"these arrays do not tell {name}; add {those} to from_arrays.")
        raise AttributeError(name)


@typed
def from_arrays(arrays: Mapping | None = None, *, attn_only: bool = False, **named: Any) -> Arrays:
    """A source for every probe from plain arrays, numpy's or torch's; ``untrained=`` takes such a source as well.

    A probe that reads an array which is not there says which one to add. Nothing runs, so probes that need a model to
    do something new ask for what it would have given. From ``W_E`` alone ``geometry`` reads the embedding
    itself; of a model with LayerNorm before its attention it reads what LayerNorm makes of it, your ``token_inputs``.

    Args:
        arrays: by name: ``blocks.0.attn.hook_pattern``, ``blocks.0.attn.W_V``, ``("pattern", 0)``, or a short name of
            the module's table with all layers, stacked or as a list or mapping by layer.
        attn_only: whether the layers have no MLP.
        named: the same by short name, as in ``from_arrays(pattern=patterns, W_V=W_V)``.

    Raises:
        ModelError: for a name that is not known, and an array of another number of axes.

    >>> from rb_interp import Inputs
    >>> from rb_interp.probes import uniformity
    >>> even = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    >>> source = from_arrays(pattern=np.tile(even, (2, 1, 3, 1, 1)))       # [layer, row, head, query, key]
    >>> uniformity(source, Inputs(np.array([[1, 2, 3, 4]])), layer=1, head=2).values["tv"]
    0.0
    """
    held: dict[str, Tensor] = {}
    for name, value in {**(arrays or {}), **named}.items():
        held |= _read(name, value)
    return Arrays(held, attn_only)


def _axes(name: str) -> list[str]:
    """The axes of an array by its full name; none where they are not known."""
    return AXES.get(name.split(".", 2)[-1] if name.startswith("blocks.") else name, "").split()


def _sizes(held: Mapping[str, Tensor]) -> dict[str, int]:
    """What the shapes of some arrays tell of their model."""
    numbers = [int(name.split(".")[1]) for name in held if name.startswith("blocks.")]
    sizes, grouped = {"n_layers": max(numbers, default=-1) + 1, "n_ctx": LONGEST}, {}
    for name, array in held.items():
        shape = dict(zip(_axes(name), array.shape, strict=True)) if _axes(name) else {}
        if "head" in shape:  # those of GROUPED may be fewer than the model's
            (grouped if name.endswith(GROUPED) else sizes)["n_heads"] = shape["head"]
        sizes |= {axis: shape[axis] for axis in ("d_model", "d_head", "d_vocab") if axis in shape}
        sizes["n_ctx"] = shape.get("pos", sizes["n_ctx"])
    return {"n_heads": int(bool(numbers))} | grouped | sizes  # without heads no probe can ask for another one than 0


def _read(name: Any, value: Any) -> dict[str, Tensor]:
    """The arrays under one name, by full name."""
    if isinstance(name, tuple) and len(name) == 2 and name[0] in BY_LAYER:
        name = f"blocks.{name[1]}.{BY_LAYER[name[0]][0]}"
    several = isinstance(value, Mapping | list | tuple)
    if name in WHOLE:
        return {WHOLE[name][0]: _array(name, value, WHOLE[name][1].split())}
    if isinstance(name, str) and ("." in name or name.startswith("hook_")):
        return {name: _array(name, value, _axes(name))}
    if name not in BY_LAYER:
        near = nearest(str(name), [*BY_LAYER, *WHOLE])
        raise ModelError(f"from_arrays does not know {shown(name)}, nor is it the full name of a hook; {near}")
    within, axes = BY_LAYER[name]
    if name == "token_inputs" and not several and np.ndim(value) == 2:
        return {name: _array(name, value, axes.split())}
    if not several and not getattr(value, "ndim", 0):
        raise ModelError(
            f"from_arrays got {name}={shown(value)}; expected an array for each layer, stacked, listed or by number."
        )
    layers = value.items() if isinstance(value, Mapping) else enumerate(value)
    return {f"blocks.{layer}.{within}": _array(f"{name} of L{layer}", one, axes.split()) for layer, one in layers}


def _array(name: str, value: Any, axes: Sequence[str]) -> Tensor:
    """An array as a tensor on CPU; ModelError where it has another number of axes."""
    try:
        found = value.detach().cpu() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    except (TypeError, ValueError, RuntimeError):
        raise ModelError(f"from_arrays got {name}={shown(value)}; expected an array of numbers.") from None
    if axes and found.ndim != len(axes):
        raise ModelError(
            f"from_arrays got {name} of shape {list(found.shape)}; expected [{', '.join(axes)}] for each layer."
        )
    if name.endswith("hook_pattern") or name.startswith("pattern of "):
        sums = found.double().sum(-1)
        if found.min() < 0 or bool(((sums - 1).abs() > SUM).any()):
            raise ModelError(
                f"from_arrays got {name} with rows that sum to {float(sums.min()):.3g} to {float(sums.max()):.3g}; "
                f"expected attention after its softmax, each row of which sums to 1."
            )
    return found
