"""A kept result is a run without checkpoints: its report is that of the run, and nothing can be trained in it."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from own_studies import ONE, TWO, One

from rb_interp.claims import judge
from rb_interp.errors import RbInterpError, RunError
from rb_interp.one_writer import OneWriter
from rb_interp.probes import attention_by_role
from rb_interp.report.terminal import run_rows
from rb_interp.runs import keep as keeping
from rb_interp.runs.intervene import ablate_members, patch_member
from rb_interp.runs.keep import making
from rb_interp.runs.run import Run
from rb_interp.signals import Stopped, stopped_by_signals

ROOT = Path(__file__).parents[2]


def pages(folder):
    """The report's content, less how the run is made again, and its pictures."""
    content = json.loads((folder / "report.json").read_text())
    pictures = {path.name: path.read_bytes() for path in sorted((folder / "figures").glob("*.svg"))}
    return {name: value for name, value in content.items() if name != "repeat"}, pictures


@pytest.fixture
def kept(one, tmp_path):
    return Run.open(one.keep(tmp_path / "results" / "one"), study=ONE)


def test_the_report_of_a_kept_result_is_that_of_its_run(one, kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pages(kept.write_report().parent) == pages(one.folder)
    assert kept.verdicts.to_json() == one.verdicts.to_json()
    assert not [path for path in kept.folder.rglob("*") if "checkpoints" in path.parts or path.name.startswith(".")]
    assert (kept.verify(), kept.kept, one.kept) == ({}, True, False)
    assert kept.metadata["command"] == making("one", kept.folder)
    assert "tables alone are kept" in run_rows(kept)["members"]
    assert [path.name for path in tmp_path.iterdir()] == ["results", "runs"]


def test_several_sweeps_and_added_seeds_are_kept_together(two, tmp_path):
    kept = Run.open(two.keep(tmp_path / "two"), study=TWO)
    assert kept.verdicts.to_json() == two.verdicts.to_json()
    assert (kept.config, kept.batches) == (two.config, [two.config.seeds])


def test_a_kept_result_has_its_curves_and_says_where_its_report_goes(one, kept, tmp_path):
    assert kept.curves.equals(one.curves)
    with pytest.raises(
        RunError, match=r"no finished report yet; 'rb-interp report .*one' makes it, in runs/one-report\.$"
    ):
        _ = kept.report


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: run.train(progress=False),
        lambda run: run.probe(progress=False),
        lambda run: run.add_seeds(1),
        lambda run: ONE.run(config=run.config, out=run.folder, progress=False),
        lambda run: run.model(gamma=0.8, seed=0),
        lambda run: run.probe_members(attention_by_role),
        lambda run: patch_member(run, gamma=0.8, seed=0),
        lambda run: ablate_members(run, sites=["z.0"]),
    ],
)
def test_nothing_is_trained_or_measured_in_a_kept_result(kept, ask):
    before = {path: path.read_bytes() for path in kept.folder.iterdir()}
    with pytest.raises(RunError, match=r"rb-interp reproduce one --config .*config.toml --out runs/one"):
        ask(kept)
    assert {path: path.read_bytes() for path in kept.folder.iterdir()} == before


def test_a_kept_result_is_written_whole_or_not_at_all(one, kept, tmp_path):
    with pytest.raises(RunError, match="holds a run already; nothing was changed"):
        one.keep(kept.folder)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "a").write_text("mine")
    with pytest.raises(RunError, match="exists and is not a run of rb_interp; nothing was changed"):
        one.keep(tmp_path / "taken")
    unfinished = Run.start(tmp_path / "unfinished", ONE, One(seeds=(0,)))
    with pytest.raises(RunError, match="has no finished train yet"):
        unfinished.keep(tmp_path / "kept")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results", "taken", "unfinished"]


@pytest.mark.parametrize("place", ["_begin", "_write", "_check_empty", "rename"])
def test_a_signal_leaves_nothing_beside_unless_all_is_kept(one, tmp_path, monkeypatch, place):
    holder = {"_begin": OneWriter, "rename": keeping.os}.get(place, keeping)
    before, carried_out = signal.signal(signal.SIGTERM, signal.SIG_DFL), getattr(holder, place)

    def signalled(*given, **named):
        signal.raise_signal(signal.SIGTERM)
        return carried_out(*given, **named)

    monkeypatch.setattr(holder, place, signalled)
    try:
        with stopped_by_signals(), pytest.raises(Stopped):
            one.keep(tmp_path / "kept")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"] * (place == "rename")
    assert place != "rename" or Run.open(tmp_path / "kept", study=ONE).verify() == {}


def test_two_that_keep_the_same_result_do_not_harm_one_another(one, tmp_path, monkeypatch):
    told, write = [], keeping._write

    def another_first(*given):
        monkeypatch.setattr(keeping, "_write", write)
        with pytest.raises(RunError, match=f"is being written by process {os.getpid()} on") as refused:
            one.keep(tmp_path / "kept")
        told.append(refused)
        write(*given)

    monkeypatch.setattr(keeping, "_write", another_first)
    assert Run.open(one.keep(tmp_path / "kept"), study=ONE).verify() == {}
    assert len(told) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_what_a_killed_process_kept_is_removed_and_what_is_not_ours_stays(one, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(keeping.os, "rename", lambda *_: sys.exit())
        patch.setattr(keeping.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            one.keep(tmp_path / "kept")
    assert (tmp_path / ".kept.keep" / "run.json").exists()
    one.keep(tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    whole = Path(shutil.copytree(one.folder, tmp_path / ".run.keep"))
    (tmp_path / ".link.keep").symlink_to(tmp_path / "kept")
    (tmp_path / ".mine.keep").mkdir()
    (tmp_path / ".mine.keep" / "a").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for name in ("run", "link", "mine"):
        with pytest.raises(RunError, match="nothing was changed"):
            one.keep(tmp_path / name)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert whole / "run.json" in before


def test_a_folder_that_another_keep_is_removing_is_looked_at_again(one, tmp_path, monkeypatch):
    """Its lock may be gone first, or a file between two looks."""
    going, looks = tmp_path / ".kept.keep", []
    going.mkdir()
    (going / "run.json").write_text("{}")
    looked = keeping._is_left

    def removed_meanwhile(folder):
        looks.append(looked(folder))
        shutil.rmtree(folder)
        return looked(folder)

    monkeypatch.setattr(keeping, "_is_left", removed_meanwhile)
    assert Run.open(one.keep(tmp_path / "kept"), study=ONE).verify() == {}
    assert looks == [False]


def test_what_somebody_put_beside_a_killed_keep_and_a_whole_result_of_that_name_stay(one, tmp_path):
    one.keep(tmp_path / ".whole.keep")
    (tmp_path / ".mixed.keep").mkdir()
    for name in ("run.json", ".lock", "notes.txt"):
        (tmp_path / ".mixed.keep" / name).touch()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for name in ("whole", "mixed"):
        with pytest.raises(RunError, match="holds something else; nothing was changed"):
            one.keep(tmp_path / name)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(("name", "error"), [("", "has no name"), (".", "has no name"), ("n" * 252, "can be no path")])
def test_a_result_without_a_name_or_with_one_that_is_too_long_is_refused(one, tmp_path, monkeypatch, name, error):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RbInterpError, match=error):
        one.keep(name)
    assert not list(tmp_path.iterdir())


def test_a_command_can_be_pasted_whatever_the_folder_is_called(tmp_path):
    assert making("one", tmp_path / "a $(b)").endswith(f"--config '{tmp_path}/a $(b)/config.toml' --out 'runs/a $(b)'")


def test_one_that_comes_second_leaves_nothing_beside_what_the_first_kept(one, tmp_path, monkeypatch):
    check, asked = keeping._check_empty, []

    def kept_by_another_after_the_first_look(folder):
        check(folder)
        if not asked:
            asked.append(folder)
            one.keep(folder)

    monkeypatch.setattr(keeping, "_check_empty", kept_by_another_after_the_first_look)
    with pytest.raises(RunError, match="holds a run already; nothing was changed"):
        one.keep(tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert Run.open(tmp_path / "kept", study=ONE).verify() == {}


def test_files_that_are_replaced_meanwhile_are_kept_of_one_making(one, tmp_path, monkeypatch):
    run = Run.open(shutil.copytree(one.folder, tmp_path / "run"), study=ONE)
    other, read = Run.open(run.folder, study=ONE), run.manifest.read

    def probed_after_the_first(path, step=""):
        found = read(path, step)
        if path.name == "arrays.safetensors":
            monkeypatch.setattr(run.manifest, "read", read)
            with other.manifest.making("probe", "train"):
                for name in other.manifest.names(other.folder):
                    if other.manifest.content.files[name].step == "probe":
                        other.manifest.write_bytes(other.folder / name, b"newer", "probe")
        return found

    monkeypatch.setattr(run.manifest, "read", probed_after_the_first)
    run.keep(tmp_path / "kept")
    assert (tmp_path / "kept" / "arrays.safetensors").read_bytes() == b"newer"


def test_a_changed_byte_of_a_kept_result_is_named(kept):
    path = kept.folder / "readings.parquet"
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 1
    path.write_bytes(held)
    with pytest.raises(RunError, match=r"readings.parquet is damaged, .*Put a sound copy of it back, or make the run"):
        _ = kept.verdicts


def test_a_run_with_a_damaged_checkpoint_is_not_kept(one, tmp_path):
    run = Run.open(shutil.copytree(one.folder, tmp_path / "run"), study=ONE)
    path = next(run.folder.rglob("checkpoints/*.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(RunError, match=f"{path.name} is damaged"):
        run.keep(tmp_path / "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def results():
    return sorted(path.parent for path in (ROOT / "results").glob("*/run.json"))


@pytest.mark.parametrize("folder", results(), ids=lambda folder: folder.name)
def test_verdicts_of_the_results_of_this_repository_are_those_of_their_readings(folder):
    run = Run.open(folder)
    assert (run.verify(), run.kept) == ({}, True)
    judged = {verdict.id for verdict in run.verdicts}  # a study may have more claims by now
    again = {found.id: found for found in judge(run.readings, run.study.load("claims")) if found.id in judged}
    assert {v.id: (v.outcome, v.n_meeting, v.n_seeds) for v in run.verdicts} == {
        v.id: (v.outcome, v.n_meeting, v.n_seeds) for v in again.values()
    }


def test_results_stay_small():
    assert sum(path.stat().st_size for path in (ROOT / "results").rglob("*") if path.is_file()) < 5_000_000
