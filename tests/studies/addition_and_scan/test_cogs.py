"""The task of sentences: generator against reader, reader against examples by hand, and the rules of every row."""

import re

import numpy as np
import pytest

from rb_interp.errors import TaskError
from rb_interp.studies.addition_and_scan.cogs import CogsTask
from rb_interp.studies.addition_and_scan.sentence_reader import form_of, is_form_of
from rb_interp.studies.addition_and_scan.sentences import RULES
from rb_interp.tasks import Task

TASK = CogsTask(n_sequences=4000, n_test=1000, n_rule=300)
DATA = TASK.dataset(seed=3)
ROWS = {name: [TASK.command(DATA.tokens[row]) for row in DATA.rows(name)] for name in TASK.sets}
BY_HAND = {
    "zoe": "ZOE",
    "the hedgehog slept": "SLEPT ( AGENT THE HEDGEHOG )",
    "emma painted a cat": "PAINTED ( AGENT EMMA , THEME A CAT )",
    "a cat was painted by emma": "PAINTED ( AGENT EMMA , THEME A CAT )",
    "a boy handed the cup to liam": "HANDED ( AGENT A BOY , THEME THE CUP , RECIPIENT LIAM )",
    "a boy handed liam the cup in a car": "HANDED ( AGENT A BOY , THEME THE CUP ( IN A CAR ) , RECIPIENT LIAM )",
    "emma said that the dog on the bed in a room smiled": (
        "SAID ( AGENT EMMA , THAT SMILED ( AGENT THE DOG ( ON THE BED ( IN A ROOM ) ) ) )"
    ),
}


def broken(sentence: str) -> set[str]:
    """Which rules a sentence is of, and ``other`` where a word of a rule is used as no set has it; by words alone."""
    clause = sentence.rpartition(" that ")[2]
    found = {"deep"} if re.search(r"(?:(?:in|on|beside) (?:the|a) \w+ ?){3}", sentence) else set()
    found |= {"passive"} if "was painted by" in sentence else set()
    found |= {"name"} if "zoe" in clause.split() else set()
    spoken = sentence.removesuffix(clause).split()
    found |= {"other"} if "zoe" in spoken else set()
    subject = re.match(r"(?:the|a) hedgehog\b", clause) and " was " not in clause
    uses = clause.split().count("hedgehog") - bool(subject)
    if uses:
        is_object = uses == 1 and " was " not in clause and re.search("THEME (THE|A) HEDGEHOG", form_of(clause))
        found.add("object" if is_object else "other")
    return found


@pytest.mark.parametrize("sentence", BY_HAND)
def test_the_reader_agrees_with_examples_by_hand(sentence):
    form = BY_HAND[sentence]
    assert is_form_of(sentence, form)
    for wrong in (form[:-2], form.replace("AGENT", "THEME"), form.lower(), f"{form} )"):
        assert is_form_of(sentence, wrong) == (wrong == form)


@pytest.mark.parametrize(
    "sentence",
    ["", "the emma slept", "cat slept", "a cat slept a dog", "emma in a box slept", "emma was slept by liam",
     "emma said that", "emma  slept", "emma handed a cup", "emma said that liam said that ava slept"],
)  # fmt: skip
def test_what_is_no_sentence_is_said(sentence):
    with pytest.raises(TaskError) as caught:
        form_of(sentence)
    assert str(caught.value).startswith(f"'{sentence}' is no sentence; expected one such as")


def test_every_row_is_a_sentence_with_the_form_that_the_reader_tells():
    seen = set()
    for row in range(len(DATA)):
        tokens, labels = DATA.tokens[row], DATA.labels[row]
        written = [TASK.words[token] for token in tokens]
        arrow = written.index("=>")
        sentence, form = " ".join(written[:arrow]), TASK.answer(labels)
        assert is_form_of(sentence, form), (sentence, form)
        answer = [*form.split(), "<end>"]
        assert np.flatnonzero(labels >= 0).tolist() == list(range(arrow, arrow + len(answer)))
        following = [*written[arrow + 1 :], "<end>"]  # a model sees the row without its last token
        assert following[: len(answer)] == answer
        assert set(following[len(answer) :]) <= {"<end>"}
        seen |= {*written}
    assert seen == set(TASK.words)
    assert {sentence: form_of(sentence) for sentence in BY_HAND} == BY_HAND


def test_every_row_breaks_the_rule_of_its_set_and_no_other():
    for name, sentences in ROWS.items():
        told = [set() if sentence == "zoe" else broken(sentence) for sentence in sentences]
        assert [rules for rules in told if rules != {name} & {*RULES}] == []
    train = ROWS["train"]
    assert train.count("zoe") == TASK.n_alone == 200
    for word in ("hedgehog", "painted", "that", "was", "to"):  # the words of the rules are trained otherwise
        assert sum(word in sentence.split() for sentence in train) > 50
    assert "zoe" not in {sentence for name in TASK.sets[1:] for sentence in ROWS[name]}


def test_rows_are_as_many_as_asked_for_and_no_sentence_is_in_two_sets():
    sentences = [sentence for name in TASK.sets for sentence in ROWS[name] if sentence != "zoe"]
    assert len(sentences) == len(set(sentences))
    assert [len(ROWS[name]) for name in TASK.sets] == [4000, 1000, 300, 300, 300, 300]
    other = TASK.dataset(seed=4)
    np.testing.assert_array_equal(TASK.dataset(seed=3).tokens, DATA.tokens)
    assert not np.array_equal(other.tokens, DATA.tokens)


def test_train_and_seen_test_are_one_draw_and_held_out_rows_are_no_longer_than_trained_ones():
    short = {name: sum(len(text.split()) == 2 for text in ROWS[name]) for name in TASK.sets[:2]}
    expected = (
        sum(short.values()) * 1000 / 4800
    )  # few are left where the first sentences of a draw are those trained on
    assert abs(short["seen_test"] - expected) < 3 * np.sqrt(expected)
    ends = {name: (DATA.labels[DATA.rows(name)] >= 0)[:, ::-1].argmax(1).min() for name in TASK.sets}
    assert all(ends["train"] <= ends[rule] for rule in RULES)


def test_the_task_fits_training_and_its_vocabulary_has_no_word_twice():
    assert isinstance(TASK, Task)
    assert len(set(TASK.words)) == TASK.d_vocab == 145
    assert DATA.tokens.shape == DATA.labels.shape == (len(DATA), 51)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alone_share": 0.0}, "0 rows of 'zoe' alone and 20000 sentences; expected one at least of either"),
        ({"alone_share": 1.0}, "and 0 sentences"),
        ({"n_rule": 0}, "n_rule=0; expected 1 to 2,000 rows of each rule"),
    ],
)
def test_bad_settings_say_what_to_change(change, message):
    with pytest.raises(TaskError) as caught:
        CogsTask(**change)
    assert message in str(caught.value)
