"""Rows of tokens for next-token prediction; each row belongs to one corpus, so that losses are per corpus.

A row holds n_ctx + 1 tokens: a model sees the first n_ctx and predicts the last n_ctx.

- packed: the stream ``end doc end doc end ...`` is cut every n_ctx tokens; neighbouring rows share one token, so every
  token but the first is a target exactly once. A row may begin and end within a document, and a token can attend to
  the document before its own, as in GPT-2's own training.
- padded: ``end doc end``, cut at n_ctx + 1, filled up with ``end``; what is filled in is no target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int8

from rb_interp.errors import TextError, nearest
from rb_interp.record import Record
from rb_interp.tasks.roles import selected
from rb_interp.text.config import CORPORA
from rb_interp.typed import typed


@typed
@dataclass(frozen=True, eq=False, repr=False)
class Rows(Record):
    """Rows of both corpora.

    Attributes:
        tokens: ``[row, n_ctx + 1]``, int32. May be read-only; ``batch`` gives copies that torch can take.
        corpus: ``[row]``, index into CORPORA.
        lengths: ``[row]``, tokens of a row that are text, the first one included; n_ctx + 1 where packed.
    """

    tokens: Int[np.ndarray, "row n_ctx_and_1"]
    corpus: Int8[np.ndarray, " row"]
    lengths: Int[np.ndarray, " row"]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def n_ctx(self) -> int:
        """Tokens that a model sees of each row."""
        return self.tokens.shape[1] - 1

    @property
    def targets(self) -> Bool[np.ndarray, "row n_ctx"]:
        """Where the next token counts: ``targets[r, t]`` is True where ``tokens[r, t + 1]`` is text."""
        return np.arange(1, self.n_ctx + 1) < self.lengths[:, None]

    @typed
    def batch(
        self, rows: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, "n n_ctx"], Int[np.ndarray, "n n_ctx"], Bool[np.ndarray, "n n_ctx"]]:
        """Inputs, next tokens (both int64, own memory) and the mask of targets of the given rows, as of `select`."""
        chosen = self.select(rows)
        tokens = chosen.tokens.astype(np.int64)
        return tokens[:, :-1].copy(), tokens[:, 1:].copy(), chosen.targets

    @typed
    def of(self, corpus: str) -> Int[np.ndarray, " n"]:
        """Row numbers of a corpus; TextError where there is no such corpus."""
        if corpus not in CORPORA:
            raise TextError(f"there is no corpus '{corpus}'; {nearest(corpus, CORPORA)}")
        return np.flatnonzero(self.corpus == CORPORA.index(corpus))

    @typed
    def select(self, rows: Int[np.ndarray, " n"]) -> Rows:
        """The given rows alone; RolesError for one that is not there."""
        rows = selected(rows, len(self))
        return Rows(self.tokens[rows], self.corpus[rows], self.lengths[rows])

    @typed
    def counts(self, d_vocab: int) -> Int[np.ndarray, "2 {d_vocab}"]:
        """How often each token is a target, by corpus."""
        targets, following = self.targets, self.tokens[:, 1:]
        each = [self.corpus == number for number in range(len(CORPORA))]
        return np.stack([np.bincount(following[rows][targets[rows]], minlength=d_vocab) for rows in each])


def packed(stream: Int[np.ndarray, " token"], n_ctx: int, corpus: int, n: int) -> Rows:
    """The first n rows of a stream that begins with ``end``; fewer where the stream is shorter (a view, no copy).

    >>> packed(np.array([0, 5, 6, 0, 7, 0, 8], dtype=np.int32), n_ctx=2, corpus=1, n=9).tokens.tolist()
    [[0, 5, 6], [6, 0, 7], [7, 0, 8]]
    """
    whole = max(0, min(n, (len(stream) - 1) // n_ctx))
    tokens = np.zeros((0, n_ctx + 1), dtype=stream.dtype)
    if whole:
        tokens = np.lib.stride_tricks.sliding_window_view(stream[: whole * n_ctx + 1], n_ctx + 1)[::n_ctx]
    return _rows(tokens, corpus, np.full(whole, n_ctx + 1))


def padded(stream: Int[np.ndarray, " token"], n_ctx: int, corpus: int, n: int, end: int) -> Rows:
    """The first n documents of a stream ``end doc end doc end``, one a row; a longer document is cut.

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
    columns = ([getattr(part, name) for part in parts] for name in ("tokens", "corpus", "lengths"))
    return Rows(*map(np.concatenate, columns))


def _rows(tokens: np.ndarray, corpus: int, lengths: np.ndarray) -> Rows:
    return Rows(tokens, np.full(len(tokens), corpus, dtype=np.int8), lengths)
