"""Roles of rows that are cut before a rule's object, against the chain that the verifier proves."""

import pytest
from deduction import class_of, deduction_rows, three_texts

from rb_interp.text.classes import generate_classes
from rb_interp.text.prontoqa import verify
from rb_interp.text.tokens import word_tokenizer


@pytest.mark.parametrize("query", ["class", "steps"])
def test_roles_name_what_the_proof_uses_and_an_exchanged_text_follows_the_other_object(query):
    examples = generate_classes(60, 0, (2, 3), query=query)
    texts = three_texts(examples, seed=1)
    tokenizer = word_tokenizer([one.text for text in texts for one in text], 99, phrases=True)
    rows = [deduction_rows(text, tokenizer) for text in texts]
    for inputs, text in zip(rows, texts, strict=True):
        for row, example in enumerate(text):
            words = {
                name: [
                    class_of(tokenizer.token_text(inputs.tokens[row, at]).strip()) for at in row_at
                ]
                for name, places in inputs.roles.positions.items()
                if name != "last"
                for row_at in [places[row]]
            }
            proof = verify(example)
            rule = proof.rules[0]
            assert words["premise"] == words["written"] == [rule.subject]
            assert words["subject"] == [rule.subject] * 2
            assert words["object"] == [rule.predicate] * 2
            others = [one for one in proof.context if one != rule for _ in range(2)]
            assert words["other_subjects"] == [one.subject for one in others]
            assert words["other_objects"] == [one.predicate for one in others]
            last = inputs.roles.positions["last"][row, 0]
            assert tokenizer.token_text(inputs.tokens[row, last]) == f" {rule.subject}"
            assert class_of(tokenizer.token_text(inputs.labels[row]).strip()) == class_of(
                rule.predicate
            )
    base, source, control = (inputs.labels for inputs in rows)
    assert (base == control).all()
    assert (base != source).all()
