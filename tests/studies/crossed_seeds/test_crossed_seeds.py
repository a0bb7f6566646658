"""Data and initial weights meet in every pair, and the table says whose seed decides."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from made_up import MadeUp
from matplotlib.text import Text

from rb_interp.errors import ConfigError
from rb_interp.figures.save import draw
from rb_interp.interventions.route_shares import anchor_routes
from rb_interp.models.config import ModelConfig
from rb_interp.report.content import report_content
from rb_interp.runs.schema import CURVES_SUMMARY
from rb_interp.studies.crossed_seeds import CROSSED_SEEDS
from rb_interp.studies.crossed_seeds.config import CrossedSeedsConfig
from rb_interp.studies.crossed_seeds.figures import FIGURES
from rb_interp.studies.crossed_seeds.measure import components_table, crossing_table
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members

pytestmark = pytest.mark.wide

SIDE = (0, 1, 2, 3, 4, 5)


def made(share, anchors=1.0, accuracy=0.99):
    """Evidence of a 6 x 6 study in which ``share(data_seed, seed)`` of the key's effect comes from its own position.

    The rest comes from the anchors' positions. ``anchors`` of the anchors' effect goes the way of the larger part.
    """
    study = MadeUp(CROSSED_SEEDS, CrossedSeedsConfig.from_preset("quick"))
    for sweep, settings in study.config.sweeps.items():
        for seed in SIDE:
            own, place = share(settings.data_seed, seed), {"sweep": sweep, "gamma": 0.8, "seed": seed, "step": 6000}
            study.add("curves", **place, set="rsn_train", loss=0.1, accuracy=accuracy)
            study.reading("learning_order", {"acc_rsn_train": accuracy}, **place)
            routes = {
                "key:from_key": own, "key:from_anchors": 1 - own, "key:rows": 800,
                "anchors:L0_at_last": anchors * (own > 0.5), "anchors:from_anchors": anchors * (own <= 0.5),
            }  # fmt: skip
            study.reading("routes", routes, **place, set="rsn_train", n=700)

    def statistics(evidence):
        data_seeds = {name: sweep.data_seed for name, sweep in evidence.config.sweeps.items()}
        crossing = crossing_table(evidence.readings, data_seeds)
        return {"crossing": crossing, "components": components_table(crossing, 0.8, SIDE, SIDE),
                "curves_summary": CURVES_SUMMARY.frame([])}  # fmt: skip

    return study.evidence(statistics, "quick")


def by_weights(data_seed, seed):
    return 0.99 - 0.96 * (seed in (0, 2, 3)) + 0.002 * data_seed


def test_a_member_has_the_shares_of_its_own_readings_and_the_circuit_by_cause():
    members = made(by_weights).table("crossing").set_index(["data_seed", "seed"])
    assert members.loc[(3, 0), ["key_from_key", "key_from_anchors"]].to_list() == pytest.approx([0.036, 0.964])
    assert (members.loc[(3, 0), "circuit"], members.loc[(3, 1), "circuit"]) == ("key-to-anchors", "average-then-key")
    assert (members["n"] == 800).all()  # rows of the key's change, not the fewest of all changes
    assert set(made(by_weights, anchors=0.5).table("crossing")["circuit"]) == {"mixed"}
    assert set(made(by_weights, accuracy=0.49).table("crossing")["circuit"]) == {"none"}


def test_rows_are_data_and_columns_initial_weights():
    parts = made(by_weights).table("components").set_index("component")
    assert parts.loc["initialisation", "low"] > 0.6 > 0.4 > parts.loc["data", "high"]
    assert parts.loc["difference", "high"] < 0
    turned = made(lambda data_seed, seed: by_weights(seed, data_seed)).table("components").set_index("component")
    assert turned.loc["data", "low"] > 0.6
    assert (parts["n"] == 36).all()


def test_report_and_figure_say_what_the_tables_say():
    evidence = made(by_weights)
    content = report_content(CROSSED_SEEDS, evidence)
    assert content["answer"]["sentences"][0].endswith("members: average-then-key 18, key-to-anchors 18.")
    assert content["answer"]["sentences"][1].endswith("the initial weights decide more than the data.")
    figure = draw(FIGURES[0], evidence)
    words = [text.get_text() for text in figure.findobj(Text)]
    assert (words.count("average"), words.count("anchors"), words.count(".03")) == (18, 18, 9)
    empty = made(lambda data_seed, seed: np.nan if data_seed == seed == 4 else by_weights(data_seed, seed))
    draw(FIGURES[0], empty)
    assert not content["answer"]["warnings"]  # six seeds are too few for a claim, and there is none
    assert report_content(CROSSED_SEEDS, empty)["answer"]["sentences"][1].startswith("No share of variance is known")


@pytest.mark.lens
def test_every_pair_of_seeds_is_trained_and_measured(tmp_path):
    task = AnchorTask(
        length=5, keys=(21, 24), memory_anchors=(1, 2), reasoning_anchors=(11, 13), d_vocab=64, n_sequences=720
    )
    model, train = ModelConfig(d_model=16, d_head=8, d_mlp=16), TrainConfig(
        steps=20, batch_size=16, eval_every=10, eval_rows=20, lr=2e-2, n_checkpoints=1, workers=1
    )  # fmt: skip
    config = CrossedSeedsConfig(seeds=(2, 3, 4), data_seeds=(4, 2), task=task, model=model, train=train, probe_rows=50)
    run = CROSSED_SEEDS.run(config=config, out=tmp_path / "run", progress=False)
    assert list(run.sweeps) == ["data_4", "data_2"]
    pairs = run.table("crossing")[["data_seed", "seed"]].to_numpy().tolist()
    assert pairs == [[4, 2], [4, 3], [4, 4], [2, 2], [2, 3], [2, 4]]
    sweep = run.sweep("data_4")
    routes = anchor_routes(run.model(sweep="data_4", gamma=0.8, seed=3), sweep.dataset(3), n=50)
    read = run.table("readings").query("probe == 'routes' and sweep == 'data_4' and seed == 3")
    assert dict(zip(read["quantity"], read["value"], strict=True)) == pytest.approx(routes.values, nan_ok=True)
    assert {*zip(read["set"], read["stage"], read["step"], strict=True)} == {("rsn_train", "final", 20)}
    own = train_members(task, model, train, [0.8], [2, 3, 4], progress=False).final  # both seeds the same
    for seed in (2, 4):
        weights = run.sweep(f"data_{seed}").weights(0.8, seed)
        for name, value in own.member(0.8, seed).items():
            torch.testing.assert_close(weights[name], value, rtol=0, atol=1e-6)
    start, other = (run.sweep(f"data_{seed}").weights(0.8, 3, "init") for seed in (2, 4))
    assert all(torch.equal(start[name], other[name]) for name in start)
    assert run.report.exists()


def test_what_cannot_be_crossed_is_refused():
    config = CrossedSeedsConfig.from_preset("smoke")
    with pytest.raises(ConfigError, match="give two or more of each"):
        replace(config, data_seeds=(3,))
    with pytest.raises(ConfigError, match=r"data_seeds=\[1, 1\]; expected at least one, each named once"):
        replace(config, data_seeds=(1, 1))
    with pytest.raises(ConfigError, match="give a transformer of two layers"):
        replace(config, model=replace(config.model, n_layers=1))
