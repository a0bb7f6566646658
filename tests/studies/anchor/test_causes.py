"""Interventions on a run: tables are whole, and agree with the calls made by hand."""

import numpy as np
import pandas as pd
import pytest
from golden.calls import FEW
from interventions.rows import Shifted
from tiny_anchor import TINY

from rb_interp.cli import main
from rb_interp.interventions.ablating import ablation
from rb_interp.interventions.patching import patching_matrix
from rb_interp.models import build_model
from rb_interp.studies.anchor import causes

pytestmark = [pytest.mark.wide, pytest.mark.filterwarnings("ignore:.*never came to")]


def test_ablations_and_matrices_are_those_of_single_calls(run):
    data, model = run.sweep().dataset(0), run.model(gamma=0.5, seed=0)
    chosen = data.sample("rsn_test", FEW["ROWS"])
    given, quiet = data.inputs(chosen), data.task.counterfactual(data, chosen, "noise")
    by_hand = ablation(
        model, given, "mlp_out.0", method="mean", control=quiet, metric="loss"
    ).summary()
    table = run.table("ablations")
    row = table[(table.gamma == 0.5) & (table.seed == 0) & (table["set"] == "rsn_test")]
    row = row[(row.component == "mlp_out.0") & (row.method == "mean")].iloc[0]
    assert (row.loss_increase, row.control_loss_increase) == pytest.approx(
        (by_hand["effect"], by_hand["control"]), rel=1e-4
    )
    chosen = data.sample("rsn_train", FEW["PAIRS"])
    matrix = patching_matrix(
        model,
        data.inputs(chosen),
        data.task.counterfactual(data, chosen, "key"),
        components=("attn_out",),
        roles=("last",),
    )
    table = run.table("patching")
    cells = table[(table.gamma == 0.5) & (table.seed == 0) & (table.counterfactual == "key")]
    cells = cells[(cells.component == "attn_out") & (cells.role == "last")]
    np.testing.assert_allclose(cells.recovered, np.ravel(matrix.values), rtol=1e-3, atol=1e-4)


def test_one_member_patched_and_all_ablated_agree_with_single_calls(run, tmp_path):
    def table_of(*words):
        assert main([*words, "--out", str(tmp_path / "table.csv")]) == 0
        return pd.read_csv(tmp_path / "table.csv")

    folder, member = (
        str(run.folder),
        ["--gamma", "0.5", "--seed", "1", "--corrupt", "anchors", "--pairs", "20"],
    )
    table = table_of("patch", folder, *member, "--components", "attn_out")
    model, data = run.model(gamma=0.5, seed=1), run.sweep().dataset(1)
    chosen = data.sample("rsn_train", 20)
    given, corrupted = data.inputs(chosen), data.task.counterfactual(data, chosen, "anchors")
    matrix = patching_matrix(model, given, corrupted, components=("attn_out",), roles=("key",))
    np.testing.assert_allclose(
        table[table.role == "key"].recovered, np.ravel(matrix.values), rtol=1e-4
    )
    assert set(table.counterfactual) == {"anchors"}
    table = table_of("ablate", folder, "--sites", "z.1.0@last", "--n", "30")
    assert len(table) == 6 * 3 * 3  # members, sets, methods
    given = data.inputs(data.sample("mem", 30))
    by_hand = ablation(model, given, "z.1.0@last", method="zero", metric="loss").summary()
    row = table[
        (table.gamma == 0.5)
        & (table.seed == 1)
        & (table["set"] == "mem")
        & (table.method == "zero")
    ]
    assert row.loss_increase.item() == pytest.approx(by_hand["effect"], rel=1e-4)


def test_a_task_with_other_answers_has_no_swaps_of_key_and_sum_and_no_number_line(monkeypatch):
    for name, few in FEW.items():
        monkeypatch.setattr(causes, name, few)
    task = Shifted(**vars(TINY["task"]))
    model, data = build_model(task, gamma=0.8), task.dataset(0)
    assert [name for name, *_ in causes.swaps(model, data)] == []
    found = {name for name, *_ in causes.finished_circuit(model, data)}
    assert found == {"key_blocked", "key_blocked_answers"}
    assert not list(causes.carried(model, data))
