"""Flows by cause: at and beside every threshold, and of hand-written models."""

import numpy as np
import pandas as pd
import pytest
from reference_models import reference_model

from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.studies.composite.flow import (
    ANSWERS,
    ROLES,
    SITES,
    draw_pairs,
    flow_match,
    flow_of,
    flows_by_attention,
    read_interchange,
    read_knock_out,
)
from rb_interp.studies.composite.task import CompositeTask

pytestmark = pytest.mark.wide

TASK = CompositeTask(n_sequences=1600)
DATA = TASK.dataset(seed=0)
SIZES = ModelConfig(d_model=16, d_head=8, d_mlp=16, norm="post")


NAMES = {"via_last": "via last", "via_anchors": "via anchors", "via_a2": "via a2"}
FROM_L0, FROM_L1 = (f"L{layer}'s attention at last" for layer in (0, 1))
WHAT = {
    "via_last": {
        "last": "kb_ps",
        "key": "ks_pb",
        "a1": "base",
        "a2": "base",
        "noise": "base",
        "a1+a2": "base",
        "key+last": "source",
        "a2+last": "kb_ps",
        "key+noise": "ks_pb",
        FROM_L0: "kb_ps",
        FROM_L1: "ks_pb",
    },
    "via_anchors": {
        "last": "base",
        "key": "base",
        "noise": "base",
        "a1+a2": "source",
        "key+last": "base",
        "last+noise": "base",
        FROM_L0: "base",
        FROM_L1: "source",
    },
    "via_a2": {
        "last": "base",
        "key": "base",
        "a1": "base",
        "a2": "source",
        "a1+a2": "source",
        "key+a1": "base",
        "a2+noise": "source",
        FROM_L0: "base",
        FROM_L1: "source",
    },
}
NONE_MOVED = {f"{taken}:{answer}": 0.0 for taken in SITES for answer in ANSWERS}


@pytest.fixture(
    scope="module",
    params=[("via_last", "symmetric"), ("via_anchors", "inferential"), ("via_a2", "inferential")],
)
def built(request):
    flow, phase = request.param
    return flow, reference_model(DATA, flow, phase)


def test_reference_models_are_named_as_they_were_built_and_their_shares_are_0_or_1(built):
    flow, model = built
    untrained = build_model(TASK, gamma=0.8, config=SIZES)
    reading = read_interchange(model, DATA, untrained=untrained)
    for taken, answer in WHAT[flow].items():
        assert reading.values[f"{taken}:{answer}"] == 1, taken
        assert sum(reading.values[f"{taken}:{other}"] for other in ANSWERS) == 1
    assert {reading.values[f"{taken}:placebo"] for taken in SITES} == {0}
    assert flow_of(reading.values) == NAMES[flow]
    assert reading.n > 300
    assert np.isnan(list(reading.untrained.values())).all()


def test_a_model_that_answers_nothing_rightly_has_no_pairs_and_says_so():
    reading = read_interchange(build_model(TASK, gamma=0.8, config=SIZES), DATA)
    assert np.isnan(list(reading.values.values())).all()
    assert set(reading.notes.values()) == {"no pair of inputs is answered rightly."}
    assert (reading.n, flow_of(reading.values)) == (0, "none")


def test_without_the_edge_that_it_uses_a_model_is_lost_and_without_another_it_is_not(built):
    flow, model = built
    values = read_knock_out(model, DATA).values
    assert values["before"] == 1
    lost = {name: values[name] for name in ("anchors_from_key", "last_from_anchors")}
    used = {
        "via_last": "last_from_anchors",
        "via_anchors": "anchors_from_key",
        "via_a2": "anchors_from_key",
    }[flow]
    assert lost.pop(used) > 0.8
    assert set(lost.values()) == {0}
    assert {values[f"{name}:placebo"] for name in ("anchors_from_key", "last_from_anchors")} == {0}


@pytest.mark.parametrize(
    ("shares", "name"),
    [
        ({"last:kb_ps": 0.8, "key:ks_pb": 0.8}, "via last"),
        ({"last:kb_ps": 1.0, "key:ks_pb": 0.79}, "several"),
        ({"a1+a2:source": 0.8, "a1:source": 0.49, "a2:source": 0.49}, "via anchors"),
        ({"a1+a2:source": 1.0, "a1:source": 0.5}, "several"),
        ({"a1+a2:source": 1.0, "a2:source": 0.5}, "several"),
        ({"a1+a2:source": 1.0, "a2:source": 0.8}, "via a2"),
        ({"a1+a2:source": 0.79}, "several"),
        ({"last:kb_ps": 0.9, "key:ks_pb": 0.9, "a2:source": 0.9}, "via last"),
        ({}, "several"),
        ({"a2:source": np.nan}, "none"),
    ],
)
def test_a_flow_begins_exactly_at_its_threshold(shares, name):
    assert flow_of({**NONE_MOVED, **shares}) == name


def test_attention_meets_a_criterion_exactly_from_its_threshold_on():
    none = {f"{query}_to_{key}": 0.0 for query in ROLES for key in ROLES}
    gathers, fetches = {**none, "last_to_a1": 0.2, "last_to_a2": 0.6}, {**none, "last_to_key": 0.8}
    carries = {**none, "a1_to_key": 0.5, "a2_to_key": 0.5}
    assert flows_by_attention(gathers, fetches) == {"via last": True, "via anchors": False}
    assert flows_by_attention(carries, gathers) == {"via last": False, "via anchors": True}
    for uneven in ((0.19, 0.8), (0.2, 0.59)):
        worse = {**none, **dict(zip(("last_to_a1", "last_to_a2"), uneven, strict=True))}
        assert not any(flows_by_attention(worse, fetches).values())
        assert not any(flows_by_attention(carries, worse).values())
    assert not any(flows_by_attention(gathers, {**none, "last_to_key": 0.79}).values())
    assert not any(flows_by_attention({**carries, "a1_to_key": 0.49}, gathers).values())


def test_pairs_are_those_of_the_definition():
    pairs = draw_pairs(DATA)
    tokens, sources = pairs.base.tokens, pairs.source.tokens
    rows, at = np.arange(len(tokens)), pairs.base.roles.position("key")[:, 0]
    assert len(rows) > 300
    assert at.max() == 4
    shifts, answers = (5, 1, -2, -8), []
    for row in rows:
        own, other = (
            [int(x) for x in one[row, at[row] : at[row] + 3]] for one in (tokens, sources)
        )
        assert own[0] != other[0]
        assert own[1:] != other[1:]
        assert (3, 4) not in (tuple(own[1:]), tuple(other[1:]))
        assert (4, 3) not in (tuple(own[1:]), tuple(other[1:]))
        total = [sum(shifts[anchor - 1] for anchor in pair) for pair in (own[1:], other[1:])]
        answers.append(
            (own[0] + total[0], other[0] + total[1], own[0] + total[1], other[0] + total[0])
        )
        assert len(set(answers[-1])) == 4
    np.testing.assert_array_equal(np.stack([pairs.answers[name] for name in ANSWERS], 1), answers)
    changed = (tokens != sources).sum(1)
    np.testing.assert_array_equal(
        changed,
        [
            (tokens[r, a : a + 3] != sources[r, a : a + 3]).sum()
            for r, a in zip(rows, at, strict=True)
        ],
    )
    redrawn = pairs.placebo.tokens
    block = at[:, None] + np.arange(3)
    np.testing.assert_array_equal(
        np.take_along_axis(redrawn, block, 1), np.take_along_axis(tokens, block, 1)
    )
    assert (redrawn != tokens).any(1).all()
    np.testing.assert_array_equal(pairs.base.labels, pairs.answers["base"])
    np.testing.assert_array_equal(pairs.source.labels, pairs.answers["source"])


def test_flow_match_by_hand():
    kinds = (
        [("inferential", "via anchors")] * 3
        + [("inferential", "via last")]
        + [("symmetric", "via last")] * 2
    )
    kinds += [("symmetric", "several"), ("mixed", "via last"), ("unfit", "via anchors")]
    found = [reading for *_, reading in flow_match(pd.DataFrame(kinds, columns=["phase", "flow"]))]
    shares, n = (
        {"inferential": 3 / 4, "symmetric": 1, "balanced_accuracy": 7 / 8, "other_flow": 1 / 7},
        (4, 2, 6, 7),
    )
    assert {
        name: one.values[name] for name, one in zip(shares, found, strict=True)
    } == pytest.approx(shares)
    assert tuple(one.n for one in found) == n
    assert found[-1].values["other_flow:low"] < 1 / 7 < found[-1].values["other_flow:high"]
    nobody = flow_match(pd.DataFrame([("unfit", "none")], columns=["phase", "flow"]))
    assert all(np.isnan(next(iter(reading.values.values()))) for *_, reading in nobody)
