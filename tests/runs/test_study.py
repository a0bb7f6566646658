"""What is wrong with a study, or with what is asked of it, is said in one sentence."""

import pytest

from rb_interp.errors import ConfigError
from rb_interp.runs import protocol


@pytest.mark.parametrize("name", protocol.names())
def test_a_setting_that_a_study_does_not_have_is_named(name, tmp_path):
    with pytest.raises(ConfigError, match="has no setting 'sede'; did you mean 'seeds'"):
        protocol.study(name).preset("smoke", sede=(1,))
    with pytest.raises(ConfigError, match="has no setting 'norm'; known: .*preset, "):
        protocol.study(name).run(preset="smoke", norm="pre", out=tmp_path)
    assert not list(tmp_path.iterdir())
