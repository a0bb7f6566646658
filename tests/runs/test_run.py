"""A run folder is refused, continued and read for what it is, whatever the study."""

import json
from dataclasses import replace
from shutil import copytree
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from own_studies import ONE, SMALL, TASK, measure, only_store, start
from probes.lens_models import read_weights

from rb_interp import cli
from rb_interp.claims import Grouping, Term
from rb_interp.errors import ArgumentError, RunError, TaskError
from rb_interp.runs import Run
from rb_interp.tasks import AnchorTask
from rb_interp.training.member_group import MemberGroup
from rb_interp.training.members import evaluate_model

pytestmark = pytest.mark.trains


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_tells_what_it_found(one):
    assert [verdict.outcome for verdict in one.verdicts] == ["HOLDS"]
    assert one.verdicts["S1"].n_seeds == 8
    assert one.verdicts.to_frame().loc[0, "outcome"] == "HOLDS"
    norms = one.readings.query("gamma == 0.8")["value"]
    assert one.verdicts["S1"].effect == pytest.approx(norms.median())
    assert one.table("doubled")["value"].tolist() == (2 * one.readings["value"]).tolist()
    model = one.model(gamma=0.8, seed=3)
    assert float(model.W_E.detach().norm()) == pytest.approx(norms.iloc[3])
    assert not any(module.training for module in model.modules())
    for name, value in read_weights(model).items():
        torch.testing.assert_close(value, one.sweep().weights(0.8, 3)[name])
    assert (one.evidence.arrays["0.8/3/final//size/turned"] == model.W_E.detach().numpy().T).all()
    with pytest.raises(
        RunError, match="study 'one' has no table 'doubles'; did you mean 'doubled'"
    ):
        one.table("doubles")


def test_a_study_may_group_its_seeds(one, tmp_path):
    def groups(measured):
        large = (
            measured.tables["doubled"]
            .query("gamma == 0.8")
            .set_index("seed")["value"]
            .nlargest(5)
            .index
        )
        names = {seed: "large" if seed in large else "small" for seed in range(8)}
        return Grouping("size", names, ONE.load("claims"))

    assert one.verdicts_within == {}
    assert not (one.folder / "verdicts_within.json").exists()
    copytree(one.folder, tmp_path / "run")
    run = Run.open(tmp_path / "run", study=replace(ONE, groups=groups))
    run.probe(progress=False)
    found = run.verdicts_within
    assert {name: verdicts["S1"].n_seeds for name, verdicts in found.items()} == {
        "large": 5,
        "small": 3,
    }
    written = json.loads((run.folder / "verdicts_within.json").read_text())
    assert [group["name"] for group in written["groups"]] == ["large", "small"]
    assert Run.open(run.folder, study=ONE).verdicts_within == found
    assert "Seeds are grouped by size." in run.write_report().read_text()
    (run.folder / "verdicts_within.json").write_text("[]")
    with pytest.raises(
        RunError, match="verdicts_within.json is damaged, or something else has changed it"
    ):
        _ = Run.open(run.folder, study=ONE).verdicts


def test_a_study_of_several_sweeps_is_the_same_case(two):
    assert list(two.sweeps) == ["first", "second"]
    assert set(two.readings["sweep"]) == set(two.curves["sweep"]) == {"first", "second"}
    assert (two.folder / "first" / "checkpoints" / "state.safetensors").exists()
    assert two.verdicts["S1"].n_seeds == 2  # of the sweep that its term names
    first = two.evidence.sweep("first")
    assert (set(first.readings["sweep"]), first.gammas, first.seeds) == ({""}, [0.8], [0, 1])
    assert list(first.array(Term("size", "norms", 0.8, "final"))) == [0, 1]
    assert two.model(gamma=0.8, seed=0, sweep="second").cfg.d_model == 16
    assert "study=STUDY).reproduce() with STUDY of own_studies.py" in two.evidence.meta["command"]
    with pytest.raises(RunError, match="this run has no sweep ''; give sweep=.*first, second"):
        two.model(gamma=0.8, seed=0)
    with pytest.raises(RunError, match="did you mean 'first'"):
        two.model(gamma=0.8, seed=0, sweep="frst")


class Shifted(AnchorTask):
    """Another task with the settings of an anchor task."""


def test_a_task_of_another_class_is_another_run(tmp_path):
    other = replace(SMALL, task=Shifted(**vars(TASK)))
    start(tmp_path / "run", other)
    with pytest.raises(RunError, match="its task is of another class"):
        start(tmp_path / "run")
    with pytest.raises(
        RunError,
        match=r"a task's class or the settings have changed.* Run.open\(folder, config=...\)",
    ):
        Run.open(tmp_path / "run", study=ONE)
    assert Run.open(tmp_path / "run", study=ONE, config=other).config == other


def test_stages_and_steps_are_found_and_missing_ones_named(tmp_path):
    run = start(tmp_path / "run")
    with pytest.raises(
        RunError, match=r"has no finished train yet; this makes it: rb-interp train --config"
    ):
        run.probe(progress=False)
    run.train(progress=False)
    assert run.finished
    before = snapshot(tmp_path)
    run.train(progress=False)
    assert snapshot(tmp_path) == before
    sweep = run.sweep()
    assert sweep.checkpoint("init", 0.8, 0).step == 0
    assert sweep.checkpoint("final", 0.8, 0).step == sweep.checkpoint(20, 0.5, 0).step == 20
    assert sweep.checkpoint("matched", 0.5, 0).step == sweep.stage_steps()[sweep.members[1]]
    with pytest.raises(
        RunError, match=r"kept no checkpoint at step 7; it kept steps \[0, 10, 20\]"
    ):
        sweep.weights(0.8, 0, 7)
    with pytest.raises(RunError, match=r"this run kept no stage 'finl'; did you mean 'final'\?$"):
        sweep.weights(0.8, 0, "finl")
    with pytest.raises(RunError, match="no member with gamma=0.3, seed=0"):
        sweep.weights(0.3, 0)
    with pytest.raises(RunError, match="no finished probe yet; this makes it: rb-interp probe"):
        run.table("readings")


def test_seeds_added_elsewhere_are_seen(tmp_path):
    run = start(tmp_path / "run")
    start(tmp_path / "run").add_seeds(1)
    with pytest.raises(RunError, match="has been changed since it was opened; open it again"):
        run.train(progress=False)


def test_a_broken_checkpoint_and_a_diverged_member_are_named(tmp_path):
    run = start(tmp_path / "run")
    run.train(progress=False)
    store = only_store(run)
    kept, path = store.read("step_00000020"), store.path("step_00000020")
    whole = path.read_bytes()
    kept.tensors["unembed.b_U"][kept.members.index((0.8, 0))] = float("nan")
    store.write("step_00000020", kept.step, kept.members, kept.tensors)
    run.store.finish("train", run.store.steps["train"]["files"])
    with pytest.raises(RunError, match=r"gamma=0\.8, seed=0 diverged: its weights at step 20"):
        run.probe(progress=False)
    path.write_bytes(whole[:100])
    with pytest.raises(
        RunError, match=r"step_00000020.safetensors is damaged .*; remove it and train again"
    ):
        run.probe(progress=False)


def test_a_run_says_how_many_steps_a_graph_replayed(tmp_path, monkeypatch):
    run = start(tmp_path / "one")
    run.train(progress=False)
    assert run.store.steps["train"]["cuda_graph_replays"] == {"": 0}
    prepare = MemberGroup._prepare_steps

    def with_replays(group, *args):
        prepare(group, *args)
        group.replayed = SimpleNamespace(replays=4 + group.members[0].seed)

    monkeypatch.setattr(MemberGroup, "_prepare_steps", with_replays)
    run = start(
        tmp_path / "other",
        replace(SMALL, gammas=(0.8,), seeds=(1, 2), train=replace(SMALL.train, workers=2)),
    )
    run.train(progress=False)
    assert Run.open(run.folder, study=ONE).store.steps["train"]["cuda_graph_replays"] == {"": 5}


def test_seeds_whose_member_diverged_count_as_not_met_and_are_named(tmp_path):
    config = replace(SMALL, seeds=tuple(range(9)))
    run = start(tmp_path / "run", config)
    run.train(progress=False)
    store = only_store(run)
    state = store.read("state")
    state.tensors["curves/values"][-1, state.members.index((0.8, 1))] = float("nan")
    store.write("state", state.step, state.members, state.tensors)
    run.store.finish("train", run.store.steps["train"]["files"])
    run = Run.open(run.folder, study=ONE)
    assert [(member.gamma, member.seed) for member in run.sweep().diverged] == [(0.8, 1)]
    run.probe(progress=False)
    verdict = run.verdicts["S1"]
    assert (verdict.n_seeds, verdict.n_meeting, verdict.met[1], verdict.outcome) == (
        9,
        8,
        False,
        "OPEN",
    )
    assert (
        verdict.reason == "diverged, so not met: 1; the evidence is 11.3 after 9 seeds, needed: 40"
    )
    assert not len(run.readings.query("gamma == 0.8 and seed == 1"))
    assert len(run.readings.query("gamma == 0.5 and seed == 1")) == 1


def intervene(kind, run, out, **options):
    """The table that a command on this run writes."""
    command = kind(run=run.folder, out=out / "table.csv", **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cli.OnRun, "open", lambda _: run)
        command("")
    return pd.read_csv(command.out)


def test_interventions_ask_a_task_for_its_counterfactuals(one, monkeypatch, tmp_path):
    named = intervene(cli.Patch, one, tmp_path, set="rsn_train", pairs=8, components=("z",))
    assert {"key", "last"} <= set(named["role"])
    assert intervene(cli.Patch, one, tmp_path, pairs=8, components=("z",)).equals(
        named
    )  # the last that is trained on
    assert not intervene(
        cli.Patch, one, tmp_path, set="rsn_test", pairs=8, components=("z",)
    ).equals(named)
    monkeypatch.delattr(AnchorTask, "counterfactual")
    with pytest.raises(TaskError, match=r"AnchorTask has no counterfactual\(.*\); add it"):
        intervene(cli.Patch, one, tmp_path)
    with pytest.raises(RunError, match=r"gammas=\[0.7\]; this run has the gammas \[0.5, 0.8\]"):
        intervene(cli.Ablate, one, tmp_path, gammas=(0.7,))
    lost = intervene(
        cli.Ablate, one, tmp_path, sites=("z.0",), gammas=(0.8,), methods=("zero",), n=10
    )
    assert set(lost["set"]) == set(AnchorTask.sets)
    assert lost["control_accuracy_drop"].isna().all()
    assert lost["accuracy_drop"].notna().all()


@pytest.mark.wide
def test_added_seeds_give_the_run_that_had_them_from_the_beginning(tmp_path):
    whole = start(tmp_path / "whole", replace(SMALL, seeds=(0, 1, 2, 3)))
    grown = start(tmp_path / "grown", replace(SMALL, seeds=(0, 1)))
    grown.train(progress=False)
    with pytest.raises(ArgumentError, match="got n=0; expected a whole number from 1"):
        grown.add_seeds(0)
    grown.add_seeds(2)
    assert not grown.finished
    assert Run.open(grown.folder, study=ONE).config == grown.config == whole.config
    for run in (grown, whole):
        run.train(progress=False)
        run.probe(progress=False)
    assert grown.finished
    assert grown.sweep().members == whole.sweep().members
    assert grown.sweep().checkpoint_steps == whole.sweep().checkpoint_steps
    for name in ("curves", "readings", "summary", "doubled"):
        pd.testing.assert_frame_equal(grown.table(name), whole.table(name))
    assert grown.verdicts == whole.verdicts
    assert grown.sweep().stage_steps() == whole.sweep().stage_steps()
    for step in grown.sweep().checkpoint_steps:
        one, other = (run.sweep().whole_checkpoint(step) for run in (grown, whole))
        assert one.members == other.members
        for name, value in other.tensors.items():
            torch.testing.assert_close(one.tensors[name], value, rtol=0, atol=1e-6)
    again = start(grown.folder, replace(SMALL, seeds=(0, 1)))
    assert again.config == whole.config


def test_members_of_one_data_seed_are_probed_on_its_rows(tmp_path):
    run = start(tmp_path / "run", replace(SMALL, seeds=(0, 1), data_seed=3))
    run.train(progress=False)
    sweep, expected = run.sweep(), SMALL.task.dataset(3)
    assert sweep.dataset(0) is sweep.dataset(1)
    np.testing.assert_array_equal(sweep.dataset(1).tokens, expected.tokens)
    curve = evaluate_model(run.model(gamma=0.8, seed=1), expected, SMALL.train.eval_rows)
    last = (
        run.curves.query("gamma == 0.8 and seed == 1")
        .set_index(["step", "set"])
        .loss.loc[SMALL.train.steps]
    )
    np.testing.assert_allclose(
        [row["loss"] for row in curve], last[[row["set"] for row in curve]], rtol=1e-5
    )
    with pytest.raises(RunError, match="data_seed: 3 there, None here"):
        start(tmp_path / "run", replace(SMALL, seeds=(0, 1)))
    assert Run.open(tmp_path / "run", study=ONE).config == run.config


@pytest.mark.wide
def test_seeds_are_added_until_claims_are_decided(tmp_path, monkeypatch):
    """The claim is met by all seeds but 0: 7 of 8 do not decide, 11 of 12 do."""

    def without_seed_0(run, progress):
        found = measure(run, progress)
        found.readings.loc[found.readings["seed"] == 0, "value"] = -1.0
        return found

    study = replace(ONE, measure=without_seed_0)
    run = study.run(
        config=replace(SMALL, seeds=(0, 1)),
        out=tmp_path / "run",
        progress=False,
        until_decided=True,
    )
    assert (run.verdicts["S1"].outcome, run.verdicts["S1"].decided_after) == ("HOLDS", 12)
    assert run.batches == [(0, 1), (2, 3, 4, 5, 6, 7), (8, 9, 10, 11)]
    assert "12 seeds" in run.report.read_text()
