"""Pairs that repeat: the task of induction heads.

See Olsson et al. 2022, "In-context Learning and Induction Heads". A row is a block of different
tokens, drawn at random, then pairs of neighbours taken from it, and the first token of one more
pair:

    a b c d e f   d e   a b   c        the answer is d, which followed c in the block

The *previous-token head* of an early layer writes at each position of the block which token stands
before it. The *induction head* of a later one looks from the query for the position before which
the query's token stood, and copies what stands there.
"""

from types import MappingProxyType
from typing import Annotated

import numpy as np
from pydantic import Field

from rb_interp.arguments import checked
from rb_interp.errors import TaskError
from rb_interp.tasks.dataset import Dataset, TaskSettings
from rb_interp.tasks.inputs import Inputs, Roles

SETS = ("seen", "unseen")


class InductionTask(TaskSettings):
    """A block of random tokens, pairs of neighbours from it, and one query.

    Roles: ``query``, the last position; ``first``, where its token stands in the block; ``second``,
    the position after it, where the answer stands; ``other``, the rest of the block. The one group
    of tokens is ``token``, all of them.

    Raises TaskError for settings out of their bounds, and for a block with more tokens than there
    are.

    >>> task = InductionTask()
    >>> rows = task.inputs(2)
    >>> rows.tokens.shape, bool((rows.labels == rows.tokens[[0, 1], rows.roles.position("second")[:, 0]]).all())
    ((2, 23), True)
    """

    ERROR = TaskError
    sets = SETS
    train_sets = SETS[:1]
    predicts = "next"
    name = "the induction task"
    stages = MappingProxyType({})

    d_vocab: Annotated[int, Field(ge=3, le=1_000_000)] = 16
    """Number of tokens; no token is special."""
    block: Annotated[int, Field(ge=3, le=100_000)] = 8
    """Different tokens that begin a row."""
    pairs: Annotated[int, Field(ge=1, le=100_000)] = 8
    """Pairs of neighbours that follow, the last of which is cut to its first token."""
    n_sequences: Annotated[int, Field(ge=10, le=100_000_000)] = 8000
    """Rows of the set ``seen``, which is trained on; a tenth as many are ``unseen``."""

    def __post_init__(self) -> None:
        if self.block > self.d_vocab:
            raise TaskError(
                f"block={self.block} of d_vocab={self.d_vocab} tokens; its tokens differ, so give "
                f"fewer."
            )

    @property
    def length(self) -> int:
        """Positions of a row."""
        return self.block + 2 * self.pairs - 1

    @checked
    def dataset(self, seed: int) -> Dataset:
        """Rows to train on and held-out rows; their targets are the answers of all pairs alone."""
        n = self.n_sequences + self.n_sequences // 10
        tokens, first = self._rows(n, np.random.default_rng([seed, 0]))
        seen, unseen = np.split(tokens, [self.n_sequences])
        if not {*map(bytes, seen)}.isdisjoint(map(bytes, unseen)):
            raise TaskError(
                f"so few rows are possible that held-out ones are trained on; give more than "
                f"d_vocab={self.d_vocab}, block={self.block} or pairs={self.pairs}."
            )
        labels = np.full(tokens.shape, -1)
        labels[:, self.block :: 2] = np.take_along_axis(tokens, first + 1, 1)
        set = (np.arange(n) >= self.n_sequences).astype(np.int64)
        roles = self._roles(first[:, -1:])
        return Dataset(
            seed, tokens, labels, set, SETS, SETS[:1], roles.positions, roles.tokens, self.name
        )

    @checked
    def inputs(self, n: int, seed: int = 0) -> Inputs:
        """``n`` fresh rows with the answer of each row's query, for probes and interventions."""
        tokens, first = self._rows(n, np.random.default_rng([seed, 1]))
        answers = np.take_along_axis(tokens, first[:, -1:] + 1, 1)[:, 0]
        return Inputs(tokens, answers, self._roles(first[:, -1:]))

    def _rows(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Tokens, and the position in the block at which each pair begins ``[row, pair]``."""
        block = rng.permuted(np.tile(np.arange(self.d_vocab), (n, 1)), axis=1)[:, : self.block]
        first = rng.integers(0, self.block - 1, (n, self.pairs))
        positions = first[:, :, None] + np.arange(2)
        pairs = np.take_along_axis(block, positions.reshape(n, -1), 1)
        return np.concatenate([block, pairs[:, :-1]], 1), first

    def _roles(self, first: np.ndarray) -> Roles:
        """Roles of rows whose query's token stands at ``first`` ``[row, 1]`` in the block."""
        positions = np.tile(np.arange(self.block), (len(first), 1))
        is_other = (positions != first) & (positions != first + 1)
        other = positions[is_other].reshape(len(first), self.block - 2)
        query = np.full_like(first, self.length - 1)
        roles = {"first": first, "second": first + 1, "query": query, "other": other}
        return Roles(roles, {"token": np.arange(self.d_vocab)}, task=self.name)
