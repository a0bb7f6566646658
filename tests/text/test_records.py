"""Files, folders and the hub: what cannot be read is told with its place, and with what to do."""

import pytest
from huggingface_hub.errors import RepositoryNotFoundError

from rb_interp.errors import TextError
from rb_interp.text.prontoqa_files import PRONTOQA
from rb_interp.text.records import hub_records, read_records
from rb_interp.text.stories import STORIES

STORY_FILES = "stories are read from .txt, .jsonl, .json and .parquet files, or from a folder of them."
EXAMPLE_FILES = "PrOntoQA examples are read from .json and .jsonl files, or from a folder of them."
UTF_8 = "not UTF-8 text (invalid start byte). Fetch or save the file anew."
CUT = "If the file was cut short, fetch it anew or delete what is left of its last record."
LINES = "A file with one object a line must end in .jsonl."
GROUPS = 'expected a list of PrOntoQA examples, or groups of the form {"example1": {"test_example": {...}}}.'


@pytest.mark.parametrize(
    ("kind", "name", "content", "message"),
    [
        (STORIES, "a.jsonl", '{}\n\n{"a"', f", line 3: not JSON (Expecting ':' delimiter: character 5). {CUT}"),
        (PRONTOQA, "a.json", '{"a":\n [3', f", line 2: not JSON (Expecting ',' delimiter: character 4). {CUT}"),
        (STORIES, "a.json", '{"text": "x"}', f" holds an object; expected a list of stories. {LINES}"),
        (STORIES, "a.json", '{"a": {"b": "x"}}', f" holds an object; expected a list of stories. {LINES}"),
        (PRONTOQA, "a.json", "3", f" holds a number; {GROUPS} {LINES}"),
        (PRONTOQA, "a.json", '{"query": "x"}', f" holds an object; {GROUPS} {LINES}"),
        (STORIES, "a.txt", b"x\ny \xff", f", line 2: {UTF_8}"),
        (PRONTOQA, "a.json", b'[\n"\xff"]', f", line 2: {UTF_8}"),
        (STORIES, "a.parquet", "", " is no whole parquet file (Parquet file size is 0 bytes). Fetch or write it anew."),
        (STORIES, "a.csv", "x", f" ends in '.csv': {STORY_FILES}"),
        (PRONTOQA, "a.txt", "x", f" ends in '.txt': {EXAMPLE_FILES}"),
    ],
)  # fmt: skip
def test_damage_is_named_with_file_and_line(tmp_path, kind, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TextError) as caught:
        list(read_records(path, kind))
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize(("kind", "expected"), [(STORIES, STORY_FILES), (PRONTOQA, EXAMPLE_FILES)])
def test_a_place_without_files_says_what_is_read(tmp_path, kind, expected):
    (tmp_path / "notes.md").write_text("not read")
    for path, message in (
        (tmp_path, f"folder {tmp_path} holds no such file: {expected}"),
        (tmp_path / "gone.json", f"{tmp_path / 'gone.json'} is not there: {expected}"),
    ):
        with pytest.raises(TextError) as caught:
            list(read_records(path, kind))
        assert str(caught.value) == message


def test_each_record_comes_with_its_place(tmp_path):
    (tmp_path / "a.json").write_text('{"one": {"test": 1, "more": 2}}')
    (tmp_path / "b.JSONL").write_text("\n3\n")
    (tmp_path / "c.json").write_text("[4]")
    assert [(record, where.removeprefix(f"{tmp_path}/")) for record, where in read_records(tmp_path, PRONTOQA)] == [
        *((1, "a.json, entry one/test"), (2, "a.json, entry one/more")),
        *((3, "b.JSONL, line 2"), (4, "c.json, entry 1")),
    ]


FILES = "or give the path of a file or folder of stories (.txt, .jsonl, .json, .parquet)."
GENERATE = (
    "or generate the examples (prontoqa = 'generate'), "
    "or give the path of a file or folder of PrOntoQA examples (.json, .jsonl)."
)


@pytest.mark.parametrize(("kind", "instead"), [(STORIES, FILES), (PRONTOQA, GENERATE)])
def test_the_hub_gives_rows_or_a_reason(hub, monkeypatch, kind, instead):
    def refused() -> str:
        with pytest.raises(TextError) as caught:
            list(hub_records("me/mine", "train", kind))
        return str(caught.value)

    hub.rows = [1, 2]
    rows = [(1, "split 'test' of me/mine, row 1"), (2, "split 'test' of me/mine, row 2")]
    assert list(hub_records("me/mine", "test", kind)) == rows
    hub.rows = ValueError('Unknown split "train".\nShould be one of ["test"].')
    unknown = (
        "split 'train' of me/mine could not be loaded from the hub (ValueError: Unknown split \"train\"). "
        f"Check name and split, {instead}"
    )
    assert refused() == unknown

    hub.asked, hub.info = (), ConnectionError("[Errno -2] Name or service not known\nand more")
    assert refused() == (
        "https://hub.test could not be asked for me/mine (ConnectionError: [Errno -2] Name or service not known). "
        f"Check the connection, set HF_HUB_OFFLINE=1 to use a copy fetched earlier, {instead}"
    )
    hub.info = RepositoryNotFoundError.__new__(RepositoryNotFoundError)
    assert refused() == (
        f"there is no dataset 'me/mine' on https://hub.test, or it is private. Check the name, {instead}"
    )
    assert hub.asked == ()  # `datasets` would try for half a minute

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refused() == unknown  # nobody was asked whether it is there, so a copy would have been used
    hub.rows = [1, 2]
    assert list(hub_records("me/mine", "test", kind)) == rows
