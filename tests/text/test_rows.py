"""Rows, masks and counts worked out by hand, and every token a target exactly once."""

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend

from rb_interp.errors import TextError
from rb_interp.text.data import content_key
from rb_interp.text.rows import joined, packed, padded, stream
from rb_interp.text.tokenizer import END as MARK
from rb_interp.text.tokenizer import Tokenizer, train_tokenizer

END = 0
STREAM = np.array([0, 5, 6, 7, 0, 8, 0, 5, 9, 5, 0], dtype=np.int32)  # documents 5 6 7 | 8 | 5 9 5


def test_padded_rows_are_one_document_each_cut_and_filled_with_end():
    rows = padded(STREAM, 3, corpus=1, n=3, end=END)
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
        stream([f"the {MARK} cat"], Tokenizer(backend, "own"))


def test_a_document_that_just_fits_keeps_its_end():
    rows = padded(STREAM, 4, corpus=0, n=2, end=END)
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
    rows = joined([packed(STREAM, 3, corpus=0, n=2), padded(STREAM, 3, corpus=1, n=2, end=END)])
    assert rows.of("prontoqa").tokens.tolist() == [[0, 5, 6, 7], [7, 0, 8, 0]]
    assert rows.counts(10).sum(1).tolist() == [6, 5]
    assert rows.of("stories").tokens.tolist() == [[0, 5, 6, 7], [0, 8, 0, 0]]
    assert rows.of("stories").lengths.tolist() == [4, 3]
