"""Roles of rows that are cut before a rule's object, against the chain that the verifier proves."""

from itertools import pairwise

import numpy as np
import pytest
from deduction import (
    deduction_rows,
    fact_rows,
    fact_texts,
    premise_texts,
    subject_texts,
    three_texts,
    with_all_places,
)

from rb_interp.text.classes import fact_table, generate_classes, generate_facts
from rb_interp.text.prontoqa import verify
from rb_interp.text.sentences import parse_clause, split_sentences
from rb_interp.text.tokens import word_tokenizer


def words_of(inputs, tokenizer, row):
    """The last words of the tokens at each role, and of the label."""
    at = {name: places[row] for name, places in inputs.roles.positions.items()}
    tokens = {name: inputs.tokens[row, places] for name, places in at.items()}
    tokens["label"] = [inputs.labels[row]]
    return {
        name: [tokenizer.token_text(token).split()[-1] for token in ids]
        for name, ids in tokens.items()
    }


@pytest.mark.parametrize("query", ["class", "steps"])
def test_roles_name_what_the_proof_uses_and_an_exchanged_text_follows_the_other_object(query):
    examples = generate_classes(60, 0, (2, 3), query=query)
    texts = three_texts(examples, seed=1)
    tokenizer = word_tokenizer([one.text for text in texts for one in text], 99, phrases=True)
    rows = [deduction_rows(text, tokenizer) for text in texts]
    for inputs, text in zip(rows, texts, strict=True):
        for row, example in enumerate(text):
            words, rule = words_of(inputs, tokenizer, row), verify(example).rules[0]
            assert words["premise"] == words["written"] == words["last"] == [rule.subject]
            assert words["class"] == [rule.subject]
            name = parse_clause(example.chain_of_thought[0]).subject
            assert words["premise_name"] == words["name"] == [name]
            assert words["subject"] == [rule.subject] * 2
            assert words["object"] == [rule.predicate] * 2
            assert words["label"] == [rule.predicate]
            clauses = [parse_clause(sentence) for sentence in split_sentences(example.question)]
            others = [one for one in clauses[:-1] if one.sentence != rule.sentence]
            assert words["other_subjects"] == [one.subject for one in others]
            assert words["other_objects"] == [one.predicate for one in others]
            assert words["stop"] == ["."] * 2
            behind = [
                two.subject for one, two in pairwise(clauses) if one.sentence == rule.sentence
            ]
            assert words["behind"] == behind
    base, source, control = (inputs.labels for inputs in rows)
    assert (base == control).all()
    assert (base != source).all()


def test_another_premise_differs_at_its_three_places_and_asks_for_the_next_rule():
    examples = generate_classes(40, 0, (3,))
    texts = premise_texts(examples, seed=1)
    tokenizer = word_tokenizer([one.text for text in texts for one in text], 99, phrases=True)
    base, source, control = (deduction_rows(text, tokenizer) for text in texts)
    for row, (example, later, other) in enumerate(zip(*texts, strict=True)):
        assert verify(later).rules == verify(example).rules[1:]
        assert verify(other).rules[:2] == verify(example).rules[:2]
        differ = np.flatnonzero(base.tokens[row] != source.tokens[row])
        places = [base.roles.positions[name][row, 0] for name in ("premise", "class", "last")]
        assert differ.tolist() == places
    assert (base.labels == control.labels).all()
    assert (base.labels != source.labels).all()
    assert (base.tokens != control.tokens).any(1).all()


def test_with_subjects_exchanged_another_rule_applies_and_the_control_ends_in_the_same_class():
    texts = subject_texts(generate_classes(60, 0, (2,)), seed=1)
    tokenizer = word_tokenizer([one.text for text in texts for one in text], 99, phrases=True)
    base, source, control = (deduction_rows(text, tokenizer) for text in texts)
    places = with_all_places(base).roles.positions
    assert places["subjects"].shape == places["objects"].shape == (len(texts[0]), 12)
    assert len(texts[0]) > 20
    for row, (example, other, later) in enumerate(zip(*texts, strict=True)):
        first, changed = verify(example).rules[0], verify(other).rules[0]
        assert changed.subject == first.subject
        assert changed.predicate != first.predicate
        assert verify(later).rules[0] == first
        assert other.query == later.query != example.query
        for inputs in (source, control):
            differ = {*np.flatnonzero(base.tokens[row] != inputs.tokens[row]).tolist()}
            assert len(differ & {*places["subjects"][row].tolist()}) == len(differ) - 1 == 4
    assert (base.labels == control.labels).all()
    assert (base.labels != source.labels).all()


def test_a_facts_name_or_class_is_that_of_another_fact_and_no_rule_leads_on():
    table = fact_table(24, seed=3)
    texts = fact_texts(table, generate_facts(60, 5, table), seed=3)
    every = [one for text in texts.values() for one in text]
    tokenizer = word_tokenizer([one.text for one in every], 99, phrases=True)
    rows = {kind: fact_rows(text, tokenizer) for kind, text in texts.items()}
    for kind, inputs in rows.items():
        for row, example in enumerate(texts[kind]):
            words, question = words_of(inputs, tokenizer, row), split_sentences(example.question)
            assert example.chain_of_thought[0] == question[-1]
            premise = parse_clause(question[-1])
            assert words["premise_name"] == words["name"] == [premise.subject]
            assert words["premise"] == words["class"] == words["last"] == [premise.predicate]
            assert words["label"] == [table[premise.subject, premise.predicate].predicate]
            rules = [parse_clause(sentence) for sentence in question[:-1]]
            assert premise.predicate not in {rule.subject for rule in rules}
            assert len({(rule.subject, rule.predicate) for rule in rules}) == 6
    names, classes = (
        [parse_clause(one.chain_of_thought[0])[at] for one in texts["base"]] for at in (2, 3)
    )
    for kind, same in (("name", classes), ("class", names)):
        at = 3 if kind == "name" else 2
        assert [parse_clause(one.chain_of_thought[0])[at] for one in texts[kind]] == same
        assert (rows[kind].labels != rows["base"].labels).all()
    assert (rows["control"].labels == rows["base"].labels).all()
    assert all(
        one.question != other.question
        for one, other in zip(texts["base"], texts["control"], strict=True)
    )
    same_places = [
        np.array_equal(rows["base"].roles.positions[name], of_kind.roles.positions[name])
        for of_kind in rows.values()
        for name in of_kind.roles.positions
    ]
    assert all(same_places)
