"""The phase map: its grid, its boundaries and counts on planted worlds, its claims, and a tiny run
end to end."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rb_interp.claims import judge
from rb_interp.runs.config import stacks
from rb_interp.runs.results import readings_table
from rb_interp.studies.composite.map import (
    BLOCK_GAMMAS,
    CLAIMS,
    DECAYS,
    DEPTHS,
    GAMMAS,
    CompositeMapConfig,
    paper_decays,
)
from rb_interp.studies.composite.map_measure import (
    boundaries,
    boundary,
    boundary_interval,
    cells,
    map_readings,
    order,
)
from rb_interp.studies.composite.phase import PHASES

pytestmark = pytest.mark.wide

FACTORS = (0.25, 0.5, 1.0, 2.0, 3.0)  # learning rates of claim C10, in multiples of the preset's
WHOLE = {"gammas": GAMMAS, "block_gammas": BLOCK_GAMMAS, "depths": DEPTHS}
WHOLE |= {"factors": FACTORS, "unseen_factors": FACTORS}
MAP = CompositeMapConfig.from_preset("quick", **WHOLE, coarse_gammas=(0.3, 0.5, 0.8, 1.0))
MAP = replace(MAP, decays=paper_decays(MAP.train))


def test_claims_conditions_are_among_the_sweeps_and_settings_share_a_stack():
    sweeps = MAP.sweeps
    rates = [sweep for name, sweep in sweeps.items() if name.startswith("unseen_rate")]
    assert [sweep.train.lr / MAP.train.lr for sweep in rates] == pytest.approx([0.25, 0.5, 1, 2, 3])
    decays = [sweep for name, sweep in sweeps.items() if name.startswith("unseen_decay")]
    products = [s.train.lr * s.train.weight_decay * s.train.steps for s in decays]
    assert products == pytest.approx([25e-5 * decay * 77_700 for decay in DECAYS])
    for sweep in (*rates, *decays):
        assert (sweep.gammas, sweep.model.n_layers, sweep.task) == (
            (0.5,),
            3,
            MAP.task.both_unseen(),
        )
    assert {sweep.train.weight_decay for sweep in rates} == {0.01}
    for norm in ("pre", "post"):
        model = sweeps[f"gpt2_{norm}"].model
        assert (model.norm, model.n_heads, model.act, model.train_biases) == (
            norm,
            4,
            "gelu_new",
            True,
        )
    assert [len(names) for names in stacks(sweeps)] == [10, 1, 1, 1, 10, 1, 1]
    paper = CompositeMapConfig.from_preset("paper").sweeps
    found = [sweep.train.lr for name, sweep in paper.items() if name.startswith("unseen_rate")]
    assert found == pytest.approx([5e-5, 1e-4, 2e-4, 4e-4, 6e-4])


def test_boundary_is_the_first_crossing_of_a_value_that_has_a_side():
    assert boundary({0.3: 0.0, 0.4: -1.0, 0.5: 0.0, 0.6: 1.0, 0.7: -1.0})[:3] == (0.5, 0.4, 0.6)
    assert boundary({0.4: -0.1, 0.5: 0.3}).gamma == pytest.approx(0.425)
    assert boundary({0.4: 0.0, 0.5: 0.0}) == (0.5, 0.5, 0.5, False)
    assert boundary({0.4: -1.0, 0.5: -0.9}) == (0.5, 0.5, 0.5, False)
    assert boundary({0.4: 0.0, 0.5: 0.9, 0.6: 0.9}) == (0.4, 0.4, 0.4, False)
    assert order({0.1: 2.0, 0.2: 2.0}) == 0.0
    assert order({0.1: 1.0, 0.2: 5.0, 0.3: 9.0}) == pytest.approx(1.0)


@pytest.mark.parametrize(("width", "spread"), [(0.005, 0.01), (0.1, 0.08)], ids=["sharp", "smooth"])
def test_intervals_of_a_boundary_cover_the_planted_one(width, spread):
    rng, worlds, covered, planted = np.random.default_rng(0), 150, 0, 0.67
    for _ in range(worlds):
        places = np.clip(planted + spread * rng.standard_normal(8), 0.35, 0.95)
        found = [
            boundary({g: float(np.tanh((g - place) / width)) for g in GAMMAS}) for place in places
        ]
        _, low, high = boundary_interval(found, GAMMAS)
        covered += low <= planted <= high
    assert covered / worlds >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / worlds)


def world():
    """Members of a world: at each gamma, symmetric below .65 and inferential above."""
    rows = []
    for sweep, own_config in MAP.sweeps.items():
        for gamma in own_config.gammas:
            for seed in range(8):
                inferential = gamma > 0.65
                own = {
                    "phase": PHASES[1 if inferential else 2],
                    "I": float(inferential),
                    "S": 1.0 - inferential,
                }
                rows.append({"sweep": sweep, "gamma": gamma, "seed": seed, **own})
    return pd.DataFrame(rows)


def test_counts_of_cells_and_boundaries_are_those_of_the_world():
    table = cells(world(), MAP)
    assert set(table["total"]) == {8}
    small = table[(table["axis"] == "depth") & (table["gamma"] == 0.8)].set_index(
        ["label", "phase"]
    )
    assert small.loc[("4", "inferential"), ["n", "share"]].tolist() == [8, 1.0]
    assert small.loc[("4", "inferential"), "low"] == pytest.approx(0.025 ** (1 / 8))
    assert set(table[table["axis"] == "rate"]["gamma"]) == set(MAP.coarse_gammas)
    found = boundaries(world(), MAP).set_index(["axis", "label"])
    assert found.loc[
        ("depth", "6"), ["gamma_star", "low", "high", "crossing"]
    ].tolist() == pytest.approx([0.65, 0.6, 0.7, 8])
    assert found.loc[("rate", "0.003"), ["low", "high"]].tolist() == [0.5, 0.8]  # the coarser grid


def known(answer):
    """Readings of 8 seeds: ``answer(sweep, setting, gamma)`` gives I and the accuracy on seen_test;
    S is 1 - I."""
    rows = []
    for sweep, config in MAP.sweeps.items():
        for gamma in config.gammas:
            setting = config.train.lr if "rate" in sweep else config.train.weight_decay
            inferential, fit = answer(sweep, setting, gamma)
            values = {"I": inferential, "S": 1 - inferential, "acc_seen_test": fit}
            for seed in range(8):
                place = {
                    "sweep": sweep,
                    "gamma": gamma,
                    "seed": seed,
                    "stage": "final",
                    "step": 9,
                    "set": "",
                }
                place |= dict.fromkeys(
                    ("layer", "head", "null", "null_mean", "null_sd", "p_value")
                ) | {"n": 1}
                rows += [
                    {**place, "probe": "phase", "quantity": name, "value": value, "untrained": 0.0}
                    for name, value in values.items()
                ]
    readings = readings_table(rows)
    return readings_table(readings, map_readings(readings, MAP))


def test_the_gain_begins_at_the_lowest_rate_fitted_or_not_and_ends_at_the_highest_that_is():
    rates = sorted(
        config.train.lr for name, config in MAP.sweeps.items() if name.startswith("unseen_rate")
    )

    def one_that_is_fitted(sweep, setting, gamma):
        return (
            (0.1 + 100 * setting, float(setting == rates[1]))
            if sweep.startswith("unseen_rate")
            else (0.0, 1.0)
        )

    found = known(one_that_is_fitted).query("quantity == 'rate_gain'")["value"]
    assert found.to_list() == pytest.approx([100 * (rates[1] - rates[0])] * 8)


def test_claims_hold_in_the_papers_world_and_fail_in_its_mirror():
    def paper(sweep, setting, gamma):
        if sweep.startswith("unseen"):
            return (min(1.0, 0.1 + 100 * setting) if "rate" in sweep else min(1.0, setting)), 1.0
        deep = sweep in ("depth_4", "depth_6")
        return round(1 / (1 + np.exp(-(gamma - 0.65) / 0.02)), 6), 1.0 if gamma >= (
            0.5 if deep else 0.3
        ) else 0.4

    def mirrored(sweep, setting, gamma):
        inferential, fit = paper(sweep, setting, gamma)
        if sweep.startswith("depth") and sweep != "depth_2":
            return 1.0, 1.0
        return 1 - inferential, fit if sweep.startswith("unseen") else 1.0

    assert {
        verdict.id: verdict.outcome for verdict in judge(known(paper), CLAIMS)
    } == dict.fromkeys(("C7", "C8", "C9", "C10", "C11", "C12"), "HOLDS")
    assert {
        verdict.id: verdict.outcome for verdict in judge(known(mirrored), CLAIMS)
    } == dict.fromkeys(("C7", "C8", "C9", "C10", "C11", "C12"), "FAILS")
