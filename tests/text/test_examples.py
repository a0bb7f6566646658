"""The PrOntoQA verifier: it reads every sentence, passes the real examples and refuses each planted fault."""

import re
from dataclasses import replace

import pytest

from rb_interp.errors import TextError
from rb_interp.text.examples import Example, Statement, derive, parse_sentence, step_kinds, verify, words

# Written by hand: rompus -> wumpus -> impus -> yumpus; wumpus has the property, numpus contradicts it.
RIGHT = Example(
    "Impuses are yumpuses. Every numpus is not hot. Each wumpus is hot. Impuses are shy. Every rompus is a wumpus. "
    "Wumpuses are impuses. Rompuses are not blue. Max is a rompus.",
    "True or false: Max is not hot.",
    ("Max is a rompus.", "Every rompus is a wumpus.", "Max is a wumpus.", "Each wumpus is hot.", "Max is hot."),
    "False",
    2,
)


def test_a_right_example_gives_its_proof():
    proof = verify(RIGHT)
    assert proof.premise == Statement("Max", "rompus", False, "ground")
    assert [rule.sentence for rule in proof.rules] == ["Every rompus is a wumpus.", "Each wumpus is hot."]
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
        RIGHT, chain_of_thought=tuple(changed.get(f"s{at}", s) for at, s in enumerate(RIGHT.chain_of_thought))
    )


def question(old: str, new: str) -> Example:
    assert old in RIGHT.question
    return replace(RIGHT, question=RIGHT.question.replace(old, new))


PLANTED = [
    (replace(RIGHT, answer="True"), "the answer is 'True', and the query is False"),
    (replace(RIGHT, answer="false"), "the answer is 'false'"),
    (
        replace(RIGHT, query="True or false: Max is shy."),
        "expected one of 'True or false: Max is hot.', 'True or false:",
    ),
    (chain(s0="Max is a wumpus."), "the chain begins with 'Max is a wumpus.', not with 'Max is a rompus.'"),
    (question(" Each wumpus is hot.", ""), "'Each wumpus is hot.' is no rule of the context"),
    (chain(s1="Impuses are shy."), "'Impuses are shy.' does not apply to 'Max is a rompus.'"),
    (chain(s3="Impuses are shy.", s4="Max is shy."), "does not apply to 'Max is a wumpus.'"),
    (chain(s4="Max is not hot."), "'Each wumpus is hot.' gives 'Max is hot.', not 'Max is not hot.'"),
    (chain(s3="Wumpuses are impuses.", s4="Max is an impus."), "the chain ends with a concept, 'Max is an impus.'"),
    (replace(RIGHT, hops=3), "3 hops and 5 sentences in the chain"),
    (replace(RIGHT, chain_of_thought=RIGHT.chain_of_thought[:1], hops=0), "0 hops and 1 sentences"),
    (question("Impuses are yumpuses.", "Max is a rompus."), "only the last sentence of a context may be of an entity"),
    (question(" Max is a rompus.", ""), "'Rompuses are not blue.' ends the context and is no premise"),
    (question("Max is a rompus.", "Max is blue."), "'Max is blue.' ends the context and is no premise"),
    (question("Impuses are shy.", "Impuses are not hot."), "'Max is hot.' and its opposite both follow"),
]


@pytest.mark.parametrize(("example", "message"), PLANTED)
def test_planted_faults_are_refused(example, message):
    with pytest.raises(TextError, match=f"{re.escape(message)}.*Leave it out, or generate it again\\.$"):
        verify(example)


def test_a_rule_behind_a_negated_concept_proves_nothing():
    question = "Every numpus is not hot. Each rompus is not a wumpus. Each wumpus is hot. Max is a rompus."
    thoughts = ("Max is a rompus.", "Each rompus is not a wumpus.", "Max is not a wumpus.", "Each wumpus is hot.")
    with pytest.raises(TextError, match="'Each wumpus is hot.' does not apply to 'Max is not a wumpus.'"):
        verify(Example(question, "True or false: Max is hot.", (*thoughts, "Max is hot."), "True", 2))


def test_a_context_without_a_contradicting_rule_is_proved_too():
    proof = verify(question(" Every numpus is not hot.", ""))
    assert proof.contradicting is None
    assert not proof.label


def test_every_sentence_reads_back_as_what_it_says():
    for noun in words().plurals:
        for form in ("plural", "Each", "Every"):
            for predicate, negated in (("impus", False), ("prime number", True), ("real", False), ("hot", True)):
                statement = Statement(noun, predicate, negated, form)
                assert parse_sentence(statement.sentence) == statement
        assert parse_sentence(Statement("Max", noun, False, "ground").sentence).predicate == noun
    for word in words().properties:
        assert parse_sentence(f"7 is not {word}.") == Statement("7", word, True, "ground")


def test_words_by_hand():
    for sentence, said in {
        "Sheep are not herbivorous.": ("sheep", "herbivorous", True),
        "Mersenne primes are prime numbers.": ("Mersenne prime", "prime number", False),
        "Prime numbers are prime.": ("prime number", "prime", False),
        "Each painted lady is a butterfly.": ("painted lady", "butterfly", False),
        "Tabbies are cats.": ("tabby", "cat", False),
        "8191 is a Mersenne prime.": ("8191", "Mersenne prime", False),
    }.items():
        assert parse_sentence(sentence)[:3] == said


@pytest.mark.parametrize(
    "sentence",
    [
        "Every wumpus is a impus.", "wumpuses are hot.", "All wumpuses are hot.", "No wumpus is a rompus.",
        "Max is a hot.", "Max is hot", "max is hot.", "Every wumpuses are hot.", "Max is impus.", "",
    ],
)  # fmt: skip
def test_sentences_of_no_form_are_refused(sentence):
    with pytest.raises(TextError, match="is no sentence of PrOntoQA: expected 'Xs are Y.', 'Each x is Y.'"):
        parse_sentence(sentence)


def test_deriving_ends_on_a_circle_and_stops_at_a_negation():
    rules = [
        parse_sentence(s) for s in ("Wumpuses are rompuses.", "Rompuses are wumpuses.", "Wumpuses are not impuses.")
    ]
    rules.append(parse_sentence("Impuses are hot."))
    found = {fact.sentence for fact in derive(rules, parse_sentence("Max is a wumpus."))}
    assert found == {"Max is a wumpus.", "Max is a rompus.", "Max is not an impus."}
