"""Documents of a corpus in the order of a seed: generated as they are needed, or drawn from files without replacement.

No two documents of a corpus are the same text, so what is trained on never comes back among what is held out, even
where one file (or a folder of files with common parts) gives both.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from pathlib import Path

import numpy as np

from rb_interp.text.config import CORPORA, TextConfig
from rb_interp.text.example import Example

BLOCK = 250
"""Documents that a generator is asked for at once; the first n are the same however many are needed in the end."""
HUB = {"prontoqa": "smoorsmith/prontoqa", "stories": "roneneldan/TinyStories"}
LEAST_STORY_TOKENS = 64
"""How short stories could be on average, which bounds how many of a large set on the hub are fetched."""

Document = Example | str


class Documents:
    """The different documents of a corpus, in the order of a seed; drawn when asked for, each once.

    >>> stories = Documents(TextConfig(), "stories", seed=0)
    >>> stories.take(2, 3) == stories.take(0, 5)[2:]
    True
    """

    def __init__(self, config: TextConfig, corpus: str, seed: int):
        self._more = _generated(config, corpus, seed) if _generates(config, corpus) else _drawn(config, corpus, seed)
        self._kept: dict[str, Document] = {}

    def take(self, start: int, n: int) -> list[Document]:
        """Documents ``start`` to ``start + n``; fewer where there are no more."""
        for document in self._more if len(self._kept) < start + n else ():
            self._kept.setdefault(text_of(document), document)
            if len(self._kept) == start + n:
                break
        return list(self._kept.values())[start : start + n]


def text_of(document: Document) -> str:
    """What a model is trained on of a document."""
    return document if isinstance(document, str) else document.text


def source(config: TextConfig, corpus: str) -> str:
    """Where a corpus comes from, in words.

    >>> source(TextConfig(hops=(5,)), "prontoqa")
    'PrOntoQA, generated (fictional ontology, hops 5, random order)'
    """
    place = getattr(config, corpus)
    if place == "generate" and corpus == "prontoqa":
        hops = ", ".join(map(str, config.hops))
        return f"PrOntoQA, generated ({config.ontology} ontology, hops {hops}, {config.ordering} order)"
    if stand_in(config, corpus):
        from rb_interp.text.grammar import STAND_IN

        return STAND_IN
    name = {"prontoqa": "PrOntoQA", "stories": "stories"}[corpus]
    if hub := _hub(config, corpus):
        return f"TinyStories from the hub ({hub})" if hub == HUB["stories"] else f"{name} from the hub ({hub})"
    return f"{name} from {Path(place).expanduser().resolve().name}"


def stand_in(config: TextConfig, corpus: str) -> bool:
    """Whether a corpus only stands in for the paper's: the story grammar does; generated PrOntoQA is PrOntoQA."""
    return corpus == "stories" and config.stories == "grammar"


def _generates(config: TextConfig, corpus: str) -> bool:
    return getattr(config, corpus) == ("generate" if corpus == "prontoqa" else "grammar")


def _hub(config: TextConfig, corpus: str) -> str:
    """Name of the dataset on the hub; empty where the corpus does not come from there."""
    place = getattr(config, corpus)
    if place == "hub":
        return HUB[corpus]
    return place.removeprefix("hub:") if place.startswith("hub:") else ""


def _generated(config: TextConfig, corpus: str, seed: int) -> Iterator[Document]:
    """Blocks of documents, each with a seed of its own; ends where a block brings nothing that is new."""
    seen: set[str] = set()
    for block in count():
        state = np.random.SeedSequence([seed, CORPORA.index(corpus), block]).generate_state(1)
        documents = _generate_block(config, corpus, int(state[0] >> 1))
        before = len(seen)
        seen.update(map(text_of, documents))
        if len(seen) == before:
            return
        yield from documents


def _generate_block(config: TextConfig, corpus: str, seed: int) -> list[Document]:
    if corpus == "prontoqa":
        from rb_interp.text.prontoqa import generate

        return [*generate(BLOCK, seed, hops=config.hops, ontology=config.ontology, ordering=config.ordering)]
    from rb_interp.text.grammar import generate_stories

    return [*generate_stories(BLOCK, seed)]


def _drawn(config: TextConfig, corpus: str, seed: int) -> Iterator[Document]:
    """Documents of a file or of the hub, in an order that the seed draws."""
    hub = _hub(config, corpus)
    place = Path(getattr(config, corpus)).expanduser()
    documents = _from_hub(corpus, hub, _fetched(config)) if hub else _from_place(corpus, str(place), stamp(place))
    order = np.random.default_rng([seed, CORPORA.index(corpus)]).permutation(len(documents))
    return (documents[number] for number in order)


def _fetched(config: TextConfig) -> int:
    """Stories fetched of TinyStories on the hub: about twice what is needed, so that seeds draw different ones."""
    rows = config.sequences + config.held_out
    return 2 * rows * (1 if config.layout == "padded" else -(-config.n_ctx // LEAST_STORY_TOKENS))


@lru_cache(maxsize=4)
def _from_hub(corpus: str, name: str, n: int) -> tuple[Document, ...]:
    from rb_interp.text import prontoqa_files, stories

    if corpus == "prontoqa":
        return tuple(prontoqa_files.load_prontoqa_hub(name))
    return tuple(stories.load_stories_hub(name, n=n if name == HUB["stories"] else None))


@lru_cache(maxsize=2)
def _from_place(corpus: str, place: str, stamp: tuple) -> tuple[Document, ...]:
    """The documents of a file or folder, read again when its stamp has changed."""
    from rb_interp.text import prontoqa_files, stories

    return tuple(prontoqa_files.read_prontoqa(place) if corpus == "prontoqa" else stories.read_stories(place))


def stamp(place: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, times and sizes of a file or of the files of a folder; empty where there is nothing."""
    files = sorted(place.iterdir()) if place.is_dir() else [place] if place.is_file() else []
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
