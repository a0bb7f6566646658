"""What a run says of its files: damaged, lost, outdated, somebody else's."""

import json
import os
from shutil import copytree

import numpy as np
import pandas as pd
import pytest
from own_studies import ONE
from safetensors.torch import save_file

from rb_interp.errors import RunError
from rb_interp.machine.run import Run
from rb_interp.manifest import Manifest
from rb_interp.report.terminal import run_rows


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


def test_what_is_missing_is_named_by_info_and_a_folder_in_its_place_stops_everything(copy):
    path = copy.folder / "checkpoints" / "step_00000000.safetensors"
    assert run_rows(copy)["files"].endswith("all there")
    path.unlink()
    assert run_rows(copy)["files"].endswith("; missing: checkpoints/step_00000000.safetensors")
    path.mkdir()
    before = contents(copy.folder)
    with pytest.raises(RunError, match="is a folder or a device, where a file should be"):
        copy.train(progress=False)
    assert contents(copy.folder) == before


@pytest.mark.parametrize("name", ["step_00000000", "step_00000020", "state"])
def test_a_lost_checkpoint_stops_what_needs_it_and_is_made_again_by_training(copy, name):
    path = copy.folder / "checkpoints" / f"{name}.safetensors"
    whole, before = path.read_bytes(), contents(copy.folder)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    for work in (copy.train, copy.probe) if name == "state" else (copy.probe,):
        with pytest.raises(RunError, match=rf"{name}.safetensors is damaged.*delete it and run 'rb-interp train one"):
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
    assert set(copy.verify()) == {"probe"}
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
    Manifest(run.folder).write(path, write, step)


def many_rows(path):
    pd.DataFrame({"sweep": np.zeros(3_000_000, dtype=int)}).to_parquet(path)


def as_seeds(path):
    path.write_text((path.parent / "run.json").read_text().replace('"added_seeds": []', '"added_seeds": [["b"]]'))


def text(content):
    return lambda path: path.write_text(content)


FORGED = {
    "rows": ("readings.parquet", many_rows, "3000000 rows of 1 columns in"),
    "columns": ("readings.parquet", lambda path: pd.DataFrame({"a": [1]}).to_parquet(path), "lacks|columns"),
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
