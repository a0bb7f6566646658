"""A trained member, exported to TransformerLens, is the same function; and the plain loop learns
the same thing."""

import numpy as np
import pytest
import torch

from rb_interp.models.build import build_model, lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import LastGroup, Member
from rb_interp.training.members import train_model

pytestmark = [pytest.mark.lens, pytest.mark.wide]

TASK = AnchorTask.preset("smoke")
TRAIN = TrainConfig(steps=30, dtype="float64", batch_size=16, eval_every=10, eval_rows=50, lr=1e-2)


@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_an_exported_member_equals_the_trainer(norm):
    config = ModelConfig(n_heads=3, d_model=12, d_head=6, d_mlp=20, norm=norm, train_biases=True)
    group = LastGroup([Member(0.3, 0), Member(0.8, 1)], config, TASK, TRAIN)
    group.advance(30)
    tokens = torch.from_numpy(TASK.dataset(1).tokens[:64])
    from rb_interp.training.stacked import stacked_logits

    expected = stacked_logits(group.weights, tokens.expand(2, -1, -1), config, every_position=True)[
        1
    ]
    weights = {name: weight[1].detach() for name, weight in group.weights.items()}
    model = lens_model(config, TASK.d_vocab, TASK.length, weights, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), expected.detach(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_the_plain_loop_takes_the_same_steps(norm):
    config = ModelConfig(d_model=12, d_head=6, d_mlp=20, norm=norm)
    group = LastGroup([Member(0.5, 2)], config, TASK, TRAIN)
    model = build_model(TASK, gamma=0.5, seed=2, config=config, dtype=torch.float64)
    curves = train_model(model, TASK, TRAIN, seed=2, progress=False)
    group.advance(30)
    exported = {name: weight[0].detach() for name, weight in group.weights.items()}
    tokens = torch.from_numpy(TASK.dataset(2).tokens[:64])
    with torch.no_grad():
        same = lens_model(config, TASK.d_vocab, TASK.length, exported, dtype=torch.float64)
        torch.testing.assert_close(model(tokens)[:, -1], same(tokens)[:, -1], rtol=0, atol=1e-7)
    final = curves[curves.step == 30].set_index("set").loss
    np.testing.assert_allclose(final, group.evaluate()[0, :, 0], atol=1e-7)
