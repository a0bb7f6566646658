"""One probe over many layers and heads, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import signature
from itertools import product
from typing import Any

import pandas as pd

from rb_interp.errors import ModelError
from rb_interp.probes._probe import check_layer_head
from rb_interp.probes.capturing import OnePass, Source, has_attention, model_of
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed


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
