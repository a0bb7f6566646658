"""What is wrong with a study, or with what is asked of it, is said in one sentence."""

from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest
from own_studies import ONE

from rb_interp.errors import ConfigError, StudyError
from rb_interp.runs import registry

MANY_LINES = 'raise RuntimeError("the library is too old.\\nSee its page:\\n  https://nowhere")\n'


def test_an_error_of_several_lines_is_told_by_its_first(tmp_path, monkeypatch):
    (tmp_path / "mean_study.py").write_text(MANY_LINES)
    monkeypatch.syspath_prepend(tmp_path)
    told = "does not load (RuntimeError: the library is too old); mend"
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("mean", "mean_study:STUDY", group)])
    (found,) = registry.installed_studies()
    assert found.problem == f"study 'mean' of the distribution 'unknown' {told} or uninstall 'unknown'."
    with pytest.raises(StudyError) as raised:
        replace(ONE, narrative="mean_study:narrative").load("narrative")
    place = "gives narrative = 'mean_study:narrative', which"
    assert str(raised.value) == f"study 'one' {place} {told} 'mean_study'."


@pytest.mark.parametrize("name", registry.names())
def test_a_setting_that_a_study_does_not_have_is_named(name, tmp_path):
    with pytest.raises(ConfigError, match=f"study '{name}' has no setting 'sede'; did you mean 'seeds'"):
        registry.study(name).preset("smoke", sede=(1,))
    with pytest.raises(ConfigError, match=f"study '{name}' has no setting 'norm'; known: .*preset, "):
        registry.study(name).run(preset="smoke", norm="pre", out=tmp_path)
    assert not list(tmp_path.iterdir())
