"""What a run says of its files: damaged, lost, outdated, somebody else's."""

import json
import os
import shutil
from pathlib import Path
from shutil import copytree

import numpy as np
import own_studies
import pandas as pd
import pytest
from own_studies import ONE, One
from safetensors.torch import save_file

from rb_interp.cli import main
from rb_interp.errors import RunError
from rb_interp.manifest import Manifest, code_version
from rb_interp.one_writer import OneWriter
from rb_interp.report.terminal import run_rows
from rb_interp.runs.record import measured_already
from rb_interp.runs.reproduction import finish
from rb_interp.runs.run import Run
from rb_interp.tasks import AnchorTask


@pytest.fixture
def copy(one, tmp_path):
    return Run.open(copytree(one.folder, tmp_path / "run"), study=ONE)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_file_of_a_run_is_in_its_manifest(one):
    apart = {".lock", "manifest.json"}
    there = {path.relative_to(one.folder).as_posix() for path in one.folder.rglob("*") if path.is_file()} - apart
    assert set(one.manifest.content.files) == there
    assert one.verify() == {}
    assert all(map(one.manifest.finished, ("train", "probe", "report")))


def test_a_run_without_run_json_gets_the_same_advice_from_every_command(copy):
    path = copy.folder / "run.json"
    path.unlink()
    before = contents(copy.folder)
    for command in (lambda: Run.open(copy.folder, study=ONE), lambda: ONE.run(config=copy.config, out=copy.folder)):
        with pytest.raises(RunError, match="run.json is missing; it was there. Put a sound copy of it back"):
            command()
    assert contents(copy.folder) == before


def test_lost_settings_and_times_are_written_again_by_what_the_advice_names(copy):
    finish(copy, progress=False)
    toml = copy.folder / "config.toml"
    content = toml.read_bytes()
    for path in (toml, copy.folder / "timing.json"):
        path.unlink()
    told = copy.verify()
    assert f"'rb-interp report {copy.folder}' writes it again from run.json" in told["config.toml"]
    assert f"rb-interp reproduce one --config {toml} --out {copy.folder}' writes it anew" in told["timing.json"]
    copy.write_report()
    assert toml.read_bytes() == content
    finish(copy, progress=False)
    assert copy.verify() == {}


def test_damaged_settings_are_neither_used_nor_overwritten(copy, capsys, tmp_path):
    toml, link = copy.folder / "config.toml", tmp_path / "mine.toml"
    toml.write_bytes(toml.read_bytes().replace(b"1", b"2"))
    link.symlink_to(toml)
    before = contents(copy.folder)
    for path in (toml, link):
        assert main(["train", "--config", str(path), "--out", str(copy.folder / "other")]) == 2
        told = capsys.readouterr().err
        assert "config.toml is damaged, or something else has changed it" in told
        assert "For other settings, change a copy of it in another folder." in told
        assert contents(copy.folder) == before
    copy.write_report()
    assert contents(copy.folder)[Path("config.toml")] == before[Path("config.toml")]


def test_what_is_missing_is_named_by_info_and_a_folder_in_its_place_stops_everything(copy):
    path = copy.folder / "checkpoints" / "step_00000000.safetensors"
    assert run_rows(copy)["files"].endswith(" present; 'rb-interp verify' compares their contents")
    path.unlink()
    assert run_rows(copy)["files"].endswith("; missing: checkpoints/step_00000000.safetensors")
    path.mkdir()
    before = contents(copy.folder)
    with pytest.raises(RunError, match="is a folder or a device, where a file should be"):
        copy.train(progress=False)
    assert contents(copy.folder) == before


@pytest.mark.wide
@pytest.mark.parametrize("name", ["step_00000000", "step_00000020", "state"])
def test_a_lost_checkpoint_stops_what_needs_it_and_is_made_again_by_training(copy, name):
    path = copy.folder / "checkpoints" / f"{name}.safetensors"
    whole, before = path.read_bytes(), contents(copy.folder)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    for work in (copy.train, copy.probe, lambda **_: copy.write_report(), lambda **_: copy.write_report("elsewhere")):
        with pytest.raises(
            RunError, match=rf"{name}.safetensors is damaged.*what is left of it and run 'rb-interp train"
        ):
            work(progress=False)
    assert contents(copy.folder) == before | {path.relative_to(copy.folder): path.read_bytes()}
    path.unlink()
    with pytest.raises(RunError, match="finish it first"):
        copy.probe(progress=False)
    copy.train(progress=False)
    assert path.read_bytes() == whole
    assert copy.verify() == {}
    assert copy.verdicts == Run.open(copy.folder, study=ONE).verdicts


def test_tables_are_never_read_beside_other_checkpoints(copy, one):
    copy.add_seeds(1)
    copy.train(progress=False)
    for ask in (lambda: copy.verdicts, lambda: copy.readings, lambda: copy.outcomes, copy.write_report):
        with pytest.raises(RunError, match="its probe was made from other files than those that are there now"):
            ask()
    with pytest.raises(RunError, match="its report was made from other files"):
        _ = copy.report
    assert set(copy.verify()) == {"probe", "report"}
    copy.probe(progress=False)
    assert len(copy.readings) > len(one.readings)
    with pytest.raises(RunError, match="its report was made from other files"):
        _ = copy.report


def test_what_is_finished_is_not_measured_again_unless_asked(copy, monkeypatch):
    def again(*_):
        raise AssertionError("measured again")

    with monkeypatch.context() as patch:
        patch.setattr(Run, "probe", again)
        ONE.run(preset="smoke", out=copy.folder, progress=False)
    (copy.folder / "readings.parquet").unlink()
    run = ONE.run(preset="smoke", out=copy.folder, progress=False)
    assert run.verify() == {}


def as_if_written(run, name, write):
    """Somebody who has a run folder can write a manifest that agrees with it."""
    path = run.folder / name
    step = run.manifest.content.files[name].step
    manifest = Manifest(run.folder)
    manifest.write(path, write, step)
    for name, record in manifest.content.steps.items():
        manifest.finish(name, *record.made_from, version=record.version)


def many_rows(path):
    pd.DataFrame({"sweep": np.zeros(3_000_000, dtype=int)}).to_parquet(path)


def as_seeds(path):
    path.write_text((path.parent / "run.json").read_text().replace('"added_seeds": []', '"added_seeds": [["b"]]'))


def text(content):
    return lambda path: path.write_text(content)


def changed(name, change):
    """A table of the run that the file is of, changed; the file itself is empty while it is written."""
    return lambda path: change(pd.read_parquet(path.parent / f"{name}.parquet")).to_parquet(path)


FORGED = {
    "rows": ("readings.parquet", many_rows, "3000000 rows of 1 columns in"),
    "columns": ("readings.parquet", lambda path: pd.DataFrame({"a": [1]}).to_parquet(path), "lacks|columns"),
    "no rows": ("curves.parquet", changed("curves", lambda table: table[:0]), "curves.parquet has no rows"),
    "infinity": (
        "curves.parquet",
        changed("curves", lambda table: table.assign(gamma=np.inf)),
        "has infinity in the column gamma",
    ),
    "no table": ("readings.parquet", text("PAR1"), "cannot be read"),
    "header": ("arrays.safetensors", text("\x7f" * 8 + "{}"), "is not what its study measures"),
    "verdicts": ("verdicts.json", text('{"a": [[]]}'), "is not what its study measures"),
    "checkpoint": (
        "checkpoints/state.safetensors",
        text("\x10" + "\0" * 7 + '{"a":{"b":"c"}} '),
        "is not what training",
    ),
    "tensors": ("checkpoints/state.safetensors", lambda path: save_file({}, path), "no checkpoint of rb_interp"),
    "run": ("run.json", text('{"format": "rb_interp run 4"}'), "does not say what a run is"),
    "seeds": ("run.json", as_seeds, "does not say what a run is"),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_file_is_one_sentence(copy, forged):
    name, write, message = FORGED[forged]
    as_if_written(copy, name, write)
    if name == "readings.parquet" or name.endswith("json") or name.startswith("arrays"):
        content = json.loads((copy.folder / "manifest.json").read_text())
        assert name in content["files"]
    with pytest.raises(RunError, match=message):
        _ = Run.open(copy.folder, study=ONE).verdicts


def test_no_link_in_a_run_folder_is_followed_out_of_it(copy, tmp_path):
    away = tmp_path / "away"
    os.rename(copy.folder / "figures", away)
    (away / ".notes.tmp").write_text("somebody's own")
    (copy.folder / "figures").symlink_to(away)
    before = contents(away)
    with pytest.raises(RunError, match="leads out of"):
        copy.write_report()
    assert contents(away) == before


def test_strings_of_a_run_are_text_in_pages(one):
    run = Run.open(one.folder, study=ONE)
    run.metadata = {**run.metadata, "command": "<script>alert(1)</script>"}
    assert "<script>" not in run._repr_html_()


def test_what_is_measured_is_read_again_once_it_changes(copy):
    held = copy.evidence
    assert copy.evidence is held
    Run.open(copy.folder, study=ONE).probe(progress=False)
    assert copy.evidence is not held
    copy.add_seeds(1)
    with pytest.raises(RunError, match="stands at step 0 of 20; finish it first"):
        _ = copy.verdicts


def test_what_the_code_of_a_study_measured_is_measured_again_by_other_code(copy, monkeypatch):
    here = Path(own_studies.__file__).resolve().parent
    assert copy.manifest.content.steps["probe"].version == code_version(here) != code_version()
    assert measured_already(copy)
    monkeypatch.setattr("rb_interp.runs.record.code_version", lambda *folders: "0.0+other")
    assert not measured_already(copy)


def test_a_run_without_its_last_files_of_training_is_not_probed(copy):
    (copy.folder / "curves.parquet").unlink()
    with pytest.raises(RunError, match="lacks the last files of its training; finish it first: rb-interp train one"):
        copy.probe(progress=False)


def test_a_step_that_is_not_there_yet_is_that_of_the_writer_or_of_a_command(tmp_path):
    run = Run.start(tmp_path / "run", ONE, One(seeds=(0,)))
    with pytest.raises(RunError, match=r"run has no finished report yet; 'rb-interp report .*run' makes it\.$"):
        _ = run.report
    made = rf"run has no finished report yet; wait until process {os.getpid()} on .* has made it\.$"
    with run.writing():
        with pytest.raises(RunError, match=made):
            _ = Run.open(run.folder, study=ONE).report
        with pytest.raises(RunError, match="makes it"):  # who writes it need not wait for itself
            _ = run.report


def test_page_outcomes_and_tables_wait_while_they_are_replaced(copy, monkeypatch):
    waited, wait = [], Manifest.wait
    monkeypatch.setattr(Manifest, "wait", lambda manifest, step: waited.append(step) or wait(manifest, step))
    assert copy.report.exists()
    assert copy.outcomes == ["HOLDS"]
    assert len(copy.readings)
    assert waited == ["report", "probe", "probe"]


def test_a_run_whose_settings_mean_something_else_now_is_not_opened(copy):
    was = copy.metadata["fingerprint"]
    as_if_written(copy, "run.json", lambda to: to.write_text(json.dumps({**copy.metadata, "fingerprint": "other"})))
    message = f"says fingerprint other, its configuration gives {was}; .* Open it with the code that made it, or move"
    with pytest.raises(RunError, match=message):
        Run.open(copy.folder, study=ONE)


def test_a_run_that_somebody_else_begins_meanwhile_is_opened(tmp_path, monkeypatch):
    from rb_interp.runs import run as module

    prepare = module._prepare

    def slow(*given):
        monkeypatch.setattr(module, "_prepare", prepare)
        Run.start(tmp_path / "run", ONE, One(seeds=(0,)), "first")

    monkeypatch.setattr(module, "_prepare", slow)
    assert Run.start(tmp_path / "run", ONE, One(seeds=(0,)), "second").metadata["command"] == "first"


def test_added_seeds_follow_the_largest_and_their_rows_are_prepared(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(AnchorTask, "prepare", lambda task, seeds: asked.append(seeds), raising=False)
    run = Run.start(tmp_path / "run", ONE, One(seeds=(5, 3)))
    run.add_seeds(2)
    assert (run.config.seeds, asked) == ((5, 3, 6, 7), [(5, 3), (6, 7)])


def test_a_run_that_somebody_else_has_changed_is_opened_again_before_it_is_read(copy):
    held = Run.open(copy.folder, study=ONE)
    assert held.readings.equals(held.evidence.readings)
    copy.add_seeds(1)
    copy.train(progress=False)
    copy.probe(progress=False)
    for ask in (lambda: held.evidence, lambda: held.readings, lambda: held.outcomes, lambda: held.report):
        with pytest.raises(RunError, match="has been changed since it was opened; open it again"):
            ask()
    assert len(Run.open(copy.folder, study=ONE).readings) == len(copy.readings)


def test_a_report_into_the_run_folder_itself_is_the_run_s_own(copy):
    assert copy.write_report(copy.folder / "figures" / "..") == copy.folder / "report.html"
    assert copy.verify() == {}


@pytest.mark.parametrize("inside", ["", "figures", "new/deeper"])
def test_a_report_never_takes_the_place_of_another_run_s(one, copy, inside):
    before = contents(copy.folder)
    with pytest.raises(RunError, match="is in a folder that holds a run; nothing was changed. Use another --out."):
        one.write_report(copy.folder / inside)
    assert contents(copy.folder) == before


@pytest.mark.parametrize("way", ["moved", "removed", "lock removed"])
def test_a_run_whose_folder_goes_away_is_not_written_elsewhere(copy, tmp_path, way):
    table = copy.curves
    with copy.writing():
        if way == "moved":
            os.rename(copy.folder, tmp_path / "away")
        elif way == "removed":
            shutil.rmtree(copy.folder)
        else:
            (copy.folder / ".lock").unlink()
            other = OneWriter(copy.folder).__enter__()  # as another process would
        before = contents(copy.folder)
        with pytest.raises(RunError, match="was moved or removed, or its .lock was"):
            copy.write_table("curves", table)
    assert contents(copy.folder) == before
    assert copy.folder.exists() == (way == "lock removed") == bool(before)
    if way == "lock removed":
        other.__exit__()


def test_a_file_in_place_of_a_folder_is_named(copy):
    shutil.rmtree(copy.folder / "checkpoints")
    (copy.folder / "checkpoints").write_text("no folder")
    assert all("checkpoints is a file, where a folder should be; move it" in told for told in copy.verify().values())
    with pytest.raises(RunError, match="checkpoints is a file, where a folder should be; move it away"):
        copy.train(progress=False)


def test_a_column_of_nothing_is_one_of_nan(copy):
    as_if_written(copy, "summary.parquet", changed("summary", lambda table: table.assign(low=None)))
    low = Run.open(copy.folder, study=ONE).table("summary")["low"]
    assert (low.dtype, low.isna().all()) == (float, True)


def test_a_table_that_would_not_be_read_is_not_written(copy):
    before, curves = contents(copy.folder), copy.curves
    for name, table, fault in (
        ("curve", curves, "has no table 'curve'; did you mean 'curves'"),
        ("curves", curves.drop(columns="loss"), "the table 'curves' lacks the column loss; nothing was written"),
        ("curves", pd.concat([curves, curves]), "has two rows with sweep = "),
    ):
        with pytest.raises(RunError, match=fault):
            copy.write_table(name, table)
    assert contents(copy.folder) == before
