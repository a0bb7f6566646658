"""A run folder is refused, continued and read for what it is, whatever the study."""

import json
from dataclasses import replace
from io import StringIO
from shutil import copytree
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from own_studies import ONE, SMALL, TASK, One, measure, only_store, start
from probes.lens_models import read_weights
from rich.console import Console

from rb_interp import cli
from rb_interp.claims import Grouping, Term
from rb_interp.errors import RunError, TaskError
from rb_interp.runs import Run
from rb_interp.runs.terminal import print_run
from rb_interp.tasks import AnchorTask, anchor
from rb_interp.training.member_group import MemberGroup

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


def test_tables_say_which_members_reached_their_stage(tmp_path, monkeypatch):
    """By the learning curves of the member, and for `matched` by those of its sibling at gamma
    .8."""

    def everywhere(run, progress):
        found = measure(run, progress)
        stages = [
            found.readings.assign(stage=stage) for stage in ("init", "half", "matched", "final")
        ]
        return replace(found, readings=pd.concat(stages, ignore_index=True))

    study = replace(ONE, measure=everywhere)
    run = start(tmp_path / "run", One(seeds=(0, 1)), study)
    run.train(progress=False)
    curves = run.curves.query("set == 'rsn_train'")
    least = curves.groupby(["gamma", "seed"])["loss"].min() / np.log(run.config.task.d_vocab)
    monkeypatch.setattr(
        anchor, "HALF", least.sort_values().iloc[1:3].mean()
    )  # two of four members come so far
    run.probe(progress=False)
    for row in run.readings.to_dict("records"):
        gamma = 0.8 if row["stage"] == "matched" else row["gamma"]
        came = least[gamma, row["seed"]] <= anchor.HALF
        assert row["reached"] == (came or row["stage"] in ("init", "final")), row
    assert run.readings.groupby("stage")["reached"].sum().to_dict() == {
        **{"final": 4, "init": 4, "half": 2},
        "matched": 2 * sum(least[0.8] <= anchor.HALF),
    }
    assert run.table("doubled")["reached"].all()
    summary = run.table("summary").query("stage == 'half'")
    by_gamma = run.readings.query("stage == 'half'").groupby("gamma")["reached"].sum()
    assert summary.set_index("gamma")["n_reached"].to_dict() == by_gamma.to_dict()
    assert sorted(summary["n"]) == [2] * len(summary)
    late = {gamma: 2 - n for gamma, n in by_gamma.items() if n < 2}
    told = "; ".join(f"half at γ = {gamma:g}: {n} of 2 members" for gamma, n in late.items())
    assert told in run.evidence.unreached()
    assert "final" not in run.evidence.unreached()
    for (gamma, seed), least_of in least.items():
        if least_of <= anchor.HALF:
            run.model(
                gamma=gamma, seed=seed, stage="half"
            )  # without a warning, which would be an error
        else:
            told = f"gamma={gamma:g}, seed={seed} never came to 'half'; these are its"
            with pytest.warns(UserWarning, match=told):
                run.model(gamma=gamma, seed=seed, stage="half")
            with pytest.warns(UserWarning, match=told):
                shared = run.export(
                    gamma=gamma, seed=seed, stage="half", path=tmp_path / f"{gamma}-{seed}"
                )
            assert not shared.content["reached"]
            assert "at stage half (which it never reached" in shared.card
    screen = Console(file=StringIO(), width=300)
    print_run(run, screen)
    assert "half reached by 2 of 4" in screen.file.getvalue()
    assert run.sweep().reached(20) == dict.fromkeys(run.sweep().members, True)


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
