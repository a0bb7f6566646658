"""PrOntoQA (Saparov & He 2023, modus ponens; paper 1, section 5): examples and their proofs.

An example has rules about concepts, facts about entities, a query and the chain of deductions that
answers it. `verify` proves it from its text alone. It needs no list of words (see ``sentences``), so
it reads what the original's generator writes with the made-up, the true and the false ontology, with
several premises where distractors have their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rb_interp.arguments import checked
from rb_interp.errors import TextError
from rb_interp.text.sentences import (
    GROUND,
    Clause,
    Statement,
    parse_clause,
    read_clauses,
    split_sentences,
)

QUERY = "True or false: "


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
    if conclusion.is_concept:
        raise _fault(f"the chain ends with a concept, '{conclusion.sentence}', not with a property")
    opposite = conclusion.denied()
    derived = derive(context, [fact for fact in premises if fact.subject == premise.subject])
    if opposite in derived:
        raise _fault(f"'{conclusion.sentence}' and its opposite both follow from the context")
    queries = {QUERY + conclusion.sentence: True, QUERY + opposite.sentence: False}
    if example.query not in queries:
        expected = ", ".join(map(repr, queries))
        raise _fault(f"the query is '{example.query}'; expected one of {expected}")
    label = queries[example.query]
    if example.answer != str(label):
        raise _fault(f"the answer is '{example.answer}', and the query is {label}")
    contradicting = None
    for rule in context:
        if (rule.predicate, rule.negated) == (opposite.predicate, opposite.negated):
            contradicting = contradicting or rule
    return Proof(premise, rules, conclusion, context, derived, contradicting, label)


def _read_question(example: Example) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """The rules of a context, and the premises that end it."""
    clauses = [parse_clause(sentence) for sentence in split_sentences(example.question)]
    n_rules = sum(clause.form != GROUND for clause in clauses)
    statements = read_clauses(clauses, _facts(example.chain_of_thought))
    premises = statements[n_rules:]
    if any(statement.form != GROUND for statement in premises):
        raise _fault("only the last sentences of a context may be of an entity")
    last = statements[-1]
    for premise in premises or [last]:
        if premise.form != GROUND or premise.negated or not premise.is_concept:
            raise _fault(
                f"'{premise.sentence}' ends the context and is no premise 'Name is a concept.'"
            )
    return tuple(statements[:n_rules]), tuple(premises)


def _facts(chain: Sequence[str]) -> list[Clause]:
    """The facts of a chain of thought; a sentence of no form is left to `verify`, which compares it."""
    facts = []
    for sentence in chain[::2]:
        try:
            clause = parse_clause(sentence)
        except TextError:
            continue
        if clause.form == GROUND:
            facts.append(clause)
    return facts


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
        rule = by_sentence[step]
        if rule.subject != known.predicate or known.negated:
            raise _fault(f"'{step}' does not apply to '{known.sentence}'")
        known = rule.of(premise.subject)
        if after != known.sentence:
            raise _fault(f"'{step}' gives '{known.sentence}', not '{after}'")
        rules.append(rule)
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
    for rule in rules:
        by_subject.setdefault(rule.subject, []).append(rule)
    derived = set()
    waiting = list(facts)
    while waiting:
        known = waiting.pop()
        # "is not a wumpus" lets nothing follow by modus ponens
        if known not in derived and not known.negated:
            waiting += [rule.of(known.subject) for rule in by_subject.get(known.predicate, ())]
        derived.add(known)
    return frozenset(derived)


def _fault(reason: str) -> TextError:
    return TextError(f"PrOntoQA example: {reason}. Leave it out, or generate it again.")
