"""Examples of PrOntoQA about classes alone.

A prompt has the ten classes in two chains, each rule from one class to the next: eight rules, at
any number of hops, and at most one for each class. So a premise fixes the chain of thought, and the
query says where it ends: at a class (``Prove: Max is a yumpus.``) or after a number of steps
(``2 steps:``).

    class    the last object stands in the question, so one hop is copying
    steps    no object of the chain stands outside the rules

No class begins with a vowel, so an article tells nothing of what follows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from rb_interp.arguments import checked
from rb_interp.text.prontoqa import (
    CONCEPTS,
    ENTITIES,
    FORMS,
    GOAL,
    Example,
    steps_query,
    write_chain,
)
from rb_interp.text.sentences import Statement, fact, rule
from rb_interp.text.settings import TextSettings

CLASSES = [concept for concept in CONCEPTS if concept != "impus"] + ["lorpus"]


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
        hops: numbers of rules that a proof may use: 1 to 8.
        ordering: of the rules in the context: ``random``, or each chain ``preorder`` (root first)
            or ``postorder`` (root last).
        query: for the class at the end, or for a number of steps.

    >>> example = generate_classes(1, seed=0, hops=(2,))[0]
    >>> example.query, example.chain_of_thought[-1]
    ('Prove: Fae is a zumpus.', 'Fae is a zumpus.')
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
    rules = draw_rules(rng, classes, length)
    start = rng.randrange(length - hops)
    steps = rules[start : start + hops]
    premise = fact(rng.choice(ENTITIES), classes[start], True, False)
    chain = write_chain(premise, steps)
    text = GOAL + chain[-1] if query == "class" else steps_query(hops)
    return Example(write_question(rng, rules, premise, ordering), text, chain, "", hops)


def draw_rules(rng: random.Random, classes: Sequence[str], length: int) -> list[Statement]:
    """The rules of two chains, the first of which has ``length`` classes; lowest class first."""
    links = [*pairwise(classes[:length]), *pairwise(classes[length:])]
    return [rule(*link, True, False, rng.choice(FORMS)) for link in links]


def write_question(
    rng: random.Random, rules: Sequence[Statement], premise: Statement, ordering: str = "random"
) -> str:
    """The rules in their order, then the premise."""
    ordered = list(rules) if ordering == "postorder" else list(reversed(rules))
    if ordering == "random":
        rng.shuffle(ordered)
    return " ".join(statement.sentence for statement in (*ordered, premise))
