"""Tokenizers, and rows of tokens that are cut from a stream of documents.

A tokenizer is byte-level BPE trained on the text, the words of the text, GPT-2's, or any
tokenizer.json. A row belongs to
one corpus and holds n_ctx + 1 tokens: a model sees the first n_ctx and predicts the last n_ctx.

- packed: the stream ``end doc end doc end ...`` is cut every n_ctx tokens; neighbouring rows share
  one token, so every token but the first is a target exactly once. A row may begin and end within a
  document, and a token can attend to the document before its own, as in GPT-2's own training.
- padded: ``end doc end``, cut at n_ctx + 1, filled up with ``end``; what is filled in is no target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Bool, Int, Int32
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from rb_interp.arguments import checked
from rb_interp.errors import TextError, first_line
from rb_interp.table_repr import TableRepr
from rb_interp.text.settings import CORPORA, LEAST_D_VOCAB

END = "<|endoftext|>"


@checked
class Tokenizer:
    """A tokenizer of the library `tokenizers` that adds nothing to a text, and cuts and pads none.

    Every text stays text: the letters ``<|endoftext|>`` within a document are spelled out in
    ordinary tokens, so that the token of that name stands between documents alone. Raises TextError
    if there is no such token; `encode` raises it for a word that a tokenizer of words has not.

    Attributes:
        backend: the ``tokenizers.Tokenizer``.
        kind: ``train``, ``words``, ``phrases``, ``gpt2`` or the source that it was read from.
        end: id of ``<|endoftext|>``.
        d_vocab: number of entries; ids run from 0 to one below it.
        fingerprint: sha256 of its tokenizer.json, 64 hex digits.

    >>> tokenizer = train_tokenizer(["to be or not to be"] * 2, d_vocab=300)
    >>> tokenizer.decode(tokenizer.encode("to be, or not")), tokenizer.end
    ('to be, or not', 0)
    """

    def __init__(self, backend: tokenizers.Tokenizer, kind: str):
        end = backend.token_to_id(END)
        if end is None:
            raise TextError(
                f"tokenizer '{kind}' has no token {END}; add it with add_special_tokens(['{END}'])."
            )
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        self.backend = backend
        self.kind = kind
        self.end = end
        self.d_vocab = backend.get_vocab_size()
        self.fingerprint = hashlib.sha256(backend.to_str().encode()).hexdigest()

    @checked
    def encode(self, text: str) -> list[int]:
        """Token ids of a text, no token added at either end."""
        return self.encode_batch([text])[0]

    @checked
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of many texts, on all cores."""
        return [encoding.ids for encoding in self._encodings(texts, "encode_batch_fast")]

    def starts(self, texts: Sequence[str]) -> list[list[int]]:
        """The character of each text at which each of its tokens begins."""
        encodings = self._encodings(texts, "encode_batch")
        return [[first for first, _ in encoding.offsets] for encoding in encodings]

    def _encodings(self, texts: Sequence[str], method: str) -> list[Any]:
        try:
            return getattr(self.backend, method)(list(texts), add_special_tokens=False)
        except Exception:  # tokenizers raises bare Exceptions
            known = self.backend.get_vocab()
            for word in words_of(texts, self.backend.pre_tokenizer):
                if word not in known:
                    raise TextError(
                        f"'{word.strip()}' is none of the {self.d_vocab} words of tokenizer "
                        f"'{self.kind}'; use tokenizer 'train', which can write every text."
                    ) from None
            raise

    @checked
    def decode(self, ids: Sequence[int] | Int[np.ndarray, " token"]) -> str:
        """The text of token ids, ``<|endoftext|>`` included; TextError for an unknown token."""
        # the library leaves an unknown token out without a word
        if len(ids) and not 0 <= min(ids) <= max(ids) < self.d_vocab:
            raise TextError(
                f"got tokens {min(ids)} to {max(ids)}; this tokenizer has 0 to {self.d_vocab - 1}."
            )
        return self.backend.decode([int(token) for token in ids], skip_special_tokens=False)

    @checked
    def token_text(self, token: int) -> str:
        """The text of one token, leading space included; its raw name if it is no text."""
        text = self.decode([token])
        return text if text and "\ufffd" not in text else str(self.backend.id_to_token(token))


@checked
def train_tokenizer(texts: Iterable[str], d_vocab: int) -> Tokenizer:
    """Train byte-level BPE of at most d_vocab entries, the same at every call.

    Every text can be written in it. Entry 0 ends a document. The 256 bytes follow, then the merges
    of pairs that occur at least twice within a word (as GPT-2 cuts words), most frequent first.
    Raises TextError below 257 entries.

    >>> train_tokenizer(["one two"] * 2, d_vocab=2048).d_vocab
    262
    """
    if d_vocab < LEAST_D_VOCAB:
        raise TextError(
            f"d_vocab={d_vocab}; a byte-level tokenizer has at least {LEAST_D_VOCAB} entries. Give "
            f"more."
        )
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=d_vocab,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return Tokenizer(backend, "train")


_WORD = r" ?\w+|[^\w\s]|\s"
WORDS = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(_WORD), "isolated"),
        pre_tokenizers.Split(Regex(r"(?<=us)es$"), "isolated"),
    ]
)
"""Words with the space before them, signs, and the plural's ending apart: `` wumpus``, ``es``."""
PHRASES = pre_tokenizers.Split(Regex(rf" (?:is|are) (?:not )?(?:an? )?\w+|{_WORD}"), "isolated")
"""Predicates, `` is a wumpus``, and the words and signs around them."""


def words_of(texts: Iterable[str], cut: Any = WORDS) -> list[str]:
    """The different words of texts as a tokenizer of words, or another one, cuts them, sorted.

    >>> words_of(["Wumpuses are yumpuses."])
    [' are', ' yumpus', '.', 'Wumpus', 'es']
    >>> words_of(["Each wumpus is a yumpus."], PHRASES)
    [' is a yumpus', ' wumpus', '.', 'Each']
    """
    return sorted({word for text in texts for word, _ in cut.pre_tokenize_str(text)})


@checked
def word_tokenizer(texts: Iterable[str], d_vocab: int, phrases: bool = False) -> Tokenizer:
    """A token for each word of some texts, of at most d_vocab entries; entry 0 ends a document.

    With ``phrases`` a predicate is one token, so that a rule's subject and object are neighbours.
    Raises TextError if there are more words.

    >>> tokenizer = word_tokenizer(["Wumpuses are hot. Each wumpus is hot."], d_vocab=20)
    >>> tokenizer.d_vocab, tokenizer.decode(tokenizer.encode("Wumpuses are hot."))
    (9, 'Wumpuses are hot.')
    """
    cut = PHRASES if phrases else WORDS
    words = [END, *words_of(texts, cut)]
    if len(words) > d_vocab:
        raise TextError(
            f"d_vocab={d_vocab}; the text has {len(words) - 1:,} different words. Give more, or "
            f"use tokenizer 'train'."
        )
    vocabulary = {word: number for number, word in enumerate(words)}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary))
    backend.add_special_tokens([END])
    backend.pre_tokenizer = cut
    backend.decoder = decoders.Fuse()
    return Tokenizer(backend, "phrases" if phrases else "words")


@checked
def load_tokenizer(source: str, d_vocab: int) -> Tokenizer:
    """Read the tokenizer ``gpt2`` (from the hub), a tokenizer.json or a folder with one.

    Its size must be d_vocab: some loaders give an empty tokenizer if there is no network. Raises
    TextError if there is no such tokenizer.
    """
    path = Path(source).expanduser()
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        if source == "gpt2":
            backend = tokenizers.Tokenizer.from_pretrained(source)
        else:
            backend = tokenizers.Tokenizer.from_str(file.read_text("utf-8"))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise TextError(
            f"no tokenizer at '{source}' ({first_line(error)}). Give a tokenizer.json, a folder "
            f"with one, 'gpt2' (from the hub), 'train', 'words' or 'phrases'."
        ) from None
    size = backend.get_vocab_size()
    if size != d_vocab:
        raise TextError(
            f"tokenizer '{source}' has {size:,} entries and d_vocab={d_vocab:,}; give "
            f"d_vocab={size}."
        )
    return Tokenizer(backend, source)


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Rows(TableRepr):
    """Rows of both corpora.

    Attributes:
        tokens: ``[row, n_ctx + 1]``, int32; may be read-only.
        corpus: ``[row]``, index into CORPORA.
        lengths: ``[row]``, tokens of a row that are text, the first one included; n_ctx + 1 where
            packed.
        kinds: ``[row, n_ctx]``, index into ``targets.KINDS`` of each target, 0 where it is none;
            None if nobody asked.
    """

    tokens: Int[np.ndarray, "row n_ctx_and_1"]
    corpus: Int[np.ndarray, " row"]
    lengths: Int[np.ndarray, " row"]
    kinds: Int[np.ndarray, "row n_ctx"] | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def targets(self) -> Bool[np.ndarray, "row n_ctx"]:
        """Whether the next token counts: ``tokens[r, t + 1]`` is text if ``targets[r, t]``."""
        return np.arange(1, self.tokens.shape[1]) < self.lengths[:, None]

    def of(self, corpus: str) -> Rows:
        """The rows of a corpus."""
        return self.take(np.flatnonzero(self.corpus == CORPORA.index(corpus)))

    def take(self, rows: Int[np.ndarray, " n"]) -> Rows:
        """Rows by their numbers."""
        kinds = None if self.kinds is None else self.kinds[rows]
        return Rows(self.tokens[rows], self.corpus[rows], self.lengths[rows], kinds)

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


def concatenate_rows(parts: Sequence[Rows]) -> Rows:
    """Rows one after another, in the order given."""
    tokens = np.concatenate([part.tokens for part in parts])
    corpus = np.concatenate([part.corpus for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    kinds = [part.kinds for part in parts if part.kinds is not None]
    return Rows(tokens, corpus, lengths, np.concatenate(kinds) if kinds else None)


def _rows(tokens: np.ndarray, corpus: int, lengths: np.ndarray) -> Rows:
    return Rows(tokens, np.full(len(tokens), corpus, dtype=np.int8), lengths)
