"""The sets of rows of a composite task, how a row is drawn, and the positions of its roles.

    train         trained pairs, training keys; trained on, in equal numbers for each pair
    seen_train    trained pairs, training keys, fresh rows that are not in train
    seen_test     trained pairs, test keys
    unseen        held-out pairs, half with training keys and half with test keys; labels are the
                  inferential answers

RowTokens of the last three sets are spread over pairs as evenly as their number allows.

The key's position is uniform over 0 to length - 3, the key uniform over the items of its kind
there, and noise over all items.

Roles of a row overlap at its end. ``last`` is always the last position. It is also ``a2`` where the
key stands at length - 3, and one of ``noise`` elsewhere. ``anchor`` is a1 and a2 in order; key,
anchor and noise fill the row.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt64

from rb_interp.errors import TaskError

SETS = ("train", "seen_train", "seen_test", "unseen")
TRAIN_SETS = SETS[:1]
TRIES = 100
"""Draws of rows before giving up on finding some that are not trained on."""

RowTokens = Int[np.ndarray, "row pos"]
AnchorPairs = Int[np.ndarray, "row 2"]
"""The anchors of each row."""
PerRow = Int[np.ndarray, " row"]
"""A number for each row: a key, a position, a label, or the row's own number."""
RowMask = Bool[np.ndarray, " row"]
Hashes = UInt64[np.ndarray, " row"]


class RowRules(NamedTuple):
    """What rows of a task may hold."""

    items: tuple[int, int]
    """Lowest and highest token of keys and noise."""
    length: int
    """Number of positions."""
    modulus: int
    """A key x is a test key at position p if x modulo this is p."""

    def draw_keys(self, positions: PerRow, test: RowMask, rng: np.random.Generator) -> PerRow:
        """A key for each position, drawn evenly from the test keys or from the training keys there.

        Test keys are first, first + m, first + 2m, ...; training keys are counted over the gaps
        between them.
        """
        low, high = self.items
        offset = (positions - low) % self.modulus
        first = low + offset
        n_test = (high - first) // self.modulus + 1
        n_keys = np.where(test, n_test, high - low + 1 - n_test)
        number = rng.integers(0, n_keys)
        gap, in_gap = np.divmod(number - offset, self.modulus - 1)
        training = first + gap * self.modulus + 1 + in_gap
        training = np.where(number < offset, low + number, training)
        return np.where(test, first + number * self.modulus, training)

    def draw(
        self, pairs: AnchorPairs, test: RowMask, rng: np.random.Generator
    ) -> tuple[RowTokens, PerRow]:
        """A row for each pair and kind of key, and the position of its key."""
        low, high = self.items
        tokens = rng.integers(low, high + 1, (len(pairs), self.length))
        positions = rng.integers(0, self.length - 2, len(pairs))
        keys = self.draw_keys(positions, test, rng)
        block = np.column_stack([keys, pairs])
        np.put_along_axis(tokens, positions[:, None] + np.arange(3), block, 1)
        return tokens, positions

    def draw_untrained(
        self, pairs: AnchorPairs, test: RowMask, rng: np.random.Generator, trained: Hashes
    ) -> tuple[RowTokens, PerRow]:
        """As `draw`, but a row that is trained on is drawn again.

        Args:
            trained: `row_hashes` of the rows that are trained on.

        Raises TaskError if some rows are trained on however often they are drawn.
        """
        tokens, positions = self.draw(pairs, test, rng)
        for _ in range(TRIES):
            again = np.flatnonzero(np.isin(row_hashes(tokens), trained))
            if not len(again):
                return tokens, positions
            tokens[again], positions[again] = self.draw(pairs[again], test[again], rng)
        raise TaskError(
            f"{len(again)} rows of seen_train are trained on however often they are drawn: "
            f"n_sequences asks for nearly all rows that there are; lower n_sequences or raise "
            f"length."
        )


def row_kinds(
    set: str, pairs: Int[np.ndarray, "pair 2"], rows_per_pair: int, n: int
) -> tuple[AnchorPairs, RowMask]:
    """Pair of each row of a set, and whether its key is a test key.

    Args:
        pairs: those of the set. rows_per_pair: rows of each in train. n: rows of another set.
    """
    if set == "train":
        pairs = np.repeat(pairs, rows_per_pair, axis=0)
        return pairs, np.zeros(len(pairs), dtype=bool)
    test = np.array([False, True] if set == "unseen" else [set == "seen_test"])
    kinds = np.resize(np.arange(len(pairs) * len(test)), n)
    return pairs[kinds // len(test)], test[kinds % len(test)]


def row_hashes(tokens: RowTokens) -> Hashes:
    """A number for each row, the same for equal rows.

    Different rows share one with a chance of about 2^-64.
    """
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 2**63, tokens.shape[1], dtype=np.uint64)
    odd = 2 * factors + np.uint64(1)
    return (tokens.astype(np.uint64) * odd).sum(1, dtype=np.uint64)


def role_positions(length: int, key: PerRow) -> dict[str, np.ndarray]:
    """Positions of every role, ``[row, n]``, by the position of each row's key; noise in order."""
    key = key[:, None]
    noise = np.arange(length - 3)
    return {
        "key": key,
        "a1": key + 1,
        "a2": key + 2,
        "anchor": key + np.array([1, 2]),
        "last": np.full_like(key, length - 1),
        "noise": noise + 3 * (noise >= key),
    }
