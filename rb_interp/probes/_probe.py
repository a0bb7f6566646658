"""What every probe shares: its arguments, what it reads, the untrained model, nulls, and notes of
NaN; and `scan`.

A probe is written as a function of what it reads, such as an attention pattern, the embedding or a
layer's matrices, and returns what it `Found`. ``@probe(reads)`` makes the public call of it,
``probe(model, inputs, *, layer, head, untrained, n_null, seed, ...)``: layer, head and rows are
checked; the untrained model is read by the same function; nulls are drawn of the model alone; and a
number that is not finite gets a note that says why.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from itertools import product
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, RolesError
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.models.hooking import caller_hooks
from rb_interp.models.protocol import hooked
from rb_interp.models.structure import attention_layers, has_attention, visible
from rb_interp.probes.activations import Select, as_rows, capture, float64, selected
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import REST, Inputs, rest_positions

NOT_FINITE = "the model's activations are not finite."
DIVERGED = "weights are not all finite: its training has diverged."
HEAD: Mapping[str, int | None] = {"layer": 0, "head": 0}
"""The place of a probe that reads one head, unless another one is asked for."""
ROOM = 2**30
"""Bytes of activations that one pass of `scan` keeps, about; where all layers need more, several
passes share them."""
SHARED = {
    "model": "a model, its activations on these rows (``captured``), or arrays (``from_arrays``).",
    "inputs": "not looked at, since the probe reads weights alone.",
    "layer": "the layer, counted from 0; ModelError where it is not there.",
    "head": "the head, counted from 0; ModelError where it is not there.",
    "untrained": "the same model at step 0, read beside it; None for no comparison.",
    "n_null": "draws of each null; 0 for none.",
    "seed": "seed of the draws.",
    "counts": "how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first; or two corpora of yours\n"
    "        by name, each with its ``[d_vocab]``. Their names stand in place of prontoqa and "
    "stories then.",
}
"""What a docstring says of the arguments that probes share; it stands here alone."""


class Found(NamedTuple):
    """What a probe reads of one model.

    Attributes:
        values: quantity -> number. n: rows that it rests on; 0 for weights.
        nulls: gives the nulls, from the number of draws and their seed. tables: gives tables, from
            the seed.
        arrays: by name, or a function that gives them.
        still: quantity -> what its null cannot say.
        words: what stands in place of some words in every name and note.
        told: a note of the reading as a whole.
    """

    values: Mapping[str, float]
    nulls: Callable[[int, int], Mapping[str, Null]] | None = None
    arrays: Any = None
    n: int = 0
    tables: Callable[[int], Mapping[str, pd.DataFrame]] | None = None
    still: Mapping[str, str] = {}
    words: Mapping[str, str] = {}
    told: str = ""


class Attention(NamedTuple):
    """A head's pattern, what its queries may attend to and which do, and each row's first one with
    the same padding."""

    pattern: Float[np.ndarray, "row query key"]
    visible: Bool[np.ndarray, "query key"]
    attends: Bool[np.ndarray, "row query"]
    alike: Int[np.ndarray, " row"]


@runtime_checkable
class Probe(Protocol):
    """A probe as a user calls it."""

    __name__: str

    def __call__(
        self,
        model: ActivationSource,
        inputs: Inputs | None = None,
        *,
        layer: int | None = ...,
        head: int | None = ...,
        untrained: ActivationSource | None = ...,
        n_null: int = ...,
        seed: int = ...,
        **own: Any,
    ) -> Reading: ...


def source(model: ActivationSource, **_: Any) -> ActivationSource:
    """What a probe reads that says itself what it needs of a model."""
    return model


def embedding(model: ActivationSource, **_: Any) -> Tensor:
    """The rows of W_E."""
    return model_of(model).W_E.detach()


def pattern(model: ActivationSource, inputs: Inputs, layer: int, head: int) -> Attention:
    """The attention of a head; ModelError where TransformerLens wrote 0 for what is not finite."""
    name = f"blocks.{layer}.attn.hook_pattern"
    read = inspect.unwrap(capture)  # the probe has checked its arguments, and has few threads
    found = float64(read(model, inputs.tokens, [name], select=lambda every: every[:, head])[name])
    attends, alike = np.asarray(found.any(-1)), np.zeros(len(found), int)
    if not attends.all():
        check_attends(model, attends)
        _, first, number = np.unique(attends, axis=0, return_index=True, return_inverse=True)
        alike = first[number.reshape(-1)]
    ahead = bool(np.triu(found, 1).any())  # arrays do not say what their queries may attend to
    return Attention(
        found, visible(model_of(model), layer, found.shape[-1]) | ahead, attends, alike
    )


def probe(
    reads: Callable[..., Any],
    why: str | Mapping[str, str] = NOT_FINITE,
    *,
    name: str = "",
    place: Mapping[str, int | None] = HEAD,
    looks: bool = True,
) -> Callable[[Callable[..., Found]], Probe]:
    """Make a probe of a function of what it reads.

    Args:
        reads: gives that from a model, its inputs, the layer and the head.
        why: why a number is not finite, or several reasons by what the names of their quantities
            begin with.
        name: the reading's; by default the function's.
        place: which of layer and head the probe takes, and their defaults. looks: whether it needs
            these.
    """

    def decorate(function: Callable[..., Found]) -> Probe:
        asker, measure = function.__name__, checked(function)
        own = dict(list(inspect.signature(function).parameters.items())[1:])
        takes = own.keys() & {"inputs", "layer", "head"}

        def call(
            model: ActivationSource,
            inputs: Inputs | None = None,
            *,
            layer: int | None = None,
            head: int | None = None,
            untrained: ActivationSource | None = None,
            n_null: int = 200,
            seed: int = 0,
            **options: Any,
        ) -> Reading:
            at = dict(place)
            for one, asked in (("layer", layer), ("head", head)):
                if asked is not None:
                    at[one] = asked
            if place and (looks or has_attention(model_of(model))):
                check_layer_head(
                    model, at["layer"] or 0, at.get("head"), asker, untrained, caches=True
                )
            if inputs is not None and "inputs" in takes:
                check_rows(inputs, asker)
            for one in takes:
                options[one] = inputs if one == "inputs" else at[one]
            what, before = reads(model, inputs=inputs, **at), {}
            found = measure(what, **options)
            values, nulls = (
                dict(found.values),
                dict(found.nulls(n_null, seed)) if n_null and found.nulls else {},
            )
            if untrained is not None:
                before = dict(measure(reads(untrained, inputs=inputs, **at), **options).values)
            if "participation_ratio" in "".join(values):
                _beside(values, before, nulls)
            # where the pattern is finite, weights are not the reason
            sound = isinstance(what, Attention) and np.isfinite(what.pattern).all()
            notes = dict(found.still if nulls else {})
            notes |= undefined(values, None if sound else model, why, before, untrained)
            notes |= {"roles": found.told} if found.told else {}
            notes |= caller_hooks(model, untrained)
            arrays: Any = found.arrays() if callable(found.arrays) else found.arrays or {}
            tables, where = found.tables(seed) if found.tables else {}, at if looks else {}
            spot = where.get("layer"), where.get("head")
            reading = Reading(
                name or asker, values, *spot, before, nulls, arrays, found.n, tables, notes
            )
            return _renamed(reading, found.words) if found.words else reading

        parts = dict(inspect.signature(call).parameters)
        parts = {
            one: parts[one] for one in ("model", "inputs", *place, "untrained", "n_null", "seed")
        } | own
        parts |= {one: parts[one].replace(default=default) for one, default in place.items()}
        call.__signature__ = inspect.Signature(list(parts.values()), return_annotation="Reading")  # type: ignore
        call.__name__, call.__qualname__, call.__module__ = asker, asker, function.__module__
        text = inspect.getdoc(function) or ""
        told = [
            f"    {one}: {SHARED[one]}\n"
            for one in parts
            if one in SHARED and f"\n    {one}:" not in text
        ]
        text = text if "Args:\n" in text else f"{text}\n\nArgs:\n"
        call.__doc__ = text.replace("Args:\n", "Args:\n" + "".join(told), 1)
        return cast(Any, checked(single_threaded(call)))

    return decorate


def _beside(values: dict[str, float], before: dict[str, float], nulls: dict[str, Null]) -> None:
    """Fill in the participation ratios, which compare with the untrained model; their nulls are
    scaled likewise."""
    for ratio in [one for one in values if one.startswith("participation_ratio")]:
        own = ratio.replace("_ratio", "")
        if before:
            values[ratio], before[ratio] = values[own] / before[own], 1.0
            if ratio in nulls:
                nulls[ratio] = replace(nulls[ratio], draws=nulls[ratio].draws / before[own])
        else:
            nulls.pop(ratio, None)


def _renamed(reading: Reading, words: Mapping[str, str]) -> Reading:
    """A reading with other words in every quantity, array, null, table and note."""
    search = re.compile("|".join(words))

    def said(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {said(key): said(one) for key, one in value.items()}
        if isinstance(value, pd.DataFrame):
            return value.replace(dict(words), regex=True)
        if isinstance(value, Null):
            return replace(value, name=said(value.name))
        return search.sub(lambda found: words[found[0]], value) if isinstance(value, str) else value

    parts = ("values", "untrained", "nulls", "arrays", "tables", "notes")
    return replace(reading, **{part: said(getattr(reading, part)) for part in parts})


def check_layer_head(
    model: ActivationSource,
    layer: int,
    head: int | None,
    probe: str,
    untrained: ActivationSource | None = None,
    *,
    caches: bool = False,
) -> None:
    """Raise ModelError for a layer or head that is not there or no attention; and for a cache,
    unless ``caches``."""
    both = {"this model": model} | ({} if untrained is None else {"the untrained model": untrained})
    for what, source in both.items():
        read = model_of(hooked(source, probe, caches=caches))
        if not has_attention(read):
            raise ModelError(
                f"{probe} looks at layers and heads, and {what}, of type {type(read).__name__}, "
                f"has none; use it "
                f"on a model with attention. geometry reads a model without."
            )
        for name, given, count in (
            ("layer", layer, read.cfg.n_layers),
            ("head", head, read.cfg.n_heads),
        ):
            if given is not None and not 0 <= given < count:
                raise ModelError(
                    f"{probe} got {name}={given}; {what} has {count} {name}s, counted from 0."
                )
        pattern, read = f"blocks.{layer}.attn.hook_pattern", cast(Any, source)
        if pattern not in getattr(read, "hook_dict", ()) and layer not in (
            layers := attention_layers(read)
        ):
            raise ModelError(
                f"{probe} got layer={layer}; {what} has attention in the layers {layers} alone."
            )


def check_rows(inputs: Inputs, probe: str) -> None:
    """Raise ModelError where tokens are not ``[row, pos]``, and RolesError where roles are of other
    rows."""
    rows, roles = as_rows(inputs.tokens), inputs.roles
    if roles.positions and len(roles) != len(rows):
        raise RolesError(
            f"{probe} got {len(rows)} rows of tokens and roles of {len(roles)} rows; "
            f"pass roles.take(rows) for the same rows."
        )
    for role, at in roles.positions.items():
        if at.size and not 0 <= at.min() <= at.max() < rows.shape[1]:
            raise RolesError(
                f"{probe} got role '{role}' at positions {at.min()} to {at.max()}; "
                f"these rows have positions 0 to {rows.shape[1] - 1}. Leave out rows that lack it: "
                f"inputs.take(rows)."
            )


def check_labels(inputs: Inputs, asker: str) -> np.ndarray:
    """The right answer of each row; ModelError where the inputs have none, or something else than
    tokens."""
    labels = inputs.labels
    if labels is None:
        raise ModelError(
            f"{asker} got {len(inputs)} rows and none labels; pass Inputs(tokens, labels, roles), "
            f"a label a row."
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or (labels.size and labels.min() < 0):
        raise ModelError(
            f"{asker} got labels of shape {list(labels.shape)} and type {labels.dtype}; expected a "
            f"token a row."
        )
    return labels


def occupied(inputs: Inputs, role: str, probe: str) -> Int[np.ndarray, "row n"]:
    """Positions of a role that has one at least; RolesError where it is missing, or has none."""
    if role == REST and role not in inputs.roles.positions:
        return rest_positions(inputs.roles, inputs.tokens.shape[1])
    places = inputs.roles.position(role, probe)
    if not places.shape[1]:
        raise RolesError(
            f"{probe} got the role '{role}' without a position; give it one or more in each row."
        )
    return places


def check_attends(model: ActivationSource, attends: Bool[np.ndarray, "*lead query"]) -> None:
    """Raise ModelError where queries attend to nothing and are no padding in front: TransformerLens
    wrote 0 for NaN."""
    finite, ends = (
        finite_weights(model),
        attends[..., -1].all() or hasattr(model_of(model), "arrays"),
    )
    if not (finite and ends):
        raise ModelError(
            f"got a model whose {'attention is not all finite.' if finite else DIVERGED}"
        )


def finite_weights(source: ActivationSource) -> bool:
    """Whether every weight of a model is finite; those of a diverged one are not."""
    if (known := getattr(source, "finite", None)) is not None:  # a scan asks once for all heads
        return known
    return all(
        bool(weight.isfinite().all()) for weight in getattr(model_of(source), "parameters", tuple)()
    )


def undefined(
    values: Mapping[str, float],
    model: ActivationSource | None,
    why: str | Mapping[str, str],
    before: Mapping[str, float] | None = None,
    untrained: ActivationSource | None = None,
) -> dict[str, str]:
    """The notes of a reading: why some of its values, or the untrained model's, are not finite.

    Args:
        model: its weights are named first where they are not finite; None where they are known not
            to be the reason.
        why: the reason, or several by what the names of their quantities begin with, the first that
            fits.
        before, untrained: values and model of the same, untrained.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(cfg=None, parameters=lambda: ())
    >>> undefined({"cos": np.nan, "ratio": np.nan, "n": 2.0}, model, {"ratio": "no untrained model.", "": "no pair."})
    {'cos': 'no pair.', 'ratio': 'no untrained model.'}
    >>> undefined({"cos": 0.5}, model, "no pair.", {"cos": np.nan}, model)
    {'cos': 'of the untrained model: no pair.'}
    """
    reasons, notes = {"": why} if isinstance(why, str) else why, {}
    for told, source, start in (
        (before or {}, untrained, "of the untrained model: "),
        (values, model, ""),
    ):
        if np.isfinite(list(told.values())).all():
            continue
        names = [name for name, value in told.items() if name in values and not np.isfinite(value)]
        broken = bool(names) and source is not None and not finite_weights(source)
        for name in names:
            reason = next(
                (reason for first, reason in reasons.items() if name.startswith(first)), NOT_FINITE
            )
            notes[name] = start + (f"the model's {DIVERGED}" if broken else reason)
    return notes


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
    """Readings of a probe on every given layer and head (default: all), one row per layer, head and
    quantity.

    The columns are those of Reading.to_frame(), and ``p_adjusted`` behind ``p_value``: p after
    Benjamini and Hochberg, over the heads of the table, for each quantity. Of the heads with
    p_adjusted <= .05 about one in twenty is there by chance. It cannot be below 1 / (1 + n_null),
    or below heads / (1 + n_null) for a head that is alone.

    Args:
        probe: any probe that takes ``layer`` and ``head``.
        layers, heads: numbers, counted from 0; by default all that have attention.
        options: go to the probe, such as ``untrained``, ``n_null``, ``seed`` or ``k``.

    Raises ModelError where the probe does not look at single heads, or a layer or head is not
    there.
    """
    name = getattr(probe, "__name__", "this probe")
    if not {"layer", "head"} <= {*inspect.signature(probe).parameters} or {"layer", "head"} & {
        *options
    }:
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
        table.insert(table.columns.get_loc("p_value") + 1, "p_adjusted", adjusted)  # type: ignore[arg-type]
    return table


def _adjusted(p_values: pd.Series) -> pd.Series:
    """After Benjamini and Hochberg; NaN stays, and does not count."""
    from scipy.stats import false_discovery_control  # takes long to import

    known = p_values.dropna()
    adjusted = false_discovery_control(known) if len(known) else known.to_numpy()
    return pd.Series(adjusted, known.index, dtype=float).reindex(p_values.index)


class OnePass:
    """A source for one call: what is asked of one layer is captured of all layers, and
    remembered."""

    def __init__(self, source: ActivationSource, layers: Sequence[int]) -> None:
        self.source, self.model, self.layers = source, model_of(source), sorted(layers)
        self.cache_dict: dict[str, Tensor] = {}
        self._kept: dict[tuple, dict[str, Tensor]] = {}

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
        """Named activations of any rows, which the model runs where they are not kept yet."""
        places = [
            name.split(".", 2) if name.startswith("blocks.") else ["", "0", name] for name in names
        ]
        key = (
            tuple(rows.shape),
            blake2b(rows.numpy().data).digest(),
            frozenset(name for *_, name in places),
        )
        held = self._kept.get(key, {})
        if not set(names) <= held.keys():
            cfg, length = self.model.cfg, rows.shape[1]
            widest = max(
                getattr(cfg, "d_mlp", 0) or 0, cfg.d_model, cfg.n_heads * max(length, cfg.d_head)
            )
            most = max(
                1, ROOM // (4 * rows.numel() * widest * len(names))
            )  # layers that there is room for
            first = min(int(layer) for _, layer, _ in places)
            layers = [layer for layer in self.layers if layer >= first][:most]
            more = [f"blocks.{at}.{name}" for at in layers for block, _, name in places if block]
            wanted = [*names, *(name for name in more if name in self.hook_dict)]
            held = self._kept[key] = capture(
                self.model, rows, wanted
            )  # in place of the layers before
        return {name: selected(held[name], select) for name in names}
