"""Slurm on two nodes of this machine, one of which dies: the bits are those of plain runs."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from getpass import getuser
from pathlib import Path

import pytest
from own_studies import ONE, last_weights, wait_until

from rb_interp.runs import Run
from rb_interp.runs.jobs import JobFolder

pytestmark = [pytest.mark.engines, pytest.mark.usefixtures("installed")]
TEXT = """
study = "one"
verb = "train"
seeds = [0]
train.steps = 600
train.save_every = 0
[axes]
model.norm = ["none", "pre", "post"]
"""
CONFIG = """
ClusterName=loop
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
StateSaveLocation={folder}/controller
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmdTimeout=10
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1
PartitionName=main Nodes=n1,n2 Default=YES State=UP
"""


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def kill(*pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes():
    """Process -> its parent and its command."""
    listed = subprocess.check_output(["ps", "-eo", "pid,ppid,args"], text=True).splitlines()[1:]
    rows = [line.split(None, 2) for line in listed]
    return {int(pid): (int(parent), command) for pid, parent, command in rows}


@pytest.fixture
def kill_node(monkeypatch):
    """A function that kills the first of two nodes of Slurm."""
    for name in ("munged", "slurmctld", "slurmd", "sbatch"):
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed: apt-get install slurmctld slurmd munge")
    folder = Path(tempfile.mkdtemp())  # a socket's path has 108 characters at most
    for name in ("controller", "n1", "n2"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    config = folder / "slurm.conf"
    names = {"user": getuser(), "host": socket.gethostname().partition(".")[0]}
    config.write_text(CONFIG.format(folder=folder, ports=free_ports(3), **names))
    monkeypatch.setenv("SLURM_CONF", str(config))
    monkeypatch.setenv("SBATCH_WAIT", "1")
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    munge = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files]
    commands = [
        munge,
        ["slurmctld", "-D"],
        ["slurmd", "-D", "-N", "n1"],
        ["slurmd", "-D", "-N", "n2"],
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    daemons = [subprocess.Popen(command, **quiet) for command in commands]
    while (
        subprocess.run(["sinfo", "--noheader", "--states=idle"], capture_output=True).stdout.count(
            b"n[1-2]"
        )
        < 1
    ):
        assert all(daemon.poll() is None for daemon in daemons[2:])

    def kill_first():
        running = processes()
        (script,) = (pid for pid, (_, line) in running.items() if f"{folder}/n1/job" in line)
        children = [pid for pid, (parent, _) in running.items() if parent == script]
        kill(daemons[2].pid, running[script][0], script, *children)

    yield kill_first
    kill(*(daemon.pid for daemon in daemons))
    shutil.rmtree(folder, ignore_errors=True)


def test_jobs_of_a_node_that_dies_go_on_elsewhere(kill_node, tmp_path):
    file, out = tmp_path / "norms.toml", tmp_path / "out"
    file.write_text(TEXT)
    folder = JobFolder.start(file, out)
    command = [sys.executable, "-m", "rb_interp", "sweep", str(file), "--out", str(out)]
    process = subprocess.Popen([*command, "--engine", "slurm"])
    configs = {name: config for job in folder.jobs for name, config in job.parts.items()}
    states = [out / name / "checkpoints/state.safetensors" for name in configs]
    wait_until(lambda: all(state.exists() for state in states[:2]), process)
    kill_node()
    assert process.wait() == 0
    assert list(folder.states().values()) == ["done"] * 3
    for name, config in configs.items():
        run = Run.start(tmp_path / name, ONE, config)
        run.train(progress=False)
        assert last_weights(Run.open(out / name)) == last_weights(run)
