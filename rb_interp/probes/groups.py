"""Groups of tokens: those that the caller names, or those of the inputs' roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from rb_interp.errors import RolesError, shown
from rb_interp.tasks.roles import Roles

Groups = Mapping[str, Int[np.ndarray, " n"]]
"""Name -> token ids. Names become part of the quantities' names; arrays number the groups in this order from 0."""


def token_groups(groups: Mapping | None, roles: Roles, probe: str) -> dict[str, Int[np.ndarray, " n"]]:
    """The groups that a probe compares, by the name that its quantities have.

    Args:
        groups: name -> token ids, or the name of a group of the roles. By default every group of the roles.

    Raises RolesError where there is no group at all, for a group that the roles do not have, and for token ids that
    are no whole numbers.

    >>> roles = Roles(tokens={"hour": np.arange(3), "place": np.arange(3, 5)})
    >>> list(token_groups(None, roles, "geometry")), list(token_groups({"where": "place"}, roles, "geometry"))
    (['hour', 'place'], ['where'])
    """
    named = roles.tokens if groups is None else groups
    if not named:
        raise RolesError(
            f"{probe} needs groups of tokens and got none; pass groups={{name: token ids}} or name them in Roles."
        )
    found = {name: roles.group(ids, probe) if isinstance(ids, str) else ids for name, ids in named.items()}
    return {name: _token_ids(name, ids, probe) for name, ids in found.items()}


def _token_ids(name: str, ids: Any, probe: str) -> Int[np.ndarray, " n"]:
    try:
        found = np.asarray(ids)
        if found.size == 0 or (found.dtype.kind in "iu" and found.max() < 2**63):
            return found.astype(np.int64).reshape(-1)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    raise RolesError(f"{probe} got the group {shown(name)} with {shown(ids)}; expected a list of token ids.")


def numbered(groups: Groups) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " token"]]:
    """Token ids of all groups, one group after another, and the number of each token's group.

    >>> numbered({"hour": np.array([7, 8]), "place": np.array([3])})[1].tolist()
    [0, 0, 1]
    """
    sizes = [len(ids) for ids in groups.values()]
    return np.concatenate(list(groups.values())), np.repeat(np.arange(len(groups)), sizes)
