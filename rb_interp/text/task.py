"""The text of a language model as a task: predict every next token of PrOntoQA and stories.

`TextData` is the text that one seed trains a model on and judges it by: tokenizer, rows of both
corpora and held-out examples. The mix is 1:1 in rows. Held-out documents are
drawn first; no document is trained on too.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int, Int8

from rb_interp.arguments import checked
from rb_interp.errors import TextError, nearest
from rb_interp.table_repr import TableRepr
from rb_interp.tasks.dataset import Dataset, Evaluation, Stage, entropy
from rb_interp.text.classes import CLASSES
from rb_interp.text.corpora import source_name
from rb_interp.text.documents import BLOCK, Document, Documents, stamps
from rb_interp.text.prontoqa import Example
from rb_interp.text.settings import (
    CORPORA,
    CURVES,
    EARLY,
    TEXT_SETS,
    TRAIN,
    TextSettings,
)
from rb_interp.text.targets import KINDS, target_kinds
from rb_interp.text.tokens import (
    Rows,
    Tokenizer,
    concatenate_rows,
    load_tokenizer,
    packed,
    padded,
    stream,
    train_tokenizer,
    word_tokenizer,
)

TRAINED = {
    "train": train_tokenizer,
    "words": word_tokenizer,
    "phrases": partial(word_tokenizer, phrases=True),
}
"""Kinds of tokenizers that are made from the text."""
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
        weights: ``[row, pos]``, of each label in the training loss; None if all are alike.
    """

    text: TextData | None = None
    weights: Float32[np.ndarray, "row pos"] | None = None

    @property
    def d_vocab(self) -> int:
        """Entries of the tokenizer; it may have fewer than the task's ``d_vocab``."""
        assert self.text is not None
        return self.text.tokenizer.d_vocab

    def sample(self, set: str, n: int) -> Int[np.ndarray, " n"]:
        """The first n rows of a set: fresh documents, in random order; facts in that of
        their table."""
        return self.rows(set)[:n]


@checked
def text_data(config: TextSettings, seed: int) -> TextData:
    """Draw the documents of a seed, tokenise them and cut them into rows.

    Raises TextError if the tokenizer or the text cannot be had.

    >>> data = text_data(TextSettings.preset("smoke"), seed=0)
    >>> data.train.tokens.shape, data.test.tokens.shape, len(data.examples)
    ((80, 257), (16, 257), 20)
    """
    tokenizer = tokenizer_of(config)
    corpora = [_corpus_rows(config, corpus, seed, tokenizer) for corpus in CORPORA]
    all_train, all_test, (examples, _), sources = zip(*corpora, strict=True)
    train = concatenate_rows(all_train)
    test = concatenate_rows(all_test)
    counts = train.counts(tokenizer.d_vocab)
    provenance = text_provenance(config)
    for corpus, source, tokens in zip(CORPORA, sources, counts, strict=True):
        provenance[corpus] |= source | {"tokens": int(tokens.sum())}
    provenance["tokenizer"] |= {"d_vocab": tokenizer.d_vocab, "sha256": tokenizer.fingerprint}
    entropies = (entropy(counts[0]), entropy(counts[1]))
    return TextData(config, seed, tokenizer, train, test, examples, counts, entropies, provenance)


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
    if kind not in (*TRAINED, "gpt2"):
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
    if config.tokenizer not in TRAINED:
        return load_tokenizer(config.tokenizer, config.d_vocab)
    # on the hub, the number of rows decides how many stories are fetched
    if not config.stories.startswith("hub"):
        sizes = {"sequences": config.facts, "held_out": 1, "answers": 1, "n_ctx": 2}
        targets = {"layout": "packed", "chain_weight": 1.0, "curves": (), "repeated": 0}
        config = replace(config, **sizes, **targets)
    return _trained(config, stamps(config))


@lru_cache(maxsize=4)
def _trained(config: TextSettings, stamps: tuple) -> Tokenizer:
    corpora = [Documents(config, corpus, seed=0) for corpus in CORPORA]
    # a rare word must be seen, a rare pair of letters need not
    n = TOKENIZER_DOCUMENTS * (1 if config.tokenizer == "train" else 8)
    texts = (documents.texts(0, n) for documents in corpora)
    make = TRAINED[config.tokenizer]
    return make(chain.from_iterable(texts), config.d_vocab)


def _corpus_rows(
    config: TextSettings, corpus: str, seed: int, tokenizer: Tokenizer
) -> tuple[Rows, Rows, list[Example], dict[str, Any]]:
    """Training rows, held-out rows, held-out examples and provenance of one corpus."""
    documents = Documents(config, corpus, seed)
    n_answers = config.answers if corpus == "prontoqa" else 0
    test, n_test, n_cut = _fill(config, corpus, documents, 0, config.held_out, tokenizer)
    held_out = max(n_test, n_answers)
    n_repeated = config.repeated if corpus == "prontoqa" else 0
    n_fresh = config.sequences - config.sequences // 2 if n_repeated else config.sequences
    filled = _fill(config, corpus, documents, held_out, n_fresh + n_repeated, tokenizer)
    train, n_train, n_train_cut = filled
    if n_repeated:
        again = np.tile(np.arange(n_fresh, len(train)), config.sequences // 2 // n_repeated)
        train = train.take(np.concatenate([np.arange(n_fresh), again]))
    first = documents.take(0, n_answers)
    examples = [document for document in first if isinstance(document, Example)]
    texts = documents.texts(0, held_out + n_train)
    few_rows = len(test) < config.held_out or len(train) < config.sequences
    if few_rows or len(examples) < n_answers:
        shortage = ""
        settings = "sequences, held_out"
        if n_answers:
            shortage = f", of {n_answers:,} examples for answers {len(examples):,}"
            settings = "sequences, held_out, answers"
        raise TextError(
            f"{source_name(config, corpus)}: too little text. Of {config.sequences:,} training "
            f"rows and {config.held_out:,} held-out rows ({config.layout}, {config.n_ctx} tokens) "
            f"its {len(texts):,} different documents fill {len(train):,} and "
            f"{len(test):,}{shortage}. Give more text, or lower {settings} or n_ctx."
        )
    provenance = {
        "documents": len(texts),
        "held_out_documents": held_out,
        "held_out_tokens": int(test.targets.sum()),
        "cut": n_train_cut + n_cut,
        "sha256": content_key(texts),
    }
    return train, test, examples, provenance


def _fill(
    config: TextSettings,
    corpus: str,
    documents: Documents,
    start: int,
    n: int,
    tokenizer: Tokenizer,
) -> tuple[Rows, int, int]:
    """n rows from the documents that begin at ``start``, the number of these, and of those cut."""
    number = CORPORA.index(corpus)
    if config.layout == "padded":
        tokens = stream(documents.texts(start, n), tokenizer)
        rows = padded(tokens, config.n_ctx, number, n, tokenizer.end)
        if config.needs_kinds:
            rows = replace(rows, kinds=_kinds(documents.take(start, n), config.n_ctx, tokenizer))
        lengths = np.diff(np.flatnonzero(tokens == tokenizer.end))
        return rows, len(rows), int((lengths > config.n_ctx).sum())
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
    return packed(tokens, config.n_ctx, number, n), min(n_begun, n_read), 0


def _kinds(
    documents: Sequence[Document], n_ctx: int, tokenizer: Tokenizer
) -> Int8[np.ndarray, "row n_ctx"]:
    """Kinds of the targets of padded rows; those of a story are all like those of a prompt."""
    kinds = np.zeros((len(documents), n_ctx), dtype=np.int8)
    examples = [document for document in documents if isinstance(document, Example)]
    if examples:
        for row, of_example in zip(kinds, target_kinds(examples, tokenizer), strict=True):
            row[: len(of_example)] = of_example[:n_ctx]
    return kinds


def content_key(texts: Sequence[str]) -> str:
    """sha256 of texts in their order and of the borders between them, 64 hex digits."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


class TextTask(TextSettings):
    """Next-token prediction on PrOntoQA and facts or stories, 1:1 (paper 1, Figs. 1 and 7).

    Raises ConfigError where a value is out of range or settings contradict each other.

    >>> task = TextTask.preset("smoke")
    >>> data = task.dataset(seed=0)
    >>> data.tokens.shape, len(data.rows("prontoqa_train")), task.length
    ((96, 256), 40, 256)
    """

    @property
    def stages(self) -> Mapping[str, Stage]:
        """``early``: the first evaluation whose training loss is at most 80 % of the first.

        The loss is the mean of both corpora. With the curve ``fact`` there is ``facts``: the first
        evaluation whose loss on facts is at most half of a guess among all classes.
        """
        stages = {
            "early": Stage(lambda now, start: _training_loss(now) <= EARLY * _training_loss(start))
        }
        if "fact" in self.curves:
            number = self.sets.index("fact")
            half = math.log(len(CLASSES)) / 2
            stages["facts"] = Stage(lambda now, start: now[:, number, 0] <= half)
        return stages

    def text(self, seed: int) -> TextData:
        """The text of a seed, drawn once per process while its files stay as they are.

        Raises TextError if the text cannot be had.
        """
        return cached_text_data(self, seed, stamps(self))

    def prepare(self, seeds: Sequence[int]) -> None:
        """Raise TextError if the text of a seed cannot be had, or if no example fits a row."""
        for seed in seeds:
            text = self.text(seed)
            # behind a chain without an answer the end of text is a target too
            shortest = min(
                len(text.tokenizer.encode(example.text)) + (not example.answer)
                for example in text.examples
            )
            if shortest > self.n_ctx:
                raise TextError(
                    f"none of {len(text.examples)} held-out PrOntoQA examples fits into "
                    f"n_ctx={self.n_ctx} (the shortest has {shortest} tokens), so no answer could "
                    f"be asked for; give a larger n_ctx, or fewer hops."
                )

    def provenance(self, seed: int) -> dict[str, Any]:
        """What a seed reads, as plain data: sources, sizes, hashes, unigram entropies (nats)."""
        text = self.text(seed)
        return {**text.provenance, "entropies": list(text.entropies)}

    def dataset(self, seed: int) -> TextRows:
        """The rows of a seed's text; a label is the next token, -1 if nothing is to be predicted.

        Raises TextError if the text cannot be had.
        """
        text = self.text(seed)
        parts = [text.train, text.test]
        set = [text.train.corpus, len(CORPORA) + text.test.corpus]
        for number, name in enumerate(self.curves, len(TEXT_SETS)):
            rows = text.rows(CURVES[name][0])
            if name == "repeated":  # they stand last
                rows = rows.take(np.arange(len(rows) - self.repeated, len(rows)))
            parts.append(rows)
            set.append(np.full(len(rows), number))
        rows = concatenate_rows(parts)
        set = np.concatenate(set).astype(np.int64)
        targets = rows.targets
        kinds = np.zeros(targets.shape, np.int8) if rows.kinds is None else rows.kinds
        for number, name in enumerate(self.curves, len(TEXT_SETS)):
            targets[set == number] &= kinds[set == number] == KINDS.index(CURVES[name][1])
            if not targets[set == number].any():
                raise TextError(f"curves={self.curves}: no row of this text has targets '{name}'.")
        tokens = rows.tokens.astype(np.int64)
        weights = None
        if self.chain_weight != 1:
            weights = np.where(kinds > 0, np.float32(self.chain_weight), np.float32(1))
        return TextRows(
            seed=seed,
            tokens=tokens[:, :-1],
            labels=np.where(targets, tokens[:, 1:], -1),
            set=set,
            sets=self.sets,
            train_sets=TRAIN,
            name="the text task",
            batch_sets=TRAIN,
            text=text,
            weights=weights,
        )


def _training_loss(values: Evaluation) -> np.ndarray:
    """Mean over both corpora, of each member."""
    return np.nanmean(values[:, : len(TRAIN), 0], axis=1)
