"""The phase map: its boundaries and counts on planted worlds."""

import numpy as np
import pandas as pd
import pytest
from map_worlds import MAP, known

from rb_interp.studies.composite.map import GAMMAS
from rb_interp.studies.composite.map_measure import (
    boundaries,
    boundary,
    boundary_interval,
    cells,
    order,
)
from rb_interp.studies.composite.phase import PHASES

pytestmark = pytest.mark.wide


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
