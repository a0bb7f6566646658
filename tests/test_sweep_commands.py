"""The command of a file with axes refuses in a sentence, and leaves no folder."""

import pytest
from axes_file import write

from rb_interp.cli import main

pytestmark = pytest.mark.usefixtures("installed")


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("train.lrr = [1]", "unknown key 'train.lrr'; did you mean 'lr'?"),
        ("train.lr = 3", "axis train.lr=3; give a list of values."),
        ('model.norm = ["non"]', "norm='non' is not known; did you mean 'none'?"),
        ("train.lr = [0.1, 0.1]", "the point {'train.lr': 0.1} is there twice; name each once."),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_a_sentence(axis, message, tmp_path, capsys):
    file = write(tmp_path, f'study = "one"\n[axes]\n{axis}\n')
    assert main(["sweep", str(file), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()
