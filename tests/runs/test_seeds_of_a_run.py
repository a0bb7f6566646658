"""Seeds of a run: added to it, added until its claims are decided, and seeds of the data that stand
apart."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from own_studies import ONE, SMALL, measure, start

from rb_interp.errors import ArgumentError, RunError
from rb_interp.runs import Run
from rb_interp.runs.measurement import seeds_to_add
from rb_interp.training.members import evaluate_model

pytestmark = pytest.mark.trains


@pytest.mark.wide
def test_added_seeds_give_the_run_that_had_them_from_the_beginning(tmp_path):
    whole = start(tmp_path / "whole", replace(SMALL, seeds=(0, 1, 2, 3)))
    grown = start(tmp_path / "grown", replace(SMALL, seeds=(0, 1)))
    grown.train(progress=False)
    with pytest.raises(ArgumentError, match="got n=0; expected a whole number from 1"):
        grown.add_seeds(0)
    grown.add_seeds(2)
    assert not grown.finished
    assert Run.open(grown.folder, study=ONE).config == grown.config == whole.config
    for run in (grown, whole):
        run.train(progress=False)
        run.probe(progress=False)
    assert grown.finished
    assert grown.sweep().members == whole.sweep().members
    assert grown.sweep().checkpoint_steps == whole.sweep().checkpoint_steps
    for name in ("curves", "readings", "summary", "doubled"):
        pd.testing.assert_frame_equal(grown.table(name), whole.table(name))
    assert grown.verdicts == whole.verdicts
    assert grown.sweep().stage_steps() == whole.sweep().stage_steps()
    for step in grown.sweep().checkpoint_steps:
        one, other = (run.sweep().whole_checkpoint(step) for run in (grown, whole))
        assert one.members == other.members
        for name, value in other.tensors.items():
            torch.testing.assert_close(one.tensors[name], value, rtol=0, atol=1e-6)
    again = start(grown.folder, replace(SMALL, seeds=(0, 1)))
    assert again.config == whole.config


def test_members_of_one_data_seed_are_probed_on_its_rows(tmp_path):
    run = start(tmp_path / "run", replace(SMALL, seeds=(0, 1), data_seed=3))
    run.train(progress=False)
    sweep, expected = run.sweep(), SMALL.task.dataset(3)
    assert sweep.dataset(0) is sweep.dataset(1)
    np.testing.assert_array_equal(sweep.dataset(1).tokens, expected.tokens)
    curve = evaluate_model(run.model(gamma=0.8, seed=1), expected, SMALL.train.eval_rows)
    last = (
        run.curves.query("gamma == 0.8 and seed == 1")
        .set_index(["step", "set"])
        .loss.loc[SMALL.train.steps]
    )
    np.testing.assert_allclose(
        [row["loss"] for row in curve], last[[row["set"] for row in curve]], rtol=1e-5
    )
    with pytest.raises(RunError, match="data_seed: 3 there, None here"):
        start(tmp_path / "run", replace(SMALL, seeds=(0, 1)))
    assert Run.open(tmp_path / "run", study=ONE).config == run.config


@pytest.mark.wide
def test_seeds_are_added_until_claims_are_decided(tmp_path, monkeypatch):
    """The claim is met by all seeds but 0: 7 of 8 do not decide, 11 of 12 do."""

    def without_seed_0(run, progress):
        found = measure(run, progress)
        found.readings.loc[found.readings["seed"] == 0, "value"] = -1.0
        return found

    study = replace(ONE, measure=without_seed_0)
    run = study.run(
        config=replace(SMALL, seeds=(0, 1)),
        out=tmp_path / "run",
        progress=False,
        until_decided=True,
    )
    assert (run.verdicts["S1"].outcome, run.verdicts["S1"].decided_after) == ("HOLDS", 12)
    assert run.batches == [(0, 1), (2, 3, 4, 5, 6, 7), (8, 9, 10, 11)]
    assert "12 seeds" in run.report.read_text()


@pytest.mark.parametrize(
    ("changes", "n_seeds", "more"),
    [
        ({}, 2, 6),
        ({}, 8, 4),
        ({}, 19, 1),
        ({}, 20, 0),
        ({}, 30, 0),
        ({"outcome": "NOT JUDGED"}, 8, 0),
        ({"unit": "share"}, 8, 0),
        ({"outcome": "FAILS"}, 8, 0),
    ],
)
def test_seeds_are_added_where_they_can_decide(one, changes, n_seeds, more):
    verdicts = [one.verdicts["S1"], replace(one.verdicts["S1"], **{"outcome": "OPEN", **changes})]
    assert seeds_to_add(verdicts, n_seeds) == more
