"""A grammar of English sentences and their logical forms, after COGS (Kim and Linzen, 2020); our
own, and smaller.

    sentence  ->  clause  |  phrase SAID that clause
    clause    ->  phrase SLEPT
               |  phrase HELPED phrase        |  phrase was HELPED by phrase
               |  phrase HANDED phrase to phrase  |  phrase HANDED phrase phrase
    phrase    ->  name  |  the noun [chain]  |  a noun [chain]
    chain     ->  in the noun [chain], with on and beside, and with a

A chain belongs to the noun before it; one phrase of a clause has one at most. The form has agent,
theme and recipient in this order, however the sentence has them: ``a cat was helped by emma`` and
``emma helped a cat`` are both ``HELPED ( AGENT EMMA , THEME A CAT )``. A chain stands in brackets
behind its noun: ``THE CAT ( IN A BOX )``.

Rules, of which training has none:

    object    hedgehog, else only the subject of an active verb, is the object of one
    name      zoe, else only alone, is in a sentence
    passive   painted, else only active, is passive
    deep      three or four phrases in a chain, else two at most; rows are no longer than the longest trained ones

The generator here builds a sentence as a tree and writes it. ``sentence_reader`` reads words in
another way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

SUBJECT, NAME, ACTIVE = "hedgehog", "zoe", "painted"
"""The noun, the name and the verb of the first three rules."""
RULES = ("object", "name", "passive", "deep")
NAMES = (
    NAME,
    "emma",
    "liam",
    "ava",
    "noah",
    "mia",
    "lucas",
    "ella",
    "james",
    "nora",
    "owen",
    "ruby",
)
NOUNS = (
    SUBJECT,
    "cat",
    "dog",
    "bird",
    "girl",
    "boy",
    "king",
    "guest",
    "baker",
    "judge",
    "frog",
    "horse",
    "cake",
    "book",
    "ball",
    "cup",
    "hat",
    "rose",
)
PLACES = ("box", "car", "house", "table", "garden", "room", "bed", "tree")
SLEPT = ("slept", "smiled", "danced", "laughed", "sneezed", "waited")
HELPED = (ACTIVE, "helped", "liked", "touched", "cleaned", "moved", "pushed", "called")
HANDED = ("handed", "mailed", "offered", "passed", "rented")
SAID = ("said", "hoped", "thought", "believed")
DETERMINERS, PREPOSITIONS, SMALL = ("the", "a"), ("in", "on", "beside"), ("was", "by", "to", "that")
ROLES = ("AGENT", "THEME", "RECIPIENT")
MARKS = ("(", ")", ",")
CONTENT = (*NAMES, *NOUNS, *PLACES, *SLEPT, *HELPED, *HANDED, *SAID, *DETERMINERS, *PREPOSITIONS)
"""Words that a form has too, in capitals."""
WORDS = (*CONTENT, *SMALL, *map(str.upper, CONTENT), "THAT", *ROLES, *MARKS)
LONGEST_SENTENCE, LONGEST_FORM = 18, 32
"""Words of the longest sentence and of its form: a clause of three phrases behind ``that``, with a
chain of two."""
KINDS = ("slept", "helped", "passive", "to", "double")
CHAINS, DEEP = (0.7, 0.2, 0.1), (3, 4)
"""Chances of a chain of none, one and two; lengths of deep ones."""
BEHIND_THAT = 0.2
"""Chance of a clause behind ``that``."""


class Sentence(NamedTuple):
    """A sentence in words, and its logical form."""

    words: tuple[str, ...]
    form: tuple[str, ...]


ALONE = Sentence((NAME,), (NAME.upper(),))
"""The name of the rule ``name``, as training has it."""


class Phrase(NamedTuple):
    """A name (without determiner), or a noun with its chain of prepositions and phrases."""

    noun: str
    determiner: str = ""
    chain: tuple[tuple[str, Phrase], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """As in a sentence."""
        own = (self.determiner, self.noun) if self.determiner else (self.noun,)
        return (
            *own,
            *(word for preposition, inner in self.chain for word in (preposition, *inner.words)),
        )

    @property
    def form(self) -> tuple[str, ...]:
        """As in a logical form."""
        own = tuple(word.upper() for word in Phrase(self.noun, self.determiner).words)
        if not self.chain:
            return own
        (preposition, inner), *others = self.chain
        return (*own, "(", preposition.upper(), *inner._replace(chain=tuple(others)).form, ")")


class Clause(NamedTuple):
    """A verb and the phrases of its roles, in the order of ROLES; ``kind`` is one of KINDS."""

    kind: str
    verb: str
    phrases: tuple[Phrase, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """As in a sentence."""
        agent, *others = (phrase.words for phrase in self.phrases)
        if self.kind == "passive":
            return (*others[0], "was", self.verb, "by", *agent)
        if self.kind == "to":
            return (*agent, self.verb, *others[0], "to", *others[1])
        return (*agent, self.verb, *(word for words in reversed(others) for word in words))

    @property
    def form(self) -> tuple[str, ...]:
        """As in a logical form, without the closing bracket."""
        named = zip(ROLES, self.phrases, strict=False)
        parts = [word for role, phrase in named for word in (",", role, *phrase.form)]
        return (self.verb.upper(), "(", *parts[1:])


def sentences(rng: np.random.Generator, rule: str = "") -> Iterator[Sentence]:
    """Sentences without end, some more than once: of no rule, or of one rule of RULES and no other.

    >>> [" ".join(part) for part in next(sentences(np.random.default_rng(6)))]
    ['mia was cleaned by ruby', 'CLEANED ( AGENT RUBY , THEME MIA )']
    """
    while True:
        clause = _clause(rng, rule)
        opening = Clause("slept", _one(rng, SAID), (_phrase(rng, subject=True),))
        if rule != "deep" and rng.random() < BEHIND_THAT:
            form = (*opening.form, ",", "THAT", *clause.form, ")", ")")
            yield Sentence((*opening.words, "that", *clause.words), form)
        else:
            yield Sentence(clause.words, (*clause.form, ")"))


def _clause(rng: np.random.Generator, rule: str) -> Clause:
    kinds = {
        "object": ("helped", "to", "double"),
        "passive": ("passive",),
        "deep": ("slept", "helped"),
    }
    kind = _one(rng, kinds.get(rule, KINDS))
    verbs = {"slept": SLEPT, "helped": HELPED, "passive": HELPED[1:]}.get(kind, HANDED)
    verb = ACTIVE if rule == "passive" else _one(rng, verbs)
    count = {"slept": 1, "helped": 2, "passive": 2}.get(kind, 3)
    phrases = [_phrase(rng, subject=number == 0 and kind != "passive") for number in range(count)]
    if rule == "object":
        phrases[1] = Phrase(SUBJECT, _one(rng, DETERMINERS))
    if rule == "name":
        phrases[rng.integers(count)] = Phrase(NAME)
    if rule == "deep" and not any(phrase.determiner for phrase in phrases):
        phrases[0] = Phrase(_one(rng, NOUNS), _one(rng, DETERMINERS))
    nouns = [number for number, phrase in enumerate(phrases) if phrase.determiner]
    length = int(rng.choice(DEEP)) if rule == "deep" else int(rng.choice(len(CHAINS), p=CHAINS))
    if nouns:
        chosen = nouns[rng.integers(len(nouns))]
        places = (Phrase(_one(rng, PLACES), _one(rng, DETERMINERS)) for _ in range(length))
        chain = tuple((_one(rng, PREPOSITIONS), place) for place in places)
        phrases[chosen] = phrases[chosen]._replace(chain=chain)
    return Clause(kind, verb, tuple(phrases))


def _phrase(rng: np.random.Generator, subject: bool) -> Phrase:
    """A phrase without a chain; the noun of the rule ``object`` is only a subject, the name of
    ``name`` never there."""
    if rng.random() < 0.4:
        return Phrase(_one(rng, NAMES[1:]))
    return Phrase(_one(rng, NOUNS if subject else NOUNS[1:]), _one(rng, DETERMINERS))


def _one(rng: np.random.Generator, among: Sequence[str]) -> str:
    return among[int(rng.integers(len(among)))]
