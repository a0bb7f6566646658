"""Reading TinyStories: from files in the formats it is handed around in, or from the hub.

TinyStories (Eldan and Li, 2023) are short stories in the words of a four-year-old. One story is one string, without
the space around it. Empty stories and exact copies of an earlier one are dropped. The order is that of the files.
In .jsonl, .json and .parquet files a story is a string, or stands under the key "text" (or "story").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rb_interp.errors import TextError
from rb_interp.text.records import Kind, hub_records, kind_of, read_records
from rb_interp.typed import typed

KEYS = ("text", "story")
STORIES = Kind("stories", (".txt", ".jsonl", ".json", ".parquet"), columns=KEYS)
STREAMED = 50_000  # up to here streaming is quicker than fetching a whole split


@typed
def read_stories(path: str | Path) -> list[str]:
    """The stories of a file, or of every file of a folder that ends in .txt, .jsonl, .json or .parquet, by name.

    Raises TextError, with file and line, entry or row, if something is missing, damaged or not of these formats.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "stories.txt"
    >>> _ = place.write_text("Tom ran.\\n<|endoftext|>\\nSue slept.\\n<|endoftext|>\\n<|endoftext|>\\nTom ran.")
    >>> read_stories(place)
    ['Tom ran.', 'Sue slept.']
    """
    stories = _kept(read_records(Path(path), STORIES))
    if not stories:
        raise TextError(f"{path} holds no story: expected at least one text that is not empty.")
    return stories


@typed
def load_stories_hub(name: str = "roneneldan/TinyStories", split: str = "train", n: int | None = None) -> list[str]:
    """The first ``n`` different stories (None: all) of a split of a dataset with a column "text" (or "story").

    Small numbers are streamed. Otherwise `datasets` fetches the whole split once and keeps it. With HF_HUB_OFFLINE=1
    only such a kept copy is used. Raises TextError without a connection (within seconds), if the name, the split or
    the column is not there, or if there are fewer than ``n`` different stories.
    """
    if n is not None and n < 1:
        raise TextError(f"n={n} stories: expected at least 1, or None for all of them.")
    stories = _kept(hub_records(name, split, STORIES, stream=n is not None and n <= STREAMED), n)
    if not stories or len(stories) < (n or 0):
        asked = "at least 1 was" if n is None else f"{n:,} were"
        raise TextError(f"split '{split}' of {name} holds {len(stories):,} different stories; {asked} asked for.")
    return stories


def _kept(records: Iterable[tuple[object, str]], n: int | None = None) -> list[str]:
    """The first ``n`` stories that are neither empty nor a copy of an earlier one."""
    first: dict[str, None] = {}
    for record, where in records:
        if story := _story(record, where).strip():
            first.setdefault(story)
            if len(first) == n:
                break
    return list(first)


def _story(record: object, where: str) -> str:
    found, held = record, kind_of(record)
    if isinstance(record, Mapping):
        key = next((key for key in KEYS if key in record), None)
        found = None if key is None else record[key]
        keys = ", ".join(map(str, record)) or "(none)"
        held = f"an object with the keys {keys}" if key is None else f"{kind_of(found)} under '{key}'"
    if not isinstance(found, str):
        raise TextError(f"{where}: {held}; expected an object whose 'text' (or 'story') is a string.")
    return found
