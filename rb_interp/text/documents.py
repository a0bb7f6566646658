"""Documents of a corpus in the order of a seed: generated as they are needed, or drawn from files without replacement.

No two documents of a corpus are the same text, so no text is both trained on and held out.
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
MADE = {"prontoqa": "generate", "stories": "grammar"}
"""What stands for a corpus of our own making, in place of a file, a folder or a dataset."""
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
        generates = getattr(config, corpus) == MADE[corpus]
        self._more = (_generated if generates else _drawn)(config, corpus, seed)
        self._kept: dict[str, Document] = {}

    def take(self, start: int, n: int) -> list[Document]:
        """Documents ``start`` to ``start + n``; fewer where there are no more."""
        for document in self._more if len(self._kept) < start + n else ():
            self._kept.setdefault(text_of(document), document)
            if len(self._kept) == start + n:
                break
        return list(self._kept.values())[start : start + n]

    def texts(self, start: int, n: int) -> list[str]:
        """What a model is trained on of these documents."""
        return [text_of(document) for document in self.take(start, n)]


def text_of(document: Document) -> str:
    """What a model is trained on of a document."""
    return document if isinstance(document, str) else document.text


def source(config: TextConfig, corpus: str) -> str:
    """Where a corpus comes from, in words.

    >>> source(TextConfig(hops=(5,)), "prontoqa")
    'PrOntoQA, generated (fictional ontology, hops 5, random order)'
    """
    place, hub = getattr(config, corpus), _hub(config, corpus)
    if corpus == "prontoqa" and place == MADE[corpus]:
        hops = ", ".join(map(str, config.hops))
        return f"PrOntoQA, generated ({config.ontology} ontology, hops {hops}, {config.ordering} order)"
    if stand_in(config, corpus):
        from rb_interp.text.grammar import STAND_IN

        return STAND_IN
    name = "PrOntoQA" if corpus == "prontoqa" else "TinyStories" if hub == HUB["stories"] else "stories"
    return f"{name} from the hub ({hub})" if hub else f"{name} from {Path(place).expanduser().resolve().name}"


def stand_in(config: TextConfig, corpus: str) -> bool:
    """Whether a corpus only stands in for the paper's: the story grammar does; generated PrOntoQA is PrOntoQA."""
    return corpus == "stories" and config.stories == MADE[corpus]


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
    from rb_interp.text import grammar, prontoqa

    if corpus == "prontoqa":
        return [*prontoqa.generate(BLOCK, seed, config.hops, config.ontology, config.ordering)]
    return [*grammar.generate_stories(BLOCK, seed)]


def _drawn(config: TextConfig, corpus: str, seed: int) -> Iterator[Document]:
    """Documents of a file or of the hub, in an order that the seed draws."""
    hub, place = _hub(config, corpus), getattr(config, corpus)
    # about twice what is needed of a large set, so that seeds draw different stories
    rows = 2 * (config.sequences + config.held_out)
    n = rows * (1 if config.layout == "padded" else -(-config.n_ctx // LEAST_STORY_TOKENS))
    documents = _read(corpus, hub, place, n if hub == HUB["stories"] else None, stamp(place))
    order = np.random.default_rng([seed, CORPORA.index(corpus)]).permutation(len(documents))
    return (documents[number] for number in order)


def check_places(config: TextConfig) -> None:
    """Raise TextError where a corpus is to be read from files and there are none. Nothing is read."""
    from rb_interp.text.prontoqa_files import PRONTOQA
    from rb_interp.text.records import files_of
    from rb_interp.text.stories import STORIES

    for corpus, kind in (("prontoqa", PRONTOQA), ("stories", STORIES)):
        place = getattr(config, corpus)
        if place != MADE[corpus] and not _hub(config, corpus):
            files_of(Path(place).expanduser(), kind)


@lru_cache(maxsize=4)
def _read(corpus: str, hub: str, place: str, n: int | None, stamp: tuple) -> tuple[Document, ...]:
    """The documents of a dataset on the hub, or of a file or folder, read again when its stamp has changed."""
    from rb_interp.text import prontoqa_files, stories

    path = Path(place).expanduser()
    if corpus == "prontoqa":
        return tuple(prontoqa_files.load_prontoqa_hub(hub) if hub else prontoqa_files.read_prontoqa(path))
    return tuple(stories.load_stories_hub(hub, n=n) if hub else stories.read_stories(path))


def stamp(place: str) -> tuple[tuple[str, int, int], ...]:
    """Names, times and sizes of a file or of the files of a folder; empty where there is nothing."""
    path = Path(place).expanduser()
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def stamps(config: TextConfig) -> tuple:
    """The stamps of both corpora."""
    return tuple(stamp(getattr(config, corpus)) for corpus in CORPORA)
