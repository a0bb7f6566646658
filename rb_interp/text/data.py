"""The text that one seed trains a language model on and judges it by.

Tokenizer, rows of both corpora and held-out examples. The mix is 1:1 in rows. Held-out documents are
drawn first; no document is trained on too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from rb_interp.arguments import checked
from rb_interp.errors import TextError, nearest
from rb_interp.table_repr import TableRepr
from rb_interp.tasks.dataset import Dataset
from rb_interp.text.corpora import BLOCK, Documents, source_name, stamps
from rb_interp.text.prontoqa import Example
from rb_interp.text.rows import Rows, joined, packed, padded, stream
from rb_interp.text.settings import CORPORA, TEXT_SETS, TRAIN, TextSettings
from rb_interp.text.tokenizer import Tokenizer, load_tokenizer, train_tokenizer

TOKENIZER_DOCUMENTS = 500
"""Documents of each corpus on which a tokenizer is trained, at most; of seed 0 for all seeds."""


@checked
@dataclass(frozen=True, eq=False, repr=False)
class TextData(TableRepr):
    """The text of one seed.

    Attributes:
        train: ``config.sequences`` rows of each corpus, PrOntoQA first.
        test: ``config.held_out`` rows of each.
        examples: ``config.answers`` held-out PrOntoQA examples; the held-out rows are of the same
            examples or more.
        counts: ``[corpus, token]``, how often a token is a target of the training rows.
        entropies: entropy of those frequencies by corpus, in nats: the loss of a model that knows
            nothing else.
        provenance: that of ``text_provenance``, with documents, tokens and sha256.
    """

    config: TextSettings
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
        """The rows of one set of TEXT_SETS; TextError if there is no such set."""
        if name not in TEXT_SETS:
            raise TextError(f"there is no set '{name}'; {nearest(name, TEXT_SETS)}")
        corpus, _, part = name.rpartition("_")
        rows = self.train if part == "train" else self.test
        return rows.of(corpus)


@dataclass(frozen=True, eq=False, repr=False)
class TextRows(Dataset):
    """Rows of both corpora, trained on and held out; a batch takes equally many of each corpus.

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
        set = np.concatenate([text.train.corpus, len(CORPORA) + text.test.corpus])
        return cls(
            seed=text.seed,
            tokens=tokens[:, :-1],
            labels=np.where(rows.targets, tokens[:, 1:], -1),
            set=set.astype(np.int64),
            sets=TEXT_SETS,
            train_sets=TRAIN,
            name="the text task",
            batch_sets=TRAIN,
            text=text,
        )


@checked
def text_data(config: TextSettings, seed: int) -> TextData:
    """Draw the documents of a seed, tokenise them and cut them into rows.

    Raises TextError if the tokenizer or the text cannot be had.

    >>> data = text_data(TextSettings.preset("smoke"), seed=0)
    >>> data.train.tokens.shape, data.test.tokens.shape, len(data.examples)
    ((80, 257), (16, 257), 20)
    """
    tokenizer = tokenizer_of(config)
    prontoqa, stories = (_corpus_rows(config, corpus, seed, tokenizer) for corpus in CORPORA)
    train = joined([prontoqa.train, stories.train])
    test = joined([prontoqa.test, stories.test])
    counts = train.counts(tokenizer.d_vocab)
    provenance = text_provenance(config)
    provenance["prontoqa"] |= prontoqa.provenance | {"tokens": int(counts[0].sum())}
    provenance["stories"] |= stories.provenance | {"tokens": int(counts[1].sum())}
    provenance["tokenizer"] |= {"d_vocab": tokenizer.d_vocab, "sha256": tokenizer.fingerprint}
    entropies = (entropy(counts[0]), entropy(counts[1]))
    return TextData(
        config, seed, tokenizer, train, test, prontoqa.examples, counts, entropies, provenance
    )


@lru_cache(maxsize=8)
def cached_text_data(config: TextSettings, seed: int, stamps: tuple) -> TextData:
    """`text_data`, drawn once while the files stay as they are (``corpora.stamps``)."""
    return text_data(config, seed)


@checked
def text_provenance(config: TextSettings) -> dict[str, Any]:
    """Describe a text without building it.

    Source and ``stand_in`` of each corpus, and the tokenizer's kind and size.
    ``provenance["stand_in"]`` holds sentences to show beside numbers of this text; empty if all is
    real.

    >>> text_provenance(TextSettings())["stand_in"]
    ['The stories are sentences of a small story grammar, standing in for TinyStories.']
    """
    provenance = {}
    for corpus in CORPORA:
        is_stand_in = getattr(config, corpus) == "grammar"
        provenance[corpus] = {"source": source_name(config, corpus), "stand_in": is_stand_in}
    kind = config.tokenizer
    if kind not in ("train", "gpt2"):
        kind = Path(kind).expanduser().name
    provenance["tokenizer"] = {"kind": kind, "d_vocab": config.d_vocab}
    stories = provenance["stories"]
    provenance["stand_in"] = []
    if stories["stand_in"]:
        provenance["stand_in"].append(f"The stories are {stories['source']}.")
    return provenance


@checked
def tokenizer_of(config: TextSettings) -> Tokenizer:
    """The tokenizer of a text, the same for all seeds; trained at most once per process.

    Raises TextError as `text_data`.
    """
    if config.tokenizer != "train":
        return load_tokenizer(config.tokenizer, config.d_vocab)
    # on the hub, the number of rows decides how many stories are fetched
    if not config.stories.startswith("hub"):
        config = replace(config, sequences=1, held_out=1, answers=1, n_ctx=2, layout="packed")
    return _trained(config, stamps(config))


@lru_cache(maxsize=4)
def _trained(config: TextSettings, stamps: tuple) -> Tokenizer:
    corpora = [Documents(config, corpus, seed=0) for corpus in CORPORA]
    texts = (documents.texts(0, TOKENIZER_DOCUMENTS) for documents in corpora)
    return train_tokenizer(chain.from_iterable(texts), config.d_vocab)


def entropy(counts: Int[np.ndarray, " d_vocab"]) -> float:
    """Entropy in nats of the frequencies that counts give; 0 if one token has them all."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum()) + 0.0


class _CorpusRows(NamedTuple):
    """The rows and the held-out examples of one corpus."""

    train: Rows
    test: Rows
    examples: list[Example]
    provenance: dict[str, Any]


def _corpus_rows(config: TextSettings, corpus: str, seed: int, tokenizer: Tokenizer) -> _CorpusRows:
    documents = Documents(config, corpus, seed)
    n_answers = config.answers if corpus == "prontoqa" else 0
    test = _fill(config, corpus, documents, 0, config.held_out, tokenizer)
    held_out = max(test.n_documents, n_answers)
    train = _fill(config, corpus, documents, held_out, config.sequences, tokenizer)
    first = documents.take(0, n_answers)
    examples = [document for document in first if isinstance(document, Example)]
    texts = documents.texts(0, held_out + train.n_documents)
    few_rows = len(test.rows) < config.held_out or len(train.rows) < config.sequences
    if few_rows or len(examples) < n_answers:
        shortage = ""
        settings = "sequences, held_out"
        if n_answers:
            shortage = f", of {n_answers:,} examples for answers {len(examples):,}"
            settings = "sequences, held_out, answers"
        raise TextError(
            f"{source_name(config, corpus)}: too little text. Of {config.sequences:,} training "
            f"rows and {config.held_out:,} held-out rows ({config.layout}, {config.n_ctx} tokens) "
            f"its {len(texts):,} different documents fill {len(train.rows):,} and "
            f"{len(test.rows):,}{shortage}. Give more text, or lower {settings} or n_ctx."
        )
    provenance = {
        "documents": len(texts),
        "held_out_documents": held_out,
        "held_out_tokens": int(test.rows.targets.sum()),
        "cut": train.n_cut + test.n_cut,
        "sha256": content_key(texts),
    }
    return _CorpusRows(train.rows, test.rows, examples, provenance)


class _Filled(NamedTuple):
    """Rows, the number of documents in them, and how many of these are cut short."""

    rows: Rows
    n_documents: int
    n_cut: int


def _fill(
    config: TextSettings,
    corpus: str,
    documents: Documents,
    start: int,
    n: int,
    tokenizer: Tokenizer,
) -> _Filled:
    """n rows from the documents that begin at ``start``."""
    number = CORPORA.index(corpus)
    if config.layout == "padded":
        tokens = stream(documents.texts(start, n), tokenizer)
        rows = padded(tokens, config.n_ctx, number, n, tokenizer.end)
        lengths = np.diff(np.flatnonzero(tokens == tokenizer.end))
        return _Filled(rows, len(rows), int((lengths > config.n_ctx).sum()))
    needed = n * config.n_ctx + 1
    tokens = stream([], tokenizer)
    n_read = 0
    while len(tokens) < needed:
        texts = documents.texts(start + n_read, BLOCK)
        if not texts:
            break
        tokens = np.concatenate([tokens, stream(texts, tokenizer)[1:]])
        n_read += len(texts)
    # the first end stands before the first document
    n_begun = int((tokens[: needed - 1] == tokenizer.end).sum())
    return _Filled(packed(tokens, config.n_ctx, number, n), min(n_begun, n_read), 0)


def content_key(texts: Sequence[str]) -> str:
    """sha256 of texts in their order and of the borders between them, 64 hex digits."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()
