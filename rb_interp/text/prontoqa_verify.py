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

QUERY = "True or false: "
STEP_KINDS = ("premise", "rule", "conclusion")

_ENTITY = re.compile(r"[A-Z][a-z]*|[0-9]+")
_ADVICE = "Leave this example out, or generate it again."


@dataclass(frozen=True)
class Proof:
    """What ``verify`` has found out.

    Attributes:
        premise: what is known of the entity at first.
        rules: those that the chain of thought uses, in its order, shape ``[hops]``.
        conclusion: the property that the chain ends with.
        context: all rules of the context, in its order.
        derived: all that follows of the entity.
        contradicting: the rule that gives the property with the other polarity, None in a context without one.
        label: whether the query follows.
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
    said = sentence.removesuffix(".")
    first, _, rest = said.partition(" ")
    if first in (EACH, EVERY):
        subject, _, predicate = rest.partition(" is ")
        return Statement(_concept(subject, sentence), *_literal(predicate, sentence), first)
    subject, verb, predicate = said.partition(" are ")
    if verb:
        return Statement(_concept(subject, sentence, plural=True), *_literal(predicate, sentence, plural=True), PLURAL)
    subject, verb, predicate = said.partition(" is ")
    if verb and _ENTITY.fullmatch(subject):
        return Statement(subject, *_literal(predicate, sentence), GROUND)
    raise TextError(
        f"sentence '{sentence}' has none of the forms 'Xs are Y.', 'Each x is Y.', 'Every x is Y.' and 'Name is Y.'; "
        f"only PrOntoQA of modus ponens can be used."
    )


def _concept(noun: str, sentence: str, plural: bool = False) -> str:
    """The singular of a noun. The noun may begin with a capital."""
    known = words().singulars if plural else words().plurals
    for form in (noun, noun[:1].lower() + noun[1:]):
        if form in known:
            return known[form] if plural else form
    raise TextError(f"sentence '{sentence}' speaks of '{noun}', which is no concept of PrOntoQA.")


def _literal(predicate: str, sentence: str, plural: bool = False) -> tuple[str, bool]:
    word = predicate.removeprefix("not ")
    noun = words().singulars.get(word) if plural else re.sub(r"^an? ", "", word)
    if noun in words().plurals and (plural or noun != word):
        return noun, word != predicate
    if word not in words().properties:
        raise TextError(f"sentence '{sentence}' says '{word}', which is no concept and no property of PrOntoQA.")
    return word, word != predicate


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
    context, premise = _context(example)
    rules = _chain(example, premise)
    conclusion = rules[-1].of(premise.subject)
    derived = derive(context, premise)
    if conclusion.denied() in derived:
        raise _refused("question", example.question, f"it lets both '{conclusion.sentence}' and its opposite follow")
    label = _label(example, conclusion)
    contradicting = _contradicting(example, context, conclusion, distractors)
    return Proof(premise, rules, conclusion, context, derived, contradicting, label)


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


def _refused(what: str, sentence: str, why: str) -> TextError:
    return TextError(f"PrOntoQA example, {what} '{sentence}': {why}. {_ADVICE}")


def _context(example: Example) -> tuple[tuple[Statement, ...], Statement]:
    sentences = split_sentences(example.question)
    statements = tuple(map(parse_sentence, sentences))
    for sentence, statement in zip(sentences[:-1], statements, strict=False):
        if not statement.is_rule:
            raise _refused("context", sentence, "only the last sentence of a context may speak of an entity")
    if statements[-1].is_rule or not statements[-1].names_concept or statements[-1].negated:
        raise _refused("context", sentences[-1], "the last sentence must be the premise 'Name is a concept.'")
    return statements[:-1], statements[-1]


def _chain(example: Example, premise: Statement) -> tuple[Statement, ...]:
    chain = example.chain_of_thought
    if len(chain) != 2 * example.hops + 1 or example.hops < 1:
        raise TextError(
            f"PrOntoQA example of {example.hops} hops: {len(chain)} sentences in the chain of thought; "
            f"expected 2 hops + 1 with hops of at least 1. {_ADVICE}"
        )
    context = set(split_sentences(example.question)[:-1])
    known = parse_sentence(chain[0])
    if known != premise:
        raise _refused("step 0", chain[0], f"it is not the premise '{premise.sentence}'")
    rules: list[Statement] = []
    for at in range(1, len(chain), 2):
        rule = parse_sentence(chain[at])
        if chain[at] not in context:
            raise _refused(f"step {at}", chain[at], "no rule of the context reads like this")
        if rule.subject != known.predicate:
            raise _refused(f"step {at}", chain[at], f"it does not apply to '{known.sentence}'")
        known = rule.of(known.subject)
        if chain[at + 1] != known.sentence:
            raise _refused(f"step {at + 1}", chain[at + 1], f"the rule before it gives '{known.sentence}'")
        rules.append(rule)
    if known.names_concept:
        raise _refused(f"step {len(chain) - 1}", chain[-1], "a chain must end with a property, not with a concept")
    return tuple(rules)


def _label(example: Example, conclusion: Statement) -> bool:
    query = example.query
    asked = parse_sentence(query.removeprefix(QUERY))
    if not query.startswith(QUERY) or asked not in (conclusion, conclusion.denied()):
        raise _refused(
            "query", query, f"expected '{QUERY}' and '{conclusion.sentence}' or '{conclusion.denied().sentence}'"
        )
    label = asked == conclusion
    if example.answer != str(label):
        raise _refused("answer", example.answer, f"the query '{query}' is {label}, for '{conclusion.sentence}'")
    return label


def _contradicting(
    example: Example, context: Sequence[Statement], conclusion: Statement, distractors: bool
) -> Statement | None:
    said = [rule for rule in context if rule.predicate == conclusion.predicate]
    same = [rule for rule in said if rule.negated == conclusion.negated]
    opposite = [rule for rule in said if rule.negated != conclusion.negated]
    # Prime numbers and Mersenne primes of the true ontology can share their property.
    subjects = {rule.subject for rule in same}
    shared = conclusion.predicate in words().shared_properties and len(subjects) == len(same) == 2
    if not (len(same) == 1 or shared) or len(opposite) != int(distractors):
        raise _refused(
            "question",
            example.question,
            f"'{conclusion.predicate}' is said {len(same)} times as in the conclusion and {len(opposite)} times "
            f"the other way; expected 1 and {int(distractors)}",
        )
    return opposite[0] if opposite else None
