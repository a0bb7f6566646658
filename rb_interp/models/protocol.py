"""What probes and interventions ask of a model: the part of TransformerLens's interface that they use.

A ``HookedTransformer``, a ``TransformerBridge`` and the models of this package have it. A type checker checks it.
At run time the name is ``Any``: a probe names what it misses itself, and looks at no more than it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor, nn

# ruff: noqa: N802 (weights carry the field's names)

if TYPE_CHECKING:

    class HookedModel(Protocol):
        """A model with TransformerLens's hook names and weights; see its documentation for their shapes.

        Attributes:
            cfg: ``n_layers``, ``n_heads``, ``d_model``, ``d_vocab``, ``n_ctx`` and the other sizes.
            hook_dict: every hook point by its full name, such as ``blocks.0.attn.hook_pattern``.
            W_E: token embedding ``[d_vocab, d_model]``, all that a probe of the embedding needs.
            W_V, b_V, W_O: weights of attention ``[layer, head, ...]``, where the model has attention.
            blocks, unembed: the layers, and what maps the residual stream to logits.
        """

        cfg: Any

        @property
        def hook_dict(self) -> Any: ...
        @property
        def W_E(self) -> Tensor: ...
        @property
        def W_V(self) -> Tensor: ...
        @property
        def b_V(self) -> Tensor: ...
        @property
        def W_O(self) -> Tensor: ...
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
    HookedModel = Any
