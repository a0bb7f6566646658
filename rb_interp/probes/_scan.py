"""A probe on many layers and heads, in one pass of the model where there is memory for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import product
from typing import Any

import pandas as pd
from jaxtyping import Int
from torch import Tensor

from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.models.structure import attention_layers, has_attention, widest_activation
from rb_interp.probes.activations import Select, capture, selected
from rb_interp.probes.checks import check_layer_head, finite_weights
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.inputs import Inputs

CAPTURE_BYTES = 2**30
"""Bytes of activations of one pass, about; if all layers need more, several passes share them."""


@checked
def scan(
    probe: Callable[..., Reading],
    model: ActivationSource,
    inputs: Inputs,
    *,
    layers: Iterable[int] | None = None,
    heads: Iterable[int] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Readings of a probe on layers and heads (default: all), one row per head and quantity.

    The columns are those of Reading.to_frame(), and ``p_adjusted`` behind ``p_value``: p after
    Benjamini and Hochberg, over the heads of the table, for each quantity. Of the heads with
    p_adjusted <= .05 about one in twenty is there by chance. It cannot be below 1 / (1 + n_null),
    or below heads / (1 + n_null) for a head that is alone.

    Args:
        probe: any probe that takes ``layer`` and ``head``.
        layers, heads: numbers, counted from 0; by default all that have attention.
        options: go to the probe, such as ``untrained``, ``n_null``, ``seed`` or ``k``.

    Raises ModelError if the probe does not look at single heads, or a layer or head does not
    exist.
    """
    name = getattr(probe, "__name__", "this probe")
    place = {"layer", "head"}
    if not place <= {*inspect.signature(probe).parameters} or place & {*options}:
        raise ModelError(
            f"scan reads {name} of many layers and heads; give layers=[...], or call {name} itself."
        )
    if not has_attention(model_of(model)):
        check_layer_head(model, 0, 0, "scan", caches=True)
    heads = list(range(model_of(model).cfg.n_heads) if heads is None else heads)
    layers = attention_layers(model) if layers is None else list(layers)
    source = OnePass(model, layers)
    if options.get("untrained") is not None:
        options["untrained"] = OnePass(options["untrained"], layers)
    rows = []
    for layer, head in product(layers, heads):
        reading = probe(source, inputs, layer=layer, head=head, **options)
        rows += [row | {"layer": layer, "head": head} for row in reading.noted_rows()]
    table = pd.DataFrame(rows)
    if len(table):
        adjusted = table.groupby("quantity").p_value.transform(_adjusted)
        position = table.columns.get_loc("p_value") + 1  # type: ignore[operator]
        table.insert(position, "p_adjusted", adjusted)  # type: ignore[arg-type]
    return table


def _adjusted(p_values: pd.Series) -> pd.Series:
    """p-values after Benjamini and Hochberg; NaN stays, and does not count."""
    from scipy.stats import false_discovery_control  # takes long to import

    known = p_values.dropna()
    adjusted = false_discovery_control(known) if len(known) else known.to_numpy()
    return pd.Series(adjusted, known.index, dtype=float).reindex(p_values.index)


class OnePass:
    """A source for one scan: it captures of all layers what is asked of one, and remembers it."""

    def __init__(self, source: ActivationSource, layers: Sequence[int]) -> None:
        self.source = source
        self.model = model_of(source)
        self.layers = sorted(layers)
        self.cache_dict: dict[str, Tensor] = {}
        self._passes: dict[tuple, dict[str, Tensor]] = {}

    @cached_property
    def hook_dict(self) -> Any:
        """The model's, which a bridge puts together anew at each call."""
        return self.model.hook_dict

    @cached_property
    def finite(self) -> bool:
        """Whether every weight is finite."""
        return finite_weights(self.model)

    def of_rows(
        self, rows: Int[Tensor, "row pos"], names: Sequence[str], select: Select = None
    ) -> dict[str, Tensor]:
        """Named activations of any rows; the model runs if they are not remembered."""
        endings = frozenset(_layer_and_ending(name)[1] for name in names)
        key = tuple(rows.shape), blake2b(rows.numpy().data).digest(), endings
        cached = self._passes.get(key, {})
        if not set(names) <= cached.keys():
            cached = capture(self.model, rows, self._wanted(rows, names))
            self._passes[key] = cached  # in place of the layers before
        return {name: selected(cached[name], select) for name in names}

    def _wanted(self, rows: Int[Tensor, "row pos"], names: Sequence[str]) -> list[str]:
        """The names, and the same of later layers, as many as there is memory for."""
        widest = widest_activation(self.model, rows.shape[1])
        most = max(1, CAPTURE_BYTES // (4 * rows.numel() * widest * len(names)))
        parts = [_layer_and_ending(name) for name in names]
        first = min(layer or 0 for layer, _ in parts)
        layers = [layer for layer in self.layers if layer >= first][:most]
        endings = [ending for layer, ending in parts if layer is not None]
        wanted = list(names)
        for layer, ending in product(layers, endings):
            name = f"blocks.{layer}.{ending}"
            if name in self.hook_dict:
                wanted.append(name)
        return wanted


def _layer_and_ending(name: str) -> tuple[int | None, str]:
    """The layer of a hook and its name within the layer; None for a hook outside the layers."""
    if not name.startswith("blocks."):
        return None, name
    _, layer, ending = name.split(".", 2)
    return int(layer), ending
