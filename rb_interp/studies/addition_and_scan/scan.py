"""Commands and their actions as a task of next tokens; one verb is only trained alone.

After paper 2, Fig. 6a:

    command  ->  phrase  |  phrase and phrase  |  phrase after phrase
    phrase   ->  verb [left | right] [twice | thrice]

A verb orders its action. A turn comes before the action, a repetition repeats both. ``x and y``
orders x and then y, ``x after y`` orders y and then x. The grammar is after SCAN (Lake and Baroni,
2018); our own, and smaller. A row is ``command => actions <end>``, filled up with ``<end>``; the
loss is on the actions and their first ``<end>`` alone. A model sees the row without its last token.

    train        commands without the primitive ``jump``, each once, and ``jump`` alone in a share
                 of the rows
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
WordSequence = tuple[str, ...]


class SequenceTask(TaskSettings):
    """What tasks of words share; a task adds ``words``, ``length`` and its rows."""

    ERROR = TaskError
    predicts = "next"
    stages: ClassVar[dict] = {}
    sets: ClassVar[tuple[str, ...]]
    train_sets: ClassVar[tuple[str, ...]]
    length: ClassVar[int]

    @property
    def words(self) -> WordSequence:
        """Every word, by its token id."""
        raise NotImplementedError

    @property
    def d_vocab(self) -> int:
        """Number of words."""
        return len(self.words)

    def in_sets(
        self, seed: int, sequences: Sequence[Sequence[tuple[WordSequence, WordSequence]]], name: str
    ) -> Dataset:
        """The dataset of sequences, prompt and answer, listed by set.

        A label is the next token of the answer, -1 where nothing is predicted. ``name`` is for
        messages.
        """
        pairs = [pair for members in sequences for pair in members]
        tokens = np.zeros((len(pairs), self.length + 1), dtype=np.int64)
        predicted = np.zeros((len(pairs), self.length), dtype=bool)
        token_ids = {word: token for token, word in enumerate(self.words)}
        for row, (prompt, answer) in enumerate(pairs):
            sequence = [token_ids[word] for word in (*prompt, ARROW, *answer)]
            tokens[row, : len(sequence)] = sequence
            predicted[row, len(prompt) : len(sequence)] = True
        sizes = [len(members) for members in sequences]
        set = np.repeat(np.arange(len(self.sets)), sizes)
        labels = np.where(predicted, tokens[:, 1:], -1)
        return Dataset(seed, tokens[:, :-1], labels, set, self.sets, self.train_sets, name=name)

    def command(self, tokens: Int[np.ndarray, " pos"]) -> str:
        """The command of a row in words: all before the arrow."""
        words = [self.words[token] for token in tokens]
        return " ".join(words[: words.index(ARROW)])

    def answer(self, labels: Int[np.ndarray, " pos"]) -> str:
        """An answer in words, up to its first end."""
        words = [self.words[token] for token in labels[labels >= 0]]
        if END in words:
            words = words[: words.index(END)]
        return " ".join(words)


PRIMITIVE = "jump"
_VERBS = "jump walk look run hop sing wave nod spin climb crawl swim"
VERBS = tuple(_VERBS.split())
TURNS = {"left": "TURN_LEFT", "right": "TURN_RIGHT"}
TIMES = {"twice": 2, "thrice": 3}
JOINTS = ("and", "after")
LONGEST_COMMAND = 7
"""Words of the longest command: two phrases with turn and ``thrice``."""
LONGEST_ANSWER = 12
"""Actions of the longest answer."""


class Sentence(NamedTuple):
    """A command in words, and the actions that it orders."""

    command: WordSequence
    actions: WordSequence


def phrases(verbs: tuple[str, ...]) -> list[Sentence]:
    """All phrases with the given verbs: nine of each.

    >>> [" ".join(phrase.command) for phrase in phrases(("walk",))][:4]
    ['walk', 'walk twice', 'walk thrice', 'walk left']
    """
    sentences = []
    for verb, turn, times in product(verbs, (None, *TURNS), (None, *TIMES)):
        command = [verb]
        actions = [verb.upper()]
        if turn:
            command.append(turn)
            actions.insert(0, TURNS[turn])
        if times:
            command.append(times)
            actions *= TIMES[times]
        sentences.append(Sentence(tuple(command), tuple(actions)))
    return sentences


def sentences(verbs: tuple[str, ...]) -> list[Sentence]:
    """All commands with the given verbs: 9 v + 2 (9 v)^2 of v verbs.

    >>> [len(sentences(VERBS[:v])) for v in (1, 8)]
    [171, 10440]
    """
    single = phrases(verbs)
    commands = list(single)
    for joint, first, second in product(JOINTS, single, single):
        command = (*first.command, joint, *second.command)
        if joint == "and":
            actions = first.actions + second.actions
        else:
            actions = second.actions + first.actions
        commands.append(Sentence(command, actions))
    return commands


SETS = ("train", "seen_test", "composites")


class ScanTask(SequenceTask):
    """Settings of the task of commands.

    Raises TaskError if settings contradict each other.

    >>> task = ScanTask(verbs=3, n_sequences=100)
    >>> data = task.dataset(seed=0)
    >>> row = data.rows("composites")[0]
    >>> task.command(data.tokens[row]), task.answer(data.labels[row])
    ('jump twice', 'JUMP JUMP')
    """

    sets = SETS
    train_sets = SETS[:1]
    length = LONGEST_COMMAND + 1 + LONGEST_ANSWER
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
        trainable, _ = _by_primitive(self.verbs)
        most = len(trainable) - 1
        n_trained = self.n_sequences - self.n_alone
        if not 1 <= n_trained <= most or self.n_alone < 1:
            raise TaskError(
                f"n_sequences={self.n_sequences} with alone_share={self.alone_share:g}: "
                f"{self.n_alone} rows of '{PRIMITIVE}' alone and {n_trained} "
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
        """The rows of a seed (stream 2), which draws the commands that are trained on."""
        trainable, composites = _by_primitive(self.verbs)
        order = np.random.default_rng([seed, 2]).permutation(len(trainable))
        sentences = [trainable[number] for number in order]
        n_trained = self.n_sequences - self.n_alone
        primitive = Sentence((PRIMITIVE,), (PRIMITIVE.upper(),))
        train = [primitive] * self.n_alone + sentences[:n_trained]
        return self.in_sets(
            seed, [train, sentences[n_trained:], composites], "the task of commands"
        )


@lru_cache(maxsize=16)
def _by_primitive(verbs: int) -> tuple[list[Sentence], list[Sentence]]:
    """Commands without the primitive, and its composites."""
    without = []
    composites = []
    for sentence in sentences(VERBS[:verbs]):
        if PRIMITIVE not in sentence.command:
            without.append(sentence)
        elif len(sentence.command) > 1:
            composites.append(sentence)
    return without, composites
