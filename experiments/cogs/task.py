"""Sentences and their logical forms as a task of next tokens; four rules are held out (after paper
2, Fig. 6b,c).

A row is ``sentence => form <end>``, see ``sequences``. Sentences are drawn, each once.

    train       sentences of none of the held-out rules, and ``zoe`` alone in a share of the rows
    seen_test   other sentences of the same draw
    object, name, passive, deep   sentences of one rule each, see ``sentences``; as many of each
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import numpy as np
from pydantic import Field

from cogs.sentences import ALONE, LONGEST_FORM, LONGEST_SENTENCE, RULES, WORDS, Sentence, sentences
from rb_interp import RbInterpError
from rb_interp.settings import Share
from rb_interp.studies.addition_and_scan.scan import ARROW, END, SequenceTask
from rb_interp.tasks import Dataset

SETS = ("train", "seen_test", *RULES)


class CogsTask(SequenceTask):
    """Settings of the task of sentences.

    Raises RbInterpError where no row is left to be alone, or none to be a sentence.

    >>> task = CogsTask(n_sequences=100, n_test=10, n_rule=10)
    >>> data = task.dataset(seed=0)
    >>> row = data.rows("passive")[0]
    >>> task.command(data.tokens[row]), task.answer(data.labels[row])
    ('james was painted by james', 'PAINTED ( AGENT JAMES , THEME JAMES )')
    """

    sets, train_sets, rules, length = SETS, SETS[:1], RULES, LONGEST_SENTENCE + 1 + LONGEST_FORM

    n_sequences: Annotated[int, Field(ge=2, le=200_000)] = 20_000
    """Rows that are trained on."""
    n_test: Annotated[int, Field(ge=1, le=20_000)] = 2000
    """Rows of seen_test."""
    n_rule: Annotated[int, Field(ge=1, le=2000)] = 1000
    """Rows of each held-out rule."""
    alone_share: Share = 0.05
    """Share of the rows trained on that are the name ``zoe`` alone."""

    def __post_init__(self) -> None:
        if not 1 <= self.n_alone < self.n_sequences:
            raise RbInterpError(
                f"n_sequences={self.n_sequences} with alone_share={self.alone_share:g} leaves "
                f"{self.n_alone} rows of "
                f"'{ALONE.words[0]}' alone; expected one at least, and one sentence."
            )

    @property
    def n_alone(self) -> int:
        """Rows that are the name alone."""
        return round(self.alone_share * self.n_sequences)

    @property
    def words(self) -> tuple[str, ...]:
        """Every word, by its token id."""
        return (END, ARROW, *WORDS)

    def dataset(self, seed: int) -> Dataset:
        """The rows of a seed (stream 2), which draws all sentences; one draw is split into train
        and seen_test."""
        rng = np.random.default_rng([seed, 2])
        n = self.n_sequences - self.n_alone
        drawn = _distinct(rng, "", n + self.n_test)
        mixed = [drawn[number] for number in rng.permutation(len(drawn))]
        held_out = [_distinct(rng, rule, self.n_rule) for rule in RULES]
        train = [*[ALONE] * self.n_alone, *mixed[:n]]
        return self.in_sets(seed, [train, mixed[n:], *held_out], "the task of sentences")


def _distinct(rng: np.random.Generator, rule: str, n: int) -> list[Sentence]:
    """The first so many different sentences of a draw."""
    source, found = sentences(rng, rule), dict[Sentence, None]()
    while len(found) < n:
        found |= dict.fromkeys(islice(source, n - len(found)))
    return list(found)
