"""One process at a time writes a folder, and its lock goes with it, however it ends."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from rb_interp.errors import RunError
from rb_interp.one_writer import LOCK, WRITER, OneWriter

HOLD = """
import sys
from pathlib import Path
from rb_interp.one_writer import OneWriter
with OneWriter(Path(sys.argv[1])):
    (Path(sys.argv[1]) / ".table.parquet.abcd_123.tmp").touch()
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(folder) -> Iterator[subprocess.Popen]:
    """Another process that holds a folder until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_second_writer_is_told_who_writes_and_harms_nothing(tmp_path):
    with held(tmp_path) as process:
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        who = rf"is being written by process {process.pid} on {re.escape(platform.node())}, since \d{{4}}-"
        with pytest.raises(RunError, match=who), OneWriter(tmp_path):
            pass
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        assert ".table.parquet.abcd_123.tmp" in before
        process.communicate()
    with OneWriter(tmp_path):
        assert json.loads((tmp_path / WRITER).read_text())["process"] == os.getpid()
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_a_killed_writer_leaves_no_lock_and_the_next_one_clears_up(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / ".fig.svg.abcd_123.tmp").touch()
    (tmp_path / "figures" / "fig.svg").touch()
    (tmp_path / "figures" / "below").mkdir()
    (tmp_path / "figures" / "below" / ".tmp39LW1M").touch()
    with held(tmp_path) as process:
        assert f"process {process.pid} on" in OneWriter(tmp_path).holder
        process.kill()
        process.wait()
        assert OneWriter(tmp_path).holder == ""
    assert {path.name for path in tmp_path.iterdir()} == {LOCK, WRITER, ".table.parquet.abcd_123.tmp", "figures"}
    with OneWriter(tmp_path, [tmp_path / "figures"]):
        pass
    assert {path.name for path in tmp_path.rglob("*")} == {LOCK, "figures", "fig.svg", "below"}


FORKED = """
import os, sys
from pathlib import Path
from rb_interp.errors import RunError
from rb_interp.one_writer import OneWriter

def in_a_child(writer):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        with writer:
            sys.exit(0)
    except RunError as error:
        sys.exit(2 if f"is being written by process {os.getppid()}" in str(error) else 1)

writer, folder = OneWriter(Path(sys.argv[1])), Path(sys.argv[1])
with writer:
    found = [in_a_child(writer), in_a_child(OneWriter(folder))]
print(*found, in_a_child(writer), in_a_child(OneWriter(folder)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process is forked here")
def test_a_forked_process_has_a_lock_of_its_own(tmp_path):
    """While its parent writes it is refused, and its end leaves the parent's lock alone; afterwards it may write."""
    ended = subprocess.run([sys.executable, "-c", FORKED, tmp_path], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("2 2 0 0\n", "")


def test_what_links_lead_to_outside_the_folder_is_not_cleared_up(tmp_path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    for place in (run / "figures", run / "inside", elsewhere / "below"):
        place.mkdir(parents=True)
    mine, theirs = run / "inside" / ".mine.svg.abcd_123.tmp", elsewhere / ".theirs.svg.abcd_123.tmp"
    deeper = elsewhere / "below" / ".tmp39LW1M"
    for path in (mine, theirs, deeper):
        path.touch()
    (run / "linked").symlink_to(elsewhere)
    (run / "figures" / "linked").symlink_to(elsewhere / "below")
    (run / "near").symlink_to(run / "inside")
    with OneWriter(run, [run / "linked", run / "figures", run / "near"]):
        pass
    assert [path.exists() for path in (mine, theirs, deeper)] == [False, True, True]


def test_the_same_thread_can_enter_again_and_another_cannot(tmp_path):
    writer, found = OneWriter(tmp_path), []

    def beside() -> None:
        try:
            with writer:
                found.append("entered")
        except RunError as error:
            found.append(str(error))

    with writer:
        with writer:
            pass
        thread = Thread(target=beside)
        thread.start()
        thread.join()
        assert len(found) == 1
        assert f"is being written by process {os.getpid()} on" in found[0]
        assert (tmp_path / WRITER).exists()
    beside()
    assert found[1:] == ["entered"]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_stands_in_place_of_the_lock_is_left_there_and_named(tmp_path, kind):
    lock = tmp_path / "run" / LOCK
    lock.parent.mkdir()
    make = {
        "link": lambda: lock.symlink_to(tmp_path / "elsewhere"),
        "folder": lock.mkdir,
        "pipe": lambda: os.mkfifo(lock),
    }
    make[kind]()
    with (
        pytest.raises(RunError, match="is a link, a folder or a device, where an empty file should be"),
        OneWriter(lock.parent),
    ):
        pass
    assert [path.name for path in (*tmp_path.iterdir(), *lock.parent.iterdir())] == ["run", LOCK]


def test_a_place_that_cannot_be_locked_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"file.* could not be written \(.*\); what was there before is untouched"):
        OneWriter(tmp_path / "file").__enter__()


HERE = platform.node()


@pytest.mark.parametrize(
    ("told", "holder"),
    [
        ({"host": HERE, "process": os.getpid(), "since": "noon"}, f"process {os.getpid()} on {HERE}, since noon"),
        ({"host": "elsewhere", "process": 2**31 - 1, "since": "noon"}, f"process {2**31 - 1} on elsewhere, since noon"),
        ({"host": HERE, "process": 2**31 - 1, "since": "noon"}, ""),
        ({"host": HERE, "process": 10**30, "since": "noon"}, ""),
        ({"host": HERE, "process": "x", "since": "noon"}, "another process"),
        ({"host": HERE}, "another process"),
        ([], "another process"),
    ],
    ids=["runs", "elsewhere", "gone", "no number of a process", "no number", "too little", "no mapping"],
)
def test_whoever_says_that_he_writes_is_believed_while_he_may_run(tmp_path, told, holder):
    assert OneWriter(tmp_path).holder == ""
    (tmp_path / WRITER).write_text(json.dumps(told))
    assert OneWriter(tmp_path).holder == holder


def test_a_process_of_somebody_else_runs(tmp_path, monkeypatch):
    def forbidden(*_):
        raise PermissionError(1, "Operation not permitted")

    (tmp_path / WRITER).write_text(json.dumps({"host": HERE, "process": 1, "since": "noon"}))
    monkeypatch.setattr(os, "kill", forbidden)
    assert OneWriter(tmp_path).holder == f"process 1 on {HERE}, since noon"


def test_a_writer_that_cannot_begin_keeps_no_lock(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    writer = OneWriter(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(RunError, match="No space left on device"):
            writer.__enter__()
    with OneWriter(tmp_path) as other:
        assert other.holder.startswith(f"process {os.getpid()} on")
