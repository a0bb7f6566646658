"""What one seed trains a language model on and judges it by: tokenizer, rows of both corpora,
held-out examples.

A tokenizer is byte-level BPE trained on the mix, GPT-2's own, or any tokenizer.json.
The mix is 1:1 in rows. Held-out documents are drawn first; no document is trained on too. A row
belongs to one corpus and holds n_ctx + 1 tokens: a model sees the first n_ctx and predicts the last
n_ctx.

- packed: the stream ``end doc end doc end ...`` is cut every n_ctx tokens; neighbouring rows share
  one token, so every token but the first is a target exactly once. A row may begin and end within a
  document, and a token can attend to the document before its own, as in GPT-2's own training.
- padded: ``end doc end``, cut at n_ctx + 1, filled up with ``end``; what is filled in is no target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from jaxtyping import Bool, Int, Int32
from tokenizers import decoders, models, pre_tokenizers, trainers

from rb_interp.arguments import checked
from rb_interp.errors import TextError, first_line, nearest
from rb_interp.table_repr import TableRepr
from rb_interp.tasks.dataset import Dataset
from rb_interp.text.corpora import BLOCK, Documents, source, stamps
from rb_interp.text.prontoqa import Example
from rb_interp.text.task import CORPORA, LEAST_D_VOCAB, TEXT_SETS, TRAIN, TextTask

END = "<|endoftext|>"
TOKENIZER_DOCUMENTS = 500
"""Documents of each corpus on which a tokenizer is trained, at most; drawn with seed 0 whatever the
seed."""


@checked
class Tokenizer:
    """A tokenizer of the library `tokenizers`, with nothing added to a text, cut off or filled up.

    Every text stays text: the letters ``<|endoftext|>`` within a document are spelled out in
    ordinary tokens, so that the token of that name only ever stands between documents. Raises
    TextError where there is no such token.

    Attributes:
        backend: the ``tokenizers.Tokenizer``. kind: ``train``, ``gpt2`` or the place it came from.
        end: id of ``<|endoftext|>``. d_vocab: number of entries; ids run from 0 to one below it.
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
        self.backend, self.kind, self.end, self.d_vocab = (
            backend,
            kind,
            end,
            backend.get_vocab_size(),
        )
        self.fingerprint = hashlib.sha256(backend.to_str().encode()).hexdigest()

    @checked
    def encode(self, text: str) -> list[int]:
        """Token ids of a text, no token added at either end."""
        return self.backend.encode(text, add_special_tokens=False).ids

    @checked
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of many texts, on all cores."""
        return [
            one.ids for one in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        ]

    @checked
    def decode(self, ids: Sequence[int] | Int[np.ndarray, " token"]) -> str:
        """The text of token ids, ``<|endoftext|>`` included; TextError for a number that is no
        token."""
        if (
            len(ids) and not 0 <= min(ids) <= max(ids) < self.d_vocab
        ):  # the library leaves it out without a word
            raise TextError(
                f"got tokens {min(ids)} to {max(ids)}; this tokenizer has 0 to {self.d_vocab - 1}."
            )
        return self.backend.decode([int(token) for token in ids], skip_special_tokens=False)

    @checked
    def token_text(self, token: int) -> str:
        """One token as a reader should see it: its text, leading space included; its raw name where
        it is no text."""
        text = self.decode([token])
        return text if text and "\ufffd" not in text else str(self.backend.id_to_token(token))


@checked
def train_tokenizer(texts: Iterable[str], d_vocab: int) -> Tokenizer:
    """Byte-level BPE of at most d_vocab entries: every text can be written in it, and it is the
    same at every call.

    Entry 0 ends a document. The 256 bytes follow, then the merges of pairs that occur at least
    twice within a word (as GPT-2 cuts words), most frequent first. Raises TextError below 257
    entries.

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


@checked
def load_tokenizer(place: str, d_vocab: int) -> Tokenizer:
    """The tokenizer ``gpt2`` (from the hub), of a tokenizer.json or of a folder with one; else
    TextError.

    Its size must be d_vocab: some loaders give an empty tokenizer where there is no network.
    """
    path = Path(place).expanduser()
    file = path / "tokenizer.json" if path.is_dir() else path
    read = tokenizers.Tokenizer
    try:
        backend = (
            read.from_pretrained(place)
            if place == "gpt2"
            else read.from_str(file.read_text("utf-8"))
        )
    except Exception as error:  # tokenizers raises bare Exceptions
        raise TextError(
            f"no tokenizer at '{place}' ({first_line(error)}). Give a tokenizer.json, a folder "
            f"with one, 'gpt2' (from "
            f"the hub) or 'train'."
        ) from None
    if (size := backend.get_vocab_size()) != d_vocab:
        raise TextError(
            f"tokenizer '{place}' has {size:,} entries and d_vocab={d_vocab:,}; give "
            f"d_vocab={size}."
        )
    return Tokenizer(backend, place)


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
        """Where the next token counts: ``targets[r, t]`` is True where ``tokens[r, t + 1]`` is
        text."""
        return np.arange(1, self.tokens.shape[1]) < self.lengths[:, None]

    def of(self, corpus: str) -> Rows:
        """The rows of a corpus."""
        rows = self.corpus == CORPORA.index(corpus)
        return Rows(self.tokens[rows], self.corpus[rows], self.lengths[rows])

    @checked
    def counts(self, d_vocab: int) -> Int[np.ndarray, "2 {d_vocab}"]:
        """How often each token is a target, by corpus."""
        targets, following = self.targets, self.tokens[:, 1:]
        each = [self.corpus == number for number in range(len(CORPORA))]
        return np.stack(
            [np.bincount(following[rows][targets[rows]], minlength=d_vocab) for rows in each]
        )


@checked
@dataclass(frozen=True, eq=False, repr=False)
class TextData(TableRepr):
    """The text of one seed.

    Attributes:
        train: ``config.sequences`` rows of each corpus, PrOntoQA first. test: ``config.held_out``
            rows of each.
        examples: ``config.answers`` held-out PrOntoQA examples; the held-out rows are of the same
            ones or more.
        counts: ``[corpus, token]``, how often a token is a target of the training rows.
        entropies: entropy of those frequencies by corpus, in nats: the loss of a model that knows
            nothing else.
        provenance: that of ``text_provenance``, with documents, tokens and sha256.
    """

    config: TextTask
    seed: int
    tokenizer: Tokenizer
    train: Rows
    test: Rows
    examples: list[Example]
    counts: Int[np.ndarray, "2 d_vocab"]
    entropies: tuple[float, float]
    provenance: dict[str, Any]

    @checked
    def rows(self, name: str) -> Rows:
        """The rows of one set of TEXT_SETS; TextError where there is no such set."""
        if name not in TEXT_SETS:
            raise TextError(f"there is no set '{name}'; {nearest(name, TEXT_SETS)}")
        corpus, _, part = name.rpartition("_")
        return (self.train if part == "train" else self.test).of(corpus)


@dataclass(frozen=True, eq=False, repr=False)
class TextRows(Dataset):
    """Rows of both corpora, trained on and held out; a batch takes as many of one corpus as of the
    other.

    Attributes:
        text: what the rows are cut from.
    """

    text: TextData | None = None

    @property
    def d_vocab(self) -> int:
        """Entries of the tokenizer; it may have fewer than the task's ``d_vocab``."""
        assert self.text is not None
        return self.text.tokenizer.d_vocab

    def sample(self, set: str, n: int) -> Int[np.ndarray, " n"]:
        """The first n rows of a set; documents come in random order already."""
        return self.rows(set)[:n]

    @classmethod
    def of(cls, text: TextData) -> TextRows:
        """All rows of a text, the training rows of both corpora first."""
        rows = joined([text.train, text.test])
        tokens = rows.tokens.astype(np.int64)
        return cls(
            seed=text.seed,
            tokens=tokens[:, :-1],
            labels=np.where(rows.targets, tokens[:, 1:], -1),
            set=np.concatenate([text.train.corpus, len(CORPORA) + text.test.corpus]).astype(
                np.int64
            ),
            sets=TEXT_SETS,
            train_sets=TRAIN,
            name="the text task",
            batch_sets=TRAIN,
            text=text,
        )


@checked
def text_data(config: TextTask, seed: int) -> TextData:
    """Draw the documents of a seed, tokenise them and cut them into rows; TextError without the
    tokenizer or the text.

    >>> data = text_data(TextTask.preset("smoke"), seed=0)
    >>> data.train.tokens.shape, data.test.tokens.shape, len(data.examples)
    ((80, 257), (16, 257), 20)
    """
    tokenizer = tokenizer_of(config)
    parts, provenance = (
        [_corpus(config, corpus, seed, tokenizer) for corpus in CORPORA],
        text_provenance(config),
    )
    trains, tests, examples, drawn = zip(*parts, strict=True)
    train, test = joined(trains), joined(tests)
    counts = train.counts(tokenizer.d_vocab)
    for corpus, more, corpus_counts in zip(CORPORA, drawn, counts, strict=True):
        provenance[corpus] |= more | {"tokens": int(corpus_counts.sum())}
    provenance["tokenizer"] |= {"d_vocab": tokenizer.d_vocab, "sha256": tokenizer.fingerprint}
    entropies = (entropy(counts[0]), entropy(counts[1]))
    return TextData(
        config, seed, tokenizer, train, test, examples[0], counts, entropies, provenance
    )


@lru_cache(maxsize=8)
def drawn(task: TextTask, seed: int, stamps: tuple) -> TextData:
    """`text_data`, kept while the files stay as they are (``corpora.stamps``)."""
    return text_data(task, seed)


@checked
def text_provenance(config: TextTask) -> dict[str, Any]:
    """What a text is, without building it: source and ``stand_in`` of each corpus, the tokenizer's
    kind and size.

    ``provenance["stand_in"]`` holds sentences to show beside numbers of this text; empty where all
    is real.

    >>> text_provenance(TextTask())["stand_in"]
    ['The stories are sentences of a small story grammar, standing in for TinyStories.']
    """
    provenance: dict[str, Any] = {
        corpus: {"source": source(config, corpus), "stand_in": getattr(config, corpus) == "grammar"}
        for corpus in CORPORA
    }
    kind = (
        config.tokenizer
        if config.tokenizer in ("train", "gpt2")
        else Path(config.tokenizer).expanduser().name
    )
    provenance["tokenizer"] = {"kind": kind, "d_vocab": config.d_vocab}
    stories = provenance["stories"]
    provenance["stand_in"] = (
        [f"The stories are {stories['source']}."] if stories["stand_in"] else []
    )
    return provenance


@checked
def tokenizer_of(config: TextTask) -> Tokenizer:
    """The tokenizer of a text, the same for all seeds; trained at most once per process. TextError
    as ``text_data``."""
    if config.tokenizer != "train":
        return load_tokenizer(config.tokenizer, config.d_vocab)
    if not config.stories.startswith(
        "hub"
    ):  # there, the number of rows decides how many stories are fetched
        config = replace(config, sequences=1, held_out=1, answers=1, n_ctx=2, layout="packed")
    return _trained(config, stamps(config))


@lru_cache(maxsize=4)
def _trained(config: TextTask, stamps: tuple) -> Tokenizer:
    corpora = (
        Documents(config, corpus, seed=0).texts(0, TOKENIZER_DOCUMENTS) for corpus in CORPORA
    )
    return train_tokenizer(chain.from_iterable(corpora), config.d_vocab)


def entropy(counts: Int[np.ndarray, " d_vocab"]) -> float:
    """Entropy in nats of the frequencies that counts give; 0 where one token has them all."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum()) + 0.0


def _corpus(
    config: TextTask, corpus: str, seed: int, tokenizer: Tokenizer
) -> tuple[Rows, Rows, list[Example], dict[str, Any]]:
    """Training rows, held-out rows and examples of a corpus, and what ``TextData.provenance`` says
    of them."""
    documents = Documents(config, corpus, seed)
    answers = config.answers if corpus == "prontoqa" else 0
    test, n_test, cut_test = _fill(config, corpus, documents, 0, config.held_out, tokenizer)
    held_out = max(n_test, answers)
    train, n_train, cut = _fill(config, corpus, documents, held_out, config.sequences, tokenizer)
    examples = [
        document for document in documents.take(0, answers) if isinstance(document, Example)
    ]
    used = documents.texts(0, held_out + n_train)
    if len(test) < config.held_out or len(train) < config.sequences or len(examples) < answers:
        found = f", of {answers:,} examples for answers {len(examples):,}" if answers else ""
        raise TextError(
            f"{source(config, corpus)}: too little text. Of {config.sequences:,} training rows and "
            f"{config.held_out:,} held-out rows ({config.layout}, {config.n_ctx} tokens) its "
            f"{len(used):,} different "
            f"documents fill {len(train):,} and {len(test):,}{found}. Give more text, or lower "
            f"sequences, held_out"
            f"{', answers' if answers else ''} or n_ctx."
        )
    return (
        train,
        test,
        examples,
        {
            "documents": len(used),
            "held_out_documents": held_out,
            "held_out_tokens": int(test.targets.sum()),
            "cut": cut + cut_test,
            "sha256": content_key(used),
        },
    )


def _fill(
    config: TextTask, corpus: str, documents: Documents, start: int, n: int, tokenizer: Tokenizer
) -> tuple[Rows, int, int]:
    """n rows from the documents that begin at ``start``; the number of documents used, and of those
    cut short."""
    number = CORPORA.index(corpus)
    if config.layout == "padded":
        tokens = stream(documents.texts(start, n), tokenizer)
        rows = padded(tokens, config.n_ctx, number, n, tokenizer.end)
        return (
            rows,
            len(rows),
            int((np.diff(np.flatnonzero(tokens == tokenizer.end)) > config.n_ctx).sum()),
        )
    needed, tokens, found = n * config.n_ctx + 1, stream([], tokenizer), 0
    while len(tokens) < needed and (texts := documents.texts(start + found, BLOCK)):
        tokens, found = np.concatenate([tokens, stream(texts, tokenizer)[1:]]), found + len(texts)
    used = int(
        (tokens[: needed - 1] == tokenizer.end).sum()
    )  # the first end stands before the first document
    return packed(tokens, config.n_ctx, number, n), min(used, found), 0


def stream(texts: Sequence[str], tokenizer: Tokenizer) -> Int32[np.ndarray, " token"]:
    """The token stream of texts: ``end doc end doc end``; TextError where ``end`` stands within a
    document."""
    documents = tokenizer.encode_batch(texts)
    tokens = np.array(
        [tokenizer.end, *chain.from_iterable((*one, tokenizer.end) for one in documents)],
        dtype=np.int32,
    )
    if np.count_nonzero(tokens == tokenizer.end) != len(documents) + 1:
        raise TextError(
            f"tokenizer '{tokenizer.kind}' gives the token between documents within a document; "
            f"take <|endoftext|> out of the texts."
        )
    return tokens


def content_key(texts: Sequence[str]) -> str:
    """sha256 of texts in their order, 64 hex digits; where one text ends and the next begins counts
    too."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def packed(stream: Int[np.ndarray, " token"], n_ctx: int, corpus: int, n: int) -> Rows:
    """The first n rows of a stream that begins with ``end``; fewer where the stream is shorter (a
    view, no copy).

    >>> packed(np.array([0, 5, 6, 0, 7, 0, 8], dtype=np.int32), n_ctx=2, corpus=1, n=9).tokens.tolist()
    [[0, 5, 6], [6, 0, 7], [7, 0, 8]]
    """
    whole = max(0, min(n, (len(stream) - 1) // n_ctx))
    tokens = np.zeros((0, n_ctx + 1), dtype=stream.dtype)
    if whole:
        tokens = np.lib.stride_tricks.sliding_window_view(stream[: whole * n_ctx + 1], n_ctx + 1)[
            ::n_ctx
        ]
    return _rows(tokens, corpus, np.full(whole, n_ctx + 1))


def padded(stream: Int[np.ndarray, " token"], n_ctx: int, corpus: int, n: int, end: int) -> Rows:
    """The first n documents of a stream ``end doc end doc end``, one a row; a longer document is
    cut.

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
