"""Tasks that somebody else wrote train, are evaluated on their own sets, keep their own stages, and
continue."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch

from rb_interp.errors import ConfigError, TaskError
from rb_interp.models.config import ModelConfig
from rb_interp.runs.config import SweepConfig
from rb_interp.tasks import Dataset, Stage, Task, fingerprint
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members
from rb_interp.training.store import CheckpointStore, stage_name

pytestmark = [pytest.mark.wide, pytest.mark.trains]

MODEL = ModelConfig(n_layers=1, d_model=16, d_head=8, d_mlp=24)
TRAIN = TrainConfig(
    steps=80,
    batch_size=30,
    lr=1e-2,
    eval_every=5,
    eval_rows=40,
    n_checkpoints=1,
    stages=("copies", "bad"),
    workers=2,
)


@dataclass(frozen=True)
class Copy:
    """Say the first token again; tokens from ``new`` on stand first in held-out rows alone."""

    new: int = 8
    d_vocab: int = 10
    length: int = 4
    predicts: str = "last"
    batch_sets: tuple[str, ...] = ("train",)

    sets: ClassVar = ("held_out", "low", "high")
    train_sets: ClassVar = ("low", "high")
    stages: ClassVar = {
        "copies": Stage(
            lambda now, start: now[:, 1:, 0].mean(1) <= 0.5 * start[:, 1:, 0].mean(1),
            with_siblings=True,
        ),
        "bad": Stage(lambda now, start: now[:, 0, 1] < 0.5, occurrence="last"),
    }

    def dataset(self, seed):
        rng = np.random.default_rng(seed)
        tokens = rng.integers(0, self.d_vocab, (600, self.length))
        tokens[:, 0] = np.repeat(np.arange(self.d_vocab), 60)
        set = np.where(tokens[:, 0] >= self.new, 0, np.where(tokens[:, 0] < self.new // 2, 1, 2))
        labels = tokens[:, 0]
        if self.predicts == "next":
            labels = np.full(tokens.shape, -1)
            labels[:, -2] = tokens[:, 0]
        return Dataset(
            seed,
            tokens,
            labels,
            set,
            self.sets,
            self.train_sets,
            {"first": np.zeros((600, 1), int)},
            batch_sets=self.batch_sets,
        )

    def fingerprint(self):
        return fingerprint(self)


def test_a_foreign_task_trains_keeps_its_stages_and_continues_bit_for_bit(tmp_path):
    task = Copy(predicts="next", batch_sets=("low", "high"))
    assert isinstance(task, Task)
    store = CheckpointStore(tmp_path / "whole", task.fingerprint())
    trained = train_members(
        task, [0.4, 0.8], [0, 1], config=MODEL, train=TRAIN, store=store, progress=False
    )
    curves = trained.curves.to_frame()
    assert curves["set"].unique().tolist() == ["held_out", "low", "high"]
    end = curves[curves.step == 80].groupby("set").loss.mean()
    assert (
        max(end.low, end.high) < 0.7 < 3 < end.held_out
    )  # .39 and 13; two instruction sets differ by 1e-6
    for member in trained.curves.members:
        mine = curves[(curves.gamma == member.gamma) & (curves.seed == member.seed)]
        pooled = mine[mine.set != "held_out"].groupby("step").loss.mean()
        copies, bad = (store.read(stage_name(name, member)) for name in ("copies", "bad"))
        assert 0 < copies.step == (pooled <= 0.5 * pooled[0]).idxmax() < 80
        assert copies.members == ((0.4, member.seed), (0.8, member.seed))
        wrong = mine[(mine.set == "held_out") & (mine.accuracy < 0.5)]
        assert (bad.step, bad.members) == (wrong.step.max(), ((member.gamma, member.seed),))

    class Stopping(CheckpointStore):
        def write(self, name, step, *rest):
            path = super().write(name, step, *rest)
            if name == "state" and step == 40:
                raise KeyboardInterrupt
            return path

    often, stopped = (
        replace(TRAIN, save_every=0.0),
        Stopping(tmp_path / "stopped", task.fingerprint()),
    )
    with pytest.raises(KeyboardInterrupt):
        train_members(
            task, [0.4, 0.8], [0, 1], config=MODEL, train=often, store=stopped, progress=False
        )
    again = CheckpointStore(stopped.folder, task.fingerprint())
    assert again.read("state").step == 40
    train_members(task, [0.4, 0.8], [0, 1], config=MODEL, train=TRAIN, store=again, progress=False)
    assert again.names() == store.names()
    for name in store.names():
        for key, value in store.read(name).tensors.items():
            assert torch.equal(value, again.read(name).tensors[key]), (name, key)


@dataclass(frozen=True)
class Uneven(Copy):
    """Each seed has other numbers of rows, to learn and to be asked."""

    def dataset(self, seed):
        data = super().dataset(seed)
        kept = np.flatnonzero(
            (np.arange(600) % (seed + 2) > 0) & ((data.set > 0) | (np.arange(600) % 40 <= seed))
        )
        rows = {name: getattr(data, name)[kept] for name in ("tokens", "labels", "set")}
        return replace(data, **rows, positions={"first": np.zeros((len(kept), 1), int)})


@pytest.mark.parametrize("predicts", ["last", "next"])
def test_seeds_with_other_numbers_of_rows_train_with_any_number_of_workers(predicts):
    task, short = Uneven(predicts=predicts), replace(TRAIN, steps=15, stages=())
    assert len({len(task.dataset(seed).tokens) for seed in (0, 1, 2)}) == 3
    found = [
        train_members(
            task,
            [0.3, 0.8],
            [0, 1, 2],
            config=MODEL,
            train=replace(short, workers=n),
            progress=False,
        )
        for n in (1, 5)
    ]
    alone = train_members(task, [0.8], [1], config=MODEL, train=short, progress=False)
    for trained in found:
        of = trained.curves.to_frame().query("gamma == 0.8 and seed == 1").reset_index(drop=True)
        pd.testing.assert_frame_equal(of, alone.curves.to_frame(), atol=1e-6)
        assert len(trained.curves.members) == 6


def test_a_task_may_have_no_stages():
    class Bare(Copy):
        stages = None

    train_members(
        Bare(), [0.5], [0], config=MODEL, train=replace(TRAIN, steps=1, stages=()), progress=False
    )
    for task in (Bare(), Copy()):
        with pytest.raises(ConfigError, match="the task has no stage 'copied'"):
            train_members(
                task,
                [0.5],
                [0],
                config=MODEL,
                train=replace(TRAIN, stages=("copied",)),
                progress=False,
            )
    with pytest.raises(ConfigError, match="the task has no stage 'copies'"):
        SweepConfig(task=Bare(), model=MODEL, train=TRAIN)
    assert (
        SweepConfig(task=Bare(), model=MODEL, train=replace(TRAIN, stages=())).task.stages is None
    )


def test_rows_that_would_be_mixed_up_are_refused():
    """A token beyond the vocabulary would read another member's embedding; a batch set of other
    size, other rows."""

    class Wide(Copy):
        def dataset(self, seed):
            return replace(Copy.dataset(self, seed), tokens=Copy.dataset(self, seed).tokens + 1)

    train = replace(TRAIN, steps=1, stages=())
    with pytest.raises(TaskError, match="seed 0: tokens run from 1 to 10; d_vocab is 10"):
        train_members(Wide(), [0.5], [0], config=MODEL, train=train, progress=False)
    with pytest.raises(TaskError, match=r"\('train', 'low'\) have \[240, 480\] training rows"):
        train_members(
            Copy(batch_sets=("train", "low")), [0.5], [0], config=MODEL, train=train, progress=False
        )
