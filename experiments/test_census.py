"""The census's files, its rows and its forks, on members that train for seconds."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rb_interp import probes
from rb_interp.cli import main
from rb_interp.runs import Run
from rb_interp.runs.jobs import JobFolder
from rb_interp.runs.points import read_jobs

FOLDER = Path(__file__).parent / "census"
JOBS = {"map": (24, 1080), "factorial": (64, 256), "optimiser": (18, 288), "momentum": (2, 20)}
"""File -> its jobs, and its members with those whose L0 is fixed."""
SMALL = """
study = "anchor"
preset = "smoke"
verb = "train"
rates = []
l0_fixed = false
gammas = [0.5, 0.8]
seeds = [30]
[task]
length = 6
keys = [21, 24]
memory_anchors = [1, 2]
reasoning_anchors = [11, 13]
d_vocab = 80
n_sequences = 1800
[train]
steps = 60
batch_size = 16
eval_every = 5
eval_rows = 20
stages = ["half", "settled"]
n_checkpoints = 0
workers = 1
[axes]
train.lr = [0.0002, 0.02]
"""


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_a_file_has_the_members_that_its_page_says(path):
    _, points, jobs = read_jobs(path)
    sweeps = [(point.config, sweep) for point in points for sweep in point.config.sweeps.values()]
    members = sum(len(config.seeds) * len(sweep.gammas) for config, sweep in sweeps)
    assert (len(jobs), members) == JOBS[path.stem]
    assert "# Question: " in path.read_text()
    assert f"(census/{path.name})" in (FOLDER.parent / "README.md").read_text()


@pytest.mark.trains
@pytest.mark.lens
def test_a_row_is_what_curves_and_probes_say(tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(SMALL)
    jobs, table = tmp_path / "jobs", tmp_path / "small.parquet"
    folder = JobFolder.start(tmp_path / "small.toml", jobs)
    [job] = folder.jobs
    main(["sweep", "job", str(jobs), job.name])
    monkeypatch.setattr(sys, "argv", ["rows.py", str(jobs), str(table)])
    rows = runpy.run_path(str(FOLDER / "rows.py"), run_name="__main__")
    found = pd.read_parquet(table)
    assert len(found) == 4
    assert set(found["lr"]) == {0.0002, 0.02}
    row = found.query("lr == .02 and gamma == .8").iloc[0]
    assert row["command"].endswith(f"rb-interp sweep job runs/small {job.name}")
    sweep = Run.open(jobs / "runs" / row["run"]).sweeps[""]
    curves = sweep.curves().query("gamma == .8 and set == 'rsn_test'")
    assert row["accuracy_rsn_test"] == pytest.approx(curves["accuracy"].tail(10).mean())
    came = found["lr"] == 0.02  # to half
    assert found["half_step"].notna().equals(came)
    assert found["tv_half"].notna().equals(came)
    trained = sweep.curves().query("gamma == .8 and set in ('mem', 'rsn_train')")
    last = trained[trained["step"] > 60 - 10 * 5]
    assert row["loss_at_end"] == pytest.approx(last["loss"].mean())
    data = sweep.dataset(30)
    inputs = data.inputs(data.sample("rsn_train", 500))
    reading = probes.uniformity(sweep.model(gamma=0.8, seed=30, stage="half"), inputs, layer=0)
    assert row["tv_half"] == pytest.approx(reading.values["tv"])
    assert row["circuit"] == row["circuit_at_end"]
    assert rows["names"]({"accuracy_rsn_train": 1.0})[0] == "none"  # its weights were not finite
    before = table.read_bytes()
    runpy.run_path(str(FOLDER / "rows.py"), run_name="__main__")
    assert table.read_bytes() == before


@pytest.mark.trains
@pytest.mark.lens
def test_forks_are_disturbed_up_to_half_and_the_control_is_not(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    module = runpy.run_path(str(FOLDER / "forks.py"))
    [point, _] = read_jobs(tmp_path / "small.toml")[1]
    config, forks = point.config, module["forks"]
    found = forks(config, 0.8, 30)
    assert found["step"].iloc[0] == 0
    assert found["step"].is_monotonic_increasing
    assert found["loss"].iloc[-1] < 0.9 * found["loss"].iloc[0]
    assert len(found) == 8
    assert not found["accuracy"].isna().any()
    assert found["sibling_accuracy"].nunique() == 1
    copies = []
    forks.__globals__["disturb"] = lambda group, copy: copies.append(copy)
    again = forks(config, 0.8, 30)
    assert copies == [*range(8)]
    assert (again["circuit"] == again["sibling"]).all()
    np.testing.assert_allclose(again["loss"], found["loss"], rtol=1e-3)
    forks.__globals__["disturb"] = lambda group, copy: module["disturb"](group, 8)  # the control
    with pytest.raises(SystemExit, match="an undisturbed copy is not as the member"):
        forks(config, 0.8, 30)
