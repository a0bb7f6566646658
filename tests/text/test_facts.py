"""Kinds of targets beside the verifier's proof; facts that nothing in their prompt gives away."""

import os
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rb_interp.errors import ConfigError, TextError
from rb_interp.text.classes import (
    CLASSES,
    NAMES,
    fact_table,
    generate_classes,
    generate_facts,
)
from rb_interp.text.corpora import read_prontoqa
from rb_interp.text.prontoqa import ENTITIES, derive, generate, verify
from rb_interp.text.sentences import fact, parse_clause, read_clauses, split_sentences
from rb_interp.text.targets import KINDS, target_kinds
from rb_interp.text.task import TextTask
from rb_interp.text.tokens import train_tokenizer, word_tokenizer

TABLE = fact_table(80, seed=1)
N = 8000


PHRASES = partial(word_tokenizer, phrases=True)


@pytest.mark.parametrize("make", [word_tokenizer, PHRASES, train_tokenizer])
@pytest.mark.parametrize("query", ["real", "property", "class", "steps", "fact"])
def test_kinds_of_targets_are_those_of_the_proof(query, make):
    if query == "real":
        if "RB_INTERP_DATA" not in os.environ:
            pytest.skip("RB_INTERP_DATA does not name the folder with the original's examples")
        folder = Path(os.environ["RB_INTERP_DATA"]) / "prontoqa"
        examples = read_prontoqa(folder / "v1_fictional_valid.jsonl")[:60]
    elif query == "property":
        examples = generate(60, 0, (1, 2, 3))
    elif query == "fact":
        examples = generate_facts(60, 0, TABLE)
    else:
        examples = generate_classes(60, 0, (1, 2, 3), query=query)
    tokenizer = make([example.text for example in examples], 600)
    all_kinds = target_kinds(examples, tokenizer)
    starts = tokenizer.starts([example.text for example in examples])
    for example, kinds, first in zip(examples, all_kinds, starts, strict=True):
        names = [KINDS[kind] for kind in kinds]
        assert names.count("question") == len(tokenizer.encode(example.prompt))
        assert names.index("template") == names.count("question")
        assert (
            (names[-1] == "stop")
            == (names.count("answer") == 0)
            == (query not in ("real", "property"))
        )
        if "answer" in names:
            assert example.text[first[names.index("answer")] :].lstrip() == example.answer
        if query == "fact":
            objects = [parse_clause(example.chain_of_thought[1]).predicate]
            expected = ["fact"]
        else:
            rules = verify(example).rules
            objects = [parse_clause(rule.sentence).predicate for rule in rules]
            expected = ["rule" if example.hops > 1 else "object"] * example.hops
            if query != "steps":
                expected[-1] = "object"
        marked = [(name, at) for at, name in enumerate(names) if name in ("rule", "object", "fact")]
        assert [name for name, _ in marked] == expected
        for (_, at), noun in zip(marked, objects, strict=True):
            assert re.match(rf"\s*((is|are)( not)?( an?)? )?{noun}\b", example.text[first[at] :])
        forms = [example.text[first[at] :] for at, name in enumerate(names) if name == "form"]
        for text, sentence in zip(forms, example.chain_of_thought[1::2], strict=True):
            assert text.lstrip().startswith(sentence)


@pytest.mark.parametrize("n", [-3, 0, 257])
def test_a_table_of_no_or_too_many_facts_is_refused(n):
    with pytest.raises(ConfigError, match="facts"):
        fact_table(n, seed=0)


def test_whatever_is_copied_from_a_prompt_is_right_by_chance():
    right, eligible = Counter(), Counter()
    for example in generate_facts(N, 5, TABLE):
        clauses = [parse_clause(sentence) for sentence in split_sentences(example.question)]
        *rules, premise = read_clauses(clauses)
        step = TABLE[premise.subject, premise.predicate]
        assert example.chain_of_thought[1] == step.sentence
        assert derive(rules, [premise]) == {premise}  # nothing leads on from the premise
        with pytest.raises(TextError, match=f"'{step.sentence}' is no rule of the context"):
            verify(example)
        subjects = [rule.subject for rule in rules]
        objects = [rule.predicate for rule in rules]
        guesses = {f"subject {at}": noun for at, noun in enumerate(subjects)}
        guesses |= {f"object {at}": noun for at, noun in enumerate(objects)}
        into = [rule.subject for rule in rules if rule.predicate == premise.predicate]
        guesses["what leads to the class"] = into[0] if into else ""
        roots = set(objects) - set(subjects) - {premise.predicate}
        guesses["the other chain's end"] = next(iter(roots), "")
        leaves = sorted(set(subjects) - set(objects))
        guesses["a chain's beginning"] = leaves[0]
        guesses["what is missing"] = next(iter(set(CLASSES) - {*subjects, *objects}), "")
        for name, guess in guesses.items():
            if guess not in ("", premise.predicate):
                eligible[name] += 1
                right[name] += guess == step.predicate
    chance = 1 / (len(CLASSES) - 1)
    assert len(eligible) >= 16
    for name, n in eligible.items():
        assert abs(right[name] - n * chance) < 4.5 * (n * chance * (1 - chance)) ** 0.5, name


def test_each_fact_stays_and_is_seen_equally_often_under_names_of_its_own():
    task = TextTask(
        **{"stories": "facts", "facts": 20, "query": "steps", "tokenizer": "words"},
        **{"layout": "padded", "sequences": 60, "held_out": 40, "n_ctx": 100, "repeated": 6},
    )
    text = task.text(3)
    table = fact_table(20, 3)
    for part, times in (("train", 3), ("test", 2)):
        seen = Counter()
        for row in text.rows(f"stories_{part}").tokens:
            document = text.tokenizer.decode(row).removeprefix("<|endoftext|>").split("<|")[0]
            premise, rule, _ = split_sentences(document.split("\nA: ")[1])
            clause = parse_clause(premise)
            assert table[clause.subject, clause.predicate].sentence == rule
            seen[clause.subject, clause.predicate] += 1
        assert seen == dict.fromkeys(table, times)
    assert not set(NAMES) & set(ENTITIES)
    # half of the reasoning rows are six that come again and again, and none is held out
    rows = [bytes(row) for row in text.rows("prontoqa_train").tokens]
    assert sorted(Counter(rows).values()) == [1] * 30 + [5] * 6
    assert not {bytes(row) for row in text.rows("prontoqa_test").tokens} & set(rows)
    data = replace(task, curves=("repeated",)).dataset(3)
    repeated = [bytes(row) for row in data.tokens[data.rows("repeated")].astype(np.int32)]
    assert len(set(repeated)) == len(repeated) == 6
    assert {row[: len(repeated[0])] for row, n in Counter(rows).items() if n == 5} == set(repeated)


def test_a_conflict_has_a_rule_in_its_prompt_that_contradicts_the_fact():
    positions = Counter()
    for example in generate_facts(400, 2, TABLE, conflict=True):
        proof = verify(example)
        known = TABLE[proof.premise.subject, proof.premise.predicate]
        assert known.of(proof.premise.subject) != proof.conclusion
        assert known.subject == proof.premise.predicate == proof.rules[0].subject
        assert len(proof.context) == len(CLASSES) - 2
        positions[proof.context.index(proof.rules[0])] += 1
    assert len(positions) == len(CLASSES) - 2
    assert fact("Ben", "wumpus", True, False).sentence == "Ben is a wumpus."
