"""What probes read, activations of any TransformerLens model by hook name, and what they refuse.

A source is a model, activations that were captured of it beforehand, or plain arrays
(``from_arrays``). ``captured`` gives TransformerLens's own ``ActivationCache``, so that several
probes of the same model and rows need one pass; a cache of ``model.run_with_cache`` does as well. No
gradient and no hook is left behind.

How it can mislead. A cache does not know its tokens: activations must be of the rows whose roles and
labels the probe is given, in their order, and of the weights that the model still has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from hashlib import blake2b
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError, ModelError, RolesError, describe, nearest
from rb_interp.models.arrays import (
    ActivationSource,
    Arrays,
    axes_of,
    fits_heads,
    from_arrays,
    missing_array,
    model_of,
)
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.models.structure import (
    attached,
    attention_layers,
    check_not_compiled,
    check_range,
    device_of,
    evaluation,
    has_attention,
    hook_points,
    rows_of_a_pass,
    widest_activation,
)
from rb_interp.tasks.inputs import Inputs, role_positions

__all__ = [
    "capture",
    "captured",
    "from_arrays",
]

if TYPE_CHECKING:
    from transformer_lens import ActivationCache


TokenArray = np.ndarray | Tensor
"""Integers ``[row, pos]``. The annotation leaves the shape to ``as_rows``, whose message says what
to change."""
Select = Callable[[Tensor], Tensor] | None


class _EnoughError(Exception):
    """All that was asked for has been read, so the rest of the pass is left out."""


@checked
@single_threaded
def capture(
    model: ActivationSource,
    tokens: TokenArray,
    names: Sequence[str],
    *,
    batch: int | None = None,
    select: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Tensor]:
    """Run tokens through a model and return the named activations, rows first, on CPU, in the
    model's own dtype.

    The model runs in evaluation mode and is given back as it was; hooks that the caller has
    attached stay and act. A pass ends where the last of the names has been read.

    Args:
        model: the model, or what `captured` gave for these tokens; then nothing runs.
        tokens: integers ``[row, pos]``.
        names: full hook names, such as ``blocks.0.attn.hook_pattern``, or ``logits``.
        batch: rows of one pass; by default as many as ``models.structure.rows_of_a_pass`` says.
        select: what to keep of each activation, for instance ``lambda pattern: pattern[:, 0]`` for
            one head.

    Raises ModelError for a hook that does not exist in this model or does not fire, for tokens
    outside its vocabulary or context, and for a cache that lacks one or is of other rows.
    """
    rows = as_rows(tokens)
    names = list(dict.fromkeys(names))
    source: Any = model.source if isinstance(model, OnePass) else model
    if hasattr(source, "cache_dict"):
        return {name: selected(_cached(source, rows, name), select) for name in names}
    if isinstance(model, OnePass):
        return model.of_rows(rows, names, select)
    model = model_of(model)
    points = hook_points(model, names)
    for name in names:
        if name not in points and name != "logits":
            check_not_compiled(model)
            raise ModelError(f"this model has no hook '{name}'; {nearest(name, model.hook_dict)}")
    check_range(model, rows)
    device = device_of(model)
    fired: dict[str, Tensor] = {}
    parts: dict[str, list[Tensor]] = defaultdict(list)

    def read(value: Tensor, hook: Any, name: str) -> None:
        fired[name] = value
        if len(fired) == len(names):
            raise _EnoughError

    hooks = []
    for name in names:
        if name != "logits":
            hooks.append((name, partial(read, name=name)))
    with torch.no_grad(), evaluation(model), attached(model, hooks):
        for chunk in rows.split(batch or rows_of_a_pass(model, rows)):
            fired.clear()
            with suppress(_EnoughError):
                fired["logits"] = model(chunk.to(device))
            for name in names:
                if name not in fired:
                    raise ModelError(
                        f"the hook '{name}' did not fire; the model's configuration switches it "
                        f"off (for instance cfg.use_attn_result for 'hook_result', cfg.use_attn_in "
                        f"for 'hook_attn_in')."
                    )
                parts[name].append(selected(fired[name], select))
    activations = {}
    for name, chunks in parts.items():
        activations[name] = torch.cat(chunks)
    return activations


@checked
@single_threaded
def captured(
    model: HookedModel, tokens: TokenArray, names: Sequence[str] = (), *, batch: int | None = None
) -> ActivationCache:
    """The named activations of some rows in one pass: give them to probes of these rows in place of
    the model.

    Args:
        tokens: integers ``[row, pos]``. batch: rows of one pass.
        names: full hook names; by default the attention patterns of every layer that has any.

    >>> from rb_interp import AnchorTask, build_model
    >>> from rb_interp.probes import attention_to_key, uniformity
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> inputs = data.inputs(data.sample("rsn_train", 20))
    >>> cache = captured(model, inputs.tokens)
    >>> uniformity(cache, inputs).values == uniformity(model, inputs).values
    True
    """
    from transformer_lens import ActivationCache

    names = names or [f"blocks.{layer}.attn.hook_pattern" for layer in attention_layers(model)]
    return ActivationCache(capture(model, tokens, names, batch=batch), model)


def _cached(cache: ActivationCache, rows: Int[Tensor, "row pos"], name: str) -> Tensor:
    """An activation of a cache; ModelError if the cache lacks it, or is of another number of rows
    or positions."""
    if name not in cache.cache_dict:
        if isinstance(cache.model, Arrays):
            raise missing_array(name)
        raise ModelError(
            f"this cache has no '{name}'; capture it too, or pass the model; "
            f"{nearest(name, cache.cache_dict)}"
        )
    value = cache.cache_dict[name]
    axes = axes_of(name.replace("hook_attn_scores", "hook_pattern")) or ["row", "pos"]
    sizes = dict(zip(axes, value.shape, strict=False))
    n_rows, length = rows.shape
    expected = {"row": n_rows, "pos": length, "query": length, "key": length}
    fits = all(sizes.get(axis) == expected[axis] for axis in axes if axis in expected)
    if not fits or not getattr(cache, "has_batch_dim", True):
        raise ModelError(
            f"the cache holds '{name}' of shape {list(value.shape)} and the rows are "
            f"{list(rows.shape)}; give the cache of these rows, with its batch dimension."
        )
    n_heads = cache.model.cfg.n_heads
    if "head" in sizes and not fits_heads(name, sizes["head"], n_heads):
        raise ModelError(
            f"the cache holds '{name}' of {sizes['head']} heads, and its model has {n_heads}."
        )
    return value


def selected(value: Tensor, select: Select) -> Tensor:
    """What is selected of an activation, on CPU."""
    part: Any = value if select is None else select(value)
    if not isinstance(part, Tensor) or part.shape[:1] != value.shape[:1]:
        raise ArgumentError(
            f"select gave {describe(part)} for an activation of shape {list(value.shape)}; "
            f"expected a tensor of its rows, such as lambda z: z[:, -1] gives."
        )
    return part.detach().cpu()


def logits_of(source: ActivationSource, tokens: TokenArray, select: Select = None) -> Tensor:
    """Logits ``[row, pos, d_vocab]`` of some rows, or what is selected of them, on CPU; of a cache
    its model's."""
    model = model_of(source)
    if isinstance(model, Arrays):
        model = source
    return capture(model, tokens, ["logits"], select=select)["logits"]


def as_rows(tokens: TokenArray) -> Int[Tensor, "row pos"]:
    """Tokens of any integer type as a long tensor on CPU; ModelError if they are not ``[row,
    pos]``."""
    rows = tokens.cpu() if isinstance(tokens, Tensor) else torch.from_numpy(np.array(tokens))
    if rows.ndim != 2 or rows.is_floating_point() or rows.is_complex() or rows.numel() == 0:
        raise ModelError(
            f"got tokens of shape {list(rows.shape)} and type {rows.dtype}; expected integers "
            f"[row, pos], at least one of each. A single sequence is tokens[None]."
        )
    return rows.long().contiguous()  # columns put in another order are not


def float64(weight: Tensor) -> np.ndarray:
    """A weight or activation as an array in float64."""
    return weight.detach().cpu().double().numpy()


DIVERGED = "weights are not all finite: its training has diverged."


def check_layer_head(
    model: ActivationSource,
    layer: int,
    head: int | None,
    caller: str,
    untrained: ActivationSource | None = None,
    *,
    caches: bool = False,
) -> None:
    """Raise ModelError if a model lacks this layer or head, or has no attention there.

    Args:
        caller: the name in the message.
        untrained: a second model that is checked as well.
        caches: whether cached activations are taken; ModelError for them if not.
    """
    sources = {"this model": model}
    if untrained is not None:
        sources["the untrained model"] = untrained
    for subject, source in sources.items():
        lens = model_of(hooked(source, caller, caches=caches))
        if not has_attention(lens):
            raise ModelError(
                f"{caller} looks at layers and heads, and {subject}, of type "
                f"{type(lens).__name__}, has none; use it on a model with attention. "
                f"geometry reads a model without."
            )
        counts = ("layer", layer, lens.cfg.n_layers), ("head", head, lens.cfg.n_heads)
        for name, number, count in counts:
            if number is not None and not 0 <= number < count:
                noun = name if count == 1 else f"{name}s"
                raise ModelError(
                    f"{caller} got {name}={number}; {subject} has {count} {noun}, counted from 0."
                )
        if f"blocks.{layer}.attn.hook_pattern" in getattr(source, "hook_dict", ()):
            continue
        layers = attention_layers(source)
        if layer not in layers:
            raise ModelError(
                f"{caller} got layer={layer}; {subject} has attention in the layers {layers} alone."
            )


def check_rows(inputs: Inputs, caller: str) -> None:
    """Raise an error for tokens that are not ``[row, pos]``, and for rows that lack a role.

    ModelError for tokens, RolesError for roles.
    """
    rows = inputs.tokens
    if not rows.size:
        as_rows(rows)  # raises
    for role, positions in inputs.roles.positions.items():
        if positions.size and not 0 <= positions.min() <= positions.max() < rows.shape[1]:
            raise RolesError(
                f"{caller} got role '{role}' at positions {positions.min()} to {positions.max()}; "
                f"these rows have positions 0 to {rows.shape[1] - 1}. Leave out rows that lack it: "
                f"inputs.take(rows)."
            )


def check_labels(inputs: Inputs, caller: str) -> np.ndarray:
    """The right answer of each row; ModelError if the inputs have none, or none that are tokens."""
    labels = inputs.labels
    if labels is None:
        raise ModelError(
            f"{caller} got {len(inputs)} rows and none labels; pass Inputs(tokens, labels, roles), "
            f"a label a row."
        )
    if labels.min(initial=0) < 0:
        raise ModelError(f"{caller} got the label {labels.min()}; expected a token a row.")
    return labels


def occupied(inputs: Inputs, role: str, caller: str) -> Int[np.ndarray, "row n"]:
    """Positions of a role, one at least; RolesError if the role is missing, or has none."""
    positions = role_positions(inputs.roles, role, inputs.tokens.shape, caller)
    if not positions.shape[1]:
        raise RolesError(
            f"{caller} got the role '{role}' without a position; give it one or more in each row."
        )
    return positions


def check_last_column(inputs: Inputs, caller: str) -> None:
    """Raise RolesError if the role ``last`` stands elsewhere than in the last column."""
    if (occupied(inputs, "last", caller) != inputs.tokens.shape[1] - 1).any():
        raise RolesError(
            f"{caller} reads the last column, and the role 'last' stands elsewhere; give it rows "
            f"without padding behind."
        )


def check_attends(model: ActivationSource, attends: Bool[np.ndarray, "*lead query"]) -> None:
    """Raise ModelError if queries attend to nothing and are no padding in front.

    TransformerLens writes 0 for attention that is NaN.
    """
    if not finite_weights(model):
        raise ModelError(f"got a model whose {DIVERGED}")
    if not (attends[..., -1].all() or hasattr(model_of(model), "arrays")):
        raise ModelError("got a model whose attention is not all finite.")


def finite_weights(source: ActivationSource) -> bool:
    """Whether every weight of a model is finite; those of a diverged one are not."""
    if isinstance(source, OnePass):
        return source.finite  # asked once for all heads
    parameters = getattr(model_of(source), "parameters", tuple)
    return all(bool(weight.isfinite().all()) for weight in parameters())


CAPTURE_BYTES = 2**30
"""Bytes of activations of one pass, about; if all layers need more, several passes share them."""


class OnePass:
    """A source for one scan: it captures of all layers what is asked of one, and remembers it."""

    def __init__(self, source: ActivationSource, layers: Sequence[int]) -> None:
        self.source = source
        self.model = model_of(source)
        self.layers = sorted(layers)
        self.cache_dict: dict[str, Tensor] = {}
        self._passes: dict[tuple, dict[str, Tensor]] = {}
        self._results: dict[tuple, Any] = {}

    @cached_property
    def hook_dict(self) -> Any:
        """The model's, which a bridge puts together anew at each call."""
        return self.model.hook_dict

    @cached_property
    def finite(self) -> bool:
        """Whether every weight is finite."""
        return finite_weights(self.model)

    def once(self, function: Callable[..., Any], *options: int) -> Any:
        """What a function gives of the scan, remembered for other heads."""
        key = (function, *options)
        if key not in self._results:
            self._results[key] = function(self, *options)
        return self._results[key]

    def of_rows(
        self, rows: Int[Tensor, "row pos"], names: Sequence[str], select: Select = None
    ) -> dict[str, Tensor]:
        """Named activations of any rows; the model runs if they are not remembered."""
        endings = frozenset(_layer_and_ending(name)[1] for name in names)
        key = tuple(rows.shape), blake2b(rows.numpy().data).digest(), endings
        cached = self._passes.get(key, {})
        if not set(names) <= cached.keys():
            cached = capture(self.model, rows, self._batch_names(rows, names))
            self._passes[key] = cached  # in place of the layers before
        return {name: selected(cached[name], select) for name in names}

    def _batch_names(self, rows: Int[Tensor, "row pos"], names: Sequence[str]) -> list[str]:
        """The names, and the same of later layers, as many as there is memory for."""
        widest = widest_activation(self.model, rows.shape[1])
        most = max(1, CAPTURE_BYTES // (4 * rows.numel() * widest * len(names)))
        parts = [_layer_and_ending(name) for name in names]
        first = min(layer or 0 for layer, _ in parts)
        layers = [layer for layer in self.layers if layer >= first][:most]
        endings = [ending for layer, ending in parts if layer is not None]
        batch_names = list(names)
        for layer, ending in product(layers, endings):
            name = f"blocks.{layer}.{ending}"
            if name in self.hook_dict:
                batch_names.append(name)
        return batch_names


def _layer_and_ending(name: str) -> tuple[int | None, str]:
    """The layer of a hook and its name within the layer; None for a hook outside the layers."""
    if not name.startswith("blocks."):
        return None, name
    _, layer, ending = name.split(".", 2)
    return int(layer), ending
