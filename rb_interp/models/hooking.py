"""Hooks of a model: what stands at a hook's name, functions attached to it for a while, what the
caller left there, and evaluation mode.

A sparse autoencoder that SAELens adds takes a hook point's place. What stands at that name then is
the autoencoder, and its output is the activation: what the rest of the model goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from rb_interp.errors import ModelError
from rb_interp.models.arrays import ActivationSource
from rb_interp.models.protocol import HookedModel

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
    listed = ", ".join(names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        listed += f" and {len(names) - MAX_NAMED} others"
    return (
        f"{role} carries hooks of yours, which act in every pass: {listed}. "
        f"Take them off by {' and '.join(remedies)}."
    )
