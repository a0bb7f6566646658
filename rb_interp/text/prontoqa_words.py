"""Words of PrOntoQA and how its sentences are put together (Saparov & He 2023, v1 of the generator).

A sentence states one fact, a ``Statement``. Three forms say it of every member of a concept ("Wumpuses are hot.",
"Each wumpus is hot.", "Every wumpus is hot."). A fourth form says it of a single entity ("Max is hot."). The words are
in ``tables/prontoqa_words.toml``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple


def table_text(name: str) -> str:
    """The text of a file of word lists or plots."""
    return (Path(__file__).parent / "tables" / name).read_text(encoding="utf-8")


@cache
def table(name: str) -> dict[str, Any]:
    """A TOML file of word lists as a dict. All callers get the same one, so none may change it.

    >>> table("story_words.toml")["pronouns"]["girl"]
    ['she', 'her', 'her', 'herself']
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(table_text(name))


# Sentences about all members of a concept: half plural, a quarter each of the others.
PLURAL, EACH, EVERY, GROUND = "plural", "Each", "Every", "ground"

Literal = tuple[str, bool]


@dataclass(frozen=True)
class Words:
    """The words that are generated and read."""

    entities: list[str]  # names that examples speak of
    prime_entities: list[str]  # prime numbers, for the true chain of numbers
    concepts: list[str]  # names of the fictional ontology
    families: list[list[str]]  # properties; a concept has at most one of each family
    false_concepts: list[list[str]]  # lists of names for the false ontology
    true_chains: list[list[tuple[str, int]]]  # root first; with each concept the number of hops that it is used from
    true_properties: dict[str, list[Literal]]  # what is true of a concept, as (word, negated)
    contradicted_by: dict[str, str]  # concept of the contradicting rule in the true ontology, by property
    shared_properties: list[str]  # properties that two concepts of one true chain can share
    plurals: dict[str, str]  # singular to plural of every concept that can be read
    singulars: dict[str, str]  # the reverse
    properties: frozenset[str]  # every property that can be read


@cache
def words() -> Words:
    """The words of PrOntoQA, read from their file at the first call.

    >>> words().plurals["tabby"], words().true_properties["insect"]
    ('tabbies', [('six-legged', False), ('eight-legged', True)])
    """
    read = dict(table("prontoqa_words.toml"))
    later, irregular = read.pop("only_read"), read.pop("irregular_plurals")
    read["true_properties"] = {
        concept: [(word.removeprefix("not "), word.startswith("not ")) for word in true]
        for concept, true in read["true_properties"].items()
    }
    read["true_chains"] = [[(concept, least) for concept, least in chain] for chain in read["true_chains"]]
    nouns = (*read["concepts"], *later["concepts"].split(), *later["concepts_of_two_words"], *irregular)
    plurals = {noun: irregular.get(noun) or noun + ("es" if noun.endswith("pus") else "s") for noun in nouns}
    properties = {word for family in read["families"] for word in family} | set(later["properties"].split())
    properties.update(word for true in read["true_properties"].values() for word, _ in true)
    singulars = {plural: noun for noun, plural in plurals.items()}
    return Words(**read, plurals=plurals, singulars=singulars, properties=frozenset(properties))


class Statement(NamedTuple):
    """One fact: of a concept (``form`` plural, Each or Every) or of one entity (``form`` ground).

    Attributes:
        subject: a concept in the singular, or an entity.
        predicate: a concept in the singular, or a property.
        negated: whether the sentence says "not".
        form: ``"plural"``, ``"Each"``, ``"Every"`` or ``"ground"``.

    >>> fact = Statement("wumpus", "impus", False, "plural")
    >>> fact.sentence, fact._replace(form="Each").sentence, fact.of("Max").sentence
    ('Wumpuses are impuses.', 'Each wumpus is an impus.', 'Max is an impus.')
    """

    subject: str
    predicate: str
    negated: bool
    form: str

    @property
    def sentence(self) -> str:
        """The sentence that says it."""
        return _sentence(*self)

    @property
    def is_rule(self) -> bool:
        """Whether it speaks of all members of a concept."""
        return self.form != GROUND

    @property
    def names_concept(self) -> bool:
        """Whether the predicate is a concept, not a property."""
        return self.predicate in words().plurals

    def of(self, entity: str) -> Statement:
        """The same predicate said of one entity."""
        return Statement(entity, self.predicate, self.negated, GROUND)

    def denied(self) -> Statement:
        """The opposite statement; a double negation is removed."""
        return self._replace(negated=not self.negated)


@lru_cache(maxsize=65536)
def _sentence(subject: str, predicate: str, negated: bool, form: str) -> str:
    maybe_not = "not " if negated else ""
    if form == PLURAL:
        plurals = words().plurals
        sentence = f"{plurals[subject]} are {maybe_not}{plurals.get(predicate, predicate)}."
        return sentence[0].upper() + sentence[1:]
    article = "an " if predicate[0] in "aeiou" and not predicate.startswith("eu") else "a "
    what = (article if predicate in words().plurals else "") + predicate
    who = subject if form == GROUND else f"{form} {subject}"
    return f"{who} is {maybe_not}{what}."
