"""Rows of tokens with their right answers, and the roles of positions and tokens.

A role is the only thing that a probe or an intervention knows about a task, so any model on any
task can be probed once somebody names the positions of its key, its anchors and its noise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Int

from rb_interp.arguments import as_array, checked
from rb_interp.errors import RolesError, describe, first_line, nearest
from rb_interp.table_repr import TableRepr
from rb_interp.tasks.prompts import RoleWords, prompt_rows

if TYPE_CHECKING:
    import pandas as pd

RowNumbers: TypeAlias = Sequence[int] | Int[np.ndarray, " n"]
"""Numbers of rows of a dataset."""
REST = "rest"
"""The role of all positions that no other role names, unless a task has a role of this name."""
NO_POSITION = "role '{}' has no position in these rows; give it one or more in each row."
VIEW_ROWS, VIEW_TOKENS = 3, 30
"""Rows and tokens that a notebook shows, at most."""


@dataclass(frozen=True, eq=False, repr=False)
class Roles(TableRepr):
    """Positions and token groups by role name.

    Attributes:
        positions: role -> positions, shape ``[row, n]`` (n may differ between roles, not between
            rows). ``[row]`` is one position a row; a mask of booleans ``[row, pos]`` gives the
            positions where it is True.
        tokens: group -> token ids, shape ``[n]``, or a mask over the vocabulary.
        set: name of the set of each row, shape ``[row]``, or None without sets.
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
        positions = {role: as_positions(role, values) for role, values in self.positions.items()}
        counts = {role: len(rows) for role, rows in positions.items()}
        if self.set is not None:
            object.__setattr__(self, "set", as_array(self.set).reshape(-1))
            counts["set"] = len(self.set)
        if len(set(counts.values())) > 1:
            raise RolesError(
                f"roles disagree on the number of rows: {counts}; give each role one row per "
                f"sequence."
            )
        groups = {name: _token_ids(name, ids) for name, ids in self.tokens.items()}
        object.__setattr__(self, "positions", positions)
        object.__setattr__(self, "tokens", groups)

    def __len__(self) -> int:
        """Number of rows."""
        first = next(iter(self.positions.values()), self.set)
        return 0 if first is None else len(first)

    @checked
    def position(self, role: str, probe: str = "this probe") -> Int[np.ndarray, "row n"]:
        """Positions of a role, shape ``[row, n]``.

        Raises RolesError, with the name of the probe, if there is no such role.
        """
        return _entry(self.positions, role, f"{probe} needs the role", self.task)

    @checked
    def group(self, name: str, probe: str = "this probe") -> Int[np.ndarray, " n"]:
        """Token ids of a group, shape ``[n]``.

        Raises RolesError, with the name of the probe, if there is no such group.
        """
        return _entry(self.tokens, name, f"{probe} needs the token group", self.task)

    def rest(self, shape: tuple[int, ...]) -> Bool[np.ndarray, "row pos"]:
        """Whether no role names a position, of rows of a shape ``(row, pos)``."""
        free = np.ones(shape, bool)
        for positions in self.positions.values():
            free &= (positions[:, :, None] != np.arange(shape[1])).all(1)
        return free

    def without_a_role(self, length: int) -> str:
        """Say how many positions of a row no role names; an empty text if there are none.

        >>> Roles({"key": np.array([[0], [2]])}).without_a_role(3)
        "positions without a role: 2 of 3; the role 'rest' names them."
        """
        counts = np.unique(self.rest((len(self), length)).sum(1)).tolist()
        if not any(counts):
            return ""
        span = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return f"positions without a role: {span} of {length}; the role '{REST}' names them."

    @checked
    def take(self, rows: Sequence[Any] | np.ndarray) -> Roles:
        """The same roles for a selection of rows, by numbers or a boolean mask.

        Raises RolesError if there are no such rows.
        """
        if not self.positions and self.set is None:
            return self
        numbers = selected(rows, len(self))
        positions = {role: positions[numbers] for role, positions in self.positions.items()}
        set = None if self.set is None else self.set[numbers]
        return Roles(positions, self.tokens, set, self.task)


def role_positions(
    roles: Roles, role: str, shape: tuple[int, ...], caller: str
) -> Int[np.ndarray, "row n"]:
    """Positions of a role in rows of a shape ``(row, pos)``: one of the roles, or a built-in one.

    Built in are ``last``, ``all``, ``rest``, a position such as ``5``, and with a role ``anchor``
    also ``first_anchor``, ``last_anchor``, ``anchor_1``, ... Raises RolesError, with the name of
    the caller, if there is no such role, if it is of other rows, and if ``rest`` has not as many
    positions in every row.
    """
    n_rows, length = shape
    known = {
        "last": np.full((n_rows, 1), length - 1),
        "all": np.tile(np.arange(length), (n_rows, 1)),
    }
    anchors = roles.positions.get("anchor", np.empty((0, 0)))
    if anchors.shape[1]:
        known |= {f"anchor_{i + 1}": anchors[:, i, None] for i in range(anchors.shape[1])}
        known |= {"first_anchor": anchors[:, :1], "last_anchor": anchors[:, -1:]}
    known |= roles.positions  # a caller's 'last' is his
    if role.isdecimal() and role not in known:
        known[role] = np.full((n_rows, 1), int(role))
    if role == REST and REST not in known:
        free = roles.rest(shape)
        counts = free.sum(1)
        if not len(counts) or not counts[0] or (counts != counts[0]).any():
            raise RolesError(
                f"the role '{REST}' has {counts.min(initial=shape[1])} to {counts.max(initial=0)} "
                f"positions in a row; expected as many in every row, and one at least."
            )
        known[REST] = free.nonzero()[1].reshape(len(free), -1)
    if role not in known:
        raise RolesError(
            f"{caller} needs the role '{role}'; {roles.task} has no such role (add it to Roles): "
            f"{nearest(role, [*known, REST])}"
        )
    check_positions(role, known[role], shape)
    return known[role]


def check_positions(
    role: str, positions: Int[np.ndarray, "row n"], shape: tuple[int, ...], missing: int = 0
) -> None:
    """Raise RolesError for positions that rows of a shape ``(row, pos)`` do not have; from
    ``missing`` up they are allowed."""
    n_rows, length = shape
    in_range = not positions.size or missing <= positions.min() <= positions.max() < length
    if len(positions) != n_rows or not in_range:
        raise RolesError(
            f"role '{role}' has {len(positions)} rows, at positions "
            f"{np.unique(positions).tolist()}; "
            f"there are {n_rows} rows with the positions 0 to {length - 1}. Pass roles of theirs."
        )


def other_positions(roles: Mapping[str, np.ndarray], length: int) -> Int[np.ndarray, "row n"]:
    """The positions of each row that have no role, in order; every row has as many.

    >>> other_positions({"key": np.array([[0], [1]])}, length=3).tolist()
    [[1, 2], [0, 2]]
    """
    role_columns = np.concatenate(list(roles.values()), axis=1)
    free = np.ones((len(role_columns), length), bool)
    np.put_along_axis(free, role_columns, False, 1)
    return np.nonzero(free)[1].reshape(len(role_columns), length - role_columns.shape[1])


def _entry(known: Mapping[str, np.ndarray], name: str, needs: str, task: str) -> np.ndarray:
    if name not in known:
        near = nearest(name, known)
        advice = f"; {near} If not, add" if near.startswith("did") else ". Add"
        raise RolesError(
            f"{needs} '{name}'; {task} provides {{{', '.join(sorted(known))}}}{advice} it to the "
            f"Roles that you pass."
        )
    return known[name]


def as_positions(role: str, values: Any) -> Int[np.ndarray, "row n"]:
    """Positions of a role, each once, from ``[row, n]``, ``[row]`` or a boolean mask ``[row, pos]``."""
    array = as_array(values)
    if array.dtype != bool and array.ndim in (1, 2):
        n = -1 if array.size else array.shape[-1]
        positions = _whole_numbers(role, array).reshape(len(array), n)
        if (np.diff(np.sort(positions), axis=1) == 0).any():
            raise RolesError(
                f"role '{role}' holds a position twice in a row; a mask is of booleans."
            )
        return positions
    if array.ndim != 2:
        kind = "a mask" if array.dtype == bool else "positions"
        raise RolesError(
            f"role '{role}' has {kind} of shape {list(array.shape)}; expected [row, n], or a mask "
            f"[row, pos]."
        )
    counts = np.unique(array.sum(1))
    if len(counts) > 1:
        raise RolesError(
            f"role '{role}' is a mask of {counts[0]} to {counts[-1]} positions a row; expected as "
            f"many in each row. Leave out rows, or give each a number of positions, [row, n]."
        )
    if not len(array):
        return np.zeros((0, 0), dtype=np.int64)
    return np.nonzero(array)[1].reshape(len(array), *counts)


def _token_ids(name: str, values: Any) -> Int[np.ndarray, " n"]:
    """Token ids of a group, from a list of them or a mask over the vocabulary."""
    ids = as_array(values)
    if ids.dtype != bool:
        if len(np.unique(ids)) < ids.size:
            raise RolesError(f"'{name}' has a token twice; give each once, or a mask [d_vocab].")
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


def selected(rows: Sequence[Any] | np.ndarray, n: int) -> Int[np.ndarray, " chosen"]:
    """Numbers of the rows that numbers or a mask select among n; RolesError for anything else."""
    array = as_array(rows)
    if not array.size:
        array = array.astype(np.int64)
    try:
        numbers = np.arange(n)[array]
    except IndexError as error:
        raise RolesError(f"got rows with {first_line(error)}; there are {n} rows.") from None
    if numbers.ndim != 1:
        raise RolesError(
            f"got rows of shape {list(array.shape)}; expected row numbers or a mask, [n]."
        )
    return numbers


@dataclass(frozen=True, eq=False, repr=False)
class Inputs(TableRepr):
    """Rows of a task, or any rows of tokens; lists and torch tensors become arrays.

    Attributes:
        tokens: integers ``[row, pos]``.
        labels: ``[row]``, the right answer at the last position; None if no answer is asked.
        roles: of positions and tokens. Empty by default, and if None is given.
        vocabulary: token -> its text, where a person reads it; empty if nobody knows it.

    Raises RolesError for tokens that are no rows of whole numbers, for more or fewer labels than
    rows, and for roles of other rows (the position -1 is that of a row that lacks the role).

    >>> rows = Inputs(np.array([[5, 6], [7, 8]]), np.array([1, 2]))
    >>> len(rows), rows.take(np.array([1])).tokens.tolist()
    (2, [[7, 8]])
    """

    tokens: np.ndarray
    labels: np.ndarray | None = None
    roles: Roles = field(default_factory=Roles)
    vocabulary: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    @checked
    def from_text(
        cls,
        model: Any,
        prompts: Sequence[str],
        answers: Sequence[str] | None = None,
        roles: Mapping[str, RoleWords] | None = None,
        *,
        spans: Collection[str] = (),
    ) -> Inputs:
        """Rows of prompts in a model's own tokens, with its token in front and its padding.

        Args:
            model: has ``to_tokens`` and a fast ``tokenizer`` of transformers.
            prompts: texts, one a row.
            answers: what follows each prompt, one token, in most tokenizers with a space in front.
            roles: name -> a string of the prompt (its last token), or a position among its tokens
                (-1: the last one; padding does not count): for all rows, a list with one a row, or
                a function of the prompt. A list or a function may also give ``(begin, end)`` of
                characters, as ``re.search(...).span()``. ``last``, where answers are read, is the
                last token unless you name it.
            spans: a role, or several, that are all tokens of their string; every row has as many.

        Raises:
            RolesError: a string does not stand once in its prompt, or ends within a token.
            TextError: an answer is not one token behind its prompt, the model has no tokenizer,
                or a prompt is too long.

        ``rb.Inputs.from_text(model, ["Mary and John ... gave it to"], [" John"], {"giver": "Mary"})``
        """
        rows = prompt_rows(model, prompts, answers, roles or {}, spans)
        named = Roles(rows.positions, task="this text")
        return cls(rows.tokens, rows.labels, named, rows.vocabulary)

    def __post_init__(self) -> None:
        if self.roles is None:
            object.__setattr__(self, "roles", Roles())
        if not isinstance(self.roles, Roles):
            raise RolesError(
                f"Inputs got roles={describe(self.roles)}; expected Roles(positions, tokens), or None."
            )
        tokens = np.asarray(as_array(self.tokens), order="C")
        is_matrix = tokens.ndim == 2 and tokens.dtype.kind in "iu"
        if tokens.ndim == 0 or (tokens.size and not is_matrix):
            raise RolesError(
                f"got tokens of type {tokens.dtype} and shape {list(tokens.shape)}; expected whole "
                f"numbers of shape [row, pos]."
            )
        object.__setattr__(self, "tokens", tokens)
        for role, positions in self.roles.positions.items():
            check_positions(role, positions, (len(tokens), tokens.shape[-1]), missing=-1)
        if self.labels is not None:
            object.__setattr__(self, "labels", _whole_numbers("labels", self.labels))
            if self.labels.shape != (len(tokens),):
                shape = list(self.labels.shape)
                raise RolesError(
                    f"got {len(tokens)} rows of tokens and labels of shape {shape}; expected [row]."
                )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.tokens)

    @checked
    def take(self, rows: Sequence[Any] | np.ndarray) -> Inputs:
        """A selection of rows, by numbers or a boolean mask.

        Raises RolesError if there are no such rows.
        """
        numbers = selected(rows, len(self))
        labels = None if self.labels is None else self.labels[numbers]
        return Inputs(self.tokens[numbers], labels, self.roles.take(numbers), self.vocabulary)

    @checked
    def with_tokens_of(self, other: Inputs, role: str) -> Inputs:
        """The same rows, answers and roles with another's tokens at the positions of a role.

        Raises RolesError if there is no such role, and if the other rows are not as many or as
        long.

        >>> roles = Roles({"noise": [[0], [2]]})
        >>> rows, other = Inputs([[1, 2, 3], [4, 5, 6]], [7, 8], roles), Inputs([[0, 0, 0], [9, 9, 9]])
        >>> rows.with_tokens_of(other, "noise").tokens.tolist()
        [[0, 2, 3], [4, 5, 9]]
        """
        positions = self.roles.position(role, "with_tokens_of")
        if positions.min(initial=0) < 0:
            raise RolesError(
                f"with_tokens_of got rows without the role '{role}' (position -1); leave them out."
            )
        if self.tokens.shape != other.tokens.shape:
            raise RolesError(
                f"with_tokens_of got tokens of shape {list(other.tokens.shape)} for rows of shape "
                f"{list(self.tokens.shape)}; give as many rows of one length."
            )
        tokens = self.tokens.copy()
        np.put_along_axis(tokens, positions, np.take_along_axis(other.tokens, positions, 1), 1)
        return Inputs(tokens, self.labels, self.roles, {**self.vocabulary, **other.vocabulary})

    @checked
    def show(self, row: int = 0) -> None:
        """Print a row: each position with its token and roles; RolesError if there is none."""
        import pandas as pd

        (number,) = selected([row], len(self))
        tokens = map(self.text_of, self.tokens[number].tolist())
        table = pd.DataFrame({"token": tokens, "roles": ""})
        for role, positions in self.roles.positions.items():
            table.loc[table.index.isin(positions[number]), "roles"] += f" {role}"
        print(table.to_string(formatters={"token": repr}))
        if self.labels is not None:
            print("answer:", self.text_of(int(self.labels[number])))

    def text_of(self, token: int) -> str:
        """What a person reads of a token: its text, or its number."""
        return self.vocabulary.get(token, str(token))

    def shared_texts(self) -> list[str]:
        """The token at each position, or else a role that has it; empty where rows differ."""
        shared = (self.tokens == self.tokens[:1]).all(0)
        texts = np.where(shared, [*map(self.text_of, self.tokens[0].tolist())], "").tolist()
        for role, positions in self.roles.positions.items():
            for position in positions[0, (positions == positions[:1]).all(0)]:
                if position >= 0 and not texts[position]:
                    texts[position] = role
        return texts

    def table_view(self) -> tuple[str, pd.DataFrame, list[str]]:
        """The first rows: each token with its roles behind it, and the right answer."""
        import pandas as pd

        rows = np.atleast_2d(self.tokens)[:VIEW_ROWS, :VIEW_TOKENS]
        cells = np.array([[*map(self.text_of, row)] for row in rows.tolist()], dtype=object)
        for role, positions in self.roles.positions.items():
            for row, row_positions in zip(cells, positions, strict=False):
                for position in row_positions:
                    if 0 <= position < len(row):
                        row[position] += f" {role}"
        table = pd.DataFrame(cells)
        if self.labels is not None:
            labels = self.labels[:VIEW_ROWS].tolist()
            table["label"] = [self.vocabulary.get(x, x) for x in labels]
        sizes = " x ".join(map(str, self.tokens.shape))
        caption = f"{type(self).__name__}: {sizes} tokens of {self.roles.task}; the first {len(rows)} rows"
        return caption, table, []
