"""Interventions on a run: tables are whole, and agree with the calls made by hand."""

import numpy as np
import pandas as pd
import pytest
from interventions.rows import Shifted
from tiny_anchor import FEW, TINY

from rb_interp.cli import main
from rb_interp.interventions.ablating import ablation
from rb_interp.interventions.attention import forced_average, row_entropies
from rb_interp.interventions.patching import patching_matrix
from rb_interp.models import build_model
from rb_interp.studies.anchor import causes
from rb_interp.studies.anchor.checks import CHECKS, INTERVENTIONS

pytestmark = [pytest.mark.wide, pytest.mark.filterwarnings("ignore:.*never came to")]

OF_VALUES = ("leading_direction_only", "without_reasoning", "without_memory")
STAGES = {
    "forced_average": ("init", "early"),
    "forced_average_matched": ("early",),
    **dict.fromkeys([name + end for name in OF_VALUES for end in ("", "_matched")], ("early",)),
    **dict.fromkeys(("key_blocked", "key_blocked_answers", "number_line", "number_line_component"), ("final",)),
    **{f"swap_{what}{at}": ("init", "final") for what in ("key", "sum") for at in ("", "_in_place", "_carried")},
}


def test_every_intervention_is_there_for_every_member_at_its_stages(run):
    effects = run.table("effects")
    assert set(effects.intervention) == set(INTERVENTIONS) == set(STAGES)
    circuits = run.table("circuits")
    n_alike = circuits.groupby(["gamma", "circuit"])["seed"].transform("size")
    alone_in_circuit = set(circuits.loc[n_alike == 1, ["gamma", "seed"]].itertuples(index=False, name=None))
    for (gamma, seed), member in effects.groupby(["gamma", "seed"]):
        for name, stages in STAGES.items():
            early = "half" if gamma == 0.8 else "matched"
            found = set(member.loc[member.intervention == name, "stage"])
            alone = name == "forced_average_matched" and (gamma, seed) in alone_in_circuit
            assert found == {early if stage == "early" else stage for stage in stages if not alone}, (gamma, name)
    assert len(effects.groupby(["gamma", "seed"])) == 6
    assert not effects.duplicated(["gamma", "seed", "stage", "set", "intervention"]).any()
    np.testing.assert_allclose(effects.difference, effects.effect - effects.control, atol=1e-9)


def test_a_matched_span_has_as_many_keys_as_there_are_anchors(run, monkeypatch):
    """The control of M4b: of as many directions as are projected out."""
    data, asked = run.sweep().dataset(1), []
    found = causes.attention.matched_spans

    def spans(model, given, k, group=None, **options):
        asked.append((group, k))
        return found(model, given, k, group=group, **options)

    monkeypatch.setattr(causes.attention, "matched_spans", spans)
    list(causes.value_subspaces(run.model(gamma=0.8, seed=1, stage="half"), data))
    n = [len(data.task.tokens(f"{kind}_anchor")) for kind in ("reasoning", "memory")]
    assert asked == [(None, 1), *(("key", k) for k in n)]


def test_an_effect_is_that_of_the_call_made_by_hand(run):
    data = run.sweep().dataset(1)
    given = data.inputs(data.sample("rsn_train", FEW["ROWS"]))
    entropies = row_entropies(run.model(gamma=0.3, seed=1, stage="matched"), given.tokens)
    by_hand = forced_average(
        run.model(gamma=0.8, seed=1, stage="half"), given, entropies, n_draws=FEW["DRAWS"], seed=1
    ).summary()
    effects = run.table("effects")
    row = effects[(effects.gamma == 0.8) & (effects.seed == 1) & (effects.stage == "half")]
    row = row[row.intervention == "forced_average"].iloc[0]
    for column in ("effect", "low", "control", "control_high", "difference", "p_value", "n"):
        assert row[column] == pytest.approx(by_hand[column], rel=1e-4, abs=1e-6), column


def test_claims_read_effects_as_readings_with_the_untrained_beside(run):
    effects, readings = run.table("effects"), run.table("readings")
    wanted = effects[(effects.intervention == "forced_average")].set_index(["gamma", "seed", "stage"])
    found = readings[readings.probe == "forced_average"]
    for quantity in ("effect", "control", "difference"):
        rows = found[found.quantity == quantity].set_index(["gamma", "seed", "stage"])
        np.testing.assert_allclose(rows.value, wanted.loc[rows.index, quantity])
        trained = rows[rows.index.get_level_values("stage") != "init"]
        before = [wanted.loc[(gamma, seed, "init"), quantity] for gamma, seed, _ in trained.index]
        np.testing.assert_allclose(trained.untrained, before)
    swaps = effects.query("gamma == 0.8 and stage == 'final' and `set` == 'rsn_train'").set_index("intervention")
    asked = [(name, quantity) for quantity in ("effect", "control") for name in ("swap_key", "swap_sum")]
    for condition, (name, quantity) in zip(run.verdicts["M9"].conditions, asked, strict=True):
        assert condition.values == pytest.approx(swaps.loc[name, quantity].tolist())
    assert [check.of for check in run.evidence.checks] == [check.of for check in CHECKS]


def test_ablations_and_matrices_are_those_of_single_calls(run):
    data, model = run.sweep().dataset(0), run.model(gamma=0.5, seed=0)
    chosen = data.sample("rsn_test", FEW["ROWS"])
    given, quiet = data.inputs(chosen), data.task.counterfactual(data, chosen, "noise")
    by_hand = ablation(model, given, "mlp_out.0", method="mean", control=quiet, metric="loss").summary()
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

    folder, member = str(run.folder), ["--gamma", "0.5", "--seed", "1", "--corrupt", "anchors", "--pairs", "20"]
    table = table_of("patch", folder, *member, "--components", "attn_out")
    model, data = run.model(gamma=0.5, seed=1), run.sweep().dataset(1)
    chosen = data.sample("rsn_train", 20)
    given, corrupted = data.inputs(chosen), data.task.counterfactual(data, chosen, "anchors")
    matrix = patching_matrix(model, given, corrupted, components=("attn_out",), roles=("key",))
    np.testing.assert_allclose(table[table.role == "key"].recovered, np.ravel(matrix.values), rtol=1e-4)
    assert set(table.counterfactual) == {"anchors"}
    table = table_of("ablate", folder, "--sites", "z.1.0@last", "--n", "30")
    assert len(table) == 6 * 3 * 3  # members, sets, methods
    given = data.inputs(data.sample("mem", 30))
    by_hand = ablation(model, given, "z.1.0@last", method="zero", metric="loss").summary()
    row = table[(table.gamma == 0.5) & (table.seed == 1) & (table["set"] == "mem") & (table.method == "zero")]
    assert row.loss_increase.item() == pytest.approx(by_hand["effect"], rel=1e-4)


def test_a_task_with_other_answers_has_no_swaps_of_key_and_sum_and_no_number_line(monkeypatch):
    for name, few in FEW.items():
        monkeypatch.setattr(causes, name, few)
    task = Shifted(**vars(TINY["task"]))
    model, data = build_model(task, gamma=0.8), task.dataset(0)
    assert [name for name, *_ in causes.swaps(model, data)] == []
    found = {name for name, *_ in causes.finished_circuit(model, data)}
    assert found == {"key_blocked", "key_blocked_answers"}
