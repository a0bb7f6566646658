"""Activations of any TransformerLens model, by hook name, with no gradient and no hook left behind; heads' weights.

A source is a model, activations that were captured of it beforehand, or plain arrays. Several probes of the same model
and rows need one pass. ``captured`` makes it, and gives TransformerLens's own ``ActivationCache``, which knows its
model. A cache of ``model.run_with_cache`` does as well.

How it can mislead. A cache does not know its tokens: it must be of the rows whose roles and labels the probe is given,
in their order, and of the weights that the model still has. Only their number and length can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import torch
from beartype.vale import Is
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ArgumentError, ModelError, nearest, shown
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.probes.arrays import ArrayModel
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

if TYPE_CHECKING:
    from transformer_lens import ActivationCache

    from rb_interp.probes.arrays import Arrays

    Source = HookedModel | ActivationCache | Arrays
else:
    Source = Annotated[object, Is[lambda value: hooked(value, caches=True) is not None]]

Tokens = np.ndarray | Tensor
"""Integers ``[row, pos]``. The annotation leaves the shape to ``as_rows``, whose message says what to change."""
Keep = Callable[[Tensor], Tensor] | None
MAX_LOGITS = 2**26
"""Logits of one pass, at most: those of every position."""


class _EnoughError(Exception):
    """All that was asked for has been read, so the rest of the pass is left out."""


@typed
@few_threads
def capture(
    model: Source,
    tokens: Tokens,
    names: Sequence[str],
    *,
    batch: int | None = None,
    keep: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Tensor]:
    """Run tokens through a model and return the named activations, rows first, on CPU, in the model's own dtype.

    The model runs in evaluation mode and is given back as it was; hooks that the caller has attached stay and act. A
    pass ends where the last of the names has been read, before the unembedding for instance.

    Args:
        model: the model, or what `captured` gave for these tokens; then nothing runs.
        tokens: integers ``[row, pos]``.
        names: full hook names, such as ``blocks.0.attn.hook_pattern``.
        batch: rows of one pass; by default at most 1,024 and no more than MAX_LOGITS allows.
        keep: what to keep of each activation, for instance ``lambda pattern: pattern[:, 0]`` for one head.

    Raises:
        ModelError: where a hook name does not exist in this model (naming the nearest one) or does not fire, and where
            tokens lie outside its vocabulary or context. For a cache, where it lacks one or is of other rows.
        ArgumentError: where ``keep`` gives no tensor with the rows of its activation.
    """
    return read(model, as_rows(tokens), names, keep, batch)


@typed
@few_threads
def captured(
    model: HookedModel, tokens: Tokens, names: Sequence[str] = (), *, batch: int | None = None
) -> ActivationCache:
    """The named activations of some rows in one pass, for every probe that reads these rows.

    Pass it to a probe of activations in place of the model.

    Args:
        tokens: integers ``[row, pos]``. batch: rows of one pass.
        names: full hook names; by default the attention patterns of every layer.

    Raises ModelError as `capture` does.

    >>> from rb_interp import AnchorTask, build_model
    >>> from rb_interp.probes import attention_to_key, uniformity
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> inputs = data.inputs(data.sample("rsn_train", 20))
    >>> cache = captured(model, inputs.tokens)
    >>> uniformity(cache, inputs).values == uniformity(model, inputs).values
    True
    """
    from transformer_lens import ActivationCache

    names = names or [f"blocks.{layer}.attn.hook_pattern" for layer in range(model_of(model).cfg.n_layers)]
    return ActivationCache(read(model, as_rows(tokens), names, batch=batch), model)


def read(
    source: Source, rows: Int[Tensor, "row pos"], names: Sequence[str], keep: Keep = None, batch: int | None = None
) -> dict[str, Tensor]:
    """What `capture` returns, of tokens that `as_rows` gave."""
    names = list(dict.fromkeys(names))
    own: Any = getattr(source, "source", source)  # that of a scan, which remembers what a model has given
    if hasattr(own, "cache_dict"):
        return _held(own, rows, names, keep)
    if own is not source:
        return cast(Any, source).of_rows(rows, names, keep)
    model = model_of(source)
    for name in names:
        if name not in model.hook_dict:
            raise ModelError(f"this model has no hook '{name}'; {nearest(name, model.hook_dict)}")
    check_range(model, rows)
    device = next(model.parameters()).device
    fired: dict[str, Tensor] = {}
    parts: dict[str, list[Tensor]] = {name: [] for name in names}

    def look(value: Tensor, hook: Any, name: str) -> None:
        fired[name] = value
        if len(fired) == len(names):
            raise _EnoughError

    hooks = [(name, partial(look, name=name)) for name in names]
    with torch.no_grad(), evaluation(model), attached(model, hooks):
        for chunk in rows.split(batch or passes(model, rows)):
            fired.clear()
            with suppress(_EnoughError):
                model(chunk.to(device))
            for name in names:
                if name not in fired:
                    raise ModelError(
                        f"the hook '{name}' did not fire; the model's configuration switches it off "
                        f"(for instance cfg.use_attn_result for 'hook_result', cfg.use_attn_in for 'hook_attn_in')."
                    )
                parts[name].append(kept(fired[name], keep))
    return {name: torch.cat(chunks) for name, chunks in parts.items()}


def _held(
    cache: ActivationCache, rows: Int[Tensor, "row pos"], names: Sequence[str], keep: Keep = None
) -> dict[str, Tensor]:
    """Named activations of a cache; ModelError where it lacks one, or is of another number of rows or positions."""
    result = {}
    for name in names:
        if name not in cache.cache_dict and hasattr(cache.model, "arrays"):
            cast(Any, cache.model).array(name)
        if name not in cache.cache_dict:
            raise ModelError(
                f"this cache has no '{name}'; capture it too, or pass the model; {nearest(name, cache.cache_dict)}"
            )
        value = cache.cache_dict[name]
        if not cache.has_batch_dim or len(value) != len(rows) or rows.shape[1] not in value.shape[1:]:
            raise ModelError(
                f"the cache holds '{name}' of shape {list(value.shape)} and the rows are {list(rows.shape)}; give the "
                f"cache of these rows, with its batch dimension."
            )
        result[name] = kept(value, keep)
    return result


def kept(value: Tensor, keep: Keep) -> Tensor:
    """What is kept of an activation, on CPU."""
    part: Any = value if keep is None else keep(value)
    if not isinstance(part, Tensor) or part.shape[:1] != value.shape[:1]:
        raise ArgumentError(
            f"keep gave {shown(part)} for an activation of shape {list(value.shape)}; expected a tensor of its rows, "
            f"such as lambda z: z[:, -1] gives."
        )
    return part.detach().cpu()


def logits_of(
    source: Source, tokens: Tokens, *, keep: Keep = None, given: Int[np.ndarray, " row"] | None = None
) -> Tensor:
    """Logits ``[row, pos, d_vocab]`` of some rows, or what is kept of them, on CPU; of a cache its model's.

    Args:
        given: where the source is arrays, the rows of its logits that are meant, which may be longer. By default all.

    Raises ModelError where tokens lie outside the vocabulary or context, and where arrays hold logits of other rows.
    """
    model, rows = model_of(source), as_rows(tokens)
    if isinstance(model, ArrayModel):
        logits = model.logits if given is None else model.logits[given, : rows.shape[1]]
        if logits.shape[:2] != rows.shape:
            raise ModelError(
                f"these arrays hold logits of shape {list(model.logits.shape)} and the rows are {list(rows.shape)}; "
                f"give the logits of these rows."
            )
        return kept(logits, keep)
    check_range(model, rows)
    device = next(model.parameters()).device
    with torch.no_grad(), evaluation(model):
        logits = (model(chunk.to(device)) for chunk in rows.split(passes(model, rows)))
        return torch.cat([(part if keep is None else keep(part)).cpu() for part in logits])


def model_of(source: Source) -> HookedModel:
    """The model that a source is, or that its activations are of."""
    return cast(Any, source).model if hasattr(source, "cache_dict") else cast(Any, source)


def has_attention(model: HookedModel) -> bool:
    """Whether a model has any attention heads; an EmbMLP has none, and its ``cfg`` says so."""
    return model.cfg.n_layers > 0 and model.cfg.n_heads > 0


@contextmanager
def attached(model: HookedModel, hooks: Sequence[tuple[str, Callable[[Tensor, Any], Any]]]) -> Iterator[None]:
    """A context in which functions ``(activation, hook)`` see the named activations, after the hooks already there.

    What a function returns takes the activation's place; None leaves it. Each is taken off on its own at the end:
    ``model.hooks`` clears every hook point of the model, which takes longer than the pass of a small one.
    """
    points, added = model.hook_dict, []
    try:
        for name, function in hooks:
            points[name].add_hook(function)
            added.append((points[name], points[name].fwd_hooks[-1]))
        yield
    finally:
        for point, handle in reversed(added):
            handle.hook.remove()
            point.fwd_hooks.remove(handle)


def as_rows(tokens: Tokens) -> Int[Tensor, "row pos"]:
    """Tokens of any integer type as a long tensor on CPU; ModelError where they are not [row, pos]."""
    if not isinstance(tokens, Tensor):
        tokens = np.array(tokens)
        if tokens.dtype.kind not in "iubf":
            raise ModelError(f"got tokens of type {tokens.dtype}; expected integers [row, pos].")
        tokens = torch.from_numpy(tokens)
    rows = tokens.cpu()
    if rows.ndim != 2 or rows.is_floating_point() or rows.is_complex() or rows.numel() == 0:
        raise ModelError(
            f"got tokens of shape {list(rows.shape)} and type {rows.dtype}; expected integers [row, pos], "
            f"at least one of each. A single sequence is tokens[None]."
        )
    return rows.long().contiguous()  # columns put in another order are not


def passes(model: HookedModel, rows: Int[Tensor, "row pos"]) -> int:
    """Rows of one pass: at most 1,024, and no more than MAX_LOGITS allows."""
    return max(1, min(1024, MAX_LOGITS // max(1, rows.shape[1] * model.cfg.d_vocab)))


def check_range(model: HookedModel, rows: Int[Tensor, "row pos"]) -> None:
    """Raise ModelError where tokens lie outside a model's vocabulary, or rows outside its context."""
    cfg = model.cfg
    low, high = int(rows.min()), int(rows.max())
    if low < 0 or high >= cfg.d_vocab:
        raise ModelError(f"got tokens from {low} to {high}; this model knows tokens 0 to {cfg.d_vocab - 1}.")
    if rows.shape[1] > cfg.n_ctx:
        raise ModelError(f"got rows of {rows.shape[1]} positions; this model's context has {cfg.n_ctx}. Cut the rows.")


@contextmanager
def evaluation(model: HookedModel) -> Iterator[None]:
    """Evaluation mode (no dropout), and each module's own mode again afterwards."""
    training = [module for module in model.modules() if module.training]
    if training:  # eval() sets an attribute of every module, which takes longer than a small model's forward pass
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def head_pattern(
    source: Source, tokens: Tokens, layer: int, head: int, queries: slice | int = slice(None)
) -> np.ndarray:
    """Attention pattern of one head in float64, ``[row, query, key]``, or ``[row, key]`` of one query."""
    name = f"blocks.{layer}.attn.hook_pattern"
    return read(source, as_rows(tokens), [name], lambda pattern: pattern[:, head, queries])[name].double().numpy()


def layer_heads(model: HookedModel, layer: int, name: str) -> Float[Tensor, "head rows columns"]:
    """W_Q, W_K, W_V or W_O of all heads of a layer; grouped heads may share one, so that there are fewer.

    ``model.W_V`` would copy the weights of every layer, and in a bridge a block may hold all heads side by side.
    """
    if isinstance(model, ArrayModel):
        return model.array(f"blocks.{layer}.attn.{name}")
    held = getattr(model.blocks[layer].attn, name, None)
    return held if isinstance(held, Tensor) and held.ndim == 3 else getattr(model, name)[layer]


def float64(weight: Tensor) -> np.ndarray:
    """A weight or activation as an array in float64."""
    return weight.detach().cpu().double().numpy()
