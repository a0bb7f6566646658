"""Checks that the probes share: is there such a layer and head, and do the roles belong to these rows?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.probes.capturing import as_rows
from rb_interp.probes.one_pass import OnePass
from rb_interp.probes.source import Source, model_of
from rb_interp.tasks.inputs import Inputs

NOT_FINITE = "the model's activations are not finite."


def has_attention(model: HookedModel) -> bool:
    """Whether a model has any attention heads; an EmbMLP has none, and its ``cfg`` says so."""
    return model.cfg.n_layers > 0 and model.cfg.n_heads > 0


def check_layer_head(
    model: Source, layer: int, head: int | None, probe: str, untrained: Source | None = None, *, caches: bool = False
) -> None:
    """Raise ModelError where one of the models has no attention, or no such layer or head (counted from 0).

    A cache in place of a model is refused too, unless the caller reads ``caches``.
    """
    for what, looked_at in (("this model", model), ("the untrained model", untrained)):
        if looked_at is None and what != "this model":
            continue
        hooked(looked_at, probe, caches=caches)
        assert looked_at is not None
        cfg = model_of(looked_at).cfg
        if not has_attention(model_of(looked_at)):
            kind = type(model_of(looked_at)).__name__
            raise ModelError(
                f"{probe} looks at layers and heads, and {what}, of type {kind}, has none; use it "
                f"on a model with attention. geometry reads a model without."
            )
        for name, given, count in (("layer", layer, cfg.n_layers), ("head", head, cfg.n_heads)):
            if given is not None and not 0 <= given < count:
                several = f"s, counted from 0. Use {name}=0 to {name}={count - 1}."
                raise ModelError(
                    f"{probe} got {name}={given}; {what} has {count} {name}"
                    + (several if count > 1 else f". Use {name}=0.")
                )


def finite_weights(model: Source) -> bool:
    """Whether every weight of a model is finite; those of a diverged one are not."""
    if isinstance(model, OnePass):
        return model.remembered("finite", lambda: finite_weights(model.model))
    return all(bool(weight.isfinite().all()) for weight in getattr(model_of(model), "parameters", tuple)())


def undefined(
    values: Mapping[str, float],
    model: Source | None,
    why: str | Mapping[str, str],
    before: Mapping[str, float] | None = None,
    untrained: Source | None = None,
) -> dict[str, str]:
    """The notes of a reading: why some of its values, or the untrained model's, are not finite.

    Args:
        values: quantity -> number. model: what they were read from; weights that are not finite are named first. None
            where it is known that these are not the reason.
        why: the reason, or several by what the names of their quantities begin with, the first that fits.
        before, untrained: the same of the untrained model, if there is one; said of values that are finite themselves.

    >>> from types import SimpleNamespace
    >>> model = SimpleNamespace(cfg=None, parameters=lambda: ())
    >>> undefined({"cos": np.nan, "ratio": np.nan, "n": 2.0}, model, {"ratio": "no untrained model.", "": "no pair."})
    {'cos': 'no pair.', 'ratio': 'no untrained model.'}
    >>> undefined({"cos": 0.5}, model, "no pair.", {"cos": np.nan}, model)
    {'cos': 'of the untrained model: no pair.'}
    """
    notes = _reasons(values, model, why)
    first = _reasons({name: value for name, value in (before or {}).items() if name in values}, untrained, why)
    return {name: f"of the untrained model: {reason}" for name, reason in first.items()} | notes


def _reasons(values: Mapping[str, float], model: Source | None, why: str | Mapping[str, str]) -> dict[str, str]:
    names = [name for name, value in values.items() if not np.isfinite(value)]
    if not names:
        return {}
    if model is not None and not finite_weights(model):
        return dict.fromkeys(names, "the model's weights are not all finite: its training has diverged.")
    reasons = {"": why} if isinstance(why, str) else why
    return {
        name: next((reason for first, reason in reasons.items() if name.startswith(first)), NOT_FINITE)
        for name in names
    }


def occupied(places: Int[np.ndarray, "row n"], role: str, probe: str) -> Int[np.ndarray, "row n"]:
    """Positions of a role that has one at least; RolesError where it has none."""
    if not places.shape[1]:
        raise RolesError(f"{probe} got the role '{role}' without a position; give it one or more in each row.")
    return places


def check_inputs(inputs: Any, probe: str) -> None:
    """Raise ModelError where something else than Inputs was given."""
    if not isinstance(inputs, Inputs):
        raise ModelError(
            f"{probe} got rows of type {type(inputs).__name__}; pass rb_interp.tasks.Inputs(tokens, labels, roles)."
        )


def check_rows(inputs: Any, probe: str) -> Int[Tensor, "row pos"]:
    """Tokens as an integer tensor.

    Raises ModelError where they are not Inputs or not ``[row, pos]``, and RolesError where the roles are of other rows.
    """
    check_inputs(inputs, probe)
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
                f"these rows have positions 0 to {rows.shape[1] - 1}. Leave out rows that lack it: inputs.take(rows)."
            )
    return rows


def check_labels(inputs: Inputs, asker: str) -> np.ndarray:
    """The right answer of each row; ModelError where the inputs have none, or too few."""
    labels = inputs.labels
    if labels is None or len(labels) != len(inputs):
        found = "none" if labels is None else len(labels)
        raise ModelError(
            f"{asker} got {len(inputs)} rows and {found} labels; pass Inputs(tokens, labels, roles), a label a row."
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or (labels.size and labels.min() < 0):
        raise ModelError(
            f"{asker} got labels of shape {list(labels.shape)} and type {labels.dtype}; expected a token a row."
        )
    return labels
