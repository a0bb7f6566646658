"""The configuration holds its sweeps to what the claims about them say that they are."""

import pytest

from rb_interp.errors import RbInterpError
from rb_interp.runs.config import from_mapping
from rb_interp.studies.emb_mlp.config import EmbMLPConfig


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
        ({"scaling": {"d_models": [80, 90]}}, "scaling.d_models begins at 80; the labels of sweep 'one_layer' go up"),
        ({"descent": {"train": {"optimiser": "adamw"}}}, "descent.train.optimiser='adamw'; sweep 'descent' of this"),
        ({"descent": {"train": {"batch_size": 64}}}, "descent.train.batch_size=64; sweep 'descent' is full-batch, so"),
    ],
)
def test_bad_settings_are_named_in_one_sentence(data, message):
    with pytest.raises(RbInterpError) as raised:
        from_mapping(EmbMLPConfig, data)
    assert message in str(raised.value)
