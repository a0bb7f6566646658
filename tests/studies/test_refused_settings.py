"""Settings that a study refuses, each named in one sentence."""

import re

import pytest

import rb_interp as rb
from rb_interp.errors import RbInterpError
from rb_interp.runs.config import from_mapping

SIZES = {f"scan_large_{end}": {"task": {"n_sequences": 150}} for end in ("low", "high")}


@pytest.mark.parametrize(
    ("study", "data", "message"),
    [
        (
            "addition-and-scan",
            {"addition_high": {"train": {"weight_decay": 0.2}}},
            "addition_high.train.weight_decay=0.2; it is 0.1 by def",
        ),
        (
            "addition-and-scan",
            {"scan_small_low": {"train": {"lr": 0.1}}},
            "may differ in train.weight_decay alone, but also differ in",
        ),
        ("addition-and-scan", SIZES, "=[100, 200, 150] of the"),
        ("anchor", {"model": {"n_layers": 1}}, "n_layers=1; a study asks what L1 does"),
        (
            "anchor",
            {"train": {"stages": []}},
            "train.stages=() lacks 'half', which study 'anchor' measures; add it",
        ),
        (
            "composite",
            {"task": {"length": 5}},
            "length=5; flows are read where noise stands between the anchors and",
        ),
        (
            "composite",
            {"task": {"exceptions": []}},
            "the held-out pair (4, 3) gets the same answer by inference and by its mirror",
        ),
        ("composite-map", {"depths": [3]}, "depths=(3,); axes share the point 2"),
        (
            "composite-map",
            {"coarse_gammas": [0.35]},
            "coarse_gammas=[0.35] are not all among gammas=[0.3",
        ),
        (
            "emb-mlp",
            {"scaling": {"d_models": [80, 90]}},
            "scaling.d_models begins at 80; the labels of sweep 'one_layer' go up",
        ),
        (
            "emb-mlp",
            {"descent": {"train": {"optimiser": "adamw"}}},
            "descent.train.optimiser='adamw'; sweep 'descent' of this",
        ),
        (
            "emb-mlp",
            {"descent": {"train": {"batch_size": 64}}},
            "descent.train.batch_size=64; sweep 'descent' is full-batch, so",
        ),
        (
            "labels",
            {"keys": {"train": {"lr": 0.1}}},
            "differ in train.lr: 0.1 there, 0.003 here; they",
        ),
        (
            "labels",
            {"keys": {"task": {"memory_labels": "near_sum"}}},
            "keys.task.memory_labels='near_sum'; sweep 'keys' of",
        ),
        (
            "labels",
            {"ranges": {"train": {"stages": ["half"]}}},
            "ranges.train.stages=('half',) lacks 'before_memory', which",
        ),
    ],
)
def test_settings_that_do_not_fit_are_named(study, data, message):
    preset = "quick" if study == "emb-mlp" else "smoke"
    with pytest.raises(RbInterpError, match=re.escape(message)):
        from_mapping(type(rb.study(study).preset(preset)), {"preset": preset, **data})
