"""The two corpora: files and datasets read through `datasets`, and their documents by seed.

A source is a file, a folder of files (read by name), ``hub:owner/name`` (the split ``train`` of a
dataset on the Hugging Face hub), or ``hub`` for the corpus's usual one. Files end in .jsonl, .json,
.parquet or .txt. With HF_HUB_OFFLINE=1 only a copy that was fetched before is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np

from rb_interp.arguments import checked
from rb_interp.errors import TextError, describe, first_line
from rb_interp.text.generator import generate
from rb_interp.text.prontoqa import QUERY, Example, verify
from rb_interp.text.sentences import split_sentences
from rb_interp.text.settings import CORPORA, TextSettings
from rb_interp.text.stories import STAND_IN, generate_stories

BLOCK = 250
"""Documents that a generator is asked for at once; a larger number begins with the same ones."""
HUB = {"prontoqa": "hub:smoorsmith/prontoqa", "stories": "hub:roneneldan/TinyStories"}
GENERATED = {"prontoqa": "generate", "stories": "grammar"}
"""The source of a corpus that this package generates."""
MIN_STORY_TOKENS = 64
"""A low mean length of stories; it bounds how many of a large set on the hub are fetched."""
READ_ROWS = 1000
"""Rows of a file that are read at once."""
READERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".txt": "text"}
"""The reader of `datasets` for each ending of a file."""

_END = re.compile(r"<\|end_?of_?text\|>")
_BLANK_LINES = re.compile(r"\n\s*\n")
_QUERY = re.compile(r"(Is the following statement true or false\?|True or false:)?\s*")
_OPTION = re.compile(r"\b([AB])\W+(True|False)\b")

Document = Example | str


@checked
def read_prontoqa(source: str | Path) -> list[Example]:
    """Read all examples of a source, in their order, and prove each by ``verify``.

    A record has question, query, chain_of_thought (a list of sentences, or a text) and answer
    ("True" or "False"), as in the original, whose examples within examples are taken too. Or it has
    context, question, options, answer ("A" or "B") and explanation, as in Logic-LLM (Pan et al.
    2023). Its words may be any. Raises TextError if a source cannot be read, and at the first record
    that has another form or whose proof does not hold.

    >>> import json, tempfile
    >>> source = Path(tempfile.mkdtemp()) / "1hop.jsonl"
    >>> record = {"question": "Sheep are woolly. Max is a sheep.", "query": "True or false: Max is woolly.",
    ...           "chain_of_thought": ["Max is a sheep.", "Sheep are woolly.", "Max is woolly."], "answer": "True"}
    >>> _ = source.write_text(json.dumps(record))
    >>> [(example.hops, example.answer) for example in read_prontoqa(source)]
    [(1, 'True')]
    """
    source = _full_name(source, "prontoqa")
    examples = []
    for row in _records(source):
        for record in _ungrouped(row):
            try:
                examples.append(_example(record))
            except TextError as error:
                raise TextError(f"{source}, example {len(examples) + 1}: {error}") from None
    if not examples:
        raise TextError(f"{source} holds no example.")
    return examples


def _ungrouped(row: Mapping[str, Any]) -> list[Any]:
    """The records of a row: itself, or the examples within an example of the original."""
    groups = row.values()
    if "question" in row or not all(isinstance(group, Mapping) for group in groups):
        return [row]
    records = []
    for group in groups:
        records += group.values()
    return records


@checked
def read_stories(source: str | Path, n: int | None = None) -> list[str]:
    """Read the first ``n`` different stories of a source (None: all), in their order.

    A story is a string, or stands under the key "text" or "story", without the space around it.
    ``<|endoftext|>`` (or ``<|end_of_text|>``) parts stories; in a .txt file without it, blank lines
    do. Empty stories are dropped. Raises TextError if a source cannot be read, a record has no text,
    or there is no story.

    >>> import tempfile
    >>> source = Path(tempfile.mkdtemp()) / "stories.txt"
    >>> _ = source.write_text("Tom ran.\\n<|endoftext|>\\nSue slept.\\n<|endoftext|>\\n<|endoftext|>\\nTom ran.")
    >>> read_stories(source)
    ['Tom ran.', 'Sue slept.']
    """
    source = _full_name(source, "stories")
    stories = {}
    for number, record in enumerate(_records(source, n), start=1):
        text = record.get("text")
        if text is None:
            text = record.get("story")
        if not isinstance(text, str) or record.get("story", text) not in (text, None):
            raise TextError(
                f"{source}, record {number}: {str(record)[:80]}; expected a string under 'text' or "
                f"'story'."
            )
        for part in _END.split(text):
            story = part.strip()
            if story:
                stories[story] = None
            if len(stories) == n:
                return list(stories)
    if not stories:
        raise TextError(f"{source} holds no story: expected at least one text that is not empty.")
    return list(stories)


def _full_name(source: str | Path, corpus: str) -> str:
    return HUB[corpus] if source == "hub" else str(source)


def _records(source: str, n: int | None = None) -> Iterator[Any]:
    """The rows of a source; n rows of a dataset on the hub are fetched one after another."""
    from datasets import load_dataset

    name = source
    try:
        if source.startswith("hub:"):
            dataset = source.removeprefix("hub:")
            yield from load_dataset(dataset, split="train", streaming=n is not None)
        for file in files_of(source):  # one by one, since columns may differ
            name = str(file)
            reader = READERS[file.suffix.lower()]
            options: dict[str, Any] = {}
            if reader == "text":
                options = {"sample_by": "document", "encoding": "utf-8-sig"}
            # streamed, so that no copy is left in the user's cache
            rows = load_dataset(reader, data_files=name, split="train", streaming=True, **options)
            tables = cast(Any, rows.with_format("arrow"))
            for table in tables.iter(READ_ROWS):
                records = table.to_pylist()
                yield from _split_texts(records, name) if reader == "text" else records
    except TextError:
        raise
    except Exception as error:  # each reader has its own
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise TextError(f"{name} could not be read ({reason}).") from None


def _split_texts(rows: Iterable[Any], name: str) -> Iterator[dict[str, str]]:
    """The texts of a .txt file; without an end token, blank lines part them."""
    for row in rows:
        text = row["text"]
        if text.startswith('"') and '""' in text:
            raise TextError(
                f"{name} has stories in quotes, with quotes doubled as in a table; use .jsonl."
            )
        parts = [text] if _END.search(text) else _BLANK_LINES.split(text)
        for part in parts:
            yield {"text": part}


def _example(record: Any) -> Example:
    if not isinstance(record, Mapping):
        raise TextError(
            f"it is {describe(record)}; expected a record with question, query, chain_of_thought and "
            f"answer."
        )
    # a reader fills columns up with None
    given = {key: value for key, value in record.items() if value is not None}
    chain = given.get("chain_of_thought", given.get("explanation", ()))
    if given.get("explanation", chain) != chain:
        raise TextError("it has a chain_of_thought and another explanation; leave one of them out.")
    sentences = split_sentences(chain.strip()) if isinstance(chain, str) else tuple(chain)
    question, query = ("question", "query") if "query" in given else ("context", "question")
    texts = (given.get(question), given.get(query), *sentences)
    if not all(isinstance(text, str) for text in texts) or not sentences or "answer" not in given:
        raise TextError(
            f"its keys are {', '.join(given)}; expected question, query, chain_of_thought and "
            f"answer, or context, "
            f"question, options, answer and explanation (Logic-LLM), all of them texts."
        )
    answer = str(given["answer"]).strip()
    example = Example(
        given[question].strip(),
        _QUERY.sub(QUERY, given[query].strip(), count=1),
        tuple(sentence.strip() for sentence in sentences),
        _options(given.get("options", "")).get(answer, answer),
        (len(sentences) - 1) // 2,
    )
    verify(example)
    return example


def _options(options: Any) -> dict[str, str]:
    """Letter -> answer, of the options that a record offers."""
    if isinstance(options, Mapping):
        options = [f"{letter}) {option}" for letter, option in options.items()]
    if not isinstance(options, str):
        options = "\n".join(map(str, options))
    return dict(_OPTION.findall(options))


def files_of(source: str) -> list[Path]:
    """The files of a source by name; TextError if there is none.

    The hub and a generator have no files.
    """
    if source in ("hub", *GENERATED.values()) or source.startswith("hub:"):
        return []
    path = Path(source).expanduser()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in files if file.suffix.lower() in READERS and file.is_file()]
    if not files:
        raise TextError(
            f"{source} is no file and no folder of files that end in {', '.join(READERS)}."
        )
    return files


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
        self._drawn: dict[str, Document] = {}

    def take(self, start: int, n: int) -> list[Document]:
        """Documents ``start`` to ``start + n``; fewer where there are no more."""
        while len(self._drawn) < start + n:
            document = next(self._source, None)
            if document is None:
                break
            self._drawn.setdefault(text_of(document), document)
        return list(self._drawn.values())[start : start + n]

    def texts(self, start: int, n: int) -> list[str]:
        """The texts of these documents that a model is trained on."""
        return [text_of(document) for document in self.take(start, n)]


def text_of(document: Document) -> str:
    """The text of a document that a model is trained on."""
    return document if isinstance(document, str) else document.text


def source_name(config: TextSettings, corpus: str) -> str:
    """The source of a corpus, in words.

    >>> source_name(TextSettings(hops=(5,)), "prontoqa")
    'PrOntoQA, generated (fictional ontology, hops 5, random order)'
    """
    source = _full_name(getattr(config, corpus), corpus)
    if source == "generate":
        hops = ", ".join(map(str, config.hops))
        return f"PrOntoQA, generated ({config.ontology} ontology, hops {hops}, {config.ordering} order)"
    if source == "grammar":
        return STAND_IN
    name = "stories"
    if corpus == "prontoqa":
        name = "PrOntoQA"
    elif source == HUB["stories"]:
        name = "TinyStories"
    if source.startswith("hub:"):
        return f"{name} from the hub ({source.removeprefix('hub:')})"
    return f"{name} from {Path(source).expanduser().resolve().name}"


def _documents(config: TextSettings, corpus: str, seed: int) -> Iterator[Document]:
    source = _full_name(getattr(config, corpus), corpus)
    if source == GENERATED[corpus]:
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
    for block in count():
        sequence = np.random.SeedSequence([seed, CORPORA.index(corpus), block])
        state = int(sequence.generate_state(1)[0] >> 1)
        if corpus == "stories":
            documents = generate_stories(BLOCK, state)
        else:
            documents = generate(BLOCK, state, config.hops, config.ordering)
        n_before = len(texts)
        texts.update(map(text_of, documents))
        if len(texts) == n_before:
            return
        yield from documents


@lru_cache(maxsize=4)
def _read(corpus: str, source: str, n: int | None, stamps: tuple) -> Sequence[Document]:
    return read_prontoqa(source) if corpus == "prontoqa" else read_stories(source, n)
