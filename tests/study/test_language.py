"""The language study on a tiny sweep: one command, a run folder, readings that probes called by hand give too."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.functional import cross_entropy

from rb_interp.claims import claims_of
from rb_interp.cli import main, parse
from rb_interp.errors import ConfigError, RbInterpError, RunError, TextError
from rb_interp.figures.registry import figures_of
from rb_interp.models.config import ModelConfig
from rb_interp.probes.chain import chain_accuracy
from rb_interp.probes.token_similarity import token_similarity
from rb_interp.probes.token_typing import typical_tokens
from rb_interp.probes.uniformity import uniformity_of_heads
from rb_interp.probes.vectors import participation
from rb_interp.study.language_config import LanguageConfig, language_from_mapping
from rb_interp.study.language_run import LanguageRun, is_language
from rb_interp.study.measure import probe_members
from rb_interp.study.run import Run
from rb_interp.study.series_config import load_study
from rb_interp.study.study import reproduce
from rb_interp.text.config import TEXT_SETS, TextConfig
from rb_interp.training.config import TrainConfig

SMOKE = LanguageConfig.from_preset("smoke")
TINY = replace(
    SMOKE,
    seeds=(0, 1),
    text=TextConfig(sequences=20, held_out=4, answers=4, hops=(1, 2), d_vocab=400, n_ctx=160),
    model=replace(SMOKE.model, d_model=16, d_head=8, d_mlp=32),
    train=replace(SMOKE.train, steps=20, batch_size=4, lr=1e-2, eval_every=5, eval_rows=3),
    probe_rows=2,
    n_null=20,
)
STAND_IN = "The stories are sentences of a small story grammar, standing in for TinyStories."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("language")
    (place / "study.toml").write_text(TINY.to_toml())
    assert main(["reproduce", "--config", str(place / "study.toml"), "--out", str(place / "run")]) == 0
    return place / "run"


@pytest.mark.lens
def test_the_report_holds_every_claim_figure_and_stand_in(folder, capsys):
    page, twin = (folder / "report.html").read_text(), json.loads((folder / "report.json").read_text())
    claims = json.loads((folder / "claims.json").read_text())
    assert [claim["id"] for claim in claims] == [claim.id for claim in claims_of("language")]
    for figure in figures_of("language"):
        assert figure.title in page
        assert (folder / "figures" / f"{figure.id}.png").stat().st_size > 1000
    assert STAND_IN.rstrip(".").split(" are ")[1] in page
    assert STAND_IN.rstrip(".").split(" are ")[1] in json.dumps(twin["answer"])
    assert main(["probe", str(folder)]) == 0
    assert main(["info", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert STAND_IN in printed
    assert "step 20 of 20, finished" in printed
    assert "tokenizer" in printed


def found_difference(readings):
    here = readings.query("gamma == 0.3 and seed == 1 and stage == 'final' and probe == 'token_similarity'")
    return here.set_index("quantity").value["difference"]


@pytest.mark.lens
def test_readings_agree_with_probes_called_by_hand(folder):
    run = LanguageRun.open(folder)
    text, readings = run.text(1), run.read_table("readings")
    for stage in ("early", "final"):
        model, twin = run.model(0.3, 1, stage), run.model(0.3, 1, "init")
        by_hand = token_similarity(model, text.counts, twin=twin, n_null=20)
        here = readings.query(f"gamma == 0.3 and seed == 1 and stage == '{stage}' and probe == 'token_similarity'")
        found = here.set_index("quantity")
        for name, value in by_hand.values.items():
            assert found.value[name] == pytest.approx(value, abs=1e-6, nan_ok=True)
            assert found.twin[name] == pytest.approx(by_hand.twin[name], abs=1e-6, nan_ok=True)
    ranks = readings.query("probe == 'embedding_rank' and quantity == 'participation_ratio_prontoqa'")
    vectors = run.model(0.8, 1, "final").W_E[typical_tokens(text.counts).prontoqa].detach().double().numpy()
    start = run.model(0.8, 1, "init").W_E[typical_tokens(text.counts).prontoqa].detach().double().numpy()
    found = ranks.query("gamma == 0.8 and seed == 1 and stage == 'final'").value.item()
    assert found == pytest.approx(participation(vectors) / participation(start), rel=1e-4)
    reading, _ = chain_accuracy(run.model(0.8, 0, "final"), text.tokenizer, run.text(0).examples, n_null=0)
    skills = run.read_table("skills").query("gamma == 0.8 and seed == 0 and step == 20 and kind == 'step'")
    assert np.average(skills.accuracy, weights=skills.n) == pytest.approx(reading.values["step"])
    final = readings.query("gamma == 0.8 and seed == 0 and probe == 'chain' and stage == 'final'").set_index("quantity")
    assert final.value["loss_chain"] == pytest.approx(reading.values["loss_chain"], rel=1e-5)
    course = run.read_table("similarity").query("gamma == 0.3 and seed == 1 and step == 20")
    assert course.difference.item() == pytest.approx(found_difference(readings), abs=1e-6)
    start = run.read_table("similarity").query("gamma == 0.3 and seed == 1 and step == 0").difference.item()
    at_init = readings.query("gamma == 0.3 and seed == 1 and stage == 'init' and quantity == 'difference'")
    assert start == pytest.approx(at_init.value.item(), abs=1e-6)
    for corpus in ("prontoqa", "stories"):
        tokens, _, counted = text.rows(f"{corpus}_test").batch(np.arange(2))
        by_hand = uniformity_of_heads(run.model(0.8, 1, "final"), tokens, (1,), counted)[1].values["tv"]
        here = readings.query(f"gamma == 0.8 and seed == 1 and stage == 'final' and `rows` == '{corpus}'")
        assert here.query("layer == 1 and head == 1 and quantity == 'tv'").value.item() == pytest.approx(by_hand)
    attention = readings.query("probe == 'uniformity' and quantity == 'tv'")
    assert set(attention["rows"]) == {"prontoqa", "stories"}
    assert len(attention) == 6 * 3 * 2 * 2 * 2  # members, stages, corpora, layers, heads


@pytest.mark.lens
def test_curves_and_delta_l_are_those_of_the_exported_models(folder):
    run = LanguageRun.open(folder)
    curves = run.read_table("curves").query("gamma == 0.5 and seed == 1")
    model = run.model(0.5, 1, "final")
    for name in TEXT_SETS:
        rows = run.text(1).rows(name)
        tokens = torch.from_numpy(rows.tokens[:3].astype(np.int64))
        with torch.no_grad():
            loss = cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        assert curves.query(f"set == '{name}' and step == 20").loss.item() == pytest.approx(loss.item(), abs=1e-5)
    wide = curves.pivot(index="step", columns="set", values="loss")
    delta = ((wide.stories_train - wide.prontoqa_train) / wide.prontoqa_train).mean()
    readings = run.read_table("readings").query("gamma == 0.5 and seed == 1 and probe == 'corpus_loss'")
    assert readings.set_index("quantity").value["delta_loss"] == pytest.approx(delta)
    first, second = run.text(1).entropies
    per = (wide.stories_train / second - wide.prontoqa_train / first) / (wide.prontoqa_train / first)
    assert readings.set_index("quantity").value["delta_loss_per_entropy"] == pytest.approx(per.mean())


@pytest.mark.lens
def test_a_run_is_not_continued_on_another_text(folder, tmp_path):
    stories = tmp_path / "stories.jsonl"
    stories.write_text("".join(json.dumps({"text": f"Once a cat had {n} mice. " * 40}) + "\n" for n in range(60)))
    config = replace(TINY, text=replace(TINY.text, stories=str(stories)), gammas=(0.8,), seeds=(0,))
    run = LanguageRun.start(tmp_path / "run", config)
    run.train(progress=False)
    assert run.text_about["stand_in"] == []
    lines = stories.read_text().splitlines()
    stories.write_text("\n".join(line.replace("cat", "dog") for line in lines) + "\n")
    with pytest.raises(
        RunError, match=r"the text of seed 0 is not what .* was begun with \(stories, tokenizer, entropies differ"
    ):
        LanguageRun.open(tmp_path / "run").text(0)


def test_folders_are_told_apart(folder, tmp_path, capsys):
    assert is_language(folder)
    assert not is_language(tmp_path)
    with pytest.raises(RunError, match="this is for runs on the anchor task"):
        Run.open(folder)
    assert main(["patch", str(folder)]) == 2
    assert "holds a run of language models; this is for runs on the anchor task" in capsys.readouterr().err
    with pytest.raises(RunError, match=r"call the probe on run\.model\(gamma, seed, stage\) and run\.text\(seed\)"):
        probe_members(LanguageRun.open(folder), token_similarity)
    assert set(LanguageRun.open(folder).stage_steps().values()) <= set(range(0, 25, 5))
    (tmp_path / "run.json").write_text('{"format": "rb_interp run 1"}')
    with pytest.raises(RunError, match="is not a run of this version"):
        LanguageRun.open(tmp_path)


@pytest.mark.parametrize("config", [TINY, *(LanguageConfig.from_preset(name) for name in ("smoke", "quick", "paper"))])
def test_toml_and_flags_give_the_same_study(config, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(config.to_toml())
    assert load_study(path) == config
    assert parse(["reproduce", "--config", str(path)]).sweep == config
    flags = "--study language --preset smoke --seeds 4 --stories hub --hops 1 3 --d-model 48 --scheme conv1d --steps 9"
    varied = parse(["train", *flags.split()]).sweep
    assert (varied.seeds, varied.text.stories, varied.text.hops) == ((4,), "hub", (1, 3))
    assert (varied.model.d_model, varied.model.scheme, varied.train.steps) == (48, "conv1d", 9)
    assert (varied.tier, SMOKE.tier, TINY.tier) == ("custom", "smoke", "custom")
    assert replace(SMOKE, text=replace(SMOKE.text, stories="hub")).tier == "smoke"
    assert replace(SMOKE, text=replace(SMOKE.text, n_ctx=200)).tier == "custom"


def test_bad_text_leaves_no_folder_and_a_short_context_is_refused_before_training(tmp_path):
    lost = replace(TINY, text=replace(TINY.text, stories=str(tmp_path / "lost.jsonl")))
    with pytest.raises(TextError, match=r"lost\.jsonl"):
        reproduce(lost, tmp_path / "run")
    short = replace(TINY, text=replace(TINY.text, n_ctx=20))
    with pytest.raises(TextError, match=r"none of 4 held-out PrOntoQA examples fits into n_ctx=20 \(the shortest has"):
        reproduce(short, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_where_it_is_computed_does_not_change_the_fingerprint():
    elsewhere = replace(TINY, train=replace(TINY.train, device="cuda", micro_batch=2, compile=True, workers=1))
    assert elsewhere.fingerprint == TINY.fingerprint
    assert replace(TINY, text=replace(TINY.text, n_ctx=150)).fingerprint != TINY.fingerprint


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"txt": {}}, "unknown key 'txt'; did you mean 'text'"),
        ({"text": {"storys": "hub"}}, "unknown key 'text.storys'; did you mean 'stories'"),
        ({"text": {"hops": [9]}}, r"hops=\[9\]; expected whole numbers from 1 to 8"),
        ({"train": {"batch_size": 7}}, "batch_size=7; half of a batch comes from each corpus"),
        ({"train": {"stages": ["half"]}}, r"stages=\['half'\]; the language study reads \['early'\] and no other"),
        ({"model": {"architecture": "emb_mlp"}}, "its definition has n_layers=1"),
        ({"seeds": []}, "expected at least one"),
    ],
)
def test_bad_settings_are_named(data, message):
    with pytest.raises(RbInterpError, match=message):
        language_from_mapping({"preset": "smoke", **data})


def test_language_settings_are_no_use_to_the_anchor_study():
    with pytest.raises(ConfigError, match="micro_batch=4, compile=False; these are for language models"):
        parse(["reproduce", "--micro-batch", "4"])
    with pytest.raises(ConfigError, match="there is no study 'langage'; did you mean 'language'"):
        parse(["reproduce", "--study", "langage"])


def test_the_paper_preset_is_gpt2_small():
    config = LanguageConfig.from_preset("paper")
    assert config.model == ModelConfig(12, 12, 768, 64, 3072, act="gelu_new", norm="pre", train_biases=True, tied=True)
    rows = 2 * config.text.sequences
    assert config.train.steps * config.train.batch_size == 200 * rows
    assert isinstance(config.train, TrainConfig)
    assert config.text.d_vocab == 50_257
    assert pd.Series(config.gammas).tolist() == [0.3, 0.5, 0.8]
