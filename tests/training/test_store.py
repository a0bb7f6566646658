"""Checkpoints are what was written under their names, or are refused; files of others are let be."""

import json
import shutil

import pytest

from rb_interp.errors import RunError
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members
from rb_interp.training.store import CheckpointStore

pytestmark = pytest.mark.trains

TASK = AnchorTask.preset("smoke")
MODEL = ModelConfig(d_model=12, d_head=6, d_mlp=20)
TRAIN = TrainConfig(
    steps=12, batch_size=16, eval_every=4, eval_rows=20, n_checkpoints=3, workers=1, save_every=0.0
)


class Killed(BaseException):
    """Nothing handles it."""


class Stopping(CheckpointStore):
    """It is killed as it saves its third state."""

    def write(self, name, step, *rest):
        if (name, step) == ("state", 8):
            raise Killed
        super().write(name, step, *rest)


def train(store):
    return train_members(
        TASK, [0.3, 0.8], [0], config=MODEL, train=TRAIN, store=store, progress=False
    )


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    with pytest.raises(Killed):
        train(Stopping(folder, "same"))
    return folder


@pytest.fixture
def store(killed, tmp_path):
    return CheckpointStore(shutil.copytree(killed, tmp_path / "copy"), "same")


def flip(path, key):
    """Flip one bit of one tensor in a file, and of nothing else."""
    header = int.from_bytes(path.read_bytes()[:8], "little")
    data = bytearray(path.read_bytes())
    first, last = json.loads(data[8 : 8 + header])[key]["data_offsets"]
    data[8 + header + (first + last) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("state", "embed.W_E"),
        ("state", "exp_avg/embed.W_E"),
        ("state", "exp_avg_sq/blocks.0.mlp.W_in"),
        ("state", "curves/values"),
        ("state", "curves/steps"),
        ("step_00000004", "unembed.W_U"),
    ],
)
def test_a_flipped_bit_is_refused_before_training_goes_on(store, name, key):
    flip(store.path(name), key)
    before = {path.name: path.read_bytes() for path in store.folder.iterdir()}
    for work in (lambda: store.read(name, member=(0.8, 0)), lambda: train(store)):
        with pytest.raises(RunError, match=f"{name}.safetensors is damaged: its digest is not"):
            work()
    assert {path.name: path.read_bytes() for path in store.folder.iterdir()} == before


@pytest.mark.parametrize("name", ["step_00000004", "state"])
def test_exchanged_checkpoints_are_refused(store, name):
    first, second = store.path("step_00000000"), store.path(name)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    with pytest.raises(RunError, match="holds the checkpoint '.*': files were exchanged"):
        train(store)
    with pytest.raises(RunError, match=f"step_00000000.safetensors holds the checkpoint '{name}'"):
        store.read("step_00000000")


def test_copies_of_a_sync_program_are_no_checkpoints(store):
    names = store.names()
    for copy in (
        "step_00000004 (1)",
        "state.sync-conflict-20240101-101010-ABCDEFG",
        "step_4-LAPTOP",
    ):
        shutil.copy(store.path("step_00000004"), store.path(copy))
    assert store.names() == names
    assert train(store).final.step == 12
