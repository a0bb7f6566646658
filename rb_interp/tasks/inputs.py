"""Rows of tokens with their right answers and the roles of their positions: what probes and interventions are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rb_interp.errors import RolesError, shown
from rb_interp.record import Record
from rb_interp.tasks.roles import Roles, selected
from rb_interp.typed import as_array, typed

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS, SHOWN_TOKENS = 5, 30
"""What a notebook shows of some rows, at most."""


@dataclass(frozen=True, eq=False, repr=False)
class Inputs(Record):
    """Rows of a task, or any rows of tokens; lists and torch tensors become arrays.

    Attributes:
        tokens: integers ``[row, pos]``.
        labels: ``[row]``, the right answer at the last position. None where nothing asks for answers.
        roles: what the positions are for, and which tokens form a group. Empty by default, and where None is given.

    Raises RolesError for a single token or label in place of rows of them, for tokens that are no whole numbers, and
    for more or fewer labels than rows.

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
            raise RolesError(f"Inputs got roles={shown(self.roles)}; expected Roles(positions, tokens), or None.")
        object.__setattr__(self, "tokens", np.asarray(as_array(self.tokens), order="C"))
        if self.tokens.ndim == 0:
            raise RolesError(f"got tokens={self.tokens}; expected whole numbers of shape [row, pos].")
        if self.tokens.dtype.kind not in "iu" and self.tokens.size:
            raise RolesError(f"got tokens of type {self.tokens.dtype}; expected whole numbers of shape [row, pos].")
        if self.labels is not None:
            object.__setattr__(self, "labels", as_array(self.labels))
            if self.labels.ndim == 0:
                raise RolesError(f"got labels={self.labels}; expected one for each row.")
            if len(self.labels) != len(self.tokens):
                raise RolesError(
                    f"got {len(self.tokens)} rows of tokens and {len(self.labels)} labels; expected one for each row."
                )

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.tokens)

    @typed
    def take(self, rows: np.ndarray) -> Inputs:
        """A selection of rows, by indices or a boolean mask; RolesError where there are no such rows."""
        rows = selected(rows, len(self))
        labels = None if self.labels is None else self.labels[rows]
        return Inputs(self.tokens[rows], labels, self.roles.take(rows))

    @typed
    def with_tokens_of(self, other: Inputs, role: str) -> Inputs:
        """The same rows, answers and roles with another's tokens at the positions that a role has here.

        The control of a patch, for instance: corrupted rows with the noise of others.

        Raises RolesError for a role that is not there, and where the other rows are not as many or as long.

        >>> roles = Roles({"noise": [[0], [2]]})
        >>> rows, other = Inputs([[1, 2, 3], [4, 5, 6]], [7, 8], roles), Inputs([[0, 0, 0], [9, 9, 9]])
        >>> rows.with_tokens_of(other, "noise").tokens.tolist()
        [[0, 2, 3], [4, 5, 9]]
        """
        at = self.roles.position(role, "with_tokens_of")
        if self.tokens.shape != other.tokens.shape:
            raise RolesError(
                f"with_tokens_of got tokens of shape {list(other.tokens.shape)} for rows of shape "
                f"{list(self.tokens.shape)}; give as many rows of one length."
            )
        tokens = self.tokens.copy()
        np.put_along_axis(tokens, at, np.take_along_axis(other.tokens, at, 1), 1)
        return Inputs(tokens, self.labels, self.roles)

    def shown(self) -> tuple[str, pd.DataFrame, list[str]]:
        """The first rows: each token with its roles behind it, and the right answer."""
        import pandas as pd

        rows = np.atleast_2d(self.tokens)[:SHOWN_ROWS, :SHOWN_TOKENS]
        places = [(role, at) for role, at in self.roles.positions.items() if len(at) >= len(rows)]
        sizes = " x ".join(map(str, self.tokens.shape))
        caption = f"{type(self).__name__}: {sizes} tokens of {self.roles.task}; the first {len(rows)} rows"
        cells = [
            [" ".join([str(token), *(role for role, at in places if pos in at[row])]) for pos, token in enumerate(some)]
            for row, some in enumerate(rows)
        ]
        table = pd.DataFrame(cells)
        return caption, table if self.labels is None else table.assign(label=list(self.labels[:SHOWN_ROWS])), []
