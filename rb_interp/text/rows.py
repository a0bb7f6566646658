"""Rows of tokens, cut from a stream of documents.

A row belongs to one corpus and holds n_ctx + 1 tokens: a model sees the first n_ctx and predicts
the last n_ctx.

- packed: the stream ``end doc end doc end ...`` is cut every n_ctx tokens; neighbouring rows share
  one token, so every token but the first is a target exactly once. A row may begin and end within a
  document, and a token can attend to the document before its own, as in GPT-2's own training.
- padded: ``end doc end``, cut at n_ctx + 1, filled up with ``end``; what is filled in is no target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int32

from rb_interp.arguments import checked
from rb_interp.errors import TextError
from rb_interp.table_repr import TableRepr
from rb_interp.text.settings import CORPORA
from rb_interp.text.tokenizer import Tokenizer


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Rows(TableRepr):
    """Rows of both corpora.

    Attributes:
        tokens: ``[row, n_ctx + 1]``, int32; may be read-only.
        corpus: ``[row]``, index into CORPORA.
        lengths: ``[row]``, tokens of a row that are text, the first one included; n_ctx + 1 where
            packed.
    """

    tokens: Int[np.ndarray, "row n_ctx_and_1"]
    corpus: Int[np.ndarray, " row"]
    lengths: Int[np.ndarray, " row"]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def targets(self) -> Bool[np.ndarray, "row n_ctx"]:
        """Whether the next token counts: ``tokens[r, t + 1]`` is text if ``targets[r, t]``."""
        return np.arange(1, self.tokens.shape[1]) < self.lengths[:, None]

    def of(self, corpus: str) -> Rows:
        """The rows of a corpus."""
        rows = self.corpus == CORPORA.index(corpus)
        return Rows(self.tokens[rows], self.corpus[rows], self.lengths[rows])

    @checked
    def counts(self, d_vocab: int) -> Int[np.ndarray, "2 {d_vocab}"]:
        """How often each token is a target, by corpus."""
        following = self.tokens[:, 1:]
        counts = []
        for number in range(len(CORPORA)):
            of_corpus = self.targets & (self.corpus == number)[:, None]
            counts.append(np.bincount(following[of_corpus], minlength=d_vocab))
        return np.stack(counts)


def stream(texts: Sequence[str], tokenizer: Tokenizer) -> Int32[np.ndarray, " token"]:
    """The token stream of texts: ``end doc end doc end``.

    Raises TextError if ``end`` stands within a document.
    """
    documents = tokenizer.encode_batch(texts)
    tokens = [tokenizer.end]
    for document in documents:
        tokens += document
        tokens.append(tokenizer.end)
    if tokens.count(tokenizer.end) != len(documents) + 1:
        raise TextError(
            f"tokenizer '{tokenizer.kind}' gives the token between documents within a document; "
            f"take <|endoftext|> out of the texts."
        )
    return np.array(tokens, dtype=np.int32)


def packed(stream: Int[np.ndarray, " token"], n_ctx: int, corpus: int, n: int) -> Rows:
    """The first n rows of a stream that begins with ``end`` (a view); fewer of a short stream.

    >>> packed(np.array([0, 5, 6, 0, 7, 0, 8], dtype=np.int32), n_ctx=2, corpus=1, n=9).tokens.tolist()
    [[0, 5, 6], [6, 0, 7], [7, 0, 8]]
    """
    n_rows = max(0, min(n, (len(stream) - 1) // n_ctx))
    tokens = np.zeros((0, n_ctx + 1), dtype=stream.dtype)
    if n_rows:
        used = stream[: n_rows * n_ctx + 1]
        tokens = np.lib.stride_tricks.sliding_window_view(used, n_ctx + 1)[::n_ctx]
    return _rows(tokens, corpus, np.full(n_rows, n_ctx + 1))


def padded(stream: Int[np.ndarray, " token"], n_ctx: int, corpus: int, n: int, end: int) -> Rows:
    """The first n documents of a stream ``end doc end doc end``, one a row; a long one is cut.

    >>> rows = padded(np.array([0, 5, 6, 0, 7, 0], dtype=np.int32), n_ctx=3, corpus=0, n=2, end=0)
    >>> rows.tokens.tolist(), rows.lengths.tolist()
    ([[0, 5, 6, 0], [0, 7, 0, 0]], [4, 3])
    """
    ends = np.flatnonzero(stream == end)[: n + 1]
    tokens = np.full((max(0, len(ends) - 1), n_ctx + 1), end, dtype=stream.dtype)
    lengths = np.minimum(np.diff(ends) + 1, n_ctx + 1)
    for row, (start, length) in enumerate(zip(ends[:-1], lengths, strict=True)):
        tokens[row, :length] = stream[start : start + length]
    return _rows(tokens, corpus, lengths)


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows one after another, in the order given."""
    tokens = np.concatenate([part.tokens for part in parts])
    corpus = np.concatenate([part.corpus for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    return Rows(tokens, corpus, lengths)


def _rows(tokens: np.ndarray, corpus: int, lengths: np.ndarray) -> Rows:
    return Rows(tokens, np.full(len(tokens), corpus, dtype=np.int8), lengths)
