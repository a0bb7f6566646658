"""Routes, swaps and the number line: exact on any model, and on models written by hand the ways
that were built."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from interventions.rows import DATA, TASK, Added, Shifted, model_of, patched
from probes.lens_models import hooks_on

from experiments.copies import perturbed
from rb_interp.errors import TaskError
from rb_interp.interventions import circuit_by_cause, routes
from rb_interp.interventions import circuits as module
from rb_interp.interventions.circuits import (
    CAUSES,
    NAMED,
    SHARES,
    anchor_routes,
    key_and_sum,
    permuted_number_line,
)
from rb_interp.interventions.sites import most_likely, replaced
from rb_interp.models.build import build_model
from rb_interp.models.protocol import read_weights
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
        list(NAMED)
        == list(CAUSES[:3])
        == ["average-then-key", "gather-at-last-anchor", "key-to-anchors"]
    )
    for name, rule in NAMED.items():
        assert circuit_by_cause(left, 0.5) == name
        for share in rule.shares:
            assert circuit_by_cause({**left, SHARES[share]: 0.7999}, 0.5) != name
            assert circuit_by_cause({**left, SHARES[share]: np.nan}, 0.5) != name
        left[SHARES[rule.shares[0]]] = 0.7
    assert circuit_by_cause(left, 0.5) == circuit_by_cause({}, 0.5) == "mixed"
    assert circuit_by_cause(at_least, 0.4999) == circuit_by_cause(at_least, np.nan) == "none"


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "circuit", "key", "total"),
    [
        ("averager", "average-then-key", 1, 1),
        ("carrier", "key-to-anchors", 1, 1),
        ("averager", "key-to-anchors", 0, None),
        ("carrier", "average-then-key", 0, 0),
    ],
)
def test_models_written_by_hand_carry_key_and_sum_where_their_circuit_does(
    name, circuit, key, total
):
    """The averager's anchors bring their own sum too, save where one of them stands last and sees
    itself."""
    model = reference(name)
    found = key_and_sum(model.model(), model.task.dataset(0), circuit=circuit, n=100)
    sites = {
        "average-then-key": ("attn_out.1@last", "attn_out.0@last"),
        "key-to-anchors": ("attn_out.0@anchor", "resid_pre.0@anchor; held: attn_out.0"),
    }
    assert (found.key.site, found.sum.site) == sites[circuit]
    assert len(found.key.values) == 100
    assert found.key.values.mean() == pytest.approx(key, abs=0.05)
    assert total is None or found.sum.values.mean() == pytest.approx(total, abs=0.05)
    assert not any(effect.control.any() for effect in found)


def test_pairs_differ_in_key_and_sum_and_no_row_is_used_twice():
    found, data = reference("carrier"), reference("carrier").task.dataset(0)
    for same_position in (False, True):
        base, source = module._pairs(found.model(), data, 150, "rsn_train", same_position, seed=0)
        assert len({*base, *source}) == 300
        keys, sums = (
            (lambda rows: data.tokens[rows, data.key_position[rows]]),
            data.anchor_positions,
        )
        assert (keys(base) != keys(source)).all()
        total = [
            np.take_along_axis(data.tokens[rows], sums[rows], 1).sum(1) for rows in (base, source)
        ]
        assert (total[0] != total[1]).all()
        assert (data.set[[*base, *source]] == 1).all()
        assert (data.key_position[base] == data.key_position[source]).all() == same_position
        assert len(set(data.key_position[base])) == 7  # every position, not the first ones


def test_a_model_without_right_answers_reads_nan(monkeypatch):
    monkeypatch.setattr(module, "most_likely", lambda model, tokens: np.full(len(tokens), -1))
    model = build_model(TASK, gamma=0.8)
    swaps = [
        swap for circuit in module.CARRIERS for swap in key_and_sum(model, DATA, circuit=circuit)
    ]
    line = permuted_number_line(model, DATA, n_draws=2)
    for effect in (*swaps, line):
        assert effect.summary()["n"] == 0
        assert np.isnan(effect.summary()["effect"])
    assert line.control.shape == (2, 0)


REFUSED = {
    "memory has no sum": (TASK, "mem", r"needs rows whose answer is key \+ sum"),
    "other labels": (Shifted(**vars(TASK)), "rsn_train", r"needs rows whose answer is key \+ sum"),
    "some other labels": (Shifted(**vars(TASK)), "train", r"needs rows whose answer is key \+ sum"),
    "other anchors": (Added(**vars(TASK)), "mem", "has rows without reasoning anchors"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_whose_answer_is_another_one_are_refused(case):
    task, set, why = REFUSED[case]
    for call in (permuted_number_line, key_and_sum)[: 1 if "anchors" in why else 2]:
        with pytest.raises(TaskError, match=rf"set='{set}'.* {why}"):
            call(model_of("plain"), task.dataset(0), set=set)


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["plain", "gpt2", "post"])
def test_an_anchor_takes_another_s_coordinate_and_the_control_moves_as_far(kind, monkeypatch):
    model, direction, seen = model_of(kind), np.random.default_rng(0).standard_normal(16), []
    before, unit, anchors = (
        read_weights(model),
        direction / np.linalg.norm(direction),
        TASK.tokens("reasoning_anchor"),
    )

    @contextmanager
    def spy(weight, value):
        with replaced(weight, value):
            seen.append(model.W_E.detach().double().numpy().copy())
            yield

    monkeypatch.setattr(module, "replaced", spy)
    assert (
        permuted_number_line(model, DATA, direction=direction, n_draws=3, n=40).control.shape[0]
        == 3
    )
    old, new = before["embed.W_E"].double().numpy(), seen[0]
    np.testing.assert_allclose(new[anchors] @ unit, (old[anchors] @ unit)[::-1], atol=1e-5)
    rest = np.eye(16) - np.outer(unit, unit)
    np.testing.assert_allclose(new[anchors] @ rest, old[anchors] @ rest, atol=1e-5)
    for moved in seen:
        np.testing.assert_array_equal(np.delete(moved, anchors, 0), np.delete(old, anchors, 0))
    np.testing.assert_allclose(
        [np.linalg.norm(moved - old) for moved in seen], np.linalg.norm(new - old), rtol=1e-4
    )
    assert len(seen) == 4
    assert all(torch.equal(tensor, before[name]) for name, tensor in read_weights(model).items())


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "direction", "share"),
    [("averager", "value", 1), ("carrier", "component", 1), ("carrier", "value", 0)],
)
def test_models_written_by_hand_count_an_anchor_as_where_it_stands_on_their_line(
    name, direction, share
):
    """The averager's values read its line first; the carrier's values read keys, and a later layer
    the anchors."""
    found = reference(name)
    model, data = found.model(), found.task.dataset(0)
    effect = permuted_number_line(model, data, direction=direction, n_draws=3)
    assert effect.summary()["effect"] == share
    rows = data.sample(
        "rsn_train", 300
    )  # reversal moves 11 .. 15 to 15 .. 11: an answer of sum 26 stays
    sums = np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1).sum(1)
    assert len(effect.values) == (sums != 26).sum() > 200
    across = np.linalg.svd(model.W_V[0, 0].detach().double().numpy())[0][:, -1]
    assert not permuted_number_line(model, data, direction=across, n_draws=3).values.any()
