"""Rows of a task that answers words with words: ``given => answer <end>``, filled up with ``<end>``.

The loss is on the answer's tokens alone, its first ``<end>`` included. A model sees the row without its last token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from rb_interp.errors import TaskError
from rb_interp.settings import Settings, fingerprint
from rb_interp.tasks.dataset import Dataset
from rb_interp.tasks.protocol import Stage

END, ARROW = "<end>", "=>"
Words = tuple[str, ...]


class SequenceTask(Settings):
    """What tasks of words share; a task adds ``words``, ``length`` and its rows."""

    ERROR = TaskError
    predicts = "next"
    sets: ClassVar[tuple[str, ...]]
    train_sets: ClassVar[tuple[str, ...]]
    length: ClassVar[int]

    @property
    def words(self) -> Words:
        """Every word, by its token id."""
        raise NotImplementedError(f"{type(self).__name__} has no words; define the property words.")

    @property
    def d_vocab(self) -> int:
        """Number of words."""
        return len(self.words)

    @property
    def stages(self) -> Mapping[str, Stage]:
        """None."""
        return {}

    def fingerprint(self) -> str:
        """Twelve hex digits of class and settings."""
        return fingerprint(self)

    def rows(
        self, found: Sequence[tuple[Words, Words]]
    ) -> tuple[Int[np.ndarray, "row pos"], Int[np.ndarray, "row pos"]]:
        """Tokens and labels of pairs of what is given and its answer; a label is the next token of the answer, -1 where
        nothing is predicted."""
        number = {word: token for token, word in enumerate(self.words)}
        whole = np.zeros((len(found), self.length + 1), dtype=np.int64)
        target = np.zeros((len(found), self.length), dtype=bool)
        for row, (given, answer) in enumerate(found):
            written = [number[word] for word in (*given, ARROW, *answer)]
            whole[row, : len(written)] = written
            target[row, len(given) : len(written)] = True
        return whole[:, :-1], np.where(target, whole[:, 1:], -1)

    def in_sets(self, seed: int, found: Sequence[Sequence[tuple[Words, Words]]], name: str) -> Dataset:
        """The dataset of such pairs, one sequence of them for each of the task's sets; ``name`` is for messages."""
        tokens, labels = self.rows([pair for of_set in found for pair in of_set])
        set = np.repeat(np.arange(len(self.sets)), [len(of_set) for of_set in found])
        return Dataset(seed, tokens, labels, set, self.sets, self.train_sets, name=name)

    def command(self, tokens: Int[np.ndarray, " pos"]) -> str:
        """What a row gives, in words: all before the arrow."""
        written = self._written(tokens)
        return " ".join(written[: written.index(ARROW)])

    def answer(self, labels: Int[np.ndarray, " pos"]) -> str:
        """An answer in words, up to its first end."""
        written = self._written(labels[labels >= 0])
        return " ".join(written[: written.index(END)] if END in written else written)

    def _written(self, tokens: Int[np.ndarray, " n"]) -> list[str]:
        words = self.words
        return [words[token] for token in tokens]
