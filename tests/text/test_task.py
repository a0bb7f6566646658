"""What a seed trains on and is judged by: drawn once, kept apart, counted right."""

import json
import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rb_interp.errors import TextError
from rb_interp.text import documents
from rb_interp.text import task as module
from rb_interp.text.documents import Documents, text_of
from rb_interp.text.task import TextTask, entropy, text_data, tokenizer_of

SMALL = TextTask(sequences=60, held_out=12, answers=20, d_vocab=512, n_ctx=128)
PADDED = replace(SMALL, layout="padded", n_ctx=64)
real = pytest.mark.skipif(
    not os.environ.get("RB_INTERP_DATA"),
    reason="RB_INTERP_DATA is not set: no real stories and no GPT-2 tokenizer",
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Little text for the tokenizer, and small blocks."""
    monkeypatch.setattr(module, "TOKENIZER_DOCUMENTS", 40)
    for each in (module, documents):
        monkeypatch.setattr(each, "BLOCK", 40)
    module._trained.cache_clear()
    yield
    module._trained.cache_clear()


def stories_file(place, stories):
    place.write_text("".join(json.dumps({"text": story}) + "\n" for story in stories))
    return str(place)


def documents_of(data, rows):
    """Texts of padded rows, with the mark at either end taken off."""
    texts = (
        data.tokenizer.decode(row[:length])
        for row, length in zip(rows.tokens, rows.lengths, strict=True)
    )
    return [text.removeprefix("<|endoftext|>").removesuffix("<|endoftext|>") for text in texts]


@pytest.mark.parametrize("corpus", ["prontoqa", "stories"])
def test_packed_rows_are_the_documents_after_the_held_out_ones_word_for_word(corpus):
    data = text_data(SMALL, seed=3)
    drawn = Documents(SMALL, corpus, seed=3)
    held_out = data.provenance[corpus]["held_out_documents"]
    for name, start, n in (("train", held_out, 60), ("test", 0, 12)):
        rows = data.rows(f"{corpus}_{name}")
        text = data.tokenizer.decode(rows.tokens[:, 1:].ravel())
        expected = "<|endoftext|>".join(map(text_of, drawn.take(start, 100)))
        assert len(rows) == n
        assert text == expected[: len(text)]
        if name == "train":
            assert data.provenance[corpus]["documents"] - held_out == 1 + text.removesuffix(
                "<|endoftext|>"
            ).count("<|")


def test_held_out_text_and_examples_are_never_trained_on():
    data = text_data(replace(SMALL, hops=(1,)), seed=0)
    trained = data.tokenizer.decode(data.rows("prontoqa_train").tokens[:, 1:].ravel())
    assert len({example.text for example in data.examples}) == 20
    assert [example for example in data.examples if example.text in trained] == []
    assert data.examples[0].text in data.tokenizer.decode(
        data.rows("prontoqa_test").tokens[:, 1:].ravel()
    )


def test_a_file_with_copies_gives_each_story_to_one_side_only(tmp_path):
    stories = [f"Story {number} was told." for number in range(80)]
    place = stories_file(tmp_path / "stories.jsonl", stories + stories[::-1])
    data = text_data(replace(PADDED, stories=place), seed=0)
    train, test = (documents_of(data, data.rows(f"stories_{part}")) for part in ("train", "test"))
    assert len({*train, *test}) == len(train) + len(test) == 72
    assert {*train, *test} < set(stories)
    assert data.provenance["stories"]["documents"] == 72
    assert data.provenance["stories"]["source"] == "stories from stories.jsonl"


def test_too_little_text_says_how_much_there_is(tmp_path):
    place = stories_file(tmp_path / "few.jsonl", [f"Story {number}." for number in range(50)])
    with pytest.raises(TextError) as error:
        text_data(replace(PADDED, stories=place), seed=0)
    assert str(error.value) == (
        "stories from few.jsonl: too little text. Of 60 training rows and 12 held-out rows "
        "(padded, 64 tokens) its 50 "
        "different documents fill 38 and 12. Give more text, or lower sequences, held_out or n_ctx."
    )
    with pytest.raises(
        TextError, match=r"\(packed, 128 tokens\) its 50 different documents fill 0 and [0-9]\. "
    ):
        text_data(replace(SMALL, stories=place), seed=0)


@pytest.mark.parametrize(
    "changes",
    [
        {"curves": ("repeated",)},
        {"curves": ("fact",)},
        {"curves": ("template", "answer"), "query": "class"},
    ],
    ids=["none repeated", "no facts", "no answer behind the chain"],
)
def test_a_curve_that_would_have_no_target_is_refused(changes):
    task = replace(PADDED, n_ctx=96, hops=(1, 2), **changes)
    with pytest.raises(TextError, match=f"no row .* has targets '{task.curves[-1]}'"):
        task.dataset(0)


def test_counts_are_those_of_a_hand_count_and_leave_out_what_is_filled_in():
    data = text_data(PADDED, seed=1)
    for number, corpus in enumerate(("prontoqa", "stories")):
        count = Counter()
        for row in documents_of(data, data.rows(f"{corpus}_train")):
            count.update([*data.tokenizer.encode(row), data.tokenizer.end][: PADDED.n_ctx])
        # A document that is cut is encoded again from its beginning, so its last word may be cut up
        # differently.
        differ = sum(abs(count[token] - n) for token, n in enumerate(data.counts[number]))
        assert differ <= 3 * data.provenance[corpus]["cut"]
        n_tokens = data.provenance[corpus]["tokens"]
        assert n_tokens == data.counts[number].sum() == data.rows(f"{corpus}_train").targets.sum()
        shares = [n / data.counts[number].sum() for n in data.counts[number] if n]
        assert data.entropies[number] == pytest.approx(-sum(p * math.log(p) for p in shares))


def test_entropy_by_hand():
    assert entropy(np.array([2, 1, 1, 0])) == pytest.approx(1.5 * math.log(2))
    assert entropy(np.array([0, 7])) == 0


def test_documents_cut_are_counted():
    drawn = Documents(PADDED, "prontoqa", seed=0)
    used = [*drawn.take(0, 12), *drawn.take(20, 60)]  # of 20 held out for answers, 12 are rows
    lengths = [
        len(tokens) for tokens in tokenizer_of(PADDED).encode_batch(list(map(text_of, used)))
    ]
    n_ctx = sorted(lengths)[40] + 1  # one just fits, with the mark at either end
    data = text_data(replace(PADDED, n_ctx=n_ctx), seed=0)
    assert (
        data.provenance["prontoqa"]["cut"] == sum(length + 2 > n_ctx + 1 for length in lengths) > 0
    )
    assert data.train.lengths[:60].tolist() == [
        min(length + 2, n_ctx + 1) for length in lengths[12:]
    ]


def test_seeds_share_the_tokenizer_and_nothing_else(tmp_path):
    place = stories_file(
        tmp_path / "stories.jsonl", [f"Story {number} was told." for number in range(500)]
    )
    config = replace(PADDED, stories=place)  # one corpus is generated, the other drawn from a file
    first, again, other = text_data(config, 0), text_data(config, 0), text_data(config, 1)
    assert (first.train.tokens == again.train.tokens).all()
    assert first.provenance == again.provenance
    assert first.tokenizer.fingerprint == other.tokenizer.fingerprint
    for corpus in ("prontoqa", "stories"):
        assert first.provenance[corpus]["sha256"] != other.provenance[corpus]["sha256"]
        assert (first.rows(f"{corpus}_test").tokens != other.rows(f"{corpus}_test").tokens).any()


def test_the_tokenizer_does_not_depend_on_the_seed_or_on_the_number_of_rows():
    assert (
        tokenizer_of(SMALL).fingerprint
        == tokenizer_of(replace(SMALL, sequences=7, held_out=3)).fingerprint
    )
    assert tokenizer_of(SMALL).fingerprint != tokenizer_of(replace(SMALL, hops=(1,))).fingerprint


def test_how_many_are_asked_for_changes_no_document():
    few, many = Documents(SMALL, "prontoqa", 5), Documents(SMALL, "prontoqa", 5)
    assert [few.take(0, 3), few.take(3, 7)] == [many.take(0, 600)[:3], many.take(3, 7)]
    assert len(set(map(text_of, many.take(0, 600)))) == 600


@real
def test_real_stories_in_the_tokens_of_gpt2():
    place = Path(os.environ["RB_INTERP_DATA"])
    config = replace(
        PADDED,
        prontoqa=str(place / "prontoqa" / "v1_fictional_valid.jsonl"),
        stories=str(place / "tinystories" / "tinystories_valid.jsonl"),
        tokenizer=str(place / "gpt2_tokenizer"),
        d_vocab=50257,
        n_ctx=1024,
    )
    data = text_data(config, seed=0)
    kept = {story.strip() for story in map(text_of, Documents(config, "stories", 0).take(0, 72))}
    assert set(documents_of(data, data.test)[12:]) < kept
    assert data.provenance["stand_in"] == []
    assert data.provenance["stories"]["cut"] == data.provenance["prontoqa"]["cut"] == 0
    assert (data.train.tokens[:, 0] == 50256).all()
    assert 5 < data.entropies[1] < 6.5  # GPT-2 tokens of TinyStories: 5.9 nats


def test_a_chain_without_an_answer_needs_room_for_its_end():
    """The end of text is a target behind it."""
    changes = {"query": "class", "hops": (1,), "tokenizer": "words", "stories": "facts", "facts": 4}
    task = replace(PADDED, n_ctx=128, **changes)
    data = task.text(0)
    shortest = min(len(data.tokenizer.encode(example.text)) for example in data.examples)
    replace(task, n_ctx=shortest + 1).prepare([0])
    with pytest.raises(TextError, match=rf"the shortest has {shortest + 1} tokens"):
        replace(task, n_ctx=shortest).prepare([0])
