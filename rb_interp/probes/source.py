"""What a probe reads: a model, activations that were captured of it beforehand, or plain arrays.

Several probes of the same model and rows need one pass. ``captured`` makes it, and gives TransformerLens's own
``ActivationCache``, which knows its model. A cache of ``model.run_with_cache`` does as well.

How it can mislead. A cache does not know its tokens: it must be of the rows whose roles and labels the probe is given,
in their order, and of the weights that the model still has. Only their number and length can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

from beartype.vale import Is
from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ArgumentError, ModelError, nearest, shown
from rb_interp.models.protocol import HookedModel, hooked

if TYPE_CHECKING:
    from transformer_lens import ActivationCache

    from rb_interp.probes.arrays import Arrays

    Source = HookedModel | ActivationCache | Arrays
else:
    Source = Annotated[object, Is[lambda value: hooked(value, caches=True) is not None]]


def is_cache(source: Source) -> bool:
    """Whether a source is an ActivationCache and not a model."""
    return hasattr(source, "cache_dict")


def model_of(source: Source) -> HookedModel:
    """The model that a source is, or that its activations are of."""
    return cast(Any, source).model if is_cache(source) else cast(Any, source)


def held(
    cache: ActivationCache,
    rows: Int[Tensor, "row pos"],
    names: Sequence[str],
    keep: Callable[[Tensor], Tensor] | None = None,
) -> dict[str, Tensor]:
    """Named activations of a cache, rows first, on CPU.

    Raises ModelError where the cache lacks one, and where it is of another number of rows or positions.
    """
    found = {}
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
        found[name] = kept(value, keep)
    return found


def kept(value: Tensor, keep: Callable[[Tensor], Tensor] | None) -> Tensor:
    """What ``keep`` takes of an activation, on CPU; ArgumentError where that is no tensor of its rows."""
    found: Any = value if keep is None else keep(value)
    if not isinstance(found, Tensor) or found.shape[:1] != value.shape[:1]:
        raise ArgumentError(
            f"keep gave {shown(found)} for an activation of shape {list(value.shape)}; expected a tensor of its rows, "
            f"such as lambda z: z[:, -1] gives."
        )
    return found.detach().cpu()
