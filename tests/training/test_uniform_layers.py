"""A layer whose attention is fixed at 1/i has that pattern at every step, and all else trains as
under such a hook."""

import pytest
import torch

from rb_interp.models.build import build_model, lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import LastGroup, Member
from rb_interp.training.members import train_model

pytestmark = pytest.mark.wide

TASK = AnchorTask.preset("smoke")
TRAIN = TrainConfig(steps=20, dtype="float64", batch_size=16, eval_every=20, eval_rows=20, lr=1e-2)
SIZES = {"d_model": 12, "d_head": 6, "d_mlp": 20}
ONE_OVER_I = torch.tril(torch.ones(TASK.length, TASK.length, dtype=torch.float64)).div(
    torch.arange(1, TASK.length + 1)[:, None]
)


@pytest.mark.parametrize(("norm", "biases"), [("none", False), ("pre", True)])
def test_the_pattern_is_one_over_i_at_every_step_and_the_other_layer_is_free(norm, biases):
    config = ModelConfig(norm=norm, train_biases=biases, uniform_layers=(0,), **SIZES)
    group = LastGroup([Member(0.3, 0), Member(0.5, 1)], config, TASK, TRAIN)
    tokens = torch.from_numpy(TASK.dataset(1).tokens[:8])
    for _ in range(3):
        for member in range(2):
            weights = {name: weight[member].detach() for name, weight in group.weights.items()}
            _, cache = lens_model(
                config, TASK.d_vocab, TASK.length, weights, torch.float64
            ).run_with_cache(tokens)
            assert torch.equal(cache["pattern", 0][:, 0], ONE_OVER_I.expand(8, -1, -1))
            assert (cache["pattern", 1][:, 0] - ONE_OVER_I).abs().max() > 1e-4
        group.advance(10)


@pytest.mark.lens
@pytest.mark.parametrize("norm", ["none", "post"])
def test_it_learns_what_a_model_under_a_hook_learns(norm):
    free = ModelConfig(norm=norm, **SIZES)
    fixed = ModelConfig(norm=norm, uniform_layers=(0,), **SIZES)
    group = LastGroup([Member(0.3, 2)], fixed, TASK, TRAIN)
    group.advance(20)
    hooked = build_model(TASK, gamma=0.3, seed=2, config=free, dtype=torch.float64)
    start = draw(fixed, TASK.d_vocab, TASK.length, 0.3, 2)["embed.W_E"]
    hooked.add_hook(
        "blocks.0.attn.hook_pattern", lambda pattern, hook: ONE_OVER_I.expand_as(pattern)
    )
    train_model(hooked, TASK, TRAIN, seed=2, progress=False)
    weights = {name: weight[0].detach() for name, weight in group.weights.items()}
    model = lens_model(fixed, TASK.d_vocab, TASK.length, weights, torch.float64)
    tokens = torch.from_numpy(TASK.dataset(2).tokens[:32])
    assert (weights["embed.W_E"] - torch.from_numpy(start)).abs().max() > 1e-2
    with torch.no_grad():
        torch.testing.assert_close(model(tokens)[:, -1], hooked(tokens)[:, -1], rtol=0, atol=1e-7)


def test_every_other_tensor_starts_as_without_the_setting():
    free, fixed = (
        draw(ModelConfig(uniform_layers=layers, **SIZES), 60, 9, 0.8, 3) for layers in ((), (0,))
    )
    assert [name for name in free if not (free[name] == fixed[name]).all()] == ["blocks.0.attn.W_Q"]
    assert (fixed["blocks.0.attn.W_Q"] == 0).all()
