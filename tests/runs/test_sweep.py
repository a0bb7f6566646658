"""Sweeps of one stack that were stopped at different steps end with the bits of a run that nothing
stopped."""

from dataclasses import replace

import pytest
import torch

from rb_interp.models.config import ModelConfig
from rb_interp.runs.config import SweepConfig
from rb_interp.runs.sweep import Sweep, train_sweeps
from rb_interp.store import RunStore
from rb_interp.tasks import AnchorTask, Stage
from rb_interp.training.config import TrainConfig
from rb_interp.training.store import CheckpointStore

pytestmark = pytest.mark.trains

TRAIN = TrainConfig(
    steps=12, batch_size=16, eval_every=4, eval_rows=20, lr=1e-2, workers=1, n_checkpoints=2
)
LOW = SweepConfig(
    (0.3, 0.8), AnchorTask.preset("smoke"), ModelConfig(d_model=12, d_head=6, d_mlp=20), TRAIN
)


STAGES = {
    "learned": Stage(lambda now, first: now[:, 0, 0] < first[:, 0, 0]),
    "start": Stage(lambda now, first: now[:, 0, 0] >= first[:, 0, 0], "last"),
    "always": Stage(lambda now, first: now[:, 0, 0] > 0, "last"),
}


def sweeps(folder, save_every, **changes):
    low = replace(LOW, train=replace(TRAIN, save_every=save_every, **changes))
    high = replace(low, train=replace(low.train, weight_decay=0.5))
    files = RunStore(folder)
    return [
        Sweep(folder / name, name, own, [(0,)], {}, files)
        for name, own in (("low", low), ("high", high))
    ]


def weights(folder, save_every=1000.0, **changes):
    tensors = {}
    for sweep in sweeps(folder, save_every, **changes):
        (store,) = sweep.stores.values()
        for name in store.names():
            tensors |= {
                (sweep.name, name, key): value for key, value in store.read(name).tensors.items()
            }
    return tensors


class Killed(BaseException):
    """Nothing handles it."""


@pytest.mark.wide
@pytest.mark.parametrize(
    ("save_every", "at", "changes"),
    [
        (1000.0, 2, {}),
        (0.0, 4, {}),
        (0.0, 4, {"stages": ("learned",), "stop_at": "learned"}),
    ],
)
def test_a_sweep_that_was_killed_before_its_sibling_was_saved_has_the_same_bits(
    tmp_path, monkeypatch, save_every, at, changes
):
    monkeypatch.setattr(AnchorTask, "stages", STAGES)
    train_sweeps(sweeps(tmp_path / "whole", save_every, **changes), progress=False)
    written, write = [], CheckpointStore.write

    def killed(self, name, step, *rest):
        written.append((name, step))
        if [name for name, _ in written].count("state") == at:
            raise Killed
        write(self, name, step, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointStore, "write", killed)
        with pytest.raises(Killed):
            train_sweeps(sweeps(tmp_path / "killed", save_every, **changes), progress=False)
    low, high = (sweep.step for sweep in sweeps(tmp_path / "killed", save_every, **changes))
    assert low is not None
    assert high is None or high < low
    train_sweeps(sweeps(tmp_path / "killed", save_every, **changes), progress=False)
    whole, again = (weights(tmp_path / name, save_every, **changes) for name in ("whole", "killed"))
    assert whole.keys() == again.keys()
    for place, value in whole.items():
        assert torch.equal(again[place], value), place


def test_the_last_evaluation_that_meets_a_condition_is_known_once_it_is_met_no_more(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(AnchorTask, "stages", STAGES)
    sweep, _ = sweeps(tmp_path, 1000.0, stages=("start", "always"))
    sweep.train(progress=False)
    assert set(sweep.stage_steps("start").values()) == {0}
    assert set(sweep.stage_steps("always").values()) == {12}
    assert [set(sweep.reached(name).values()) for name in ("start", "always")] == [{True}, {False}]


def test_a_set_without_rows_makes_no_member_diverge(tmp_path):
    task = replace(LOW.task, memory_share=0)
    sweep = Sweep(tmp_path, "", replace(LOW, task=task), [(0,)], {}, RunStore(tmp_path))
    sweep.train(progress=False)
    losses = sweep.curves().groupby("set")["loss"]
    assert losses.count()["mem"] == 0 < losses.count()["rsn_train"]
    assert sweep.sound_members == sweep.members


def test_company_changes_bits_and_no_more(tmp_path):
    """Else the test above would show nothing."""
    train_sweeps(sweeps(tmp_path / "together", 1000.0), progress=False)
    for sweep in sweeps(tmp_path / "alone", 1000.0):
        sweep.train(progress=False)
    together, alone = weights(tmp_path / "together"), weights(tmp_path / "alone")
    assert any(not torch.equal(alone[place], value) for place, value in together.items())
    for place, value in together.items():
        # at most .005 of this tolerance, on either of two instruction sets
        torch.testing.assert_close(alone[place], value, rtol=1e-3, atol=1e-5, equal_nan=True)
