"""The configuration of the label study refuses what its claims could not be about."""

import re
from dataclasses import replace

import pytest

from rb_interp.errors import ConfigError
from rb_interp.runs.config import fingerprint, from_mapping, scale_of
from rb_interp.settings import plain as plain_data
from rb_interp.studies.labels import LABELS
from rb_interp.studies.labels.config import LabelsConfig


def test_the_presets_are_the_papers_labels_on_the_anchor_task():
    config = LABELS.preset("quick")
    assert list(config.sweeps) == ["keys", "near_sum", "ranges"]
    assert [sweep.task.memory_labels for sweep in config.sweeps.values()] == list(config.sweeps)
    assert config.ranges.task.label_ranges == ((30, 49), (30, 69), (30, 89), (30, 109))
    assert {sweep.gammas for sweep in config.sweeps.values()} == {(0.8,)}
    assert [LABELS.preset(name).keys.train.steps for name in LabelsConfig.PRESETS] == [300, 4000, 500_000]


def test_plain_data_gives_the_study_again():
    data = {"preset": "smoke", "seeds": [3], "probe_rows": 50, "ranges": {"train": {"steps": 10}}}
    config = from_mapping(LabelsConfig, data)
    assert (config.seeds, config.ranges.train.steps, config.keys.train.steps) == ((3,), 10, 300)
    again = from_mapping(LabelsConfig, plain_data(config))
    assert (again, fingerprint(again), scale_of(again)) == (config, fingerprint(config), "custom")
    assert scale_of(LABELS.preset("quick", seeds=(7, 8))) == "quick"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"keis": {"train": {"steps": 3}}}, "unknown key 'keis'; did you mean 'keys'?"),
        ({"keys": {"train": {"step": 3}}}, "unknown key 'keys.train.step'; did you mean 'steps'?"),
        ({"scaling": {"n_init": 3}}, "unknown key 'scaling'"),
        ({"keys": {"seeds": [9]}}, "unknown key 'keys.seeds'"),
        (
            {"keys": {"train": {"lr": 0.1}}},
            "'keys' and 'near_sum' of study 'labels' differ in train.lr (0.1, 0.003)",
        ),
        ({"near_sum": {"gammas": [0.5]}}, "sweeps 'keys' and 'near_sum' of study 'labels' differ in gammas"),
        ({"keys": {"task": {"memory_labels": "near_sum"}}}, "keys.task.memory_labels='near_sum'; sweep 'keys' of"),
        ({"ranges": {"train": {"stages": ["half"]}}}, "ranges.train.stages=('half',) lacks 'before_memory', which"),
        ({"ranges": {"task": {"memory_share": 1.0}}}, "memory_share=1.0; the study compares memory with reasoning"),
        ({"ranges": {"model": {"n_layers": 1}}}, "n_layers=1; the study's circuits need two layers"),
        ({"ranges": {"train": {"micro_batch": 8}}}, "micro_batch=8, compile=False; these are for language models"),
        ({"ranges": {"train": {"optimiser": "sgd"}}}, "optimiser='sgd', which is full-batch here"),
    ],
)
def test_what_does_not_fit_is_named_in_one_sentence(data, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        from_mapping(LabelsConfig, {"preset": "smoke", **data})


def test_sweeps_of_one_architecture_that_is_no_transformer_are_refused():
    smoke = LABELS.preset("smoke")
    model = replace(smoke.ranges.model, architecture="emb_mlp", n_layers=1)
    with pytest.raises(ConfigError, match=r"model.architecture='emb_mlp'; sweep 'ranges' .* 'transformer' by def"):
        replace(smoke, ranges=replace(smoke.ranges, model=model))
