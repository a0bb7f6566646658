"""Plain gradient descent, stages and running predictions on the simplified models."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw
from rb_interp.tasks import AnchorTask
from rb_interp.theory.drift import emb_mlp_map, one_layer_maps, pull, value_flow
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import LastGroup, Member
from rb_interp.training.members import train_members
from rb_interp.training.store import CheckpointStore

pytestmark = pytest.mark.trains

TASK = AnchorTask(
    length=3,
    keys=(21, 30),
    memory_anchors=(1, 2),
    reasoning_anchors=(11, 13),
    masked=((11, 13), (13, 11)),
    d_vocab=58,
    n_sequences=720,
    unordered=True,
    balanced_keys=True,
)
EMB_MLP = ModelConfig(1, 1, 10, 4, 14, act="tanh", architecture="emb_mlp")
ONE_LAYER = ModelConfig(1, 1, 58, 6, 14, act="tanh", architecture="one_layer")
DESCENT = TrainConfig(
    steps=12,
    batch_size=720,
    optimiser="sgd",
    lr=0.5,
    schedule="constant",
    weight_decay=0.0,
    clip=0.0,
    dtype="float64",
    eval_every=4,
    n_checkpoints=2,
    stages=("leaving",),
    track_drift=True,
)


def emb_mlp(weights, tokens):
    hidden = torch.tanh(weights["embed.W_E"][tokens].sum(1) @ weights["mlp.W_in"])
    return hidden @ weights["mlp.W_out"]


def one_layer(weights, tokens):
    W_Q, W_K, W_V, W_O = (weights[f"blocks.0.attn.W_{name}"][0] for name in "QKVO")
    x = weights["embed.W_E"][tokens]
    pattern = (
        torch.einsum("nd,npd->np", x[:, -1] @ W_Q @ W_K.T, x)
        .div(math.sqrt(W_Q.shape[1]))
        .softmax(-1)
    )
    mid = x[:, -1] + torch.einsum("np,npd->nd", pattern, x) @ W_V @ W_O
    return mid + torch.tanh(mid @ weights["blocks.0.mlp.W_in"]) @ weights["blocks.0.mlp.W_out"]


@pytest.mark.parametrize(("model", "formula"), [(EMB_MLP, emb_mlp), (ONE_LAYER, one_layer)])
def test_descent_follows_the_gradient_of_the_written_formula_and_sums_up_the_prediction(
    model, formula
):
    members, steps, lr = [Member(0.4, 1), Member(0.8, 1), Member(0.4, 2)], 6, 0.5
    group = LastGroup(members, model, TASK, DESCENT)
    group.advance(steps)
    kept = group.state()
    for index, member in enumerate(members):
        data = TASK.dataset(member.seed)
        rows = data.rows("train")
        tokens, labels = torch.from_numpy(data.tokens[rows]), torch.from_numpy(data.labels[rows])
        R, sums = pull(tokens, labels, TASK.d_vocab, dtype=torch.float64), {}
        drawn = draw(model, TASK.d_vocab, TASK.length, member.gamma, member.seed)
        weights = {name: torch.tensor(value).requires_grad_() for name, value in drawn.items()}
        for _ in range(steps):
            now = {name: weight.detach() for name, weight in weights.items()}
            for name, rate in predicted_rates(model, now, R).items():
                sums[name] = sums.get(name, 0) + lr * rate
            loss = F.cross_entropy(formula(weights, tokens), labels)
            gradients = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
            with torch.no_grad():
                for weight, gradient in zip(weights.values(), gradients, strict=True):
                    weight -= 0 if gradient is None else lr * gradient
        assert (weights["embed.W_E"] - torch.from_numpy(drawn["embed.W_E"])).abs().max() > 1e-3
        for name, weight in weights.items():
            torch.testing.assert_close(kept[name][index], weight.detach(), rtol=0, atol=1e-12)
        assert len(sums) == sum(name.startswith("drift/") for name in kept)
        for name, value in sums.items():
            torch.testing.assert_close(kept[f"drift/{name}"][index], value, rtol=1e-10, atol=1e-12)


def predicted_rates(model, weights, R):
    if model.architecture == "emb_mlp":
        return {"map": emb_mlp_map(weights["mlp.W_in"], weights["mlp.W_out"])}
    W_V, W_O = (weights[f"blocks.0.attn.W_{name}"][0] for name in "VO")
    mlp = [weights[f"blocks.0.mlp.W_{name}"] for name in ("in", "out")]
    attention, direct = one_layer_maps(W_V, W_O, *mlp)
    value = value_flow(weights["embed.W_E"], R, W_O, *mlp, TASK.length)
    return {"attention": attention, "direct": direct, "value": value}


def run(folder, steps, model=ONE_LAYER, **changes):
    train = replace(
        DESCENT,
        **{"steps": 32, "stages": ("half", "leaving", "before_memory"), "lr": 1.0, **changes},
    )
    store = CheckpointStore(folder, "same")
    if steps is not None:

        class StopError(Exception):
            pass

        class Stopping(CheckpointStore):
            def write(self, name, step, *rest):
                super().write(name, step, *rest)
                if name == "state" and step >= steps:
                    raise StopError

        try:
            train_members(
                TASK,
                [0.3, 0.8],
                [0, 1],
                config=model,
                train=train,
                store=Stopping(folder, "same"),
                progress=False,
            )
        except StopError:
            return store
    train_members(TASK, [0.3, 0.8], [0, 1], config=model, train=train, store=store, progress=False)
    return store


@pytest.mark.wide
def test_stopped_descent_goes_on_to_the_same_bits_with_its_sums_and_stages(tmp_path):
    whole = run(tmp_path / "whole", None)
    run(tmp_path / "stopped", 16, save_every=0.0)
    assert CheckpointStore(tmp_path / "stopped", "same").read("state").step == 16
    stopped = run(tmp_path / "stopped", None)
    assert stopped.names() == whole.names()
    assert any(key.startswith("drift/") for key in whole.read("state").tensors)
    for name in whole.names():
        first, second = whole.read(name), stopped.read(name)
        assert first.step == second.step
        for key, value in first.tensors.items():
            assert torch.equal(value, second.tensors[key]), (name, key)


def test_only_simplified_models_are_predicted():
    with pytest.raises(
        ConfigError, match="track_drift with architecture='transformer'; the propositions are about"
    ):
        train_members(
            TASK,
            [0.8],
            [0],
            config=ModelConfig(d_model=8, d_head=4, d_mlp=8),
            train=DESCENT,
            progress=False,
        )
