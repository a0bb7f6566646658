"""Training that is killed and continued ends with the same bits."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members
from rb_interp.training.store import CheckpointStore

TASK, MODEL = AnchorTask.preset("smoke"), ModelConfig(d_model=12, d_head=6, d_mlp=20)

RUN = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from test_killed_runs import run, CheckpointStore

class Killed(CheckpointStore):
    def write(self, name, step, *rest):
        if (name, step) == ("state", 60):
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(name, step, *rest)

run(sys.argv[2], Killed)
"""


def run(folder, store=CheckpointStore):
    train = TrainConfig(
        steps=120, batch_size=16, eval_every=20, eval_rows=20, lr=1e-2, workers=2, save_every=0.0
    )
    train = replace(train, stages=("half",))
    train_members(
        TASK,
        [0.3, 0.8],
        [0, 1],
        config=MODEL,
        train=train,
        store=store(Path(folder), "same"),
        progress=False,
    )


@pytest.mark.wide
def test_a_killed_run_ends_with_the_same_bits(tmp_path):
    whole, stopped, here = (
        CheckpointStore(tmp_path / "whole", "same"),
        CheckpointStore(tmp_path / "stopped", "same"),
        Path(__file__).parent,
    )
    run(whole.folder)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(here), str(stopped.folder)], stderr=subprocess.DEVNULL
    )
    assert done.returncode == -signal.SIGKILL
    assert stopped.read("state").step == 40
    run(stopped.folder)

    assert [name for name in stopped.names() if not name.startswith(".")] == whole.names()
    for name in whole.names():
        first, second = whole.read(name), stopped.read(name)
        assert first.step == second.step
        for key, value in first.tensors.items():
            assert torch.equal(value, second.tensors[key]), (name, key)
