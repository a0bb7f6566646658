"""The generator of PrOntoQA beside rejection sampling and the original's examples."""

import os
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rb_interp.text.corpora import read_prontoqa
from rb_interp.text.generator import CONCEPTS, FAMILIES, generate
from rb_interp.text.prontoqa import Example, verify
from rb_interp.text.sentences import split_sentences

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
        assert [order.index(rule.subject) for rule in context] == sorted(
            order.index(rule.subject) for rule in context
        )
        for rule, after in pairwise(context):
            assert rule.subject != after.subject or rule.is_concept


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
        assert max(Counter((rule.subject, rule.is_concept) for rule in proof.context).values()) == 1
