"""Rows of tokens with their right answers, and roles: what every position is there for, which
tokens form a group.

A role is the only thing that a probe or an intervention knows about a task, so any model on any
task can be probed once somebody says where its key, its anchors and its noise stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.arguments import as_array, checked
from rb_interp.errors import RolesError, first_line, nearest, shown
from rb_interp.table_repr import TableRepr

if TYPE_CHECKING:
    import pandas as pd

REST = "rest"
"""The positions that no role names are a role of this name, where no other has it."""
SHOWN_ROWS, SHOWN_TOKENS = 5, 30
"""What a notebook shows of some rows, at most."""


@dataclass(frozen=True, eq=False, repr=False)
class Roles(TableRepr):
    """Positions and token groups by role name.

    Attributes:
        positions: role -> positions, shape ``[row, n]`` (n may differ between roles, not between
            rows). ``[row]`` is one position a row; a mask of booleans ``[row, pos]`` gives the
            positions where it is True.
        tokens: group -> token ids, shape ``[n]``, or a mask over the vocabulary.
        set: name of the set of each row, shape ``[row]``, or None where there are no sets.
        task: the name that error messages use.

    >>> roles = Roles({"key": np.array([[0], [2]]), "anchor": np.array([[1], [3]])}, {"key": np.array([5, 6])})
    >>> roles.position("anchor").tolist()
    [[1], [3]]
    >>> Roles({"io": np.array([[5, 9, 5], [9, 5, 5]]) == 9}).position("io").tolist()
    [[1], [0]]

    Raises RolesError for a mask with more positions in one row than in another, and for roles of
    unlike rows.
    """

    positions: Mapping[str, np.ndarray] = field(default_factory=dict)
    tokens: Mapping[str, np.ndarray] = field(default_factory=dict)
    set: np.ndarray | None = None
    task: str = "this task"

    def __post_init__(self) -> None:
        positions = {name: places(name, at) for name, at in self.positions.items()}
        counts = {name: len(at) for name, at in positions.items()}
        if self.set is not None:
            object.__setattr__(self, "set", as_array(self.set).reshape(-1))
            counts["set"] = len(self.set)
        if len(set(counts.values())) > 1:
            raise RolesError(
                f"roles disagree on the number of rows: {counts}; give each role one row per "
                f"sequence."
            )
        object.__setattr__(self, "positions", positions)
        groups = {name: _token_ids(name, ids) for name, ids in self.tokens.items()}
        object.__setattr__(self, "tokens", groups)

    def __len__(self) -> int:
        """Number of rows."""
        first = next(iter(self.positions.values()), self.set)
        return 0 if first is None else len(first)

    @checked
    def position(self, role: str, probe: str = "this probe") -> Int[np.ndarray, "row n"]:
        """Positions of a role, shape ``[row, n]``; RolesError, with the name of the probe that
        asks, without it."""
        return _named(self.positions, role, f"{probe} needs the role", self.task)

    @checked
    def group(self, name: str, probe: str = "this probe") -> Int[np.ndarray, " n"]:
        """Token ids of a group, shape ``[n]``; RolesError, with the name of the probe that asks,
        without it."""
        return _named(self.tokens, name, f"{probe} needs the token group", self.task)

    def rest(self, length: int) -> Bool[np.ndarray, "row pos"]:
        """Which positions of rows of this length no role names."""
        free = np.ones((len(self), length), dtype=bool)
        for at in self.positions.values():
            free &= (at[:, :, None] != np.arange(length)).all(1)
        return free

    def without_a_role(self, length: int) -> str:
        """How many positions of a row no role names, in words; empty where each has one.

        >>> Roles({"key": np.array([[0], [2]])}).without_a_role(3)
        "positions without a role: 2 of 3; the role 'rest' names them."
        """
        counts = np.unique(self.rest(length).sum(1)).tolist()
        if not any(counts):
            return ""
        told = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        return f"positions without a role: {told} of {length}; the role '{REST}' names them."

    @checked
    def take(self, rows: np.ndarray) -> Roles:
        """The same roles for a selection of rows (indices or a boolean mask); RolesError where they
        do not fit."""
        rows = selected(rows, len(self)) if self.positions or self.set is not None else rows
        names = None if self.set is None else self.set[rows]
        return Roles(
            {name: at[rows] for name, at in self.positions.items()}, self.tokens, names, self.task
        )


def rest_positions(roles: Roles, length: int) -> Int[np.ndarray, "row n"]:
    """Positions that no role names; RolesError where there is none, or where rows have different
    numbers of them."""
    free = roles.rest(length)
    counts = free.sum(1)
    if not len(counts) or not counts[0] or (counts != counts[0]).any():
        raise RolesError(
            f"the role '{REST}' has {counts.min(initial=length)} to {counts.max(initial=0)} "
            f"positions in a row; "
            f"expected as many in every row, and one at least. Give roles to other positions."
        )
    return free.nonzero()[1].reshape(len(free), -1)


def _named(known: Mapping[str, np.ndarray], name: str, needs: str, task: str) -> np.ndarray:
    if name not in known:
        near = nearest(name, known)
        advice = f"; {near} If not, add" if near.startswith("did") else ". Add"
        raise RolesError(
            f"{needs} '{name}'; {task} provides {{{', '.join(sorted(known))}}}{advice} it to the "
            f"Roles that you pass."
        )
    return known[name]


def places(name: str, given: Any) -> Int[np.ndarray, "row n"]:
    """Positions of a role, each once, from ``[row, n]``, from ``[row]``, or from a mask of booleans
    ``[row, pos]``."""
    at = as_array(given)
    if at.dtype != bool and at.ndim in (1, 2):
        at = _whole_numbers(name, at).reshape(len(at), -1 if at.size else at.shape[-1])
        if (np.diff(np.sort(at), axis=1) == 0).any():
            raise RolesError(
                f"role '{name}' holds a position twice in a row; a mask is of booleans: "
                f".astype(bool)."
            )
        return at
    if at.ndim != 2:
        kind = "a mask" if at.dtype == bool else "positions"
        shape = list(at.shape)
        raise RolesError(
            f"role '{name}' has {kind} of shape {shape}; expected [row, n], or a mask [row, pos]."
        )
    counts = np.unique(at.sum(1))
    if len(counts) > 1:
        raise RolesError(
            f"role '{name}' is a mask of {counts[0]} to {counts[-1]} positions a row; expected as "
            f"many in each row. "
            f"Leave out rows, or give each a number of positions, [row, n]."
        )
    return (
        np.nonzero(at)[1].reshape(len(at), *counts) if len(at) else np.zeros((0, 0), dtype=np.int64)
    )


def _token_ids(name: str, given: Any) -> Int[np.ndarray, " n"]:
    """Token ids of a group, from a list of them or a mask over the vocabulary."""
    ids = as_array(given)
    if ids.dtype != bool:
        if len(np.unique(ids)) < ids.size:
            raise RolesError(
                f"'{name}' has a token twice; give each once, or a mask [d_vocab] of True and "
                f"False."
            )
        return _whole_numbers(name, ids).reshape(-1)
    if ids.ndim != 1:
        raise RolesError(
            f"'{name}' is a mask of shape {list(ids.shape)}; expected token ids, or a mask "
            f"[d_vocab]."
        )
    return np.flatnonzero(ids)


def _whole_numbers(name: str, value: Any) -> Int[np.ndarray, ...]:
    array = as_array(value)
    whole = array.dtype.kind in "iu" or (
        array.dtype.kind == "f" and bool((array == np.round(array)).all())
    )
    if not whole and array.size:
        raise RolesError(f"'{name}' holds values of type {array.dtype}; expected whole numbers.")
    return array.astype(np.int64, copy=False)


def selected(rows: np.ndarray, n: int) -> Int[np.ndarray, " chosen"]:
    """Numbers of the rows that indices or a mask select among n; RolesError for anything else."""
    try:
        chosen = np.arange(n)[rows if rows.size else rows.astype(np.int64)]
    except IndexError as error:
        raise RolesError(f"got rows with {first_line(error)}; there are {n} rows.") from None
    if chosen.ndim != 1:
        raise RolesError(
            f"got rows of shape {list(rows.shape)}; expected row numbers or a mask, [n]."
        )
    return chosen


@dataclass(frozen=True, eq=False, repr=False)
class Inputs(TableRepr):
    """Rows of a task, or any rows of tokens; lists and torch tensors become arrays.

    Attributes:
        tokens: integers ``[row, pos]``.
        labels: ``[row]``, the right answer at the last position. None where nothing asks for
            answers.
        roles: what the positions are for, and which tokens form a group. Empty by default, and
            where None is given.

    Raises RolesError for tokens that are no rows of whole numbers, and for more or fewer labels
    than rows.

    >>> rows = Inputs(np.array([[5, 6], [7, 8]]), np.array([1, 2]))
    >>> len(rows), rows.take(np.array([1])).tokens.tolist()
    (2, [[7, 8]])
    """

    tokens: np.ndarray
    labels: np.ndarray | None = None
    roles: Roles = field(default_factory=Roles)

    def __post_init__(self) -> None:
        if self.roles is None:
            object.__setattr__(self, "roles", Roles())
        if not isinstance(self.roles, Roles):
            raise RolesError(
                f"Inputs got roles={shown(self.roles)}; expected Roles(positions, tokens), or None."
            )
        tokens = np.asarray(as_array(self.tokens), order="C")
        if tokens.ndim == 0 or (
            (tokens.ndim != 2 or tokens.dtype.kind not in "iu") and tokens.size
        ):
            told = f"got tokens of type {tokens.dtype} and shape {list(tokens.shape)}"
            raise RolesError(f"{told}; expected whole numbers of shape [row, pos].")
        object.__setattr__(self, "tokens", tokens)
        if self.labels is not None:
            object.__setattr__(self, "labels", as_array(self.labels))
            if self.labels.shape[:1] != (len(tokens),):
                n = self.labels.size
                raise RolesError(
                    f"got {len(tokens)} rows of tokens and {n} labels; expected one for each row."
                )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.tokens)

    @checked
    def take(self, rows: np.ndarray) -> Inputs:
        """A selection of rows, by indices or a boolean mask; RolesError where there are no such
        rows."""
        rows = selected(rows, len(self))
        labels = None if self.labels is None else self.labels[rows]
        return Inputs(self.tokens[rows], labels, self.roles.take(rows))

    @checked
    def with_tokens_of(self, other: Inputs, role: str) -> Inputs:
        """The same rows, answers and roles with another's tokens at the positions that a role has
        here.

        Raises RolesError for a role that is not there, and where the other rows are not as many or
        as long.

        >>> roles = Roles({"noise": [[0], [2]]})
        >>> rows, other = Inputs([[1, 2, 3], [4, 5, 6]], [7, 8], roles), Inputs([[0, 0, 0], [9, 9, 9]])
        >>> rows.with_tokens_of(other, "noise").tokens.tolist()
        [[0, 2, 3], [4, 5, 9]]
        """
        at = self.roles.position(role, "with_tokens_of")
        if at.min(initial=0) < 0:
            raise RolesError(
                f"with_tokens_of got rows without the role '{role}' (position -1); leave them out."
            )
        if self.tokens.shape != other.tokens.shape:
            raise RolesError(
                f"with_tokens_of got tokens of shape {list(other.tokens.shape)} for rows of shape "
                f"{list(self.tokens.shape)}; give as many rows of one length."
            )
        tokens = self.tokens.copy()
        np.put_along_axis(tokens, at, np.take_along_axis(other.tokens, at, 1), 1)
        return Inputs(tokens, self.labels, self.roles)

    def table_view(self) -> tuple[str, pd.DataFrame, list[str]]:
        """The first rows: each token with its roles behind it, and the right answer."""
        import pandas as pd

        rows = np.atleast_2d(self.tokens)[:SHOWN_ROWS, :SHOWN_TOKENS]
        places = [(role, at) for role, at in self.roles.positions.items() if len(at) >= len(rows)]
        sizes = " x ".join(map(str, self.tokens.shape))
        caption = f"{type(self).__name__}: {sizes} tokens of {self.roles.task}; the first {len(rows)} rows"

        def cell(row: int, pos: int) -> str:
            return " ".join([str(rows[row, pos]), *(role for role, at in places if pos in at[row])])

        table = pd.DataFrame(
            [[cell(row, pos) for pos in range(rows.shape[1])] for row in range(len(rows))]
        )
        return (
            caption,
            table if self.labels is None else table.assign(label=list(self.labels[:SHOWN_ROWS])),
            [],
        )
