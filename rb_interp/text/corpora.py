"""The two corpora: files and datasets read through `datasets`, and a small story grammar.

A source is a file, a folder of files (read by name), ``hub:owner/name`` (the split ``train`` of a
dataset on the Hugging Face hub), or ``hub`` for the corpus's usual one. Files end in .jsonl, .json,
.parquet or .txt. With HF_HUB_OFFLINE=1 only a copy that was fetched before is used.

The grammar writes plain children's stories, if no real ones are at hand. A story takes one of the
plots of ``stories.toml``, draws its cast and its fixed words, and writes out each beat in one of
several ways. The notation:

    [a|b|c]    one of these, each as likely; may be nested
    {hero}     the word that the story has fixed under this name, else a new draw from the list of
               that name; a story draws nothing twice from a list as long as others are left

How it compares with the real stories it stands in for, on 10,000 of each (words: runs of letters,
lower case):

                                                        grammar    TinyStories
    words of a story, mean (shortest to longest)   176 (120-225)   162 (57-837)
    distinct words                                          893          8,163
    entropy of a word, nats                                5.68           5.92
    entropy of a word given the one before, nats           2.65           3.80
    distinct among all runs of 8 words                      43 %           96 %
    exact copies of another story                             0              0

A model learns it to a far lower loss than TinyStories: a gap between two corpora that was measured
on it need not hold for real text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

from rb_interp.arguments import checked
from rb_interp.errors import TextError, describe, first_line
from rb_interp.settings import read_toml
from rb_interp.text.prontoqa import QUERY, Example, verify
from rb_interp.text.sentences import split_sentences
from rb_interp.text.settings import TextSettings

STAND_IN = "sentences of a small story grammar, standing in for TinyStories"

_TOKENS = re.compile(r"[\[\]|]|\{[\w.]+\}|[^\[\]|{}]+")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])(?!uni|use|one\b)")
# a sentence that is left out leaves its space behind
_LEFT_OUT = re.compile(r" (?=[ \n])|(?<=\n) ")


class _Slot(NamedTuple):
    name: str


class _Plot(NamedTuple):
    cast: tuple[str, ...]  # kind of the hero, kind of the friend: lists of animals, or "child"
    fixed: tuple[tuple[str, str], ...]  # name in the story, list it is drawn from
    text: tuple


@checked
def generate_stories(n: int, seed: int) -> list[str]:
    """``n`` stories of some 120 to 230 words; paragraphs are separated by one line break.

    The same seed gives the same stories. A longer call begins with the stories of a shorter one.

    >>> story = generate_stories(1, seed=0)[0]
    >>> 60 <= len(story.split()) <= 250
    True
    >>> generate_stories(3, seed=0)[0] == story
    True
    """
    draw = Random(f"stories {seed}").random
    return [_Story(draw).text() for _ in range(n)]


class _Story:
    """A story as it is drawn: its fixed words by name, and the options that it has used up."""

    def __init__(self, draw: Callable[[], float]):
        self.draw = draw
        self.fixed: dict[str, str] = {}
        self.used: set[int] = set()

    def text(self) -> str:
        """The whole story."""
        plot = self.one_of(_plots())
        self.cast(plot.cast)
        for name, source in plot.fixed:
            self.fixed[name] = self.word(source)
        return _ARTICLE.sub(r"\1n ", _LEFT_OUT.sub("", self.write(plot.text[0])))

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[int(self.draw() * len(options))]

    def unused(self, options: tuple) -> tuple:
        """An option that is new in this story, from a random one onwards; a random one if none is."""
        start = int(self.draw() * len(options))
        for option in options[start:] + options[:start]:
            if id(option) not in self.used:
                self.used.add(id(option))
                return option
        return options[start]

    def word(self, name: str) -> str:
        """A new draw from a list."""
        return self.write(self.unused(_lists()[name]))

    def write(self, option: tuple) -> str:
        """The text of an option: its literal parts, its slots' words, and one of each group."""
        return "".join(part if part.__class__ is str else self._part_text(part) for part in option)

    def _part_text(self, part: tuple) -> str:
        if isinstance(part, _Slot):
            return self.fixed[part.name] if part.name in self.fixed else self.word(part.name)
        return self.write(self.one_of(part))

    def cast(self, kinds: tuple[str, ...]) -> None:
        """Fix names, kinds and pronouns of the hero, the friend (f.) and the grown-up (m.)."""
        for prefix, name, kind in (("", "hero", kinds[0]), ("f.", "friend", kinds[-1])):
            sex = "boy" if self.draw() < 0.5 else "girl"
            self.fixed[name] = self.word(f"{sex}_name" if kind == "child" else "pet_name")
            self.fixed[f"{prefix}kind"] = sex if kind == "child" else self.word(kind)
            self._pronouns(prefix, sex)
        mom, sex = self.one_of(_story_file()["grown_ups"])
        self.fixed |= {"mom": mom, "Mom": mom.capitalize()}
        self.fixed |= {"m": f"{self.fixed['his']} {mom}", "M": f"{self.fixed['His']} {mom}"}
        self._pronouns("m.", sex)

    def _pronouns(self, prefix: str, sex: str) -> None:
        for name, word in zip(("he", "him", "his"), _story_file()["pronouns"][sex], strict=True):
            self.fixed |= {prefix + name: word, prefix + name.capitalize(): word.capitalize()}


@cache
def _story_file() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("stories.toml"))


@cache
def _lists() -> dict[str, tuple]:
    content = _story_file()
    lists = dict(content["lists"])
    for kind in ("child", "animal"):
        for name, text in content["lists_of_kinds"].items():
            lists[f"{kind}_{name}"] = text.replace("KIND", kind)
    return {name: _parse(_one_line(text)) for name, text in lists.items()}


@cache
def _plots() -> tuple[_Plot, ...]:
    _, *plots = re.split(r"^# .*\n", _story_file()["plots"], flags=re.MULTILINE)
    return tuple(map(_plot, plots))


def _plot(text: str) -> _Plot:
    """A plot as it stands in the file, without its title."""
    head, _, body = text.strip().partition("\n")
    cast, *fixed = head.split()
    paragraphs = re.split(r"\n\s*\n|\n\s*(?=\")", body.strip())
    pairs = []
    for pair in fixed:
        name, _, source = pair.partition("=")
        pairs.append((name, source))
    beats = _parse("\n".join(map(_one_line, paragraphs)))
    return _Plot(tuple(cast.split("/")), tuple(pairs), beats)


def _one_line(text: str) -> str:
    return re.sub(r" ?\| ?", "|", " ".join(text.split()))


def _parse(text: str) -> tuple:
    """Options of parts; a part is literal text, a slot, or again options."""
    return _options(_TOKENS.findall(text), 0)[0]


def _options(tokens: list[str], start: int) -> tuple[tuple, int]:
    """The options that begin at a token, and the position after them."""
    options: list[list] = [[]]
    position = start
    while position < len(tokens) and tokens[position] != "]":
        token = tokens[position]
        position += 1
        if token == "[":
            group, position = _options(tokens, position)
            options[-1].append(group)
            position += 1
        elif token == "|":
            options.append([])
        elif token[0] == "{":
            options[-1].append(_Slot(token[1:-1]))
        else:
            options[-1].append(token)
    return tuple(tuple(option) for option in options), position


HUB = {"prontoqa": "hub:smoorsmith/prontoqa", "stories": "hub:roneneldan/TinyStories"}
GENERATED = {"prontoqa": ("generate",), "stories": ("grammar", "facts")}
"""The sources of a corpus that this package generates."""
READ_ROWS = 1000
"""Rows of a file that are read at once."""
READERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".txt": "text"}
"""The reader of `datasets` for each ending of a file."""

_END = re.compile(r"<\|end_?of_?text\|>")
_BLANK_LINES = re.compile(r"\n\s*\n")
_QUERY = re.compile(r"(Is the following statement true or false\?|True or false:)?\s*")
_OPTION = re.compile(r"\b([AB])\W+(True|False)\b")


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
    source = full_name(source, "prontoqa")
    examples = []
    for row in _records(source):
        groups = row.values()
        records = [row]
        if "question" not in row and all(isinstance(group, Mapping) for group in groups):
            records = [record for group in groups for record in group.values()]  # of the original
        for record in records:
            try:
                examples.append(_example(record))
            except TextError as error:
                raise TextError(f"{source}, example {len(examples) + 1}: {error}") from None
    if not examples:
        raise TextError(f"{source} holds no example.")
    return examples


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
    source = full_name(source, "stories")
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


def full_name(source: str | Path, corpus: str) -> str:
    """The name of a source, ``hub`` spelled out."""
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
    fields = {key: value for key, value in record.items() if value is not None}
    chain = fields.get("chain_of_thought", fields.get("explanation", ()))
    if fields.get("explanation", chain) != chain:
        raise TextError("it has a chain_of_thought and another explanation; leave one of them out.")
    sentences = split_sentences(chain.strip()) if isinstance(chain, str) else tuple(chain)
    question, query = ("question", "query") if "query" in fields else ("context", "question")
    texts = (fields.get(question), fields.get(query), *sentences)
    if not all(isinstance(text, str) for text in texts) or not sentences or "answer" not in fields:
        raise TextError(
            f"its keys are {', '.join(fields)}; expected question, query, chain_of_thought and "
            f"answer, or context, "
            f"question, options, answer and explanation (Logic-LLM), all of them texts."
        )
    answer = str(fields["answer"]).strip()
    options = fields.get("options", "")
    if isinstance(options, Mapping):
        options = [f"{letter}) {option}" for letter, option in options.items()]
    if not isinstance(options, str):
        options = "\n".join(map(str, options))
    example = Example(
        fields[question].strip(),
        _QUERY.sub(QUERY, fields[query].strip(), count=1),
        tuple(sentence.strip() for sentence in sentences),
        dict(_OPTION.findall(options)).get(answer, answer),
        (len(sentences) - 1) // 2,
    )
    verify(example)
    return example


def files_of(source: str) -> list[Path]:
    """The files of a source by name; TextError if there is none.

    The hub and a generator have no files.
    """
    if source in (*TextSettings.generated, "hub") or source.startswith("hub:"):
        return []
    path = Path(source).expanduser()
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in files if file.suffix.lower() in READERS and file.is_file()]
    if not files:
        raise TextError(
            f"{source} is no file and no folder of files that end in {', '.join(READERS)}."
        )
    return files


def source_name(config: TextSettings, corpus: str) -> str:
    """The source of a corpus, in words.

    >>> source_name(TextSettings(hops=(5,)), "prontoqa")
    'PrOntoQA, generated (fictional ontology, hops 5, random order)'
    """
    source = full_name(getattr(config, corpus), corpus)
    if source == "generate":
        hops = ", ".join(map(str, config.hops))
        query = "" if config.query == "property" else f", query: {config.query}"
        kind = f"{config.ontology} ontology, hops {hops}, {config.ordering} order{query}"
        return f"PrOntoQA, generated ({kind})"
    if source == "grammar":
        return STAND_IN
    if source == "facts":
        return f"{config.facts} facts in PrOntoQA's form"
    name = "stories"
    if corpus == "prontoqa":
        name = "PrOntoQA"
    elif source == HUB["stories"]:
        name = "TinyStories"
    if source.startswith("hub:"):
        return f"{name} from the hub ({source.removeprefix('hub:')})"
    return f"{name} from {Path(source).expanduser().resolve().name}"
