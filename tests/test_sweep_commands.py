"""The command of a file with axes: what does not fit, and nodes that cannot carry out a job, are
said in a sentence."""

import platform
import subprocess
import sys

import pytest
from axes_file import write

from rb_interp.cli import main

start = subprocess.Popen
pytestmark = pytest.mark.usefixtures("installed")


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("train.lrr = [1]", "unknown key 'train.lrr'; did you mean 'lr'?"),
        ("lr = [1]", "unknown key 'lr'; did you mean 'train.lr'?"),
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


def test_a_node_without_the_package_is_named(tmp_path, capsys, monkeypatch):
    """So is one without the folder, which can write no log."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(python))
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    out = tmp_path / "out"
    words = ["sweep", str(write(tmp_path)), "--out", str(out)]
    assert main(words) == 2
    sentence = f"the node {platform.node()} has no package rb-interp for {python}: install it there"
    assert capsys.readouterr().err.count(sentence) == 3
    assert main(["sweep", "status", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("has no package rb-interp for") == 3

    for log in (out / "logs").iterdir():
        log.unlink()
    monkeypatch.setattr("rb_interp.runs.engines.subprocess.Popen", lambda *_, **__: start("false"))
    assert main(words) == 2
    assert "it wrote no log; does its node have the folder?" in capsys.readouterr().err
