"""Sentences: generator against a reader of its own, reader against examples by hand, the rules of
every row, P4."""

import re
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from cogs import COGS
from cogs.sentences import HANDED, HELPED, NAMES, NOUNS, PLACES, RULES, SAID, SLEPT
from cogs.study import CLAIMS, CogsConfig
from cogs.task import CogsTask
from rb_interp import ModelConfig, RbInterpError, Reading, judge
from rb_interp.runs import readings_table
from rb_interp.studies.addition_and_scan.measure import right
from rb_interp.tasks import Task

pytestmark = pytest.mark.wide

TASK = CogsTask(n_sequences=2000, n_test=500, n_rule=200)
data = cache(lambda: TASK.dataset(seed=3))
rows = cache(
    lambda: {
        name: [TASK.command(data().tokens[row]) for row in data().rows(name)] for name in TASK.sets
    }
)
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


def _any(*words: str) -> str:
    return f"(?:{'|'.join(words)})"


_PLACE = f" {_any('in', 'on', 'beside')} {_any('the', 'a')} {_any(*PLACES)}"
_PHRASE = f"(?:{_any(*NAMES)}|{_any('the', 'a')} {_any(*NOUNS)}(?:{_PLACE})*)"
SENTENCE = re.compile(
    f"(?:(?P<speaker>{_PHRASE}) (?P<said>{_any(*SAID)}) that )?(?:"
    f"(?P<sleeper>{_PHRASE}) (?P<slept>{_any(*SLEPT)})|"
    f"(?P<helper>{_PHRASE}) (?P<helped>{_any(*HELPED)}) (?P<whom>{_PHRASE})|"
    f"(?P<object>{_PHRASE}) was (?P<done>{_any(*HELPED)}) by (?P<doer>{_PHRASE})|"
    f"(?P<giver>{_PHRASE}) (?P<handed>{_any(*HANDED)}) "
    f"(?:(?P<gift>{_PHRASE}) to (?P<taker>{_PHRASE})|(?P<first>{_PHRASE}) (?P<second>{_PHRASE})))"
)
_VERBS = ("slept", "helped", "done", "handed")
_BY_ROLE = {
    "AGENT": ("sleeper", "helper", "doer", "giver"),
    "THEME": ("whom", "object", "gift", "second"),
    "RECIPIENT": ("taker", "first"),
}


def form_of(sentence: str) -> str:
    """The logical form of a sentence, or of a name alone."""
    if sentence in NAMES:
        return sentence.upper()
    found = SENTENCE.fullmatch(sentence)
    assert found is not None, f"'{sentence}' is no sentence"
    parts = {name: text for name, text in found.groupdict().items() if text}
    (verb,) = (parts[name] for name in _VERBS if name in parts)
    roles = (
        (role, parts[name]) for role, names in _BY_ROLE.items() for name in names if name in parts
    )
    form = f"{verb.upper()} ( {' , '.join(f'{role} {_nested(phrase)}' for role, phrase in roles)} )"
    if "said" in parts:
        form = f"{parts['said'].upper()} ( AGENT {_nested(parts['speaker'])} , THAT {form} )"
    return form


def _nested(phrase: str) -> str:
    """A phrase with each preposition in a bracket, all of which close at its end."""
    opened, count = re.subn(r"\b(in|on|beside)\b", r"( \1", phrase)
    return opened.upper() + " )" * count


def broken(sentence: str) -> set[str]:
    """Which rules a sentence is of, and ``other`` where a word of a rule is used as no set has it;
    by words alone."""
    clause = sentence.rpartition(" that ")[2]
    found = {"deep"} if re.search(r"(?:(?:in|on|beside) (?:the|a) \w+ ?){3}", sentence) else set()
    found |= {"passive"} if "was painted by" in sentence else set()
    found |= {"name"} if "zoe" in clause.split() else set()
    spoken = sentence.removesuffix(clause).split()
    found |= {"other"} if "zoe" in spoken else set()
    subject = re.match(r"(?:the|a) hedgehog\b", clause) and " was " not in clause
    uses = clause.split().count("hedgehog") - bool(subject)
    if uses:
        is_object = (
            uses == 1
            and " was " not in clause
            and re.search("THEME (THE|A) HEDGEHOG", form_of(clause))
        )
        found.add("object" if is_object else "other")
    return found


def test_the_reader_agrees_with_examples_by_hand():
    assert {sentence: form_of(sentence) for sentence in BY_HAND} == BY_HAND


def test_every_row_is_a_sentence_with_the_form_that_the_reader_tells():
    seen = set()
    for row in range(len(data())):
        tokens, labels = data().tokens[row], data().labels[row]
        written = [TASK.words[token] for token in tokens]
        arrow = written.index("=>")
        sentence, form = " ".join(written[:arrow]), TASK.answer(labels)
        assert form_of(sentence) == form
        answer = [*form.split(), "<end>"]
        assert np.flatnonzero(labels >= 0).tolist() == list(range(arrow, arrow + len(answer)))
        following = [*written[arrow + 1 :], "<end>"]  # a model sees the row without its last token
        assert following[: len(answer)] == answer
        assert set(following[len(answer) :]) <= {"<end>"}
        seen |= {*written}
    assert seen == set(TASK.words)


def test_every_row_breaks_the_rule_of_its_set_and_no_other():
    for name, sentences in rows().items():
        told = [set() if sentence == "zoe" else broken(sentence) for sentence in sentences]
        assert [rules for rules in told if rules != {name} & {*RULES}] == []
    train = rows()["train"]
    assert train.count("zoe") == TASK.n_alone == 100
    for word in (
        "hedgehog",
        "painted",
        "that",
        "was",
        "to",
    ):  # the words of the rules are trained otherwise
        assert sum(word in sentence.split() for sentence in train) > 50
    assert "zoe" not in {sentence for name in TASK.sets[1:] for sentence in rows()[name]}


def test_rows_are_as_many_as_asked_for_and_no_sentence_is_in_two_sets():
    sentences = [sentence for name in TASK.sets for sentence in rows()[name] if sentence != "zoe"]
    assert len(sentences) == len(set(sentences))
    assert [len(rows()[name]) for name in TASK.sets] == [2000, 500, 200, 200, 200, 200]
    np.testing.assert_array_equal(TASK.dataset(seed=3).tokens, data().tokens)
    assert not np.array_equal(TASK.dataset(seed=4).tokens, data().tokens)


def test_train_and_seen_test_are_one_draw_and_held_out_rows_are_no_longer_than_trained_ones():
    short = {name: sum(len(text.split()) == 2 for text in rows()[name]) for name in TASK.sets[:2]}
    expected = (
        sum(short.values()) * 500 / 2400
    )  # few are left where the first sentences drawn are those trained on
    assert abs(short["seen_test"] - expected) < 3 * np.sqrt(expected)
    ends = {
        name: (data().labels[data().rows(name)] >= 0)[:, ::-1].argmax(1).min() for name in TASK.sets
    }
    assert all(ends["train"] <= ends[rule] for rule in RULES)


def test_the_task_fits_training_and_its_vocabulary_has_no_word_twice():
    assert isinstance(TASK, Task)
    assert len(set(TASK.words)) == TASK.d_vocab == 145
    assert data().tokens.shape == data().labels.shape == (len(data()), 51)


def test_a_task_without_rows_alone_or_without_sentences_is_refused():
    for share in (0.0, 1.0):
        with pytest.raises(
            RbInterpError, match="rows of 'zoe' alone; expected one at least, and one sentence"
        ):
            CogsTask(alone_share=share)


def verdict(share) -> str:
    """What eight seeds with these shares make of P4."""
    rows = []
    for decay, gamma, seed, set in product(
        ("low", "high"), (0.3, 0.8), range(8), ("seen_test", "rules")
    ):
        place = {
            "sweep": f"cogs_{decay}",
            "gamma": gamma,
            "seed": seed,
            "stage": "final",
            "step": 1,
            "set": set,
        }
        rows += [
            {**place, **row}
            for row in Reading("answers", {"right": share(decay, gamma, set)}).rows()
        ]
    return judge(readings_table(rows), CLAIMS)["P4"].outcome


def test_p4_holds_from_its_thresholds_on():
    def world(difference, learned=0.95, cell=("high", 0.8)):
        def share(decay, gamma, set):
            if set == "seen_test":
                return learned if (decay, gamma) == cell else 1.0
            return 0.25 + difference * (decay == "high" and gamma == 0.8)

        return verdict(share)

    assert [world(0.1 + 1 / 128), world(0.1 - 1 / 128), world(-0.1)] == ["HOLDS", "FAILS", "FAILS"]
    for cell, outcome in (
        (("high", 0.8), "FAILS"),
        (("low", 0.3), "FAILS"),
        (("high", 0.3), "HOLDS"),
    ):
        assert world(0.2, 0.949, cell) == outcome


def test_a_run_reads_the_members_that_it_trained(tmp_path):
    smoke = CogsConfig.from_preset("smoke")
    tiny = {
        "task": CogsTask(60, 20, 10),
        "model": ModelConfig(d_model=16, d_head=8, d_mlp=16, norm="post"),
    }
    sweeps = {
        name: replace(
            sweep,
            **tiny,
            train=replace(sweep.train, steps=4, batch_size=16, eval_every=2, warmup=1),
        )
        for name, sweep in smoke.sweeps.items()
    }
    run = COGS.run(config=replace(smoke, **sweeps), out=tmp_path / "run", progress=False)
    readings = run.readings.set_index(["sweep", "gamma", "seed", "set", "quantity"])["value"]
    model, data = run.model(sweep="cogs_high", gamma=0.8, seed=1), run.sweep("cogs_high").dataset(1)
    own = right(model, data.tokens[data.rows("deep")], data.labels[data.rows("deep")]).mean()
    assert readings["cogs_high", 0.8, 1, "deep", "right"] == own
    rules = [readings["cogs_low", 0.3, 0, rule, "right"] for rule in RULES]
    assert readings["cogs_low", 0.3, 0, "rules", "right"] == np.mean(rules)
    assert len(run.readings) == 2 * 4 * 7 + 5 * 2
    page = run.report.read_text()
    assert "gamma_low_decay" in page
    assert "This run has no" not in page
