"""Stories come back whole from every format, and what is wrong is told with file and line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from rb_interp.errors import TextError
from rb_interp.text.stories import load_stories_hub, read_stories

THREE = ["Tom ran.\n\nHe fell.", "Sue’s cat slept\u2028well.", "“Hi!” said Ann."]
LINES = "".join(json.dumps({"text": text, "source": "x"}, ensure_ascii=False) + "\n" for text in THREE)


def write(place: Path, name: str, content: str | bytes) -> Path:
    path = place / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_each_format_gives_the_same_stories(tmp_path):
    objects = [{"story": text, "summary": "-"} for text in THREE]
    write(tmp_path, "a.txt", "\n<|endoftext|>\n".join(THREE) + "\n<|endoftext|>\n")
    write(tmp_path, "b.jsonl", LINES + "\n")
    write(tmp_path, "c.json", json.dumps(objects))
    write(tmp_path, "d.json", json.dumps(THREE))
    write(tmp_path, "e.txt", b"\xef\xbb\xbf" + "<|endoftext|>".join(THREE).replace("\n", "\r\n").encode())
    write_table(pa.table({"n": [1, 2, 3], "text": THREE}), tmp_path / "f.parquet")
    for file in sorted(tmp_path.iterdir()):
        assert read_stories(file) == THREE, file.name
    assert read_stories(str(tmp_path)) == THREE


def test_blank_lines_part_stories_only_where_no_token_does(tmp_path):
    path = write(tmp_path, "a.txt", "One.\nMore of one.\n \nTwo.\n\n\n")
    assert read_stories(path) == ["One.\nMore of one.", "Two."]


def test_a_folder_is_read_by_name_without_copies_and_other_files(tmp_path):
    write(tmp_path, "b.txt", "Two.<|endoftext|>  <|endoftext|>One.")
    write(tmp_path, "a.JSONL", '{"text": " One. "}\n{"text": ""}\n')
    write(tmp_path, "notes.md", "not a story")
    assert read_stories(tmp_path) == ["One.", "Two."]


CUT = "If the file was cut short, fetch it anew or delete what is left of its last story."
FORMATS = "a .txt file, a .jsonl file, a .json file or a .parquet file"
OBJECT = "expected an object whose 'text' (or 'story') is a string."


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", LINES[:-20], f", line 3: not JSON (Unterminated string starting at: character 10). {CUT}"),
        ("a.jsonl", '{"text": "x"}\n\n{"words": "y"}', f", line 3: an object with the keys words; {OBJECT}"),
        ("a.jsonl", '{"text": null}', f", line 1: an object with the keys text; {OBJECT}"),
        ("a.jsonl", "{}", f", line 1: an object with the keys (none); {OBJECT}"),
        ("a.jsonl", "7", f", line 1: a number; {OBJECT}"),
        ("a.json", '["x",\n["y"]]', f", entry 2: a list; {OBJECT}"),
        ("a.json", '["x",\n"y', f", line 2: not JSON (Unterminated string starting at: character 1). {CUT}"),
        (
            "a.json",
            '{"text": "x"}',
            " holds an object; expected a list of stories (one object a line is a .jsonl file).",
        ),
        ("a.txt", b"x\ny \xff", ", line 2: not UTF-8 text (invalid start byte). Fetch or save the file anew."),
        ("a.txt", " \n<|endoftext|>", f" holds no story: expected {FORMATS} with at least one text that is not empty."),
        ("a.csv", "x", f" ends in '.csv': stories are read from {FORMATS}, or a folder of these."),
        (
            "a.parquet",
            b"",
            " is no whole parquet file (Parquet file size is 0 bytes). Fetch or write it anew.",
        ),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path, name, content, message):
    path = write(tmp_path, name, content)
    with pytest.raises(TextError) as caught:
        read_stories(path)
    assert str(caught.value) == f"{path}{message}"


def test_parquet_without_text_and_folders_without_stories(tmp_path):
    write_table(pa.table({"words": ["x"], "n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(
        TextError, match=r"a\.parquet has the columns words, n; expected one named 'text' \(or 'story'\)\.$"
    ):
        read_stories(tmp_path)
    write_table(pa.table({"text": ["x", None]}), tmp_path / "a.parquet")
    with pytest.raises(TextError, match=r"a\.parquet, row 2: null in column 'text'; expected a string\.$"):
        read_stories(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TextError, match=r"^folder .*empty holds no stories: expected a \.txt file, "):
        read_stories(tmp_path / "empty")
    with pytest.raises(TextError, match=r"gone\.txt is not there: expected .*, or a folder of such files\.$"):
        read_stories(tmp_path / "gone.txt")


@pytest.fixture
def hub(monkeypatch):
    """Rows that the hub gives; what it was asked for is in ``hub.asked``."""
    import datasets
    import huggingface_hub

    class Hub:
        rows: list | Exception = [{"text": text} for text in ["One.", " ", "One.", "Two.", "Three."]]  # noqa: RUF012
        info: Exception | None = None
        asked: tuple = ()

        def load(self, name, **settings):
            self.asked = (name, *settings.items())
            if isinstance(self.rows, Exception):
                raise self.rows
            return iter(self.rows)

        def dataset_info(self, _api, name, timeout):
            assert timeout <= 10
            if self.info:
                raise self.info

    fake = Hub()
    monkeypatch.setattr(datasets, "load_dataset", fake.load)
    monkeypatch.setattr(
        huggingface_hub.HfApi, "dataset_info", lambda api, name, timeout: fake.dataset_info(api, name, timeout)
    )
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "https://huggingface.co")
    return fake


def test_the_hub_gives_the_first_different_stories(hub):
    assert load_stories_hub(n=2) == ["One.", "Two."]
    assert hub.asked == ("roneneldan/TinyStories", ("split", "train"), ("streaming", True))
    assert load_stories_hub("me/mine", "validation") == ["One.", "Two.", "Three."]
    assert hub.asked == ("me/mine", ("split", "validation"), ("streaming", False))
    with pytest.raises(TextError, match=r"^split 'train' of .* holds 3 different stories; 4 were asked for\.$"):
        load_stories_hub(n=4)
    with pytest.raises(TextError, match=r"^n=0 stories: expected at least 1, or None for all of them\.$"):
        load_stories_hub(n=0)


INSTEAD = "or give the path of a file or folder of stories (.txt, .jsonl, .json, .parquet)."


def test_without_a_connection_it_says_so_and_does_not_try_for_long(hub):
    hub.info = ConnectionError("[Errno -2] Name or service not known\nand more")
    with pytest.raises(TextError) as caught:
        load_stories_hub(n=5)
    assert str(caught.value) == (
        "https://huggingface.co could not be asked for roneneldan/TinyStories (ConnectionError: [Errno -2] Name or "
        "service not known). Check the connection, set HF_HUB_OFFLINE=1 to use a copy fetched earlier, " + INSTEAD
    )
    assert hub.asked == ()


def test_offline_on_purpose_asks_nobody_and_uses_the_copy(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.info = ConnectionError("must not be asked")
    assert load_stories_hub(n=1) == ["One."]
    hub.rows = ConnectionError("Couldn't reach 'roneneldan/TinyStories' on the Hub (OfflineModeIsEnabled)")
    with pytest.raises(TextError) as caught:
        load_stories_hub(n=1)
    assert str(caught.value) == (
        "split 'train' of roneneldan/TinyStories could not be loaded from the hub (ConnectionError: Couldn't reach "
        "'roneneldan/TinyStories' on the Hub (OfflineModeIsEnabled)). Check name and split, " + INSTEAD
    )


def test_a_wrong_name_split_or_column_is_told(hub):
    hub.rows = ValueError('Unknown split "tran". Should be one of ["train", "validation"].')
    with pytest.raises(TextError, match=r"^split 'tran' of .*\(ValueError: Unknown split \"tran\"\. Should be one of"):
        load_stories_hub(split="tran")
    hub.rows = [{"question": "Who?", "answer": "Tom."}]
    with pytest.raises(TextError, match=r"^split 'train' of me/mine has the columns question, answer; expected one"):
        load_stories_hub("me/mine")
    from huggingface_hub.errors import RepositoryNotFoundError

    hub.info = RepositoryNotFoundError.__new__(RepositoryNotFoundError)
    with pytest.raises(
        TextError, match=r"^there is no dataset 'me/gone' on https://huggingface\.co, or it is private\."
    ):
        load_stories_hub("me/gone")


def test_the_real_stories():
    if "RB_INTERP_DATA" not in os.environ:
        pytest.skip("RB_INTERP_DATA is unset: no real stories to read")
    folder = Path(os.environ["RB_INTERP_DATA"]) / "tinystories"
    stories = read_stories(folder)
    assert len(stories) == len(set(stories)) == 10_945 + 500
    assert stories[:10_945] == read_stories(folder / "tinystories_train.jsonl")
