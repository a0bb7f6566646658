"""The configuration holds its sweeps to what the claims about them say that they are."""

import pytest

from rb_interp.errors import ConfigError, RbInterpError
from rb_interp.runs.config import from_mapping, scale_of
from rb_interp.settings import read_toml, to_toml
from rb_interp.studies.emb_mlp.config import EmbMLPConfig


def test_a_toml_file_gives_the_study_again(tmp_path):
    config = from_mapping(EmbMLPConfig, {"preset": "smoke", "seeds": [7], "descent": {"train": {"steps": 30}}})
    (tmp_path / "again.toml").write_text(to_toml("emb-mlp", config))
    assert from_mapping(EmbMLPConfig, read_toml(tmp_path / "again.toml")) == config
    assert (scale_of(config), scale_of(EmbMLPConfig.from_preset("paper", seeds=(9,)))) == ("custom", "paper")
    assert scale_of(from_mapping(EmbMLPConfig, {"scaling": {"n_init": 3}})) == "custom"


def test_full_batch_sweeps_see_every_row():
    for preset in EmbMLPConfig.PRESETS:
        config = EmbMLPConfig.from_preset(preset)
        assert config == from_mapping(EmbMLPConfig, {"preset": preset})
        for sweep in (config.descent, config.one_layer):
            assert sweep.train.batch_size == sweep.task.n_sequences
        assert config.adamw.train.batch_size < config.adamw.task.n_sequences


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"descend": {}}, "unknown key 'descend'; did you mean 'descent'?"),
        ({"descent": {"train": {"step": 3}}}, "unknown key 'descent.train.step'; did you mean 'steps'?"),
        (
            {"scaling": {"d_models": [80, 90]}},
            "scaling.d_models begins at 80; the labels of sweep 'one_layer' go up to",
        ),
        ({"one_layer": {"model": {"d_model": 7}}}, "d_model=7 and d_vocab=100 with architecture='one_layer'"),
        ({"descent": {"train": {"optimiser": "adamw"}}}, "descent.train.optimiser='adamw'; sweep 'descent' of this"),
        ({"descent": {"train": {"clip": 1.0}}}, "descent.train.clip=1.0; sweep 'descent' of this study has 0.0 by"),
        ({"adamw": {"train": {"track_drift": False}}}, "adamw.train.track_drift=False; sweep 'adamw' of this study"),
        ({"adamw": {"train": {"keep_at": [0.05]}}}, "adamw.train.keep_at=(0.05,) lacks 0.9, which this study"),
        ({"descent": {"train": {"stages": ["half"]}}}, "descent.train.stages=('half',) lacks 'leaving', which"),
        ({"descent": {"train": {"batch_size": 64}}}, "descent.train.batch_size=64; sweep 'descent' is full-batch, so"),
        ({"adamw": {"task": {"memory_share": 1.0}}}, "adamw.task.memory_share=1.0; the study compares memory with"),
        ({"adamw": {"train": {"compile": True}}}, "micro_batch=0, compile=True; these are for language models."),
    ],
)
def test_bad_settings_are_named_in_one_sentence(data, message):
    with pytest.raises(RbInterpError) as raised:
        from_mapping(EmbMLPConfig, data)
    assert message in str(raised.value)


def test_an_unknown_preset_is_named():
    with pytest.raises(ConfigError, match="EmbMLPConfig has no preset 'quik'; did you mean 'quick'"):
        EmbMLPConfig.from_preset("quik")
