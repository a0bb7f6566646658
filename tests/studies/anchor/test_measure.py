"""The study through the machine: configured, trained, measured, judged, reported, and opened
again."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import torch
from table_columns import check_run

from rb_interp.probes import attention_by_role
from rb_interp.runs.run import Run
from rb_interp.studies.anchor import ANCHOR
from rb_interp.studies.anchor.config import FIXED

pytestmark = pytest.mark.wide


def test_a_run_is_judged_and_opens_again_as_it_was(run):
    check_run(run)
    again = Run.open(run.folder, study=ANCHOR)
    assert again.config == run.config
    assert [verdict.id for verdict in again.verdicts] == [
        claim.id for claim in ANCHOR.load("claims")
    ]
    assert again.verdicts["M1"].calibrated is True
    assert again.verdicts["A1"].calibrated is None
    assert len(again.verdicts["A1"].conditions[0].values) == 2
    assert [check.of for check in again.evidence.checks] == [
        check.of for check in ANCHOR.load("checks")
    ]
    pd.testing.assert_frame_equal(again.evidence.readings, run.evidence.readings)


def test_one_probe_reads_every_member_at_any_kept_step(run):
    found = run.probe_members(attention_by_role, stage=300, set="mem", rows=200, layer=1, n_null=0)
    own = run.readings.query("probe == 'attention_by_role' and stage == 'final' and `set` == 'mem'")
    assert found["value"].tolist() == pytest.approx(own["value"].tolist())
    assert found["untrained"].tolist() == pytest.approx(own["untrained"].tolist())
    assert set(found["step"]) == {300}


def test_small_members_are_trained_again_with_an_l0_that_only_averages(run):
    for seed in run.config.seeds:
        start, own = (run.sweep(name).weights(0.8, seed, "init") for name in (FIXED, ""))
        query = start.pop("blocks.0.attn.W_Q")
        assert not query.any()
        assert not run.sweep(FIXED).weights(0.8, seed)["blocks.0.attn.W_Q"].any()
        for name, value in start.items():
            assert torch.equal(value, own[name]), name
    last = (
        run.curves.query("sweep == @FIXED and set == 'rsn_test'").groupby("seed")["accuracy"].last()
    )
    assert run.verdicts["M10b"].conditions[0].values == pytest.approx(tuple(last))
    assert set(run.evidence.curves["sweep"]) == {""}  # figures and report are of the main sweep
    without = replace(run.config, gammas=(0.3,))
    assert list(without.sweeps) == [""]
