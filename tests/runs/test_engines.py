"""Slurm and Ray on two nodes of this machine, one of which is killed: the bits are those of plain
runs.

A node that is to be killed has a namespace of processes, so that all of its processes die with it.
"""

import re
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from own_studies import ONE, last_weights, wait_until

from rb_interp.runs import Run
from rb_interp.runs.jobs import JobFolder

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c")
TEXT = """
study = "one"
verb = "train"
seeds = [0]
gammas = [0.8]
train.steps = 120
train.save_every = 0
[axes]
model.norm = ["none", "pre"]
train.eps = [1e-8, 1e-7, 1e-6, 1e-5]
"""
SLURM = """
ClusterName=loop
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthInfo=socket={spool}/munge.socket,cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdTimeout=10
MessageTimeout=10
MinJobAge=86400
StateSaveLocation={spool}/controller
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={spool}/controller.pid
SlurmdPidFile={spool}/%n.pid
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=main Nodes=n1,n2 Default=YES State=UP
"""
pytestmark = [pytest.mark.engines, pytest.mark.usefixtures("installed")]


@pytest.fixture
def spool():
    """A folder with a short name: a socket's path has 108 characters at most."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start(spool):
    """A function that starts a daemon, which is killed when the test ends."""
    daemons = []

    def start(*words, namespace=False):
        # its first process is a shell, since that waits for processes whose parents are gone
        command = [*NAMESPACE, f"{shlex.join(words)}; true"] if namespace else words
        with (spool / "daemons.log").open("a") as log:
            daemons.append(subprocess.Popen(command, stdout=log, stderr=log))
        return daemons[-1]

    if subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode:
        pytest.skip("unshare makes no namespace of processes here: root's does")
    yield start
    for daemon in daemons:
        daemon.kill()
        daemon.wait()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "norms.toml"
    path.write_text(TEXT)
    return path


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def output(*words):
    return subprocess.run(words, capture_output=True, text=True).stdout


def in_training(folder, node):
    """Names of the jobs on a node that have saved."""
    first = output("pgrep", "-P", str(node.pid)).strip()
    on_node = ["pgrep", "-a", "--ns", first, "--nslist", "pid"]
    commands = output(*on_node, "-f", "rb_interp sweep job").splitlines()
    names = [command.split()[-1] for command in commands]
    states = {
        name: folder.folder / "runs" / name / "checkpoints/state.safetensors" for name in names
    }
    return {name for name, state in states.items() if state.exists()}


def kill_in_training(folder, node, process):
    """Kill a node when one of its jobs has saved."""
    wait_until(lambda: in_training(folder, node), process)
    lost = in_training(folder, node)
    node.kill()
    node.wait()
    states = folder.states()
    assert any(states[name] != "done" for name in lost)


@cache
def plain_weights(config):
    with tempfile.TemporaryDirectory() as folder:
        run = Run.start(Path(folder) / "run", ONE, config)
        run.train(progress=False)
        return last_weights(run)


def check_bits(folder):
    """All jobs are done, with the bits of plain runs."""
    assert set(folder.states().values()) == {"done"}
    for job in folder.jobs:
        for name, config in job.parts.items():
            assert last_weights(Run.open(folder.folder / name)) == plain_weights(config)


def test_slurm(file, start, spool, tmp_path, monkeypatch):
    """The jobs of a node die with it, and one comes to its time limit."""
    for name in ("munged", "slurmctld", "slurmd", "sbatch"):
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed: apt-get install slurmctld slurmd slurm-client")
    for name in ("controller", "n1", "n2"):
        (spool / name).mkdir()
    (spool / "munge.key").write_bytes(secrets.token_bytes(128))
    (spool / "munge.key").chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    (spool / "slurm.conf").write_text(SLURM.format(spool=spool, host=host, ports=free_ports(3)))
    monkeypatch.setenv("SLURM_CONF", str(spool / "slurm.conf"))
    files = [f"--{name}-file={spool}/munge.{name}" for name in ("key", "pid", "log", "seed")]
    start("munged", "--foreground", "--force", f"--socket={spool}/munge.socket", *files)
    controller = start("slurmctld", "-D")
    nodes = [start("slurmd", "-D", "-N", name, namespace=True) for name in ("n1", "n2")]
    wait_until(lambda: output("sinfo", "-h", "-o", "%t %D") == "idle 2\n", controller)

    words = ["sweep", str(file), "--out", str(tmp_path / "out"), "--engine", "slurm"]
    subprocess.run([sys.executable, "-m", "rb_interp", *words], check=True)
    folder = JobFolder(tmp_path / "out")
    kill_in_training(folder, nodes[0], controller)
    last = folder.jobs[-1].name  # its number in Slurm is that of the whole array too

    def at_once():
        """Slurm lets the jobs of a dead node wait for two minutes; one that still ends must wait."""
        output("scontrol", "update", "JobId=1", "StartTime=now")
        return True

    wait_until(lambda: at_once() and last in in_training(folder, nodes[1]), controller)
    n_done = list(folder.states().values()).count("done")
    subprocess.run(["scancel", "--batch", "--signal=USR1", "1_7"], check=True)  # as at its limit
    wait_until(lambda: output("squeue", "-h", "-o", "%i") == "", controller)
    check_bits(folder)
    jobs = output("scontrol", "-o", "show", "job")
    restarts = dict(re.findall(r"ArrayTaskId=(\d).*Restarts=(\d)", jobs))
    assert restarts["7"] == "1"
    assert list(restarts.values()).count("0") >= n_done - 1  # less the one of the node


@pytest.mark.skipif(not find_spec("ray"), reason="ray is not installed: pip install ray")
def test_ray(file, start, spool, tmp_path, monkeypatch):
    """The jobs of a node die with it."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus"]
    of_head = ["--port", str(port), "--temp-dir", str(spool), "--include-dashboard", "0"]
    head = start(*ray, "2", "--head", *of_head)
    sockets = spool / "session_latest/sockets"
    wait_until((sockets / "raylet").exists, head)
    # with an address of its own: a command joins at the node that has its address
    of_node = ["--address", address, "--node-ip-address", "127.0.0.2"]
    node = start(*ray, "1", *of_node, namespace=True)
    wait_until((sockets / "raylet.1").exists, head)

    words = ["sweep", str(file), "--out", str(tmp_path / "out"), "--engine", "ray"]
    command = [sys.executable, "-m", "rb_interp", *words, "--address", address]
    sweep = subprocess.Popen(command)
    wait_until((tmp_path / "out/sweep.toml").exists, sweep)
    folder = JobFolder(tmp_path / "out")
    kill_in_training(folder, node, sweep)
    assert sweep.wait() == 0
    check_bits(folder)
