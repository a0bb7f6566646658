"""Roles: what every position of every row is there for, and which tokens form a group.

A role is the only thing that a probe knows about a task, so any model on any task can be probed
once somebody says where its key, its anchors and its noise stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int

from rb_interp.errors import RolesError


@dataclass(frozen=True)
class Roles:
    """Positions and token groups by role name.

    Attributes:
        positions: role -> positions, shape ``[row, n]`` (n may differ between roles, not between rows).
            The anchor task has ``key`` (n = 1), ``anchor`` (n = q, in order) and ``noise`` (the rest).
        tokens: group -> token ids, shape ``[n]``. The anchor task has ``key``, ``memory_anchor``
            and ``reasoning_anchor``.
        set: name of the set of each row (the anchor task: ``mem``, ``rsn_train`` or ``rsn_test``), shape ``[row]``,
            or None where there are no sets.
        task: the name that error messages use.

    >>> roles = Roles({"key": np.array([[0], [2]]), "anchor": np.array([[1], [3]])}, {"key": np.array([5, 6])})
    >>> roles.position("anchor").tolist()
    [[1], [3]]
    """

    positions: Mapping[str, np.ndarray] = field(default_factory=dict)
    tokens: Mapping[str, np.ndarray] = field(default_factory=dict)
    set: np.ndarray | None = None
    task: str = "this task"

    def __post_init__(self) -> None:
        positions = {name: np.asarray(at, dtype=np.int64) for name, at in self.positions.items()}
        for name, at in positions.items():
            if at.ndim != 2:
                raise RolesError(
                    f"role '{name}' has positions of shape {list(at.shape)}; expected [row, n], "
                    f"one row for each sequence. A single position per row is at[:, None]."
                )
        counts = {name: len(at) for name, at in positions.items()}
        if self.set is not None:
            counts["set"] = len(self.set)
            object.__setattr__(self, "set", np.asarray(self.set))
        if len(set(counts.values())) > 1:
            raise RolesError(f"roles disagree on the number of rows: {counts}; give each role one row per sequence.")
        object.__setattr__(self, "positions", positions)
        groups = {name: np.asarray(ids, dtype=np.int64).reshape(-1) for name, ids in self.tokens.items()}
        object.__setattr__(self, "tokens", groups)

    def __len__(self) -> int:
        """Number of rows."""
        sizes = [len(at) for at in self.positions.values()]
        return sizes[0] if sizes else (0 if self.set is None else len(self.set))

    def position(self, role: str, probe: str = "this probe") -> Int[np.ndarray, "row n"]:
        """Positions of a role, shape ``[row, n]``.

        Raises:
            RolesError: where it is missing; the message has the name of the probe that asks, and what there is.
        """
        if role not in self.positions:
            raise _missing(probe, "role", role, self.positions, self.task)
        return self.positions[role]

    def group(self, name: str, probe: str = "this probe") -> Int[np.ndarray, " n"]:
        """Token ids of a group, shape ``[n]``.

        Raises:
            RolesError: where it is missing; the message has the name of the probe that asks, and what there is.
        """
        if name not in self.tokens:
            raise _missing(probe, "token group", name, self.tokens, self.task)
        return self.tokens[name]

    def take(self, rows: np.ndarray) -> Roles:
        """The same roles for a selection of rows (indices or a boolean mask)."""
        names = None if self.set is None else self.set[rows]
        return Roles({name: at[rows] for name, at in self.positions.items()}, self.tokens, names, self.task)


def _missing(probe: str, what: str, name: str, known: Mapping, task: str) -> RolesError:
    return RolesError(
        f"{probe} needs the {what} '{name}'; {task} provides {{{', '.join(sorted(known))}}}. "
        f"Add it to the Roles that you pass."
    )
