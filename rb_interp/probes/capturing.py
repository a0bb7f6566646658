"""Sources, which probes read: activations of any TransformerLens model by hook name, or plain
arrays; heads' weights.

A source is a model, activations that were captured of it beforehand, or plain arrays. ``captured``
gives TransformerLens's own ``ActivationCache``, so that several probes of the same model and rows
need one pass; a cache of ``model.run_with_cache`` does as well. No gradient and no hook is left
behind.

``from_arrays`` reads plain arrays by the names that TransformerLens gives them. Those of every
layer may be given together, under a short name:

    pattern [layer, row, head, query, key]      resid_pre, resid_mid, resid_post, attn_out, mlp_out [layer, row, pos, d]
    q, k, v, z [layer, row, pos, head, d_head]  logits [row, pos, d_vocab]
    W_Q, W_K, W_V [layer, head, d_model, d_head]    W_O [layer, head, d_head, d_model]     W_E [d_vocab, d_model]
    W_in [layer, d_model, d_mlp]    W_out [layer, d_mlp, d_model]
    token_inputs [d_vocab, d_model] or [layer, d_vocab, d_model]: each token's embedding as
    attention reads it

Weights are in the convention x W. ``token_inputs`` is W_E where no LayerNorm stands before the
attention, else LayerNorm's output for each token.

How it can mislead. A cache and arrays do not know their tokens: activations must be of the rows
whose roles and labels the probe is given, in their order, and of the weights that the model still
has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import repeat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import numpy as np
import torch
from beartype.vale import Is
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError, ModelError, nearest, shown
from rb_interp.models.protocol import HookedModel, hooked

if TYPE_CHECKING:
    from transformer_lens import ActivationCache

    ActivationSource: TypeAlias = "HookedModel | ActivationCache | Arrays"
else:
    ActivationSource = Annotated[object, Is[lambda value: hooked(value, caches=True) is not None]]

Tokens = np.ndarray | Tensor
"""Integers ``[row, pos]``. The annotation leaves the shape to ``as_rows``, whose message says what
to change."""
Select = Callable[[Tensor], Tensor] | None
NOWHERE = torch.empty(0)
"""Stands for the weights of a wrapper that lists none."""
MAX_LOGITS = 2**26
"""Logits of one pass, at most: those of every position."""
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
WHOLE = {"W_E": ("embed.W_E", "d_vocab d_model"), "logits": ("logits", "row pos d_vocab")}
AXES = dict([*BY_LAYER.values(), *WHOLE.values()])
GROUPED = ("attn.W_V", "attn.W_K", "attn.hook_v", "attn.hook_k")
"""What heads may share."""
LONGEST = 10**6
"""Positions of a row where no array tells them."""
TELLING = {"d_model": "'resid_pre' or 'W_E'", "d_head": "'W_V'", "d_vocab": "'W_E'"}
"""Size -> arrays that tell it."""
PARTS = ("original_model", "embed", "blocks", "unembed")
"""Where a bridge or a wrapper may hold modules that it does not list."""
LIBRARIES = ("transformer_lens", "transformers", "torch", "rb_interp")
"""Packages whose hooks are a part of what they do."""
SUM = 0.05
"""By how much attention in half precision may miss a sum of 1."""


class _EnoughError(Exception):
    """All that was asked for has been read, so the rest of the pass is left out."""


class MissingArrayError(ModelError, AttributeError):
    """An array that a probe reads was not given; `hasattr` says no."""


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
        batch: rows of one pass; by default at most 1,024 and no more than MAX_LOGITS allows.
        select: what to keep of each activation, for instance ``lambda pattern: pattern[:, 0]`` for
            one head.

    Raises ModelError for a hook that does not exist in this model or does not fire, for tokens
    outside its vocabulary or context, and for a cache that lacks one or is of other rows.
    """
    rows, names = as_rows(tokens), list(dict.fromkeys(names))
    own: Any = getattr(
        model, "source", model
    )  # that of a scan, which remembers what a model has given
    if hasattr(own, "cache_dict"):
        return {name: selected(_held(own, rows, name), select) for name in names}
    if own is not model:
        return cast(Any, model).of_rows(rows, names, select)
    model = model_of(model)
    for name in names:
        if name not in model.hook_dict and name != "logits":
            raise ModelError(f"this model has no hook '{name}'; {nearest(name, model.hook_dict)}")
    check_range(model, rows)
    device = next(model.parameters(), NOWHERE).device
    fired: dict[str, Tensor] = {}
    parts: dict[str, list[Tensor]] = defaultdict(list)

    def look(value: Tensor, hook: Any, name: str) -> None:
        fired[name] = value
        if len(fired) == len(names):
            raise _EnoughError

    hooks = [(name, partial(look, name=name)) for name in names if name != "logits"]
    with torch.no_grad(), evaluation(model), attached(model, hooks):
        for chunk in rows.split(batch or passes(model, rows)):
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
    return {name: torch.cat(chunks) for name, chunks in parts.items()}


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


def _held(cache: ActivationCache, rows: Int[Tensor, "row pos"], name: str) -> Tensor:
    """An activation of a cache; ModelError where it lacks it, or is of another number of rows or
    positions."""
    if name not in cache.cache_dict:
        if hasattr(cache.model, "arrays"):
            raise _missing(name)
        raise ModelError(
            f"this cache has no '{name}'; capture it too, or pass the model; "
            f"{nearest(name, cache.cache_dict)}"
        )
    value, (n_rows, length), n_heads = cache.cache_dict[name], rows.shape, cache.model.cfg.n_heads
    axes = _axes(name.replace("hook_attn_scores", "hook_pattern")) or ["row", "pos"]
    sizes = dict(zip(axes, value.shape, strict=False))
    wanted = {"row": n_rows} | dict.fromkeys(("pos", "query", "key"), length)
    if not getattr(cache, "has_batch_dim", True) or any(
        sizes.get(axis) != wanted[axis] for axis in axes if axis in wanted
    ):
        raise ModelError(
            f"the cache holds '{name}' of shape {list(value.shape)} and the rows are "
            f"{list(rows.shape)}; give the "
            f"cache of these rows, with its batch dimension."
        )
    if "head" in sizes and not _fits(name, sizes["head"], n_heads):
        raise ModelError(
            f"the cache holds '{name}' of {sizes['head']} heads, and its model has {n_heads}."
        )
    return value


def _fits(name: str, heads: int, n_heads: int) -> bool:
    """Whether an array has the heads of its model, which may share what is in GROUPED."""
    return heads == n_heads or (name.endswith(GROUPED) and heads > 0 and n_heads % heads == 0)


def selected(value: Tensor, select: Select) -> Tensor:
    """What is kept of an activation, on CPU."""
    part: Any = value if select is None else select(value)
    if not isinstance(part, Tensor) or part.shape[:1] != value.shape[:1]:
        raise ArgumentError(
            f"select gave {shown(part)} for an activation of shape {list(value.shape)}; expected a "
            f"tensor of its rows, "
            f"such as lambda z: z[:, -1] gives."
        )
    return part.detach().cpu()


def logits_of(source: ActivationSource, tokens: Tokens, select: Select = None) -> Tensor:
    """Logits ``[row, pos, d_vocab]`` of some rows, or what is kept of them, on CPU; of a cache its
    model's."""
    model = model_of(source)
    return capture(
        source if isinstance(model, Arrays) else model, tokens, ["logits"], select=select
    )["logits"]


def model_of(source: ActivationSource) -> HookedModel:
    """The model that a source is, or that its activations are of."""
    return cast(Any, source).model if hasattr(source, "cache_dict") else cast(Any, source)


def caller_hooks(
    model: ActivationSource, untrained: ActivationSource | None = None
) -> dict[str, str]:
    """A caution that names the hooks that somebody left on a model, which act in every pass; none
    of activations."""
    for who, source in (("the model", model), ("the untrained model", untrained)):
        read: Any = getattr(source, "source", source)
        if hasattr(read, "cache_dict") or not hasattr(read, "hook_dict"):
            continue
        names, of_torch, permanent = {}, {}, False
        for name, point in read.hook_dict.items():
            for handle in (*point.fwd_hooks, *point.bwd_hooks):
                names[id(point)] = name  # TransformerLens 4.x has two names for a point
                permanent |= handle.is_permanent
        for module, name in modules_of(read).items():
            for function in (*module._forward_hooks.values(), *module._forward_pre_hooks.values()):
                if str(getattr(function, "__module__", "")).partition(".")[0] not in LIBRARIES:
                    of_torch[id(module)] = name or type(module).__name__
        remedies = [f"model.reset_hooks({'including_permanent=True' * permanent})"] * bool(names)
        remedies += ["the handle's remove()"] * bool(of_torch)
        if names := names | of_torch:
            more = f" and {len(names) - 3} others" if len(names) > 3 else ""
            text = f"{who} carries hooks of yours, which act in every pass: {', '.join([*names.values()][:3])}{more}"
            return {"hooks": f"{text}. Take them off by {' and '.join(remedies)}."}
    return {}


def has_attention(model: HookedModel) -> bool:
    """Whether a model has any attention heads; an EmbMLP has none, and its ``cfg`` says so."""
    return model.cfg.n_layers > 0 and model.cfg.n_heads > 0


def attention_layers(source: ActivationSource) -> list[int]:
    """The layers that have attention: all, or of a model of several kinds of layers those that have
    its hooks."""
    model: Any = model_of(source)
    every = list(range(model.cfg.n_layers if has_attention(model) else 0))
    hooks = (
        {} if isinstance(model, Arrays) else getattr(source, "hook_dict", None) or model.hook_dict
    )
    ends = "hook_pattern", "hook_z", "hook_v"
    return [at for at in every if any(f"blocks.{at}.attn.{end}" in hooks for end in ends)] or every


def visible(model: HookedModel, layer: int, length: int) -> Bool[np.ndarray, "query key"]:
    """Which positions each query of a layer may attend to: all, those up to its own, or those of a
    window before it."""
    attn = getattr(model.blocks[layer], "attn", None)
    inner = getattr(
        attn, "original_component", None
    )  # a bridge's, where transformers keeps windows
    inner = getattr(inner, "self", inner)  # BERT's
    direction = getattr(attn, "_attention_dir_override", None) or getattr(
        model.cfg, "attention_dir", "causal"
    )
    if direction == "bidirectional" or not getattr(inner, "is_causal", True):
        return np.ones((length, length), dtype=bool)
    window = getattr(
        inner, "sliding_window", getattr(getattr(inner, "config", None), "sliding_window", None)
    )
    if getattr(attn, "attn_type", "global") == "local":
        window = model.cfg.window_size
    return np.triu(np.tri(length, dtype=bool), 1 - window if window else -length)


@contextmanager
def attached(
    model: HookedModel, hooks: Sequence[tuple[str, Callable[[Tensor, Any], Any]]]
) -> Iterator[None]:
    """A context in which functions ``(activation, hook)`` see the named activations, after the
    hooks already there.

    What a function returns takes the activation's place; None leaves it. ``model.hooks`` would
    clear every hook point.
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
            if (
                handle in point.fwd_hooks
            ):  # gone where somebody called model.reset_hooks() meanwhile
                point.fwd_hooks.remove(handle)


def as_rows(tokens: Tokens) -> Int[Tensor, "row pos"]:
    """Tokens of any integer type as a long tensor on CPU; ModelError where they are not ``[row,
    pos]``."""
    rows = tokens.cpu() if isinstance(tokens, Tensor) else torch.from_numpy(np.array(tokens))
    if rows.ndim != 2 or rows.is_floating_point() or rows.is_complex() or rows.numel() == 0:
        raise ModelError(
            f"got tokens of shape {list(rows.shape)} and type {rows.dtype}; expected integers "
            f"[row, pos], "
            f"at least one of each. A single sequence is tokens[None]."
        )
    return rows.long().contiguous()  # columns put in another order are not


def passes(model: HookedModel, rows: Int[Tensor, "row pos"]) -> int:
    """Rows of one pass: at most 1,024, and no more than MAX_LOGITS allows."""
    answers = max(model.cfg.d_vocab, getattr(model.cfg, "d_vocab_out", 0) or 0)
    return max(1, min(1024, MAX_LOGITS // max(1, rows.shape[1] * answers)))


def check_range(model: HookedModel, rows: Int[Tensor, "row pos"]) -> None:
    """Raise ModelError where tokens lie outside a model's vocabulary, or rows outside its
    context."""
    cfg, low, high = model.cfg, int(rows.min()), int(rows.max())
    if low < 0 or high >= cfg.d_vocab:
        raise ModelError(
            f"got tokens from {low} to {high}; this model knows tokens 0 to {cfg.d_vocab - 1}."
        )
    if rows.shape[1] > cfg.n_ctx:
        raise ModelError(
            f"got rows of {rows.shape[1]} positions; this model's context has {cfg.n_ctx}. Cut the "
            f"rows."
        )


@contextmanager
def evaluation(model: HookedModel) -> Iterator[None]:
    """Evaluation mode (no dropout), and each module's own mode again afterwards."""
    training = [module for module in modules_of(model) if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def modules_of(model: HookedModel) -> dict[nn.Module, str]:
    """Every module that runs in a pass, with its name; a bridge or a wrapper may hold a model
    without listing it."""
    inner, found = getattr(getattr(model, "run_with_cache", model), "__self__", model), {}
    for name, whole in (("", model), ("", inner), *zip(PARTS, repeat(inner))):
        part = getattr(whole, name, None) if name else whole
        if isinstance(part, nn.Module) and part not in found:
            for place, module in part.named_modules(prefix=name):
                found.setdefault(module, place)
    return found


def layer_heads(
    source: ActivationSource, layer: int, name: str
) -> Float[Tensor, "head rows columns"]:
    """W_Q, W_K, W_V or W_O of all heads of a layer; grouped heads may share one, so that there are
    fewer.

    ``model.W_V`` would copy the weights of every layer, and in a bridge a block may hold all heads
    side by side.
    """
    model = model_of(source)
    held = getattr(model.blocks[layer].attn, name, None)
    if isinstance(model, Arrays) or (isinstance(held, Tensor) and held.ndim == 3):
        return getattr(model.blocks[layer].attn, name)
    return getattr(model, name)[layer]


def float64(weight: Tensor) -> np.ndarray:
    """A weight or activation as an array in float64."""
    return weight.detach().cpu().double().numpy()


@checked
def from_arrays(arrays: Mapping | None = None, *, attn_only: bool = False, **named: Any) -> Arrays:
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
        named: the same by short name. A pattern does not tell that its layer is local, so what lies
            outside the window counts as seen.

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


class _Named(SimpleNamespace):
    """Arrays of one part of a model, or sizes, as attributes; MissingArrayError names one that is
    not there."""

    def __getattr__(self, name: str) -> Any:
        raise _missing(self.__dict__.get("place", "") + name)


class Arrays(_Named):
    """Activations and weights under TransformerLens's names, as a cache and as what they know of
    its model."""

    def __init__(self, held: Mapping[str, Tensor], attn_only: bool) -> None:
        whole = {name: held[full] for name, (full, _) in WHOLE.items() if full in held}
        hooks, sizes = dict.fromkeys(name for name in held if "hook_" in name), _sizes(held)
        super().__init__(
            arrays=held, hook_dict=hooks, cfg=_Named(attn_only=attn_only, **sizes), **whole
        )
        self.cache_dict, self.model = held, self
        of_all = {"token_inputs": held["token_inputs"]} if "token_inputs" in held else {}
        self.blocks = []
        for place in (f"blocks.{at}." for at in range(sizes["n_layers"])):
            parts = {part: _Named(place=f"{place}{part}.") for part in ("attn", "mlp")}
            self.blocks.append(_Named(place=place, **of_all, **parts))
            for name, array in held.items():
                if name.startswith(place):
                    part, _, last = name.removeprefix(place).rpartition(".")
                    setattr(parts.get(part, self.blocks[-1]), last, array)

    def parameters(self) -> Iterator[Tensor]:
        """The weights."""
        return (array for name, array in self.arrays.items() if ".W_" in name or ".b_" in name)


def _missing(name: str) -> MissingArrayError:
    """The error for an array, or for a size that no array tells."""
    name = WHOLE.get(name, (name,))[0]
    if name in TELLING:
        return MissingArrayError(
            f"these arrays do not tell {name}; add {TELLING[name]} to from_arrays."
        )
    shape = f" [{', '.join(_axes(name))}]" if _axes(name) else ""
    return MissingArrayError(f"these arrays have no '{name}'{shape}; add it to from_arrays.")


def _axes(name: str) -> list[str]:
    """The axes of an array by its full name; none where they are not known."""
    return AXES.get(name.split(".", 2)[-1] if name.startswith("blocks.") else name, "").split()


def _sizes(held: Mapping[str, Tensor]) -> dict[str, int]:
    """What the shapes of some arrays tell of their model."""
    numbers = [int(name.split(".")[1]) for name in held if name.startswith("blocks.")]
    sizes, heads = {"n_layers": max(numbers, default=-1) + 1, "n_ctx": LONGEST}, {}
    for name, array in held.items():
        shape = dict(zip(_axes(name), array.shape, strict=True)) if _axes(name) else {}
        heads |= {name: shape["head"]} if "head" in shape else {}
        sizes |= {axis: shape[axis] for axis in TELLING if axis in shape}
        sizes["n_ctx"] = shape.get("pos", sizes["n_ctx"])
    n_heads = max(
        heads.values(), default=int(bool(numbers))
    )  # without heads no probe can ask for another than 0
    if others := {name: size for name, size in heads.items() if not _fits(name, size, n_heads)}:
        raise ModelError(
            f"from_arrays got {n_heads} heads, and other numbers in {others}; give arrays of one "
            f"model."
        )
    return sizes | {"n_heads": n_heads}


def _read(name: Any, value: Any) -> dict[str, Tensor]:
    """The arrays under one name, by full name."""
    if isinstance(name, tuple) and len(name) == 2 and name[0] in BY_LAYER:
        name = f"blocks.{name[1]}.{BY_LAYER[name[0]][0]}"
    several = isinstance(value, Mapping | list | tuple)
    of_all = name == "token_inputs" and not several and np.ndim(value) == 2
    if (
        of_all
        or name in WHOLE
        or (isinstance(name, str) and ("." in name or name.startswith("hook_")))
    ):
        full = WHOLE[name][0] if name in WHOLE else str(name)
        return {full: _array(full, str(name), value)}
    if name not in BY_LAYER:
        near = nearest(str(name), [*BY_LAYER, *WHOLE])
        raise ModelError(
            f"from_arrays does not know {shown(name)}, nor is it the full name of a hook; {near}"
        )
    layers = value.items() if isinstance(value, Mapping) else enumerate(value)
    full = {f"blocks.{layer}.{BY_LAYER[name][0]}": (layer, one) for layer, one in layers}
    if not full:
        eager = "; a model of transformers gives its attentions with attn_implementation='eager'"
        raise ModelError(f"from_arrays got {name} of no layer{eager if name == 'pattern' else ''}.")
    return {
        place: _array(place, f"{name} of L{layer}", one) for place, (layer, one) in full.items()
    }


def _array(full: str, name: str, value: Any) -> Tensor:
    """An array as a tensor on CPU; ModelError where it has another number of axes."""
    axes = _axes(full)
    found = (
        value.detach().cpu() if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    )
    if axes and found.ndim != len(axes):
        raise ModelError(
            f"from_arrays got {name} of shape {list(found.shape)}; expected [{', '.join(axes)}] "
            f"for each layer."
        )
    if full.endswith("hook_pattern"):
        sums = found.double().sum(-1)
        wrong = ((sums - 1).abs() > SUM) & found.any(-1)  # a query of padding attends to nothing
        if found.min() < 0 or not found.any() or bool(wrong.any()):
            raise ModelError(
                f"from_arrays got {name} with rows that sum to {float(sums.min()):.3g} to "
                f"{float(sums.max()):.3g}; "
                f"expected attention after its softmax, each row of which sums to 1."
            )
        ahead, even = found.triu(1).any(-1), (found == found[..., :1]).all(-1)
        if not ahead[..., :-1].all() and bool(
            (even | ~ahead).all()
        ):  # causal, and transformers gives a query of
            found = found.masked_fill(
                (even & ahead)[..., None], 0
            )  # padding in front the same of every position
        if (
            found.shape[1] > 1 and found.triu(1).any()
        ):  # both ways: the end that no query of any head attends to
            behind = (~found.any((1, 2))).flip(1).int().cumprod(1).flip(1).bool()
            found = found.masked_fill(behind[:, None, :, None], 0)
    return found
