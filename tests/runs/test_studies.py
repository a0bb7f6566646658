"""A study that does not load is told in one sentence, and stops no other."""

from own_studies import plugin

from rb_interp.runs import studies


def test_a_plugin_that_does_not_load_is_one_sentence_and_stops_no_other(tmp_path, monkeypatch):
    plugin(tmp_path, "broken", "no_such_package.anywhere:STUDY")
    plugin(tmp_path, "leaving", "leaving_study:STUDY")
    (tmp_path / "leaving_study.py").write_text("import sys\nsys.exit('needs a GPU')\n")
    plugin(tmp_path, "fine", "fine_study:STUDY")
    (tmp_path / "fine_study.py").write_text(
        "from rb_interp.runs import Study\n"
        "STUDY = Study('fine-study', 'Fine', 'Is it?', {}, config='a:b', measure='a:b')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = studies.installed_studies()
    assert found["fine-study"] is studies.study("fine-study")
    told = "study 'broken-study' of the distribution 'broken' does not load (ModuleNotFoundError: No module named "
    assert str(found["broken-study"]) == f"{told}'no_such_package'); mend or uninstall it."
    assert "'leaving' does not load (SystemExit: needs a GPU)" in str(found["leaving-study"])
