"""What one seed trains a language model on and judges it by: rows of both corpora, held-out examples, token counts.

The mix is 1:1 in rows (paper 1, Fig. 1 and 7: 5,000 sequences of PrOntoQA and 5,000 of TinyStories).
Held-out documents are drawn first and training documents after them; no document is both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from rb_interp.errors import TextError, nearest
from rb_interp.record import Record
from rb_interp.text.config import CORPORA, TEXT_SETS, TextConfig
from rb_interp.text.corpus import content_key, stream
from rb_interp.text.documents import BLOCK, Documents, source, stamps, stand_in
from rb_interp.text.example import Example
from rb_interp.text.rows import Rows, joined, packed, padded
from rb_interp.text.tokenizer import Tokenizer, load_tokenizer, train_tokenizer
from rb_interp.typed import typed

TOKENIZER_DOCUMENTS = 500
"""Documents of each corpus on which a tokenizer is trained, at most; drawn with seed 0 whatever the seed."""
MARGIN = 1.05


@typed
@dataclass(frozen=True, eq=False, repr=False)
class TextData(Record):
    """The text of one seed.

    Attributes:
        train: ``config.sequences`` rows of each corpus, PrOntoQA first. test: ``config.held_out`` rows of each.
        examples: ``config.answers`` held-out PrOntoQA examples; the held-out rows are of the same ones or more.
        counts: ``[corpus, token]``, how often a token is a target of the training rows.
        entropies: entropy of those frequencies by corpus, in nats, 0 to log d_vocab: the loss of a model that knows
            them and nothing else.
        provenance: where all this comes from, as plain data (see ``text_provenance``), with documents, tokens and
            sha256.
    """

    config: TextConfig
    seed: int
    tokenizer: Tokenizer
    train: Rows
    test: Rows
    examples: list[Example]
    counts: Int[np.ndarray, "2 d_vocab"]
    entropies: tuple[float, float]
    provenance: dict[str, Any]

    @typed
    def rows(self, name: str) -> Rows:
        """The rows of one set of TEXT_SETS; TextError where there is no such set."""
        if name not in TEXT_SETS:
            raise TextError(f"there is no set '{name}'; {nearest(name, TEXT_SETS)}")
        corpus, _, part = name.rpartition("_")
        rows = self.train if part == "train" else self.test
        return rows.select(rows.of(corpus))


@typed
def text_data(config: TextConfig, seed: int) -> TextData:
    """Draw the documents of a seed, tokenise them and cut them into rows.

    ``data.tokenizer.d_vocab`` may be below ``config.d_vocab`` where ``train`` finds no more merges. Raises TextError
    where a text or tokenizer cannot be had or there is too little text.

    >>> data = text_data(TextConfig.preset("smoke"), seed=0)
    >>> data.train.tokens.shape, data.test.tokens.shape, len(data.examples)
    ((80, 257), (16, 257), 20)
    """
    tokenizer = tokenizer_of(config)
    parts, provenance = [_corpus(config, corpus, seed, tokenizer) for corpus in CORPORA], text_provenance(config)
    trains, tests, examples, drawn = zip(*parts, strict=True)
    train, test = joined(trains), joined(tests)
    counts = train.counts(tokenizer.d_vocab)
    for corpus, more, corpus_counts in zip(CORPORA, drawn, counts, strict=True):
        provenance[corpus] |= more | {"tokens": int(corpus_counts.sum())}
    provenance["tokenizer"] |= {"d_vocab": tokenizer.d_vocab, "sha256": tokenizer.fingerprint}
    entropies = (entropy(counts[0]), entropy(counts[1]))
    return TextData(config, seed, tokenizer, train, test, examples[0], counts, entropies, provenance)


@typed
def text_provenance(config: TextConfig) -> dict[str, Any]:
    """What a text is, without building it: source and ``stand_in`` of each corpus, the tokenizer's kind and size.

    ``provenance["stand_in"]`` holds sentences to show wherever numbers of this text are shown; empty where all is real.

    >>> text_provenance(TextConfig())["stand_in"]
    ['The stories are sentences of a small story grammar, standing in for TinyStories.']
    """
    provenance: dict[str, Any] = {
        corpus: {"source": source(config, corpus), "stand_in": stand_in(config, corpus)} for corpus in CORPORA
    }
    kind = config.tokenizer if config.tokenizer in ("train", "gpt2") else Path(config.tokenizer).expanduser().name
    provenance["tokenizer"] = {"kind": kind, "d_vocab": config.d_vocab}
    stories = provenance["stories"]
    provenance["stand_in"] = [f"The stories are {stories['source']}."] if stories["stand_in"] else []
    return provenance


@typed
def tokenizer_of(config: TextConfig) -> Tokenizer:
    """The tokenizer of a text, the same for all seeds; trained at most once per process. TextError as ``text_data``."""
    if config.tokenizer != "train":
        return load_tokenizer(config.tokenizer, config.d_vocab)
    if not config.stories.startswith("hub"):  # there, the number of rows decides how many stories are fetched
        config = replace(config, sequences=1, held_out=1, answers=1, n_ctx=2, layout="packed")
    return _trained(config, stamps(config))


@lru_cache(maxsize=4)
def _trained(config: TextConfig, stamps: tuple) -> Tokenizer:
    corpora = (Documents(config, corpus, seed=0).texts(0, TOKENIZER_DOCUMENTS) for corpus in CORPORA)
    return train_tokenizer(chain.from_iterable(corpora), config.d_vocab)


def entropy(counts: Int[np.ndarray, " d_vocab"]) -> float:
    """Entropy in nats of the frequencies that counts give; 0 where one token has them all.

    >>> round(entropy(np.array([2, 2, 0])), 4)
    0.6931
    """
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum()) + 0.0


def _corpus(
    config: TextConfig, corpus: str, seed: int, tokenizer: Tokenizer
) -> tuple[Rows, Rows, list[Example], dict[str, Any]]:
    """Training rows, held-out rows and examples of a corpus, and what ``TextData.provenance`` says of them."""
    documents = Documents(config, corpus, seed)
    answers = config.answers if corpus == "prontoqa" else 0
    test, n_test, cut_test = _fill(config, corpus, documents, 0, config.held_out, tokenizer)
    held_out = max(n_test, answers)
    train, n_train, cut = _fill(config, corpus, documents, held_out, config.sequences, tokenizer)
    examples = [document for document in documents.take(0, answers) if isinstance(document, Example)]
    used = documents.texts(0, held_out + n_train)
    if len(test) < config.held_out or len(train) < config.sequences or len(examples) < answers:
        found = f", of {answers:,} examples for answers {len(examples):,}" if answers else ""
        raise TextError(
            f"{source(config, corpus)}: too little text. Of {config.sequences:,} training rows and "
            f"{config.held_out:,} held-out rows ({config.layout}, {config.n_ctx} tokens) its {len(used):,} different "
            f"documents fill {len(train):,} and {len(test):,}{found}. Give more text, or lower sequences, held_out"
            f"{', answers' if answers else ''} or n_ctx."
        )
    return train, test, examples, {
        "documents": len(used),
        "held_out_documents": held_out,
        "held_out_tokens": int(test.targets.sum()),
        "cut": cut + cut_test,
        "sha256": content_key(used),
    }  # fmt: skip


def _fill(
    config: TextConfig, corpus: str, documents: Documents, start: int, n: int, tokenizer: Tokenizer
) -> tuple[Rows, int, int]:
    """n rows from the documents that begin at ``start``; the number of documents used, and of those cut short."""
    number = CORPORA.index(corpus)
    if config.layout == "padded":
        tokens = stream(documents.texts(start, n), tokenizer)
        rows = padded(tokens, config.n_ctx, number, n, tokenizer.end)
        return rows, len(rows), int((np.diff(np.flatnonzero(tokens == tokenizer.end)) > config.n_ctx).sum())
    needed = n * config.n_ctx + 1
    first = tokenizer.encode_batch(documents.texts(0, BLOCK))
    rate = 1 + sum(map(len, first)) / max(1, len(first))
    tokens, asked, found = np.zeros(0, dtype=np.int32), 0, 0
    while len(tokens) < needed and found == asked:
        asked += math.ceil((needed - len(tokens)) / rate * MARGIN) + 1
        texts = documents.texts(start, asked)
        tokens, found = stream(texts, tokenizer), len(texts)
    used = int((tokens[: needed - 1] == tokenizer.end).sum())  # the first end stands before the first document
    return packed(tokens, config.n_ctx, number, n), min(used, found), 0
