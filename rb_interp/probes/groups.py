"""Groups of tokens: those that the caller names, or those of the inputs' roles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int

from rb_interp.errors import RolesError
from rb_interp.tasks.roles import Roles

ANCHOR_TASK = {"key": "key", "memory": "memory_anchor", "reasoning": "reasoning_anchor"}
"""The anchor task's groups: name in quantities -> token group of its Roles."""

Groups = Mapping[str, Int[np.ndarray, " n"]]
"""Name -> token ids. Names become part of the quantities' names; arrays number the groups in this order from 0."""


def token_groups(groups: Mapping | None, roles: Roles, probe: str) -> dict[str, Int[np.ndarray, " n"]]:
    """The groups that a probe compares, by the name that its quantities have.

    Args:
        groups: name -> token ids. By default the anchor task's three, where the roles have anchors, and otherwise
            every group of the roles under its own name.

    Raises RolesError where there is no group at all, or where the roles have only one kind of anchor.

    >>> list(token_groups(None, Roles(tokens={"hour": np.arange(3), "place": np.arange(3, 5)}), "geometry"))
    ['hour', 'place']
    """
    if groups is None and any(name in roles.tokens for name in ("memory_anchor", "reasoning_anchor")):
        groups = {name: roles.group(group, probe) for name, group in ANCHOR_TASK.items()}
    named = roles.tokens if groups is None else groups
    if not named:
        raise RolesError(
            f"{probe} needs groups of tokens and got none; pass groups={{name: token ids}} or name them in Roles."
        )
    order = ANCHOR_TASK if set(named) == set(ANCHOR_TASK) else named
    return {name: np.asarray(named[name], dtype=np.int64).reshape(-1) for name in order}


def numbered(groups: Groups) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " token"]]:
    """Token ids of all groups, one group after another, and the number of each token's group.

    >>> numbered({"hour": np.array([7, 8]), "place": np.array([3])})[1].tolist()
    [0, 0, 1]
    """
    sizes = [len(ids) for ids in groups.values()]
    return np.concatenate(list(groups.values())), np.repeat(np.arange(len(groups)), sizes)
