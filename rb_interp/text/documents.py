"""The documents of a corpus in the order of a seed: generated, or drawn from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count

import numpy as np

from rb_interp.text.classes import fact_table, generate_classes, generate_facts
from rb_interp.text.corpora import (
    GENERATED,
    HUB,
    files_of,
    full_name,
    generate_stories,
    read_prontoqa,
    read_stories,
)
from rb_interp.text.prontoqa import Example, generate
from rb_interp.text.settings import CORPORA, TextSettings

BLOCK = 250
"""Documents that a generator is asked for at once; a larger number begins with the same ones."""

MIN_STORY_TOKENS = 64
"""A low mean length of stories; it bounds how many of a large set on the hub are fetched."""

Document = Example | str


def stamps(config: TextSettings) -> tuple:
    """Names, times and sizes of the files of both corpora: a file that has changed is read again.

    Raises TextError as `files_of`.
    """
    stamps = []
    for corpus in CORPORA:
        for file in files_of(getattr(config, corpus)):
            state = file.stat()
            stamps.append((str(file), state.st_mtime_ns, state.st_size))
    return tuple(stamps)


class Documents:
    """The different documents of a corpus, in the order of a seed; drawn once, when needed.

    No two are the same text, so no text is both trained on and held out.

    >>> stories = Documents(TextSettings(), "stories", seed=0)
    >>> stories.take(2, 3) == stories.take(0, 5)[2:]
    True
    """

    def __init__(self, config: TextSettings, corpus: str, seed: int):
        self._source = _documents(config, corpus, seed)
        self._by_text: dict[str, Document] = {}

    def take(self, start: int, n: int) -> list[Document]:
        """Documents ``start`` to ``start + n``; fewer where there are no more."""
        while len(self._by_text) < start + n:
            document = next(self._source, None)
            if document is None:
                break
            self._by_text.setdefault(text_of(document), document)
        return list(self._by_text.values())[start : start + n]

    def texts(self, start: int, n: int) -> list[str]:
        """The texts of these documents that a model is trained on."""
        return [text_of(document) for document in self.take(start, n)]


def text_of(document: Document) -> str:
    """The text of a document that a model is trained on."""
    return document if isinstance(document, str) else document.text


def _documents(config: TextSettings, corpus: str, seed: int) -> Iterator[Document]:
    source = full_name(getattr(config, corpus), corpus)
    if source in GENERATED[corpus]:
        return _generated(config, corpus, seed)
    n = None
    if source == HUB["stories"]:
        # about twice what is needed of a large set, so that seeds draw different stories
        n = 2 * (config.sequences + config.held_out)
        if config.layout == "packed":
            n *= -(-config.n_ctx // MIN_STORY_TOKENS)
    documents = _read(corpus, source, n, stamps(config))
    rng = np.random.default_rng([seed, CORPORA.index(corpus)])
    return (documents[index] for index in rng.permutation(len(documents)))


def _generated(config: TextSettings, corpus: str, seed: int) -> Iterator[Document]:
    """Documents of a generator, until a block brings nothing new."""
    texts = set()
    table = fact_table(config.facts, seed)
    for block in count():
        sequence = np.random.SeedSequence([seed, CORPORA.index(corpus), block])
        state = int(sequence.generate_state(1)[0] >> 1)
        if getattr(config, corpus) == "facts":
            documents = generate_facts(BLOCK, state, table, block * BLOCK)
        elif corpus == "stories":
            documents = generate_stories(BLOCK, state)
        elif config.query == "property":
            documents = generate(BLOCK, state, config.hops, config.ordering)
        else:
            documents = generate_classes(BLOCK, state, config.hops, config.ordering, config.query)
        n_before = len(texts)
        texts.update(map(text_of, documents))
        if len(texts) == n_before:
            return
        yield from documents


@lru_cache(maxsize=4)
def _read(corpus: str, source: str, n: int | None, stamps: tuple) -> Sequence[Document]:
    return read_prontoqa(source) if corpus == "prontoqa" else read_stories(source, n)
