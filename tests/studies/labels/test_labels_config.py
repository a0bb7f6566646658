"""The configuration of the label study refuses what its claims could not be about."""

import re

import pytest

from rb_interp.errors import ConfigError
from rb_interp.runs.config import from_mapping
from rb_interp.studies.labels import LABELS
from rb_interp.studies.labels.config import LabelsConfig


def test_the_presets_are_the_papers_labels_on_the_anchor_task():
    config = LABELS.preset("quick")
    assert list(config.sweeps) == ["keys", "near_sum", "ranges"]
    assert [sweep.task.memory_labels for sweep in config.sweeps.values()] == list(config.sweeps)
    assert config.ranges.task.label_ranges == ((30, 49), (30, 69), (30, 89), (30, 109))
    assert {sweep.gammas for sweep in config.sweeps.values()} == {(0.8,)}
    assert [LABELS.preset(name).keys.train.steps for name in LabelsConfig.PRESETS] == [300, 4000, 500_000]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"keys": {"train": {"lr": 0.1}}}, "'keys' and 'near_sum' of study 'labels' differ in train.lr (0.1, 0.003)"),
        ({"keys": {"task": {"memory_labels": "near_sum"}}}, "keys.task.memory_labels='near_sum'; sweep 'keys' of"),
        ({"ranges": {"train": {"stages": ["half"]}}}, "ranges.train.stages=('half',) lacks 'before_memory', which"),
        ({"ranges": {"train": {"optimiser": "sgd"}}}, "with optimiser='sgd', which is full-batch here; give"),
        ({"ranges": {"model": {"n_layers": 1}}}, "n_layers=1; the study's circuits need two layers"),
    ],
)
def test_what_does_not_fit_is_named_in_one_sentence(data, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        from_mapping(LabelsConfig, {"preset": "smoke", **data})
