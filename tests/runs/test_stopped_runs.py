"""Runs that are stopped, killed or written by somebody else: nothing is lost, and the command goes on."""

import signal
from threading import Thread

import pytest
from own_studies import ONE, only_store, start

from rb_interp.errors import RunError
from rb_interp.json_files import json_of
from rb_interp.runs import Run
from rb_interp.signals import Stopped
from rb_interp.training import store as stores
from rb_interp.training.loop import Training
from rb_interp.training.member_group import MemberGroup


@pytest.mark.wide
@pytest.mark.parametrize(("number", "step"), [(signal.SIGINT, 10), (signal.SIGINT, 20), (signal.SIGTERM, 10)])
def test_a_signal_in_an_evaluation_loses_nothing(number, step, tmp_path, monkeypatch):
    """It is noted, and taken when all members stand at one step; the run goes on from there to the same bits."""
    run, before = start(tmp_path / "run"), signal.getsignal(number)
    kind = next(kind for kind in MemberGroup.__subclasses__() if "evaluate" in vars(kind))
    evaluate, sent = kind.evaluate, [number]

    def stopped(group):
        if group.step == step and sent:
            signal.raise_signal(sent.pop())
        return evaluate(group)

    own = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    signal.signal(number, own)
    try:
        with monkeypatch.context() as patch:
            for each in MemberGroup.__subclasses__():
                patch.setattr(each, "evaluate", stopped)
            with pytest.raises(Stopped, match=f"stopped by {number.name}"):
                run.train(progress=False)
        assert signal.getsignal(number) is own
    finally:
        signal.signal(number, before)
    assert run.sweep().step == step
    assert run.finished == (step == 20)
    run.train(progress=False)
    assert run.finished
    whole = start(tmp_path / "whole")
    whole.train(progress=False)
    assert only_store(run).names() == only_store(whole).names()
    assert run.curves.equals(whole.curves)


def test_a_signal_while_the_last_state_is_saved_loses_nothing(tmp_path, monkeypatch):
    run, before, save = start(tmp_path / "run"), signal.getsignal(signal.SIGINT), Training._save

    def stopped(training):
        signal.raise_signal(signal.SIGINT)
        save(training)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Training, "_save", stopped)
            with pytest.raises(Stopped):
                run.train(progress=False)
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.finished


def test_a_signal_while_a_checkpoint_is_read_is_not_taken_for_a_bad_file(one, monkeypatch):
    """Inside torch KeyboardInterrupt has come out as ValueError("could not determine the shape of object type ...")."""

    def as_torch_does(text):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("could not determine the shape") from None
        return json_of(text)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(stores, "json_of", as_torch_does)
    try:
        with pytest.raises(Stopped, match="stopped by SIGINT"):
            only_store(one).read("state")
    finally:
        signal.signal(signal.SIGINT, before)


def test_training_that_ended_before_its_table_writes_it_when_continued(tmp_path):
    run = start(tmp_path / "run")
    run.train(progress=False)
    whole, toml = run.table("curves"), (run.folder / "config.toml").read_text()
    for name in ("curves.parquet", "config.toml"):
        (run.folder / name).unlink()
    start(tmp_path / "run").train(progress=False)
    assert run.table("curves").equals(whole)
    assert (run.folder / "config.toml").read_text() == toml


def test_a_run_that_somebody_writes_can_be_read_and_not_written(one, tmp_path):
    with one.writing():
        found = []

        def beside():
            again = Run.open(one.folder, study=ONE)
            found.append(again.verdicts)
            assert again.write_report(tmp_path / "elsewhere").exists()
            for work in (again.train, again.probe, again.write_report, lambda: again.add_seeds(1)):
                with pytest.raises(RunError, match="is being written by process"):
                    work()
            found.append("refused")

        other = Thread(target=beside)
        other.start()
        other.join()
    assert found[1:] == ["refused"]


def test_a_run_killed_before_it_began_can_begin(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".run.json.abc.tmp").write_text("{")
    assert start(folder).sweep().step is None
