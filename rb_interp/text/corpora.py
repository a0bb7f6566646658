"""The two corpora: files and datasets read through `datasets`, and their documents in the order of
a seed.

A place is a file, a folder of files (read by name), ``hub:owner/name`` (the split ``train`` of a
dataset on the Hugging Face hub), or ``hub`` for the corpus's usual one. Files end in .jsonl, .json,
.parquet or .txt. With HF_HUB_OFFLINE=1 only a copy that was fetched before is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rb_interp.arguments import checked
from rb_interp.errors import TextError, first_line, shown
from rb_interp.text.prontoqa import QUERY, Example, generate, split_sentences, verify
from rb_interp.text.stories import STAND_IN, generate_stories
from rb_interp.text.task import CORPORA, TextTask

BLOCK = 250
"""Documents that a generator is asked for at once; the first n are the same however many are needed
in the end."""
HUB = {"prontoqa": "hub:smoorsmith/prontoqa", "stories": "hub:roneneldan/TinyStories"}
MADE = {"prontoqa": "generate", "stories": "grammar"}
"""What stands for a corpus of our own making, in place of a file, a folder or a dataset."""
LEAST_STORY_TOKENS = 64
"""How short stories could be on average, which bounds how many of a large set on the hub are
fetched."""
READERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".txt": "text"}
"""Which reader of `datasets` takes which files."""

_END = re.compile(r"<\|end_?of_?text\|>")
_ASKED = re.compile(r"(Is the following statement true or false\?|True or false:)?\s*")
_OPTION = re.compile(r"\b([AB])\W+(True|False)\b")

Document = Example | str


@checked
def read_prontoqa(place: str | Path) -> list[Example]:
    """All examples of a place, in their order, each proved by ``verify``.

    A record has question, query, chain_of_thought (a list of sentences, or a text) and answer
    ("True" or "False"), as in the original, whose examples within examples are taken too. Or it has
    context, question, options, answer ("A" or "B") and explanation, as in Logic-LLM (Pan et al.
    2023). Raises TextError if a place cannot be read, and at the first record that is not like this
    or does not hold.

    >>> import json, tempfile
    >>> place = Path(tempfile.mkdtemp()) / "1hop.jsonl"
    >>> record = {"question": "Wumpuses are hot. Max is a wumpus.", "query": "True or false: Max is hot.",
    ...           "chain_of_thought": ["Max is a wumpus.", "Wumpuses are hot.", "Max is hot."], "answer": "True"}
    >>> _ = place.write_text(json.dumps(record))
    >>> [(example.hops, example.answer) for example in read_prontoqa(place)]
    [(1, 'True')]
    """
    place, examples = _place(place, "prontoqa"), []
    for row in _records(place):
        groups = "question" not in row and all(isinstance(group, Mapping) for group in row.values())
        records = (
            [record for group in row.values() for record in group.values()] if groups else [row]
        )
        for record in records:
            try:
                examples.append(_example(record))
            except TextError as error:
                raise TextError(f"{place}, example {len(examples) + 1}: {error}") from None
    if not examples:
        raise TextError(f"{place} holds no example.")
    return examples


@checked
def read_stories(place: str | Path, n: int | None = None) -> list[str]:
    """The first ``n`` different stories of a place (None: all), in their order.

    A story is a string, or stands under the key "text" or "story", without the space around it.
    ``<|endoftext|>`` (or ``<|end_of_text|>``) parts stories; in a .txt file without it, blank lines
    do. Empty stories are dropped. Raises TextError if a place cannot be read, a record has no text,
    or there is no story.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "stories.txt"
    >>> _ = place.write_text("Tom ran.\\n<|endoftext|>\\nSue slept.\\n<|endoftext|>\\n<|endoftext|>\\nTom ran.")
    >>> read_stories(place)
    ['Tom ran.', 'Sue slept.']
    """
    place, stories = _place(place, "stories"), dict[str, None]()
    for number, record in enumerate(_records(place, n), start=1):
        text = next((record[key] for key in ("text", "story") if record.get(key) is not None), None)
        if not isinstance(text, str) or record.get("story", text) not in (text, None):
            raise TextError(
                f"{place}, record {number}: {str(record)[:80]}; expected a string under 'text' or "
                f"'story'."
            )
        for story in _END.split(text):
            if story.strip():
                stories.setdefault(story.strip())
            if len(stories) == n:
                return list(stories)
    if not stories:
        raise TextError(f"{place} holds no story: expected at least one text that is not empty.")
    return list(stories)


def _place(place: str | Path, corpus: str) -> str:
    return HUB[corpus] if place == "hub" else str(place)


def _records(place: str, n: int | None = None) -> Iterator[Any]:
    """The rows of a place; where only n are asked for of a dataset on the hub, they are fetched one
    after another."""
    from datasets import load_dataset

    where = place
    try:
        if place.startswith("hub:"):
            yield from load_dataset(
                place.removeprefix("hub:"), split="train", streaming=n is not None
            )
        for where in map(str, files_of(place)):  # one by one, since columns may differ
            reader = READERS[Path(where).suffix.lower()]
            options: Any = (
                {"sample_by": "document", "encoding": "utf-8-sig"} if reader == "text" else {}
            )
            # streamed, so that no copy is left in the user's cache
            for row in load_dataset(
                reader, data_files=where, split="train", streaming=True, **options
            ):
                text = row["text"] if reader == "text" else ""
                if text.startswith('"') and '""' in text:
                    raise TextError(
                        f"{where} has stories in quotes, with quotes doubled as in a table; use "
                        f".jsonl."
                    )
                apart = text and not _END.search(text)
                yield from (
                    ({"text": part} for part in re.split(r"\n\s*\n", text)) if apart else (row,)
                )
    except TextError:
        raise
    except Exception as error:  # each reader has its own
        raise TextError(
            f"{where} could not be read ({type(error).__name__}: {first_line(error)})."
        ) from None


def _example(record: Any) -> Example:
    if not isinstance(record, Mapping):
        raise TextError(
            f"it is {shown(record)}; expected a record with question, query, chain_of_thought and "
            f"answer."
        )
    # a reader fills columns up with None
    given = {key: value for key, value in record.items() if value is not None}
    if (
        given.get("explanation", thoughts := given.get("chain_of_thought")) != thoughts
        and thoughts is not None
    ):
        raise TextError("it has a chain_of_thought and another explanation; leave one of them out.")
    question, query = ("question", "query") if "query" in given else ("context", "question")
    chain = given.get("chain_of_thought", given.get("explanation", ()))
    thoughts = split_sentences(chain.strip()) if isinstance(chain, str) else tuple(chain)
    texts = (given.get(question), given.get(query), *thoughts)
    if not all(isinstance(text, str) for text in texts) or not thoughts or "answer" not in given:
        raise TextError(
            f"its keys are {', '.join(given)}; expected question, query, chain_of_thought and "
            f"answer, or context, "
            f"question, options, answer and explanation (Logic-LLM), all of them texts."
        )
    answer, options = str(given["answer"]).strip(), given.get("options", "")
    if isinstance(options, Mapping):
        options = [f"{letter}) {option}" for letter, option in options.items()]
    answers = dict(
        _OPTION.findall(options if isinstance(options, str) else "\n".join(map(str, options)))
    )
    example = Example(
        given[question].strip(),
        _ASKED.sub(QUERY, given[query].strip(), count=1),
        tuple(thought.strip() for thought in thoughts),
        answers.get(answer, answer),
        (len(thoughts) - 1) // 2,
    )
    verify(example)
    return example


def files_of(place: str) -> list[Path]:
    """The files of a place by name, none of the hub or a generator; TextError where there is no
    file."""
    if place in ("hub", *MADE.values()) or place.startswith("hub:"):
        return []
    path = Path(place).expanduser()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in files if file.suffix.lower() in READERS and file.is_file()]
    if not files:
        raise TextError(
            f"{place} is no file and no folder of files that end in {', '.join(READERS)}."
        )
    return files


def stamps(config: TextTask) -> tuple:
    """Names, times and sizes of the files of both corpora: one that has changed is read again.
    TextError as above."""
    states = (
        (file, file.stat()) for corpus in CORPORA for file in files_of(getattr(config, corpus))
    )
    return tuple((str(file), state.st_mtime_ns, state.st_size) for file, state in states)


class Documents:
    """The different documents of a corpus, in the order of a seed; drawn when asked for, each once.

    No two are the same text, so no text is both trained on and held out.

    >>> stories = Documents(TextTask(), "stories", seed=0)
    >>> stories.take(2, 3) == stories.take(0, 5)[2:]
    True
    """

    def __init__(self, config: TextTask, corpus: str, seed: int):
        self._more = _more(config, corpus, seed)
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


def source(config: TextTask, corpus: str) -> str:
    """Where a corpus comes from, in words.

    >>> source(TextTask(hops=(5,)), "prontoqa")
    'PrOntoQA, generated (fictional ontology, hops 5, random order)'
    """
    place = _place(getattr(config, corpus), corpus)
    if place == "generate":
        hops = ", ".join(map(str, config.hops))
        return f"PrOntoQA, generated ({config.ontology} ontology, hops {hops}, {config.ordering} order)"
    if place == "grammar":
        return STAND_IN
    name = (
        "PrOntoQA"
        if corpus == "prontoqa"
        else "TinyStories"
        if place == HUB["stories"]
        else "stories"
    )
    hub = place.removeprefix("hub:")
    return (
        f"{name} from the hub ({hub})"
        if hub != place
        else f"{name} from {Path(place).expanduser().resolve().name}"
    )


def _more(config: TextTask, corpus: str, seed: int) -> Iterator[Document]:
    """Documents that are read, in an order that the seed draws; or generated, until a block brings
    nothing new."""
    place, number = _place(getattr(config, corpus), corpus), CORPORA.index(corpus)
    if place != MADE[corpus]:
        # about twice what is needed of a large set, so that seeds draw different stories
        rows = 2 * (config.sequences + config.held_out)
        n = rows * (1 if config.layout == "padded" else -(-config.n_ctx // LEAST_STORY_TOKENS))
        documents = _read(corpus, place, n if place == HUB["stories"] else None, stamps(config))
        yield from map(
            documents.__getitem__, np.random.default_rng([seed, number]).permutation(len(documents))
        )
        return
    seen: set[str] = set()
    for block in count():
        state = int(np.random.SeedSequence([seed, number, block]).generate_state(1)[0] >> 1)
        stories = corpus == "stories"
        drawn = (
            generate_stories(BLOCK, state)
            if stories
            else generate(BLOCK, state, config.hops, config.ordering)
        )
        before = len(seen)
        seen.update(map(text_of, drawn))
        if len(seen) == before:
            return
        yield from drawn


@lru_cache(maxsize=4)
def _read(corpus: str, place: str, n: int | None, stamps: tuple) -> Sequence[Document]:
    return read_prontoqa(place) if corpus == "prontoqa" else read_stories(place, n)
