"""Reading records from a file, a folder or the Hugging Face hub, each with the place that an error message names.

    .jsonl     one record a line
    .json      a list of records, or groups of records by name: {"a": {"b": record, ...}, ...}
    .txt       texts with <|endoftext|> after each; in a file without that token, one or more blank lines
    .parquet   one record a row

The hub is read through `datasets`. Files are not: `datasets` does not tell the line at which a file breaks off, takes
a file's name for a pattern, and leaves a lock in the user's cache for each file that it has read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rb_interp.errors import TextError, first_line

END_OF_TEXT = "<|endoftext|>"
SECONDS = 10.0
"""How long the hub may take to answer that it is there."""


class Kind(NamedTuple):
    """What is read, and what error messages say about it."""

    name: str  # a plural noun, as in "stories"
    suffixes: tuple[str, ...]  # of the files that are read
    columns: tuple[str, ...] = ()  # those that are read of a table; all if it has none of these
    groups: str = ""  # the form of groups of records in a .json file; empty if it must hold a list
    instead: str = ""  # what a user without the hub can do, beside giving files


def read_records(path: Path, kind: Kind) -> Iterator[tuple[Any, str]]:
    """Read a file, or the files of a folder in the order of their names.

    Yields each record and its place: file and line, entry or row. Raises TextError, with file and line, if something
    is missing, damaged or not of the formats above.
    """
    for file in files_of(path, kind):
        yield from _READ[file.suffix.lower()](file, kind)


def hub_records(name: str, split: str, kind: Kind, stream: bool = False) -> Iterator[tuple[Any, str]]:
    """Read a split of a dataset (``owner/name``) on the hub; with HF_HUB_OFFLINE=1 only a copy fetched before.

    ``stream`` fetches rows one after another; otherwise the whole split is fetched and kept. Yields each row and its
    place: split, dataset and row. Raises TextError without a connection (within seconds), or if the name or the split
    is not there.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import RepositoryNotFoundError

    files = f"or give the path of a file or folder of {kind.name} ({', '.join(kind.suffixes)})."
    instead = f"{kind.instead}, {files}" if kind.instead else files
    try:  # `datasets` tries again for half a minute where there is no network
        if not constants.HF_HUB_OFFLINE:
            HfApi().dataset_info(name, timeout=SECONDS)
    except RepositoryNotFoundError:
        raise TextError(
            f"there is no dataset '{name}' on {constants.ENDPOINT}, or it is private. Check the name, {instead}"
        ) from None
    except Exception as error:  # the hub's client has changed its exceptions from one release to the next
        raise TextError(
            f"{constants.ENDPOINT} could not be asked for {name} ({type(error).__name__}: {first_line(error)}). "
            f"Check the connection, set HF_HUB_OFFLINE=1 to use a copy fetched earlier, {instead}"
        ) from None
    from datasets import load_dataset

    where = f"split '{split}' of {name}"
    try:
        for number, row in enumerate(load_dataset(name, split=split, streaming=stream), start=1):
            yield row, f"{where}, row {number}"
    except Exception as error:  # as above
        raise TextError(
            f"{where} could not be loaded from the hub ({type(error).__name__}: {first_line(error)}). "
            f"Check name and split, {instead}"
        ) from None


def kind_of(value: object) -> str:
    """What a value of JSON is, in words.

    >>> kind_of([1]), kind_of(None)
    ('a list', 'null')
    """
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def files_of(path: Path, kind: Kind) -> list[Path]:
    """The files that records are read from, none of them opened; TextError where there is none."""
    *most, last = kind.suffixes
    expected = f"{kind.name} are read from {', '.join(most)} and {last} files, or from a folder of them"
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in files if file.suffix.lower() in kind.suffixes and file.is_file()]
    if not files:
        wrong = f"{path} ends in '{path.suffix}'" if path.is_file() else f"{path} is not there"
        raise TextError(f"{f'folder {path} holds no such file' if path.is_dir() else wrong}: {expected}.")
    return files


def _text(file: Path) -> str:
    content = file.read_bytes()
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TextError(f"{file}, line {line}: not UTF-8 text ({error.reason}). Fetch or save the file anew.") from None


def _read_txt(file: Path, kind: Kind) -> Iterator[tuple[Any, str]]:
    text = _text(file)
    for part in text.split(END_OF_TEXT) if END_OF_TEXT in text else re.split(r"\n\s*\n", text):
        yield part, str(file)


def _read_jsonl(file: Path, kind: Kind) -> Iterator[tuple[Any, str]]:
    # Not splitlines: a text may hold other characters that Python takes for the end of a line.
    for number, line in enumerate(_text(file).split("\n"), start=1):
        if line.strip():
            yield _parsed(line, file, number), f"{file}, line {number}"


def _read_json(file: Path, kind: Kind) -> Iterator[tuple[Any, str]]:
    content = _parsed(_text(file), file)
    if isinstance(content, list):
        for number, entry in enumerate(content, start=1):
            yield entry, f"{file}, entry {number}"
    elif kind.groups and isinstance(content, dict) and all(isinstance(group, dict) for group in content.values()):
        for name, group in content.items():
            for role, entry in group.items():
                yield entry, f"{file}, entry {name}/{role}"
    else:
        groups = f", or groups of the form {kind.groups}" if kind.groups else ""
        raise TextError(
            f"{file} holds {kind_of(content)}; expected a list of {kind.name}{groups}. "
            f"A file with one object a line must end in .jsonl."
        )


def _parsed(text: str, file: Path, line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TextError(
            f"{file}, line {line + error.lineno - 1}: not JSON ({error.msg}: character {error.colno}). "
            f"If the file was cut short, fetch it anew or delete what is left of its last record."
        ) from None


def _read_parquet(file: Path, kind: Kind) -> Iterator[tuple[Any, str]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(file) as table:
            names = table.schema_arrow.names
            columns = [name for name in kind.columns if name in names] or names
            rows = (row for batch in table.iter_batches(columns=columns) for row in batch.to_pylist())
            for number, row in enumerate(rows, start=1):
                yield row, f"{file}, row {number}"
    except (ArrowException, OSError) as error:
        raise TextError(f"{file} is no whole parquet file ({first_line(error)}). Fetch or write it anew.") from None


_READ = {".txt": _read_txt, ".jsonl": _read_jsonl, ".json": _read_json, ".parquet": _read_parquet}
