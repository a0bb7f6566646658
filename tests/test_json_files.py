"""JSON that somebody else wrote is read within bounds."""

import pytest

from rb_interp.json_files import DEEPEST, MOST_BYTES, bounded_bytes, json_of


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "more than 50 lists or objects within each other"),
        ('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), "more than 50 lists or objects within each other"),
        ("[" * 100_000, "more than 50 lists or objects within each other"),
        ("9" * 5000, "a number of 5,000 digits"),
        (b'"\xff"', "can't decode byte 0xff"),
        (b'"\xed\xa0\x80"', "can't decode byte 0xed"),
        ("{", "Expecting property name"),
    ],
)
def test_what_is_no_json_of_a_run_is_told(text, message):
    with pytest.raises(ValueError, match=message):
        json_of(text)


def test_what_is_read_can_be_written_again():
    assert json_of("[" * DEEPEST + "]" * DEEPEST)
    assert json_of(r'{"a\ud800": ["\uD83D\uDE00", "\udfff", -12, 1.5, null]}') == {"a?": ["😀", "?", -12, 1.5, None]}


def test_only_small_plain_files_are_read(tmp_path):
    (tmp_path / "small").write_bytes(b"1")
    assert bounded_bytes(tmp_path / "small") == b"1"
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    for name, message in (("huge", "it has 100,000,001 bytes; expected at most 100,000,000"), ("", "it is a folder")):
        with pytest.raises(ValueError, match=message):
            bounded_bytes(tmp_path / name)
