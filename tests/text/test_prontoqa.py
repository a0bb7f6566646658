"""Proofs are found by the text alone in any vocabulary, and planted faults are refused.

The generator of PrOntoQA beside rejection sampling and the original's examples.
"""

import os
import random
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ontologies import NOUNS, record

from rb_interp.errors import TextError
from rb_interp.text.corpora import read_prontoqa
from rb_interp.text.prontoqa import (
    CONCEPTS,
    FAMILIES,
    Example,
    derive,
    generate,
    step_kinds,
    verify,
)
from rb_interp.text.sentences import fact, rule, split_sentences

# Written by hand: rompus -> wumpus -> impus -> yumpus; wumpus has the property, numpus contradicts
# it.
RIGHT = Example(
    "Impuses are yumpuses. Every numpus is not hot. Each wumpus is hot. Impuses are shy. Every "
    "rompus is a wumpus. "
    "Wumpuses are impuses. Rompuses are not blue. Max is a rompus.",
    "True or false: Max is not hot.",
    (
        "Max is a rompus.",
        "Every rompus is a wumpus.",
        "Max is a wumpus.",
        "Each wumpus is hot.",
        "Max is hot.",
    ),
    "False",
    2,
)


def test_a_right_example_gives_its_proof():
    proof = verify(RIGHT)
    assert proof.premise == fact("Max", "rompus", is_concept=True, negated=False)
    assert [rule.sentence for rule in proof.rules] == [
        "Every rompus is a wumpus.",
        "Each wumpus is hot.",
    ]
    assert proof.conclusion.sentence == "Max is hot."
    assert proof.contradicting is not None
    assert proof.contradicting.sentence == "Every numpus is not hot."
    assert (proof.label, len(proof.context)) == (False, 7)
    assert {fact.sentence for fact in proof.derived} == {
        *("Max is a rompus.", "Max is a wumpus.", "Max is an impus.", "Max is a yumpus."),
        *("Max is not blue.", "Max is hot.", "Max is shy."),
    }
    assert step_kinds(RIGHT) == ("premise", "rule", "conclusion", "rule", "conclusion")


def chain(**changed: str) -> Example:
    return replace(
        RIGHT,
        chain_of_thought=tuple(
            changed.get(f"s{at}", s) for at, s in enumerate(RIGHT.chain_of_thought)
        ),
    )


def question(old: str, new: str) -> Example:
    assert old in RIGHT.question
    return replace(RIGHT, question=RIGHT.question.replace(old, new))


PLANTED = [
    (replace(RIGHT, answer="True"), "the answer is 'True', and the query is False"),
    (
        replace(RIGHT, query="True or false: Max is shy."),
        "expected one of 'True or false: Max is hot.', 'True or f",
    ),
    (
        chain(s0="Max is a wumpus."),
        "the chain begins with 'Max is a wumpus.', not with 'Max is a rompus.'",
    ),
    (question(" Each wumpus is hot.", ""), "'Each wumpus is hot.' is no rule of the context"),
    (chain(s1="Impuses are shy."), "'Impuses are shy.' does not apply to 'Max is a rompus.'"),
    (
        chain(s4="Max is not hot."),
        "'Each wumpus is hot.' gives 'Max is hot.', not 'Max is not hot.'",
    ),
    (
        chain(s3="Wumpuses are impuses.", s4="Max is an impus."),
        "the chain ends with a concept, 'Max is an impus.'",
    ),
    (
        question("Impuses are yumpuses.", "Max is a rompus."),
        "only the last sentences of a context may be of an entity",
    ),
    (
        question(" Max is a rompus.", ""),
        "'Rompuses are not blue.' ends the context and is no premise",
    ),
    (
        question("Impuses are shy.", "Impuses are not hot."),
        "'Max is hot.' and its opposite both follow",
    ),
]


@pytest.mark.parametrize(("example", "message"), PLANTED)
def test_planted_faults_are_refused(example, message):
    with pytest.raises(
        TextError, match=f"{re.escape(message)}.*Leave it out, or generate it again\\.$"
    ):
        verify(example)


def test_a_rule_behind_a_negated_concept_proves_nothing():
    question = (
        "Every numpus is not hot. Each rompus is not a wumpus. Each wumpus is hot. Max is a rompus."
    )
    thoughts = (
        "Max is a rompus.",
        "Each rompus is not a wumpus.",
        "Max is not a wumpus.",
        "Each wumpus is hot.",
    )
    with pytest.raises(
        TextError, match="'Each wumpus is hot.' does not apply to 'Max is not a wumpus.'"
    ):
        verify(
            Example(question, "True or false: Max is hot.", (*thoughts, "Max is hot."), "True", 2)
        )


def test_deriving_ends_on_a_circle_and_stops_at_a_negation():
    rules = [
        rule("wumpus", "rompus", True, False, "plural"),
        rule("rompus", "wumpus", True, False, "plural"),
        rule("wumpus", "impus", True, True, "plural"),
        rule("impus", "hot", False, False, "plural"),
    ]
    derived = derive(rules, [fact("Max", "wumpus", is_concept=True, negated=False)])
    assert {statement.sentence for statement in derived} == {
        "Max is a wumpus.",
        "Max is a rompus.",
        "Max is not an impus.",
    }


# Every kind of record that the original writes: ontology, hops, order, distractors.
ORDERS = ("random", "preorder", "postorder")
KINDS = [
    *product(("true",), range(1, 6), ORDERS, ("none",)),
    *product(("false", "fictional"), range(1, 9), ORDERS, ("none",)),
    *product(("true", "false", "fictional"), range(1, 6), ORDERS, ("relevant", "irrelevant")),
]


def example_of(record, hops):
    return Example(
        record["question"],
        record["query"],
        tuple(record["chain_of_thought"]),
        record["answer"],
        hops,
    )


@pytest.mark.parametrize("distractors", ["none", "relevant", "irrelevant"])
def test_records_of_every_ontology_are_proved(distractors):
    for ontology, hops, ordering, kind in KINDS:
        for seed in range(6 if kind == distractors else 0):
            example = example_of(record(seed, ontology, hops, ordering, kind), hops)
            proof = verify(example)
            assert len(proof.rules) == hops
            assert proof.label == (example.answer == "True")
            assert proof.conclusion.sentence == example.chain_of_thought[-1]
            # the label cannot be read off a word: the property is said of another concept, denied
            assert proof.contradicting is not None
            assert proof.contradicting.negated != proof.conclusion.negated
            assert len(proof.context) + (1 if kind == "none" else 2) == len(
                split_sentences(example.question)
            )


def with_step(example, number, sentence):
    chain = list(example.chain_of_thought)
    chain[number] = sentence
    return replace(example, chain_of_thought=tuple(chain))


def in_both(example, old, new):
    """A sentence exchanged in the question and in the chain."""
    chain = tuple(new if sentence == old else sentence for sentence in example.chain_of_thought)
    question = " ".join(new if s == old else s for s in split_sentences(example.question))
    return replace(example, question=question, chain_of_thought=chain)


def denied(sentence):
    """The sentence with "not" put in or taken out."""
    if " not " in sentence:
        return sentence.replace(" not ", " ")
    return re.sub(r" (is|are) ", r" \1 not ", sentence, count=1)


def mutations(example):
    """Name -> a broken example, and what its refusal says."""
    chain = example.chain_of_thought
    premise, first, last = chain[0], chain[1], chain[-1]
    entity = premise.split(" is ")[0]
    concept = premise.split(" is ")[1].split(" ", 1)[1].rstrip(".")
    other = "an ant" if concept != "ant" else "a moth"
    wrong = "True" if example.answer == "False" else "False"
    article = "a" if premise.split(" is ")[1].startswith("an ") else "an"
    wrong_article = f"{entity} is {article} {concept}."
    yield "answer", replace(example, answer=wrong), f"the answer is '{wrong}', and the query is"
    yield (
        "word of the query",
        replace(example, query=f"True or false: {entity} is purple."),
        "expected one of 'True or false: ",
    )
    yield (
        "word of the premise",
        with_step(example, 0, f"{entity} is {other}."),
        f"the chain begins with '{entity} is {other}.'",
    )
    yield (
        "word of a conclusion",
        with_step(example, 2, f"{entity} is purple."),
        f"not '{entity} is purple.'",
    )
    yield (
        "word of a rule",
        with_step(example, 1, first.replace(" ", " purple ", 1)),
        "is no rule of the context",
    )
    yield (
        "entity of a conclusion",
        with_step(example, len(chain) - 1, last.replace(entity, "Bob")),
        "not 'Bob ",
    )
    yield (
        "negation of a conclusion",
        with_step(example, len(chain) - 1, denied(last)),
        f"not '{denied(last)}'",
    )
    yield (
        "negation of a rule",
        with_step(example, len(chain) - 2, denied(chain[-2])),
        "is no rule of the context",
    )
    yield (
        "negation of a rule in both texts",
        in_both(example, chain[-2], denied(chain[-2])),
        f"not '{last}'|its opposite both follow",
    )
    yield (
        "a rule that the question lacks",
        replace(example, question=example.question.replace(f"{first} ", "", 1)),
        f"'{first}' is no rule of the context",
    )
    yield "article", in_both(example, premise, wrong_article), "is no sentence of PrOntoQA"
    yield (
        "no article",
        with_step(example, 0, f"{entity} is {concept}."),
        f"begins with '{entity} is {concept}.'",
    )
    if NOUNS[concept] != concept:  # "sheep" has one form
        plural = premise.replace(concept, NOUNS[concept])
        yield "number", in_both(example, premise, plural), "plural|does not apply"
    if example.hops > 1:
        yield (
            "a step left out",
            replace(example, chain_of_thought=(premise, *chain[3:]), hops=example.hops - 1),
            "does not apply to",
        )
        swapped = (premise, *chain[3:5], *chain[1:3], *chain[5:])
        yield "order", replace(example, chain_of_thought=swapped), "does not apply to"
        yield (
            "the last step left out",
            replace(example, chain_of_thought=chain[:-2], hops=example.hops - 1),
            "the chain ends with a concept",
        )
    yield "half a step", replace(example, chain_of_thought=chain[:-1]), "sentences in the chain"


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 10_000))
def test_a_broken_proof_is_refused_for_what_is_broken(kind, seed):
    ontology, hops, ordering, distractors = kind
    example = example_of(record(seed, ontology, hops, ordering, distractors), hops)
    verify(example)
    for name, broken, message in mutations(example):
        with pytest.raises(TextError) as refused:
            verify(broken)
        assert re.search(message, str(refused.value)), (name, str(refused.value))


# Mean sentences of 11,650 (2,500 from 6 hops on) examples of the original generator for each number
# of hops.
ORIGINAL = {1: 11.24, 2: 13.67, 3: 15.39, 4: 16.48, 5: 17.20, 6: 17.62, 7: 17.88, 8: 18.00}


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return generate(2_400, seed=0, hops=range(1, 9))


@pytest.mark.parametrize("ordering", ["random", "preorder", "postorder"])
def test_every_example_is_right_by_its_text_alone(ordering):
    proofs = [
        verify(example) for example in generate(96, seed=3, hops=range(1, 9), ordering=ordering)
    ]
    assert Counter(len(proof.rules) for proof in proofs) == dict.fromkeys(range(1, 9), 12)
    for (
        proof
    ) in proofs:  # the label cannot be read off a word: its property is said once the other way
        others = [rule for rule in proof.context if rule.predicate == proof.conclusion.predicate]
        assert sum(rule.negated != proof.conclusion.negated for rule in others) == 1
        assert len(others) == 2


@pytest.mark.parametrize(("ordering", "step"), [("preorder", 1), ("postorder", -1)])
def test_rules_stand_from_root_to_leaf_or_back(ordering, step):
    for example in generate(40, seed=1, ordering=ordering):
        proof = verify(example)
        context = [rule for rule in proof.context[::step] if rule != proof.contradicting]
        ups = [rule for rule in context if rule.is_concept]
        assert [rule.predicate for rule in ups[1:]] == [rule.subject for rule in ups[:-1]]
        order = [ups[0].predicate, *(rule.subject for rule in ups)]
        assert [order.index(used.subject) for used in context] == sorted(
            order.index(used.subject) for used in context
        )
        for before, after in pairwise(context):
            assert before.subject != after.subject or before.is_concept


def test_random_order_and_place_of_the_contradicting_rule_are_uniform():
    n, rules = 850, 16
    proofs = [verify(example) for example in generate(n, seed=2, hops=(8,))]
    for place in (
        [proof.context.index(proof.contradicting) for proof in proofs],
        [proof.context.index(proof.rules[0]) for proof in proofs],
    ):
        counts = np.bincount(place, minlength=rules + 1)
        assert len(counts) == rules + 1
        assert np.abs(counts - n / (rules + 1)).max() < 4.5 * np.sqrt(n / (rules + 1))


def plain_walk(rng, literals, start, hops):
    """Walk up as the original does; the depth at which it ends, or None where it is thrown away."""
    for used, depth in enumerate(range(start, -1, -1), start=1):
        draw = 0.0 if literals[depth] is None else 0.7 if literals[depth][1] else 0.3
        if rng.random() * (1.0 + draw) >= 1.0:
            return depth if used == hops else None
    return None


def plain_chain(rng, hops):
    """A chain and a walk by rejection of everything, without names: (depth, start, polarities above
    0, end)."""
    while True:
        literals, left = [None], 10 - 2
        while left and not (rng.random() < 1 / (hops + 2) and rng.random() < 0.5):
            options = [
                (word, negated) for word in rng.choice(FAMILIES) for negated in (False, True)
            ]
            literals.append(
                rng.choices(options, [0.5 if negated else 1.0 for _, negated in options])[0]
            )
            left -= 1
        if len(literals) <= hops:
            continue
        start = rng.randrange(hops, len(literals))
        if (end := plain_walk(rng, literals, start, hops)) is not None:
            passed = sum(literal[1] for literal in literals[end + 1 : start + 1])
            return len(literals) - 1, start, passed, literals[end][1]


def drawn_chain(example):
    proof = verify(example)
    parent = {rule.subject: rule.predicate for rule in proof.context if rule.is_concept}
    start, at = 0, proof.premise.predicate
    while at in parent:
        start, at = start + 1, parent[at]
    polarity = {rule.subject: rule.negated for rule in proof.context if not rule.is_concept}
    passed = sum(polarity[rule.subject] for rule in proof.rules[:-1])
    return len(parent), start, passed, proof.conclusion.negated


def cells_of_one_law(first, second, share=1.0):
    """Check that counts differ as Poisson counts of means m and share * m do; the number of cells
    compared."""
    cells = [cell for cell in first | second if share * first[cell] + second[cell] >= 10]
    # share * first - second has variance share * (first + second).
    excess = [(share * first[c] - second[c]) ** 2 / (share * (first[c] + second[c])) for c in cells]
    assert max(excess) < 4.5**2
    assert abs(sum(excess) - len(cells)) < 4.5 * np.sqrt(2 * len(cells))
    return len(cells)


@pytest.mark.parametrize("hops", [1, 3])
def test_direct_sampling_has_the_law_of_rejection_sampling(hops):
    n, rng = 1000, random.Random(5)
    rejected = Counter(plain_chain(rng, hops) for _ in range(n))
    direct = Counter(map(drawn_chain, generate(n, seed=5, hops=(hops,))))
    assert cells_of_one_law(rejected, direct) >= 5


def test_numbers_of_sentences_are_those_of_the_original(examples):
    for hops, published in ORIGINAL.items():
        sentences = np.array([len(split_sentences(e.question)) for e in examples if e.hops == hops])
        assert (sentences.min(), sentences.max()) == (2 * hops + 2, 18)
        # Chain of depth d: 2 d rules, the contradicting one and the premise; depth geometric, cut
        # at 8.
        depths, stop = np.arange(hops, 9), 0.5 / (hops + 2)
        law = (1 - stop) ** (depths - hops) * np.where(depths < 8, stop, 1.0)
        mean, spread = (
            law @ (2 * depths + 2),
            np.sqrt(law @ (2 * depths + 2) ** 2 - (law @ (2 * depths + 2)) ** 2),
        )
        assert abs(sentences.mean() - mean) <= 4.5 * spread / np.sqrt(len(sentences))
        assert (
            abs(published - mean) <= 4.5 * spread / np.sqrt(11_650 if hops <= 5 else 2_500) + 0.005
        )


def test_shares_are_those_of_the_original(examples):
    proofs = [verify(example) for example in examples if example.hops <= 5]
    forms = Counter(rule.form for proof in proofs for rule in proof.context)
    for form, share in {"plural": 0.5, "Each": 0.25, "Every": 0.25}.items():
        assert abs(forms[form] / forms.total() - share) < 4.5 * 0.5 / np.sqrt(forms.total())
    assert abs(np.mean([proof.label for proof in proofs]) - 0.5) < 4.5 * 0.5 / np.sqrt(len(proofs))
    assert abs(
        np.mean([proof.conclusion.negated for proof in proofs]) - 0.471
    ) < 4.5 * 0.5 / np.sqrt(len(proofs))
    # What the query's polarity tells of the answer: as much as in the original, for conclusions are
    # negated at times.
    asked_not = np.array([" not " in example.query for example in examples if example.hops <= 5])
    label = np.array([proof.label for proof in proofs])
    assert abs(label[asked_not].mean() - 0.471) < 4.5 * 0.5 / np.sqrt(asked_not.sum())
    assert abs(label[~asked_not].mean() - 0.529) < 4.5 * 0.5 / np.sqrt((~asked_not).sum())


@pytest.mark.slow
def test_every_real_example_passes_and_has_the_words_and_lengths_of_ours():
    """Counts over the original's examples and over ours are draws from one law."""
    if "RB_INTERP_DATA" not in os.environ:
        pytest.skip("RB_INTERP_DATA does not name the folder with the original's examples")
    real = read_prontoqa(Path(os.environ["RB_INTERP_DATA"]) / "prontoqa/v1_fictional_train.jsonl")
    assert Counter(example.hops for example in real) == dict.fromkeys(range(1, 6), 2_000)
    theirs, ours = map(verify, real[::4]), map(verify, generate(1_000, seed=4))
    theirs, ours = list(theirs), list(ours)
    share = len(ours) / len(theirs)
    for counted in (
        lambda p: [(len(p.rules), len(p.context))],
        lambda p: [(len(p.rules), p.conclusion.negated, p.label)],
        lambda p: [p.premise],
        lambda p: [p.conclusion.predicate],
        lambda p: [used.form for used in p.rules],
        lambda p: [p.contradicting.subject],
        lambda p: [(len(p.rules), len(p.derived))],
        lambda p: [(len(p.rules), p.context.index(p.rules[0]))],
        lambda p: [len(p.context) - p.context.index(p.contradicting)],
    ):
        first, second = (
            Counter(key for p in proofs for key in counted(p)) for proofs in (theirs, ours)
        )
        assert cells_of_one_law(first, second, share) > 0


def test_the_same_settings_give_the_same_examples_and_hops_are_balanced():
    first, again, other = (generate(12, seed=seed, hops=(1, 2, 4)) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert Counter(e.hops for e in first) == {1: 4, 2: 4, 4: 4}
    assert [e.hops for e in first] != [1, 2, 4] * 4


def test_no_concept_stands_twice_and_that_of_the_contradicting_rule_nowhere_else(examples):
    for example in examples[:500]:
        proof = verify(example)
        others = {
            word for rule in proof.context if rule != proof.contradicting for word in rule[:2]
        }
        assert proof.contradicting.subject in set(CONCEPTS) - others
        assert max(Counter((rule.subject, rule.is_concept) for rule in proof.context).values()) == 1
