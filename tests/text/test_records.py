"""Files, folders and the hub: what cannot be read is told with its place, and with what to do."""

import pytest

from rb_interp.errors import TextError
from rb_interp.text.prontoqa_files import PRONTOQA
from rb_interp.text.records import hub_records, read_records
from rb_interp.text.stories import STORIES

UTF_8 = "not UTF-8 text (invalid start byte). Fetch or save the file anew."
CUT = "If the file was cut short, fetch it anew or delete what is left of its last record."
LINES = "A file with one object a line must end in .jsonl."
GROUPS = 'expected a list of PrOntoQA examples, or groups of the form {"example1": {"test_example": {...}}}.'


@pytest.mark.parametrize(
    ("kind", "name", "content", "message"),
    [
        (STORIES, "a.jsonl", '{}\n\n{"a"', f", line 3: not JSON (Expecting ':' delimiter: character 5). {CUT}"),
        (PRONTOQA, "a.json", '{"a":\n [3', f", line 2: not JSON (Expecting ',' delimiter: character 4). {CUT}"),
        (PRONTOQA, "a.json", "3", f" holds a number; {GROUPS} {LINES}"),
        (STORIES, "a.txt", b"x\ny \xff", f", line 2: {UTF_8}"),
    ],
)  # fmt: skip
def test_damage_is_named_with_file_and_line(tmp_path, kind, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TextError) as caught:
        list(read_records(path, kind))
    assert str(caught.value) == f"{path}{message}"


def test_each_record_comes_with_its_place(tmp_path):
    (tmp_path / "a.json").write_text('{"one": {"test": 1, "more": 2}}')
    (tmp_path / "b.JSONL").write_text("\n3\n")
    (tmp_path / "c.json").write_text("[4]")
    assert [(record, where.removeprefix(f"{tmp_path}/")) for record, where in read_records(tmp_path, PRONTOQA)] == [
        *((1, "a.json, entry one/test"), (2, "a.json, entry one/more")),
        *((3, "b.JSONL, line 2"), (4, "c.json, entry 1")),
    ]


def test_the_hub_gives_rows_or_a_reason(hub):
    def refused() -> str:
        with pytest.raises(TextError) as caught:
            list(hub_records("me/mine", "train", STORIES))
        return str(caught.value)

    hub.rows = [1, 2]
    rows = [(1, "split 'test' of me/mine, row 1"), (2, "split 'test' of me/mine, row 2")]
    assert list(hub_records("me/mine", "test", STORIES)) == rows
    hub.rows = ValueError('Unknown split "train".\nShould be one of ["test"].')
    assert 'could not be loaded from the hub (ValueError: Unknown split "train"). Check name' in refused()
    hub.asked, hub.info = (), ConnectionError("[Errno -2] Name or service not known\nand more")
    assert "could not be asked for me/mine (ConnectionError: [Errno -2] Name or service not known). Che" in refused()
    assert hub.asked == ()  # `datasets` would try for half a minute
