"""Whole training runs: in company, on data of another seed, and as a plain loop takes them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rb_interp.errors import ArgumentError
from rb_interp.models.build import build_model, lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import LastGroup, Member
from rb_interp.training.members import Part, share_out, train_members, train_model, train_together
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


@pytest.mark.wide
def test_a_member_in_company_of_other_rates_and_decays_is_as_it_is_alone(tmp_path):
    base = short(dtype="float64", workers=1, n_checkpoints=2)
    settings = [(1e-3, 0.3), (4e-3, 0.3), (1e-3, 0.0)]

    def parts(folder, **changes):
        trainings = [replace(base, lr=lr, weight_decay=decay, **changes) for lr, decay in settings]
        stores = [CheckpointStore(tmp_path / folder / str(i), "x") for i in range(len(settings))]
        return [
            Part(train, (0.3, 0.8), (0, 1), store=store)
            for train, store in zip(trainings, stores, strict=True)
        ]

    train_together(
        TASK, MODEL, parts("company", steps=10, schedule_steps=base.steps), progress=False
    )
    half_way = parts("company", schedule_steps=base.steps)
    assert [part.store.read("state").step for part in half_way] == [10, 10, 10]
    train_together(TASK, MODEL, half_way, progress=False)  # goes on from there
    finals = []
    for part, alone in zip(half_way, parts("alone", schedule_steps=base.steps), strict=True):
        train_members(
            TASK,
            part.gammas,
            part.seeds,
            config=MODEL,
            train=alone.train,
            store=alone.store,
            progress=False,
        )
        assert set(alone.store.names()) <= set(part.store.names())
        for name in alone.store.names():
            here, there = part.store.read(name), alone.store.read(name)
            assert (here.step, here.members) == (there.step, there.members)
            for key, value in there.tensors.items():
                torch.testing.assert_close(
                    here.tensors[key], value, rtol=1e-9, atol=1e-11, equal_nan=True
                )
        finals.append(alone.store.read(step_name(base.steps)).member(0.3, 0)["blocks.0.mlp.W_in"])
    assert all(
        (finals[0] - other).abs().max() > 1e-4 for other in finals[1:]
    )  # rates and decays differ in effect
    assert finals[2].norm() > finals[0].norm()  # without decay

    kept = parts("kept", stages=("half",))
    train_together(TASK, MODEL, kept, progress=False)
    for part in kept:  # siblings are those of the same part
        assert part.store.read(stage_name("half", Member(0.3, 1))).members == ((0.3, 1), (0.8, 1))

    train_together(TASK, MODEL, parts("apart", steps=10)[:1], progress=False)
    with pytest.raises(ArgumentError, match="1 at none"):
        train_together(TASK, MODEL, parts("apart")[:2], progress=False)
    with pytest.raises(ArgumentError, match="differ in more than lr and weight_decay"):
        train_together(TASK, MODEL, [half_way[0], *parts("other", steps=11)], progress=False)
    with pytest.raises(ArgumentError, match="a member stands there twice"):
        train_together(TASK, MODEL, [half_way[0]] * 2, progress=False)


def test_the_seed_of_the_data_can_stand_apart():
    tiny = short(steps=40, workers=1, stages=())
    own = train_members(TASK, [0.3, 0.8], [1], config=MODEL, train=tiny, progress=False).final
    given = train_members(
        TASK, [0.3, 0.8], [1], config=MODEL, train=tiny, data_seed=1, progress=False
    ).final
    for name, value in own.tensors.items():
        assert torch.equal(value, given.tensors[name]), name

    members = [Member(0.8, 3), Member(0.8, 0), Member(0.3, 3)]
    group = share_out(members, MODEL, TASK, tiny, torch.device("cpu"), 1, {}, data_seed=2)[0][0]
    (rows, _), data = group.batches.of_step(0), TASK.dataset(2)
    assert group.which_seed.tolist() == [
        0,
        0,
        0,
    ]  # one set of rows, and so the same batches for all
    np.testing.assert_array_equal(group.batches.tokens[0], data.tokens[data.rows("train")])
    assert torch.equal(
        rows[0], LastGroup([Member(0.8, 2)], MODEL, TASK, tiny).batches.of_step(0)[0][0]
    )
    for place, member in enumerate(members):
        drawn = draw(MODEL, TASK.d_vocab, TASK.length, member.gamma, member.seed)["embed.W_E"]
        np.testing.assert_array_equal(
            group.weights["embed.W_E"][place].detach(), drawn.astype(np.float32)
        )


@pytest.mark.lens
@pytest.mark.wide
@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_the_plain_loop_takes_the_same_steps(norm):
    config = ModelConfig(d_model=12, d_head=6, d_mlp=20, norm=norm)
    train = short(steps=30, dtype="float64", eval_rows=50, lr=1e-2)
    group = LastGroup([Member(0.5, 2)], config, TASK, train)
    model = build_model(TASK, gamma=0.5, seed=2, config=config, dtype=torch.float64)
    curves = train_model(model, TASK, train, seed=2, progress=False)
    group.advance(30)
    exported = {name: weight[0].detach() for name, weight in group.weights.items()}
    tokens = torch.from_numpy(TASK.dataset(2).tokens[:64])
    with torch.no_grad():
        same = lens_model(config, TASK.d_vocab, TASK.length, exported, dtype=torch.float64)
        torch.testing.assert_close(model(tokens)[:, -1], same(tokens)[:, -1], rtol=0, atol=1e-7)
    final = curves[curves.step == 30].set_index("set").loss
    np.testing.assert_allclose(final, group.evaluate()[0, :, 0], atol=1e-7)
