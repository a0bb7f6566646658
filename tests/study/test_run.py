"""A run folder is refused, continued and read for what it is."""

import json
import os

import pytest

from rb_interp.errors import RunError
from rb_interp.study.config import StudyConfig
from rb_interp.study.run import Run
from rb_interp.training.config import TrainConfig
from rb_interp.training.group import Group

TINY = StudyConfig.from_preset(
    "smoke",
    gammas=(0.5, 0.8),
    seeds=(0,),
    train=TrainConfig(steps=20, batch_size=16, eval_every=10, eval_rows=20, n_checkpoints=1),
)


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_another_configuration_is_refused_and_nothing_changes(tmp_path):
    Run.start(tmp_path / "run", TINY)
    before = snapshot(tmp_path)
    other = StudyConfig.from_preset("smoke", gammas=(0.5, 0.8), seeds=(1,), train=TINY.train)
    with pytest.raises(
        RunError, match=r"another configuration \(seeds: \[0\] there, \[1\] here\); nothing was changed"
    ):
        Run.start(tmp_path / "run", other)
    assert snapshot(tmp_path) == before


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("42")
    with pytest.raises(RunError, match="is not a run of rb_interp; nothing was changed"):
        Run.start(tmp_path, TINY)
    with pytest.raises(RunError, match=r"is not a run folder: it has no run.json"):
        Run.open(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "it is damaged"), ('{"format": "other"}', "is not a run of this version"), ("[]", "it is damaged")],
)
def test_a_damaged_run_file_is_named(tmp_path, text, message):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunError, match=message):
        Run.open(tmp_path)


def test_stages_and_steps_are_found_and_missing_ones_named(tmp_path):
    run = Run.start(tmp_path / "run", TINY)
    run.train(progress=False)
    assert run.finished
    assert run.train(progress=False) is None
    assert run.checkpoint("init", 0.8, 0).step == 0
    assert run.checkpoint("final", 0.8, 0).step == run.checkpoint(20, 0.5, 0).step == 20
    assert run.checkpoint("matched", 0.5, 0).step == run.stage_steps()[run.members[1]]
    with pytest.raises(RunError, match="kept steps"):
        run.weights(0.8, 0, 7)
    with pytest.raises(RunError, match="did you mean 'final'"):
        run.weights(0.8, 0, "finl")
    with pytest.raises(RunError, match="no member with gamma=0.3, seed=0"):
        run.weights(0.3, 0)
    with pytest.raises(RunError, match="'rb-interp probe"):
        run.read_table("readings")


def test_the_same_command_opens_what_is_there(tmp_path):
    run = Run.start(tmp_path / "run", TINY, "rb-interp train")
    again = Run.start(tmp_path / "run", TINY, "rb-interp train")
    assert again.about == run.about
    assert json.loads((tmp_path / "run" / "run.json").read_text())["fingerprint"] == TINY.fingerprint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into read-only folders")
def test_a_read_only_folder_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="could not be written .*Permission denied"):
        Run.start(tmp_path / "run", TINY)


def test_a_place_that_cannot_hold_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match="could not be written"):
        Run.start(tmp_path / "file" / "run", TINY)
    assert (tmp_path / "file").read_text() == "mine"


def test_an_interruption_in_the_last_evaluation_is_not_the_end(tmp_path, monkeypatch):
    run, evaluate = Run.start(tmp_path / "run", TINY), Group.evaluate

    def stopped(group):
        if group.step == TINY.train.steps:
            raise KeyboardInterrupt
        return evaluate(group)

    with monkeypatch.context() as patch:
        patch.setattr(Group, "evaluate", stopped)
        with pytest.raises(KeyboardInterrupt):
            run.train(progress=False)
    assert run.step == TINY.train.steps
    assert not run.finished
    run.train(progress=False)
    assert run.finished
    whole = Run.start(tmp_path / "whole", TINY)
    whole.train(progress=False)
    assert run.store.names() == whole.store.names()
    assert run.curves().equals(whole.curves())


def test_a_run_killed_before_it_began_can_begin(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".run.json.abc.tmp").write_text("{")
    assert Run.start(folder, TINY).step is None
