"""The configuration has the paper's sizes and schedule, and refuses what phases and flows could not be read of."""

import re

import pytest

from rb_interp.errors import ConfigError
from rb_interp.models.schemes import intended_std, parameters
from rb_interp.runs.config import from_mapping
from rb_interp.studies.composite import COMPOSITE
from rb_interp.studies.composite.config import BOTH_UNSEEN, CompositeConfig
from rb_interp.training.config import learning_rate


def test_the_papers_schedule_is_stopped_early_and_its_start_is_the_papers():
    config = COMPOSITE.preset("paper")
    train, task, model = config.train, config.task, config.model
    assert train.schedule_steps // 210 == train.warmup // 10 == len(task.trained) * task.rows_per_pair // 2048 == 370
    assert learning_rate(train.warmup, train) == 25e-5
    assert learning_rate(210 * 370, train) == pytest.approx(1e-5)
    assert learning_rate(train.steps, train) > 22e-5  # far from the end of the cosine
    std = {each.name: intended_std(each, model, 0.8) for each in parameters(model, task.d_vocab, task.length)}
    fan_in = {"embed.W_E": 400, "pos_embed.W_pos": 400, "blocks.1.attn.W_Q": 400, "blocks.1.attn.W_O": 200,
              "blocks.0.mlp.W_in": 400, "blocks.0.mlp.W_out": 1200, "unembed.W_U": 400}  # fmt: skip
    assert {name: std[name] for name in fan_in} == pytest.approx({name: n**-0.8 for name, n in fan_in.items()})
    assert (model.norm, model.act, train.clip, train.eps, train.weight_decay) == ("post", "relu", 1.0, 1e-8, 0.01)


def test_the_control_is_trained_on_neither_pair_and_on_all_else_alike():
    config = COMPOSITE.preset("smoke")
    control = config.sweeps[BOTH_UNSEEN]
    assert (control.gammas, control.task.held_out, control.task.exceptions) == ((0.5, 0.8), ((4, 3), (3, 4)), ())
    assert (control.model, control.train.steps, control.rates) == (config.model, config.train.steps, config.rates)
    assert list(COMPOSITE.preset("smoke", gammas=(0.1,)).sweeps) == [""]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"task": {"length": 5}}, "length=5; flows are read where noise stands between the anchors and the last"),
        ({"task": {"exceptions": []}}, "the held-out pair (4, 3) gets the same answer by inference and by its mirror"),
        ({"model": {"n_layers": 1}}, "n_layers=1; the study asks what one layer passes on to the next"),
        ({"train": {"compile": True}}, "micro_batch and compile are for language models"),
        ({"train": {"stages": ["half"]}}, "the task has no stage 'half'"),
    ],
)
def test_what_does_not_fit_is_named_in_one_sentence(data, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        from_mapping(CompositeConfig, {"preset": "smoke", **data})
