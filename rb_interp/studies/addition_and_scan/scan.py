"""Commands and their actions as a task of next tokens; one verb is only trained alone (after paper
2, Fig. 6a).

    command  ->  phrase  |  phrase and phrase  |  phrase after phrase
    phrase   ->  verb [left | right] [twice | thrice]

A verb orders its action. A turn comes before the action, a repetition repeats both. ``x and y``
orders x and then y, ``x after y`` orders y and then x. The grammar is after SCAN (Lake and Baroni,
2018); our own, and smaller. A row is ``command => actions <end>``, filled up with ``<end>``; the
loss is on the actions and their first ``<end>`` alone. A model sees the row without its last token.

    train        commands without the primitive ``jump``, each once, and ``jump`` alone in a share of the rows
    seen_test    the other commands without it
    composites   all commands with it, but for ``jump`` alone

The rows of a smaller ``n_sequences`` are among those of a larger one with the same seed.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int
from pydantic import Field

from rb_interp.errors import TaskError
from rb_interp.settings import Share
from rb_interp.tasks.dataset import Dataset, TaskSettings

END, ARROW = "<end>", "=>"
Words = tuple[str, ...]


class SequenceTask(TaskSettings):
    """What tasks of words share; a task adds ``words``, ``length`` and its rows."""

    ERROR = TaskError
    predicts, stages = "next", {}
    sets: ClassVar[tuple[str, ...]]
    train_sets: ClassVar[tuple[str, ...]]
    length: ClassVar[int]

    @property
    def words(self) -> Words:
        """Every word, by its token id."""
        raise NotImplementedError

    @property
    def d_vocab(self) -> int:
        """Number of words."""
        return len(self.words)

    def in_sets(
        self, seed: int, found: Sequence[Sequence[tuple[Words, Words]]], name: str
    ) -> Dataset:
        """The dataset of pairs of what is given and its answer, one sequence of them for each of
        the task's sets.

        A label is the next token of the answer, -1 where nothing is predicted. ``name`` is for
        messages.
        """
        number = {word: token for token, word in enumerate(self.words)}
        pairs = [pair for of_set in found for pair in of_set]
        whole = np.zeros((len(pairs), self.length + 1), dtype=np.int64)
        target = np.zeros((len(pairs), self.length), dtype=bool)
        for row, (given, answer) in enumerate(pairs):
            written = [number[word] for word in (*given, ARROW, *answer)]
            whole[row, : len(written)] = written
            target[row, len(given) : len(written)] = True
        set = np.repeat(np.arange(len(self.sets)), [len(of_set) for of_set in found])
        labels = np.where(target, whole[:, 1:], -1)
        return Dataset(seed, whole[:, :-1], labels, set, self.sets, self.train_sets, name=name)

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


PRIMITIVE = "jump"
VERBS = (
    PRIMITIVE,
    "walk",
    "look",
    "run",
    "hop",
    "sing",
    "wave",
    "nod",
    "spin",
    "climb",
    "crawl",
    "swim",
)
TURNS = {"left": "TURN_LEFT", "right": "TURN_RIGHT"}
TIMES = {"twice": 2, "thrice": 3}
JOINTS = ("and", "after")
LONGEST_COMMAND, LONGEST_ANSWER = 7, 12
"""Words of the longest command, and actions of the longest answer: two phrases with turn and
``thrice``."""


class Sentence(NamedTuple):
    """A command in words, and the actions that it orders."""

    command: tuple[str, ...]
    actions: tuple[str, ...]


def phrases(verbs: tuple[str, ...]) -> list[Sentence]:
    """All phrases with the given verbs: nine of each.

    >>> [" ".join(phrase.command) for phrase in phrases(("walk",))][:4]
    ['walk', 'walk twice', 'walk thrice', 'walk left']
    """
    found = []
    for verb, turn, times in product(verbs, (None, *TURNS), (None, *TIMES)):
        command = tuple(word for word in (verb, turn, times) if word)
        once = (*((TURNS[turn],) if turn else ()), verb.upper())
        found.append(Sentence(command, once * TIMES.get(times or "", 1)))
    return found


def sentences(verbs: tuple[str, ...]) -> list[Sentence]:
    """All commands with the given verbs: 9 v + 2 (9 v)^2 of v verbs.

    >>> [len(sentences(VERBS[:v])) for v in (1, 8)]
    [171, 10440]
    """
    single = phrases(verbs)
    found = list(single)
    for joint, (first, second) in product(JOINTS, product(single, single)):
        actions = (
            first.actions + second.actions if joint == "and" else second.actions + first.actions
        )
        found.append(Sentence((*first.command, joint, *second.command), actions))
    return found


SETS = ("train", "seen_test", "composites")


class ScanTask(SequenceTask):
    """Settings of the task of commands.

    Raises TaskError where settings contradict each other.

    >>> task = ScanTask(verbs=3, n_sequences=100)
    >>> data = task.dataset(seed=0)
    >>> row = data.rows("composites")[0]
    >>> task.command(data.tokens[row]), task.answer(data.labels[row])
    ('jump twice', 'JUMP JUMP')
    """

    sets, train_sets, length = SETS, SETS[:1], LONGEST_COMMAND + 1 + LONGEST_ANSWER
    PRESETS: ClassVar[dict] = {
        "smoke": {"verbs": 3, "n_sequences": 200},
        "quick": {},
        "paper": {"verbs": 12, "n_sequences": 8000},
    }

    verbs: Annotated[int, Field(ge=2, le=len(VERBS))] = 8
    """Number of verbs, the primitive among them."""
    n_sequences: Annotated[int, Field(ge=2, le=1_000_000)] = 2000
    """Rows that are trained on."""
    alone_share: Share = 0.1
    """Share of these rows that are the primitive alone."""

    def __post_init__(self) -> None:
        most = len(_sorted_out(self.verbs)[0]) - 1
        if not 1 <= self.n_sequences - self.n_alone <= most or self.n_alone < 1:
            raise TaskError(
                f"n_sequences={self.n_sequences} with alone_share={self.alone_share:g}: "
                f"{self.n_alone} rows of '{PRIMITIVE}' alone and {self.n_sequences - self.n_alone} "
                f"other commands; expected one at least of either, and at most {most} others with "
                f"verbs={self.verbs}, so that one is left for seen_test."
            )

    @property
    def n_alone(self) -> int:
        """Rows that are the primitive alone."""
        return round(self.alone_share * self.n_sequences)

    @property
    def words(self) -> tuple[str, ...]:
        """Every word, by its token id."""
        verbs = VERBS[: self.verbs]
        return (
            END,
            ARROW,
            *TURNS,
            *TIMES,
            *JOINTS,
            *TURNS.values(),
            *verbs,
            *map(str.upper, verbs),
        )

    def dataset(self, seed: int) -> Dataset:
        """The rows of a seed (stream 2), which draws the commands that are trained on; composites
        are always all."""
        others, composites = _sorted_out(self.verbs)
        order = np.random.default_rng([seed, 2]).permutation(len(others))
        drawn = [others[number] for number in order]
        n = self.n_sequences - self.n_alone
        alone = Sentence((PRIMITIVE,), (PRIMITIVE.upper(),))
        train = [*[alone] * self.n_alone, *drawn[:n]]
        return self.in_sets(seed, [train, drawn[n:], composites], "the task of commands")


@lru_cache(maxsize=16)
def _sorted_out(verbs: int) -> tuple[list[Sentence], list[Sentence]]:
    """Commands without the primitive, and its composites."""
    every = sentences(VERBS[:verbs])
    others = [sentence for sentence in every if PRIMITIVE not in sentence.command]
    composites = [
        sentence
        for sentence in every
        if PRIMITIVE in sentence.command and len(sentence.command) > 1
    ]
    return others, composites
