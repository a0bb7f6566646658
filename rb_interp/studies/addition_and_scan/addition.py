"""Addition with a block of operands held out (paper 2, Fig. 17a).

A row is ``a + b =``, four tokens, and its answer a + b is read at the last position. Every number
is one token, the integer itself; ``+`` and ``=`` are the two tokens above the largest answer. Every
ordered pair of operands is one row:

    block       both operands lie in the block; never trained
    seen_test   a share of the other pairs, drawn by the seed; not trained
    train       the rest

The pair (b, a) of a row (a, b) of seen_test may be trained. Of a row of the block it never is.
"""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from rb_interp.errors import TaskError
from rb_interp.settings import Share
from rb_interp.tasks.dataset import Dataset, TaskSettings

SETS = ("train", "seen_test", "block")
Operand = Annotated[int, Field(ge=0, le=4999)]


class AdditionTask(TaskSettings):
    """Settings of the addition task; ranges are inclusive.

    Raises TaskError if settings contradict each other.

    >>> task = AdditionTask()
    >>> data = task.dataset(seed=0)
    >>> [len(data.rows(name)) for name in task.sets], data.tokens[0].tolist(), int(data.labels[0])
    ([8603, 956, 441], [0, 199, 0, 200], 0)
    """

    sets = SETS
    train_sets = SETS[:1]
    predicts = "last"
    length = 4
    stages: ClassVar[dict] = {}
    PRESETS: ClassVar[dict] = {
        "smoke": {"operands": (0, 19), "block": (8, 12)},
        "quick": {},
        "paper": {"operands": (0, 999), "block": (400, 600)},
    }
    ERROR = TaskError

    operands: tuple[Operand, Operand] = (0, 99)
    """Range of both operands; every pair of them is a row."""
    block: tuple[Operand, Operand] = (40, 60)
    """A row is held out if both operands lie in this range."""
    test_share: Share = 0.1
    """Share of the pairs outside the block that is not trained on either."""

    def __post_init__(self) -> None:
        low, high = self.operands
        first, last = self.block
        if not low <= first <= last <= high:
            raise TaskError(
                f"operands=({low}, {high}), block=({first}, {last}); expected ascending ranges, "
                f"the block within the operands."
            )
        if self.counts[0] < 1:
            raise TaskError(
                f"block=({first}, {last}) with test_share={self.test_share:g} leaves no row to "
                f"train on; give a smaller block or a lower test_share."
            )

    @property
    def plus(self) -> int:
        """The token ``+``; ``=`` is the next one, and the last."""
        return 2 * self.operands[1] + 1

    @property
    def d_vocab(self) -> int:
        """Numbers up to the largest answer, and two signs."""
        return self.plus + 2

    @property
    def counts(self) -> tuple[int, int, int]:
        """Rows of each set."""
        n_operands = self.operands[1] - self.operands[0] + 1
        block = (self.block[1] - self.block[0] + 1) ** 2
        outside = n_operands**2 - block
        tested = round(self.test_share * outside)
        return outside - tested, tested, block

    def dataset(self, seed: int) -> Dataset:
        """Every pair once, by a and then b. The seed (stream 2) draws which pairs are seen_test."""
        numbers = np.arange(self.operands[0], self.operands[1] + 1)
        a = np.repeat(numbers, len(numbers))
        b = np.tile(numbers, len(numbers))
        low, high = self.block
        in_block = (low <= a) & (a <= high) & (low <= b) & (b <= high)
        order = np.random.default_rng([seed, 2]).permutation(np.flatnonzero(~in_block))
        set = np.where(in_block, SETS.index("block"), SETS.index("train"))
        set[order[: self.counts[1]]] = SETS.index("seen_test")
        plus = np.full_like(a, self.plus)
        tokens = np.stack([a, plus, b, plus + 1], 1)
        column = np.zeros((len(a), 1), dtype=np.int64)
        return Dataset(
            seed,
            tokens,
            a + b,
            set,
            SETS,
            SETS[:1],
            positions={"a": column, "b": column + 2, "last": column + 3},
            groups={"operand": numbers},
            name="the addition task",
        )
