"""Jobs of a file with axes: what they are, how they end, and what is joined of them."""

import signal
import subprocess
import sys

import pandas as pd
import pytest
from axes_file import TEXT, write
from own_studies import ONE, last_weights, wait_until

from rb_interp.cli import main
from rb_interp.errors import RbInterpError, RunError
from rb_interp.runs import Run
from rb_interp.runs.engines import run_local
from rb_interp.runs.jobs import JobFolder

pytestmark = pytest.mark.usefixtures("installed")


def test_a_folder_of_another_file_is_refused(tmp_path):
    JobFolder.start(write(tmp_path), tmp_path / "out")
    JobFolder.start(write(tmp_path, f"# the same\n{TEXT}"), tmp_path / "out")
    with pytest.raises(RunError, match="another file"):
        JobFolder.start(write(tmp_path, TEXT.replace("0.02", "0.03")), tmp_path / "out")
    with pytest.raises(RunError, match="something else"):
        JobFolder.start(tmp_path / "rates.toml", tmp_path)
    with pytest.raises(RbInterpError, match="no job 'x'"):
        JobFolder(tmp_path / "out").job("x")


@pytest.mark.parametrize("engine", ["slurm", "ray"])
def test_an_engine_that_is_not_installed_is_named(engine, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("rb_interp.runs.engines.find_spec", lambda _: None)
    words = ["sweep", str(write(tmp_path)), "--engine", engine, "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert f"the engine '{engine}' needs" in capsys.readouterr().err


def test_less_than_no_job_at_once_is_refused(tmp_path, capsys):
    assert (
        main(["sweep", str(write(tmp_path)), "--jobs", "-2", "--out", str(tmp_path / "out")]) == 2
    )
    assert "got --jobs -2; give a number of jobs" in capsys.readouterr().err


def test_the_bar_counts_jobs_that_fail(tmp_path, capfd):
    folder = JobFolder.start(write(tmp_path), tmp_path / "out")
    last = folder.jobs[-1].name
    (tmp_path / "out/job.sh").write_text(f'[ "$1" != "{last}" ] || kill -9 $$')
    run_local(folder, folder.jobs, 1)
    n = len(folder.jobs)
    last_bar = capfd.readouterr().err.strip().split("\r")[-1]
    assert f"{n}/{n}" in last_bar
    assert "1 failed" in last_bar


@pytest.mark.wide
@pytest.mark.trains
def test_jobs_are_killed_resumed_and_gathered(tmp_path, capfd):
    """A job that is killed and stopped gives the bits of one that is not; gathered runs are those
    that train all seeds at once, up to rounding."""
    settings = 'train.steps = 400\ntrain.save_every = 0\ntrain.dtype = "float64"\n[axes]'
    text = TEXT.replace("[axes]", settings).replace("[0, 1, 2]", "[0, 1]")
    file, out = write(tmp_path, text), tmp_path / "out"
    assert main(["sweep", str(file), "--out", str(out), "--print-commands"]) == 0
    commands = capfd.readouterr().out.splitlines()
    folder = JobFolder(out)
    first = folder.jobs[0]
    assert len(commands) == 2
    process = subprocess.Popen(["sh", "-c", f"exec {commands[0]}"])
    part = next(iter(first.parts))
    state = out / part / "checkpoints/state.safetensors"
    wait_until(state.exists, process)
    assert folder.state(first) == "running"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(["sweep", "status", str(out)]) == 0
    assert "1 failed, 1 not started" in capfd.readouterr().out
    command = [sys.executable, "-m", "rb_interp", "sweep", str(file), "--out", str(out)]
    process = subprocess.Popen([*command, "--jobs", "1"])
    before = state.read_bytes()
    wait_until(lambda: state.read_bytes() != before, process)
    process.send_signal(signal.SIGTERM)  # as Ctrl-C, which a background process ignores
    assert process.wait() == 130
    assert folder.state(first) == "failed"
    assert folder.last_line(first).startswith("rb-interp: stopped; the same command goes on")
    assert main(["sweep", str(file), "--out", str(out), "--jobs", "2"]) == 0
    assert set(folder.states().values()) == {"done"}
    assert main(["sweep", "gather", str(out)]) == 0
    readings = pd.read_parquet(out / "gathered/readings.parquet")
    assert set(readings["train.lr"]) == {0.01, 0.02}
    again = Run.start(tmp_path / "again", ONE, first.parts[part])
    again.train(progress=False)
    assert last_weights(Run.open(out / part)) == last_weights(again)
    for point in folder.points:
        run = Run.open(out / "runs" / point.name)
        assert run.config.seeds == (0, 1)
        assert [verdict.outcome for verdict in run.verdicts] == ["OPEN"]
    whole = Run.start(tmp_path / "whole", ONE, run.config).reproduce(progress=False)
    of_run = readings[readings["run"] == point.name].reset_index(drop=True)
    pd.testing.assert_frame_equal(of_run[list(whole.readings)], whole.readings, rtol=1e-6)
