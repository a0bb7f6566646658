"""Jobs of a file with axes: what they are, how they end, and what is joined of them."""

import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from own_studies import ONE, last_weights, wait_until

from rb_interp.cli import main
from rb_interp.errors import RbInterpError, RunError
from rb_interp.runs import Run
from rb_interp.runs.jobs import JobFolder
from rb_interp.runs.points import read_jobs

TEXT = """
study = "one"
members = 4
[axes]
train.lr = [0.01, 0.02]
seeds = [0, 1, 2]
"""


pytestmark = pytest.mark.usefixtures("installed")


def write(folder: Path, text: str = TEXT) -> Path:
    path = folder / "rates.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        # rates share a stack, up to four members; two gammas a seed
        (TEXT, [["parts/0-0"], ["parts/0-2", "parts/1-2"], ["parts/1-0"]]),
        ("members = 12" + TEXT.replace("members = 4", ""), [["runs/0", "runs/1"]]),
        (
            TEXT.replace("train.lr", "train.eps").replace("members = 4", ""),
            [["runs/0"], ["runs/1"]],
        ),
        (
            'study = "one"\nseeds = [0]\nrates = [[0.5, 0.1]]\n[axes]\ntrain.weight_decay = [0.0, 0.1]\n',
            [["runs/0"], ["runs/1"]],
        ),
        (
            'study = "one"\nseeds = [3]\n[[points]]\ntrain.lr = 0.1\n[[points]]\nmodel.norm = "pre"\n',
            [["runs/0"], ["runs/1"]],
        ),
    ],
)
def test_runs_of_one_stack_are_one_job(text, jobs, tmp_path):
    def short(folder: str) -> str:
        kind, name = folder.split("/")
        batch = name.partition("-")[2] if kind == "parts" else ""
        return f"{kind}/{int(name[:3])}" + (f"-{name.rpartition('-')[2]}" if batch else "")

    _, points, made = read_jobs(write(tmp_path, text))
    assert [[short(folder) for folder in job.parts] for job in made] == jobs
    for point in points:  # every member once, each with one worker
        seeds = [seed for part in point.parts.values() for seed in part.seeds]
        assert tuple(seeds) == point.config.seeds
        assert point.config.train.workers == 1


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("train.lrr = [1]", "unknown key 'train.lrr'; did you mean 'lr'?"),
        ("train.lr = 3", "axis train.lr=3; give a list of values."),
        ('model.norm = ["non"]', "norm='non' is not known; did you mean 'none'?"),
        ("train.lr = [0.1, 0.1]", "the point {'train.lr': 0.1} is there twice; name each once."),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_a_sentence(axis, message, tmp_path, capsys):
    file = write(tmp_path, f'study = "one"\n[axes]\n{axis}\n')
    assert main(["sweep", str(file), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


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


@pytest.mark.wide
@pytest.mark.trains
def test_jobs_are_killed_resumed_and_gathered(tmp_path, capfd):
    """A job that is killed and stopped gives the bits of one that is not; gathered runs are those
    that train all seeds at once, up to rounding."""
    settings = 'train.steps = 400\ntrain.save_every = 0\ntrain.dtype = "float64"\n[axes]'
    steps = TEXT.replace("[axes]", settings)
    file, out = write(tmp_path, steps), tmp_path / "out"
    assert main(["sweep", str(file), "--out", str(out), "--print-commands"]) == 0
    commands = capfd.readouterr().out.splitlines()
    folder = JobFolder(out)
    first = folder.jobs[0]
    assert len(commands) == 3
    process = subprocess.Popen(["sh", "-c", f"exec {commands[0]}"])
    (part,) = first.parts
    state = out / part / "checkpoints/state.safetensors"
    wait_until(state.exists, process)
    assert folder.state(first) == "running"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(["sweep", "status", str(out)]) == 0
    assert "1 failed, 2 not started" in capfd.readouterr().out
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
        whole = Run.start(tmp_path / point.name, ONE, point.config).reproduce(progress=False)
        assert run.config.seeds == (0, 1, 2)
        assert [verdict.outcome for verdict in run.verdicts] == ["OPEN"]
        of_run = readings[readings["run"] == point.name].reset_index(drop=True)
        columns = list(whole.readings)
        pd.testing.assert_frame_equal(of_run[columns], whole.readings, rtol=1e-6)
