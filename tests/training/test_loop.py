"""What training keeps and when, and that it leaves the caller's settings as they were."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rb_interp.errors import ArgumentError, ConfigError, RunError
from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask, Stage
from rb_interp.training.config import TrainConfig, checkpoint_steps
from rb_interp.training.member_group import Member
from rb_interp.training.members import train_members
from rb_interp.training.store import CheckpointStore, stage_name, step_name

pytestmark = pytest.mark.trains

TASK, MODEL = AnchorTask.preset("smoke"), ModelConfig(d_model=12, d_head=6, d_mlp=20)


def short(**changes):
    return TrainConfig(
        **{
            "steps": 20,
            "batch_size": 16,
            "eval_every": 10,
            "eval_rows": 20,
            "n_checkpoints": 1,
            **changes,
        }
    )


def test_stages_are_kept_with_their_siblings(tmp_path):
    store = CheckpointStore(tmp_path, "x")
    train = short(steps=150, lr=1e-2, workers=1, stages=("half",))
    easy = AnchorTask(
        length=4,
        keys=(21, 24),
        memory_anchors=(1, 2),
        reasoning_anchors=(11, 12),
        masked=(),
        d_vocab=80,
        n_sequences=512,
    )
    trained = train_members(
        easy, [0.5, 0.8], [0, 1], config=MODEL, train=train, store=store, progress=False
    )
    curves = trained.curves.to_frame()
    shares = set(curves.accuracy.dropna())
    assert len(shares) > 5
    assert shares <= {right / 20 for right in range(21)}  # exactly, since criteria compare with .20
    for member in trained.curves.members:
        of_member = curves[
            (curves.gamma == member.gamma)
            & (curves.seed == member.seed)
            & (curves.set == "rsn_train")
        ]
        reached = of_member[of_member.loss <= 0.5 * math.log(easy.d_vocab)].step
        kept = store.read(stage_name("half", member))
        assert 0 < reached.min() == kept.step < 150
        assert kept.members == ((0.5, member.seed), (0.8, member.seed))
    assert {step_name(s) for s in checkpoint_steps(train)} <= set(store.names())
    final = store.read(step_name(150)).member(0.8, 1)
    torch.testing.assert_close(final["embed.W_E"], trained.final.member(0.8, 1)["embed.W_E"])
    half = store.read(stage_name("half", trained.curves.members[-1])).member(0.8, 1)
    drawn = build_model(easy, 0.8, 1, config=MODEL).state_dict()
    kept = {"final": final, 150: final, "half": half, "init": drawn, 0: drawn}
    for stage, weights in kept.items():
        model = trained.model(gamma=0.8, seed=1, stage=stage)
        torch.testing.assert_close(model.W_E, weights["embed.W_E"], msg=str(stage))
    with pytest.raises(RunError, match=r"no store has kept 'halves_gamma0.8_seed1'; did you mean"):
        trained.model(gamma=0.8, seed=1, stage="halves")
    with pytest.raises(RunError, match=r"'end_gamma0.8_seed1'; known: final, init \("):
        replace(trained, stores=()).model(gamma=0.8, seed=1, stage="end")
    assert len(repr(trained)) < 1500  # no weights, no losses
    with pytest.raises(RunError, match="no member with gamma=0.4, seed=1"):
        trained.model(gamma=0.4, seed=1)


def test_the_callers_settings_come_back(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    before = (
        torch.get_num_threads(),
        torch.get_rng_state().clone(),
        np.random.get_state()[1].copy(),
    )
    train_members(TASK, [0.8], [0], config=MODEL, train=short(steps=1), progress=False)
    assert torch.backends.cuda.matmul.allow_tf32
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    np.testing.assert_array_equal(np.random.get_state()[1], before[2])


class Noting(CheckpointStore):
    """Notes what is written: names and steps."""

    def __init__(self, folder):
        super().__init__(folder, "x")
        self.written = []

    def write(self, name, step, *rest):
        self.written.append((name, step))
        return super().write(name, step, *rest)


def test_a_stage_reached_at_once_is_not_kept_again_after_a_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(AnchorTask, "stages", {"half": Stage(lambda now, first: now[:, 0, 0] > 0)})
    store, train = Noting(tmp_path), short(stages=("half",), workers=1)
    train_members(
        TASK, [0.8], [0], config=MODEL, train=replace(train, steps=10), store=store, progress=False
    )
    again = Noting(tmp_path)
    train_members(TASK, [0.8], [0], config=MODEL, train=train, store=again, progress=False)
    assert again.read("state").step == 20
    assert again.read(stage_name("half", Member(0.8, 0))).step == 0
    assert [name for name, _ in again.written] == [step_name(20), "state"]


@pytest.mark.parametrize("occurrence", ["first", "last"])
def test_the_last_step_is_kept_for_a_member_that_reaches_a_stage_never(
    tmp_path, monkeypatch, occurrence
):
    never = Stage(lambda now, first: now[:, 0, 0] < 0, occurrence)
    monkeypatch.setattr(AnchorTask, "stages", {"half": never})
    store = Noting(tmp_path)
    train_members(
        TASK,
        [0.8],
        [0],
        config=MODEL,
        train=short(stages=("half",), workers=1),
        store=store,
        progress=False,
    )
    assert store.read(stage_name("half", Member(0.8, 0))).step == 20


def test_a_group_stops_where_its_members_come_to_a_stage_and_its_curves_stay(tmp_path, monkeypatch):
    """A stage with a delay is the first evaluation that lies so many steps behind one that meets it."""
    late = Stage(lambda now, first: now[:, 0, 0] < first[:, 0, 0], delay=15)
    stages = {"late": late, "gone": replace(late, occurrence="last")}
    monkeypatch.setattr(AnchorTask, "stages", stages)
    train = short(steps=60, schedule="constant", stages=("late", "gone"), stop_at="late", workers=1)
    store = CheckpointStore(tmp_path, "x")
    for steps in (50, 60):
        part = replace(train, steps=steps)
        trained = train_members(TASK, [0.8], config=MODEL, train=part, store=store, progress=False)
    kept = store.read(stage_name("late", Member(0.8, 0)))
    losses = trained.curves.to_frame().query("set == 'mem'").set_index("step").loss
    first = losses.index[losses < losses.loc[0]].min()
    assert kept.step == first + 20 < 50
    alone = replace(train, steps=kept.step, stop_at="")
    same = train_members(TASK, [0.8], config=MODEL, train=alone, progress=False)
    for name, weight in same.final.member(0.8, 0).items():
        assert torch.equal(trained.final.member(0.8, 0)[name], weight), name
    assert set(losses.loc[kept.step :]) == {losses.loc[kept.step]}
    for other in ("later", "gone"):
        with pytest.raises(ConfigError, match=f"stop_at='{other}'; .*late"):
            train_members(TASK, [0.8], config=MODEL, train=replace(train, stop_at=other))


def test_a_store_of_other_members_is_refused(tmp_path):
    """A state of one member would go to each of two."""
    options = {"config": MODEL, "train": short(workers=1), "progress": False}
    store = CheckpointStore(tmp_path, "x")
    train_members(TASK, [0.3], [0], store=store, **options)
    for gammas, seeds in (([0.8], [0]), ([0.3], [0, 1])):
        with pytest.raises(RunError, match=r"has the members \(\(0.3, 0\),\); expected"):
            train_members(TASK, gammas, seeds, store=CheckpointStore(tmp_path, "x"), **options)
    with pytest.raises(ArgumentError, match=r"rates=.* a gamma that is none of"):
        train_members(TASK, [0.3], rates={0.31: 1e-3}, **options)


@pytest.mark.lens
def test_a_member_keeps_its_precision():
    train = short(steps=1, workers=1, dtype="float64")
    trained = train_members(TASK, [0.8], config=MODEL, train=train, progress=False)
    for stage in ("init", "final"):
        assert trained.model(gamma=0.8, seed=0, stage=stage).W_E.dtype == torch.float64
