"""What probes and interventions ask of a model: the part of TransformerLens's interface that they use.

A ``HookedTransformer``, a ``TransformerBridge`` and the models of this package have it. A type checker checks it.
At run time the name is a check for ``cfg``: a probe names what else it misses itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import torch
from beartype.vale import Is
from torch import Tensor, nn
from torch.nn.functional import gelu

from rb_interp.errors import ModelError

# ruff: noqa: N802 (weights carry the field's names)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": gelu,
    "gelu_new": partial(gelu, approximate="tanh"),
    "tanh": torch.tanh,
}
"""Activations of the MLP by their name in ModelConfig."""

if TYPE_CHECKING:

    class HookedModel(Protocol):
        """A model with TransformerLens's hook names and weights; see its documentation for their shapes.

        Attributes:
            cfg: ``n_layers``, ``n_heads``, ``d_model``, ``d_vocab``, ``n_ctx`` and the other sizes.
            hook_dict: every hook point by its full name, such as ``blocks.0.attn.hook_pattern``.
            W_E: token embedding ``[d_vocab, d_model]``, all that a probe of the embedding needs.
            W_V, W_O: weights of attention ``[layer, head, ...]``, where the model has attention.
            embed, blocks, unembed: what is given the tokens, the layers, and what maps the residual stream to logits.
                ``blocks[layer].attn.b_V`` is None, or missing, where values have no bias.
        """

        cfg: Any

        @property
        def hook_dict(self) -> Any: ...
        @property
        def W_E(self) -> Tensor: ...
        @property
        def W_V(self) -> Tensor: ...
        @property
        def W_O(self) -> Tensor: ...
        @property
        def embed(self) -> Any: ...
        @property
        def blocks(self) -> Any: ...
        @property
        def unembed(self) -> Any: ...
        def __call__(self, tokens: Tensor) -> Any: ...
        def run_with_cache(self, *args: Any, **kwargs: Any) -> Any: ...
        def hooks(self, fwd_hooks: Any = ...) -> AbstractContextManager: ...
        def parameters(self) -> Iterator[nn.Parameter]: ...
        def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...
        def buffers(self) -> Iterator[Tensor]: ...
        def modules(self) -> Iterator[nn.Module]: ...
        def eval(self) -> Any: ...

else:
    HookedModel = Annotated[object, Is[lambda value: hooked(value) is not None]]


def hooked(source: Any, asker: str = "", *, caches: bool = False) -> Any:
    """A hooked model, or activations of one where ``caches`` are read; ModelError for anything else."""
    cache = hasattr(source, "cache_dict")
    if cache and not caches:
        arrays = hasattr(source.model, "arrays")
        text = "arrays and needs a model that runs" if arrays else "an ActivationCache and needs a model"
        raise ModelError(f"{asker} got {text}; pass {'one' if arrays else 'cache.model'}.".lstrip())
    model = source.model if cache else source
    if (
        isinstance(source, type)
        or not hasattr(model, "cfg")
        or (isinstance(model, nn.Module) and not hasattr(model, "hook_dict"))
    ):
        kind = type(source).__name__
        advice = "pass a HookedTransformer, or a model with its hook names and cfg."
        raise ModelError(f"{asker} got an object of type {kind}; {advice}".lstrip())
    return source
