"""PrOntoQA examples: a chain of concepts, one deduction up it, and a query (Saparov & He 2023; paper 1, section 5).

The original draws a chain, a start and a walk, and throws everything away unless the walk uses exactly ``hops`` rules.
That is rare for many hops, so here the same distribution is drawn at once. With w = .3 for a plain and .7 for a negated
property, a walk goes on past a concept with probability 1 / (1 + w) and ends there with w / (1 + w), independently
of everything else. Whether a walk is kept therefore depends on the polarities alone, and given that it is kept:

- the depth of the chain is its first law given depth >= hops, and the start uniform over depths hops, ..., depth;
- a passed concept has each literal with its first weight times 1 / (1 + w), the last one w / (1 + w);
- all other concepts have the first weights: 1 for a plain literal, 1/2 for a negated one.

In the true ontology the branch and the start carry the product of these factors as their weight.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from rb_interp.text.config import TextConfig
from rb_interp.text.examples import EACH, EVERY, GROUND, PLURAL, QUERY, Example, Statement, words
from rb_interp.typed import typed

FORMS = (PLURAL, PLURAL, EACH, EVERY)
"""Half of the rules are plural, a quarter each are of the others."""
DRAW = {False: 0.3, True: 0.7}
"""How much a plain and a negated property draw the walk to end at it; going on to the parent draws it with 1."""

Literal = tuple[str, bool]
"""A property, and whether it is negated."""


class Chain(NamedTuple):
    """A chain of concepts and the deduction drawn on it.

    Attributes:
        concepts: root first. literals: the property of each, None where it has none.
        start, end: depths of the concept that the premise names, and of the one whose property is concluded.
        entity: whom the deduction speaks of. other: the concept of the contradicting rule.
    """

    concepts: tuple[str, ...]
    literals: tuple[Literal | None, ...]
    start: int
    end: int
    entity: str
    other: str


@typed
def generate(
    n: int,
    seed: int,
    hops: Sequence[int] = (1, 2, 3, 4, 5),
    ontology: str = "fictional",
    ordering: str = "random",
) -> list[Example]:
    """Draw ``n`` PrOntoQA examples: as many of each number of hops as possible, in random order.

    Follows version 1 of the original (ten concepts, a contradicting rule about another concept, so that the label
    cannot be read off a word). ``verify`` proves each example. Raises ConfigError if a setting is out of range.

    Args:
        seed: together with the other settings it decides every draw.
        hops: numbers of rules that a proof may use: 1 to 8, and 1 to 5 in the true ontology.
        ontology: names of the concepts: ``fictional``, ``true`` (real chains, true statements) or ``false``
            (real names in random order).
        ordering: of the rules in the context: ``random``, ``preorder`` (root first) or ``postorder`` (root last).

    >>> example = generate(1, seed=0, hops=(1,))[0]
    >>> example.question
    'Each vumpus is happy. Every impus is not orange. ... Tumpuses are liquid. Sam is a numpus.'
    >>> example.chain_of_thought
    ('Sam is a numpus.', 'Every numpus is not large.', 'Sam is not large.')
    >>> example.query, example.answer
    ('True or false: Sam is large.', 'False')
    """
    hops = TextConfig.preset("quick", hops=tuple(hops), ontology=ontology, ordering=ordering).hops
    rng = random.Random(repr((int(seed), hops, ontology, ordering, True)))
    wanted = [hops[at % len(hops)] for at in range(n)]
    rng.shuffle(wanted)
    chains = (_true_chain(rng, n) if ontology == "true" else _random_chain(rng, n, ontology) for n in wanted)
    return [_example(rng, chain, ordering) for chain in chains]


def _example(rng: random.Random, chain: Chain, ordering: str) -> Example:
    rules: list[Statement] = []
    for depth, (concept, literal) in enumerate(zip(chain.concepts, chain.literals, strict=True)):
        parent = [(chain.concepts[depth - 1], False)] if depth else []
        rules += [Statement(concept, *said, PLURAL) for said in (*parent, literal) if said is not None]
    rules = rules if ordering == "preorder" else rules[::-1]
    rules = [rule._replace(form=rng.choice(FORMS)) for rule in rules]
    by_words = {(rule.subject, rule.predicate): rule for rule in rules}
    concepts, concluded = chain.concepts, chain.literals[chain.end]
    assert concluded is not None, "a walk ends at a concept with a property"
    word, negated = concluded
    up = pairwise(concepts[chain.start : chain.end - 1 : -1])
    steps = [by_words[step] for step in (*up, (concepts[chain.end], word))]
    if ordering == "random":
        rng.shuffle(rules)
    place = rng.randrange(len(rules) + 1)
    rules.insert(place, Statement(chain.other, word, not negated, rng.choice(FORMS)))
    premise = Statement(chain.entity, concepts[chain.start], False, GROUND).sentence
    thoughts = [premise]
    for rule in steps:
        thoughts += [rule.sentence, rule.of(chain.entity).sentence]
    holds, asked = rng.random() < 0.5, steps[-1].of(chain.entity)
    question = " ".join([*(rule.sentence for rule in rules), premise])
    query = f"{QUERY}{(asked if holds else asked.denied()).sentence}"
    return Example(question, query, tuple(thoughts), str(holds), len(steps))


def _random_chain(rng: random.Random, hops: int, ontology: str) -> Chain:
    """A chain of shuffled names; one name is kept for the contradicting rule."""
    names = rng.choice(words().false_concepts) if ontology == "false" else words().concepts
    # A chain stops growing with probability q / 2, q = 1 / (hops + 2), or where names run out.
    stop, depth = 0.5 / (hops + 2), hops
    while depth < len(names) - 2 and rng.random() >= stop:
        depth += 1
    start = rng.randint(hops, depth)
    end = start - hops + 1
    other, *concepts = rng.sample(names, depth + 2)
    literals: list[Literal] = []
    for at, family in enumerate(rng.sample(words().families, depth), start=1):
        plain, negated = _factor(False, at, start, end), 0.5 * _factor(True, at, start, end)
        literals.append((rng.choice(family), rng.random() * (plain + negated) < negated))
    return Chain(tuple(concepts), (None, *literals), start, end, rng.choice(words().entities), other)


def _factor(negated: bool, depth: int, start: int, end: int) -> float:
    """How a property's chance changes with what the walk does at its concept: ends there, passes it, or neither."""
    draw = DRAW[negated]
    return draw / (1 + draw) if depth == end else 1 / (1 + draw) if end < depth <= start else 1.0


def _true_chain(rng: random.Random, hops: int) -> Chain:
    places, bounds = _true_places(hops)
    at = rng.random() * bounds[-1]
    which, start = next(place for place, bound in zip(places, bounds, strict=True) if at < bound)
    concepts, end = _true_concepts(which, hops), start - hops + 1
    literals: list[Literal | None] = []
    for depth, concept in enumerate(concepts):
        options = words().true_properties.get(concept, ())
        weights = [_factor(negated, depth, start, end) for _, negated in options]
        literals.append(rng.choices(options, weights)[0] if options else None)
    concluded = literals[end]
    assert concluded is not None, "a walk ends at a concept with a property"
    entity = rng.choice(words().prime_entities if concepts[0] == "number" else words().entities)
    return Chain(concepts, tuple(literals), start, end, entity, words().contradicted_by[concluded[0]])


@lru_cache(maxsize=8)
def _true_places(hops: int) -> tuple[list[tuple[int, int]], list[float]]:
    """The (branch, start) of which a walk of ``hops`` rules is possible, and their cumulative weights."""
    places, weights = [], []
    for which in range(len(words().true_chains)):
        concepts = _true_concepts(which, hops)
        for start in range(hops, len(concepts)):
            end, weight = start - hops + 1, 1 / (len(concepts) - hops)
            for depth in range(end, start + 1):
                options = words().true_properties.get(concepts[depth], ())
                factors = [_factor(negated, depth, start, end) for _, negated in options]
                # Without a property a walk can pass and can not end.
                weight *= sum(factors) / len(factors) if factors else float(depth != end)
            places.append((which, start))
            weights.append(weight)
    return places, list(accumulate(weights))


def _true_concepts(which: int, hops: int) -> tuple[str, ...]:
    return tuple(concept for concept, least in words().true_chains[which] if hops >= least)
