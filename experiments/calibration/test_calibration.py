"""The shipped tables follow from their answers and from seeds; routes, copies and blends are what
they are called."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.calibration import __main__ as calibration
from experiments.calibration import known_models, rates, routes
from experiments.calibration.blends import QUANTITIES, SHARES, blend, blend_means, draw_blends
from experiments.calibration.detectors import CAUSES, DETECTORS, NAMES, detect, place
from experiments.calibration.exchange import run_with_exchanges
from experiments.calibration.known_models import ShuffledTask, Subject, examine, load, rows_of
from experiments.calibration.rates import answers
from experiments.calibration.trained_models import _of_heads_together, copies_of, truth_of
from rb_interp.interventions.edits import last_logits
from rb_interp.models.build import lens_model
from rb_interp.models.config import NORMS, ModelConfig
from rb_interp.models.reference import REFERENCES, reference
from rb_interp.models.schemes import draw
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.studies.anchor import circuits
from rb_interp.studies.anchor.checks import (
    MECHANISM_CLAIMS,
    shipped_rates,
    shipped_trained_rates,
)
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.tasks import AnchorTask

TASK = AnchorTask.preset("smoke")
SIZES = ModelConfig(d_model=12, d_head=6, d_mlp=20)


def weights_of(config: ModelConfig, seed: int) -> dict[str, torch.Tensor]:
    return {
        name: torch.from_numpy(w)
        for name, w in draw(config, TASK.d_vocab, TASK.length, 0.3, seed).items()
    }


def logits_of(config: ModelConfig, weights, tokens) -> torch.Tensor:
    return last_logits(
        lens_model(config, TASK.d_vocab, TASK.length, weights, torch.float64), tokens
    )


def assert_as_shipped(subjects) -> pd.DataFrame:
    found = pd.DataFrame(
        [row for one in subjects for row in rows_of(one, detect(examine(load(one), one.data)))]
    )
    keys = ["family", "source", "name", "seed", "detector"]
    both = found.merge(answers(), on=keys, suffixes=("", "_shipped"), validate="1:1")
    assert len(both) == len(found)
    assert (both["present"] == both["present_shipped"]).all()
    assert (both["truth"] == both["truth_shipped"]).all()
    np.testing.assert_allclose(both["margin"], both["margin_shipped"], atol=1e-3, rtol=1e-3)
    return found


@pytest.mark.wide
@pytest.mark.parametrize(
    "name",
    ["averager", *(pytest.param(one, marks=pytest.mark.slow) for one in ("carrier", "memoriser"))],
)
def test_a_copy_is_as_shipped_and_every_detector_is_right_about_it(name):
    found = assert_as_shipped(known_models.reference_copies(name, 1))
    assert set(found["detector"]) == {*DETECTORS}
    known = found.loc[found["truth"] != ""]
    assert (known["present"] == (known["truth"] == "yes")).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*REFERENCES, "untrained"])
def test_more_models_are_as_shipped(name):
    seeds = (0, *range(3, 120, 9))
    more = (one for seed in seeds for one in known_models.reference_copies(name, 1, first=seed))
    assert_as_shipped(known_models.fresh(3) if name == "untrained" else more)


@pytest.mark.wide
def test_the_shipped_rates_follow_from_the_answers():
    exact = {"check_exact": True, "check_dtype": False}
    pd.testing.assert_frame_equal(rates.rates(answers()), shipped_rates(), **exact)
    pd.testing.assert_frame_equal(
        rates.trained_rates(answers(rates.TRAINED_COPIES)), shipped_trained_rates(), **exact
    )


def test_rates_worked_by_hand():
    def copies(
        name: str, truth: str, present: list[bool], source: str = "reference"
    ) -> pd.DataFrame:
        rows = [
            (rates.DEVELOPMENT + at, yes, 0.1 if yes else -0.1) for at, yes in enumerate(present)
        ]
        table = pd.DataFrame(rows, columns=["seed", "present", "margin"])
        return table.assign(family="f", source=source, name=name, detector="M1", truth=truth)

    models = [copies("good", "yes", [True] * 10), copies("fair", "yes", [True] * 9 + [False])]
    models += [copies("quiet", "no", [False] * 10), copies("loud", "no", [True] * 3 + [False] * 7)]
    (row,) = rates.rates(
        pd.concat([*models, copies("0.8", "", [True, False], "untrained")])
    ).to_dict("records")
    assert (row["n_positive"], row["true_positive_rate"], row["worst_positive"]) == (
        20,
        0.95,
        "fair",
    )
    assert (row["n_negative"], row["false_positive_rate"], row["worst_negative"]) == (
        20,
        0.15,
        "loud",
    )
    interval = [round(end, 6) for end in proportion_interval(3, 20)[1:]]
    assert [row["false_positive_low"], row["false_positive_high"]] == interval
    assert (row["n_untrained"], row["untrained_rate"], row["calibrated"]) == (2, 0.5, False)
    assert (
        row["auc"] == (19 * 17 + (19 * 3 + 17) / 2) / 400
    )  # 19 x 17 pairs won, 19 x 3 + 1 x 17 ties


@pytest.mark.parametrize(
    "claim", [claim for claim in CLAIMS if claim.id in MECHANISM_CLAIMS], ids=lambda one: one.id
)
def test_a_detector_is_its_claims_criterion(claim):
    def planted(distance: float) -> dict:
        signs = {">=": 1, ">": 1, "<=": -1, "<": -1}
        return {place(c.of): c.threshold + signs[c.operator] * distance for c in claim.conditions}

    assert detect(planted(0.03))[claim.id] == (True, pytest.approx(0.03))
    assert detect(planted(-0.03))[claim.id] == (False, pytest.approx(-0.03))
    for condition in claim.conditions:
        assert detect(planted(0.03) | {place(condition.of): math.nan})[claim.id] == (
            False,
            -math.inf,
        )


def test_the_name_by_attention_reads_the_layers_and_heads_of_the_claims():
    """As `circuit_table` does: of several heads the lowest TV, and of three layers L1."""
    tv = place(circuits.SOURCES["tv_half"])
    key = place(circuits.SOURCES["key_attention"])
    assert _of_heads_together(tv, [0.05, 0.60]) == 0.05
    assert _of_heads_together(key, [0.05, 0.60]) == 0.60
    readings = {place(term): 0.0 for term in circuits.SOURCES.values()}
    readings |= {tv: 0.05, key: 0.9, (*key[:3], 2): 0.2}
    readings[place(circuits.SOURCES["accuracy"])] = 1.0
    assert detect(readings)["average-then-key"] == (True, pytest.approx(0.15))


def test_trained_models_count_where_training_reached_its_aim():
    models, copies = answers(rates.TRAINED_MODELS), answers(rates.TRAINED_COPIES)
    attention = models["exchange"].str.startswith("attends like")
    models["beyond"] = models["share"] - np.where(
        attention, 1 - routes.ATTENTION_WITHIN, routes.SMALLEST_SHARE
    )
    reached = models.groupby(["family", "name", "gamma", "seed"])[["beyond", "counts"]].agg(
        ["min", "max"]
    )
    assert ((reached["beyond", "min"] >= 0) == reached["counts", "max"]).all()
    assert (reached["counts", "min"] == reached["counts", "max"]).all()
    direct = copies.loc[
        copies["source"].isin(["interchange", "decorative", "uniform"])
        & (copies["detector"] == "M9")
    ]
    assert len(direct) == reached["counts", "max"].sum()


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "circuit"),
    [
        ("averager", "average-then-key"),
        ("carrier", "key-to-anchors"),
        ("memoriser", "gather-at-last-anchor"),
    ],
)
def test_a_hand_written_model_answers_its_own_routes_exchanges_and_no_others(name, circuit):
    written = reference(name)
    weights = {key: weight[None] for key, weight in written.weights.items()}
    config, data = replace(written.config, train_biases=True), [written.task.dataset(0)]
    for other in routes.ROUTES:
        found = routes.shares(weights, data, config, other, n=25)[0]
        assert found[0] == 1  # the task itself
        assert (found.min() == 1) == (other == circuit), (other, found)


@pytest.mark.parametrize("norm", NORMS)
def test_without_exchanges_the_pass_is_the_models_own(norm):
    config, tokens = replace(SIZES, norm=norm), TASK.dataset(0).tokens[:20]
    weights = weights_of(config, 0)
    members = {name: weight[None] for name, weight in weights.items()}
    found = run_with_exchanges(members, torch.from_numpy(tokens)[None], config)["logits"][0]
    torch.testing.assert_close(found, logits_of(config, weights, tokens), rtol=0, atol=1e-8)


def test_attention_that_looks_like_a_circuit_costs_nothing_and_other_attention_does():
    length, at, key = 5, torch.tensor([[0]]), torch.eye(5)[0][None, None]
    uniform = (torch.tril(torch.ones(length, length)) / torch.arange(1, length + 1)[:, None])[
        None, None
    ]

    def missing(first, last, like):
        return [
            found.item()
            for found in routes.attention_shortfall(first.log(), last.log(), at, 2, like)
        ]

    assert missing(uniform, key, "average-then-key") == [0, 0]
    # L0's last anchor gives the key 1/3, and the last position gives the anchors 1/4 where .55 are
    # asked of each.
    last, carried = torch.tensor([[[0.75, 0.25, 0, 0, 0]]]), uniform.clone()
    found = missing(uniform, last, "key-to-anchors")
    assert found == pytest.approx(
        [0.55 - 1 / 3 + 0.55 - 1 / 4, math.log(0.55 * 3) + math.log(0.55 * 4)]
    )
    # Two queries of four are 2/3 and 3/4 away from uniform, .17 are allowed; .93 are asked of the
    # key, and it has 3/4.
    carried[..., 2:4, :] = key
    far = (2 / 3 + 3 / 4) / 4 - 0.17
    expected = [far + 0.93 - 3 / 4, routes.DISTANCE_COST * far + math.log(0.93 * 4 / 3)]
    assert missing(carried, last, "average-then-key") == pytest.approx(expected)


@pytest.mark.trains
def test_training_lowers_the_loss_and_leaves_its_start_alone():
    data, start = (
        [TASK.dataset(0)],
        {name: weight[None].float() for name, weight in weights_of(SIZES, 0).items()},
    )
    before = {name: weight.clone() for name, weight in start.items()}
    recipe = routes.Recipe("average-then-key", (), lr=5e-3, steps=12)
    found = routes.train_routes(start, data, SIZES, recipe, progress=False)
    assert all(torch.equal(start[name], before[name]) for name in start)
    batch = next(routes.pairs(data, recipe.circuit, 50, left_out=True))
    losses = [routes.losses(weights, batch, SIZES, TASK.q, recipe) for weights in (start, found)]
    assert losses[1] < losses[0] - 0.1


def test_every_recipe_has_a_truth_for_all_names():
    for recipe in routes.RECIPES.values():
        known = truth_of(recipe)
        assert [known[name] for name in NAMES] == [recipe.circuit == name for name in NAMES]
        assert [known[detector] for detector in CAUSES] == [
            recipe.circuit == name for name in CAUSES.values()
        ]


def test_copies_compute_the_same():
    original = Subject("member", "member", 0, SIZES, TASK.dataset(0), weights_of(SIZES, 0))
    tokens = original.data.tokens[:50]
    expected, copies = logits_of(SIZES, original.weights, tokens), list(copies_of(original))
    assert [copy.source for copy in copies] == [
        "gauge",
        "silent head",
        "split head",
        "gauge",
        "silent head",
    ]
    for copy in copies:
        torch.testing.assert_close(
            logits_of(copy.config, copy.weights, tokens), expected, rtol=0, atol=1e-10
        )
    whitened = torch.linalg.svdvals(copies[3].weights["blocks.0.attn.W_V"][0])
    assert whitened[0] / whitened[-1] == pytest.approx(1, abs=1e-8)


def test_a_blend_adds_the_scaled_logits_of_both():
    parts, tokens = [weights_of(SIZES, seed) for seed in (0, 1)], TASK.dataset(0).tokens[:30]
    alone = [logits_of(SIZES, weights, tokens) for weights in parts]
    both = replace(SIZES, d_model=24, d_mlp=40, n_heads=2)
    found = logits_of(both, blend(*parts, (0.3, 1.7)), tokens)
    torch.testing.assert_close(found, 0.3 * alone[0] + 1.7 * alone[1], rtol=0, atol=1e-10)


def test_the_shipped_blends_are_whole_and_drawn():
    table = answers(rates.BLENDS)
    assert set(table["quantity"]) <= {quantity.words for quantity in QUANTITIES}
    assert len(table) == table["number"].nunique() * len(SHARES) * table["quantity"].nunique()
    assert (table["met"] == (table["value"] >= table["threshold"])).all()
    left, right = draw_blends(blend_means(table)).axes
    first = table.loc[table["quantity"] == QUANTITIES[3].words].groupby("share")["value"].mean()
    np.testing.assert_allclose(left.lines[3].get_ydata(), first)
    assert [text.get_text() for text in right.get_yticklabels()] == [*dict.fromkeys(table["probe"])]


def test_shuffled_labels_keep_their_numbers_and_lose_the_rule():
    plain, shuffled = AnchorTask().dataset(3), ShuffledTask().dataset(3)
    assert (plain.tokens == shuffled.tokens).all()
    train, reasoning = plain.rows("train"), plain.rows("rsn_train")
    assert (np.sort(plain.labels[train]) == np.sort(shuffled.labels[train])).all()
    assert (plain.labels[reasoning] == shuffled.labels[reasoning]).mean() < 0.05


@pytest.mark.slow
def test_an_interrupted_calibration_continues(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "REFERENCES", ("averager",))
    plain = known_models.label_shuffled
    monkeypatch.setattr(
        known_models, "label_shuffled", lambda n, progress: plain(n, progress, steps=10)
    )
    small = {"progress": False, "n_copies": 1, "n_untrained": 1, "n_shuffled": 1}
    with monkeypatch.context() as patch:
        patch.setattr(known_models, "fresh", lambda n: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            calibration.measure_copies(tmp_path, **small)
    monkeypatch.setattr(
        known_models, "reference_copies", lambda *_: pytest.fail("copies are measured twice")
    )
    assert set(calibration.measure_copies(tmp_path, **small)["detector"]) == {*DETECTORS}
    assert {path.name for path in tmp_path.glob("*.csv")} == {
        "calibration_copies.csv",
        "calibration_rates.csv",
    }
