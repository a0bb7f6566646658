"""The manifest: files that are what they were, steps that are finished, and a process that is killed anywhere."""

import json
import os
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from rb_interp import files
from rb_interp.errors import RunError
from rb_interp.manifest import FILE, Manifest, code_version
from rb_interp.manifest.content import Step


def test_what_was_written_is_read_again(manifest):
    again = Manifest(manifest.folder)
    assert again.read(manifest.folder / "weights" / "b") == b"two"
    assert again.names(manifest.folder / "weights") == ["a", "b"]
    assert again.content.fingerprint == "abc"
    assert [step for step in ("train", "probe", "report") if again.finished(step)] == ["train", "probe"]
    assert again.problems() == {}
    (sha,) = {entry.sha256 for name, entry in again.content.files.items() if name == "weights/a"}
    assert sha == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"  # of "one"


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "swap", "delete", "folder", "link"])
def test_a_file_that_is_not_what_it_was_is_named_with_what_to_do(manifest, damage, tmp_path):
    path, other = manifest.folder / "weights" / "a", manifest.folder / "weights" / "b"
    manifest.check(path)  # was looked at before
    changed = {"flip": b"onf", "cut": b"on", "empty": b"", "swap": other.read_bytes()}
    path.unlink()
    if damage in changed:
        path.write_bytes(changed[damage])
    elif damage == "folder":
        path.mkdir()
    elif damage == "link":
        (tmp_path / "elsewhere").write_bytes(b"one")
        path.symlink_to(tmp_path / "elsewhere")
    message = {"delete": "is missing; it was there. Train", "folder": "is a folder", "link": "leads out of"}
    for read in (manifest.check, manifest.read):
        with pytest.raises(RunError, match=message.get(damage, r"is damaged, or .*checksum is.*\. Train again\.")):
            read(path)
    assert list(manifest.problems()) == ["weights/a"]
    manifest.check(other)


def test_a_step_made_from_other_files_is_outdated_and_one_made_again_is_not(manifest):
    manifest.write_bytes(manifest.folder / "weights" / "a", b"three", "train")
    assert (manifest.outdated("probe"), manifest.finished("probe")) == (True, False)
    with manifest.making("probe", "train"):
        manifest.write_bytes(manifest.folder / "table2", b"others", "probe")
    assert manifest.finished("probe")
    with pytest.raises(RunError, match=r"table is not there yet. Probe again\."):
        manifest.check(manifest.folder / "table", "probe")  # it is of the step before


def test_a_step_made_from_an_outdated_step_is_outdated_though_its_own_files_are_as_they_were(manifest):
    with manifest.making("report", "probe"):
        manifest.write_bytes(manifest.folder / "page", b"words", "report")
    manifest.write_bytes(manifest.folder / "weights" / "a", b"three", "train")
    assert [manifest.outdated(step) for step in ("train", "probe", "report")] == [False, True, True]
    assert not manifest.finished("report")


def test_a_step_that_was_stopped_leaves_the_one_before(manifest):
    def stopped():
        with manifest.making("probe", "train"):
            manifest.write_bytes(manifest.folder / "table", b"half", "probe")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    for each in (manifest, Manifest(manifest.folder)):
        assert (each.finished("train"), each.finished("probe")) == (True, True)
        assert each.read(manifest.folder / "table") == b"numbers"
    assert not list(manifest.folder.glob(".*.tmp"))


def test_a_step_made_again_is_the_one_before_until_it_is_whole(manifest, tmp_path, monkeypatch):
    """Killed before any renaming: finished with the old files, or not finished; never finished with some of each."""
    folder, renames, snapshots = manifest.folder, os.replace, []
    with manifest.making("probe", "train"):
        for name in ("table", "more"):
            manifest.write_bytes(folder / name, b"old", "probe")

    def replace(temporary, place):
        snapshots.append(tmp_path / f"killed{len(snapshots)}")
        shutil.copytree(folder, snapshots[-1])
        renames(temporary, place)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", replace)
        with manifest.making("probe", "train"):
            for name in ("table", "more"):
                manifest.write_bytes(folder / name, b"new", "probe")
    states = []
    for killed in (*snapshots, folder):
        as_found, settled = Manifest(killed), Manifest(killed)
        found = as_found.finished("probe") and {(killed / name).read_bytes() for name in ("table", "more")}
        assert found or as_found.content.moving("probe")  # a reader waits
        with settled.writing():
            assert settled.finished("probe") == bool(found)
        states.append(found)
    # who writes, the manifest; then two files and the manifest again, before which the step is not finished
    assert states == [{b"old"}, {b"old"}, False, False, False, {b"new"}]


@pytest.mark.parametrize("name", ["a", "c"])
def test_killed_anywhere_it_is_the_old_file_or_the_new_one(manifest, name, tmp_path, monkeypatch):
    """Every change is a renaming: of the manifest, which knows both, of the file, of the manifest again."""
    path, renames, killed, new = manifest.folder / "weights" / name, os.replace, {}, False

    def replace(temporary, place):
        nonlocal new
        folder = tmp_path / f"killed{len(killed)}"
        shutil.copytree(manifest.folder, folder)
        killed[folder] = new
        renames(temporary, place)
        new = new or place == path

    before = path.read_bytes() if path.exists() else None
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", replace)
        manifest.write_bytes(path, b"three", "train")
    assert list(killed.values()) == [False, False, False, True]  # the first is of who writes
    for folder, new in killed.items():
        for _ in range(2):  # as a reader finds it, and after the next writer
            again, there = Manifest(folder), folder / "weights" / name
            assert again.problems() == {}
            assert (again.read(there) if again.holds(there) else None) == (b"three" if new else before)
            with again.writing():
                pass
        assert not any(entry.before is not None for entry in Manifest(folder).content.files.values())
        again.write_bytes(there, b"three", "train")
        assert Manifest(folder).content.files == manifest.content.files


def change(told, place, value):
    *way, last = place
    for key in way:
        told = told[key]
    told[last] = value


@pytest.mark.parametrize(
    "place", [["files", "weights/a", "sha256"], ["fingerprint"], ["files", "../a"], ["steps"], ["sha256"], ["format"]]
)
def test_a_manifest_that_was_changed_is_refused(manifest, place):
    told = json.loads((manifest.folder / FILE).read_text())
    change(told, place, "x")
    (manifest.folder / FILE).write_text(json.dumps(told))
    with pytest.raises(RunError, match="manifest.json (is damaged|has the format)"):
        Manifest(manifest.folder).check(manifest.folder / "weights" / "a")


@pytest.mark.parametrize("path", ["elsewhere/a", Path("/a"), 5, None])
def test_what_is_no_path_in_the_folder_is_told(manifest, path):
    for ask in (manifest.check, manifest.read, manifest.holds, lambda path: manifest.write_bytes(path, b"", "train")):
        with pytest.raises(RunError, match=r" is no path in .*; give the path of a file there"):
            ask(path)


def test_nothing_is_written_outside_the_folder(manifest, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (manifest.folder / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="leads out of"):
        manifest.write_bytes(manifest.folder / "figures" / "a.svg", b"", "report")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def killed_before_it_moves(manifest, path, content, place, monkeypatch, step="train"):
    """The folder as it is where a process is killed that has said what it moves there, and has not moved it."""
    renames = os.replace

    def replace(temporary, to):
        if to == path:
            shutil.copytree(manifest.folder, place)
        renames(temporary, to)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", replace)
        manifest.write_bytes(path, content, step)
    return Manifest(place)


def test_killed_twice_at_the_same_file_it_is_still_the_old_one(manifest, tmp_path, monkeypatch):
    once = killed_before_it_moves(manifest, manifest.folder / "weights" / "a", b"x", tmp_path / "1", monkeypatch)
    twice = killed_before_it_moves(once, once.folder / "weights" / "a", b"y", tmp_path / "2", monkeypatch)
    assert twice.problems() == {}
    assert twice.read(twice.folder / "weights" / "a") == b"one"


def test_a_file_that_was_never_moved_into_place_is_no_problem_and_a_lost_one_is(manifest, tmp_path, monkeypatch):
    new = killed_before_it_moves(manifest, manifest.folder / "weights" / "c", b"x", tmp_path / "new", monkeypatch)
    assert (new.missing, new.problems()) == ([], {})
    again = killed_before_it_moves(manifest, manifest.folder / "weights" / "a", b"x", tmp_path / "again", monkeypatch)
    (again.folder / "weights" / "a").unlink()
    assert again.missing == list(again.problems()) == ["weights/a"]
    with again.writing():
        assert again.missing == ["weights/a"]  # it is still lost for the next writer

    (manifest.folder / "weights" / "b").unlink()
    lost = killed_before_it_moves(manifest, manifest.folder / "weights" / "b", b"x", tmp_path / "lost", monkeypatch)
    with lost.writing():
        assert (lost.missing, lost.problems()) == ([], {})  # as if it had never been made: it is made again


def test_a_write_that_fails_leaves_the_manifest_as_it_was(manifest, monkeypatch):
    path, renames, before = manifest.folder / "weights" / "a", os.replace, manifest.content

    def full(temporary, place):
        if place == path:
            raise OSError(28, "No space left on device")
        renames(temporary, place)

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(files.os, "replace", full)
            with pytest.raises(RunError, match="No space left.*before is untouched"):
                manifest.write_bytes(path, b"three", "train")
        assert Manifest(manifest.folder).content == before


def test_what_is_no_file_or_cannot_be_read_is_named_with_what_to_do(manifest, monkeypatch):
    path = manifest.folder / "weights" / "a"

    def broken(_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", broken)
        with pytest.raises(RunError, match=r"a cannot be read \(Input.*\)\. Train again\."):
            manifest.read(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as place:
        monkeypatch.chdir(path.parent)  # a socket's path is short
        place.bind("a")
        with pytest.raises(RunError, match="is a folder or a device, where a file should be; move it away"):
            manifest.check(path)


def test_a_file_that_is_not_there_yet_is_that_of_the_writer_or_of_a_command(manifest):
    path, reader = manifest.folder / "page", Manifest(manifest.folder, remedies={"report": "Report it."})
    with pytest.raises(RunError, match=r"page is not there yet\. Report it\.$"):
        reader.check(path, "report")
    with manifest.writing(), pytest.raises(RunError, match=rf"Wait until process {os.getpid()} on .* has made it\.$"):
        reader.check(path, "report")


def test_a_file_changed_in_place_is_looked_at_again(manifest):
    path = manifest.folder / "weights" / "a"
    manifest.check(path)
    was = path.stat()
    with open(path, "rb+") as file:
        file.write(b"onf")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns + 1_000_000_000))
    with pytest.raises(RunError, match="is damaged"):
        manifest.check(path)


@pytest.mark.parametrize("name", ["../a", "weights/../../a", "/a"])
def test_a_manifest_that_names_files_elsewhere_is_refused_whatever_its_checksum(manifest, name):
    content = manifest.content
    manifest._save(replace(content, files={name: content.files["weights/a"]}))
    with pytest.raises(RunError, match="damaged .it names files outside its folder.*move the folder away"):
        _ = Manifest(manifest.folder).content


@pytest.mark.parametrize("made_from", [{"train": ["train"]}, {"train": ["probe"]}, {"train": ["a"], "a": ["probe"]}])
def test_a_manifest_whose_steps_were_made_from_one_another_is_refused(manifest, made_from):
    circle = {name: Step(dict.fromkeys(names, ""), "", "") for name, names in made_from.items()}
    manifest._save(replace(manifest.content, steps={**manifest.content.steps, **circle}))
    with pytest.raises(RunError, match="damaged .it says that steps were made from one another: .*'train'"):
        Manifest(manifest.folder).finished("probe")


@pytest.mark.parametrize("before", [0, False, [], {}])
def test_a_checksum_before_that_is_no_text_is_refused(manifest, before):
    files = manifest.content.files
    manifest._save(replace(manifest.content, files={**files, "table": replace(files["table"], before=before)}))
    with pytest.raises(RunError, match="damaged .it has .*, where a text should be"):
        _ = Manifest(manifest.folder).content


def test_a_file_that_a_step_does_not_make_any_more_is_removed_unless_somebody_changed_it(manifest):
    folder = manifest.folder
    with manifest.making("probe", "train"):
        for name in ("table", "more", "mine"):
            manifest.write_bytes(folder / name, b"numbers", "probe")
    (folder / "mine").write_bytes(b"notes of somebody")
    (folder / "notes").write_bytes(b"never known")
    with manifest.making("probe", "train"):
        manifest.write_bytes(folder / "table", b"others", "probe")
    assert {path.name for path in folder.iterdir() if path.is_file()} - {FILE, ".lock"} == {"table", "mine", "notes"}
    assert manifest.problems() == {}
    assert manifest.finished("probe")


def test_the_version_of_the_code_is_that_of_every_file_and_its_name(tmp_path):
    versions = [code_version()]
    for number, (name, content) in enumerate([("a.py", "1"), ("a.py", "2"), ("b.py", "2"), ("c/b.py", "2")]):
        path = tmp_path / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_text(content)
        (tmp_path / str(number) / "notes.txt").write_text(f"{number}")
        versions.append(code_version(tmp_path / str(number)))
    assert len(set(versions)) == 5
    shutil.copytree(tmp_path / "0", tmp_path / "elsewhere")
    assert code_version(tmp_path / "elsewhere") == versions[1]


def test_a_step_says_which_code_made_it(manifest):
    with manifest.making("probe", "train", version="of a study"):
        manifest.write_bytes(manifest.folder / "table", b"numbers", "probe")
    assert Manifest(manifest.folder).content.steps["probe"].version == "of a study"
    assert manifest.content.steps["train"].version == manifest.content.files["weights/a"].version == code_version()
