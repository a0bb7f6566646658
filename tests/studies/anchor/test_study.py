"""The study through the machine: configured, trained, measured, judged, reported, and opened again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from made_up import places
from synthetic_evidence import make_evidence
from table_columns import check_run

from rb_interp.errors import ConfigError
from rb_interp.interventions.circuits import CAUSES
from rb_interp.models.config import ModelConfig
from rb_interp.probes import attention_by_role
from rb_interp.runs.run import Run
from rb_interp.statistics.intervals import proportion_interval, t_interval
from rb_interp.studies.anchor import ANCHOR, measure
from rb_interp.studies.anchor.circuits import CIRCUITS
from rb_interp.studies.anchor.config import FIXED, AnchorConfig
from rb_interp.training.config import TrainConfig

pytestmark = pytest.mark.wide


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": ModelConfig(n_layers=1)}, "n_layers=1; a study asks what L1 does"),
        ({"model": ModelConfig(architecture="emb_mlp", n_layers=1)}, "architecture='emb_mlp'; .*study 'emb-mlp'"),
        ({"train": TrainConfig()}, r"train.stages=\(\) lacks 'half', which study 'anchor' measures; add it"),
    ],
)
def test_settings_that_the_study_cannot_read_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        AnchorConfig.from_preset("quick", **change)


def test_a_run_is_judged_and_opens_again_as_it_was(run):
    check_run(run)
    again = Run.open(run.folder, study=ANCHOR)
    assert again.config == run.config
    assert [verdict.id for verdict in again.verdicts] == [claim.id for claim in ANCHOR.load("claims")]
    assert {verdict.scale for verdict in again.verdicts} == {"custom"}
    assert again.verdicts["M1"].calibrated is True
    assert again.verdicts["A1"].calibrated is None
    assert len(again.verdicts["A1"].conditions[0].values) == 2
    assert [check.of for check in again.evidence.checks] == [check.of for check in ANCHOR.load("checks")]
    pd.testing.assert_frame_equal(again.evidence.readings, run.evidence.readings)


def test_made_up_readings_are_a_part_of_a_runs(run):
    made_up = make_evidence().readings
    shorter = ~made_up["quantity"].isin(["key_at_4", "key_at_5", "key_at_6"])  # rows of the run have fewer positions
    assert places(made_up[shorter]) - places(run.readings) == set()


def test_statistics_over_seeds_are_those_of_the_members(run):
    circuits, counts = run.table("circuits"), run.table("circuit_counts")
    assert counts.groupby("named_by")["n"].sum().to_dict() == {"cause": 6, "attention": 6}
    assert len(circuits) == 6
    here = counts[counts["gamma"] == 0.3]
    assert here["circuit"].tolist() == [*CAUSES, *CIRCUITS]
    differ = circuits[circuits["cause"] != circuits["circuit"]].groupby("gamma").size()
    assert run.table("circuit_disagreement").set_index("gamma")["n"].to_dict() == {
        gamma: differ.get(gamma, 0) for gamma in (0.3, 0.5, 0.8)
    }
    row = counts.iloc[0]
    assert (row["share"], row["low"], row["high"]) == proportion_interval(int(row["n"]), 2)
    patching, means = run.table("patching"), run.table("patching_summary")
    place = "gamma == 0.5 and counterfactual == 'key' and component == 'attn_out' and layer == 1 and role == 'last'"
    mean = means.query(place + " and circuit == '' and quantity == 'recovered'").iloc[0]
    expected = t_interval(patching.query(place)["recovered"].to_numpy())
    assert (mean["mean"], mean["low"], mean["high"], mean["n"]) == (*expected, 2)
    split = means.query(place + " and circuit != '' and quantity == 'recovered'")
    assert split["n"].sum() == 2
    largest = run.table("patching_controls").set_index("gamma")["largest"]
    assert largest[0.5] == patching[patching["gamma"] == 0.5]["control"].abs().max()
    tv = [run.evidence.arrays[f"0.8/{seed}/half/rsn_train/uniformity/tv_per_row"] for seed in (0, 1)]
    np.testing.assert_allclose(run.evidence.mean_array("uniformity", "tv_per_row", 0.8, stage="half", set="rsn_train"),
                               np.mean(tv, 0))  # fmt: skip
    values = [run.evidence.arrays[f"0.8/{seed}/half//value_alignment/singular_values"] for seed in (0, 1)]
    relative = run.evidence.mean_array("value_alignment", "relative_singular_values", 0.8, stage="half")
    np.testing.assert_allclose(relative, np.mean([each / each[0] for each in values], 0))
    of_seeds = run.evidence.array("value_alignment", "relative_singular_values", 0.8, stage="half")
    np.testing.assert_allclose(list(of_seeds.values()), [each / each[0] for each in values])


def test_events_are_summarised_on_the_logarithm_of_steps():
    events = pd.DataFrame({"gamma": 0.8, "seed": range(5), "event": "e", "event_of": "mechanism"})
    events["step"] = [0.0, 75.0, 375.0, np.nan, np.nan]  # step + 25: 25, 100, 400
    row = measure.events_summary(events).iloc[0]
    assert row[["n", "n_start", "n_never", "n_during"]].tolist() == [5, 1, 2, 2]
    assert (row["mean"], row["mean_reached"]) == pytest.approx((175.0, 75.0))
    low, high = t_interval(np.log([100.0, 400.0]))[1:]
    assert (row["low"], row["high"]) == pytest.approx((np.exp(low) - 25, np.exp(high) - 25))


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
    last = run.curves.query("sweep == @FIXED and set == 'rsn_test'").groupby("seed")["accuracy"].last()
    assert run.verdicts["M10b"].conditions[0].values == pytest.approx(tuple(last))
    assert set(run.evidence.curves["sweep"]) == {""}  # figures and report are of the main sweep
    without = replace(run.config, gammas=(0.3,))
    assert list(without.sweeps) == [""]
