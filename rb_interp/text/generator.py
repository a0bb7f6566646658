"""PrOntoQA's generator with the made-up ontology (v1 of Saparov & He 2023, modus ponens).

An example has a chain of concepts, one deduction up it, and a query. The original draws a chain, a
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
from collections.abc import Sequence
from itertools import pairwise

from rb_interp.arguments import checked
from rb_interp.text.prontoqa import QUERY, Example
from rb_interp.text.sentences import EACH, EVERY, PLURAL, Statement, fact, rule
from rb_interp.text.settings import TextSettings

FORMS = (PLURAL, PLURAL, EACH, EVERY)
"""Half of the rules are plural, a quarter each are of the others."""
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
    depth = _depth(rng, hops)
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


def _depth(rng: random.Random, hops: int) -> int:
    """Number of concepts above the lowest one.

    A chain stops growing with probability q / 2, q = 1 / (hops + 2), or where concepts run out.
    """
    stop = 0.5 / (hops + 2)
    depth = hops
    while depth < len(CONCEPTS) - 2 and rng.random() >= stop:
        depth += 1
    return depth


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
    entity = premise.subject
    sentences = [statement.sentence for statement in (*rules, premise)]
    chain = [premise.sentence]
    for step in steps:
        chain.append(step.sentence)
        chain.append(step.of(entity).sentence)
    conclusion = steps[-1].of(entity)
    query = conclusion if label else conclusion.denied()
    return Example(
        " ".join(sentences), f"{QUERY}{query.sentence}", tuple(chain), str(label), len(steps)
    )
