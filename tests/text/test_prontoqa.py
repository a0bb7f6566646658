"""The PrOntoQA verifier refuses planted faults; the generator beside it, rejection sampling and the
original."""

import os
import random
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rb_interp.errors import TextError
from rb_interp.text.corpora import read_prontoqa
from rb_interp.text.prontoqa import (
    CONCEPTS,
    FAMILIES,
    PLURALS,
    PROPERTIES,
    Example,
    Statement,
    derive,
    generate,
    parse_sentence,
    split_sentences,
    step_kinds,
    verify,
)

# Mean sentences of 11,650 (2,500 from 6 hops on) examples of the original generator for each number
# of hops.
ORIGINAL = {1: 11.24, 2: 13.67, 3: 15.39, 4: 16.48, 5: 17.20, 6: 17.62, 7: 17.88, 8: 18.00}


def is_concept(rule) -> bool:
    return rule.predicate in PLURALS


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
        ups = [rule for rule in context if is_concept(rule)]
        assert [rule.predicate for rule in ups[1:]] == [rule.subject for rule in ups[:-1]]
        order = [ups[0].predicate, *(rule.subject for rule in ups)]
        assert [order.index(rule.subject) for rule in context] == sorted(
            order.index(rule.subject) for rule in context
        )
        for rule, after in pairwise(context):
            assert rule.subject != after.subject or is_concept(rule)


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
    parent = {rule.subject: rule.predicate for rule in proof.context if is_concept(rule)}
    start, at = 0, proof.premise.predicate
    while at in parent:
        start, at = start + 1, parent[at]
    polarity = {rule.subject: rule.negated for rule in proof.context if not is_concept(rule)}
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


def read_real(file: str) -> list[Example]:
    """The original's examples, each proved as it is read."""
    if "RB_INTERP_DATA" not in os.environ:
        pytest.skip("RB_INTERP_DATA does not name the folder with the original's examples")
    return read_prontoqa(Path(os.environ["RB_INTERP_DATA"]) / "prontoqa" / file)


@pytest.mark.wide
def test_real_examples_pass():
    assert Counter(e.hops for e in read_real("v1_fictional_valid.jsonl")) == dict.fromkeys(
        range(1, 6), 100
    )
    assert Counter(e.hops for e in read_real("LogicLLM_ProntoQA_dev.json")) == {5: 500}


@pytest.mark.slow
def test_every_real_example_passes_and_has_the_words_and_lengths_of_ours():
    """Counts over the original's examples and over ours are draws from one law."""
    real = read_real("v1_fictional_train.jsonl")
    assert Counter(example.hops for example in real) == dict.fromkeys(range(1, 6), 2_000)
    theirs, ours = map(verify, real[::4]), map(verify, generate(1_000, seed=4))
    theirs, ours = list(theirs), list(ours)
    share = len(ours) / len(theirs)
    for counted in (
        lambda p: [(len(p.rules), len(p.context))],
        lambda p: [(len(p.rules), p.conclusion.negated, p.label)],
        lambda p: [p.premise],
        lambda p: [p.conclusion.predicate],
        lambda p: [rule.form for rule in p.rules],
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
        assert (
            max(Counter((rule.subject, is_concept(rule)) for rule in proof.context).values()) == 1
        )


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
    assert proof.premise == Statement("Max", "rompus", False, "ground")
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
        "only the last sentence of a context may be of an entity",
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


def test_every_sentence_reads_back_as_what_it_says():
    for noun in CONCEPTS:
        for form in ("plural", "Each", "Every"):
            for predicate, negated in (("impus", False), ("hot", True)):
                statement = Statement(noun, predicate, negated, form)
                assert parse_sentence(statement.sentence) == statement
        assert parse_sentence(Statement("Max", noun, False, "ground").sentence).predicate == noun
    for word in PROPERTIES:
        assert parse_sentence(f"Max is not {word}.") == Statement("Max", word, True, "ground")


@pytest.mark.parametrize(
    "sentence",
    [
        "Every wumpus is a impus.",
        "All wumpuses are hot.",
        "Max is a hot.",
        "Max is hot",
        "Every wumpuses are hot.",
    ],
)
def test_sentences_of_no_form_are_refused(sentence):
    with pytest.raises(
        TextError, match="is no sentence of PrOntoQA: expected 'Xs are Y.', 'Each x is Y.'"
    ):
        parse_sentence(sentence)


def test_deriving_ends_on_a_circle_and_stops_at_a_negation():
    rules = [
        parse_sentence(s)
        for s in ("Wumpuses are rompuses.", "Rompuses are wumpuses.", "Wumpuses are not impuses.")
    ]
    rules.append(parse_sentence("Impuses are hot."))
    found = {fact.sentence for fact in derive(rules, parse_sentence("Max is a wumpus."))}
    assert found == {"Max is a wumpus.", "Max is a rompus.", "Max is not an impus."}
