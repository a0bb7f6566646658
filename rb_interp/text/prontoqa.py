"""PrOntoQA (Saparov & He 2023, modus ponens; paper 1, section 5): examples, proofs and a generator.

An example has rules about concepts, facts about entities, a query and the chain of deductions that
answers it. `verify` proves it from its text alone. It needs no list of words (see ``sentences``), so
it reads what the original's generator writes with the made-up, the true and the false ontology, with
several premises where distractors have their own.

`generate` draws examples with the made-up ontology (v1 of the original): a chain of concepts, one
deduction up it, and a query. The original draws a chain, a
start and a walk, and throws everything away unless the walk uses exactly ``hops`` rules. That is
rare for many hops, so here the same distribution is drawn at once. With w = .3 for a plain and .7
for a negated property, a walk goes on past a concept with probability 1 / (1 + w) and ends there
with w / (1 + w), independently of everything else. Whether a walk is accepted therefore depends on
the polarities alone, and given that it is accepted:

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
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from rb_interp.arguments import checked
from rb_interp.errors import TextError
from rb_interp.text.sentences import (
    FORM_EACH,
    FORM_EVERY,
    GROUND,
    PLURAL,
    Statement,
    fact,
    parse_clause,
    read_clauses,
    rule,
    split_sentences,
)
from rb_interp.text.settings import TextSettings

QUERY = "True or false: "
GOAL = "Prove: "
"""Before the class that a chain is to come to."""
_STEPS = re.compile(r"\d+ steps?:")


@checked
@dataclass(frozen=True)
class Example:
    """A question that a chain of deductions answers.

    Attributes:
        question: the context: its rules, then the premise, one space between sentences.
        query: ``"True or false: "`` and the statement asked about; or ``"Prove: "`` and the class
            that the chain ends with; or ``"2 steps:"`` alone.
        chain_of_thought: the 2 hops + 1 sentences of the proof: the premise, then a rule and its
            conclusion a hop.
        answer: ``"True"`` or ``"False"``; empty where the query asks for a chain alone.
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
        return " ".join(filter(None, (self.prompt, *self.chain_of_thought, self.answer)))


@checked
def step_kinds(example: Example) -> tuple[str, ...]:
    """Name each sentence of the chain of thought: ``premise``, ``rule`` or ``conclusion``.

    Shape ``[2 hops + 1]``. Raises TextError for a sentence that cannot be read.

    >>> chain = ("Max is a rompus.", "Rompuses are hot.", "Max is hot.")
    >>> step_kinds(Example("", "", chain, "True", 1))
    ('premise', 'rule', 'conclusion')
    """
    kinds = []
    for sentence in example.chain_of_thought:
        if parse_clause(sentence).form != GROUND:
            kinds.append("rule")
        elif "premise" in kinds:
            kinds.append("conclusion")
        else:
            kinds.append("premise")
    return tuple(kinds)


class Proof(NamedTuple):
    """The parts of a proved example.

    Attributes:
        premise: the fact that the chain of thought begins with.
        rules: those that the chain of thought uses, in its order.
        conclusion: the fact that it ends with.
        context: all rules of the question.
        derived: all facts about the entity that follow from the question.
        contradicting: the rule that gives the property with the other polarity.
        label: whether the query is true.
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
    """Prove an example from its text alone; TextError with the reason at the first fault.

    The chain of thought must follow step by step with rules that stand word for word in the
    context.

    >>> example = Example(
    ...     "Each wumpus is not hot. Rompuses are hot. Rompuses are impuses. Max is a rompus.",
    ...     "True or false: Max is hot.",
    ...     ("Max is a rompus.", "Rompuses are hot.", "Max is hot."), "True", 1)
    >>> verify(example).contradicting.sentence
    'Each wumpus is not hot.'
    """
    chain = example.chain_of_thought
    context, premises = _read_question(example)
    if not len(chain) == 2 * example.hops + 1 > 1:
        raise _fault(
            f"{example.hops} hops and {len(chain)} sentences in the chain; expected 2 hops + 1"
        )
    by_sentence = {statement.sentence: statement for statement in premises}
    if chain[0] not in by_sentence:
        expected = " or ".join(f"'{sentence}'" for sentence in by_sentence)
        raise _fault(f"the chain begins with '{chain[0]}', not with {expected}")
    premise = by_sentence[chain[0]]
    rules = _follow(chain, premise, context)
    conclusion = rules[-1].of(premise.subject)
    opposite = conclusion.denied()
    derived = derive(context, [fact for fact in premises if fact.subject == premise.subject])
    if example.query.startswith(GOAL) or _STEPS.fullmatch(example.query):
        label = True
        _check_class(example, rules, conclusion, context)
    else:
        label = _check_property(example, conclusion, opposite, derived)
    contradicting = None
    for statement in context:
        if (statement.predicate, statement.negated) == (opposite.predicate, opposite.negated):
            contradicting = contradicting or statement
    return Proof(premise, rules, conclusion, context, derived, contradicting, label)


def _check_property(
    example: Example, conclusion: Statement, opposite: Statement, derived: frozenset[Statement]
) -> bool:
    """Whether the query is true; TextError unless it asks about the property that ends the chain."""
    if conclusion.is_concept:
        raise _fault(f"the chain ends with a concept, '{conclusion.sentence}', not with a property")
    if opposite in derived:
        raise _fault(f"'{conclusion.sentence}' and its opposite both follow from the context")
    queries = {QUERY + conclusion.sentence: True, QUERY + opposite.sentence: False}
    if example.query not in queries:
        expected = ", ".join(map(repr, queries))
        raise _fault(f"the query is '{example.query}'; expected one of {expected}")
    label = queries[example.query]
    if example.answer != str(label):
        raise _fault(f"the answer is '{example.answer}', and the query is {label}")
    return label


def _check_class(
    example: Example,
    rules: Sequence[Statement],
    conclusion: Statement,
    context: Sequence[Statement],
) -> None:
    """Raise TextError unless the query names the class that ends the chain, or as many steps as it
    has and no other chain has as many."""
    if not conclusion.is_concept or conclusion.negated:
        raise _fault(f"the chain ends with '{conclusion.sentence}', not with a class")
    goal, steps = GOAL + conclusion.sentence, steps_query(len(rules))
    if example.query not in (goal, steps):
        raise _fault(f"the query is '{example.query}'; expected '{goal}' or '{steps}'")
    if example.answer:
        raise _fault(f"the answer is '{example.answer}', and the query asks for a chain alone")
    for used in rules if example.query == steps else ():
        choices = [statement.sentence for statement in context if statement.subject == used.subject]
        if len(choices) > 1:
            raise _fault(f"{' and '.join(map(repr, choices))} both apply, so no chain is the one")


def steps_query(n: int) -> str:
    """The query for a chain of n steps.

    >>> steps_query(1), steps_query(2)
    ('1 step:', '2 steps:')
    """
    return f"{n} step{'s' * (n > 1)}:"


def _read_question(example: Example) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """The rules of a context, each once, and the premises that end it."""
    clauses = [parse_clause(sentence) for sentence in split_sentences(example.question)]
    n_rules = sum(clause.form != GROUND for clause in clauses)
    facts = []
    for sentence in example.chain_of_thought[::2]:
        with suppress(TextError):  # a sentence of no form is left to `verify`, which compares it
            facts.append(parse_clause(sentence))
    facts = [clause for clause in facts if clause.form == GROUND]
    statements = read_clauses(clauses, facts)
    premises = statements[n_rules:]
    if any(statement.form != GROUND for statement in premises):
        raise _fault("only the last sentences of a context may be of an entity")
    for premise in premises or statements[-1:]:
        if premise.form != GROUND or premise.negated or not premise.is_concept:
            raise _fault(
                f"'{premise.sentence}' ends the context and is no premise 'Name is a concept.'"
            )
    return tuple(dict.fromkeys(statements[:n_rules])), tuple(premises)


def _follow(
    chain: Sequence[str], premise: Statement, context: Sequence[Statement]
) -> tuple[Statement, ...]:
    """The rules that a chain of thought uses, each of which must apply and give what it says."""
    by_sentence = {statement.sentence: statement for statement in context}
    known = premise
    rules = []
    for step, after in zip(chain[1::2], chain[2::2], strict=True):
        if step not in by_sentence:
            raise _fault(f"'{step}' is no rule of the context")
        used = by_sentence[step]
        if used.subject != known.predicate or known.negated:
            raise _fault(f"'{step}' does not apply to '{known.sentence}'")
        known = used.of(premise.subject)
        if after != known.sentence:
            raise _fault(f"'{step}' gives '{known.sentence}', not '{after}'")
        rules.append(used)
    return tuple(rules)


def derive(rules: Sequence[Statement], facts: Sequence[Statement]) -> frozenset[Statement]:
    """All facts that follow from given ones and the rules, these included (forward chaining).

    >>> from rb_interp.text.sentences import fact, rule
    >>> rules = [rule("wumpus", "rompus", True, False, "plural"), rule("rompus", "hot", False, True, "Each")]
    >>> premise = fact("Max", "wumpus", is_concept=True, negated=False)
    >>> sorted(statement.sentence for statement in derive(rules, [premise]))
    ['Max is a rompus.', 'Max is a wumpus.', 'Max is not hot.']
    """
    by_subject = {}
    for statement in rules:
        by_subject.setdefault(statement.subject, []).append(statement)
    derived = set()
    waiting = list(facts)
    while waiting:
        known = waiting.pop()
        # "is not a wumpus" lets nothing follow by modus ponens
        if known not in derived and not known.negated:
            for statement in by_subject.get(known.predicate, ()):
                waiting.append(statement.of(known.subject))
        derived.add(known)
    return frozenset(derived)


def _fault(reason: str) -> TextError:
    return TextError(f"PrOntoQA example: {reason}. Leave it out, or generate it again.")


FORMS = (PLURAL, PLURAL, FORM_EACH, FORM_EVERY)
"""Half of the rules are plural, a quarter each are of the others."""
ENTITIES = ["Fae", "Rex", "Sally", "Max", "Alex", "Sam", "Polly", "Stella", "Wren"]
CONCEPTS = [
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
]
_FAMILIES = """
blue red brown orange
small large
metallic wooden luminous liquid
transparent opaque
nervous happy feisty shy
bright dull
sweet sour spicy bitter
floral fruity earthy
hot cold temperate
kind mean angry amenable aggressive
"""
FAMILIES = [family.split() for family in _FAMILIES.strip().splitlines()]
"""Families of properties; a concept has at most one property of each."""
DRAW = {False: 0.3, True: 0.7}
"""Weight with which the walk ends at a plain or a negated property; the parent's weight is 1."""


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
    # TextSettings says what is wrong with a setting
    settings = TextSettings(hops=tuple(hops), ordering=ordering)  # pyright: ignore[reportArgumentType]
    hops = settings.hops
    rng = random.Random(repr((int(seed), hops, settings.ontology, ordering, True)))
    all_hops = [hops[number % len(hops)] for number in range(n)]
    rng.shuffle(all_hops)
    return [_example(rng, hops, ordering) for hops in all_hops]


def _example(rng: random.Random, hops: int, ordering: str) -> Example:
    depth = hops  # concepts above the lowest one
    while depth < len(CONCEPTS) - 2 and rng.random() >= 0.5 / (hops + 2):
        depth += 1
    start = rng.randint(hops, depth)
    # The walk ends after as many rules as there are hops.
    end = start - hops + 1
    contradicting, *concepts = rng.sample(CONCEPTS, depth + 2)
    literals = _literals(rng, depth, start, end)
    entity = rng.choice(ENTITIES)
    drafts = []
    for child, parent, (word, negated) in zip(concepts[1:], concepts, literals, strict=False):
        drafts.append((child, parent, True, False))
        drafts.append((child, word, False, negated))
    if ordering != "preorder":
        drafts.reverse()
    rules = [rule(*draft, rng.choice(FORMS)) for draft in drafts]
    by_terms = {(statement.subject, statement.predicate): statement for statement in rules}
    word, negated = literals[end - 1]
    path = [*pairwise(concepts[start : end - 1 : -1]), (concepts[end], word)]
    steps = [by_terms[terms] for terms in path]
    if ordering == "random":
        rng.shuffle(rules)
    position = rng.randrange(len(rules) + 1)
    rules.insert(position, rule(contradicting, word, False, not negated, rng.choice(FORMS)))
    return _written(rules, fact(entity, concepts[start], True, False), steps, rng.random() < 0.5)


def _literals(rng: random.Random, depth: int, start: int, end: int) -> list[tuple[str, bool]]:
    """The property of each concept but the root, and whether it is negated."""
    literals = []
    for position, family in enumerate(rng.sample(FAMILIES, depth), start=1):
        weights = []
        for weight, draw in ((1.0, DRAW[False]), (0.5, DRAW[True])):
            if position == end:
                weight *= draw / (1 + draw)
            elif end < position <= start:
                weight *= 1 / (1 + draw)
            weights.append(weight)
        word = rng.choice(family)
        literals.append((word, rng.random() * sum(weights) < weights[1]))
    return literals


def _written(
    rules: Sequence[Statement], premise: Statement, steps: Sequence[Statement], label: bool
) -> Example:
    """The example of these rules, whose proof takes these steps."""
    sentences = [statement.sentence for statement in (*rules, premise)]
    conclusion = steps[-1].of(premise.subject)
    query = conclusion if label else conclusion.denied()
    chain = write_chain(premise, steps)
    return Example(" ".join(sentences), QUERY + query.sentence, chain, str(label), len(steps))


def write_chain(premise: Statement, steps: Sequence[Statement]) -> tuple[str, ...]:
    """The sentences of a proof: the premise, then each rule and what it says of the entity."""
    chain = [premise.sentence]
    for step in steps:
        chain += [step.sentence, step.of(premise.subject).sentence]
    return tuple(chain)
