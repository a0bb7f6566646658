"""Checks that the probes share: is there such a layer and head, and do the roles belong to these rows?"""

from __future__ import annotations

from typing import Any

from jaxtyping import Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError
from rb_interp.probes.capture import Tokens, as_rows
from rb_interp.tasks.roles import Roles


def check_layer_head(model: Any, layer: int, head: int | None, probe: str, twin: Any = None) -> None:
    """Raise ModelError where the model, or its twin, has no such layer or head (both counted from 0)."""
    for what, cfg in (("this model", model.cfg), ("the twin", None if twin is None else twin.cfg)):
        if cfg is None:
            continue
        for name, given, count in (("layer", layer, cfg.n_layers), ("head", head, cfg.n_heads)):
            if given is not None and not 0 <= given < count:
                raise ModelError(
                    f"{probe} got {name}={given}; {what} has {count} {name}s, counted from 0. "
                    f"Use {name}=0 to {name}={count - 1}."
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
