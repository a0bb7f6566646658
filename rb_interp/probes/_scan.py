"""One probe over many layers and heads, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from hashlib import blake2b
from inspect import signature
from itertools import product
from typing import Any

import pandas as pd
from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.probes._probe import check_layer_head, finite_weights
from rb_interp.probes.capturing import Keep, Source, has_attention, kept, model_of, read
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

ROOM = 2**30
"""Bytes of activations that one pass keeps, about; where all layers need more, several passes share them."""


@typed
def scan(
    probe: Callable[..., Reading],
    model: Source,
    inputs: Inputs,
    *,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    cache: Source | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Readings of a probe on every given layer and head (default: all), one row per layer, head and quantity.

    The columns are those of Reading.to_frame(). With many heads some p-values are small by chance: correct for their
    number before pointing at one head.

    Args:
        probe: any probe that takes ``layer`` and ``head``. model, inputs: what it is given; activations in place of a
            model, if it reads these.
        layers, heads: numbers, counted from 0; by default all.
        cache: activations of these rows that you have already, such as of ``run_with_cache``; then nothing runs.
        options: go to the probe, such as ``untrained``, ``n_null``, ``seed`` or ``k``.

    Raises:
        ModelError: where the probe does not look at single heads, or a layer or head is not there.
    """
    name = getattr(probe, "__name__", "this probe")
    if not {"layer", "head"} <= set(signature(probe).parameters):
        raise ModelError(f"{name} does not look at single layers and heads; call {name}(model, inputs) itself.")
    if one := sorted({"layer", "head"} & set(options)):
        raise ModelError(
            f"scan got {one[0]}={options[one[0]]!r}; it reads many: give {one[0]}s=[...], or leave it away."
        )
    looked_at = model_of(model)
    if not has_attention(looked_at):
        check_layer_head(looked_at, 0, 0, name)
    heads = list(range(looked_at.cfg.n_heads) if heads is None else heads)
    layers = list(range(looked_at.cfg.n_layers) if layers is None else layers)
    source = OnePass(model if cache is None else cache, layers)
    if options.get("untrained") is not None:
        options["untrained"] = OnePass(options["untrained"], layers)
    rows = []
    for layer, head in product(layers, heads):
        reading = probe(source, inputs, layer=layer, head=head, **options)
        rows += [row | {"layer": layer, "head": head} for row in reading.noted_rows()]
    return pd.DataFrame(rows)


class OnePass:
    """A source of which many heads are read: what is asked of one layer is captured of all layers, and remembered.

    A model that is changed afterwards is not run again, so a source of this kind lives for one call.

    Args:
        source: what is read. layers: those that will be asked for.
    """

    def __init__(self, source: Source, layers: Sequence[int]) -> None:
        self.source, self.model, self.layers = source, model_of(source), sorted(layers)
        self.cache_dict: dict[str, Tensor] = {}
        self._kept: dict[tuple, dict[str, Tensor]] = {}

    @cached_property
    def finite(self) -> bool:
        """Whether every weight is finite."""
        return finite_weights(self.model)

    def of_rows(self, rows: Int[Tensor, "row pos"], names: Sequence[str], keep: Keep = None) -> dict[str, Tensor]:
        """Named activations of any rows, which the model runs where they are not kept yet."""
        held = self._kept.setdefault((tuple(rows.shape), blake2b(rows.numpy().tobytes()).digest()), {})
        if not set(names) <= held.keys():
            wanted, asked = self._together(rows, names), {_place(name)[1] for name in names}
            for name in [name for name in held if _place(name)[1] in asked]:
                del held[name]  # the next layers take the place of those before
            held |= read(self.model, rows, wanted)
        return {name: kept(held[name], keep) for name in names}

    def _together(self, rows: Int[Tensor, "row pos"], names: Sequence[str]) -> list[str]:
        """The names, and the same of the following layers as far as there is room."""
        cfg, length = self.model.cfg, rows.shape[1]
        widest = max(getattr(cfg, "d_mlp", 0) or 0, cfg.d_model, cfg.n_heads * max(length, cfg.d_head))
        most = max(1, ROOM // (4 * rows.numel() * widest * len(names)))
        first = min(_place(name)[0] for name in names)
        layers = [layer for layer in self.layers if layer >= first][:most]
        more = [f"blocks.{at}.{_place(name)[1]}" if "blocks." in name else name for at in layers for name in names]
        return [*names, *(name for name in dict.fromkeys(more) if name in self.model.hook_dict and name not in names)]


def _place(name: str) -> tuple[int, str]:
    """A hook's layer, 0 where it has none, and its name within the layer."""
    parts = name.split(".", 2)
    return (int(parts[1]), parts[2]) if parts[0] == "blocks" else (0, name)
