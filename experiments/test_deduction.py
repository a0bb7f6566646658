"""Roles of rows that are cut before a rule's object, against the chain that the verifier proves."""

from dataclasses import replace
from itertools import pairwise

import deduction
import numpy as np
import pandas as pd
import pytest
import torch
from deduction import (
    deduction_rows,
    fact_rows,
    fact_texts,
    premise_texts,
    subject_texts,
    three_texts,
    with_all_places,
)

import rb_interp as rb
from rb_interp.studies.language.config import MODELS, TRAINING, LanguageConfig
from rb_interp.text.classes import fact_table, generate_classes, generate_facts
from rb_interp.text.prontoqa import verify
from rb_interp.text.sentences import parse_clause, split_sentences
from rb_interp.text.task import TextTask
from rb_interp.text.tokens import train_tokenizer, word_tokenizer


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


def test_roles_begin_with_the_word_where_words_are_cut_into_pieces():
    examples = generate_classes(60, 0, (2, 3))
    tokenizer = train_tokenizer([one.text for one in examples], 275)
    inputs = deduction_rows(examples, tokenizer)
    for row, example in enumerate(examples):
        rule = verify(example).rules[0]
        places = inputs.roles.positions
        for name, word in (("object", rule.predicate), ("subject", rule.subject)):
            assert word.startswith(
                tokenizer.token_text(int(inputs.tokens[row, places[name][row][0]])).strip()
            )
        assert rule.predicate.startswith(tokenizer.token_text(int(inputs.labels[row])).strip())


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


@pytest.mark.trains
@pytest.mark.lens
def test_the_tables_of_a_run_hold_what_a_model_reads_and_keep_other_seeds(tmp_path, monkeypatch):
    rows = {"sequences": 64, "held_out": 16, "answers": 60, "facts": 16}
    config = LanguageConfig(
        preset="quick",
        seeds=(3,),
        gammas=(0.8,),
        task=TextTask.preset("quick", **rows),
        model=replace(MODELS["smoke"], d_model=16, d_head=8, d_mlp=16),
        train=replace(TRAINING["quick"], steps=2, warmup=1, eval_every=1, keep_at=()),
    )
    run = rb.Run.start(tmp_path / "run", rb.study("language"), config)
    run.train(progress=False)
    path = tmp_path / "deduction.parquet"
    others = pd.DataFrame({"gamma": [0.5, 0.5], "seed": [3, 9], "step": 2, "quantity": "right"})
    others.assign(layer=np.nan, head=np.nan, value=0.25).to_parquet(path)
    monkeypatch.setattr(deduction, "TABLE", path)
    monkeypatch.setattr(deduction, "N_ROWS", 8)
    deduction.main(str(tmp_path / "run"))
    table = pd.read_parquet(path)
    assert table[table["gamma"] == 0.5]["seed"].tolist() == [9]
    table = table[table["gamma"] == 0.8].set_index(["step", "quantity", "layer", "head"])["value"]
    assert not table.index.has_duplicates

    text = run.config.task.text(3)
    examples = [one for one in text.examples if one.hops > 1][:8]
    inputs = deduction_rows(examples, text.tokenizer)
    model = run.model(gamma=0.8, seed=3)
    logits, cache = model.run_with_cache(torch.tensor(inputs.tokens))
    places, each = inputs.roles.positions, np.arange(8)
    last = places["last"][:, 0]
    right = (logits.detach().numpy()[each, last].argmax(-1) == inputs.labels).mean()
    pattern = cache["pattern", 1].detach().numpy()[:, 1]
    attention = pattern[each[:, None], last[:, None], places["object"]].sum(1).mean()
    at_end = table.loc[2]
    assert at_end["right"].item() == right
    assert at_end["last_to_object", 1, 1] == pytest.approx(attention, abs=1e-4)


def test_paths_are_added_up_by_kind_and_place():
    rows = [
        ("subject_path_embed_to_k", 0.5, 0.0),
        ("subject_path_z.0.1_to_k", 0.25, -0.125),
        ("subject_path_z.0.1_to_q", -1.0, 0.0625),
        ("object_path_mlp_out.0_to_v", 2.0, 0.0),
        ("lost", 9.0, 9.0),
    ]
    table = pd.DataFrame(rows, columns=["quantity", "value", "beside"]).assign(gamma=0.5, seed=1)
    found = deduction.paths_read(pd.concat([table, table[:1].assign(seed=0)])).set_index("seed")
    assert found.loc[1, ["object_v", "subject_k", "subject_q"]].tolist() == [2.0, 0.75, -1.0]
    assert found.loc[1, "control"] == 0.125
    assert found.loc[0, ["subject_k", "control"]].tolist() == [0.5, 0.0]
