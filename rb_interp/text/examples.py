"""What a PrOntoQA example is and whether it is right (Saparov & He 2023, v1 of the generator, modus ponens).

A sentence states one fact, a ``Statement``. Three forms say it of every member of a concept ("Wumpuses are hot.",
"Each wumpus is hot.", "Every wumpus is hot."). A fourth form says it of a single entity ("Max is hot."). The words are
in ``tables/prontoqa_words.toml``. ``verify`` shares only the words and the forms with the generator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from rb_interp.errors import TextError
from rb_interp.settings import read_toml
from rb_interp.typed import typed

PLURAL, EACH, EVERY, GROUND = "plural", "Each", "Every", "ground"
QUERY = "True or false: "

_SENTENCE = re.compile(r"(?:(Each|Every) )?(.+?) (is|are) (not )?(?:an? )?(.+)\.")
_ENTITY = re.compile(r"[A-Z][a-z]*|[0-9]+")


@typed
@dataclass(frozen=True)
class Example:
    """A question that a chain of deductions answers.

    Attributes:
        question: the context: its rules, then the premise, one space between sentences.
        query: ``"True or false: "`` and the statement asked about.
        chain_of_thought: the 2 hops + 1 sentences of the proof: the premise, then a rule and its conclusion a hop.
        answer: ``"True"`` or ``"False"``.
        hops: number of rules that the proof uses, at least 1.

    >>> example = Example(
    ...     "Each wumpus is not hot. Rompuses are hot. Rompuses are impuses. Max is a rompus.",
    ...     "True or false: Max is hot.",
    ...     ("Max is a rompus.", "Rompuses are hot.", "Max is hot."), "True", 1)
    >>> example.prompt.splitlines()[1]
    'A:'
    >>> example.text.removeprefix(example.prompt)
    ' Max is a rompus. Rompuses are hot. Max is hot. True'
    """

    question: str
    query: str
    chain_of_thought: tuple[str, ...]
    answer: str
    hops: int

    @property
    def prompt(self) -> str:
        """What a model is shown before it reasons: the question, the query and ``A:``."""
        return f"Q: {self.question} {self.query}\nA:"

    @property
    def text(self) -> str:
        """The whole document that a model is trained on: prompt, chain of thought and answer, as in the original."""
        return f"{self.prompt} {' '.join(self.chain_of_thought)} {self.answer}"


@cache
def words() -> SimpleNamespace:
    """The words of PrOntoQA: the entries of their file, with plurals, singulars and properties of all that can be read.

    >>> words().plurals["tabby"], words().true_properties["insect"]
    ('tabbies', [('six-legged', False), ('eight-legged', True)])
    """
    read = read_toml(Path(__file__).parent / "tables/prontoqa_words.toml")
    read["families"] = [family.split() for family in read["families"]]
    read["false_concepts"] = [names.split(", ") for names in read["false_concepts"]]
    read["true_chains"] = [
        [(concept, int(least)) for concept, _, least in (each.rpartition(" ") for each in chain.split(", "))]
        for chain in read["true_chains"]
    ]
    read["true_properties"] = {
        concept: [(word.removeprefix("not "), word.startswith("not ")) for word in true.split(", ")]
        for concept, true in read["true_properties"].items()
    }
    read["contradicted_by"] = {word: of for of, named in read["contradicted_by"].items() for word in named.split()}
    nouns = [*read["concepts"], *read["contradicted_by"].values()]
    nouns += [name for names in read["false_concepts"] for name in names]
    nouns += [concept for chain in read["true_chains"] for concept, _ in chain]
    irregular = read.pop("irregular_plurals")
    plurals = {noun: irregular.get(noun) or noun + ("es" if noun.endswith("pus") else "s") for noun in nouns}
    properties = {word for family in read["families"] for word in family}
    properties.update(word for true in read["true_properties"].values() for word, _ in true)
    singulars = {plural: noun for noun, plural in plurals.items()}
    return SimpleNamespace(**read, plurals=plurals, singulars=singulars, properties=properties)


class Statement(NamedTuple):
    """One fact: of a concept (``form`` plural, Each or Every) or of one entity (``form`` ground).

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

    def of(self, entity: str) -> Statement:
        """The same predicate said of one entity."""
        return Statement(entity, self.predicate, self.negated, GROUND)

    def denied(self) -> Statement:
        """The opposite statement; a double negation is removed."""
        return self._replace(negated=not self.negated)


@lru_cache(maxsize=65536)
def _sentence(subject: str, predicate: str, negated: bool, form: str) -> str:
    maybe_not, plurals = "not " if negated else "", words().plurals
    if form == PLURAL:
        sentence = f"{plurals[subject]} are {maybe_not}{plurals.get(predicate, predicate)}."
        return sentence[0].upper() + sentence[1:]
    article = "an " if predicate[0] in "aeiou" and not predicate.startswith("eu") else "a "
    who = subject if form == GROUND else f"{form} {subject}"
    return f"{who} is {maybe_not}{article if predicate in plurals else ''}{predicate}."


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, each with its full stop."""
    return tuple(re.split(r"(?<=\.) ", text))


@lru_cache(maxsize=65536)
def parse_sentence(sentence: str) -> Statement:
    """Read one sentence; TextError for an unknown word, a wrong article, plural or capital, and any other form.

    >>> parse_sentence("Every wumpus is not hot.")
    Statement(subject='wumpus', predicate='hot', negated=True, form='Every')
    """
    if parts := _SENTENCE.fullmatch(sentence):
        quantifier, who, verb, negation, what = parts.groups()
        form = PLURAL if verb == "are" else quantifier or GROUND
        nouns = words().singulars if form == PLURAL else {}
        who, what = nouns.get(who[0].lower() + who[1:]) or nouns.get(who, who), nouns.get(what, what)
        known = what in words().plurals or what in words().properties
        if known and (_ENTITY.fullmatch(who) if form == GROUND else who in words().plurals):
            statement = Statement(who, what, negation is not None, form)
            # Said again, it must be the same to the letter: that checks articles, plurals, capitals and spaces at once.
            if statement.sentence == sentence:
                return statement
    raise TextError(
        f"'{sentence}' is no sentence of PrOntoQA: expected 'Xs are Y.', 'Each x is Y.', 'Every x is Y.' or "
        f"'Name is Y.', in its words."
    )


@typed
def step_kinds(example: Example) -> tuple[str, ...]:
    """What each sentence of the chain of thought is: ``premise``, ``rule`` or ``conclusion``, shape ``[2 hops + 1]``.

    The first statement about the entity is the premise, later ones are conclusions. Raises TextError for a sentence
    that can not be read.

    >>> chain = ("Max is a rompus.", "Rompuses are hot.", "Max is hot.")
    >>> step_kinds(Example("", "", chain, "True", 1))
    ('premise', 'rule', 'conclusion')
    """
    kinds: list[str] = []
    for sentence in example.chain_of_thought:
        rule = parse_sentence(sentence).form != GROUND
        kinds.append("rule" if rule else "conclusion" if "premise" in kinds else "premise")
    return tuple(kinds)


class Proof(NamedTuple):
    """What ``verify`` has found out.

    Attributes:
        premise: what is known of the entity at first. conclusion: the property that the chain ends with.
        rules: those that the chain of thought uses, in its order, shape ``[hops]``. context: all, in its order.
        derived: all that follows of the entity. label: whether the query follows.
        contradicting: the rule that gives the property with the other polarity, None in a context without one.
    """

    premise: Statement
    rules: tuple[Statement, ...]
    conclusion: Statement
    context: tuple[Statement, ...]
    derived: frozenset[Statement]
    contradicting: Statement | None
    label: bool


@typed
def verify(example: Example) -> Proof:
    """Check an example from its text alone and return its proof.

    Everything is parsed; all that follows from the premise is derived; the chain of thought must follow step by step
    with rules that stand word for word in the context; the query and the answer must agree with it. Raises TextError
    with the reason at the first fault.

    >>> example = Example(
    ...     "Each wumpus is not hot. Rompuses are hot. Rompuses are impuses. Max is a rompus.",
    ...     "True or false: Max is hot.",
    ...     ("Max is a rompus.", "Rompuses are hot.", "Max is hot."), "True", 1)
    >>> verify(example).contradicting.sentence
    'Each wumpus is not hot.'
    """
    sentences, chain = split_sentences(example.question), example.chain_of_thought
    *context, premise = map(parse_sentence, sentences)
    concepts, n = words().plurals, len(chain)
    _require(all(rule.form != GROUND for rule in context), "only the last sentence of a context may be of an entity")
    named = premise.form == GROUND and premise.predicate in concepts and not premise.negated
    _require(named, f"'{premise.sentence}' ends the context and is no premise 'Name is a concept.'")
    _require(n == 2 * example.hops + 1 > 1, f"{example.hops} hops and {n} sentences in the chain; expected 2 hops + 1")
    _require(chain[0] == premise.sentence, f"the chain begins with '{chain[0]}', not with '{premise.sentence}'")
    known, rules = premise, []
    for step, after in zip(chain[1::2], chain[2::2], strict=True):
        _require(step in sentences[:-1], f"'{step}' is no rule of the context")
        rule = parse_sentence(step)
        applies = rule.subject == known.predicate and not known.negated
        _require(applies, f"'{step}' does not apply to '{known.sentence}'")
        known = rule.of(premise.subject)
        _require(after == known.sentence, f"'{step}' gives '{known.sentence}', not '{after}'")
        rules.append(rule)
    _require(known.predicate not in concepts, f"the chain ends with a concept, '{known.sentence}', not with a property")
    derived, opposite = derive(context, premise), known.denied()
    _require(opposite not in derived, f"'{known.sentence}' and its opposite both follow from the context")
    asked = {QUERY + known.sentence: True, QUERY + opposite.sentence: False}
    _require(example.query in asked, f"the query is '{example.query}'; expected one of {', '.join(map(repr, asked))}")
    label = asked[example.query]
    _require(example.answer == str(label), f"the answer is '{example.answer}', and the query is {label}")
    other_way = (rule for rule in context if rule[1:3] == opposite[1:3])
    return Proof(premise, (*rules,), known, (*context,), derived, next(other_way, None), label)


def derive(rules: Sequence[Statement], premise: Statement) -> frozenset[Statement]:
    """All statements about the entity of the premise that follow from it and the rules (forward chaining).

    >>> rules = [parse_sentence("Wumpuses are rompuses."), parse_sentence("Each rompus is not hot.")]
    >>> sorted(fact.sentence for fact in derive(rules, parse_sentence("Max is a wumpus.")))
    ['Max is a rompus.', 'Max is a wumpus.', 'Max is not hot.']
    """
    derived: set[Statement] = set()
    waiting = [premise]
    while waiting:
        fact = waiting.pop()
        if fact not in derived and not fact.negated:  # "is not a wumpus" lets nothing follow by modus ponens
            waiting += [rule.of(fact.subject) for rule in rules if rule.subject == fact.predicate]
        derived.add(fact)
    return frozenset(derived)


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise TextError(f"PrOntoQA example: {otherwise}. Leave it out, or generate it again.")
