"""The learning rate and the steps that are kept."""

from dataclasses import replace

import pytest

from rb_interp.training.config import TrainConfig, checkpoint_steps, learning_rate

pytestmark = pytest.mark.trains


def test_a_schedule_may_be_longer_or_shorter_than_training():
    whole = TrainConfig(steps=110, warmup=10, lr=1.0, lr_final=0.2)
    stopped, ended = (
        replace(whole, steps=40, schedule_steps=110),
        replace(whole, steps=200, schedule_steps=110),
    )
    for step in range(40):
        assert (
            learning_rate(step, stopped) == learning_rate(step, whole) == learning_rate(step, ended)
        )
    assert learning_rate(39, stopped) > 0.8
    assert learning_rate(150, replace(ended, lr_final=2.0)) == 1.0  # it never rises
    assert learning_rate(150, ended) == pytest.approx(0.2)
    assert learning_rate(5, replace(ended, warmup=300)) == pytest.approx(6 / 300)  # warm-up alone


def test_keep_at_keeps_every_member_at_shares_of_the_steps():
    train = TrainConfig(steps=1000, eval_every=10, n_checkpoints=1, keep_at=(0.05, 0.9))
    assert {50, 900} <= set(checkpoint_steps(train))
    assert {50, 900} & set(checkpoint_steps(replace(train, keep_at=()))) == set()
