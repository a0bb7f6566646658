"""Runs whose seeds have settings of their own, read as one."""

import pandas as pd
import pytest
from own_studies import ONE

from rb_interp.cli import main
from rb_interp.runs import Run
from rb_interp.runs.jobs import JobFolder

TEXT = """
study = "one"
verb = "train"
[[points]]
seeds = [0, 1, 2, 3]
task.masked = [[11, 12], [12, 11]]
[[points]]
seeds = [4, 5, 6, 7]
task.masked = [[12, 13], [13, 12]]
"""


@pytest.mark.usefixtures("installed")
def test_seeds_with_held_out_pairs_of_their_own_are_one_run(tmp_path, capsys):
    file = tmp_path / "pairs.toml"
    file.write_text(TEXT)
    folder = JobFolder.start(file, tmp_path / "out")
    first, second = folder.jobs
    folder.carry_out(first.name)
    capsys.readouterr()
    assert folder.gather() == [folder.points[1].name]
    assert f"measuring {folder.folder}/{next(iter(first.parts))}" in capsys.readouterr().err
    assert not (tmp_path / "out/gathered/run.json").exists()
    folder.carry_out(second.name)
    assert folder.gather() == folder.gather() == []

    run = Run.open(tmp_path / "out/gathered", study=ONE)
    parts = [Run.open(tmp_path / "out" / part) for job in folder.jobs for part in job.parts]
    assert run.config.seeds == tuple(range(8))
    readings = pd.concat([part.readings for part in parts], ignore_index=True)
    pd.testing.assert_frame_equal(run.readings[list(readings)], readings)
    pairs = run.readings.groupby("task.masked")["seed"].unique().map(list).to_dict()
    assert pairs == {"[[11, 12], [12, 11]]": [0, 1, 2, 3], "[[12, 13], [13, 12]]": [4, 5, 6, 7]}
    arrays = [part.evidence.arrays for part in parts]
    assert run.evidence.arrays.keys() == arrays[0].keys() | arrays[1].keys()
    assert [part.verdicts["S1"].outcome for part in parts] == ["OPEN", "OPEN"]
    assert (run.verdicts["S1"].outcome, run.verdicts["S1"].met_by) == ("HOLDS", "8/8")

    assert main(["info", str(run.folder)]) == 0
    note = "see the columns run, seeds, task.masked of its tables"
    assert note in " ".join(capsys.readouterr().out.split())
    assert note in run.write_report(tmp_path / "report").read_text()
