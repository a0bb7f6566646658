"""Checks that the probes share: is there such a layer and head, and do the roles belong to these rows?"""

from __future__ import annotations

from typing import Any

from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError
from rb_interp.probes.capture import Tokens, as_rows
from rb_interp.tasks.roles import Roles


def has_attention(model: Any) -> bool:
    """Whether a model has any attention heads; an EmbMLP has none, and its ``cfg`` says so."""
    return model.cfg.n_layers > 0 and model.cfg.n_heads > 0


def check_layer_head(model: Any, layer: int, head: int | None, probe: str, twin: Any = None) -> None:
    """Raise ModelError where the model, or its twin, has no attention, or no such layer or head (counted from 0)."""
    for what, looked_at in (("this model", model), ("the twin", twin)):
        if looked_at is None:
            continue
        cfg = looked_at.cfg
        if not has_attention(looked_at):
            raise ModelError(
                f"{probe} looks at layers and heads, and {what}, of type {type(looked_at).__name__}, has none; use it "
                f"on a model with attention. geometry reads a model without."
            )
        for name, given, count in (("layer", layer, cfg.n_layers), ("head", head, cfg.n_heads)):
            if given is not None and not 0 <= given < count:
                several = f"s, counted from 0. Use {name}=0 to {name}={count - 1}."
                raise ModelError(
                    f"{probe} got {name}={given}; {what} has {count} {name}"
                    + (several if count > 1 else f". Use {name}=0.")
                )


def check_rows(tokens: Tokens, roles: Roles, probe: str) -> Int[Tensor, "row pos"]:
    """Tokens as an integer tensor; ModelError where they are not [row, pos], RolesError for roles of other rows."""
    rows = as_rows(tokens)
    if roles.positions and len(roles) != len(rows):
        raise RolesError(
            f"{probe} got {len(rows)} rows of tokens and roles of {len(roles)} rows; "
            f"pass roles.take(rows) for the same rows."
        )
    for role, at in roles.positions.items():
        if at.size and not 0 <= at.min() <= at.max() < rows.shape[1]:
            raise RolesError(
                f"{probe} got role '{role}' at positions {at.min()} to {at.max()}; "
                f"these rows have positions 0 to {rows.shape[1] - 1}."
            )
    return rows
