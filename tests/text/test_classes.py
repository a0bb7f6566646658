"""Examples about classes: proved by the text alone, and no form of the prompt tells the hops."""

from collections import Counter
from dataclasses import replace

import pytest

from rb_interp.errors import TextError
from rb_interp.probes.chain import chain_inputs, judge
from rb_interp.text.classes import CLASSES, generate_classes
from rb_interp.text.prontoqa import Example, verify
from rb_interp.text.sentences import split_sentences
from rb_interp.text.tokens import word_tokenizer

RULES = "Each wumpus is a rompus. Rompuses are zumpuses. Every zumpus is a dumpus."
PREMISE = "Max is a wumpus."
CHAIN = (
    *("Max is a wumpus.", "Each wumpus is a rompus.", "Max is a rompus."),
    *("Rompuses are zumpuses.", "Max is a zumpus."),
)
GOAL = Example(f"{RULES} {PREMISE}", "Prove: Max is a zumpus.", CHAIN, "", 2)
STEPS = replace(GOAL, query="2 steps:")
EXPECTED = "expected 'Prove: Max is a zumpus.' or '2 steps:'"
BRANCH = f"{RULES} Wumpuses are lorpuses. {PREMISE}"


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (replace(GOAL, query="Prove: Max is a dumpus."), EXPECTED),
        (replace(GOAL, query="3 steps:"), EXPECTED),
        (
            replace(STEPS, answer="True"),
            "the answer is 'True', and the query asks for a chain alone",
        ),
        (replace(STEPS, question=BRANCH), "both apply, so no chain is the one"),
        (replace(GOAL, question=f"Max is hot. {RULES} {PREMISE}"), "only the last sentences"),
        (
            Example(
                f"Wumpuses are hot. {PREMISE}",
                "1 step:",
                (PREMISE, "Wumpuses are hot.", "Max is hot."),
                "",
                1,
            ),
            "the chain ends with 'Max is hot.', not with a class",
        ),
    ],
)
def test_a_query_that_its_chain_does_not_answer_is_refused(example, message):
    with pytest.raises(TextError) as error:
        verify(example)
    assert message in str(error.value)


@pytest.mark.parametrize("query", ["class", "steps"])
@pytest.mark.parametrize("ordering", ["random", "preorder", "postorder"])
def test_examples_are_proved_and_prompts_are_alike_at_every_hop(query, ordering):
    drawn = generate_classes(600, 3, (1, 2, 4), ordering, query)
    assert Counter(example.hops for example in drawn) == {1: 200, 2: 200, 4: 200}
    positions = Counter()
    for example in drawn:
        proof = verify(example)
        assert len(proof.rules) == example.hops
        assert len(proof.context) == len(CLASSES) - 2
        *stated, _ = split_sentences(example.question)
        assert Counter(stated) == {rule.sentence: 2 for rule in proof.context}
        steps = [proof.context.index(rule) for rule in proof.rules]
        positions.update((example.hops, step) for step in steps)
        if query == "steps":  # no object of the chain stands outside the rules
            outside = f"{split_sentences(example.question)[-1]} {example.query}"
            assert not any(rule.predicate in outside for rule in proof.rules)
    if ordering == "random":
        for hops in (1, 2, 4):
            counts = [positions[hops, place] for place in range(len(CLASSES) - 2)]
            assert max(counts) - min(counts) < 6 * (25 * hops) ** 0.5
    assert verify(GOAL).rules == verify(STEPS).rules


@pytest.mark.parametrize(
    ("phrases", "tokens"),
    [
        (False, [" Wumpus", "es", " are", " not", " hot", "."]),
        (True, [" Wumpuses", " are not hot", "."]),
    ],
)
def test_a_word_is_a_token_and_every_text_comes_back(phrases, tokens):
    texts = [example.text for example in generate_classes(400, 0)]
    sentence = " Wumpuses are not hot."
    tokenizer = word_tokenizer([*texts, sentence], 200, phrases)
    assert list(map(tokenizer.token_text, tokenizer.encode(sentence))) == tokens
    for ids, text in zip(tokenizer.encode_batch(texts), texts, strict=True):
        assert tokenizer.decode(ids) == text
    known, rule = map(tokenizer.encode, (" Max is a wumpus.", " Each yumpus is a wumpus."))
    assert known[1:] == rule[2:]  # a known class is written as the object of a rule
    with pytest.raises(
        TextError, match=rf"none of the \d+ words of tokenizer '{tokenizer.kind}'; use"
    ):
        tokenizer.encode("Each cat is a wumpus.")
    with pytest.raises(TextError, match=r"^d_vocab=10; the text has \d\d different words"):
        word_tokenizer(texts, 10, phrases)


def test_without_an_answer_the_decision_to_stop_is_judged():
    texts = [example.text for example in generate_classes(400, 0)]
    tokenizer = word_tokenizer([*texts, GOAL.text], 200)
    [encoded] = chain_inputs([GOAL], tokenizer).examples
    assert tokenizer.decode(encoded.tokens) == f"<|endoftext|>{GOAL.text}<|endoftext|>"
    assert encoded.answer == len(encoded.tokens) - 1
    right = [True] * encoded.answer
    assert judge(encoded, right, True) == {
        **{"answer": [True], "answer_two_way": [], "chain": [True], "step": [True] * 5},
        **{"premise": [True], "rule": [True] * 2, "conclusion": [True] * 2},
    }
    right[-1] = False
    assert judge(encoded, right, True)["answer"] == [False]
