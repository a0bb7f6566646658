"""Whether a PrOntoQA example is right, from its text alone: every sentence is parsed and the proof is done again.

Shares only the words and the sentence forms with the generator. Written against Saparov & He (2023), v1, modus ponens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rb_interp.errors import TextError
from rb_interp.text.example import Example
from rb_interp.text.prontoqa_words import EACH, EVERY, GROUND, PLURAL, Statement, words
from rb_interp.typed import typed

QUERY = "True or false: "

_ENTITY = re.compile(r"[A-Z][a-z]*|[0-9]+")
_ADVICE = "Leave this example out, or generate it again."


@dataclass(frozen=True)
class Proof:
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

    @property
    def hops(self) -> int:
        """Number of rules that the chain of thought uses."""
        return len(self.rules)


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, each with its full stop.

    >>> split_sentences("Wumpuses are hot. Max is a wumpus.")
    ('Wumpuses are hot.', 'Max is a wumpus.')
    """
    return tuple(re.split(r"(?<=\.) ", text))


@typed
@lru_cache(maxsize=65536)
def parse_sentence(sentence: str) -> Statement:
    """Read one sentence of PrOntoQA.

    Raises TextError for an unknown word, a wrong article, plural or capital, and any other form (``All``, ``No``).

    >>> parse_sentence("Every wumpus is not hot.")
    Statement(subject='wumpus', predicate='hot', negated=True, form='Every')
    >>> parse_sentence("Painted ladies are butterflies.")
    Statement(subject='painted lady', predicate='butterfly', negated=False, form='plural')
    """
    statement = _read(sentence)
    # Said again, it must be the same to the letter: that checks articles, plurals, capitals and spaces at once.
    if statement.sentence != sentence:
        raise TextError(f"sentence '{sentence}' should read '{statement.sentence}'. Correct it, or leave its text out.")
    return statement


def _read(sentence: str) -> Statement:
    text = sentence.removesuffix(".")
    form, _, rest = text.partition(" ")
    if form not in (EACH, EVERY):
        form, rest = PLURAL if " are " in text else GROUND, text
    plural = form == PLURAL
    subject, verb, predicate = rest.partition(" are " if plural else " is ")
    if form != GROUND:
        subject = _concept(subject, sentence, plural)
    elif not verb or not _ENTITY.fullmatch(subject):
        raise TextError(
            f"sentence '{sentence}' has none of the forms 'Xs are Y.', 'Each x is Y.', 'Every x is Y.' and "
            f"'Name is Y.'; only PrOntoQA of modus ponens can be used."
        )
    return Statement(subject, *_literal(predicate, sentence, plural), form)


def _concept(noun: str, sentence: str, plural: bool) -> str:
    """The singular of a noun. The noun may begin with a capital."""
    known = words().singulars if plural else words().plurals
    form = noun if noun in known else noun[:1].lower() + noun[1:]
    if form not in known:
        raise TextError(f"sentence '{sentence}' speaks of '{noun}', which is no concept of PrOntoQA.")
    return known[form] if plural else form


def _literal(predicate: str, sentence: str, plural: bool) -> tuple[str, bool]:
    word = predicate.removeprefix("not ")
    noun = words().singulars.get(word) if plural else re.sub(r"^an? ", "", word)
    if noun in words().plurals and (plural or noun != word):
        return noun, word != predicate
    if word not in words().properties:
        raise TextError(f"sentence '{sentence}' says '{word}', which is no concept and no property of PrOntoQA.")
    return word, word != predicate


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
        rule = parse_sentence(sentence).is_rule
        kinds.append("rule" if rule else "conclusion" if "premise" in kinds else "premise")
    return tuple(kinds)


@typed
def verify(example: Example, distractors: bool = True) -> Proof:
    """Check an example and return its proof; ``distractors``: whether its context has a contradicting rule.

    Everything is parsed; all that follows from the premise is derived; the chain of thought must follow step by step
    with rules that stand word for word in the context; the query and the answer must agree with it; the property of
    the conclusion must stand in the context exactly once with each polarity. Raises TextError with the sentence and
    the reason at the first fault.

    >>> example = Example(
    ...     "Each wumpus is not hot. Rompuses are hot. Rompuses are impuses. Max is a rompus.",
    ...     "True or false: Max is hot.",
    ...     ("Max is a rompus.", "Rompuses are hot.", "Max is hot."), "True", 1)
    >>> verify(example).contradicting.sentence
    'Each wumpus is not hot.'
    """
    sentences = split_sentences(example.question)
    *context, premise = map(parse_sentence, sentences)
    for sentence, rule in zip(sentences[:-1], context, strict=True):
        _require(rule.is_rule, "context", sentence, "only the last sentence of a context may speak of an entity")
    named = not premise.is_rule and premise.names_concept and not premise.negated
    _require(named, "context", sentences[-1], "the last sentence must be the premise 'Name is a concept.'")
    rules, conclusion = _chain(example, sentences[:-1], premise)
    opposite, derived = conclusion.denied(), derive(context, premise)
    both = f"it lets both '{conclusion.sentence}' and its opposite follow"
    _require(opposite not in derived, "question", example.question, both)
    asked = parse_sentence(example.query.removeprefix(QUERY))
    answerable = example.query.startswith(QUERY) and asked in (conclusion, opposite)
    expected = f"expected '{QUERY}' and '{conclusion.sentence}' or '{opposite.sentence}'"
    _require(answerable, "query", example.query, expected)
    label = asked == conclusion
    reason = f"the query '{example.query}' is {label}, for '{conclusion.sentence}'"
    _require(example.answer == str(label), "answer", example.answer, reason)
    contradicting = _contradicting(example, context, conclusion, distractors)
    return Proof(premise, rules, conclusion, tuple(context), derived, contradicting, label)


def derive(rules: Iterable[Statement], premise: Statement) -> frozenset[Statement]:
    """All statements about the entity of the premise that follow from it and the rules (forward chaining).

    >>> rules = [parse_sentence("Wumpuses are rompuses."), parse_sentence("Each rompus is not hot.")]
    >>> sorted(fact.sentence for fact in derive(rules, parse_sentence("Max is a wumpus.")))
    ['Max is a rompus.', 'Max is a wumpus.', 'Max is not hot.']
    """
    about: dict[str, list[Statement]] = {}
    for rule in rules:
        about.setdefault(rule.subject, []).append(rule)
    found, waiting = {premise}, [premise]
    while waiting:
        fact = waiting.pop()
        # "is not a wumpus" lets nothing follow by modus ponens.
        follows = [] if fact.negated else about.get(fact.predicate, [])
        new = {Statement(fact.subject, rule.predicate, rule.negated, GROUND) for rule in follows} - found
        found |= new
        waiting += new
    return frozenset(found)


def _require(right: bool, what: str, sentence: str, otherwise: str) -> None:
    if not right:
        raise TextError(f"PrOntoQA example, {what} '{sentence}': {otherwise}. {_ADVICE}")


def _chain(example: Example, context: Sequence[str], premise: Statement) -> tuple[tuple[Statement, ...], Statement]:
    """The rules of the chain of thought, each checked, and its conclusion."""
    chain = example.chain_of_thought
    if len(chain) != 2 * example.hops + 1 or example.hops < 1:
        raise TextError(
            f"PrOntoQA example of {example.hops} hops: {len(chain)} sentences in the chain of thought; "
            f"expected 2 hops + 1 with hops of at least 1. {_ADVICE}"
        )
    known, rules = parse_sentence(chain[0]), []
    _require(known == premise, "step 0", chain[0], f"it is not the premise '{premise.sentence}'")
    for at in range(1, len(chain), 2):
        rule, step = parse_sentence(chain[at]), f"step {at}"
        _require(chain[at] in context, step, chain[at], "no rule of the context reads like this")
        _require(rule.subject == known.predicate, step, chain[at], f"it does not apply to '{known.sentence}'")
        known = rule.of(known.subject)
        gives = f"the rule before it gives '{known.sentence}'"
        _require(chain[at + 1] == known.sentence, f"step {at + 1}", chain[at + 1], gives)
        rules.append(rule)
    ends = "a chain must end with a property, not with a concept"
    _require(not known.names_concept, f"step {len(chain) - 1}", chain[-1], ends)
    return tuple(rules), known


def _contradicting(
    example: Example, context: Sequence[Statement], conclusion: Statement, distractors: bool
) -> Statement | None:
    found = [rule for rule in context if rule.predicate == conclusion.predicate]
    same = [rule for rule in found if rule.negated == conclusion.negated]
    opposite = [rule for rule in found if rule.negated != conclusion.negated]
    # Prime numbers and Mersenne primes of the true ontology can share their property.
    subjects = {rule.subject for rule in same}
    shared = conclusion.predicate in words().shared_properties and len(subjects) == len(same) == 2
    numbers = (
        f"'{conclusion.predicate}' is said {len(same)} times as in the conclusion and {len(opposite)} times the other "
        f"way; expected 1 and {int(distractors)}"
    )
    right = (len(same) == 1 or shared) and len(opposite) == int(distractors)
    _require(right, "question", example.question, numbers)
    return opposite[0] if opposite else None
