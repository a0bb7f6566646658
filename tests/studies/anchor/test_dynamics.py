"""Planted series give the events they were planted with; a run's values are those of the probes
called by hand."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tiny_anchor import TINY

from rb_interp.models.config import ModelConfig
from rb_interp.probes import (
    attention_by_role,
    attention_to_key,
    geometry,
    uniformity,
    value_alignment,
    variance_explained,
)
from rb_interp.runs.run import Run
from rb_interp.studies.anchor import ANCHOR
from rb_interp.studies.anchor.dynamics import (
    MECHANISMS,
    OPTIONS,
    QUANTITIES,
    dynamics,
    event_step,
    event_table,
    loss_step,
    order_table,
)
from rb_interp.tasks import SETS

pytestmark = pytest.mark.wide

STEPS = np.array([0, 75, 375, 1575, 6375])  # step + 25: 25, 100, 400, 1600, 6400

PLANTED = [
    ([0.0, 0.2, 0.8, 0.9, 0.9], 0.5, ">=", 175.0),  # halfway from .2 to .8: sqrt(100 * 400) - 25
    ([0.0, -0.4, -0.8, -0.9, -0.9], -0.5, "<=", 100 * 4**0.25 - 25),  # a quarter of the way
    (
        [0.0, 0.9, 0.1, 0.7, 0.9],
        0.4,
        ">=",
        775.0,
    ),  # met at 75 and gone at 375: the second time counts
    ([0.0, 0.9, 0.1, 0.9, 0.1], 0.5, ">=", np.nan),  # never stays
    (
        [0.0, 0.0, 0.0, 0.2, 0.8],
        0.5,
        ">=",
        3175.0,
    ),  # the last checkpoint has no next one to stay at
    ([0.6, 0.7, 0.1, 0.1, 0.1], 0.5, ">=", 0.0),  # from the start, whatever comes later
    ([0.6, 0.1, 0.1, 0.1, 0.1], 0.5, ">=", np.nan),  # at the start alone
    (
        [0.1, 0.1, 0.3, 0.3, 0.3],
        0.1,
        ">",
        75.0,
    ),  # equal is not above; it leaves the threshold where it stood
    ([0.1, 0.1, 0.3, 0.3, 0.3], 0.1, ">=", 0.0),
    ([0.0, np.nan, 0.8, 0.9, 0.9], 0.5, ">=", 375.0),  # nothing to interpolate from
    ([0.0, 0.0, np.inf, 0.9, 0.9], 0.5, ">=", 375.0),
    ([0.9, np.nan, 0.1, np.nan, np.nan], 0.5, ">=", np.nan),  # a nan is not staying
]


@pytest.mark.parametrize(("values", "threshold", "side", "expected"), PLANTED)
def test_planted_series_cross_where_they_were_planted(values, threshold, side, expected):
    assert event_step(STEPS, np.array(values), threshold, side) == pytest.approx(
        expected, nan_ok=True
    )


def test_a_loss_is_halved_at_its_first_evaluation_below():
    losses = np.array([9.0, 2.0, 1.0, 0.4, 1.9])  # in units of ln 4 / 2: a uniform guess loses 2
    curve = pd.DataFrame({"step": [0, 25, 50, 75, 100], "loss": losses * np.log(2)})
    assert loss_step(curve, 4) == loss_step(curve.iloc[::-1], 4) == 50
    assert np.isnan(loss_step(curve.iloc[:2], 4))
    assert np.isnan(loss_step(curve.assign(loss=np.nan), 4))


def planted_tables():
    """One member: every value 0 (order_rho too), the loss of rsn_train halved at step 75, the
    others' never."""
    grid = [(step, quantity) for step in (0, 75, 375) for quantity in QUANTITIES]
    values = pd.DataFrame(
        [(0.8, 3, *place, 0.0) for place in grid],
        columns=["gamma", "seed", "step", "quantity", "value"],
    )
    curves = pd.DataFrame([(0.8, 3, step, name) for step in (0, 75, 375) for name in SETS])
    curves = curves.set_axis(["gamma", "seed", "step", "set"], axis=1)
    return values, curves.assign(
        loss=np.where((curves.set == "rsn_train") & (curves.step >= 75), 0.1, 9.0)
    )


def test_events_are_dated_or_censored():
    values, curves = planted_tables()
    values.loc[(values.quantity == "geometry/order_rho") & (values.step >= 75), "value"] = -0.8
    values.loc[values.quantity == "uniformity/tv", "value"] = 0.3
    events = event_table(values.sample(frac=1, random_state=0), curves, d_vocab=200).set_index(
        "event"
    )
    found = events["step"].dropna().to_dict()
    expected = {"rsn_train": 75.0, "L0 stops averaging": 0.0, "reasoning anchors are ordered": 75.0}
    assert found == pytest.approx(expected)
    assert events.index[~events["censored"]].tolist() == list(expected)
    assert events["event_of"].tolist() == ["loss"] * 3 + ["mechanism"] * 10


NO_CIRCUITS = pd.DataFrame({"gamma": [0.0], "seed": [-1], "circuit": [""]})


def planted_events(mechanism, loss, gamma=0.8):
    rows = [(gamma, seed, "it forms", "mechanism", step) for seed, step in enumerate(mechanism)]
    rows += [(gamma, seed, "rsn_train", "loss", step) for seed, step in enumerate(loss)]
    return pd.DataFrame(rows, columns=["gamma", "seed", "event", "event_of", "step"])


def test_order_of_planted_events():
    # log2 ratios of step + 25: 100 / 400, 200 / 400, and of 25 / 200 from the start; two seeds lack
    # one event
    events = planted_events([75, 175, 0, np.nan, 75, 175], [375, 375, 175, 375, np.nan, 75])
    events = pd.concat([events, planted_events([np.nan], [0.0], gamma=0.3)])
    order = order_table(events, NO_CIRCUITS).set_index("gamma")
    row, other = order.loc[0.8], order.loc[0.3]
    assert (row.mechanism, row.loss) == ("it forms", "rsn_train")
    assert row[["n", "n_both", "n_first", "n_after", "n_never", "n_loss_never"]].tolist() == [
        6,
        4,
        3,
        1,
        1,
        1,
    ]
    assert row.log2_ratio == pytest.approx((-2 - 1 - 3 + 1) / 4)
    half = 3.182446 * np.std([-2, -1, -3, 1], ddof=1) / 2  # t of 3 degrees of freedom at .975
    assert [row.low, row.high] == pytest.approx([-1.25 - half, -1.25 + half], rel=1e-6)
    assert other[["n", "n_both", "n_first", "n_never", "n_loss_never"]].tolist() == [1, 0, 0, 1, 0]
    assert np.isnan(other.log2_ratio)


def test_order_by_circuit_keeps_members_apart():
    events = planted_events([75, 175, 775], [375, 375, 375])
    circuits = pd.DataFrame({"gamma": 0.8, "seed": [0, 1, 7], "circuit": ["a", "b", "a"]})
    order = order_table(events, circuits).set_index("circuit")
    assert order["log2_ratio"].to_dict() == pytest.approx({"a": -2.0, "b": -1.0, "not named": 1.0})
    assert order["n"].to_dict() == {"a": 1, "b": 1, "not named": 1}


TWO_HEADS = {
    "gammas": (0.5, 0.8),
    "seeds": (1,),
    "model": replace(ModelConfig.preset("smoke"), n_heads=2),
    "train": replace(TINY["train"], n_checkpoints=2),
}


@pytest.fixture(scope="module")
def two_heads(tmp_path_factory):
    run = Run.start(
        tmp_path_factory.mktemp("dynamics") / "run",
        ANCHOR,
        ANCHOR.preset("smoke", **TINY | TWO_HEADS),
    )
    run.train(progress=False)
    return run


@pytest.fixture(scope="module")
def found(two_heads) -> Mapping[str, pd.DataFrame]:
    return dynamics(two_heads, progress=False).tables


def test_every_member_is_read_at_every_checkpoint_of_its_own(two_heads, found):
    half, kept = two_heads.sweep().stage_steps(), {0, 5, 20, 80}
    assert any(step not in kept for step in half.values())
    for member in two_heads.sweep().members:
        values, events = found["dynamics"], found["events"]
        own = values[(values.gamma == member.gamma) & (values.seed == member.seed)]
        steps = own.step.unique().tolist()
        assert steps == sorted(kept | {half[member]})
        assert own.quantity.tolist() == list(own.quantity[: len(QUANTITIES)]) * len(steps)
        assert set(own.quantity) == set(QUANTITIES)
        events = events[(events.gamma == member.gamma) & (events.seed == member.seed)]
        assert events.event.tolist() == [*SETS, *(mechanism.event for mechanism in MECHANISMS)]
    assert len(found["events"]) == 2 * 13


@pytest.mark.parametrize("stage", ["half", 20])
def test_values_agree_with_probes_called_by_hand(two_heads, found, stage):
    gamma, seed = 0.5, 1
    sweep = two_heads.sweep()
    model, data = sweep.model(gamma=gamma, seed=seed, stage=stage), sweep.dataset(seed)
    inputs = model, data.inputs(data.sample("rsn_train", 60))
    heads = [
        {
            "uniformity": uniformity(*inputs, layer=0, head=head, n_null=0).values,
            "value_alignment": value_alignment(
                *inputs, layer=0, head=head, n_null=0, **OPTIONS[value_alignment]
            ).values,
            "attention_to_key": attention_to_key(*inputs, layer=0, head=head, n_null=0).values,
            "attention_by_role": attention_by_role(*inputs, layer=1, head=head, n_null=0).values,
        }
        for head in (0, 1)
    ]
    written = variance_explained(*inputs, n_null=0).values
    embedding = geometry(*inputs, n_null=0, **OPTIONS[geometry]).values
    expected = {
        "uniformity/tv": min(head["uniformity"]["tv"] for head in heads),
        "variance_explained/attn_out.0:anchor_sum": written["attn_out.0:anchor_sum"],
        "variance_explained/attn_out.last:key": written["attn_out.1:key"],
        "geometry/order_rho": embedding["order_rho"],
        "geometry/pc1_key": embedding["pc1_key"],
    }
    for name in set(QUANTITIES) - set(expected):
        probe, quantity = name.split("/")
        expected[name] = max(head[probe][quantity] for head in heads)
    step = sweep.checkpoint(stage, gamma, seed).step
    table = found["dynamics"]
    own = table[(table.gamma == gamma) & (table.seed == seed) & (table.step == step)].set_index(
        "quantity"
    )["value"]
    assert own.to_dict() == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert expected["attention_by_role/key"] != pytest.approx(
        heads[0]["attention_by_role"]["key"], rel=1e-3
    ) or expected["uniformity/tv"] != pytest.approx(
        heads[0]["uniformity"]["tv"], rel=1e-3
    )  # heads differ, so the choice among them was tested
