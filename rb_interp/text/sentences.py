"""Sentences of PrOntoQA, read and written without a list of words.

A sentence states one fact, a `Statement`. Three forms say it of every member of a concept
("Wumpuses are hot.", "Each wumpus is hot.", "Every wumpus is hot."). A fourth form says it of a
single entity ("Max is hot."). The text itself decides what its words are:

- A concept stands behind "Each", "Every", "a" or "an". A property stands behind "is" or "is not".
- A plural belongs to the concept of the text from which a plural rule leads to it.
- A word that only plural sentences have is a concept if it is a subject or ends as a plural does.

So files with any vocabulary can be read. A text contradicts itself if a word is a concept and a
property, if a concept has two plurals, or if a plural stands behind "Each". Such a text is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from rb_interp.errors import TextError

PLURAL = "plural"
FORM_EACH = "Each"
FORM_EVERY = "Every"
GROUND = "ground"

_IRREGULAR = """
o oes
f ves
fe ves
z zzes
ch chs
us i
is es
um a
on a
a ae
ex ices
ix ices
eau eaux
man men
ouse ice
oot eet
ooth eeth
oose eese
child children
person people
ox oxen
"""
IRREGULAR_ENDINGS = [line.split() for line in _IRREGULAR.strip().splitlines()]
"""Endings of a singular and of its plural, besides the regular ones."""

# A name, a concept or a property has none of these; other quantifiers and clauses do.
_FUNCTION_WORD = re.compile(
    r"(?<![\w-])(?:an?|the|all|any|both|each|every|few|many|most|none?|some|that|these|this|those|and|"
    r"or|but|if|then|than|only|not|nor|is|are|was|were|be|who|which|what|it|s?he|they|we|you|i|"
    r"(?:every|some|any|no)(?:thing|one|body))(?![\w-])",
    re.IGNORECASE,
)
_WORD = r"[^\W_][\w'’-]*"
_PHRASE = rf"({_WORD}(?: {_WORD})*)"
_SENTENCE = re.compile(rf"(?:(Each|Every) )?{_PHRASE} (is|are) (not )?(?:(an?) )?{_PHRASE}\.")
_ENTITY = re.compile(r"[A-Z][\w'’-]*|\d+")
_PLURAL_ENDING = re.compile(r".*[^sui]s")
_ES_PLURAL = re.compile(r"(.*(?:ss|x|z|ch|sh|us))es")


class Statement(NamedTuple):
    """One fact: of a concept (``form`` plural, Each or Every) or of one entity (``form`` ground).

    `fact` and `rule` make one.

    Attributes:
        subject: a concept in the singular, or the entity's name.
        predicate: a concept in the singular, or a property.
        is_concept: whether the predicate is a concept.
        sentence: the sentence that says it.
    """

    subject: str
    predicate: str
    is_concept: bool
    negated: bool
    form: str
    sentence: str

    def of(self, entity: str) -> Statement:
        """The same predicate said of one entity."""
        return fact(entity, self.predicate, self.is_concept, self.negated)

    def denied(self) -> Statement:
        """The opposite of a fact about an entity; a double negation is removed."""
        return fact(self.subject, self.predicate, self.is_concept, not self.negated)


@lru_cache(maxsize=65536)
def fact(entity: str, predicate: str, is_concept: bool, negated: bool) -> Statement:
    """State something of one entity.

    >>> fact("Max", "impus", is_concept=True, negated=False).sentence
    'Max is an impus.'
    """
    sentence = f"{entity} {_singular_predicate(predicate, is_concept, negated)}"
    return Statement(entity, predicate, is_concept, negated, GROUND, sentence)


@lru_cache(maxsize=65536)
def rule(subject: str, predicate: str, is_concept: bool, negated: bool, form: str) -> Statement:
    """State something of every member of a concept whose plural is regular.

    >>> rule("wumpus", "impus", is_concept=True, negated=False, form="plural").sentence
    'Wumpuses are impuses.'
    >>> rule("wumpus", "hot", is_concept=False, negated=True, form="Each").sentence
    'Each wumpus is not hot.'
    """
    if form == PLURAL:
        plural = regular_plural(subject)
        noun = regular_plural(predicate) if is_concept else predicate
        sentence = f"{plural[0].upper()}{plural[1:]} are {'not ' if negated else ''}{noun}."
    else:
        sentence = f"{form} {subject} {_singular_predicate(predicate, is_concept, negated)}"
    return Statement(subject, predicate, is_concept, negated, form, sentence)


def _singular_predicate(predicate: str, is_concept: bool, negated: bool) -> str:
    article = f"{indefinite_article(predicate)} " if is_concept else ""
    return f"is {'not ' if negated else ''}{article}{predicate}."


def indefinite_article(noun: str) -> str:
    """The article that PrOntoQA writes before a noun: an impus, an integer, a eudicot."""
    vowel = noun[0] in "aeiou" and not noun.startswith("eu")
    return "an" if vowel else "a"


@lru_cache(maxsize=65536)
def regular_plural(noun: str) -> str:
    """The plural by the common rule; a noun of several words changes its last one.

    >>> [regular_plural(noun) for noun in ("wumpus", "butterfly", "prime number")]
    ['wumpuses', 'butterflies', 'prime numbers']
    """
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    if noun.endswith(("s", "x", "z", "ch", "sh")):
        return f"{noun}es"
    return f"{noun}s"


@lru_cache(maxsize=65536)
def irregular_plurals(noun: str) -> tuple[str, ...]:
    """Other plurals that a noun may have; its own form too if that is not a regular plural.

    >>> irregular_plurals("wolf"), irregular_plurals("sheep"), irregular_plurals("cats")
    (('wolves', 'wolf'), ('sheep',), ())
    """
    plurals = []
    for singular_ending, plural_ending in IRREGULAR_ENDINGS:
        if noun.endswith(singular_ending):
            plurals.append(noun.removesuffix(singular_ending) + plural_ending)
    if not _PLURAL_ENDING.fullmatch(noun) or noun.endswith(("species", "series")):
        plurals.append(noun)
    return tuple(plurals)


def _likely_singular(plural: str) -> str:
    """The singular of a plural that stands in a text without it."""
    if plural.endswith("ies"):
        return f"{plural.removesuffix('ies')}y"
    if match := _ES_PLURAL.fullmatch(plural):
        return match[1]
    return plural[:-1] if _PLURAL_ENDING.fullmatch(plural) else plural


class Clause(NamedTuple):
    """The parts of one sentence; its nouns are in the number in which they stand there."""

    sentence: str
    form: str
    subject: str
    predicate: str
    has_article: bool
    negated: bool


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, each with its full stop."""
    return tuple(re.split(r"(?<=\.) ", text))


@lru_cache(maxsize=65536)
def parse_clause(sentence: str) -> Clause:
    """Split one sentence into its parts; TextError for a sentence of no form and a wrong article.

    >>> parse_clause("Every wumpus is not hot.")[1:]
    ('Every', 'wumpus', 'hot', False, True)
    """
    parts = _SENTENCE.fullmatch(sentence)
    if parts is None:
        raise _no_sentence(sentence)
    quantifier, subject, verb, negation, article, predicate = parts.groups()
    form = PLURAL if verb == "are" else quantifier or GROUND
    faults = (
        form == PLURAL and (quantifier or article or subject[0].islower()),
        form == GROUND and not _ENTITY.fullmatch(subject),
        article and article != indefinite_article(predicate),
        _FUNCTION_WORD.search(f"{subject} {predicate}"),
    )
    if any(faults):
        raise _no_sentence(sentence)
    return Clause(sentence, form, subject, predicate, article is not None, negation is not None)


def _no_sentence(sentence: str) -> TextError:
    return TextError(
        f"'{sentence}' is no sentence of PrOntoQA: expected 'Xs are Y.', 'Each x is Y.', 'Every x "
        f"is Y.' or 'Name is Y.'."
    )


def read_clauses(context: Sequence[Clause], facts: Sequence[Clause] = ()) -> list[Statement]:
    """The statements of the clauses of a context.

    Args:
        facts: sentences about an entity from outside the context. They tell what a word is if the
            context leaves it open.

    Raises TextError if the context contradicts itself in a word.

    >>> clauses = [parse_clause(s) for s in ("Mice are small.", "Each cat is not a mouse.")]
    >>> [(s.subject, s.predicate, s.is_concept) for s in read_clauses(clauses)]
    [('mouse', 'small', False), ('cat', 'mouse', True)]
    """
    vocabulary = _Vocabulary(context, facts)
    statements = []
    for sentence, form, subject, predicate, has_article, negated in context:
        is_concept = has_article
        if form == PLURAL:
            subject = vocabulary.subjects[subject]
            is_concept = predicate in vocabulary.singulars
            predicate = vocabulary.singulars.get(predicate, predicate)
        statements.append(Statement(subject, predicate, is_concept, negated, form, sentence))
    return statements


class _Vocabulary:
    """The words of one text.

    Attributes:
        concepts: in the singular, as the keys of a dict, in the order of the text.
        properties: likewise.
        singulars: plural -> singular.
        subjects: subject of a plural sentence, with its capital -> singular.
    """

    def __init__(self, context: Sequence[Clause], facts: Sequence[Clause]):
        self.concepts, self.properties = _singular_words(context)
        _refuse(self.concepts.keys() & self.properties, "is a concept and a property")
        concepts, properties = _singular_words(facts)
        self.properties |= {word: None for word in properties if word not in self.concepts}
        self.concepts |= {word: None for word in concepts if word not in self.properties}
        self.singulars = {regular_plural(noun): noun for noun in self.concepts}
        for noun in self.concepts:
            for plural in irregular_plurals(noun):
                self.singulars.setdefault(plural, noun)
        self.subjects: dict[str, str] = {}
        self._plurals: dict[str, str] = {}
        plural_clauses = [clause for clause in context if clause.form == PLURAL]
        predicates = {clause.predicate for clause in plural_clauses}
        for clause in plural_clauses:
            subject = clause.subject
            if subject not in self.singulars and subject not in predicates:
                subject = subject[0].lower() + subject[1:]
            self.subjects[clause.subject] = self._resolve(subject)
        for clause in plural_clauses:
            word = clause.predicate
            if word in self.singulars or (
                word not in self.properties and _PLURAL_ENDING.fullmatch(word)
            ):
                self._resolve(word)
        _refuse(self.singulars.keys() & self.properties, "is a concept and a property")
        both_numbers = [noun for noun in self.concepts if self.singulars.get(noun, noun) != noun]
        _refuse(both_numbers, "is a singular and the plural of another concept")
        lower_case = {noun.lower(): noun for noun in self.concepts}
        _refuse(self.concepts.keys() - lower_case.values(), "is written with and without a capital")

    def _resolve(self, plural: str) -> str:
        """The singular of a plural; TextError if the text has another plural of it."""
        noun = self.singulars.get(plural)
        if noun is None:
            noun = _likely_singular(plural)
            self.singulars[plural] = noun
            self.concepts[noun] = None
        first = self._plurals.setdefault(noun, plural)
        if first != plural:
            _refuse([noun], f"has two plurals, '{first}' and '{plural}'")
        return noun


def _singular_words(clauses: Iterable[Clause]) -> tuple[dict[str, None], dict[str, None]]:
    """The concepts and the properties that singular sentences have."""
    concepts = {}
    properties = {}
    for clause in clauses:
        if clause.form == PLURAL:
            continue
        if clause.form != GROUND:
            concepts[clause.subject] = None
        if clause.has_article:
            concepts[clause.predicate] = None
        else:
            properties[clause.predicate] = None
    return concepts, properties


def _refuse(words: Iterable[str], reason: str) -> None:
    for word in sorted(words):
        raise TextError(f"'{word}' {reason}; expected one use of a word in the whole text.")
