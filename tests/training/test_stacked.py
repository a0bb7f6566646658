"""Shortcuts of the stacked forward pass are exact, and members do not see each other."""

import pytest
import torch

from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import LastGroup, Member, cross_entropy
from rb_interp.training.stacked import stacked_logits

pytestmark = pytest.mark.trains

TASK = AnchorTask.preset("smoke")
TRAIN = TrainConfig(steps=50, dtype="float64", batch_size=16, eval_rows=20, lr=1e-2)
NORMS = ["none", "pre", "post"]


def group(members, train=TRAIN, **model):
    return LastGroup(members, ModelConfig(d_model=12, d_head=6, d_mlp=20, **model), TASK, train)


def perturb(group):
    """Move every tensor off its initial value, so that biases and LayerNorm take part."""
    generator = torch.Generator().manual_seed(0)
    for weight in group.weights.values():
        weight.data += 0.1 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return group


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "shape",
    [{}, {"n_heads": 3, "n_layers": 3, "train_biases": True, "act": "gelu"}, {"act": "tanh"}],
)
def test_last_position_alone_gives_the_full_gradients(norm, shape):
    members = perturb(group([Member(0.3, 0), Member(0.8, 0), Member(0.8, 1)], norm=norm, **shape))
    tokens, labels = (part[members.which_seed] for part in members.batches.of_step(0))
    logits = stacked_logits(members.weights, tokens, members.model, every_position=True)[:, :, -1]
    loss = cross_entropy(logits, labels).mean(1).sum()
    full = torch.autograd.grad(loss, list(members.trained.values()), materialize_grads=True)
    pruned = members.gradients()
    largest = max(g.abs().max() for g in full)
    for name, a, b in zip(members.trained, pruned, full, strict=True):
        torch.testing.assert_close(
            a, b, rtol=1e-10, atol=float(largest) * 1e-13, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.wide
@pytest.mark.parametrize("norm", NORMS)
def test_a_member_in_company_is_the_member_alone(norm):
    together = group([Member(0.3, 0), Member(0.8, 1), Member(0.8, 0)], norm=norm, n_heads=2)
    alone = group([Member(0.8, 1)], norm=norm, n_heads=2)
    together.advance(50)
    alone.advance(50)
    moved = (
        alone.weights["embed.W_E"]
        - group([Member(0.8, 1)], norm=norm, n_heads=2).weights["embed.W_E"]
    )
    assert moved.abs().max() > 1e-2
    for name, weight in alone.weights.items():
        torch.testing.assert_close(together.weights[name][1], weight[0], rtol=0, atol=1e-10)


def test_biases_stay_zero_unless_trained():
    frozen, free = group([Member(0.5, 0)]), group([Member(0.5, 0)], train_biases=True)
    frozen.advance(5)
    free.advance(5)
    assert frozen.weights["blocks.0.mlp.b_in"].abs().max() == 0
    assert frozen.weights["unembed.b_U"].abs().max() > 0
    assert free.weights["blocks.0.mlp.b_in"].abs().max() > 0


def test_an_epoch_takes_every_row_once_and_reshuffles():
    members = group(
        [Member(0.5, 0)], TrainConfig(batch_size=24)
    )  # 125 batches are exactly the 3,000 rows
    batches = members.batches
    per_epoch = batches.n_rows // batches.size
    epochs = [
        torch.cat([batches.of_step(epoch * per_epoch + step)[0][0] for step in range(per_epoch)])
        for epoch in (0, 1)
    ]
    rows = [sorted(map(tuple, epoch.tolist())) for epoch in epochs]
    assert rows[0] == rows[1]
    assert not torch.equal(epochs[0], epochs[1])


@pytest.mark.lens
@pytest.mark.wide
@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_an_exported_member_equals_the_trainer(norm):
    config = ModelConfig(n_heads=3, d_model=12, d_head=6, d_mlp=20, norm=norm, train_biases=True)
    group = LastGroup([Member(0.3, 0), Member(0.8, 1)], config, TASK, TRAIN)
    group.advance(30)
    tokens = torch.from_numpy(TASK.dataset(1).tokens[:64])
    expected = stacked_logits(group.weights, tokens.expand(2, -1, -1), config, every_position=True)[
        1
    ]
    weights = {name: weight[1].detach() for name, weight in group.weights.items()}
    model = lens_model(config, TASK.d_vocab, TASK.length, weights, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), expected.detach(), rtol=0, atol=1e-10)
