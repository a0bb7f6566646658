"""The PrOntoQA verifier: it reads every sentence, passes the real examples and refuses each planted fault."""

from dataclasses import replace

import pytest

from rb_interp.errors import TextError
from rb_interp.text.example import Example
from rb_interp.text.prontoqa_verify import derive, parse_sentence, step_kinds, verify
from rb_interp.text.prontoqa_words import Statement, words

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
    assert (proof.label, proof.hops, len(proof.context)) == (False, 2, 7)
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


PLANTED = {
    "wrong label": (
        replace(RIGHT, answer="True"),
        "answer 'True': the query 'True or false: Max is not hot.' is False",
    ),
    "no label": (replace(RIGHT, answer="false"), "answer 'false'"),
    "query of another property": (
        replace(RIGHT, query="True or false: Max is shy."),
        "query 'True or false: Max is shy.': expected 'True or false: ' and 'Max is hot.' or 'Max is not hot.'.",
    ),
    "other premise": (chain(s0="Max is a wumpus."), "step 0 'Max is a wumpus.': it is not the premise 'Max is a romp"),
    "missing rule": (
        question(" Each wumpus is hot.", ""),
        "step 3 'Each wumpus is hot.': no rule of the context reads like this.",
    ),
    "rule of another concept": (
        chain(s1="Impuses are shy."),
        "step 1 'Impuses are shy.': it does not apply to 'Max is a rompus.'.",
    ),
    "broken chain": (chain(s3="Impuses are shy.", s4="Max is shy."), "it does not apply to 'Max is a wumpus.'."),
    "wrong conclusion": (
        chain(s4="Max is not hot."),
        "step 4 'Max is not hot.': the rule before it gives 'Max is hot.'.",
    ),
    "ends with a concept": (
        chain(s3="Wumpuses are impuses.", s4="Max is an impus."),
        "step 4 'Max is an impus.': a chain must end with a property, not with a concept.",
    ),
    "other hops": (replace(RIGHT, hops=3), "PrOntoQA example of 3 hops: 5 sentences"),
    "premise not last": (
        question("Impuses are yumpuses.", "Max is a rompus."),
        "context 'Max is a rompus.': only the last sentence of a context may speak of an entity.",
    ),
    "no premise": (
        question(" Max is a rompus.", ""),
        "context 'Rompuses are not blue.': the last sentence must be the premise 'Name is a concept.'.",
    ),
    "rule last": (
        question(" Rompuses are not blue. Max is a rompus.", ""),
        "context 'Wumpuses are impuses.': the last sentence must be the premise 'Name is a concept.'.",
    ),
    "no contradicting rule": (
        question(" Every numpus is not hot.", ""),
        "'hot' is said 1 times as in the conclusion and 0 times the other way; expected 1 and 1.",
    ),
    "property twice": (question("Impuses are shy.", "Jompuses are hot."), "'hot' is said 2 times as in the conclusion"),
    "contradiction on the path": (
        question("Impuses are shy.", "Impuses are not hot."),
        "it lets both 'Max is hot.' and its opposite follow.",
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_refused(fault):
    example, message = PLANTED[fault]
    with pytest.raises(TextError) as caught:
        verify(example)
    assert message in str(caught.value)
    assert str(caught.value).endswith("Leave this example out, or generate it again.")


def test_without_distractors_the_property_stands_once():
    alone = question(" Every numpus is not hot.", "")
    assert verify(alone, distractors=False).contradicting is None
    with pytest.raises(TextError, match="1 times as in the conclusion and 1 times the other way; expected 1 and 0"):
        verify(RIGHT, distractors=False)


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
        "Every rosid is a eudicot.": ("rosid", "eudicot", False),
        "Each eudicot is an angiosperm.": ("eudicot", "angiosperm", False),
        "Each painted lady is a butterfly.": ("painted lady", "butterfly", False),
        "Worpus are impuses.": ("worpus", "impus", False),
        "Tabbies are cats.": ("tabby", "cat", False),
        "8191 is a Mersenne prime.": ("8191", "Mersenne prime", False),
    }.items():
        assert parse_sentence(sentence)[:3] == said


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("Every wumpus is a impus.", "sentence 'Every wumpus is a impus.' should read 'Every wumpus is an impus.'"),
        ("wumpuses are hot.", "should read 'Wumpuses are hot.'"),
        ("All wumpuses are hot.", "speaks of 'All wumpuses', which is no concept of PrOntoQA."),
        ("No wumpus is a rompus.", "has none of the forms 'Xs are Y.', 'Each x is Y.', 'Every x is Y.'"),
        ("Max is a hot.", "says 'a hot', which is no concept and no property"),
    ],
)
def test_sentences_of_no_form_are_refused(sentence, message):
    with pytest.raises(TextError) as caught:
        parse_sentence(sentence)
    assert message in str(caught.value)


def test_deriving_ends_on_a_circle_and_stops_at_a_negation():
    rules = [
        parse_sentence(s) for s in ("Wumpuses are rompuses.", "Rompuses are wumpuses.", "Wumpuses are not impuses.")
    ]
    rules.append(parse_sentence("Impuses are hot."))
    found = {fact.sentence for fact in derive(rules, parse_sentence("Max is a wumpus."))}
    assert found == {"Max is a wumpus.", "Max is a rompus.", "Max is not an impus."}
