"""Interventions on a run: tables are whole, agree with the calls made by hand, and the commands show them."""

import json

import numpy as np
import pandas as pd
import pytest

from rb_interp.claims.causes import CAUSES, WORDS
from rb_interp.cli import main
from rb_interp.errors import ModelError, RolesError, RunError, TaskError
from rb_interp.interventions.ablation import ablation
from rb_interp.interventions.attention import forced_average, row_entropies
from rb_interp.interventions.patching import patching_matrix
from rb_interp.study import causal
from rb_interp.study.explore import ablate_members, patch_member
from rb_interp.study.run import Run
from rb_interp.tasks.counterfactual import counterfactual, inputs

pytestmark = pytest.mark.lens

STAGES = {
    "forced_average": ("init", "early"),
    **dict.fromkeys(("leading_direction_only", "without_reasoning", "without_memory"), ("early",)),
    **dict.fromkeys(("key_blocked", "key_blocked_answers", "number_line", "number_line_component"), ("final",)),
    **{f"swap_{what}{at}": ("init", "final") for what in ("key", "sum") for at in ("", "_in_place", "_carried")},
}


@pytest.fixture(scope="module")
def run(folder):
    return Run.open(folder)


def test_every_intervention_is_there_for_every_member_at_its_stages(run):
    effects = run.read_table("effects")
    assert set(effects.intervention) == set(WORDS) == set(STAGES)
    for (gamma, _), member in effects.groupby(["gamma", "seed"]):
        for name, stages in STAGES.items():
            early = "half" if gamma == 0.8 else "matched"
            found = set(member.loc[member.intervention == name, "stage"])
            assert found == {early if stage == "early" else stage for stage in stages}, (gamma, name)
    assert len(effects.groupby(["gamma", "seed"])) == 6
    assert not effects.duplicated(["gamma", "seed", "stage", "rows", "intervention"]).any()
    np.testing.assert_allclose(effects.difference, effects.effect - effects.placebo, atol=1e-9)


def test_an_effect_is_that_of_the_call_made_by_hand(run):
    data = run.config.task.dataset(1)
    given = inputs(data, data.sample("rsn_train", causal.ROWS))
    entropies = row_entropies(run.model(0.3, 1, "matched"), given.tokens, 0)
    by_hand = forced_average(run.model(0.8, 1, "half"), given, entropies, n_draws=causal.DRAWS, seed=1).summary()
    effects = run.read_table("effects")
    row = effects[(effects.gamma == 0.8) & (effects.seed == 1) & (effects.stage == "half")]
    row = row[row.intervention == "forced_average"].iloc[0]
    for column in ("effect", "low", "placebo", "placebo_high", "difference", "p_value", "n"):
        assert row[column] == pytest.approx(by_hand[column], rel=1e-4, abs=1e-6), column


def test_claims_read_effects_as_readings_with_the_twins_beside(run):
    effects, readings = run.read_table("effects"), run.read_table("readings")
    wanted = effects[(effects.intervention == "forced_average")].set_index(["gamma", "seed", "stage"])
    found = readings[readings.probe == "forced_average"]
    for quantity in ("effect", "placebo", "difference"):
        rows = found[found.quantity == quantity].set_index(["gamma", "seed", "stage"])
        np.testing.assert_allclose(rows.value, wanted.loc[rows.index, quantity])
        trained = rows[rows.index.get_level_values("stage") != "init"]
        untrained = [wanted.loc[(gamma, seed, "init"), quantity] for gamma, seed, _ in trained.index]
        np.testing.assert_allclose(trained.twin, untrained)
    claims = {claim["id"]: claim for claim in json.loads((run.folder / "claims.json").read_text())}
    own = wanted.loc[[(0.8, 0, "half"), (0.8, 1, "half")], "effect"]
    assert claims["M10"]["parts"][0]["values"] == pytest.approx(own.tolist())
    assert [cause["of"] for cause in json.loads((run.folder / "causes.json").read_text())] == [c.of for c in CAUSES]


def test_ablations_and_matrices_are_those_of_single_calls(run):
    data, model = run.config.task.dataset(0), run.model(0.5, 0)
    chosen = data.sample("rsn_test", causal.ROWS)
    given, quiet = inputs(data, chosen), counterfactual(data, chosen, "noise")
    by_hand = ablation(model, given, "mlp_out.0", "mean", placebo=quiet, quantity="nats_lost").summary()
    table = run.read_table("ablations")
    row = table[(table.gamma == 0.5) & (table.seed == 0) & (table["rows"] == "rsn_test")]
    row = row[(row.component == "mlp_out.0") & (row.method == "mean")].iloc[0]
    assert (row.nats_lost, row.placebo_nats_lost) == pytest.approx((by_hand["effect"], by_hand["placebo"]), rel=1e-4)
    chosen = data.sample("rsn_train", causal.PAIRS)
    matrix = patching_matrix(
        model, inputs(data, chosen), counterfactual(data, chosen, "key"), components=("attn_out",), roles=("last",)
    )
    table = run.read_table("patching")
    cells = table[(table.gamma == 0.5) & (table.seed == 0) & (table.change == "key")]
    cells = cells[(cells.component == "attn_out") & (cells.role == "last")]
    np.testing.assert_allclose(cells.recovered, np.ravel(matrix.values), rtol=1e-3, atol=1e-4)


def test_patch_and_ablate_print_and_write_what_the_functions_give(run, tmp_path, capsys):
    out = tmp_path / "matrix.csv"
    arguments = ["--gamma", ".5", "--seed", "1", "--change", "anchors", "--components", "attn_out", "--pairs", "20"]
    assert main(["patch", str(run.folder), *arguments, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "corrupted inputs differ in anchors" in printed
    assert "gamma 0.5, seed 1, stage final, n 20" in printed
    table = patch_member(run, 0.5, 1, change="anchors", components=("attn_out",), pairs=20)
    np.testing.assert_allclose(pd.read_csv(out).recovered, table.recovered)
    out = tmp_path / "ablations.csv"
    assert main(["ablate", str(run.folder), "--sites", "z.1.0@last", "--n", "30", "--out", str(out)]) == 0
    assert "z.1.0@last" in capsys.readouterr().out
    table = ablate_members(run, ["z.1.0@last"], n=30, progress=False)
    np.testing.assert_allclose(pd.read_csv(out).accuracy_lost, table.accuracy_lost)
    assert len(table) == 6 * 3 * 3  # members, sets, methods


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda run: patch_member(run, 0.8, 0, components=("atn_out",)), ModelError, "did you mean 'attn_out'"),
        (lambda run: patch_member(run, 0.8, 0, roles=("keys",)), RolesError, "did you mean 'key'"),
        (lambda run: patch_member(run, 0.8, 0, change="keys"), TaskError, "did you mean 'key'"),
        (lambda run: patch_member(run, 0.8, 0, metric="logit"), ModelError, "did you mean 'logit_diff'"),
        (lambda run: patch_member(run, 0.8, 7), RunError, "no member with gamma=0.8, seed=7"),
        (lambda run: patch_member(run, 0.8, 0, pairs=1), RunError, "needs at least 2"),
        (lambda run: ablate_members(run, ["z.5"]), ModelError, "has 2 layers"),
        (lambda run: ablate_members(run, ["attn_out"]), ModelError, "write component.layer@role"),
        (lambda run: ablate_members(run, methods=["zeros"]), ModelError, "did you mean 'zero'"),
        (lambda run: ablate_members(run, gammas=[0.7]), RunError, "no member with gamma=0.7"),
    ],
)
def test_bad_input_names_the_nearest_right_one(run, call, error, message):
    with pytest.raises(error, match=message):
        call(run)


@pytest.mark.parametrize("command", ["patch", "ablate"])
def test_a_table_never_goes_over_what_is_no_table(run, command, capsys):
    before = (run.folder / "config.toml").read_bytes()
    assert main([command, str(run.folder), "--out", str(run.folder / "config.toml")]) == 2
    assert "name a file that ends in .csv" in capsys.readouterr().err
    assert (run.folder / "config.toml").read_bytes() == before
