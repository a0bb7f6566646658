"""Files of a run: whole or absent, written by one process, refused when outdated, damaged or of
another format."""

import json
import os
import shutil
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from threading import Thread

import pandas as pd
import pytest
from own_studies import ONE, start
from table_columns import check_run

import rb_interp
from rb_interp.claims import judge
from rb_interp.errors import RunError, StudyError
from rb_interp.runs import Run, measurement
from rb_interp.store import (
    PACKAGE,
    PROBE,
    REPORT,
    START,
    TRAIN,
    RunStore,
    code_version,
    versions,
    write_file,
)

RESULTS = sorted(
    path.parent for path in (Path(__file__).parents[2] / "results").glob("*/steps.json")
)


@pytest.fixture
def copy(one, tmp_path):
    return Run.open(shutil.copytree(one.folder, tmp_path / "run"), study=ONE)


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_the_version_of_the_code_is_that_of_the_package_alone(tmp_path):
    """Else a changed test would have every run measured again."""
    assert Path(rb_interp.__file__).parent == PACKAGE
    (tmp_path / "study.py").write_text("")
    assert code_version() == code_version() != code_version(tmp_path)


def test_the_version_of_a_study_is_that_of_its_file_or_its_package(one, tmp_path, monkeypatch):
    source, other = tmp_path / "study.py", tmp_path / "elsewhere" / "other.py"
    other.parent.mkdir()
    for path in (source, other):
        path.write_text("")
    monkeypatch.setattr(measurement, "_source", lambda run: source)
    versions_of_code = []
    for _ in range(2):  # the second time in a package
        for path in (None, other, source):
            if path is not None:
                path.write_text(path.read_text() + "1\n")
            code_version.cache_clear()
            versions_of_code.append(measurement._code_version(one))
        (tmp_path / "__init__.py").touch()
    start, with_other, with_source, package, *in_package = versions_of_code
    assert start == with_other != with_source
    assert len({package, *in_package}) == 3


def test_a_machine_that_trains_needs_no_package_that_probes(monkeypatch):
    version = metadata.version

    def without_lens(package):
        if package == "transformer-lens":
            raise metadata.PackageNotFoundError(package)
        return version(package)

    monkeypatch.setattr(metadata, "version", without_lens)
    assert {"torch", "numpy"} <= set(versions())
    assert "transformer-lens" not in versions()


def test_a_file_is_whole_or_what_it_was(tmp_path):
    path = tmp_path / "new" / "file"
    write_file(path, b"first")

    def fail(temporary):
        temporary.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(
        RunError, match="could not be written .*No space left.*what was there before is untouched"
    ):
        write_file(path, fail)
    assert contents(tmp_path) == {Path("new/file"): b"first"}


def test_one_writes_and_a_killed_writer_leaves_nothing(tmp_path):
    store, found = RunStore(tmp_path), []

    def beside():
        with pytest.raises(
            RunError, match="is being written by another process; nothing was changed"
        ):
            RunStore(tmp_path).writing().__enter__()
        found.append("refused")

    with store.writing():
        with store.writing():
            other = Thread(target=beside)
            other.start()
            other.join()
        beside()
    assert found == ["refused"] * 2


KILLED = """
import os, signal, sys
from pathlib import Path
from rb_interp.store import write_file

def fill(path):
    path.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

write_file(Path(sys.argv[1]) / "deep" / "state", fill)
"""


def test_what_a_killed_writer_left_goes_and_files_of_others_stay(tmp_path):
    assert subprocess.run([sys.executable, "-c", KILLED, tmp_path]).returncode == -signal.SIGKILL
    assert [path.read_bytes() for path in tmp_path.rglob("state")] == [b"half"]
    for name in (".mine.tmp", "deep/.tmp4f9aX2", "deep/.state.12.tmp", ".notes.tmp/inside"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".rb_interp-unfinished-of_mine").write_text("a file")
    with RunStore(tmp_path).writing():
        left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert left == [
        ".lock",
        ".mine.tmp",
        ".notes.tmp",
        ".notes.tmp/inside",
        ".rb_interp-unfinished-of_mine",
        "deep",
        "deep/.state.12.tmp",
        "deep/.tmp4f9aX2",
    ]


@pytest.mark.parametrize("kind", ["half", "empty", "a list", "another file", "a bare record"])
def test_a_damaged_list_of_steps_is_one_sentence(copy, kind):
    path = copy.folder / "steps.json"
    whole = path.read_text()
    path.write_text(
        {
            "half": whole[: len(whole) // 2],
            "empty": "",
            "a list": "[1, 2]",
            "another file": (copy.folder / "run.json").read_text(),
            "a bare record": '{"train": {"files": {}}}',
        }[kind]
    )
    with pytest.raises(RunError, match=r"steps.json is damaged: .*Put a sound copy") as caught:
        Run.open(copy.folder, study=ONE).write_report()
    assert "\n" not in str(caught.value)


@pytest.mark.trains
def test_a_lost_list_of_steps_is_made_again(copy):
    path = copy.folder / "steps.json"
    before = json.loads(path.read_text())
    path.unlink()
    ONE.run(preset="smoke", out=copy.folder, progress=False)
    assert json.loads(path.read_text())["probe"]["files"] == before["probe"]["files"]


@pytest.mark.trains
def test_copies_of_a_sync_program_are_no_part_of_a_run(copy):
    folder = copy.folder / "checkpoints"
    for name in ("step_00000020 (1)", "step_00000010.sync-conflict-20240101-101010-ABCDEFG"):
        shutil.copy(folder / "step_00000020.safetensors", folder / f"{name}.safetensors")
    assert copy.sweep().checkpoint_steps == [0, 10, 20]
    copy.store.begin(TRAIN)
    copy.train(progress=False)
    names = {Path(name).stem for name in copy.store.steps[TRAIN]["files"]}
    assert names >= {"state", "step_00000020"}
    assert not any(" " in name or "sync" in name for name in names)


@pytest.mark.parametrize("content", ["", "[1]", '{"train', "3", '{"train": 3}'])
def test_a_damaged_provenance_is_one_sentence(copy, content):
    (copy.folder / "provenance.json").write_text(content)
    with pytest.raises(RunError, match=r"provenance.json is damaged: it .*Put a sound copy"):
        copy.write_report()
    (copy.folder / "provenance.json").write_text('{"a": {"versions": [1], "device": "cpu"}}')
    assert copy.made_with == {"a": "cpu"}


@pytest.mark.parametrize("key", ["study", "config", "versions", "added_seeds"])
def test_a_run_file_without_a_part_is_one_sentence(copy, key):
    content = json.loads((copy.folder / "run.json").read_text())
    (copy.folder / "run.json").write_text(json.dumps({**content, key: None}))
    with pytest.raises(RunError, match=f"run.json is damaged: its '{key}' is missing"):
        Run.open(copy.folder, study=ONE)


@pytest.mark.trains
def test_a_run_that_is_reproduced_holds_its_lock_for_its_steps_alone(copy, monkeypatch):
    """`reproduce` holds it while training and probing take it; nobody else gets in between."""
    probe = Run.probe

    def probed(run, progress):
        with pytest.raises(RunError, match="is being written by another process"):
            Run.open(copy.folder, study=ONE).train()
        probe(run, progress)

    monkeypatch.setattr(Run, "probe", probed)
    copy.store.begin(PROBE)
    assert ONE.run(preset="smoke", out=copy.folder, progress=False).store.is_current(REPORT)


@pytest.mark.trains
def test_a_table_older_than_its_checkpoints_is_refused(copy):
    copy.add_seeds(1)
    with pytest.raises(
        RunError,
        match="its train was made from another start; this makes it again: rb-interp train",
    ):
        copy.probe(progress=False)
    copy.train(progress=False)
    for ask in (
        lambda: copy.verdicts,
        lambda: copy.readings,
        copy.write_report,
        lambda: copy.report,
    ):
        with pytest.raises(
            RunError, match="its probe was made from another train; .*: rb-interp probe"
        ):
            ask()
    copy.probe(progress=False)
    assert set(copy.readings["seed"]) == set(range(9))
    with pytest.raises(RunError, match="its report was made from another probe"):
        _ = copy.report


@pytest.mark.parametrize(
    "name", ["readings.parquet", "arrays.safetensors", "verdicts.json", "curves.parquet"]
)
def test_a_damaged_file_is_refused_when_it_is_first_read(copy, name):
    path = copy.folder / name
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 1
    path.write_bytes(held)
    with pytest.raises(
        RunError, match=rf"{name} is damaged, or something else has changed it: its SHA-256 is not"
    ):
        Run.open(copy.folder, study=ONE).write_report()


@pytest.mark.trains
def test_a_damaged_checkpoint_is_refused_and_a_lost_one_is_made_again(copy):
    path = copy.folder / "checkpoints" / "step_00000020.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    for work in (copy.train, copy.probe):
        with pytest.raises(
            RunError, match="step_00000020.safetensors is damaged.*make it again: rb-interp train"
        ):
            work(progress=False)
    path.unlink()
    copy.train(progress=False)
    assert path.read_bytes() == whole
    assert copy.store.is_current(PROBE)  # the same bits, so the tables are of them


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "run.json",
            '{"format": "rb_interp run 4"}',
            "is not of the format 'rb_interp run 5', which this version reads",
        ),
        ("run.json", "[]", "is not of the format"),
        ("thesis.tex", "42", "holds something else than this run; nothing was changed"),
    ],
)
def test_another_format_or_folder_is_refused_and_nothing_is_written(
    tmp_path, name, content, message
):
    (tmp_path / name).write_text(content)
    with pytest.raises(RunError, match=message):
        start(tmp_path)
    assert contents(tmp_path) == {Path(name): content.encode()}


@pytest.mark.trains
def test_a_run_killed_while_it_began_begins_again(tmp_path):
    run = start(tmp_path / "run")
    run.store.begin(START)
    run.train(progress=False)
    assert run.store.is_current(TRAIN)


class Killed(BaseException):
    """Nothing handles it."""


@pytest.mark.trains
def test_a_probe_that_is_killed_is_made_again_with_the_same_bits(one, copy, monkeypatch):
    """It is killed as it moves its fourth file into place, the second table."""
    replace, moved = os.replace, []

    def killed(*names):
        moved.append(names)
        if len(moved) == 4:
            raise Killed
        replace(*names)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(Killed):
            copy.probe(progress=False)
    assert PROBE not in copy.store.steps
    ONE.run(preset="smoke", out=copy.folder, progress=False)
    for name in one.store.steps[PROBE]["files"]:
        assert (copy.folder / name).read_bytes() == (one.folder / name).read_bytes(), name


@pytest.mark.wide
@pytest.mark.parametrize("folder", RESULTS, ids=lambda folder: folder.name)
def test_verdicts_of_the_results_of_this_repository_are_those_of_their_readings(folder):
    run = Run.open(folder)
    assert run.store.is_current(PROBE) or run.is_copy
    check_run(run, since=("n_reached", "before", "after", "answered"))
    judged = {verdict.id for verdict in run.verdicts}  # a study may have more claims by now
    claims = [run.config.judged(claim) for claim in run.study.load("claims") if claim.id in judged]
    standings = run.calibration.standings if run.calibration else {}
    again = {found.id: found for found in judge(run.readings, claims, standings=standings)}
    for verdict in run.verdicts:
        found = again[verdict.id]
        assert (verdict.outcome, verdict.n_meeting, verdict.n_seeds) == (
            found.outcome,
            found.n_meeting,
            found.n_seeds,
        )


def test_a_row_twice_is_refused(tmp_path):
    table = pd.DataFrame({"gamma": [0.5, 0.5], "seed": [1, 1], "value": [1.0, 2.0]})
    with pytest.raises(
        StudyError,
        match=r"the table 'a' has two rows with gamma = 0\.5, seed = 1; measure each once",
    ):
        RunStore(tmp_path).write_table("a", table, ["gamma", "seed"])
    assert not list(tmp_path.iterdir())
