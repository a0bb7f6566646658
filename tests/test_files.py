"""A file is there whole or as it was before, and says why it was not written."""

import os

import pytest

from rb_interp.errors import RunError
from rb_interp.files import write_bytes, write_whole


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "a.svg").write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    message = r"a\.svg could not be written .*No space left.*is untouched\. Free some space or .* the same command"
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(RunError, match=message):
            write_bytes(tmp_path / "a.svg", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]
    write_bytes(tmp_path / "a.svg", b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"new"]


def test_an_interruption_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    def stopped(path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a", stopped)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_everybody_may_read_what_is_written(tmp_path):
    write_bytes(tmp_path / "a.svg", b"new")
    assert os.name != "posix" or (tmp_path / "a.svg").stat().st_mode & 0o777 == 0o644
