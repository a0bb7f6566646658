"""Interchange: what is exact on any model, what it says of models written by hand, and what it refuses."""

from functools import cache
from importlib import import_module

import numpy as np
import pytest
import torch
from interventions.other_answers import Shifted
from interventions.rows import DATA, TASK
from probes.lens_models import hooks_on, lens_model

from rb_interp.errors import TaskError
from rb_interp.interventions.ablating import interchange
from rb_interp.interventions.hooking import interchange_edits, last_logits, with_edits
from rb_interp.interventions.interchanging import key_and_sum
from rb_interp.models import build_model
from rb_interp.models.reference import reference

ROWS = DATA.sample("rsn_train", 40)
BASE = DATA.inputs(ROWS)
SOURCE, NOISE = (TASK.counterfactual(DATA, ROWS, change) for change in ("both", "noise"))


@cache
def models():
    post = build_model(TASK, gamma=0.3, norm="post", d_model=16, d_head=8, d_mlp=16, n_heads=2)
    return {"gpt2": lens_model("gpt2", d_vocab=40), "plain": lens_model("plain", d_vocab=40), "post": post}


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["gpt2", "plain", "post"])
def test_what_is_taken_from_the_base_changes_nothing_and_all_of_the_source_changes_everything(kind):
    model = models()[kind]
    last, before = model.cfg.n_layers - 1, last_logits(model, BASE.tokens)
    sites = [
        "attn_out.0@key",
        "mlp_out.1@last_anchor",
        "z.0.1@anchor",
        "k.1@noise",
        "pattern.0.1@last",
        "resid_mid.1@key",
    ]
    same = last_logits(model, BASE.tokens, interchange_edits(model, BASE, BASE, sites))
    torch.testing.assert_close(same, before, atol=1e-4, rtol=1e-4)
    wanted = last_logits(model, SOURCE.tokens)
    for site in (f"resid_post.{last}@last", "resid_pre.0", f"resid_mid.{last}@last"):
        found = last_logits(model, BASE.tokens, interchange_edits(model, BASE, SOURCE, site))
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    effect = interchange(model, BASE, SOURCE, "resid_pre.0", wanted.argmax(1).numpy(), control=BASE)
    assert effect.values.mean() == 1
    assert not effect.control.any()
    assert hooks_on(model) == []


def test_what_is_held_stays():
    """All that the source brings passes through the last residual stream, which is held."""
    model = build_model(TASK, gamma=0.3, norm="pre", n_layers=4, n_heads=2)
    before = last_logits(model, BASE.tokens).argmax(1).numpy()
    held = interchange(model, BASE, SOURCE, "resid_pre.0", before, control=SOURCE, hold="resid_post.3@last")
    assert held.values.all()
    assert not held.control.any()
    assert held.site == "resid_pre.0; held: resid_post.3@last"
    free = interchange(model, BASE, SOURCE, "resid_pre.0", before, control=SOURCE)
    assert free.values.mean() < 0.9
    np.testing.assert_array_equal(free.control[0], 1 - free.values)


def test_roles_lead_to_other_positions_and_one_head_is_taken_alone():
    """Every position of the key's role, whatever its place: the source is the base in another order."""
    model = models()["plain"]
    other = np.roll(np.arange(len(ROWS)), 1)
    source = BASE.take(other)
    seen = {}

    def see(activation, hook):
        seen["z"] = activation.clone()

    name = "blocks.1.attn.hook_z"
    with model.hooks(fwd_hooks=[(name, see)]):
        last_logits(model, BASE.tokens)
        plain = seen["z"]
    with with_edits(model, interchange_edits(model, BASE, source, "z.1.2@key")), model.hooks(fwd_hooks=[(name, see)]):
        model(torch.from_numpy(BASE.tokens))
    key, rows = BASE.roles.position("key")[:, 0], np.arange(len(ROWS))
    expected = plain.clone()
    expected[rows, key, 2] = plain[other, key[other], 2]
    torch.testing.assert_close(seen["z"], expected)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "circuit", "key", "total"),
    [
        ("averager", "average-then-key", 1, 1),
        ("peaked_averager", "average-then-key", 1, 1),
        ("carrier", "key-to-anchors", 1, 1),
        ("averager", "key-to-anchors", 0, None),
        ("carrier", "average-then-key", 0, 0),
        ("memoriser", "average-then-key", 0, 0),
    ],
)
def test_models_written_by_hand_carry_key_and_sum_where_their_circuit_does(name, circuit, key, total):
    """The averager's anchors bring their own sum too, save where one of them stands last and sees itself."""
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
    from rb_interp.interventions.interchanging import _pairs

    found, data = reference("carrier"), reference("carrier").task.dataset(0)
    for same_position in (False, True):
        base, source = _pairs(found.model(), data, 150, "rsn_train", same_position, seed=0)
        assert len({*base, *source}) == 300
        keys, sums = (lambda rows: data.tokens[rows, data.key_position[rows]]), data.anchor_positions
        assert (keys(base) != keys(source)).all()
        total = [np.take_along_axis(data.tokens[rows], sums[rows], 1).sum(1) for rows in (base, source)]
        assert (total[0] != total[1]).all()
        assert (data.set[[*base, *source]] == 1).all()
        assert (data.key_position[base] == data.key_position[source]).all() == same_position
        assert len(set(data.key_position[base])) == 7  # every position, not the first ones


def test_a_model_without_right_answers_reads_nan(monkeypatch):
    module = import_module(key_and_sum.__module__)
    monkeypatch.setattr(module, "most_likely", lambda model, tokens: np.full(len(tokens), -1))
    for circuit in ("average-then-key", "key-to-anchors"):
        for effect in key_and_sum(build_model(TASK, gamma=0.8), DATA, circuit=circuit):
            assert effect.summary()["n"] == 0
            assert np.isnan(effect.summary()["effect"])


def test_rows_whose_answer_is_another_one_are_refused():
    shifted = Shifted(**vars(TASK)).dataset(0)
    for data, set in ((DATA, "mem"), (shifted, "rsn_train"), (shifted, "train")):
        with pytest.raises(TaskError, match=rf"set='{set}': key_and_sum needs rows whose answer is key \+ sum"):
            key_and_sum(models()["plain"], data, set=set)
