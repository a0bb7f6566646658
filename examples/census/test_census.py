"""Numbers of planted members are those worked out by hand, and the study reads and draws them."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from census import STUDY, measure
from census.measure import (
    GROUPS,
    PAPERS,
    agreement,
    agreements,
    along_most,
    best_rates,
    cells,
    groups,
    numbers,
    optimisers,
    sealing,
    stopped,
    whole,
)

from rb_interp import RbInterpError

GAMMAS, RATES, SEEDS = (0.3, 0.5, 0.8), (0.001, 0.002), range(30, 38)


def members(**settings):
    """A row for each combination, with nothing learned but the loss."""
    rows = pd.DataFrame(list(product(*settings.values())), columns=list(settings))
    usual = {"L0": "free", "lr": 0.002, "eps": 1e-8, "weight_decay": 0.01, "batch_size": 128}
    usual |= {
        "optimiser": "adamw",
        "gamma": 0.5,
        "norm": "none",
        "run": "",
        "circuit": "mixed",
        "accuracy_rsn_test": 1.0,
        "bias": 0.0,
    }
    usual |= {"loss_1000": 1.0, "tv_half": 0.1, "half_step": 500.0}
    usual |= dict.fromkeys(("gap_3", "gap_2.65", "acc_gap_3", "acc_gap_2.65"), 0.0)
    usual |= {f"gammas.{group}": 0.5 for group in GROUPS}
    rows = rows.assign(**{name: value for name, value in usual.items() if name not in rows})
    rows["run"] = np.arange(len(rows)).astype(str)
    return rows


@pytest.fixture
def planted(monkeypatch):
    """Average-then-key at .8 alone, key-to-anchors below; L0 fixed has a gap that is .2 smaller."""
    monkeypatch.setattr(measure, "N_GAMMAS", len(GAMMAS))
    monkeypatch.setattr(measure, "MEMBERS_A_GAMMA", len(RATES) * len(SEEDS))
    map = members(norm=["none", "post"], lr=RATES, gamma=GAMMAS, seed=SEEDS, L0=["free", "fixed"])
    small = map["gamma"] == 0.8
    map["circuit"] = np.where(small, PAPERS, "key-to-anchors")
    map["gap_3"] = map["gap_2.65"] = np.where(small, 0.1, 0.5) - 0.2 * (map["L0"] == "fixed")
    map["acc_gap_3"] = map["acc_gap_2.65"] = np.where(small, 0.0, 0.1)
    map.loc[map["norm"] == "post", "gap_3"] = np.nan
    map["loss_1000"] = np.where(map["lr"] == 0.002, 1.0, 2.0)
    factorial = members(
        norm=["none"], seed=range(30, 34), **{f"gammas.{g}": (0.5, 0.8) for g in GROUPS}
    )
    large = {group: factorial[f"gammas.{group}"] == 0.8 for group in GROUPS}
    factorial["bias"] = 1.0 * large["qk"] + 2.0 * (large["vo"] & large["mlp"])
    optimiser = members(norm=["none", "post"], seed=SEEDS, gamma=[0.8], eps=[1e-12, 1e-8, 1.01e-8])
    optimiser["bias"] = optimiser["eps"].map({1e-12: 0.3, 1e-8: 0.2, 1.01e-8: 0.15})
    forks = members(gamma=[0.5, 0.8], seed=SEEDS, fork=range(8))
    # the first half of each member's copies has another circuit, at a higher loss
    forks["loss"] = 4.0 - 0.25 * forks["fork"]
    forks["sibling"] = np.where(forks["fork"] < 4, PAPERS, "mixed")
    return {"map": map, "factorial": factorial, "optimiser": optimiser, "forks": forks}


def test_the_numbers_of_a_planted_census(planted):
    found = {}
    for part in numbers(**planted):
        for seed, quantity, value in part:
            found.setdefault(quantity, {})[seed] = value
    assert found["rho_gamma"][30] == pytest.approx(np.sqrt(3) / 2)  # ranks 1, 2, 3 and 0, 0, 1
    assert found["rho_gamma_within"][30] == pytest.approx(np.sqrt(3) / 2)
    assert found["rho_rate"][30] == pytest.approx(0.0)
    assert np.isnan(found["rho_rate_within"][30])  # no gamma has both
    assert set(found["two_circuits"].values()) == {0.0}
    assert found["gap_by_circuit"][37] == pytest.approx(0.4)
    assert "gap_by_circuit_near" not in found  # .5 and .8 are three steps apart
    assert found["gap_by_average_signed"][33] == pytest.approx(-0.2)
    assert found["gap_by_average"][33] == pytest.approx(0.2)
    assert found["gap_none"][30] == pytest.approx(0.4)
    assert "gap_post" not in found  # nobody came to 3 nats
    assert found["acc_gap_3_post"][30] == pytest.approx(0.1)
    assert found["bias_by_eps_none"][30] == pytest.approx(0.05)
    assert found["bias_by_eps_none_control"][30] == pytest.approx(0.05)


def test_a_seed_without_the_circuit_has_no_relation_and_who_does_not_infer_no_part(planted):
    map = planted["map"]
    map.loc[map["seed"] == 30, "circuit"] = "mixed"
    map.loc[map["seed"] == 31, "accuracy_rsn_test"] = 0.89
    found = [row for part in numbers(**planted) for row in part]
    rho = {seed: value for seed, quantity, value in found if quantity == "rho_gamma"}
    assert rho[30] == 0.0
    assert 31 not in rho


def test_a_cell_counts_where_two_circuits_have_two_members_each():
    here = members(gamma=GAMMAS[:2], seed=SEEDS)
    here["circuit"] = (
        ["gather-at-last-anchor"] * 2 + ["key-to-anchors"] * 2 + ["mixed"] * 11 + [PAPERS]
    )
    found = [value for _, _, value in cells(here)]
    assert found == [1.0, 0.0, 0.0, 0.0]  # each cell as it is, and with the two merged
    assert list(cells(here[here["seed"] < 35])) == []  # five members a cell


def test_the_rate_is_that_of_the_lowest_loss_of_both_gammas_together():
    here = members(lr=RATES, gamma=[0.3, 0.8], seed=[30])
    here["loss_1000"] = [1.0, 4.0, 2.0, 2.0]
    assert best_rates(here) == {"none": 0.002}
    here["loss_1000"] = [1.0, 1.0, 0.5, np.nan]  # one diverged
    assert best_rates(here) == {"none": 0.001}


def test_a_seed_of_the_other_sign_does_not_meet_and_spoils_no_other():
    differences = pd.Series([0.5, 0.5, -0.4], index=[30, 31, 32])
    found = {(seed, quantity): value for seed, quantity, value in along_most("gap", differences)}
    assert [found[seed, "gap"] for seed in differences.index] == [0.5, 0.5, -0.4]
    turned = {
        seed: value
        for seed, quantity, value in along_most("gap", -differences)
        if quantity == "gap"
    }
    assert list(turned.values()) == [0.5, 0.5, -0.4]


def test_rates_of_a_seed_agree_by_more_than_their_cells_shares_say():
    here = members(norm=["none"], lr=RATES, gamma=GAMMAS[:2], seed=[30, 31, 32, 33])
    here["circuit"] = "key-to-anchors"
    # at gamma .5 seeds 30 and 31 are average-then-key at the first rate, 30 alone at the second;
    # at .3 all are alike, so there is nothing to agree on
    half = here["gamma"] == 0.5
    first = (here["lr"] == 0.001) & here["seed"].isin([30, 31])
    second = (here["lr"] == 0.002) & (here["seed"] == 30)
    here.loc[half & (first | second), "circuit"] = PAPERS
    expected = 0.5 * 0.25 + 0.5 * 0.75
    found = {seed: value for seed, _, value in agreement(here)}
    assert found == pytest.approx(
        {30: 1 - expected, 31: -expected, 32: 1 - expected, 33: 1 - expected}
    )
    here.loc[here["seed"] == 30, "circuit"] = "mixed"
    assert 30 not in {seed for seed, _, _ in agreement(here)}


def test_pairs_that_agree_stand_beside_permuted_seeds():
    here = members(lr=(0.001, 0.002), gamma=[0.5], seed=SEEDS)
    here["circuit"] = np.where(here["seed"] < 34, PAPERS, "key-to-anchors")
    [row] = agreements(here).to_dict("records")
    assert (row["pairs"], row["alike"]) == (8, 8)
    assert row["chance"] == pytest.approx(4.0, abs=0.1)
    assert row["p"] == pytest.approx(1 / 70, abs=0.006)  # one of 70 ways to choose four seeds
    here.loc[(here["seed"] == 30) & (here["lr"] == 0.001), "circuit"] = "mixed"
    [row] = agreements(here).to_dict("records")
    assert (row["pairs"], row["alike"]) == (7, 7)


@pytest.mark.parametrize(("gamma", "seeds"), [(0.5, {*SEEDS}), (0.8, set())])
def test_agreement_is_read_at_the_gammas_where_it_was_not_seen_first(planted, gamma, seeds):
    map = planted["map"]
    map.loc[(map["gamma"] == gamma) & (map["seed"] < 34), "circuit"] = "key-to-anchors"
    map.loc[(map["gamma"] == gamma) & (map["seed"] >= 34), "circuit"] = PAPERS
    found = [row for part in numbers(**planted) for row in part]
    assert {seed for seed, quantity, _ in found if quantity == "agreement"} == seeds


def test_norms_with_members_missing_are_left_out(planted):
    map = planted["map"]
    few = map[(map["norm"] == "none") | (map["seed"] > 30)]
    assert set(whole(few[few["L0"] == "free"], 48)["norm"]) == {"none"}


def test_effects_of_groups_and_of_pairs(planted):
    bias = groups(planted["factorial"]).query("number == 'bias'").set_index("term")["mean"]
    assert bias["qk"] == pytest.approx(1.0)
    assert bias["vo"] == bias["mlp"] == pytest.approx(1.0)
    assert bias["vo x mlp"] == pytest.approx(1.0)
    assert bias["embedding"] == bias["qk x vo"] == pytest.approx(0.0)


def test_effects_are_of_the_seeds_that_have_every_member(planted):
    factorial = planted["factorial"]
    # without these, the mean of seed 30 would say that the embedding has an effect
    factorial = factorial.drop(factorial.query("seed == 30 and bias > 2").index[:3])
    factorial.loc[factorial["seed"] == 31, "gap_3"] = [np.nan] + [0.0] * 31
    one_more = pd.concat([factorial, members(norm=["post"], seed=[30])], ignore_index=True)
    found = groups(one_more).set_index(["number", "term"])
    assert set(found["norm"]) == {"none"}
    assert found.loc[("bias", "embedding"), "mean"] == pytest.approx(0.0)
    assert found.loc[("bias", "qk"), "n"] == 3
    assert found.loc[("gap", "qk"), "n"] == 2


def test_momentum_stands_apart_from_what_it_is_compared_with(planted):
    momentum = members(norm=["none"], seed=SEEDS, gamma=[0.8], optimiser=["momentum"], lr=[0.3])
    momentum["bias"] = 9.0
    optimiser = pd.concat([planted["optimiser"], momentum], ignore_index=True)
    optimiser.loc[optimiser["seed"] == 30, "half_step"] = np.nan
    planted["optimiser"] = optimiser
    found = [row for part in numbers(**planted) for row in part]
    control = {value for _, quantity, value in found if quantity == "bias_by_eps_none_control"}
    assert [*control] == pytest.approx([0.05] * len(control))
    tables = optimisers(planted["optimiser"])
    means = tables["optimiser_means"].query("number == 'bias' and norm == 'none'")
    assert dict(zip(means["optimiser"], means["mean"], strict=True)) == pytest.approx(
        {"as the preset": 0.2, "eps 1e-12": 0.3, "eps 1.01e-08": 0.15, "momentum, rate 0.3": 9.0}
    )
    assert set(tables["optimisers"]["members"]) == {8}
    assert set(tables["optimisers"]["half"]) == {7}


def test_the_loss_that_seals_a_seed_is_of_the_others(planted):
    forks = planted["forks"]
    own = forks["seed"] == 30
    forks.loc[own & (forks["fork"] == 7), "sibling"] = PAPERS
    found = sealed(forks)
    assert found["same_from_0"][31] == 0.0
    # of the others' forks at 3.0 nats and below, 56 of 56 have one circuit; with seed 30, 54 of 56
    assert found["sealed_loss"][30] == found["sealed_loss"][31] == 3.0
    assert found["same_late"][30] == 0.75
    assert found["same_late"][31] == 1.0
    forks.loc[own, "sibling"] = PAPERS
    found = sealed(forks)
    assert (found["sealed_loss"][30], found["same_late"][30]) == (3.0, 0.0)
    assert np.isnan(found["sealed_loss"][31])  # 48 of 56
    assert found["same_late"][31] == 0.0
    forks["sibling"] = forks["circuit"]
    forks.loc[own, "loss"] += 9.0
    found = sealed(forks)
    assert (found["late_forks"][30], found["same_late"][30]) == (0, 0.0)  # all above the others'
    assert (found["late_forks"][31], found["same_late"][31]) == (16, 1.0)


def sealed(forks):
    found = {}
    for seed, quantity, value in sealing(forks):
        found.setdefault(quantity, {})[seed] = value
    return found


def test_names_that_the_end_changes_are_counted():
    table = members(seed=SEEDS).assign(settled=True, circuit_at_end="mixed")
    table.loc[:2, "circuit_at_end"] = PAPERS
    table.loc[0, "settled"] = False
    with_stop_at = members(seed=SEEDS).assign(settled=True)
    [row] = stopped(pd.concat([table, with_stop_at])).to_dict("records")
    assert (row["n"], row["changed"]) == (7, 2)
    assert row["low"] < 2 / 7 == pytest.approx(row["share"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="circuit"), "lacks circuit"),
        (lambda table: pd.concat([table, table[:1]]), "has a member twice: {'norm': 'none'"),
    ],
)
def test_a_table_that_is_none_of_members_is_refused(planted, change, message, tmp_path):
    change(planted["map"]).to_parquet(tmp_path / "map.parquet")
    with pytest.raises(RbInterpError, match=message):
        STUDY.run(out=tmp_path / "run", members=str(tmp_path), progress=False)


def test_the_study_judges_and_draws_what_there_is(planted, tmp_path):
    (tmp_path / "members").mkdir()
    for name, table in planted.items():
        table.to_parquet(tmp_path / f"members/{name}.parquet")
    run = STUDY.run(out=tmp_path / "run", members=f"{tmp_path}/members", progress=False)
    outcomes = {verdict.id: verdict.outcome for verdict in run.verdicts}
    assert outcomes == {
        "N1": "HOLDS", "N2": "FAILS", "N3": "FAILS", "N4": "HOLDS", "N5none": "HOLDS",
        "N5post": "NOT JUDGED", "N5pre": "NOT JUDGED", "N6": "FAILS", "N7": "HOLDS", "N8": "HOLDS", "N9": "NOT JUDGED",
    }  # fmt: skip
    page = run.report.read_text("utf-8")
    assert "<strong>quick</strong>, 8 seeds." in page
    assert "eps 1.01e-08" in page
    begun = planted["forks"].query("gamma == .5")
    begun.to_parquet(tmp_path / "members/forks.parquet")
    part = STUDY.run(out=tmp_path / "part", members=f"{tmp_path}/members", progress=False)
    assert not {verdict.id: verdict.n_seeds for verdict in part.verdicts}["N7"]
    for name in ("factorial", "optimiser", "forks"):
        (tmp_path / f"members/{name}.parquet").unlink()
    alone = STUDY.run(out=tmp_path / "alone", members=f"{tmp_path}/members", progress=False)
    judged = {verdict.id for verdict in alone.verdicts if verdict.outcome != "NOT JUDGED"}
    assert judged == {"N1", "N2", "N3", "N4", "N5none", "N8"}
    with pytest.raises(RbInterpError, match="has none of map, factorial, optimiser, forks"):
        STUDY.run(out=tmp_path / "none", members=f"{tmp_path}/nothing", progress=False)
