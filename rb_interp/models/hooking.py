"""Hooks of a model: its hook points, functions attached to them for a while, what the caller left
on them, and evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from rb_interp.models.arrays import ActivationSource
from rb_interp.models.protocol import HookedModel

PARTS = ("original_model", "embed", "blocks", "unembed")
"""Where a bridge or a wrapper may hold modules that it does not list."""
LIBRARIES = ("transformer_lens", "transformers", "torch", "rb_interp")
"""Packages whose hooks are a part of what they do."""
MAX_NAMED = 3
"""Hook points that a caution names, at most."""


@contextmanager
def attached(
    model: HookedModel, hooks: Sequence[tuple[str, Callable[[Tensor, Any], Any]]]
) -> Iterator[None]:
    """A context in which functions ``(activation, hook)`` see the named activations, after the
    hooks already there.

    What a function returns takes the activation's place; None leaves it. ``model.hooks`` would
    clear every hook point.
    """
    points = model.hook_dict
    added = []
    try:
        for name, function in hooks:
            point = points[name]
            point.add_hook(function)
            added.append((point, point.fwd_hooks[-1]))
        yield
    finally:
        for point, handle in reversed(added):
            handle.hook.remove()
            if handle in point.fwd_hooks:  # else somebody has called model.reset_hooks() meanwhile
                point.fwd_hooks.remove(handle)


@contextmanager
def evaluation(model: HookedModel) -> Iterator[None]:
    """Evaluation mode (no dropout), and each module's own mode again afterwards."""
    training = [module for module in running_modules(model) if module.training]
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
    roots = {"": [model, inner]}
    roots |= {part: [getattr(inner, part, None)] for part in PARTS}
    names: dict[nn.Module, str] = {}
    for prefix, modules in roots.items():
        for root in modules:
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
        for handle in (*point.fwd_hooks, *point.bwd_hooks):
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
    listed = ", ".join(names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        listed += f" and {len(names) - MAX_NAMED} others"
    return (
        f"{role} carries hooks of yours, which act in every pass: {listed}. "
        f"Take them off by {' and '.join(remedies)}."
    )
