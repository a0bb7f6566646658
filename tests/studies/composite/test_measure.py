"""Phases and flows of known members, and readings of a tiny run."""

from itertools import product

import numpy as np
import pytest
from known_members import of_seeds, phases_of

from rb_interp.studies.composite.config import BOTH_UNSEEN
from rb_interp.studies.composite.phase import read_phase

pytestmark = pytest.mark.wide


def test_phases_and_flows_of_known_members(read):
    rows = phases_of(of_seeds(read, n=1)).set_index("gamma")
    assert rows["phase"].to_dict() == {0.1: "unfit", 0.5: "symmetric", 0.8: "inferential"}
    assert rows["flow"].to_dict() == {0.1: "none", 0.5: "via last", 0.8: "via anchors"}
    assert rows["n_pairs"].loc[0.1] == 0 < rows["n_pairs"].loc[0.5] == rows["n_pairs"].loc[0.8]


def test_a_run_reads_the_members_that_it_trained(smoke_run):
    run = smoke_run("composite")
    phases = run.table("phases").set_index(["gamma", "seed"])
    model = run.model(gamma=0.8, seed=1)
    values = read_phase(model, run.sweep().dataset(1)).values
    own = phases.loc[(0.8, 1)]
    assert (own["I"], own["S"], own["acc_seen_test"]) == (
        values["I"],
        values["S"],
        values["acc_seen_test"],
    )
    readings = run.table("readings")
    complexity = {
        "weight_spectra",
        "condensation",
        "lattice",
        "eigenvalue_growth",
        "complexity_contrast",
    }
    flow = {"phase", "attention_between_roles", "interchange_roles", "knock_out"}
    vectors = {"answer_cosines", "step_cosines", "variance_shares"}
    assert set(readings["probe"]) == flow | vectors | complexity | {
        "flow_match",
        "two_phases",
        "memorising",
    }
    assert np.isfinite(readings.loc[readings["probe"] == "phase", "untrained"]).all()
    control = readings.loc[readings["sweep"] == BOTH_UNSEEN]
    assert set(zip(control["gamma"], control["seed"], strict=True)) == {
        *product((0.5, 0.8), (0, 1))
    }
    model, data = run.model(gamma=0.8, seed=1, sweep=BOTH_UNSEEN), run.sweep(BOTH_UNSEEN).dataset(1)
    other = read_phase(model, data, unseen_data=run.sweep().dataset(1))
    found = (
        control.loc[(control["gamma"] == 0.8) & (control["seed"] == 1)]
        .set_index("quantity")["value"]
        .to_dict()
    )
    assert found == other.values
