"""PrOntoQA (Saparov & He 2023, v1 of the generator, modus ponens; paper 1, section 5): examples,
proofs, a generator.

A sentence states one fact, a `Statement`. Three forms say it of every member of a concept
("Wumpuses are hot.", "Each wumpus is hot.", "Every wumpus is hot."). A fourth form says it of a
single entity ("Max is hot."). `verify` shares only the words and the forms with the generator.
Concepts are the made-up ones of the original's fictional ontology.

An example has a chain of concepts, one deduction up it, and a query. The original draws a chain, a
start and a walk, and throws everything away unless the walk uses exactly ``hops`` rules. That is
rare for many hops, so here the same distribution is drawn at once. With w = .3 for a plain and .7
for a negated property, a walk goes on past a concept with probability 1 / (1 + w) and ends there
with w / (1 + w), independently of everything else. Whether a walk is kept therefore depends on the
polarities alone, and given that it is kept:

- the depth of the chain is its first law given depth >= hops, and the start uniform over depths
  hops, ..., depth;
- a passed concept has each literal with its first weight times 1 / (1 + w), the last one w / (1 +
  w);
- all other concepts have the first weights: 1 for a plain literal, 1/2 for a negated one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rb_interp.arguments import checked
from rb_interp.errors import TextError
from rb_interp.text.task import TextTask

PLURAL, EACH, EVERY, GROUND = "plural", "Each", "Every", "ground"
FORMS = (PLURAL, PLURAL, EACH, EVERY)
"""Half of the rules are plural, a quarter each are of the others."""
QUERY = "True or false: "
ENTITIES = ("Fae", "Rex", "Sally", "Max", "Alex", "Sam", "Polly", "Stella", "Wren")
CONCEPTS = (
    "wumpus",
    "yumpus",
    "zumpus",
    "dumpus",
    "rompus",
    "numpus",
    "tumpus",
    "vumpus",
    "impus",
    "jompus",
)
FAMILIES = [
    ["blue", "red", "brown", "orange"],
    ["small", "large"],
    ["metallic", "wooden", "luminous", "liquid"],
    ["transparent", "opaque"],
    ["nervous", "happy", "feisty", "shy"],
    ["bright", "dull"],
    ["sweet", "sour", "spicy", "bitter"],
    ["floral", "fruity", "earthy"],
    ["hot", "cold", "temperate"],
    ["kind", "mean", "angry", "amenable", "aggressive"],
]
"""Families of properties; a concept has at most one property of each."""
PLURALS = {concept: f"{concept}es" for concept in CONCEPTS}
PROPERTIES = {word for family in FAMILIES for word in family}
DRAW = {False: 0.3, True: 0.7}
"""How much a plain and a negated property draw the walk to end at it; going on to the parent draws
it with 1."""

_SENTENCE = re.compile(r"(?:(Each|Every) )?(.+?) (is|are) (not )?(?:an? )?(.+)\.")
_ENTITY = re.compile(r"[A-Z][a-z]*")


@checked
@dataclass(frozen=True)
class Example:
    """A question that a chain of deductions answers.

    Attributes:
        question: the context: its rules, then the premise, one space between sentences.
        query: ``"True or false: "`` and the statement asked about.
        chain_of_thought: the 2 hops + 1 sentences of the proof: the premise, then a rule and its
            conclusion a hop.
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
        """The whole document that a model is trained on: prompt, chain of thought and answer, as in
        the original."""
        return f"{self.prompt} {' '.join(self.chain_of_thought)} {self.answer}"


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
    maybe_not = "not " if negated else ""
    if form == PLURAL:
        return (
            f"{PLURALS[subject].capitalize()} are {maybe_not}{PLURALS.get(predicate, predicate)}."
        )
    article = "" if predicate not in PLURALS else "an " if predicate[0] in "aeiou" else "a "
    return (
        f"{subject if form == GROUND else f'{form} {subject}'} is {maybe_not}{article}{predicate}."
    )


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, each with its full stop."""
    return tuple(re.split(r"(?<=\.) ", text))


@lru_cache(maxsize=65536)
def parse_sentence(sentence: str) -> Statement:
    """Read one sentence; TextError for an unknown word, a wrong article, plural or capital, and any
    other form.

    >>> parse_sentence("Every wumpus is not hot.")
    Statement(subject='wumpus', predicate='hot', negated=True, form='Every')
    """
    if parts := _SENTENCE.fullmatch(sentence):
        quantifier, who, verb, negation, what = parts.groups()
        form = PLURAL if verb == "are" else quantifier or GROUND
        if form == PLURAL:
            who, what = who.lower().removesuffix("es"), what.removesuffix("es")
        known = what in PLURALS or what in PROPERTIES
        if known and (_ENTITY.fullmatch(who) if form == GROUND else who in PLURALS):
            statement = Statement(who, what, negation is not None, form)
            # Said again, it must be the same to the letter: that checks articles, plurals, capitals
            # and spaces at once.
            if statement.sentence == sentence:
                return statement
    raise TextError(
        f"'{sentence}' is no sentence of PrOntoQA: expected 'Xs are Y.', 'Each x is Y.', 'Every x "
        f"is Y.' or "
        f"'Name is Y.', in its words."
    )


@checked
def step_kinds(example: Example) -> tuple[str, ...]:
    """What each sentence of the chain of thought is: ``premise``, ``rule`` or ``conclusion``, shape
    ``[2 hops + 1]``.

    Raises TextError for a sentence that cannot be read.

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

    ``rules`` are those that the chain of thought uses, ``context`` all, ``derived`` what follows of
    the entity, and ``contradicting`` is the rule that gives the property with the other polarity.
    """

    premise: Statement
    rules: tuple[Statement, ...]
    conclusion: Statement
    context: tuple[Statement, ...]
    derived: frozenset[Statement]
    contradicting: Statement | None
    label: bool


@checked
def verify(example: Example) -> Proof:
    """Check an example from its text alone and return its proof; TextError with the reason at the
    first fault.

    The chain of thought must follow step by step with rules that stand word for word in the
    context.

    >>> example = Example(
    ...     "Each wumpus is not hot. Rompuses are hot. Rompuses are impuses. Max is a rompus.",
    ...     "True or false: Max is hot.",
    ...     ("Max is a rompus.", "Rompuses are hot.", "Max is hot."), "True", 1)
    >>> verify(example).contradicting.sentence
    'Each wumpus is not hot.'
    """
    sentences, chain = split_sentences(example.question), example.chain_of_thought
    *context, premise = map(parse_sentence, sentences)
    n = len(chain)
    _require(
        all(rule.form != GROUND for rule in context),
        "only the last sentence of a context may be of an entity",
    )
    named = premise.form == GROUND and premise.predicate in PLURALS and not premise.negated
    _require(named, f"'{premise.sentence}' ends the context and is no premise 'Name is a concept.'")
    _require(
        n == 2 * example.hops + 1 > 1,
        f"{example.hops} hops and {n} sentences in the chain; expected 2 hops + 1",
    )
    _require(
        chain[0] == premise.sentence,
        f"the chain begins with '{chain[0]}', not with '{premise.sentence}'",
    )
    known, rules = premise, []
    for step, after in zip(chain[1::2], chain[2::2], strict=True):
        _require(step in sentences[:-1], f"'{step}' is no rule of the context")
        rule = parse_sentence(step)
        applies = rule.subject == known.predicate and not known.negated
        _require(applies, f"'{step}' does not apply to '{known.sentence}'")
        known = rule.of(premise.subject)
        _require(after == known.sentence, f"'{step}' gives '{known.sentence}', not '{after}'")
        rules.append(rule)
    _require(
        known.predicate not in PLURALS,
        f"the chain ends with a concept, '{known.sentence}', not with a property",
    )
    derived, opposite = derive(context, premise), known.denied()
    _require(
        opposite not in derived, f"'{known.sentence}' and its opposite both follow from the context"
    )
    asked = {QUERY + known.sentence: True, QUERY + opposite.sentence: False}
    _require(
        example.query in asked,
        f"the query is '{example.query}'; expected one of {', '.join(map(repr, asked))}",
    )
    label = asked[example.query]
    _require(
        example.answer == str(label), f"the answer is '{example.answer}', and the query is {label}"
    )
    other_way = (rule for rule in context if rule[1:3] == opposite[1:3])
    return Proof(premise, (*rules,), known, (*context,), derived, next(other_way, None), label)


def derive(rules: Sequence[Statement], premise: Statement) -> frozenset[Statement]:
    """All statements about the entity of the premise that follow from it and the rules (forward
    chaining).

    >>> rules = [parse_sentence("Wumpuses are rompuses."), parse_sentence("Each rompus is not hot.")]
    >>> sorted(fact.sentence for fact in derive(rules, parse_sentence("Max is a wumpus.")))
    ['Max is a rompus.', 'Max is a wumpus.', 'Max is not hot.']
    """
    derived: set[Statement] = set()
    waiting = [premise]
    while waiting:
        fact = waiting.pop()
        if (
            fact not in derived and not fact.negated
        ):  # "is not a wumpus" lets nothing follow by modus ponens
            waiting += [rule.of(fact.subject) for rule in rules if rule.subject == fact.predicate]
        derived.add(fact)
    return frozenset(derived)


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise TextError(f"PrOntoQA example: {otherwise}. Leave it out, or generate it again.")


@checked
def generate(
    n: int, seed: int, hops: Sequence[int] = (1, 2, 3, 4, 5), ordering: str = "random"
) -> list[Example]:
    """Draw ``n`` PrOntoQA examples: as many of each number of hops as possible, in random order.

    A contradicting rule about another concept makes that the label cannot be read off a word.
    Raises ConfigError if a setting is out of range.

    Args:
        seed: together with the other settings it decides every draw.
        hops: numbers of rules that a proof may use: 1 to 8.
        ordering: of the rules in the context: ``random``, ``preorder`` (root first) or
            ``postorder`` (root last).

    >>> example = generate(1, seed=0, hops=(1,))[0]
    >>> example.question
    'Each vumpus is happy. Every impus is not orange. ... Tumpuses are liquid. Sam is a numpus.'
    >>> example.chain_of_thought
    ('Sam is a numpus.', 'Every numpus is not large.', 'Sam is not large.')
    >>> example.query, example.answer
    ('True or false: Sam is large.', 'False')
    """
    task = TextTask(hops=tuple(hops), ordering=ordering)  # pyright: ignore[reportArgumentType] (it says what is wrong)
    hops = task.hops
    rng = random.Random(repr((int(seed), hops, task.ontology, ordering, True)))
    wanted = [hops[at % len(hops)] for at in range(n)]
    rng.shuffle(wanted)
    return [_example(rng, n, ordering) for n in wanted]


def _example(rng: random.Random, hops: int, ordering: str) -> Example:
    # A chain of concepts stops growing with probability q / 2, q = 1 / (hops + 2), or where
    # concepts run out.
    stop, depth = 0.5 / (hops + 2), hops
    while depth < len(CONCEPTS) - 2 and rng.random() >= stop:
        depth += 1
    start = rng.randint(
        hops, depth
    )  # of the walk, which ends after as many rules as there are hops
    end = start - hops + 1
    contradicting, *concepts = rng.sample(CONCEPTS, depth + 2)
    literals: list[
        tuple[str, bool]
    ] = []  # the property of each but the root, and whether it is negated
    for at, family in enumerate(rng.sample(FAMILIES, depth), start=1):
        weights = []
        for first, draw in ((1.0, DRAW[False]), (0.5, DRAW[True])):
            weights.append(
                first
                * (draw / (1 + draw) if at == end else 1 / (1 + draw) if end < at <= start else 1.0)
            )
        literals.append((rng.choice(family), rng.random() * sum(weights) < weights[1]))
    entity = rng.choice(ENTITIES)
    rules: list[Statement] = []
    for child, parent, literal in zip(concepts[1:], concepts, literals, strict=False):
        rules += [Statement(child, parent, False, PLURAL), Statement(child, *literal, PLURAL)]
    rules = rules if ordering == "preorder" else rules[::-1]
    rules = [rule._replace(form=rng.choice(FORMS)) for rule in rules]
    by_words = {(rule.subject, rule.predicate): rule for rule in rules}
    word, negated = literals[end - 1]
    steps = [
        by_words[step]
        for step in (*pairwise(concepts[start : end - 1 : -1]), (concepts[end], word))
    ]
    if ordering == "random":
        rng.shuffle(rules)
    place = rng.randrange(len(rules) + 1)
    rules.insert(place, Statement(contradicting, word, not negated, rng.choice(FORMS)))
    premise = Statement(entity, concepts[start], False, GROUND).sentence
    thoughts = [premise]
    for rule in steps:
        thoughts += [rule.sentence, rule.of(entity).sentence]
    holds, asked = rng.random() < 0.5, steps[-1].of(entity)
    question = " ".join([*(rule.sentence for rule in rules), premise])
    query = f"{QUERY}{(asked if holds else asked.denied()).sentence}"
    return Example(question, query, tuple(thoughts), str(holds), hops)
