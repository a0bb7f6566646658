"""Swaps and the number line: exact on any model, and on models written by hand what was built."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import product
from math import factorial

import numpy as np
import pytest
import torch
from interventions.rows import DATA, TASK, Added, Shifted, model_of
from probes.lens_models import lens_model, read_weights

from rb_interp.errors import ModelError, TaskError
from rb_interp.interventions import swaps as module
from rb_interp.interventions.edits import random_edits, replaced, values_at, with_edits
from rb_interp.interventions.effect import hypotheses_table
from rb_interp.interventions.sites import Site, positions
from rb_interp.interventions.swaps import interchange, key_and_sum, permuted_number_line
from rb_interp.models.build import build_model
from rb_interp.models.reference import reference
from rb_interp.models.structure import key_value_head
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles


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


def hypotheses_of(known, n=200):
    """Rows that end in noise, a source of other key and anchors, and what each part would give."""
    data = known.task.dataset(0)
    rows = data.sample("rsn_train", n)
    rows = rows[data.anchor_positions[rows, -1] < data.tokens.shape[1] - 1]
    base, *others = (
        data.inputs(rows),
        data.task.counterfactual(data, rows, "both"),
        data.task.counterfactual(data, rows, "noise"),
    )
    key = [positions(some, "key") for some in (base, others[0])]
    moved = np.take_along_axis(others[0].tokens, key[1], 1) - np.take_along_axis(
        base.tokens, key[0], 1
    )
    predicted = {
        "key": base.labels + moved[:, 0],
        "sum": others[0].labels - moved[:, 0],
        "both": others[0].labels,
    }
    return base, others[0], others[1], predicted


TRUTH = {
    "averager": {"key": "key", "anchor": "untouched", "last_anchor": "untouched", "last": "sum"},
    "carrier": {"key": "untouched", "anchor": "both", "last_anchor": "other", "last": "untouched"},
    "memoriser": {"key": "untouched", "anchor": "both", "last_anchor": "both", "last": "untouched"},
}
"""What the last layer has from each position of models written by hand."""


@pytest.mark.wide
@pytest.mark.parametrize("name", TRUTH)
def test_each_position_brings_what_was_built_in(name):
    known = reference(name)
    model = known.model()
    base, source, control, predicted = hypotheses_of(known, 100)
    for role, answer in TRUTH[name].items():
        site = f"resid_pre.1@{role}"
        effect = interchange(model, base, source, site, predicted, control=control)
        table = effect.hypotheses.set_index("answer")
        assert table.index.tolist() == ["key", "sum", "both", "untouched", "other"]
        least = 0.75 if answer == "other" else 1
        assert table["share"].idxmax() == answer, role
        assert table["share"][answer] >= least
        for run in ("noise_redrawn", "self"):
            assert table[run].tolist() == [0, 0, 0, 1, 0]
        assert table["explains"].to_dict() == {
            row: row == answer and answer in predicted for row in table.index
        }
        assert np.allclose(table[["share", "random_sites", "random_subspaces"]].sum(), 1)
        if answer in predicted:
            assert table["random_sites"][answer] < 0.3
            assert table["random_subspaces"][answer] < 0.3
            assert effect.values.mean() == 1  # the effect is that of the hypothesis that leads
        n_left_out = len(base) - len(effect.values)
        assert effect.notes["rows"].startswith(f"{n_left_out} of {len(base)} are left out")
        assert "explains" in str(effect)


def test_an_untrained_model_follows_no_hypothesis():
    known = reference("averager")
    base, source, control, predicted = hypotheses_of(known)
    model = build_model(known.task, gamma=0.8, seed=3)
    for role in ("key", "anchor", "last"):
        effect = interchange(model, base, source, f"resid_pre.1@{role}", predicted, control=control)
        table = effect.hypotheses
        assert not table["explains"].any()
        assert table["share"][:3].max() < 0.05
        assert effect.answered < 0.1


def test_pairs_that_follow_one_hypothesis_another_and_none():
    """The averager's answer is the source's; predictions say in how many pairs they expect it."""
    known = reference("averager")
    model, data = known.model(), known.task.dataset(0)
    rows = data.sample("rsn_train", 40)
    base, source = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    noise = data.task.counterfactual(data, rows, "noise")
    right = source.labels
    free = [np.setdiff1d(np.arange(100), pair)[:2] for pair in zip(base.labels, right, strict=True)]
    wrong, wronger = np.array(free).T

    def shares(predicted):
        effect = interchange(model, base, source, "v.1@key", predicted, control=noise)
        table = effect.hypotheses
        return table["share"].tolist(), table["answer"][table["explains"]].tolist()

    first = np.arange(40) < 20
    halves = {"first": np.where(first, right, wrong), "second": np.where(first, wrong, right)}
    assert shares(halves) == ([0.5, 0.5, 0, 0], [])
    most = np.arange(40) < 32
    assert shares({"most": np.where(most, right, wrong), "few": np.where(most, wrong, right)}) == (
        [0.8, 0.2, 0, 0],
        ["most"],
    )
    assert shares({"one": wrong, "other": wronger}) == ([0, 0, 0, 1], [])
    assert shares({"one": wrong.tolist(), "b": torch.from_numpy(right)}) == ([0, 1, 0, 0], ["b"])
    agree = {"a": np.where(first, right, wrong), "b": right}
    assert shares(agree) == ([0, 1, 0, 0], ["b"])
    effect = interchange(model, base, source, "v.1@key", agree, control=noise)
    assert effect.hypotheses["n"].tolist() == [20] * 4
    assert effect.notes["rows"].startswith("20 of 40 are left out")
    untouched = {"stays": np.where(first, base.labels, wrong), "b": right}
    effect = interchange(model, base, source, "v.1@key", untouched, control=noise)
    assert len(effect.values) == 20
    for none in ({"a": right, "b": right}, {"a": base.labels, "b": right}):
        with pytest.raises(ModelError, match="no pair of 40 tells 2 hypotheses apart"):
            interchange(model, base, source, "v.1@key", none, control=noise)
    with pytest.raises(ModelError, match="got one hypothesis; give two or more"):
        interchange(model, base, source, "v.1@key", {"a": right}, control=noise)
    with pytest.raises(ModelError, match="of type <U.*give one token id for each input"):
        interchange(
            model, base, source, "v.1@key", {"a": ["x"] * 40, "b": ["y"] * 40}, control=noise
        )
    with pytest.raises(ModelError, match="got 3 predicted answers for 40 inputs"):
        interchange(model, base, source, "v.1@key", {"a": [1, 2, 3], "b": [4, 5, 6]}, control=noise)


def test_pairs_that_share_a_row_count_once():
    known = reference("averager")
    data = known.task.dataset(0)
    rows = data.sample("rsn_train", 10)
    twice = np.tile(rows, 2)
    base, source = data.inputs(twice), data.task.counterfactual(data, twice, "key")
    noise = data.task.counterfactual(data, twice, "noise")
    predicted = {"source": source.labels, "next": (source.labels + 1) % 100}
    once = interchange(known.model(), base, source, "v.1@key", predicted, control=noise)
    assert len(once.values) <= 10
    back = Inputs(source.tokens, source.labels, source.roles)
    swapped = interchange(
        known.model(),
        joined(base.take(range(10)), back.take(range(10))),
        joined(back.take(range(10)), base.take(range(10))),
        "v.1@key",
        {"source": np.r_[source.labels[:10], base.labels[:10]], "next": np.zeros(20, int)},
        control=noise,
    )
    assert len(swapped.values) <= 10  # each pair, and the same pair the other way round


def joined(*parts):
    """Rows of several inputs below each other."""
    roles = {
        role: np.concatenate([part.roles.positions[role] for part in parts])
        for role in parts[0].roles.positions
    }
    tokens, labels = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("tokens", "labels")
    )
    return Inputs(tokens, labels, Roles(roles))


def table_of(counts, n_draws=1, own=0):
    """The table of hypotheses that so many pairs follow, the rest another answer; ``own`` is self's."""
    n_names = len(counts) - 1
    followed = np.repeat(np.arange(len(counts)), counts) + 1
    predicted = np.arange(1, n_names + 1)[:, None].repeat(len(followed), 1)
    answers = {"share": followed[None], "self": np.full((n_draws, len(followed)), own)}
    return hypotheses_table([*"abcd"[:n_names]], predicted, 0 * followed, answers)


def test_a_table_worked_out_by_hand():
    table = table_of([6, 1, 1])
    assert table["answer"].tolist() == ["a", "b", "untouched", "other"]
    assert table["share"].tolist() == [6 / 8, 1 / 8, 0, 1 / 8]
    # of 7 pairs that follow either, 6 or more follow one of two equal hypotheses in 8 of 128 cases
    assert table["p_value"].tolist()[:2] == [2 * 8 / 128, 1]
    assert not table["explains"].any()
    assert table_of([7, 0, 1])["p_value"][0] == 2 / 128
    assert table_of([7, 0, 1])["explains"].tolist() == [True, False, False, False]
    assert not table_of([7, 0, 1], own=9)["explains"].any()  # self is not what it must be
    assert table_of([7, 0, 0, 1])["p_value"][0] == 3 / 128
    assert table_of([0, 0, 5])["p_value"].tolist()[:2] == [1, 1]


def test_a_control_that_follows_a_hypothesis_as_often_leaves_it_without_a_name():
    ones = np.ones((1, 10), int)
    answers = {"share": ones, "self": 0 * ones, "random_sites": np.repeat([0, 1], [5, 15])[None]}
    answers["random_sites"] = answers["random_sites"].reshape(2, 10)
    predicted = np.array([ones[0], 2 * ones[0]])
    table = hypotheses_table(["a", "b"], predicted, 0 * ones[0], answers)
    assert table["random_sites"].tolist() == [0.75, 0, 0.25, 0]
    assert not table["explains"].any()  # the interval of 10 of 10 begins at .69
    answers["random_sites"][0] = 0
    assert hypotheses_table(["a", "b"], predicted, 0 * ones[0], answers)["explains"][0]


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0), (0.3, 0.3, 0.4), (0.2,) * 3 + (0.4,)])
def test_equal_hypotheses_are_named_in_one_case_of_twenty_at_most(shares):
    """The exact probability, over all ways in which 14 pairs can fall."""
    n, named = 14, 0.0
    for some in product(range(n + 1), repeat=len(shares) - 1):
        counts = [*some, n - sum(some)]
        if counts[-1] < 0 or (counts[-1] and not shares[-1]):
            continue
        if (table_of(counts)["p_value"] < 0.05).any():
            ways = factorial(n) / np.prod([float(factorial(count)) for count in counts])
            named += ways * np.prod(np.array(shares, float) ** counts)
    assert 0 < named <= 0.05


def test_intervals_cover_a_share_in_nineteen_of_twenty_cases():
    n = 20
    tables = [table_of([k, 0, n - k]) for k in range(n + 1)]
    for share in (0.02, 0.1, 0.35, 0.5, 0.8, 0.97):
        covered = 0.0
        for k, table in enumerate(tables):
            if table["low"][0] <= share <= table["high"][0]:
                ways = factorial(n) // (factorial(k) * factorial(n - k))
                covered += ways * share**k * (1 - share) ** (n - k)
        assert covered >= 0.95


@pytest.mark.lens
def test_random_sites_lie_elsewhere_and_random_subspaces_are_as_large():
    model, rng = model_of("gpt2"), np.random.default_rng(0)
    rows = DATA.sample("rsn_train", 12)
    base, source = DATA.inputs(rows), TASK.counterfactual(DATA, rows, "both")
    sites = [Site("resid_pre", 1, "key"), Site("resid_pre", 1, "anchor")]

    def under(edits, hook):
        with with_edits(model, edits), torch.no_grad():
            return model.run_with_cache(torch.from_numpy(base.tokens).long())[1][hook].double()

    hook = sites[0].hook
    before, edits = under([], hook), random_edits(model, base, source, sites, rng)
    moved = (under(edits["random_sites"], hook) - before).abs().amax(2) > 1e-6
    given = np.zeros(base.tokens.shape, bool)
    for role in ("key", "anchor"):
        np.put_along_axis(given, positions(base, role), True, 1)
    assert not moved.numpy()[given].any()
    assert moved.sum(1).max() == given.sum(1)[0] == 3
    taken = (
        values_at(model, source, sites[1])[sites[1]] - values_at(model, base, sites[1])[sites[1]]
    )
    turned = under(edits["random_subspaces"], hook) - before
    turned = torch.stack(
        [row[at] for row, at in zip(turned, positions(base, "anchor"), strict=True)]
    )
    gram = [(change := some.flatten(0, 1).double()) @ change.T for some in (taken, turned)]
    torch.testing.assert_close(*gram, atol=1e-3, rtol=1e-4)
    assert (turned - taken).abs().max() > 0.1
    head = [Site("z", 0, "last", 1), Site("z", 0, "last", 2)]
    edits = random_edits(model, base, source, head, rng)["random_sites"]
    moved = (under(edits, head[0].hook) - under([], head[0].hook)).abs().amax((0, 1, 3)) > 1e-6
    assert moved.any()
    assert not moved[[1, 2]].any()
    everywhere = random_edits(model, base, source, [Site("resid_pre", 1)], rng)
    assert list(everywhere) == ["random_subspaces"]


@pytest.mark.lens
def test_a_stand_in_for_keys_or_values_shares_none_with_a_given_head():
    model = lens_model("grouped")
    inputs = Inputs(np.random.default_rng(0).integers(0, 30, (4, 5)))
    for seed, site in product(range(20), (Site("v", 1, None, 0), Site("k", 1, None, 3))):
        edits = random_edits(model, inputs, inputs, [site], np.random.default_rng(seed))
        own = key_value_head(model, site.unit)
        marked = torch.ones(4, 5, 2, 4)
        marked[:, :, own] = 0
        (edit,) = edits["random_sites"]
        changed = edit.change(marked.clone(), torch.arange(4)) != marked
        assert changed.any()
        assert not changed[:, :, own].any()


def test_heads_have_a_stand_in_each_and_turned_changes_point_anywhere():
    """A random direction has a cosine of 0 with a fixed one, on average."""
    model, rng = model_of("gpt2"), np.random.default_rng(0)
    rows = DATA.sample("rsn_train", 12)
    base, source = DATA.inputs(rows), TASK.counterfactual(DATA, rows, "key")
    sites = [Site("z", 0, "key", 0), Site("z", 0, "key", 1)]
    own = values_at(model, source, sites[0])[sites[0]] - values_at(model, base, sites[0])[sites[0]]

    def read(edits):
        with with_edits(model, edits), torch.no_grad():
            return model.run_with_cache(torch.from_numpy(base.tokens).long())[1][sites[0].hook]

    before, cosines = read([]), []
    key = positions(base, "key")[:, 0]
    for number in range(100):
        edits = random_edits(model, base, source, sites, rng)
        turned = (read(edits["random_subspaces"]) - before)[np.arange(12), key, 0]
        cosines.append(torch.cosine_similarity(turned, own[:, 0], dim=-1).mean().item())
        if number < 10:
            moved = (read(edits["random_sites"]) - before).abs().amax((0, 1, 3)) > 1e-6
            assert moved.tolist() == [False, False, True, True]
    assert abs(np.mean(cosines)) < 4 * np.std(cosines) / 10
    for site in (Site("mlp_post", 1, "last", 3), Site("pattern", 1, "last", 0)):
        assert "random_subspaces" not in random_edits(model, base, source, [site], rng)
