"""Runs whose seeds have settings of their own, read as one."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from own_studies import ONE

from rb_interp.cli import main
from rb_interp.runs import Run, joined
from rb_interp.runs.jobs import JobFolder
from rb_interp.runs.results import KEYS, READINGS, arrays_over_seeds
from rb_interp.runs.studies import study

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
    page = run.write_report(tmp_path / "report").read_text()
    assert note in page
    assert "The whole configuration" not in page


def test_means_of_one_runs_seeds_are_not_those_of_all(tmp_path, monkeypatch):
    """Not even where another run lacks a gamma; nor are numbers of all its members."""
    composite = study("composite")
    written = {}
    monkeypatch.setattr(
        joined,
        "write_tables",
        lambda run, result, runs: written.update(result.arrays, readings=result.readings),
    )

    def run_of(gammas, seeds, flow):
        of_all = {"gamma": np.nan, "seed": 0, "quantity": "other_flow"}
        rows = [
            of_all | {"probe": "flow_match", "value": flow},
            of_all | {"probe": "phase_by_complexity", "value": 0.5},
            *({"gamma": 0.8, "seed": seed, "probe": "p", "value": 0.1 * seed} for seed in seeds),
        ]
        arrays = {f"{g}/{s}/final/mem/p/a": np.ones(1) for g in gammas for s in seeds}
        return SimpleNamespace(
            study=composite,
            config=composite.preset("smoke", seeds=seeds),
            curves=pd.DataFrame(columns=KEYS["curves"].split()),
            readings=pd.DataFrame(rows, columns=READINGS.split()),
            evidence=SimpleNamespace(arrays=arrays | arrays_over_seeds(arrays)),
        )

    runs = [run_of((0.5, 0.8), (0, 1), 0.1), run_of((0.8,), (2, 3), 0.2)]
    keys = KEYS | dict(composite.load("tables"))
    tables = {name: pd.DataFrame(columns=columns.split()) for name, columns in keys.items()}
    curve = {"sweep": "", "gamma": 0.8, "seed": 0, "step": 0, "set": "mem"}
    tables["curves"] = pd.DataFrame([curve | {"loss": 1.0, "accuracy": 0.0}])
    tables["readings"] = pd.concat([run.readings for run in runs], ignore_index=True)
    joined.join_runs(tmp_path / "gathered", runs, tables)
    readings = written.pop("readings")
    assert readings["probe"].tolist() == ["phase_by_complexity", *["p"] * 4]
    members = [(0.5, 0), (0.5, 1), (0.8, 0), (0.8, 1), (0.8, 2), (0.8, 3)]
    assert written.keys() == {f"{gamma}/{seed}/final/mem/p/a" for gamma, seed in members}
