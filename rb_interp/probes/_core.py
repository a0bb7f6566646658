"""What every probe shares: it reads a model and the untrained one alike, draws nulls, writes notes.

A probe is a plain function with its whole signature. It hands the core a pure function ``measure``,
which makes a `Measurement` of what is read: a head's attention (`read_head`), or a source as a
whole (`read_model`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError, ModelError, describe
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.models.structure import (
    attention_layers,
    caller_hooks,
    has_attention,
    visible,
)
from rb_interp.probes.activations import (
    DIVERGED,
    OnePass,
    capture,
    check_attends,
    check_layer_head,
    check_rows,
    finite_weights,
    float64,
)
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs

NOT_FINITE = "the model's activations are not finite."
Reasons = str | Mapping[str, str]
"""Why a number is not finite: one reason, or a reason for each beginning of a quantity's name."""
capture_unchecked = inspect.unwrap(capture)
"""`capture` for callers that have checked their arguments and run on one thread."""


class Measurement(NamedTuple):
    """What a probe measures of one model.

    Attributes:
        values: quantity -> number.
        nulls: gives quantity -> null, from the number of draws and their seed. None for no null.
        arrays: name -> array.
        n: rows that the values rest on; 0 for weights.
        tables: gives name -> table, from the seed. None for no table.
        null_notes: quantity -> what its null cannot say.
        note: about the roles of the reading as a whole.
        input_finite: whether what was read is known to be finite, so that weights are no reason of
            a NaN.
    """

    values: Mapping[str, float]
    nulls: Callable[[int, int], Mapping[str, Null]] | None = None
    arrays: Mapping[str, np.ndarray] = {}
    n: int = 0
    tables: Callable[[int], Mapping[str, pd.DataFrame]] | None = None
    null_notes: Mapping[str, str] = {}
    note: str = ""
    input_finite: bool = False


class HeadAttention(NamedTuple):
    """The attention of one head.

    Attributes:
        pattern: attention after the softmax.
        visible: which keys each query may attend to.
        attends: which queries attend to anything; padding in front does not.
        padding_group: for each row, the number of the first row with the same padding.
    """

    pattern: Float[np.ndarray, "row query key"]
    visible: Bool[np.ndarray, "query key"]
    attends: Bool[np.ndarray, "row query"]
    padding_group: Int[np.ndarray, " row"]


def read_model(
    name: str,
    model: ActivationSource,
    measure: Callable[[ActivationSource], Measurement],
    untrained: ActivationSource | None,
    n_null: int,
    seed: int,
    reasons: Reasons = NOT_FINITE,
    layer: int | None = None,
    head: int | None = None,
) -> Reading:
    """A reading of a model, its cached activations or arrays.

    Args:
        name: the reading's.
        measure: gives the measurement of a source, of ``model`` and of ``untrained`` alike.
        untrained: the same model at step 0; None for no comparison.
        n_null, seed: number of draws of each null, and their seed. Nulls are drawn of ``model``.
        reasons: why a number may not be finite.
        layer, head: what the reading is of; None if it is of no single one.

    Raises ModelError for a layer or head that does not exist.
    """
    if layer is not None:
        check_layer_head(model, layer, head, name, untrained, caches=True)
    measurement = measure(model)
    untrained_values = {}
    if untrained is not None:
        untrained_values = dict(measure(untrained).values)
    nulls = {}
    notes = {}
    if n_null and measurement.nulls is not None:
        nulls = dict(measurement.nulls(n_null, seed))
        notes = dict(measurement.null_notes)
    suspect = None if measurement.input_finite else model
    notes |= undefined_notes(measurement.values, suspect, reasons, untrained_values, untrained)
    if measurement.note:
        notes["roles"] = measurement.note
    notes |= caller_hooks(model, untrained)
    tables = {} if measurement.tables is None else measurement.tables(seed)
    return Reading(
        name,
        dict(measurement.values),
        layer,
        head,
        untrained_values,
        nulls,
        measurement.arrays,
        measurement.n,
        tables,
        notes,
    )


def read_head(
    name: str,
    model: ActivationSource,
    inputs: Inputs,
    layer: int,
    head: int,
    measure: Callable[[HeadAttention], Measurement],
    untrained: ActivationSource | None,
    n_null: int,
    seed: int,
    reasons: Reasons = NOT_FINITE,
) -> Reading:
    """A reading of the attention of one head on some rows; see `read_model`.

    Raises RolesError for roles of other rows, and what `read_model` raises.
    """
    check_rows(inputs, name)

    def measure_head(source: ActivationSource) -> Measurement:
        attention = head_attention(source, inputs, layer, head)
        finite = bool(np.isfinite(attention.pattern).all())
        return measure(attention)._replace(input_finite=finite)

    return read_model(
        name, model, measure_head, untrained, n_null, seed, reasons, layer=layer, head=head
    )


def head_attention(
    source: ActivationSource, inputs: Inputs, layer: int, head: int
) -> HeadAttention:
    """The attention of a head on some rows.

    Raises ModelError if TransformerLens wrote 0 in place of numbers that are not finite.
    """
    hook = f"blocks.{layer}.attn.hook_pattern"
    activations = capture_unchecked(
        source, inputs.tokens, [hook], select=lambda patterns: patterns[:, head]
    )
    pattern = float64(activations[hook])
    attends = np.asarray(pattern.any(-1))
    padding_group = np.zeros(len(pattern), int)
    if not attends.all():
        check_attends(source, attends)
        _, first, number = np.unique(attends, axis=0, return_index=True, return_inverse=True)
        padding_group = first[number.reshape(-1)]
    mask = visible(model_of(source), layer, pattern.shape[-1])
    if np.triu(pattern, 1).any():  # arrays do not say what their queries may attend to
        mask = np.ones_like(mask)
    return HeadAttention(pattern, mask, attends, padding_group)


def undefined_notes(
    values: Mapping[str, float],
    model: ActivationSource | None,
    reasons: Reasons,
    untrained_values: Mapping[str, float] | None = None,
    untrained: ActivationSource | None = None,
) -> dict[str, str]:
    """The notes of a reading: why some of its values, or the untrained model's, are not finite.

    Args:
        model: its weights are named first if they are not finite; None if they are known not to be
            the reason.
        reasons: the reason, or several by what the names of their quantities begin with, of which
            the first that fits is taken.
        untrained_values, untrained: values and model of the same, untrained.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(cfg=None, parameters=lambda: ())
    >>> reasons = {"ratio": "no untrained model.", "": "no pair."}
    >>> undefined_notes({"cos": np.nan, "ratio": np.nan, "n": 2.0}, model, reasons)
    {'cos': 'no pair.', 'ratio': 'no untrained model.'}
    >>> undefined_notes({"cos": 0.5}, model, "no pair.", {"cos": np.nan}, model)
    {'cos': 'of the untrained model: no pair.'}
    """
    by_beginning = {"": reasons} if isinstance(reasons, str) else reasons
    notes = {}
    for numbers, source, start in (
        (untrained_values or {}, untrained, "of the untrained model: "),
        (values, model, ""),
    ):
        if np.isfinite(list(numbers.values())).all():
            continue
        missing = [name for name in numbers if not np.isfinite(numbers[name]) and name in values]
        diverged = bool(missing) and source is not None and not finite_weights(source)
        for name in missing:
            reason = f"the model's {DIVERGED}"
            if not diverged:
                fitting = [by_beginning[text] for text in by_beginning if name.startswith(text)]
                reason = fitting[0]
            notes[name] = start + reason
    return notes


@checked
def scan(
    probe: Callable[..., Reading],
    model: ActivationSource,
    inputs: Inputs | None = None,
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
        inputs: rows for the probe; None for one that reads weights alone.
        layers, heads: numbers, counted from 0; by default all that have attention.
        options: go to the probe, such as ``untrained``, ``n_null``, ``seed`` or ``k``.

    Raises ModelError if the probe does not look at single heads, or a layer or head does not
    exist, and ArgumentError if it does not take an option, or gives no Reading.
    """
    name = getattr(probe, "__name__", "this probe")
    layer_and_head = {"layer", "head"}
    signature = inspect.signature(probe)
    if not layer_and_head <= {*signature.parameters} or layer_and_head & {*options}:
        raise ModelError(
            f"scan gives a probe layer and head from layers=[...] and heads=[...]. Give these; if "
            f"{name} takes no layer and head, call it itself."
        )
    try:
        signature.bind(model, inputs, layer=0, head=0, **options)
    except TypeError as error:
        takes = ", ".join(signature.parameters)
        raise ArgumentError(f"scan calls {name}: {error}; it takes {takes}.") from None
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
        if not isinstance(reading, Reading):
            raise ArgumentError(f"{name} gave {describe(reading)}; scan expects a Reading.")
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
