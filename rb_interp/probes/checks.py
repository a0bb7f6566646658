"""What a probe or an intervention refuses: layers, heads, rows, labels, roles, diverged models."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.errors import ModelError, RolesError
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.models.protocol import hooked
from rb_interp.models.structure import attention_layers, has_attention
from rb_interp.probes.activations import as_rows
from rb_interp.tasks.inputs import REST, Inputs, rest_positions

DIVERGED = "weights are not all finite: its training has diverged."


def check_layer_head(
    model: ActivationSource,
    layer: int,
    head: int | None,
    caller: str,
    untrained: ActivationSource | None = None,
    *,
    caches: bool = False,
) -> None:
    """Raise ModelError if a model lacks this layer or head, or has no attention there.

    Args:
        caller: the name in the message.
        untrained: a second model that is checked as well.
        caches: whether cached activations are taken; ModelError for them if not.
    """
    sources = {"this model": model}
    if untrained is not None:
        sources["the untrained model"] = untrained
    for subject, source in sources.items():
        lens = model_of(hooked(source, caller, caches=caches))
        if not has_attention(lens):
            raise ModelError(
                f"{caller} looks at layers and heads, and {subject}, of type "
                f"{type(lens).__name__}, has none; use it on a model with attention. "
                f"geometry reads a model without."
            )
        counts = ("layer", layer, lens.cfg.n_layers), ("head", head, lens.cfg.n_heads)
        for name, number, count in counts:
            if number is not None and not 0 <= number < count:
                raise ModelError(
                    f"{caller} got {name}={number}; {subject} has {count} {name}s, counted from 0."
                )
        if f"blocks.{layer}.attn.hook_pattern" in getattr(source, "hook_dict", ()):
            continue
        layers = attention_layers(source)
        if layer not in layers:
            raise ModelError(
                f"{caller} got layer={layer}; {subject} has attention in the layers {layers} alone."
            )


def check_rows(inputs: Inputs, caller: str) -> None:
    """Raise an error for tokens that are not ``[row, pos]``, and for roles of other rows.

    ModelError for tokens, RolesError for roles.
    """
    rows = inputs.tokens
    roles = inputs.roles
    if not rows.size:
        as_rows(rows)  # raises
    if roles.positions and len(roles) != len(rows):
        raise RolesError(
            f"{caller} got {len(rows)} rows of tokens and roles of {len(roles)} rows; "
            f"pass roles.take(rows) for the same rows."
        )
    for role, positions in roles.positions.items():
        if positions.size and not 0 <= positions.min() <= positions.max() < rows.shape[1]:
            raise RolesError(
                f"{caller} got role '{role}' at positions {positions.min()} to {positions.max()}; "
                f"these rows have positions 0 to {rows.shape[1] - 1}. Leave out rows that lack it: "
                f"inputs.take(rows)."
            )


def check_labels(inputs: Inputs, caller: str) -> np.ndarray:
    """The right answer of each row; ModelError if the inputs have none, or none that are tokens."""
    labels = inputs.labels
    if labels is None:
        raise ModelError(
            f"{caller} got {len(inputs)} rows and none labels; pass Inputs(tokens, labels, roles), "
            f"a label a row."
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or (labels.size and labels.min() < 0):
        raise ModelError(
            f"{caller} got labels of shape {list(labels.shape)} and type {labels.dtype}; expected "
            f"a token a row."
        )
    return labels


def occupied(inputs: Inputs, role: str, caller: str) -> Int[np.ndarray, "row n"]:
    """Positions of a role, one at least; RolesError if the role is missing, or has none."""
    if role == REST and role not in inputs.roles.positions:
        return rest_positions(inputs.roles, inputs.tokens.shape[1])
    positions = inputs.roles.position(role, caller)
    if not positions.shape[1]:
        raise RolesError(
            f"{caller} got the role '{role}' without a position; give it one or more in each row."
        )
    return positions


def check_attends(model: ActivationSource, attends: Bool[np.ndarray, "*lead query"]) -> None:
    """Raise ModelError if queries attend to nothing and are no padding in front.

    TransformerLens writes 0 for attention that is NaN.
    """
    if not finite_weights(model):
        raise ModelError(f"got a model whose {DIVERGED}")
    if not (attends[..., -1].all() or hasattr(model_of(model), "arrays")):
        raise ModelError("got a model whose attention is not all finite.")


def finite_weights(source: ActivationSource) -> bool:
    """Whether every weight of a model is finite; those of a diverged one are not."""
    known = getattr(source, "finite", None)  # a scan asks once for all heads
    if known is not None:
        return known
    parameters = getattr(model_of(source), "parameters", tuple)
    return all(bool(weight.isfinite().all()) for weight in parameters())
