"""Targets of a chain that count more: gradients are those of a plain loop with weighted labels, and
what is looked at beside them changes nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from rb_interp.errors import ConfigError
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.text.task import TextTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import Member, NextGroup

pytestmark = pytest.mark.trains

TASK = TextTask(
    query="class",
    hops=(1, 2),
    stories="facts",
    facts=10,
    tokenizer="phrases",
    layout="padded",
    n_ctx=100,
    sequences=20,
    held_out=6,
    answers=4,
    chain_weight=7.5,
)
MODEL = ModelConfig(
    **{"n_layers": 2, "n_heads": 2, "d_model": 16, "d_head": 8, "d_mlp": 32, "norm": "pre"},
    **{"act": "gelu_new", "train_biases": True, "tied": True},
)
TRAIN = TrainConfig(
    steps=9, batch_size=8, lr=1e-2, warmup=2, dtype="float64", eval_rows=6, eval_every=3
)
MEMBERS = [Member(0.6, 1), Member(0.4, 1), Member(0.6, 0)]


@pytest.mark.parametrize("micro_batch", [0, 3])
def test_gradients_are_those_of_a_plain_loop_with_weighted_labels(micro_batch):
    group = NextGroup(MEMBERS, MODEL, TASK, replace(TRAIN, micro_batch=micro_batch))
    group.advance(3)
    gradients = dict(zip(group.trained, group.gradients(), strict=True))
    tokens = group.batches.of_step(3)[0]
    for number, member in enumerate(MEMBERS):
        text = TASK.text(member.seed)
        weights = {name: weight[number].detach() for name, weight in group.weights.items()}
        sizes = text.tokenizer.d_vocab, TASK.n_ctx
        model = lens_model(MODEL, *sizes, weights, torch.float64)
        total, n = torch.zeros((), dtype=torch.float64), 0.0
        for row in tokens[group.which_seed[number]].tolist():
            document = text.tokenizer.decode(row).removeprefix("<|endoftext|>").split("<|")[0]
            prompt, chain = document.split("\nA:")
            targets = [
                *text.tokenizer.encode(f"{prompt}\nA:{chain}"),
                text.tokenizer.end,
            ]
            n_prompt = len(text.tokenizer.encode(f"{prompt}\nA:"))
            logits = model(torch.tensor([row]))[0, : len(targets)]
            losses = cross_entropy(logits, torch.tensor(targets), reduction="none")
            total = total + losses[:n_prompt].sum() + 7.5 * losses[n_prompt:].sum()
            n += n_prompt + 7.5 * (len(targets) - n_prompt)
        (total / n).backward()
        for name in ("blocks.0.attn.W_K", "blocks.1.mlp.W_in", "pos_embed.W_pos", "ln_final.w"):
            parameter = model.get_parameter(name)
            torch.testing.assert_close(
                gradients[name][number], parameter.grad, rtol=0, atol=1e-11, msg=name
            )


def test_curves_of_kinds_change_no_weight_and_no_other_curve():
    task = replace(TASK, curves=("rule", "fact", "stop"))
    plain, apart = (NextGroup(MEMBERS[:1], MODEL, each, TRAIN) for each in (TASK, task))
    for group in (plain, apart):
        group.advance(4)
    for name, weight in plain.weights.items():
        assert torch.equal(weight, apart.weights[name])
    values = apart.evaluate()
    np.testing.assert_array_equal(plain.evaluate(), values[:, :4])
    # the loss of a kind is the mean over its targets alone, without weights
    data = task.dataset(1)
    [stop] = [data.labels[data.rows(name)] for name in ("stop",)]
    assert (stop >= 0).sum(1).tolist() == [1] * 6
    assert set(stop[stop >= 0]) == {data.text.tokenizer.end}
    rows = data.rows("prontoqa_test")
    tokens = torch.from_numpy(data.tokens[rows])
    weights = {name: weight[0].detach() for name, weight in apart.weights.items()}
    model = lens_model(MODEL, data.d_vocab, TASK.n_ctx, weights, torch.float64)
    with torch.no_grad():
        losses = -model(tokens).log_softmax(-1)[..., data.text.tokenizer.end]
    places = torch.from_numpy((stop >= 0).argmax(1))
    assert float(losses[torch.arange(6), places].mean()) == pytest.approx(values[0, 6, 0])


def test_what_cannot_be_weighted_or_seen_equally_often_is_refused():
    for changes, message in (
        ({"layout": "packed"}, "with layout 'packed', which cuts examples; give layout 'padded'"),
        ({"query": "steps", "hops": (1, 7)}, "query .steps., whose prompts have 6 rules"),
        ({"facts": 7}, "facts=7 with sequences=20: 20 rows are no multiple"),
        ({"repeated": 4}, "repeated=4 with sequences=20: 10 rows are no multiple"),
    ):
        with pytest.raises(ConfigError, match=message):
            replace(TASK, **changes)
