"""What probes read: activations of any TransformerLens model by hook name.

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
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError, ModelError, describe, nearest
from rb_interp.models.arrays import (
    ActivationSource,
    Arrays,
    axes_of,
    fits_heads,
    from_arrays,
    missing_array,
    model_of,
)
from rb_interp.models.hooking import (
    attached,
    check_not_compiled,
    evaluation,
    hook_points,
)
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import attention_layers, check_range, device_of, rows_of_a_pass

if TYPE_CHECKING:
    from transformer_lens import ActivationCache

__all__ = ["capture", "captured", "from_arrays"]

Tokens = np.ndarray | Tensor
"""Integers ``[row, pos]``. The annotation leaves the shape to ``as_rows``, whose message says what
to change."""
Select = Callable[[Tensor], Tensor] | None


class _EnoughError(Exception):
    """All that was asked for has been read, so the rest of the pass is left out."""


@checked
@single_threaded
def capture(
    model: ActivationSource,
    tokens: Tokens,
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
    source: Any = getattr(model, "source", model)  # of a scan, which remembers activations
    if hasattr(source, "cache_dict"):
        return {name: selected(_cached(source, rows, name), select) for name in names}
    if source is not model:
        return cast(Any, model).of_rows(rows, names, select)
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
                        f"off "
                        f"(for instance cfg.use_attn_result for 'hook_result', cfg.use_attn_in for "
                        f"'hook_attn_in')."
                    )
                parts[name].append(selected(fired[name], select))
    activations = {}
    for name, chunks in parts.items():
        activations[name] = torch.cat(chunks)
    return activations


@checked
@single_threaded
def captured(
    model: HookedModel, tokens: Tokens, names: Sequence[str] = (), *, batch: int | None = None
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
            f"{list(rows.shape)}; give the "
            f"cache of these rows, with its batch dimension."
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
            f"select gave {describe(part)} for an activation of shape {list(value.shape)}; expected a "
            f"tensor of its rows, "
            f"such as lambda z: z[:, -1] gives."
        )
    return part.detach().cpu()


def logits_of(source: ActivationSource, tokens: Tokens, select: Select = None) -> Tensor:
    """Logits ``[row, pos, d_vocab]`` of some rows, or what is selected of them, on CPU; of a cache
    its model's."""
    model = model_of(source)
    if isinstance(model, Arrays):
        model = source
    return capture(model, tokens, ["logits"], select=select)["logits"]


def as_rows(tokens: Tokens) -> Int[Tensor, "row pos"]:
    """Tokens of any integer type as a long tensor on CPU; ModelError if they are not ``[row,
    pos]``."""
    rows = tokens.cpu() if isinstance(tokens, Tensor) else torch.from_numpy(np.array(tokens))
    if rows.ndim != 2 or rows.is_floating_point() or rows.is_complex() or rows.numel() == 0:
        raise ModelError(
            f"got tokens of shape {list(rows.shape)} and type {rows.dtype}; expected integers "
            f"[row, pos], "
            f"at least one of each. A single sequence is tokens[None]."
        )
    return rows.long().contiguous()  # columns put in another order are not


def float64(weight: Tensor) -> np.ndarray:
    """A weight or activation as an array in float64."""
    return weight.detach().cpu().double().numpy()
