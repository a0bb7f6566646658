"""Runs that are stopped, killed or written by somebody else: nothing is lost, and the command goes
on."""

import signal

import pytest
from own_studies import only_store, start

from rb_interp.training.loop import Training
from rb_interp.training.member_group import MemberGroup

pytestmark = pytest.mark.trains


@pytest.mark.wide
@pytest.mark.parametrize("step", [10, 20])
def test_a_signal_in_an_evaluation_loses_nothing(step, ctrl_c, tmp_path, monkeypatch):
    """All members are brought to one step and saved; the run goes on from there to the same
    bits."""
    run = start(tmp_path / "run")
    kind = next(kind for kind in MemberGroup.__subclasses__() if "evaluate" in vars(kind))
    evaluate, sent = kind.evaluate, [signal.SIGINT]

    def stopped(group):
        if group.step == step and sent:
            signal.raise_signal(sent.pop())
        return evaluate(group)

    with monkeypatch.context() as patch:
        for each in MemberGroup.__subclasses__():
            patch.setattr(each, "evaluate", stopped)
        with pytest.raises(KeyboardInterrupt):
            run.train(progress=False)
    assert run.sweep().step == step
    assert not run.finished  # the evaluation is made again
    run.train(progress=False)
    assert run.finished
    whole = start(tmp_path / "whole")
    whole.train(progress=False)
    assert only_store(run).names() == only_store(whole).names()
    assert run.curves.equals(whole.curves)


def test_a_signal_while_the_last_state_is_saved_loses_nothing(ctrl_c, tmp_path, monkeypatch):
    run, save = start(tmp_path / "run"), Training._save

    def stopped(training):
        monkeypatch.setattr(Training, "_save", save)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Training, "_save", stopped)
    with pytest.raises(KeyboardInterrupt):
        run.train(progress=False)
    assert run.finished
