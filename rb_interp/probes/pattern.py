"""What the probes of one head's attention pattern share: checks, the untrained model beside it, and the null."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rb_interp.errors import ModelError
from rb_interp.probes.capturing import head_pattern
from rb_interp.probes.check import NOT_FINITE, check_layer_head, check_rows, finite_weights, undefined
from rb_interp.probes.source import Source
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs

Found = tuple[Mapping[str, float], Mapping[str, np.ndarray]]
"""Values and arrays of a reading."""


def pattern_reading(
    probe: str,
    source: Source,
    inputs: Inputs,
    *,
    layer: int,
    head: int,
    untrained: Source | None,
    measure: Callable[[np.ndarray], Found],
    nulls: Callable[[np.ndarray], Mapping[str, Null]],
    queries: slice | int = slice(None),
    why: str = NOT_FINITE,
) -> Reading:
    """Reading of one head's pattern, ``[row, query, key]``, or of one query of it, ``[row, key]``.

    ``why`` is the note of values that are not finite.
    """
    check_layer_head(source, layer, head, probe, untrained, caches=True)
    rows = check_rows(inputs, probe)
    pattern = head_pattern(source, rows, layer=layer, head=head, queries=queries)
    _check_defined(source, pattern, probe)
    values, arrays = measure(pattern)
    before: Mapping[str, float] = {}
    if untrained is not None:
        before, _ = measure(head_pattern(untrained, rows, layer=layer, head=head, queries=queries))
    notes = undefined(values, None if np.isfinite(pattern).all() else source, why)
    return Reading(probe, values, layer, head, before, nulls(pattern), arrays, len(rows), notes=notes)


def _check_defined(source: Source, pattern: np.ndarray, probe: str) -> None:
    """Raise ModelError where attention is undefined: TransformerLens writes 0 for it, which looks like a number."""
    if not pattern.any(-1).all() and not finite_weights(source):
        raise ModelError(f"{probe} got a model whose weights are not all finite: its training has diverged.")
