"""Roles: what every position of every row is there for, and which tokens form a group.

A role is the only thing that a probe knows about a task, so any model on any task can be probed
once somebody says where its key, its anchors and its noise stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int

from rb_interp.errors import RolesError
from rb_interp.record import Record
from rb_interp.typed import as_array, typed


@dataclass(frozen=True, eq=False, repr=False)
class Roles(Record):
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
        positions = {name: whole_numbers(name, at) for name, at in self.positions.items()}
        for name, at in positions.items():
            if at.ndim != 2:
                raise RolesError(
                    f"role '{name}' has positions of shape {list(at.shape)}; expected [row, n], "
                    f"one row for each sequence. A single position per row is at[:, None]."
                )
        counts = {name: len(at) for name, at in positions.items()}
        if self.set is not None:
            object.__setattr__(self, "set", as_array(self.set).reshape(-1))
            counts["set"] = len(self.set)
        if len(set(counts.values())) > 1:
            raise RolesError(f"roles disagree on the number of rows: {counts}; give each role one row per sequence.")
        object.__setattr__(self, "positions", positions)
        groups = {name: whole_numbers(name, ids).reshape(-1) for name, ids in self.tokens.items()}
        object.__setattr__(self, "tokens", groups)

    def __len__(self) -> int:
        """Number of rows."""
        first = next(iter(self.positions.values()), self.set)
        return 0 if first is None else len(first)

    @typed
    def position(self, role: str, probe: str = "this probe") -> Int[np.ndarray, "row n"]:
        """Positions of a role, shape ``[row, n]``.

        Raises:
            RolesError: where it is missing; the message has the name of the probe that asks, and what there is.
        """
        if role not in self.positions:
            raise _missing(probe, "role", role, self.positions, self.task)
        return self.positions[role]

    @typed
    def group(self, name: str, probe: str = "this probe") -> Int[np.ndarray, " n"]:
        """Token ids of a group, shape ``[n]``.

        Raises:
            RolesError: where it is missing; the message has the name of the probe that asks, and what there is.
        """
        if name not in self.tokens:
            raise _missing(probe, "token group", name, self.tokens, self.task)
        return self.tokens[name]

    @typed
    def take(self, rows: np.ndarray) -> Roles:
        """The same roles for a selection of rows (indices or a boolean mask); RolesError where they do not fit."""
        rows = selected(rows, len(self)) if self.positions or self.set is not None else rows
        names = None if self.set is None else self.set[rows]
        return Roles({name: at[rows] for name, at in self.positions.items()}, self.tokens, names, self.task)


def selected(rows: np.ndarray, n: int) -> np.ndarray:
    """Indices or a mask that select among n rows; RolesError where they are neither, or reach beyond."""
    if rows.ndim != 1 or (rows.dtype.kind not in "iub" and rows.size):
        raise RolesError(
            f"got rows of shape {list(rows.shape)} and type {rows.dtype}; expected row numbers or a mask, [n]."
        )
    if rows.dtype.kind == "b" and len(rows) != n:
        raise RolesError(f"got a mask of {len(rows)} for {n} rows; give one entry for each row.")
    if rows.dtype.kind != "b" and rows.size and not -n <= rows.min() <= rows.max() < n:
        raise RolesError(f"got rows {rows.min()} to {rows.max()}; there are rows 0 to {n - 1}.")
    return rows if rows.size else rows.astype(np.int64)


def whole_numbers(name: str, value: Any) -> Int[np.ndarray, ...]:
    """Whole numbers as int64; RolesError for anything else."""
    found = as_array(value)
    whole = found.dtype.kind in "iub" or (found.dtype.kind == "f" and bool((found == np.round(found)).all()))
    if not whole and found.size:
        raise RolesError(f"'{name}' holds values of type {found.dtype}; expected whole numbers.")
    return found.astype(np.int64)


def _missing(probe: str, what: str, name: str, known: Mapping, task: str) -> RolesError:
    return RolesError(
        f"{probe} needs the {what} '{name}'; {task} provides {{{', '.join(sorted(known))}}}. "
        f"Add it to the Roles that you pass."
    )
