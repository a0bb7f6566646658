"""Proofs are found by the text alone in any vocabulary, and planted faults are refused."""

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ontologies import NOUNS, record

from rb_interp.errors import TextError
from rb_interp.text.prontoqa import Example, derive, step_kinds, verify
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
