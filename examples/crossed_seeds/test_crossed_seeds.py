"""Data and initial weights meet in every pair, and the table says whose seed decides."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from crossed_seeds import STUDY
from crossed_seeds.config import CrossedSeedsConfig
from crossed_seeds.measure import components_table, crossing_table
from crossed_seeds.report import FIGURES
from matplotlib.text import Text

from rb_interp import AnchorTask, ModelConfig, RbInterpError, TrainConfig, train_members
from rb_interp.interventions.circuits import anchor_routes

QUICK = CrossedSeedsConfig.from_preset("quick")


def readings(share, anchors=1.0, accuracy=0.99):
    """Readings of a 6 x 6 study in which ``share(data_seed, seed)`` of the key's effect comes from
    its own position.

    The rest comes from the anchors' positions. ``anchors`` of the anchors' effect goes the way of
    the larger part.
    """
    rows = []
    for data_seed in QUICK.data_seeds:
        for seed in QUICK.seeds:
            own, place = (
                share(data_seed, seed),
                {"sweep": f"data_{data_seed}", "gamma": 0.8, "seed": seed},
            )
            routes = {
                "key:from_key": own,
                "key:from_anchors": 1 - own,
                "key:rows": 800,
                "anchors:L0_at_last": anchors * (own > 0.5),
                "anchors:from_anchors": anchors * (own <= 0.5),
            }
            rows += [
                {**place, "probe": "routes", "quantity": name, "value": value}
                for name, value in routes.items()
            ]
            rows.append(
                {**place, "probe": "learning_order", "quantity": "acc_rsn_train", "value": accuracy}
            )
    return pd.DataFrame(rows)


def parts(found):
    return components_table(crossing_table(found), QUICK).set_index("component")


def by_weights(data_seed, seed):
    return 0.99 - 0.96 * (seed in (0, 2, 3)) + 0.002 * data_seed


def test_a_member_has_the_shares_of_its_own_readings_and_the_circuit_by_cause():
    members = crossing_table(readings(by_weights)).set_index(["data_seed", "seed"])
    assert members.loc[(3, 0), ["key_from_key", "key_from_anchors"]].to_list() == pytest.approx(
        [0.036, 0.964]
    )
    assert (members.loc[(3, 0), "circuit"], members.loc[(3, 1), "circuit"]) == (
        "key-to-anchors",
        "average-then-key",
    )
    assert (members["n"] == 800).all()  # rows of the key's change
    assert set(crossing_table(readings(by_weights, anchors=0.5))["circuit"]) == {"mixed"}
    assert set(crossing_table(readings(by_weights, accuracy=0.49))["circuit"]) == {"none"}


def test_rows_are_data_and_columns_initial_weights():
    found = parts(readings(by_weights))
    assert found.loc["initialisation", "low"] > 0.6 > 0.4 > found.loc["data", "high"]
    assert found.loc["difference", "high"] < 0
    assert (
        parts(readings(lambda data_seed, seed: by_weights(seed, data_seed))).loc["data", "low"]
        > 0.6
    )
    assert (found["n"] == 36).all()


def test_the_figure_has_every_member():
    evidence = SimpleNamespace(readings=readings(by_weights), config=QUICK)
    words = [text.get_text() for text in FIGURES["crossing"](evidence).findobj(Text)]
    assert (words.count("average"), words.count("anchors"), words.count("0.03")) == (18, 18, 9)


def test_every_pair_of_seeds_is_trained_and_measured(tmp_path):
    task = AnchorTask(
        length=5,
        keys=(21, 24),
        memory_anchors=(1, 2),
        reasoning_anchors=(11, 13),
        d_vocab=64,
        n_sequences=720,
    )
    model, train = (
        ModelConfig(d_model=16, d_head=8, d_mlp=16),
        TrainConfig(
            steps=20,
            batch_size=16,
            eval_every=10,
            eval_rows=20,
            lr=2e-2,
            n_checkpoints=1,
            workers=1,
        ),
    )
    config = CrossedSeedsConfig(
        seeds=(2, 3, 4), data_seeds=(4, 2), task=task, model=model, train=train, probe_rows=50
    )
    run = STUDY.run(config=config, out=tmp_path / "run", progress=False)
    pairs = crossing_table(run.readings)[["data_seed", "seed"]].to_numpy().tolist()
    assert pairs == [[4, 2], [4, 3], [4, 4], [2, 2], [2, 3], [2, 4]]
    routes = anchor_routes(
        run.model(sweep="data_4", gamma=0.8, seed=3), run.sweep("data_4").dataset(3), n=50
    )
    read = run.readings.query("probe == 'routes' and sweep == 'data_4' and seed == 3")
    assert dict(zip(read["quantity"], read["value"], strict=True)) == pytest.approx(
        routes.values, nan_ok=True
    )
    own = train_members(
        task, [0.8], [2, 3, 4], config=model, train=train, progress=False
    ).final  # both seeds the same
    for seed in (2, 4):
        weights = run.sweep(f"data_{seed}").weights(0.8, seed)
        for name, value in own.member(0.8, seed).items():
            torch.testing.assert_close(weights[name], value, rtol=0, atol=1e-6)
    start, other = (run.sweep(f"data_{seed}").weights(0.8, 3, "init") for seed in (2, 4))
    assert all(torch.equal(start[name], other[name]) for name in start)
    assert "Shares are estimated" in run.report.read_text()


@pytest.mark.parametrize(
    ("seeds", "message"), [((3,), "at least 2 items"), ((1, 1, 2), "name each once")]
)
def test_what_cannot_be_crossed_is_refused(seeds, message):
    with pytest.raises(RbInterpError, match=message):
        replace(QUICK, data_seeds=seeds)
