"""Reading TinyStories: from files in the formats it is handed around in, or from the hub.

TinyStories (Eldan and Li, 2023) are short stories in the words of a four-year-old, the text on which a small
initialisation is compared with PrOntoQA (PAPER 5). One story is one string, stripped of the space around it.
Empty stories are dropped, and so are exact copies of an earlier one; the order is that of the files.

    .txt       <|endoftext|> after each story; in a file without that token, one or more blank lines
    .jsonl     one story a line, an object with the key "text" (or "story")
    .json      a list of such objects, or of strings
    .parquet   a column "text" (or "story")

The hub is read through `datasets`. Files are not: it tells neither the line nor the entry at which a file breaks
off, takes a file's name for a pattern, and leaves a lock in the user's cache for each file that it has read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rb_interp.errors import TextError

END_OF_TEXT = "<|endoftext|>"
KEYS = ("text", "story")
STREAMED = 50_000  # up to here streaming is quicker than fetching a whole split
SECONDS = 10.0  # how long the hub may take to answer that it is there


def read_stories(path: str | Path) -> list[str]:
    """The stories of a file, or of every file of a folder that ends in .txt, .jsonl, .json or .parquet, by name.

    Raises TextError, with file and line (or entry), where something is missing, damaged or not of these formats.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "stories.txt"
    >>> _ = place.write_text("Tom ran.\\n<|endoftext|>\\nSue slept.\\n<|endoftext|>\\n<|endoftext|>\\nTom ran.")
    >>> read_stories(place)
    ['Tom ran.', 'Sue slept.']
    """
    path = Path(path)
    stories = _kept(story for file in _files(path) for story in _READ[file.suffix.lower()](file))
    if not stories:
        raise TextError(f"{path} holds no story: expected {_formats()} with at least one text that is not empty.")
    return stories


def load_stories_hub(name: str = "roneneldan/TinyStories", split: str = "train", n: int | None = None) -> list[str]:
    """The first ``n`` different stories of a split of a dataset on the Hugging Face hub (all of them if None).

    The dataset needs a column "text" (or "story"). Small numbers are streamed; otherwise the whole split is fetched
    once and kept by `datasets`. With HF_HUB_OFFLINE=1 only such a kept copy is used.

    Raises TextError without a connection (within seconds), for a name, a split or columns that are not there, and
    where there are fewer than ``n`` different stories.
    """
    if n is not None and n < 1:
        raise TextError(f"n={n} stories: expected at least 1, or None for all of them.")
    stories = _kept(_hub_texts(name, split, stream=n is not None and n <= STREAMED), n)
    if not stories or len(stories) < (n or 0):
        asked = "at least 1 was" if n is None else f"{n:,} were"
        raise TextError(f"split '{split}' of {name} holds {len(stories):,} different stories; {asked} asked for.")
    return stories


def _kept(texts: Iterable[str], n: int | None = None) -> list[str]:
    """The first ``n`` that are neither empty nor a copy of an earlier one."""
    first: dict[str, None] = {}
    for text in texts:
        if stripped := text.strip():
            first.setdefault(stripped)
            if len(first) == n:
                break
    return list(first)


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in _READ and file.is_file())
        if not files:
            raise TextError(f"folder {path} holds no stories: expected {_formats()}.")
        return files
    if not path.is_file():
        raise TextError(f"{path} is not there: expected {_formats()}, or a folder of such files.")
    if path.suffix.lower() not in _READ:
        raise TextError(f"{path} ends in '{path.suffix}': stories are read from {_formats()}, or a folder of these.")
    return [path]


def _formats() -> str:
    *most, last = (f"a {suffix} file" for suffix in _READ)
    return f"{', '.join(most)} or {last}"


def _text(file: Path) -> str:
    content = file.read_bytes()
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TextError(f"{file}, line {line}: not UTF-8 text ({error.reason}). Fetch or save the file anew.") from None


def _read_txt(file: Path) -> list[str]:
    text = _text(file)
    return text.split(END_OF_TEXT) if END_OF_TEXT in text else re.split(r"\n\s*\n", text)


def _read_jsonl(file: Path) -> Iterable[str]:
    # Not splitlines: a story may hold other characters that Python takes for the end of a line.
    for number, line in enumerate(_text(file).split("\n"), start=1):
        if line.strip():
            yield _story(_parsed(line, file, number), f"{file}, line {number}")


def _read_json(file: Path) -> Iterable[str]:
    entries = _parsed(_text(file), file)
    if not isinstance(entries, list):
        what = _kind(entries)
        raise TextError(f"{file} holds {what}; expected a list of stories (one object a line is a .jsonl file).")
    return (_story(entry, f"{file}, entry {number}") for number, entry in enumerate(entries, start=1))


def _parsed(text: str, file: Path, line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TextError(
            f"{file}, line {line + error.lineno - 1}: not JSON ({error.msg}: character {error.colno}). "
            f"If the file was cut short, fetch it anew or delete what is left of its last story."
        ) from None


def _story(entry: object, where: str) -> str:
    found, held = entry, _kind(entry)
    if isinstance(entry, dict):
        found = next((entry[key] for key in KEYS if key in entry), None)
        held = f"an object with the keys {', '.join(map(str, entry)) or '(none)'}"
    if not isinstance(found, str):
        raise TextError(f"{where}: {held}; expected an object whose 'text' (or 'story') is a string.")
    return found


def _kind(entry: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(entry), "a number")


def _read_parquet(file: Path) -> Iterable[str]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(file) as table:
            keys = [key for key in KEYS if key in table.schema_arrow.names][:1] or table.schema_arrow.names
            rows = (row for batch in table.iter_batches(columns=keys) for row in batch.to_pylist())
            yield from _column(rows, str(file))
    except (ArrowException, OSError) as error:
        raise TextError(f"{file} is no whole parquet file ({_first_line(error)}). Fetch or write it anew.") from None


def _column(rows: Iterable[Any], where: str) -> Iterable[str]:
    for number, row in enumerate(rows, start=1):
        key = next((key for key in KEYS if key in row), None)
        if key is None:
            raise TextError(f"{where} has the columns {', '.join(row)}; expected one named 'text' (or 'story').")
        if not isinstance(row[key], str):
            raise TextError(f"{where}, row {number}: {_kind(row[key])} in column '{key}'; expected a string.")
        yield row[key]


_READ: dict[str, Callable[[Path], Iterable[str]]] = {
    ".txt": _read_txt,
    ".jsonl": _read_jsonl,
    ".json": _read_json,
    ".parquet": _read_parquet,
}


def _hub_texts(name: str, split: str, stream: bool) -> Iterable[str]:
    from datasets import load_dataset

    _ask_hub(name)
    try:
        yield from _column(load_dataset(name, split=split, streaming=stream), f"split '{split}' of {name}")
    except TextError:
        raise
    except Exception as error:  # the hub's client has changed its exceptions from one release to the next
        raise TextError(
            f"split '{split}' of {name} could not be loaded from the hub "
            f"({type(error).__name__}: {_first_line(error)}). {_INSTEAD}"
        ) from None


_INSTEAD = "Check name and split, or give the path of a file or folder of stories (.txt, .jsonl, .json, .parquet)."


def _ask_hub(name: str) -> None:
    """Ask once whether the dataset is there: `datasets` tries again for half a minute where there is no network."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import RepositoryNotFoundError

    if constants.HF_HUB_OFFLINE:
        return
    try:
        HfApi().dataset_info(name, timeout=SECONDS)
    except RepositoryNotFoundError:
        raise TextError(f"there is no dataset '{name}' on {constants.ENDPOINT}, or it is private. {_INSTEAD}") from None
    except Exception as error:  # as above
        raise TextError(
            f"{constants.ENDPOINT} could not be asked for {name} ({type(error).__name__}: {_first_line(error)}). "
            f"Check the connection, set HF_HUB_OFFLINE=1 to use a copy fetched earlier, "
            f"or give the path of a file or folder of stories (.txt, .jsonl, .json, .parquet)."
        ) from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]
