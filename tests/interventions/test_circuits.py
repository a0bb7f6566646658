"""Routes and names: exact on any model, and on models written by hand the ways that were built."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from interventions.rows import DATA, TASK, patched
from probes.lens_models import hooks_on

from experiments.copies import perturbed
from rb_interp.errors import ModelError
from rb_interp.interventions import circuit_by_cause, routes
from rb_interp.interventions.circuits import CAUSES, CIRCUIT_RULES, SHARES, anchor_routes
from rb_interp.interventions.edits import most_likely
from rb_interp.models.build import build_model
from rb_interp.models.reference import reference
from rb_interp.tasks import Inputs
from rb_interp.tasks.anchor import AnchorTask

ROWS = DATA.sample("rsn_train", 80)


SMALL = {
    "d_model": 16,
    "d_head": 8,
    "d_mlp": 24,
    "n_heads": 2,
    "gamma": 0.3,
    "dtype": torch.float64,
}


MODELS = {
    "pre": lambda: build_model(TASK, norm="pre", n_layers=3, train_biases=True, **SMALL),
    "post": lambda: build_model(TASK, norm="post", **SMALL),
}


MASKED = AnchorTask(
    keys=(11, 20),
    memory_anchors=(1, 3),
    reasoning_anchors=(5, 8),
    masked=((5, 7), (7, 5)),
    d_vocab=40,
    n_sequences=400,
)


def answered_by(model, inputs):
    """The inputs with the model's own answers as the right ones."""
    return Inputs(inputs.tokens, most_likely(model, inputs.tokens), inputs.roles)


def difference(logits, base, source):
    rows, found = np.arange(len(logits)), logits.double().numpy()
    return found[rows, source.labels] - found[rows, base.labels]


@pytest.mark.parametrize("name", MODELS)
def test_shares_are_those_of_plain_patches_one_route_at_a_time(name):
    model = MODELS[name]()
    given, changed = (
        answered_by(model, x) for x in (DATA.inputs(ROWS), TASK.counterfactual(DATA, ROWS, "key"))
    )
    found = routes(model, given, {"key": changed})
    ends_in_noise = ~(given.roles.positions["anchor"] == 8).any(1)
    counts = ends_in_noise & (given.labels != changed.labels)
    base, source = given.take(counts), changed.take(counts)
    assert found.n == found.values["key:rows"] == counts.sum() > 5
    last, below = model.cfg.n_layers - 1, range(model.cfg.n_layers - 1)

    def run(rows, others, sites):
        return difference(patched(model, rows, others, sites), base, source)

    before, after = (run(rows, rows, "resid_pre.0@last") for rows in (base, source))
    sites = {
        "from_key": f"resid_pre.{last}@key",
        "from_first_anchors": f"resid_pre.{last}@first_anchor",
        "from_last_anchor": f"resid_pre.{last}@last_anchor",
        "from_anchors": f"resid_pre.{last}@anchor",
        "L0_at_last": [
            f"attn_out.{layer}@last" for layer in below
        ],  # the same as the stream there: an identity
    }
    for route, at in sites.items():
        alone = (run(base, source, at) - before).sum() / (after - before).sum()
        lost = (
            1 - (run(source, base, at) - before).sum() / (after - before).sum()
        )  # all others changed, this one not
        assert found.values[f"key:{route}"] == pytest.approx(np.clip(alone, 0, 1), abs=1e-4), route
        assert found.values[f"key:{route}:needed"] == pytest.approx(
            np.clip(lost, 0, 1), abs=1e-4
        ), route
    assert (
        sum(0.01 < found.values[f"key:{route}"] < 0.99 for route in sites) >= 2
    )  # there is something to see
    assert hooks_on(model) == []


BUILT = {
    "averager": ("average-then-key", "from_key", "L0_at_last"),
    "carrier": ("key-to-anchors", "from_anchors", "from_anchors"),
    "memoriser": ("gather-at-last-anchor", "from_last_anchor", "from_last_anchor"),
}


@pytest.mark.wide
@pytest.mark.parametrize("name", BUILT)
def test_models_written_by_hand_have_the_routes_that_were_built(name):
    known = reference(name, TASK)
    for model in (known.model(), perturbed(known, seed=1).model()):
        found = anchor_routes(model, DATA, n=40)
        circuit, key, anchors = BUILT[name]
        assert circuit_by_cause(found.values, accuracy=1.0) == circuit
        where = {"key": key, "anchors": anchors}
        if (
            name == "carrier"
        ):  # it has the key at both anchors in equal shares, and each anchor at its own position
            assert found.values["key:from_last_anchor"] == pytest.approx(0.5, abs=0.05)
            assert found.values["anchor_1:from_first_anchors"] == pytest.approx(1, abs=0.05)
            assert found.values["anchor_2:from_first_anchors"] == pytest.approx(0, abs=0.05)
        for change, route in where.items():
            assert found.values[f"{change}:{route}"] == pytest.approx(1, abs=0.05)
            assert found.values[f"{change}:{route}:needed"] == pytest.approx(1, abs=0.05)
            apart = {"from_noise", "L0_at_last", "from_key"} - {route}
            assert max(found.values[f"{change}:{other}"] for other in apart) < 0.05


def test_only_rows_count_that_are_answered_rightly_both_ways_and_end_in_noise():
    model, rows = reference("averager", TASK).model(), DATA.sample("rsn_train", 40)
    given = DATA.inputs(rows)
    changes = {
        change: TASK.counterfactual(DATA, rows, change)
        for change in ("key", "anchor_1", "anchor_2")
    }
    free = (DATA.anchor_positions[rows, -1] < 8).sum()
    assert [routes(model, given, changes).values[f"{change}:rows"] for change in changes] == [
        free
    ] * 3
    wrong, same = np.array(changes["key"].labels), changes["key"].tokens.copy()
    apart = np.flatnonzero(DATA.anchor_positions[rows, -1] < 8)
    wrong[apart[:5]] += 1  # not answered rightly with the change
    same[apart[5:8]], wrong[apart[5:8]] = (
        given.tokens[apart[5:8]],
        DATA.labels[rows[apart[5:8]]],
    )  # no change at all
    labels = DATA.labels[rows].copy()
    labels[apart[8:10]] += 1  # not answered rightly without it
    found = routes(
        model,
        Inputs(given.tokens, labels, given.roles),
        changes | {"key": Inputs(same, wrong, given.roles)},
    )
    assert [found.values[f"{change}:rows"] for change in changes] == [free - 10, free - 2, free - 2]
    assert found.n == free - 10


def test_an_untrained_model_reads_nan_and_has_no_name():
    found = anchor_routes(build_model(TASK, gamma=0.8), DATA, n=20)
    assert found.n == 0
    assert np.isnan([found.values["key:from_key"], found.values["anchors:L0_at_last:needed"]]).all()
    assert circuit_by_cause(found.values, accuracy=0.03) == "none"
    assert circuit_by_cause(found.values, accuracy=0.9) == "mixed"


def test_sets_and_tasks_with_few_anchors():
    data = MASKED.dataset(0)
    held_out = anchor_routes(reference("averager", MASKED).model(), data, set="rsn_test", n=20)
    assert held_out.values["key:from_key"] == pytest.approx(1, abs=0.05)
    assert held_out.values["anchor_1:rows"] == 0  # (5, 7) and (7, 5) differ in both anchors
    assert np.isnan(held_out.values["anchors:L0_at_last"])
    one = replace(TASK, q=1)
    found = anchor_routes(reference("carrier", one).model(), one.dataset(0), n=30).values
    assert circuit_by_cause(found, 1.0) == "key-to-anchors"  # there are no first anchors to gather
    assert (found["key:from_last_anchor"], found["key:from_first_anchors"]) == pytest.approx(
        (1, 0), abs=0.02
    )


def test_names_at_their_thresholds_and_in_their_order():
    at_least = dict.fromkeys(SHARES.values(), 0.8)
    left = dict(at_least)
    assert (
        list(CIRCUIT_RULES)
        == list(CAUSES[:3])
        == ["average-then-key", "gather-at-last-anchor", "key-to-anchors"]
    )
    for name, rule in CIRCUIT_RULES.items():
        assert circuit_by_cause(left, 0.5) == name
        for share in rule.shares:
            assert circuit_by_cause({**left, SHARES[share]: 0.7999}, 0.5) != name
            assert circuit_by_cause({**left, SHARES[share]: np.nan}, 0.5) != name
        left[SHARES[rule.shares[0]]] = 0.7
    assert circuit_by_cause(left, 0.5) == "mixed"
    with pytest.raises(ModelError, match=r"none of the shares that it judges; pass routes\("):
        circuit_by_cause({"key:from_noise": 1.0}, 0.5)
    assert circuit_by_cause({}, 0.4) == "none"
    assert circuit_by_cause(at_least, 0.4999) == circuit_by_cause(at_least, np.nan) == "none"
