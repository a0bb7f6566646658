"""Wrong arguments of a run and of a whole study are refused in a sentence, before anything is written."""

import pytest
from own_studies import ONE, TWO

from rb_interp.errors import ArgumentError, ConfigError
from rb_interp.runs.measured import over_seeds, summary_table
from rb_interp.runs.run import Run


def test_a_configuration_of_another_study_makes_no_folder(one, tmp_path):
    message = r"^study 'one' got a Two; expected its own One."
    out = tmp_path / "run"
    for ask in (
        lambda: Run.start(out, ONE, TWO.preset("smoke")),
        lambda: ONE.run(config=TWO.preset("smoke"), out=out, progress=False),
        lambda: Run.open(one.folder, study=ONE, config=TWO.preset("smoke")),
    ):
        with pytest.raises(ConfigError, match=message):
            ask()
    assert not out.exists()


CALLS = {
    "summary_table": lambda run: summary_table(run.readings.drop(columns="head")),
    "over_seeds": lambda run: over_seeds(run.readings, ["gama"], ["value"]),
    "over_seeds of no place": lambda run: over_seeds(run.readings, [], ["value"]),
}


@pytest.mark.parametrize("call", CALLS)
def test_arguments_of_other_kinds_are_told(one, call):
    with pytest.raises(ArgumentError, match=r"got .*(; expected |; its columns are )"):
        CALLS[call](one)
