"""What a model consists of: its hooks, layers with attention, what a query sees, weights of a layer.

Probes and interventions ask these questions here, whatever kind of model it is: a HookedTransformer,
an encoder, a bridge of TransformerLens 4 around a model of transformers, or plain arrays.

A sparse autoencoder that SAELens adds takes a hook point's place. What stands at that name then is
the autoencoder, and its output is the activation: what the rest of the model goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rb_interp.errors import ModelError
from rb_interp.models.arrays import ActivationSource, Arrays, model_of
from rb_interp.models.protocol import HookedModel

PASS_LOGITS = 2**26
"""Logits of one pass, at most: those of every position."""
PASS_ROWS = 1024
"""Rows of one pass, at most."""
PARTS = ("original_model", "embed", "blocks", "unembed")
"""Where a bridge or a wrapper may hold modules that it does not list."""
LIBRARIES = ("transformer_lens", "transformers", "torch", "sae_lens", "rb_interp")
"""Packages whose hooks are a part of what they do."""
MAX_NAMED = 3
"""Hook points that a caution names, at most."""


def hook_points(model: HookedModel, names: Iterable[str]) -> dict[str, nn.Module]:
    """The modules whose outputs are the named activations, without names that the model lacks.

    Each is a hook point, or the module that stands in its place.
    """
    points = model.hook_dict
    modules = {}
    for name in names:
        stand_in = _stand_in(model, name)
        if stand_in is not None:
            modules[name] = stand_in
        elif name in points:
            modules[name] = points[name]
    return modules


def _stand_in(model: HookedModel, name: str) -> nn.Module | None:
    """The module under a hook's name that is no hook point; None without one.

    An Identity takes a hook away, and stands for nothing.
    """
    path, _, last = name.rpartition(".")
    if not last.startswith("hook_"):
        return None
    owner: Any = model
    for part in path.split(".") if path else ():
        owner = getattr(owner, part, None)
    aliases = getattr(owner, "hook_aliases", None) or {}  # of a bridge
    alias = aliases.get(last)
    module = owner
    for part in (alias if isinstance(alias, str) else last).split("."):
        module = getattr(module, part, None)
    if not isinstance(module, nn.Module) or isinstance(module, nn.Identity):
        return None
    return None if hasattr(module, "fwd_hooks") else module


@contextmanager
def attached(
    model: HookedModel, hooks: Sequence[tuple[str, Callable[[Tensor, Any], Any]]]
) -> Iterator[None]:
    """A context in which functions ``(activation, hook)`` see the named activations, after the
    hooks already there.

    What a function returns takes the activation's place; None leaves it. ``model.hooks`` would
    clear every hook point.
    """
    points = hook_points(model, dict(hooks))
    with ExitStack() as stack:
        for name, function in hooks:
            stack.callback(_attach(points[name], function))
        yield


def _attach(point: Any, function: Callable[[Tensor, Any], Any]) -> Callable[[], None]:
    """Let a function see what comes out of a hook point or a module; returns what takes it off."""
    if not hasattr(point, "fwd_hooks"):
        return point.register_forward_hook(lambda _, args, output: function(output, point)).remove
    point.add_hook(function)
    handle = point.fwd_hooks[-1]

    def remove() -> None:
        handle.hook.remove()
        if handle in point.fwd_hooks:  # else somebody has called model.reset_hooks() meanwhile
            point.fwd_hooks.remove(handle)

    return remove


def check_not_compiled(model: HookedModel) -> None:
    """Raise ModelError if a part of the model is compiled: hooks need not fire there."""
    _check_modules(running_modules(model))


def _check_modules(modules: Mapping[nn.Module, str]) -> None:
    for module, name in modules.items():
        part = f"'{name}' of this model" if name else "this model"
        if "_orig_mod" in module._modules:
            raise ModelError(
                f"{part} is wrapped by torch.compile, and hooks need not fire there; put the inner "
                f"module in its place, which is its _orig_mod, and call model.setup()."
            )
        compiled_forward = hasattr(module.__dict__.get("forward"), "_torchdynamo_orig_callable")
        if compiled_forward or getattr(module, "_compiled_call_impl", None) is not None:
            raise ModelError(
                f"{part} is compiled by torch.compile, and hooks need not fire there; give a model "
                f"that is not compiled."
            )


@contextmanager
def evaluation(model: HookedModel) -> Iterator[None]:
    """Evaluation mode (no dropout), and each module's own mode again afterwards.

    Raises ModelError if a part of the model is compiled.
    """
    modules = running_modules(model)
    _check_modules(modules)
    training = []
    for module in modules:
        if module.training:
            training.append(module)
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def running_modules(model: HookedModel) -> dict[nn.Module, str]:
    """Every module that runs in a pass, with its name; a bridge or a wrapper may hold a model
    without listing it."""
    inner = getattr(getattr(model, "run_with_cache", model), "__self__", model)
    roots: list[tuple[str, Any]] = [("", model), ("", inner)]
    for part in PARTS:
        roots.append((part, getattr(inner, part, None)))
    names: dict[nn.Module, str] = {}
    for prefix, root in roots:
        if isinstance(root, nn.Module) and root not in names:
            for name, module in root.named_modules(prefix=prefix):
                names.setdefault(module, name)
    return names


def caller_hooks(
    model: ActivationSource, untrained: ActivationSource | None = None
) -> dict[str, str]:
    """A caution that names the hooks that somebody left on a model, which act in every pass; none
    of activations."""
    for role, source in (("the model", model), ("the untrained model", untrained)):
        source = getattr(source, "source", source)  # a scan's
        if hasattr(source, "hook_dict") and not hasattr(source, "cache_dict"):
            caution = _caution(role, source)
            if caution:
                return {"hooks": caution}
    return {}


def _caution(role: str, model: Any) -> str:
    """What the caller left on a model, and how to take it off; empty if nothing."""
    at_points: dict[int, str] = {}  # TransformerLens 4.x has two names for a point
    permanent = False
    for name, point in model.hook_dict.items():
        handles = (*getattr(point, "fwd_hooks", ()), *getattr(point, "bwd_hooks", ()))
        for handle in handles:
            at_points[id(point)] = name
            permanent |= handle.is_permanent
    on_modules: dict[int, str] = {}
    for module, name in running_modules(model).items():
        for function in (*module._forward_hooks.values(), *module._forward_pre_hooks.values()):
            library = str(getattr(function, "__module__", "")).partition(".")[0]
            if library not in LIBRARIES:
                on_modules[id(module)] = name or type(module).__name__
    names = [*(at_points | on_modules).values()]
    if not names:
        return ""
    remedies = []
    if at_points:
        option = "including_permanent=True" if permanent else ""
        remedies.append(f"model.reset_hooks({option})")
    if on_modules:
        remedies.append("the handle's remove()")
    text = ", ".join(names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        text += f" and {len(names) - MAX_NAMED} others"
    return (
        f"{role} carries hooks of yours, which act in every pass: {text}. "
        f"Take them off by {' and '.join(remedies)}."
    )


def has_attention(model: HookedModel) -> bool:
    """Whether a model has any attention heads; an EmbMLP has none, and its ``cfg`` says so."""
    return model.cfg.n_layers > 0 and model.cfg.n_heads > 0


def attention_layers(source: ActivationSource) -> list[int]:
    """The layers that have attention: all, or of a model of several kinds of layers those that have
    its hooks."""
    model: Any = model_of(source)
    if not has_attention(model):
        return []
    layers = list(range(model.cfg.n_layers))
    if isinstance(model, Arrays):
        return layers
    hooks = getattr(source, "hook_dict", None) or model.hook_dict
    with_attention = []
    for layer in layers:
        names = (f"blocks.{layer}.attn.hook_{name}" for name in ("pattern", "z", "v"))
        if any(name in hooks for name in names):
            with_attention.append(layer)
    if len(with_attention) < len(layers):
        check_not_compiled(model)  # a wrapped block has its hooks under other names
    return with_attention or layers


def has_mlp(model: HookedModel) -> bool:
    """Whether the layers of a model have MLPs."""
    return not getattr(model.cfg, "attn_only", False)


def adds_positions(model: HookedModel) -> bool:
    """Whether position embeddings are added to the stream; a bridge has their hook in any case."""
    return getattr(model.cfg, "positional_embedding_type", "standard") == "standard"


def visible(model: HookedModel, layer: int, length: int) -> Bool[np.ndarray, "query key"]:
    """Which positions each query of a layer may attend to: all, those up to its own, or those of a
    window before it."""
    attention = getattr(model.blocks[layer], "attn", None)
    original = getattr(attention, "original_component", None)  # behind a bridge
    original = getattr(original, "self", original)  # BERT's
    direction = getattr(attention, "_attention_dir_override", None)
    direction = direction or getattr(model.cfg, "attention_dir", "causal")
    if direction == "bidirectional" or not getattr(original, "is_causal", True):
        return np.ones((length, length), dtype=bool)
    config = getattr(original, "config", None)
    window = getattr(original, "sliding_window", getattr(config, "sliding_window", None))
    if getattr(attention, "attn_type", "global") == "local":
        window = model.cfg.window_size
    causal = np.tri(length, dtype=bool)
    return np.triu(causal, 1 - window) if window else causal


def key_value_head(model: HookedModel, head: int) -> int:
    """The number of a head's keys and values in their hooks, where grouped queries have fewer."""
    n_groups = getattr(model.cfg, "n_key_value_heads", None)
    if not n_groups or getattr(model.cfg, "ungroup_grouped_query_attention", False):
        return head
    return head * n_groups // model.cfg.n_heads


def layer_heads(
    source: ActivationSource, layer: int, name: str
) -> Float[Tensor, "head rows columns"]:
    """W_Q, W_K, W_V or W_O of all heads of a layer; grouped heads may share one, so that there are
    fewer.

    ``model.W_V`` would copy the weights of every layer, and in a bridge a block may hold all heads
    side by side.
    """
    model = model_of(source)
    attention = model.blocks[layer].attn
    if isinstance(model, Arrays):
        return getattr(attention, name)
    weight = getattr(attention, name, None)
    if isinstance(weight, Tensor) and weight.ndim == 3:
        return weight
    return getattr(model, name)[layer]


def value_bias(model: HookedModel, layer: int) -> Float[Tensor, "head d_head"] | None:
    """b_V of a layer; None if its values have no bias."""
    return getattr(model.blocks[layer].attn, "b_V", None)


def norm_weights(model: HookedModel, layer: int) -> tuple[Tensor | None, Tensor | None]:
    """Weight and bias of the norm before a layer's attention; None for what it has not."""
    norm = getattr(model.blocks[layer], "ln1", None)
    weight = getattr(norm, "w", None)
    bias = getattr(norm, "b", None)
    return (
        weight if isinstance(weight, Tensor) else None,
        bias if isinstance(bias, Tensor) else None,
    )


def norms_read(model: Any) -> list[nn.Module]:
    """The norms whose outputs the attention of each layer reads, and last that of W_U.

    An identity for none. In a post-norm model it is the last norm of the layer before.
    """
    name = "ln1" if hasattr(model, "ln_final") else "ln2"
    norms = [getattr(block, name, nn.Identity()) for block in model.blocks]
    return [*norms, model.ln_final] if name == "ln1" else [nn.Identity(), *norms]


def normalises_embedding(model: HookedModel) -> bool:
    """Whether a norm stands between the embeddings and the first layer, as in BERT."""
    return hasattr(getattr(model, "embed", None), "ln")


def layer_matrices(model: HookedModel, layer: int) -> dict[str, Tensor]:
    """The matrices of a layer by name, ``[head, ...]`` in attention; what heads share is there
    once. Matrices that the layer lacks are left out of the MLP's."""
    attention = model.blocks[layer].attn
    mlp = getattr(model.blocks[layer], "mlp", None)
    matrices = {}
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        # HookedTransformer stores shared keys and values under another name
        matrices[name] = getattr(attention, f"_{name}", getattr(attention, name))
    for name in ("W_in", "W_out"):
        if hasattr(mlp, name):
            matrices[name] = getattr(mlp, name)
    return matrices


def device_of(model: HookedModel) -> torch.device:
    """The device of a model's weights; the CPU for a wrapper that lists none."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def rows_of_a_pass(model: HookedModel, rows: Int[Tensor, "row pos"]) -> int:
    """How many rows of this length one pass takes: at most PASS_ROWS and PASS_LOGITS."""
    n_answers = getattr(model.cfg, "d_vocab_out", 0) or 0
    n_answers = max(model.cfg.d_vocab, n_answers)
    row_logits = max(1, rows.shape[1] * n_answers)
    return max(1, min(PASS_ROWS, PASS_LOGITS // row_logits))


def widest_activation(model: HookedModel, length: int) -> int:
    """Values that the widest activation has at each position of rows of a length."""
    cfg = model.cfg
    d_mlp = getattr(cfg, "d_mlp", 0) or 0
    return max(d_mlp, cfg.d_model, cfg.n_heads * max(length, cfg.d_head))


def check_range(model: HookedModel, rows: Int[Tensor, "row pos"]) -> None:
    """Raise ModelError if tokens lie outside the model's vocabulary, or rows outside its context."""
    cfg = model.cfg
    low = int(rows.min())
    high = int(rows.max())
    if low < 0 or high >= cfg.d_vocab:
        raise ModelError(
            f"got tokens from {low} to {high}; this model knows tokens 0 to {cfg.d_vocab - 1}."
        )
    if rows.shape[1] > cfg.n_ctx:
        raise ModelError(
            f"got rows of {rows.shape[1]} positions; this model's context has {cfg.n_ctx}. Cut the "
            f"rows."
        )


def fixed_norm(norm: Any, x: Float[Tensor, "row d_model"]) -> Callable[[Tensor], Tensor]:
    """LayerNorm, RMSNorm or an identity with the scale that it has at some vectors, in float64.

    What is given back takes other vectors of these rows, to which it is affine. The norm is tried on
    vectors, so that any library's will do, folded or not. Of another module it is some such map:
    compare what both give.
    """
    step = 1e3 * (-1.0) ** torch.arange(x.shape[-1], dtype=torch.float64)  # large beside eps
    given = torch.cat([torch.stack([step, -step, step.abs()]).to(x), x])
    with torch.no_grad():
        up, down, flat, *rows = norm(given[:, None])[:, 0].double().cpu()
    bias = (up + down) / 2
    centres = float((flat - bias).norm() < (up - bias).norm() / 2)

    def centred(v: Tensor) -> Tensor:
        return v - centres * v.mean(-1, keepdim=True)

    weight = (up - bias) / centred(step)
    linear = centred(x.double().cpu()) * weight
    products = (linear * (torch.stack(rows) - bias)).sum(-1, keepdim=True)
    scaled = weight * (products / linear.square().sum(-1, keepdim=True)).nan_to_num()
    return lambda v: centred(v) * scaled + bias


def unembedded(
    model: HookedModel, x: Float[Tensor, "row d_model"], dtype: torch.dtype
) -> Float[Tensor, "row d_vocab"]:
    """Logits of what the unembedding reads, before a soft cap, on the CPU."""
    unembed = getattr(model, "unembed", nn.Identity())
    return unembed(x[:, None].to(device_of(model), dtype))[:, 0].cpu()


def soft_capped(model: HookedModel, logits: Tensor) -> Tensor:
    """The logits that a model gives for those of its unembedding: the same ones without a cap."""
    cap = getattr(model.cfg, "output_logits_soft_cap", None) or 0
    return cap * torch.tanh(logits / cap) if cap > 0 else logits


def is_rounding(difference: Tensor, scale: Tensor) -> bool:
    """Whether a difference is rounding beside numbers of the second's size and dtype."""
    tolerance = torch.finfo(scale.dtype).eps ** 0.5 * scale.abs().max()
    return bool(difference.abs().max() <= tolerance)
