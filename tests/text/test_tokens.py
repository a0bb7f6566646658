"""Rows, masks and counts worked out by hand, and every token a target exactly once.

Text to tokens and back; what is no tokenizer, or not the one asked for, is refused.
"""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models

from rb_interp.errors import TextError
from rb_interp.text import tokens as module
from rb_interp.text.task import content_key
from rb_interp.text.tokens import (
    END,
    Tokenizer,
    concatenate_rows,
    load_tokenizer,
    packed,
    padded,
    stream,
    train_tokenizer,
)

END_ID = 0
STREAM = np.array([0, 5, 6, 7, 0, 8, 0, 5, 9, 5, 0], dtype=np.int32)  # documents 5 6 7 | 8 | 5 9 5


def test_padded_rows_are_one_document_each_cut_and_filled_with_end():
    rows = padded(STREAM, 3, corpus=1, n=3, end=END_ID)
    assert rows.tokens.tolist() == [[0, 5, 6, 7], [0, 8, 0, 0], [0, 5, 9, 5]]
    assert rows.lengths.tolist() == [4, 3, 4]
    assert rows.targets.tolist() == [[True, True, True], [True, True, False], [True, True, True]]
    assert rows.corpus.tolist() == [1, 1, 1]
    assert rows.counts(10).tolist() == [[0] * 10, [1, 0, 0, 0, 0, 3, 1, 1, 1, 1]]


def test_a_stream_is_end_then_documents_each_followed_by_end():
    tokenizer, texts = (
        train_tokenizer(["the cat sat on the mat"] * 3, 300),
        ["the cat sat", "the mat", "a cat"],
    )
    first, second, third = map(tokenizer.encode, texts)
    tokens = stream(texts, tokenizer)
    assert tokens.tolist() == [0, *first, 0, *second, 0, *third, 0]
    assert tokens.dtype == np.int32
    assert content_key(["ab", "c"]) != content_key(["a", "bc"]) != content_key(["a", "b", "c"])


def test_a_tokenizer_that_gives_end_within_a_document_is_refused():
    tokenizer = train_tokenizer(["the cat"] * 3, 300)
    backend = Backend.from_str(
        tokenizer.backend.to_str().replace('"special":true', '"special":false')
    )
    with pytest.raises(
        TextError,
        match=r"^tokenizer 'own' gives the token between documents within a document; take",
    ):
        stream([f"the {END} cat"], Tokenizer(backend, "own"))


def test_a_document_that_just_fits_keeps_its_end():
    rows = padded(STREAM, 4, corpus=0, n=2, end=END_ID)
    assert rows.tokens.tolist() == [[0, 5, 6, 7, 0], [0, 8, 0, 0, 0]]
    assert rows.lengths.tolist() == [5, 3]


def test_packed_rows_by_hand():
    rows = packed(STREAM, 4, corpus=0, n=9)
    assert rows.tokens.tolist() == [[0, 5, 6, 7, 0], [0, 8, 0, 5, 9]]
    assert rows.targets.all()
    assert rows.counts(10)[0].tolist() == [2, 0, 0, 0, 0, 2, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("length", "n_ctx"), [(101, 10), (100, 10), (110, 10), (11, 10), (10, 10), (1, 4), (50, 2)]
)
def test_packed_makes_every_token_but_the_first_a_target_exactly_once_in_order(length, n_ctx):
    stream = np.arange(length, dtype=np.int32)
    rows = packed(stream, n_ctx, corpus=0, n=10**6)
    inputs, following = rows.tokens[:, :-1], rows.tokens[:, 1:]
    assert len(rows) == (length - 1) // n_ctx
    assert rows.targets.all()
    assert following.ravel().tolist() == list(range(1, len(rows) * n_ctx + 1))
    assert (following - inputs == 1).all()


def test_joined_rows_keep_to_their_corpus():
    rows = concatenate_rows(
        [packed(STREAM, 3, corpus=0, n=2), padded(STREAM, 3, corpus=1, n=2, end=END_ID)]
    )
    assert rows.of("prontoqa").tokens.tolist() == [[0, 5, 6, 7], [7, 0, 8, 0]]
    assert rows.counts(10).sum(1).tolist() == [6, 5]
    assert rows.of("stories").tokens.tolist() == [[0, 5, 6, 7], [0, 8, 0, 0]]
    assert rows.of("stories").lengths.tolist() == [4, 3]


TEXTS = ["the cat sat on the mat", "the mat sat on the cat", "a cat, a mat"] * 3
real = pytest.mark.skipif(
    not os.environ.get("RB_INTERP_DATA"),
    reason="RB_INTERP_DATA is not set: GPT-2's own tokenizer is not here",
)


@pytest.mark.parametrize("text", ["the cat", " the  cat\n\n", "naïve 漢字 🙂", f"the{END} cat", ""])
def test_every_text_comes_back_and_never_holds_the_end(text):
    tokenizer = train_tokenizer(TEXTS, 300)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.end not in ids
    assert tokenizer.encode_batch([text, "a"]) == [ids, tokenizer.encode("a")]


def test_merges_by_hand():
    # "a" and "b" meet three times, then " " and "ab" twice; what meets once is not merged.
    tokenizer = train_tokenizer(["ab ab", "c ab xy"], 2048)
    assert tokenizer.d_vocab == 1 + 256 + 2
    assert [tokenizer.token_text(token) for token in tokenizer.encode("ab ab ac")] == [
        "ab",
        " ab",
        " ",
        "a",
        "c",
    ]
    assert tokenizer.token_text(tokenizer.end) == END
    assert tokenizer.token_text(tokenizer.encode("é")[0]) == "Ã"  # half a letter has no text


def test_saved_and_loaded_is_the_same(tmp_path):
    tokenizer = train_tokenizer(TEXTS, 265)
    tokenizer.backend.save(str(tmp_path / "tokenizer.json"))
    for place in (tmp_path, tmp_path / "tokenizer.json"):
        again = load_tokenizer(str(place), tokenizer.d_vocab)
        assert (again.fingerprint, again.end) == (tokenizer.fingerprint, 0)


def test_settings_saved_with_a_tokenizer_neither_cut_nor_fill_texts():
    backend = Backend.from_str(train_tokenizer(TEXTS, 300).backend.to_str())
    backend.enable_truncation(2)
    backend.enable_padding(length=50)
    assert len(Tokenizer(backend, "own").encode("the cat sat on the mat")) == 6


def test_an_empty_gpt2_is_not_taken_for_gpt2(monkeypatch):
    empty = Backend(models.BPE())
    empty.add_special_tokens([END])  # what transformers gives where there is no network
    monkeypatch.setattr(
        module.tokenizers, "Tokenizer", SimpleNamespace(from_pretrained=lambda name: empty)
    )
    with pytest.raises(
        TextError, match=r"^tokenizer 'gpt2' has 1 entries and d_vocab=50,257; give d_vocab=1\.$"
    ):
        load_tokenizer("gpt2", 50257)


def test_what_is_no_tokenizer_is_refused(tmp_path):
    file, own = tmp_path / "tokenizer.json", train_tokenizer(TEXTS, 265)
    for content, d_vocab, message in (
        (own.backend, 2048, "has 265 entries and d_vocab=2,048; give d_vocab=265."),
        (
            Backend(models.BPE({"a": 0, "b": 1, "c": 2}, [])),
            3,
            r"has no token <\|endoftext\|>; add it with add_spec",
        ),
    ):
        content.save(str(file))
        with pytest.raises(TextError, match=message):
            load_tokenizer(str(file), d_vocab)
    with pytest.raises(
        TextError, match=r"^d_vocab=100; a byte-level tokenizer has at least 257 entries\."
    ):
        train_tokenizer(TEXTS, 100)
    for ids in ([0, 265], [-1]):
        with pytest.raises(TextError, match="; this tokenizer has 0 to 264."):
            own.decode(ids)


@real
def test_gpt2s_own():
    tokenizer = load_tokenizer(str(Path(os.environ["RB_INTERP_DATA"]) / "gpt2_tokenizer"), 50257)
    assert tokenizer.encode("Hello world") == [15496, 995]
    assert (tokenizer.end, tokenizer.d_vocab, tokenizer.token_text(995)) == (50256, 50257, " world")
    # special to whoever loads it elsewhere
    assert Backend.from_str(tokenizer.backend.to_str()).encode(END).ids == [50256]
    text = f"It's 12:30 —\n\n  naïve {END} 漢字 🙂"
    assert tokenizer.decode(tokenizer.encode(text)) == text
