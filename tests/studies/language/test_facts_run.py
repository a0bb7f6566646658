"""A run of rules beside facts, with repeated rows and other numbers of facts, from training to readings."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import rb_interp as rb
from rb_interp import probes
from rb_interp.probes.chain import chain_inputs
from rb_interp.statistics.decisive import decisive_table
from rb_interp.studies.language.config import MODELS, TRAINING, LanguageConfig
from rb_interp.studies.language.reasoning import _rule_baseline
from rb_interp.text.task import TextTask


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    rows = {"sequences": 80, "held_out": 16, "answers": 8, "facts": 4, "repeated": 8}
    task = TextTask.preset("quick", **rows, curves=("template", "rule", "stop", "fact", "repeated"))
    small = {"steps": 4, "batch_size": 16, "warmup": 1, "eval_every": 2, "eval_rows": 16}
    config = LanguageConfig(
        preset="quick",
        seeds=(3,),
        gammas=(0.3, 0.8),
        task=task,
        model=replace(MODELS["smoke"], d_model=16, d_head=8, d_mlp=16),
        train=replace(TRAINING["quick"], keep_at=(0.5,), **small),
        n_null=20,
        fact_counts=(1, 16),
    )
    out = tmp_path_factory.mktemp("facts") / "run"
    return rb.study("language").run(config=config, out=out, progress=False)


pytestmark = [pytest.mark.trains, pytest.mark.lens, pytest.mark.wide]


def values(run, probe, **place):
    table = run.readings.query("probe == @probe")
    for column, value in place.items():
        table = table[table[column] == value]
    return table.set_index("quantity")["value"]


def test_chains_and_times_are_those_of_its_members_and_curves(run):
    text = run.config.task.text(3)
    model = run.model(gamma=0.8, seed=3)
    skills = probes.chain_accuracy(model, chain_inputs(text.examples, text.tokenizer), n_null=0)
    chains = skills.tables["skills"].query("accuracy_of == 'chain'").set_index("hops")["accuracy"]
    read = values(run, "reasoning", gamma=0.8, stage="final")
    assert [read[f"chain_{hops}"] for hops in chains.index] == chains.to_list()
    baselines = {3: (_rule_baseline(text), np.log(8))}
    for name, sweep in run.sweeps.items():
        found = decisive_table(sweep.curves(), baselines).query("gamma == 0.3")
        read = values(run, "decisive", gamma=0.3, sweep=name)
        pd.testing.assert_series_equal(read, found.set_index("quantity")["value"])
    assert values(run, "decisive", sweep="")["same_sign"] in (0, 1)
    tables = run.readings.query("quantity == 'same_sign'")
    assert tables["n"].to_list() == [3]


def test_other_numbers_of_facts_are_trained_on(run):
    n = {name: sweep.dataset(3).text.config.facts for name, sweep in run.sweeps.items()}
    assert n == {"": 4, "facts_1": 1, "facts_16": 16}


def test_three_chains_of_every_kept_step_and_gamma_are_written_out(run):
    table = pd.read_parquet(run.folder / "chains.parquet")
    counts = table.groupby(["gamma", "step"]).size()
    assert set(counts) == {3}
    assert counts.loc[0.8].index.to_list() == run.sweep().checkpoint_steps
    assert (table["right"] == (table["written"] == table["expected"])).all()
