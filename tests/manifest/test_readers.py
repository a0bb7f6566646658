"""Readers beside a writer: they see one making of a step, and wait for files that move."""

import os
import shutil
from threading import Event, Thread

import pytest

from rb_interp import files
from rb_interp.errors import RunError
from rb_interp.manifest import Manifest


def test_a_reader_sees_one_making_of_a_step_and_never_two(manifest):
    """The step is made again between two files that are read: both are read again."""
    reader, folder = Manifest(manifest.folder), manifest.folder
    with manifest.making("probe", "train"):
        for name in ("a", "b"):
            manifest.write_bytes(folder / name, b"old", "probe")
    later = [b"newer", b"new"]

    def read():
        first = reader.read(folder / "a")
        if later:
            with manifest.making("probe", "train"):
                content = later.pop()
                for name in ("a", "b"):
                    manifest.write_bytes(folder / name, content, "probe")
        return first, reader.read(folder / "b")

    assert reader.steady("probe", read) == (b"newer", b"newer")
    with pytest.raises(RunError, match="c is not there yet"):  # and no writer was at work
        reader.steady("probe", lambda: reader.read(folder / "c", "probe"))


def test_a_reader_follows_a_writer(manifest):
    path, reader = manifest.folder / "weights" / "a", Manifest(manifest.folder)
    for content in (b"one", b"x", b"yy", b"zzz"):
        manifest.write_bytes(path, content, "train")
        assert reader.read(path) == content
        reader.check(path)


def test_a_reader_waits_while_a_step_is_moved_into_place(manifest, monkeypatch):
    """It comes between two files, and gets the whole new step; where the writer was killed there, it is told so."""
    folder, renames, looked, found = manifest.folder, os.replace, Event(), []
    reader = Manifest(folder)

    def read():
        if not reader.finished("probe"):
            raise RunError("not finished")
        return reader.read(folder / "table")

    def beside():
        try:
            found.append(reader.steady("probe", read))
        except RunError as error:
            found.append(error)
        finally:
            looked.set()

    def replace(temporary, place):
        if place == folder / "table":
            other.start()
            assert looked.wait(60)
            reader.wait("report")  # nobody replaces that one
            shutil.copytree(folder, folder.parent / "killed")
        renames(temporary, place)

    other = Thread(target=beside)
    with monkeypatch.context() as patch:
        patch.setattr("rb_interp.manifest.manifest.PATIENCE", 60.0)
        patch.setattr("rb_interp.manifest.manifest.time.sleep", lambda _: looked.set())
        patch.setattr(files.os, "replace", replace)
        with manifest.making("probe", "train"):
            manifest.write_bytes(folder / "table", b"new", "probe")
        other.join()
    assert found == [b"new"]

    def asleep(_):
        raise AssertionError("waited for nobody")

    monkeypatch.setattr("rb_interp.manifest.manifest.time.sleep", asleep)
    killed = Manifest(folder.parent / "killed")
    (killed.folder / ".writer.json").unlink()
    killed.wait("probe")
    assert not killed.finished("probe")


def test_a_reader_waits_for_files_that_begin_to_move_right_after_it_has_looked(manifest, monkeypatch):
    folder, renames, waits = manifest.folder, os.replace, Manifest.wait
    reader, moving, failed = Manifest(folder), Event(), Event()

    def make_again():
        with manifest.making("probe", "train"):
            manifest.write_bytes(folder / "table", b"new", "probe")

    writer = Thread(target=make_again)

    def wait(self, step):
        said = waits(self, step)
        if not moving.is_set():
            writer.start()
            assert moving.wait(60)
        return said

    def replace(temporary, place):
        if place == folder / "table":
            moving.set()
            assert failed.wait(60)
        renames(temporary, place)

    def read():
        if not reader.finished("probe"):
            failed.set()
            raise RunError("not finished")
        return reader.read(folder / "table")

    with manifest.making("probe", "train"):
        manifest.write_bytes(folder / "table", b"old", "probe")
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "wait", wait)
        patch.setattr(files.os, "replace", replace)
        found = reader.steady("probe", read)
        writer.join()
    assert found == b"new"


def test_a_step_that_is_finished_meanwhile_is_read_again(manifest):
    reader, tries = Manifest(manifest.folder), []

    def read():
        tries.append(reader.made("probe"))
        if len(tries) == 1:
            manifest.finish("probe", "train", version="another")
            raise RunError("not finished yet")
        return reader.content.steps["probe"].version

    assert reader.steady("probe", read) == "another"


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(manifest):
    path, contents = manifest.folder / "weights" / "a", [b"x", b"yy"]

    class Slow(Manifest):
        def _inside(self, path):
            if contents:
                manifest.write_bytes(path, contents.pop(), "train")
            super()._inside(path)

    assert Slow(manifest.folder, "", {}).read(path) == b"x"
