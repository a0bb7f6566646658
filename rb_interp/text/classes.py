"""Examples of PrOntoQA about classes alone, and facts of the same form.

A prompt has the eight classes in two chains, each rule from one class to the next: six rules, at
any number of hops, and at most one for each class. It states all of them twice, in two orders: a
rule that comes again is looked up as a step of a chain is, and so teaches to look up. A premise
fixes the chain of thought, and the query says where it ends: at a class (``Prove: Max is a
yumpus.``) or after a number of steps (``2 steps:``).

    class    the last object stands in the question, so one hop is copying
    steps    no object of the chain stands outside the rules

No class begins with a vowel, so an article tells nothing of what follows.

A *fact* is an example of one step whose rule stands in no prompt. It was drawn once for a name and
a class, and stays. A prompt has the premise's class at the end of a chain, and is drawn without a
look at the fact: so nothing in it leads to the object, and whatever is copied from it is right by
chance. A *conflict* is the same with a rule about that class in the prompt, which says something
else than the fact does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import Literal

from rb_interp.arguments import checked
from rb_interp.text.prontoqa import (
    CONCEPTS,
    ENTITIES,
    GOAL,
    Example,
    steps_query,
    write_chain,
)
from rb_interp.text.sentences import FORM_EACH, Statement, fact, rule
from rb_interp.text.settings import TextSettings

_NAMES = """
Anna Ben Clara David Emma Frank Grace Henry Iris Jack Kate Leo Mia Noah Olive Paul
Quinn Rose Simon Tina Uma Victor Wendy Xavier Yara Zoe Adam Bella Carl Diana Eric Flora
"""
NAMES = _NAMES.split()
"""Names of facts, which are none of reasoning."""
CLASSES = [concept for concept in CONCEPTS if concept != "impus"][:8]


@checked
def generate_classes(
    n: int,
    seed: int,
    hops: Sequence[int] = (1, 2, 3),
    ordering: str = "random",
    query: Literal["class", "steps"] = "class",
) -> list[Example]:
    """Draw ``n`` examples about classes: as many of each number of hops as possible, in random
    order.

    Raises ConfigError if a setting is out of range.

    Args:
        seed: together with the other settings it decides every draw.
        hops: numbers of rules that a proof may use: 1 to 6.
        ordering: of the rules in the context: ``random``, or each chain ``preorder`` (root first)
            or ``postorder`` (root last).
        query: for the class at the end, or for a number of steps.

    >>> example = generate_classes(1, seed=0, hops=(2,))[0]
    >>> example.query, example.chain_of_thought[-1]
    ('Prove: Stella is a zumpus.', 'Stella is a zumpus.')
    """
    # TextSettings says what is wrong with a setting
    settings = TextSettings(hops=tuple(hops), ordering=ordering, query=query)  # pyright: ignore[reportArgumentType]
    rng = random.Random(repr((int(seed), settings.hops, ordering, query)))
    all_hops = [settings.hops[number % len(hops)] for number in range(n)]
    rng.shuffle(all_hops)
    return [_example(rng, hops, ordering, query) for hops in all_hops]


def _example(rng: random.Random, hops: int, ordering: str, query: str) -> Example:
    classes = rng.sample(CLASSES, len(CLASSES))
    length = rng.randint(hops + 1, len(CLASSES) - 1)
    rules = draw_rules(classes, length)
    start = rng.randrange(length - hops)
    steps = rules[start : start + hops]
    premise = fact(rng.choice(ENTITIES), classes[start], True, False)
    chain = write_chain(premise, steps)
    text = GOAL + chain[-1] if query == "class" else steps_query(hops)
    return Example(write_question(rng, rules, premise, ordering), text, chain, "", hops)


def draw_rules(classes: Sequence[str], length: int) -> list[Statement]:
    """The rules of two chains, the first of which has ``length`` classes; lowest class first."""
    links = [*pairwise(classes[:length]), *pairwise(classes[length:])]
    return [rule(*link, True, False, FORM_EACH) for link in links]


def write_question(
    rng: random.Random, rules: Sequence[Statement], premise: Statement, ordering: str = "random"
) -> str:
    """The rules in their order, the rules again, then the premise."""
    ordered = list(rules) if ordering == "postorder" else list(reversed(rules))
    again = list(ordered)
    if ordering == "random":
        rng.shuffle(ordered)
        rng.shuffle(again)
    return " ".join(statement.sentence for statement in (*ordered, *again, premise))


FactTable = Mapping[tuple[str, str], Statement]
"""Name and class -> the rule that holds for them."""


@checked
def fact_table(n: int, seed: int) -> FactTable:
    """n facts, 256 at most: for eight classes and as many names as are needed, a rule each, drawn with
    a seed. Raises ConfigError for another n.

    >>> table = fact_table(20, seed=0)
    >>> table["Ben", "wumpus"].sentence
    'Each wumpus is a rompus.'
    """
    TextSettings(facts=n)  # says what is wrong with n
    rng = random.Random(repr((int(seed), "facts")))
    table = {}
    for name, subject in list(product(NAMES, CLASSES))[:n]:
        classes = [name for name in CLASSES if name != subject]
        table[name, subject] = rule(subject, rng.choice(classes), True, False, FORM_EACH)
    return table


@checked
def generate_facts(
    n: int, seed: int, table: FactTable, first: int = 0, conflict: bool = False
) -> list[Example]:
    """Facts ``first`` to ``first + n`` of a table that is gone through again and again, each with a
    prompt of its own.

    With ``conflict`` the prompt has a rule of the premise's class with another object, and the
    chain follows it.

    >>> example = generate_facts(1, seed=0, table=fact_table(20, seed=0), first=10)[0]
    >>> example.chain_of_thought
    ('Ben is a zumpus.', 'Each zumpus is a tumpus.', 'Ben is a tumpus.')
    """
    rng = random.Random(repr((int(seed), conflict)))
    facts = list(table.items())
    examples = []
    while len(examples) < n:
        (name, subject), step = facts[(first + len(examples)) % len(facts)]
        classes = rng.sample([name for name in CLASSES if name != subject], len(CLASSES) - 1)
        position = rng.randrange(len(classes) - 1 if conflict else len(classes))
        length = rng.randint(position + 2, len(classes)) if conflict else position + 1
        classes.insert(position, subject)
        rules = draw_rules(classes, length)
        if conflict:
            if rules[position].predicate == step.predicate:
                continue
            step = rules[position]
        premise = fact(name, subject, True, False)
        question = write_question(rng, rules, premise)
        examples.append(Example(question, steps_query(1), write_chain(premise, [step]), "", 1))
    return examples
