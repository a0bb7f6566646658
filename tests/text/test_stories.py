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


OBJECT = "expected an object whose 'text' (or 'story') is a string."


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "x"}\n\n{"words": "y"}', f", line 3: an object with the keys words; {OBJECT}"),
        ("a.parquet", {"text": ["x", None], "n": [1, 2]}, f", row 2: null under 'text'; {OBJECT}"),
        ("a.txt", " \n<|endoftext|>", " holds no story: expected at least one text that is not empty."),
    ],
)
def test_what_is_no_story_is_told_with_its_place(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content) if isinstance(content, str) else write_table(pa.table(content), path)
    with pytest.raises(TextError) as caught:
        read_stories(path)
    assert str(caught.value) == f"{path}{message}"


def test_the_hub_gives_the_first_different_stories(hub):
    hub.rows = [{"text": text} for text in ["One.", " ", "One.", "Two.", "Three."]]
    assert load_stories_hub(n=2) == ["One.", "Two."]
    assert hub.asked == ("roneneldan/TinyStories", "train", True)
    assert load_stories_hub("me/mine", "validation") == ["One.", "Two.", "Three."]
    assert hub.asked == ("me/mine", "validation", False)
    with pytest.raises(TextError, match=r"^split 'train' of .* holds 3 different stories; 4 were asked for\.$"):
        load_stories_hub(n=4)
    hub.rows = [{"question": "Who?", "answer": "Tom."}]
    with pytest.raises(TextError, match=r"^split 'train' of me/mine, row 1: an object with the keys question, answer;"):
        load_stories_hub("me/mine")
    hub.rows = []
    with pytest.raises(TextError, match=r"^split 'train' of me/mine holds 0 different stories; at least 1 was asked"):
        load_stories_hub("me/mine")


def test_the_real_stories():
    if "RB_INTERP_DATA" not in os.environ:
        pytest.skip("RB_INTERP_DATA is unset: no real stories to read")
    folder = Path(os.environ["RB_INTERP_DATA"]) / "tinystories"
    stories = read_stories(folder)
    assert len(stories) == len(set(stories)) == 10_945 + 500
    assert stories[:10_945] == read_stories(folder / "tinystories_train.jsonl")
