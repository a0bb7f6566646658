"""The learning rates of the preset are those that its search would choose, and for no other reason."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rb_interp.tasks.anchor import RATES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def search():
    spec = importlib.util.spec_from_file_location("learning_rates", ROOT / "experiments/learning_rates.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def curves(losses, step=100, seeds=2):
    """``losses``: (gamma, lr) -> losses on mem, rsn_train and rsn_test."""
    return pd.DataFrame(
        {"gamma": gamma, "lr": lr, "seed": seed, "step": at, "set": name, "loss": loss + (at < step) - seed}
        for (gamma, lr), of_sets in losses.items()
        for name, loss in zip(("mem", "rsn_train", "rsn_test"), of_sets, strict=True)
        for seed in range(seeds)
        for at in (0, step)
    )


def test_the_lowest_final_training_loss_is_chosen_whatever_the_held_out_one(search):
    table = search.choose(curves({(0.3, 1e-3): (2, 4, 0), (0.3, 2e-3): (3, 1, 9), (0.8, 1e-3): (1, 1, 1)}))
    assert table["chosen"].tolist() == [False, True, True]
    assert table["training_loss"].tolist() == [2.5, 1.5, 0.5]  # mean of both sets, and of seeds 0 and 1 (one nat less)
    diverged = search.choose(curves({(0.3, 1e-3): (2, 4, 0), (0.3, 2e-3): (np.nan, 1, 9)}))
    assert diverged["chosen"].tolist() == [True, False]


def test_the_preset_has_the_rates_that_the_recorded_search_chose(search):
    table = pd.read_csv(search.CHOSEN)
    assert set(table["lr"]) == set(search.RATES)
    chosen = table.loc[table["chosen"], ["gamma", "lr"]].to_numpy().tolist()
    assert chosen == [list(pair) for pair in RATES["quick"]]
    best = table.loc[table.groupby("gamma")["training_loss"].idxmin(), "lr"]
    assert best.tolist() == [lr for _, lr in RATES["quick"]]
