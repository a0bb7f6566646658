"""Studies of several parts: configuration, folder, the whole job on tiny ones, and no damage from bad input."""

import json
import math
import os
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import tomllib
import torch
from markupsafe import escape

from rb_interp.claims import claims_of
from rb_interp.cli import main, parse
from rb_interp.errors import ConfigError, RunError
from rb_interp.figures.registry import figures_of
from rb_interp.study.emb_mlp import agreement_table
from rb_interp.study.series import Series, default_series_folder
from rb_interp.study.series_config import SeriesConfig, load_study, series_from_mapping
from rb_interp.training.member_group import Member

EMB_MLP = """
study = "emb-mlp"
preset = "smoke"
seeds = [0, 1]
[sweep.train]
steps = 60
[descent]
gammas = [0.3, 0.8]
[descent.train]
steps = 60
lr = 1.0
n_checkpoints = 1
[one_layer]
gammas = [0.3, 0.8]
[one_layer.train]
steps = 30
[scaling]
d_models = [80, 120]
gammas = [0.3, 0.8]
n_init = 5
"""
LABELS = """
study = "labels"
preset = "smoke"
seeds = [0, 1]
""" + "".join(
    f"[{part}]\nprobe_rows = 100\n[{part}.train]\nsteps = 60\nbatch_size = 16\n"
    for part in ("keys", "near_sum", "ranges")
)


@pytest.fixture(scope="module", params=["emb-mlp", "labels"])
def done(request, tmp_path_factory):
    """A finished study, and its folder."""
    place = tmp_path_factory.mktemp(request.param)
    (place / "study.toml").write_text(EMB_MLP if request.param == "emb-mlp" else LABELS)
    assert main(["reproduce", "--config", str(place / "study.toml"), "--out", str(place / "run")]) == 0
    return Series.open(place / "run")


@pytest.fixture(scope="module")
def emb_mlp(tmp_path_factory):
    """The same as ``done`` for tests of one study alone, trained and measured without a report."""
    from rb_interp.study.series import probe_series

    series = Series.start(tmp_path_factory.mktemp("emb") / "run", series_from_mapping(tomllib.loads(EMB_MLP)))
    series.train(progress=False)
    probe_series(series, progress=False)
    return series


@pytest.mark.lens
def test_the_report_holds_every_claim_and_every_figure(done):
    study = done.config.study
    page, claims = (done.folder / "report.html").read_text(), json.loads((done.folder / "claims.json").read_text())
    assert [claim["id"] for claim in claims] == [claim.id for claim in claims_of(study)]
    for claim in claims:
        assert f">{claim['id']}<" in page
        assert claim["tier"] == "custom"
        assert claim["verdict"] == "UNDECIDED"  # two seeds decide nothing
        assert claim["effect"] is not None
    for figure in figures_of(study):
        assert escape(figure.title) in page
        assert (done.folder / "figures" / f"{figure.id}.svg").stat().st_size > 1000
    assert "http://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
@pytest.mark.lens
def test_the_same_command_again_trains_nothing_and_gives_the_same_verdicts(done, capsys):
    before = {path: path.stat().st_mtime_ns for path in done.folder.glob("*/checkpoints/*")}
    verdicts = (done.folder / "claims.json").read_bytes()
    assert len(before) > 10
    for command in (["probe"], ["report"], ["info"]):
        assert main([*command, str(done.folder)]) == 0
    told = capsys.readouterr().out
    assert "finished" in told
    assert {path: path.stat().st_mtime_ns for path in done.folder.glob("*/checkpoints/*")} == before
    assert (done.folder / "claims.json").read_bytes() == verdicts


def test_measured_drift_is_what_the_checkpoints_say(emb_mlp):
    """R^2 at a kept step, from the raw files, with the formula written out again."""
    table, run = pd.read_parquet(emb_mlp.folder / "drift.parquet"), emb_mlp.parts["descent"]
    task, step = run.config.task, run.stage_steps("leaving")[Member(0.8, 1)]
    assert 0 < step < 60
    assert step not in run.kept_steps
    data = task.dataset(1)
    rows = data.rows("train")
    R = np.zeros((task.d_vocab, task.d_vocab))
    for tokens, label in zip(data.tokens[rows], data.labels[rows], strict=True):
        for token in tokens:
            R[token] -= 1 / task.d_vocab / len(rows)
            R[token, label] += 1 / len(rows)
    kept, start = run.checkpoint("leaving", 0.8, 1), run.weights(0.8, 1, "init")
    anchors = np.r_[task.tokens("memory_anchor"), task.tokens("reasoning_anchor")]
    moved = (kept.member(0.8, 1)["embed.W_E"].double() - start["embed.W_E"].double()).numpy()[anchors]
    fixed = 1.0 * step * (start["mlp.W_in"].double() @ start["mlp.W_out"].double()).T.numpy()
    found = table[(table.part == "descent") & (table.gamma == 0.8) & (table.seed == 1) & (table.step == step)]
    found = found[found.group == "anchor"].set_index("prediction")
    for prediction, sums in (("each_step", kept.drift(0.8, 1)["map"].double().numpy()), ("step_0", fixed)):
        predicted = (R @ sums)[anchors]
        m, p = moved - moved.mean(0), predicted - predicted.mean(0)
        assert found.r2[prediction] == pytest.approx(1 - ((m - p) ** 2).sum() / (m**2).sum(), abs=1e-6)
        assert found.cos[prediction] == pytest.approx((m * p).sum() / np.sqrt((m**2).sum() * (p**2).sum()), abs=1e-6)
    assert found.r2["each_step"] > 0.9
    predicted = (R @ kept.drift(0.8, 1)["map"].double().numpy())[anchors]
    p, rng, draws = predicted - predicted.mean(0), np.random.default_rng(0), []
    for _ in range(2000):
        order = np.r_[rng.permutation(4), 4 + rng.permutation(4)]
        draws.append(1 - ((m - p[order]) ** 2).sum() / (m**2).sum())
    error = np.std(draws) / math.sqrt(len(draws))
    assert found.r2_permuted["each_step"] == pytest.approx(np.mean(draws), abs=4 * error)


def test_positions_give_each_occurrence_at_the_end_its_own_way(emb_mlp):
    """The one-layer prediction by position, from the raw files: the residual stream carries the last token alone."""
    table, run = pd.read_parquet(emb_mlp.folder / "drift.parquet"), emb_mlp.parts["one_layer"]
    task, data = run.config.task, run.config.task.dataset(0)
    rows = data.rows("train")
    excess = np.eye(task.d_vocab)[data.labels[rows]] - 1 / task.d_vocab
    seen = np.eye(task.d_vocab)[data.tokens[rows]]
    R, last = seen.sum(1).T @ excess / len(rows), seen[:, -1].T @ excess / len(rows)
    kept = run.checkpoint(10, 0.8, 0)
    sums = {name: value.double().numpy() for name, value in kept.drift(0.8, 0).items()}
    anchors = np.r_[task.tokens("memory_anchor"), task.tokens("reasoning_anchor")]
    moved = (kept.member(0.8, 0)["embed.W_E"].double() - run.weights(0.8, 0, "init")["embed.W_E"].double()).numpy()
    m = moved[anchors] - moved[anchors].mean(0)
    found = table[(table.part == "one_layer") & (table.gamma == 0.8) & (table.seed == 0) & (table.step == 10)]
    found = found[found.group == "anchor"].set_index("prediction").r2
    printed = R / 3 @ (sums["attention"] + sums["direct"])
    by_position = R / 3 @ sums["attention"] + last @ sums["direct"]
    for prediction, predicted in (("each_step", printed), ("positions", by_position)):
        p = predicted[anchors] - predicted[anchors].mean(0)
        assert found[prediction] == pytest.approx(1 - ((m - p) ** 2).sum() / (m**2).sum(), abs=1e-6)
    assert found["positions"] > 0.99 > 0.95 > found["each_step"]


def test_readings_at_leaving_are_those_of_that_checkpoint(emb_mlp):
    readings = pd.read_parquet(emb_mlp.folder / "readings.parquet")
    drift = readings[readings.probe == "drift"]
    assert set(drift.stage) == {"leaving"}
    assert set(drift.part) == {"sweep", "descent", "one_layer"}
    for (part, gamma, seed), rows in drift.groupby(["part", "gamma", "seed"]):
        assert set(rows.step) == {emb_mlp.parts[part].checkpoint("leaving", gamma, seed).step}
        anchor = rows[rows["rows"] == "anchor"].set_index("quantity").value
        assert anchor.r2_excess == pytest.approx(anchor.r2 - anchor.r2_permuted)
        assert ("r2_positions" in anchor) == (part == "one_layer")
    geometry = readings[readings.probe == "geometry"].groupby("stage").step.unique()
    assert [geometry[stage].tolist() for stage in ("init", "early", "late", "final")] == [[0], [0], [50], [60]]
    drift = pd.read_parquet(emb_mlp.folder / "drift.parquet")
    mine = drift[(drift.part == "descent") & (drift.group == "reasoning_anchor") & (drift.step > 0)]
    r2 = mine.pivot_table(index=["gamma", "seed", "step"], columns="prediction", values="r2")
    np.testing.assert_allclose(r2["population"], r2["each_step"])  # every key with every trained combination, once


def test_agreement_is_lost_where_it_first_falls_below():
    values = {10: 0.95, 20: 0.89, 40: 0.97, 80: -3.0}
    rows = [{"step": 0, "cos": math.nan, "r2": math.nan, "fraction": 1.0}]
    rows += [{"step": s, "cos": 0.99, "r2": v, "fraction": 1 - s / 100} for s, v in values.items()]
    named = {"part": "descent", "gamma": 0.8, "seed": 0, "group": "anchor", "prediction": "each_step"}
    table = agreement_table(pd.DataFrame([{**named, **row} for row in rows])).set_index("metric")
    assert (table.step["r2"], table.fraction["r2"], table.last_step["r2"]) == (20.0, 0.8, 80)
    assert math.isnan(table.step["cos"])
    assert len(agreement_table(pd.DataFrame([{**named, **row, "r2": math.nan} for row in rows]))) == 1  # cos alone
    diverged = [{**row, "r2": math.nan if row["step"] > 20 else 0.95} for row in rows]
    assert agreement_table(pd.DataFrame([{**named, **row} for row in diverged])).set_index("metric").step["r2"] == 40


def test_an_exported_member_answers_as_it_was_trained(emb_mlp):
    """The checkpoint of each part, as a TransformerLens-style model, gives the accuracy that its curve says."""
    for name, run in emb_mlp.parts.items():
        model, data = run.model(0.8, 0), run.config.task.dataset(0)
        chosen = data.sample("rsn_train", run.config.train.eval_rows)
        with torch.no_grad():
            logits = model(torch.from_numpy(data.tokens[chosen]))[:, -1]
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(data.labels[chosen]))
        curve = run.curves().query("gamma == 0.8 and seed == 0 and set == 'rsn_train'").set_index("step").loss
        assert float(loss) == pytest.approx(curve[run.config.train.steps], rel=1e-5), name


def test_toml_and_plain_data_give_the_study_again(tmp_path):
    for text in (EMB_MLP, LABELS):
        config = series_from_mapping(tomllib.loads(text))
        (tmp_path / "again.toml").write_text(config.to_toml())
        again = load_study(tmp_path / "again.toml")
        assert (again, again.fingerprint, again.tier) == (config, config.fingerprint, "custom")
    preset = SeriesConfig.from_preset("labels", "quick", seeds=(7, 8))
    assert preset.tier == "quick"
    assert default_series_folder(SeriesConfig.from_preset("labels")).name == "labels-quick"
    assert default_series_folder(preset).name == f"labels-quick-{preset.fingerprint}"


def test_flags_choose_study_preset_and_seeds():
    command = parse(["reproduce", "--study", "labels", "--preset", "smoke", "--seeds", "3", "4"])
    assert (command.study, command.preset, command.seeds) == ("labels", "smoke", (3, 4))
    assert parse(["reproduce", "--study", "anchor", "--seeds", "3"]).sweep.config.seeds == (3,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('study = "lables"', "there is no study 'lables'; did you mean 'labels'?"),
        ('study = "labels"\n[keis.train]\nsteps = 3', "unknown key 'keis' in study 'labels'; did you mean 'keys'?"),
        ('study = "labels"\n[keys.train]\nstep = 3', "unknown key 'keys.train.step'; did you mean 'steps'?"),
        ('study = "labels"\nseeds = 3', "'seeds' is 3; expected a list of whole numbers, at least one."),
        ('study = "labels"\n[scaling]\nn_init = 3', "unknown key 'scaling' in study 'labels'"),
        ('study = "emb-mlp"\n[scaling]\nd_models = [100]', "d_models=[100]; expected two or more widths, ascending."),
        (
            'study = "labels"\n[keys]\nseeds = [9]',
            "the parts of study 'labels' have different seeds; give them the same.",
        ),
        (
            'study = "emb-mlp"\n[one_layer.model]\nd_model = 7',
            "d_model=7 and d_vocab=100 with architecture='one_layer'",
        ),
        (
            'study = "emb-mlp"\n[descent.train]\noptimiser = "adamw"',
            "descent.train.optimiser='adamw'; part 'descent' of",
        ),
        (
            'study = "emb-mlp"\n[sweep.train]\ntrack_drift = false',
            "sweep.train.track_drift=False; part 'sweep' of study",
        ),
        (
            'study = "emb-mlp"\n[descent.train]\nstages = ["half"]',
            "descent.train.stages=('half',) lacks 'leaving', which",
        ),
        (
            'study = "emb-mlp"\n[descent.train]\nbatch_size = 64',
            "descent.train.batch_size=64; part 'descent' is full-b",
        ),
        ('study = "emb-mlp"\n[scaling]\nd_models = [80, 90]', "scaling.d_models begins at 80; the labels of part"),
        (
            'study = "labels"\n[keys.train]\nlr = 0.1',
            "parts 'keys' and 'near_sum' of study 'labels' differ in train.lr",
        ),
        (
            'study = "labels"\n[keys.task]\nmemory_labels = "near_sum"',
            "keys.task.memory_labels='near_sum'; part 'keys' of",
        ),
    ],
)
def test_bad_configurations_are_named_in_one_sentence(text, message, tmp_path, capsys):
    (tmp_path / "study.toml").write_text(text)
    assert main(["train", "--config", str(tmp_path / "study.toml"), "--out", str(tmp_path / "run")]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.strip().splitlines()[-1].startswith("rb-interp: ")


def test_nothing_that_is_there_is_overwritten(tmp_path):
    config = SeriesConfig.from_preset("labels", "smoke")
    series = Series.start(tmp_path / "run", config)
    before = (tmp_path / "run/series.json").read_bytes()
    with pytest.raises(
        RunError, match=r"holds a study with another configuration \(part 'keys', seeds: .*\); nothing was changed"
    ):
        Series.start(tmp_path / "run", config.with_seeds((5,)))
    assert (tmp_path / "run/series.json").read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other/precious.txt").write_text("mine")
    with pytest.raises(RunError, match="exists and is not a study of rb_interp; nothing was changed"):
        Series.start(tmp_path / "other", config)
    assert os.listdir(tmp_path / "other") == ["precious.txt"]
    assert main(["probe", str(series.folder)]) == 2  # not trained yet
    (tmp_path / "run/series.json").write_text("{")
    with pytest.raises(RunError, match=r"series.json cannot be read .* it is damaged"):
        Series.open(tmp_path / "run")


def test_parts_and_studies_are_told_apart(emb_mlp, capsys):
    part = str(emb_mlp.parts["sweep"].folder)
    for command in ("probe", "report"):
        assert main([command, part]) == 2
        assert f"{part} is a part of a study; {command} the folder of the whole study" in capsys.readouterr().err
    assert main(["patch", str(emb_mlp.folder)]) == 2
    assert "is a study of several parts; name one of them: descent, one_layer, sweep." in capsys.readouterr().err
    for command in ("patch", "ablate"):
        assert main([command, part]) == 2
        assert "is in a transformer layer, and a EmbMLP has none" in capsys.readouterr().err


def test_reading_a_study_writes_nothing(tmp_path):
    series = Series.start(tmp_path / "run", SeriesConfig.from_preset("labels", "smoke"))
    shutil.rmtree(series.parts["ranges"].folder)
    with pytest.raises(RunError, match=r"ranges is not a run folder: it has no run\.json"):
        Series.open(series.folder)
    assert not series.parts["ranges"].folder.exists()
    assert sorted(Series.start(series.folder, series.config).parts) == ["keys", "near_sum", "ranges"]


def test_every_member_has_a_row_where_claims_are_read(emb_mlp):
    drift, flow = (pd.read_parquet(emb_mlp.folder / f"{name}.parquet") for name in ("drift", "value_flow"))
    for name, run in emb_mlp.parts.items():
        for member in run.members:
            step = run.checkpoint("leaving", member.gamma, member.seed).step
            for table in (drift, *([flow] if name == "one_layer" else [])):
                mine = table[(table.part == name) & (table.gamma == member.gamma) & (table.seed == member.seed)]
                assert step in set(mine.step)
                assert not mine.duplicated(
                    [column for column in ("step", "group", "prediction") if column in mine]
                ).any()


def test_flags_of_the_anchor_study_are_refused_where_there_are_parts():
    with pytest.raises(
        ConfigError, match="study 'emb-mlp' has several parts and no --gammas; it takes --study, --preset"
    ):
        parse(["reproduce", "--study", "emb-mlp", "--gammas", "0.3"])


def test_the_anchor_study_refuses_simplified_models_before_it_trains(tmp_path, capsys):
    flags = ["--preset", "smoke", "--architecture", "emb_mlp", "--n-layers", "1", "--out", str(tmp_path / "run")]
    assert main(["reproduce", *flags]) == 2
    assert "architecture='emb_mlp'; the anchor study reads attention in two layers." in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_unknown_preset_or_disagreement_is_named(tmp_path):
    (tmp_path / "study.toml").write_text('study = "labels"')
    with pytest.raises(ConfigError, match=r"--study emb-mlp and .*study.toml \(study labels\) disagree"):
        parse(["reproduce", "--study", "emb-mlp", "--config", str(tmp_path / "study.toml")])
    with pytest.raises(ConfigError, match="there is no preset 'quik'; did you mean 'quick'"):
        parse(["reproduce", "--study", "labels", "--preset", "quik"])
    small = SeriesConfig.from_preset("labels", "smoke")
    assert replace(small, parts=small.parts) == small
