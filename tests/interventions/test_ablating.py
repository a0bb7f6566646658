"""Ablation worked out by hand, interchange where it is exact, and what a model written by hand
loses."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from interventions.rows import DATA, TASK, model_of, read_at
from probes.lens_models import hooks_on

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions.ablating import (
    METHODS,
    ablate,
    ablation,
    ablations,
    replacement,
)
from rb_interp.interventions.edits import edits_of, interchange_edits, last_logits, values_at
from rb_interp.interventions.swaps import interchange
from rb_interp.models import build_model
from rb_interp.models.reference import reference
from rb_interp.tasks import Inputs, Roles

ROWS = DATA.sample("rsn_train", 30)


INPUTS = DATA.inputs(ROWS)


BOTH, NOISE = (TASK.counterfactual(DATA, ROWS, change) for change in ("both", "noise"))


SITES = ("attn_out.0", "mlp_out.1@last", "z.1.0@key", "resid_mid.1@anchor")


def test_what_stands_in_the_place():
    values = torch.tensor([[[1.0, 2.0]], [[3.0, 6.0]], [[8.0, 1.0]]])
    assert not replacement(values, "zero").any()
    assert replacement(values, "mean").tolist() == [[[4.0, 3.0]]] * 3
    resampled = replacement(values, "resample", seed=1)
    assert sorted(resampled[:, 0, 0].tolist()) == [1, 3, 8]
    assert (resampled != values).any(-1).all()
    for n in (2, 3, 50):
        order = replacement(torch.arange(n), "resample", seed=0).numpy()
        assert sorted(order) == list(range(n))
        assert (order != np.arange(n)).all()


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["gpt2", "post"])
@pytest.mark.parametrize("site", SITES)
def test_the_model_computes_with_what_stands_in_the_place(kind, site):
    model, given = model_of(kind), (INPUTS.tokens, site, INPUTS.roles)
    before = read_at(model, *given)
    for method in METHODS:
        with ablate(model, INPUTS, site, method=method, seed=7):
            found = read_at(model, *given)
        torch.testing.assert_close(found, replacement(before, method, 7), atol=1e-4, rtol=1e-4)
    assert hooks_on(model) == []


@pytest.mark.wide
def test_many_at_once_are_the_single_ones():
    model = model_of("gpt2")
    table = ablations(model, INPUTS, SITES, control=NOISE, seed=3).set_index(
        ["component", "method"]
    )
    assert len(table) == len(SITES) * 3
    for (site, method), row in table.iterrows():
        for quantity, metric in (("accuracy_drop", "accuracy"), ("loss_increase", "loss")):
            single = ablation(
                model, INPUTS, site, method=method, control=NOISE, metric=metric, seed=3
            )
            assert row[quantity] == pytest.approx(single.values.mean(), abs=1e-9)
            assert row[f"control_{quantity}"] == pytest.approx(single.control.mean(), abs=1e-9)
            if metric == "accuracy":
                ends = ["low", "high", "control_low"]
                given = [row[name] for name in ends]
                assert given == pytest.approx([single.summary()[name] for name in ends], abs=1e-9)
    clean = (last_logits(model, INPUTS.tokens).argmax(1).numpy() == INPUTS.labels).mean()
    np.testing.assert_allclose(table["accuracy"] + table["accuracy_drop"], clean)
    alone = ablations(model, INPUTS, ["z.1@key"], methods=["zero"])
    assert alone[["control_loss_increase", "control_accuracy_drop"]].isna().all(axis=None)
    assert (alone["answered"] == clean).all()
    heads = ablations(model, INPUTS, head="all", methods=["mean"], metric="loss")
    cfg = model.cfg
    expected = [f"z.{layer}.{head}" for layer in range(cfg.n_layers) for head in range(cfg.n_heads)]
    assert heads["component"].tolist() == expected
    assert (
        heads["component"] == "z." + heads["layer"].astype(str) + "." + heads["head"].astype(str)
    ).all()
    single = ablation(model, INPUTS, expected[-1], metric="loss")
    assert heads["loss_increase"].iloc[-1] == pytest.approx(single.values.mean(), abs=1e-6)


def test_heads_that_share_their_values_say_so():
    table = ablations(model_of("grouped"), INPUTS, ["v.1.2", "z.1.2"], methods=["zero"])
    assert table["component"].to_list() == ["v.1.2 (shared with head 3)", "z.1.2"]


def test_many_at_once_under_another_metric():
    """Without labels too, where nothing is answered rightly or wrongly."""
    model = model_of("gpt2")
    rows = Inputs(INPUTS.tokens, None, INPUTS.roles)
    table = ablations(model, rows, ["z.0"], methods=["zero"], control=NOISE, metric="kl")
    single = ablation(model, rows, "z.0", method="zero", control=NOISE, metric="kl")
    assert list(table.columns[2:5]) == ["kl", "kl_increase", "low"]
    assert table["kl_increase"][0] == pytest.approx(single.values.mean(), abs=1e-9) != 0
    assert table["control_kl_increase"][0] == pytest.approx(single.control.mean(), abs=1e-9)
    assert table["answered"].isna().all()


def test_a_model_written_by_hand_loses_what_its_circuit_needs():
    """The averager needs L0's sum and L1's key at the last position, and nothing of them
    elsewhere."""
    averager = reference("averager")
    model, data = averager.model(), averager.task.dataset(0)
    rows = data.sample("rsn_train", 60)
    sites = ["attn_out.0@last", "attn_out.1@last", "attn_out.1@noise"]
    data_in, noise = data.inputs(rows), data.task.counterfactual(data, rows, "noise")
    table = ablations(model, data_in, sites, control=noise).set_index(["component", "method"])
    assert (table["accuracy_drop"].loc[["attn_out.0@last", "attn_out.1@last"]] > 0.75).all()
    assert not table["control_accuracy_drop"].any()


def test_a_pass_of_other_rows_is_refused_and_all_of_them_may_come_in_several_passes():
    model, tokens = model_of("plain"), torch.from_numpy(INPUTS.tokens).long()
    with ablate(model, INPUTS, "z.1.0@key", method="resample"), torch.no_grad():
        model(tokens)
        for other in (tokens.roll(1, 1), tokens[:5], tokens.flip(0)):
            with pytest.raises(
                ModelError, match="this pass does not have the 30 rows that the edits were made for"
            ):
                model(other)
    assert not model.embed._forward_pre_hooks
    assert hooks_on(model) == []


def test_values_of_another_shape_are_refused():
    model, site = model_of("plain"), "attn_out.1@last"
    (values,) = values_at(model, INPUTS, site).values()
    expected = last_logits(model, INPUTS.tokens)
    edits = edits_of(model, INPUTS, {site: values.numpy()})
    torch.testing.assert_close(last_logits(model, INPUTS.tokens, edits), expected)
    for wrong in (values[:5], values[:1], values[..., :5], values[..., :1], values[:, 0]):
        edits = edits_of(model, INPUTS, {site: wrong})
        message = f"values of {site} have shape {list(wrong.shape)}; expected {list(values.shape)}."
        with pytest.raises(ModelError, match=re.escape(message)):
            last_logits(model, INPUTS.tokens, edits)
    roles = {"nowhere": np.zeros(INPUTS.tokens.shape, bool)}
    with pytest.raises(RolesError, match="role 'nowhere' has no position in these rows"):
        ablation(model, replace(INPUTS, roles=Roles(roles)), "z.1.0@nowhere")


def test_zero_and_the_mean_at_one_place_stand_in_any_row_of_the_same_length():
    model, tokens = model_of("plain"), torch.from_numpy(INPUTS.tokens).long()
    with ablate(model, INPUTS, "attn_out.0@last"), torch.no_grad():
        whole = model(tokens.roll(1, 1))
        torch.testing.assert_close(model(tokens.roll(1, 1)[4:5]), whole[4:5], atol=1e-4, rtol=1e-4)
        with pytest.raises(ModelError, match="was made for rows of 9 positions; make edits"):
            model(tokens[:, 1:])
    with (
        ablate(model, INPUTS, "attn_out.0@key"),
        pytest.raises(ModelError, match="does not have the 30 rows"),
    ):
        model(tokens.roll(1, 1))  # nobody knows where its key stands


def test_a_pattern_that_stands_elsewhere_in_other_rows_has_no_mean():
    """It would look at later tokens."""
    model = model_of("post")
    for method in ("mean", "resample"):
        with pytest.raises(ModelError, match="stands elsewhere"):
            ablations(model, INPUTS, ["pattern.1@key"], methods=[method])
        with (
            pytest.raises(ModelError, match="stands elsewhere"),
            ablate(model, INPUTS, "pattern.1@key", method=method),
        ):
            pass
    order = np.roll(np.arange(len(INPUTS)), 1)
    with pytest.raises(ModelError, match="stands elsewhere"):
        ablations(model, INPUTS, ["pattern.1@key"], methods=["zero"], control=INPUTS.take(order))
    table = ablations(model, INPUTS, ["pattern.1@last", "pattern.1@key"], methods=["zero"])
    assert len(table) == 2


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["gpt2", "post"])
def test_what_is_taken_from_the_base_changes_nothing_and_all_of_the_source_changes_everything(kind):
    model = model_of(kind)
    last, before = model.cfg.n_layers - 1, last_logits(model, INPUTS.tokens)
    sites = [
        "attn_out.0@key",
        "mlp_out.1@last_anchor",
        "z.0.1@anchor",
        "pattern.0.1@last",
        "resid_mid.1@key",
    ]
    same = last_logits(model, INPUTS.tokens, interchange_edits(model, INPUTS, INPUTS, sites))
    torch.testing.assert_close(same, before, atol=1e-4, rtol=1e-4)
    wanted = last_logits(model, BOTH.tokens)
    for site in (f"resid_post.{last}@last", "resid_pre.0", f"resid_mid.{last}@last"):
        found = last_logits(model, INPUTS.tokens, interchange_edits(model, INPUTS, BOTH, site))
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    predicted = wanted.argmax(1).numpy()
    left_out = int((predicted == before.argmax(1).numpy()).sum())
    effect = interchange(model, INPUTS, BOTH, "resid_pre.0", predicted, control=NOISE)
    assert effect.values.all()
    assert len(effect.values) == effect.control.shape[1] == len(ROWS) - left_out
    assert effect.notes.get("rows", "").startswith(f"{left_out} of 30 are left out") == bool(
        left_out
    )
    assert hooks_on(model) == []


def test_what_is_held_stays():
    """All that the source brings passes through the last residual stream, which is held."""
    model = build_model(TASK, gamma=0.3, norm="pre", n_layers=4, n_heads=2)
    after = last_logits(model, BOTH.tokens).argmax(1).numpy()
    held = interchange(
        model, INPUTS, BOTH, "resid_pre.0", after, control=BOTH, hold="resid_post.3@last"
    )
    assert not held.values.any()
    assert not held.control.any()
    assert held.site == "resid_pre.0; held: resid_post.3@last"
    free = interchange(model, INPUTS, BOTH, "resid_pre.0", after, control=BOTH)
    assert len(free.values) > 0
    assert free.values.all()
    assert free.control.all()


def test_a_row_that_answers_as_predicted_already_is_left_out():
    """A site that does nothing moves no row, however often the prediction is the base's own
    answer."""
    model = model_of("gpt2")
    before = last_logits(model, INPUTS.tokens).argmax(1).numpy()
    half = np.where(np.arange(30) < 12, before, (before + 1) % 40)
    effect = interchange(model, INPUTS, INPUTS, "z.0@key", half, control=NOISE)
    assert (effect.values.mean(), len(effect.values), effect.before) == (0, 18, 0)
    assert (
        effect.notes["rows"]
        == "12 of 30 are left out, since their answer is the predicted one already."
    )
    none = interchange(model, INPUTS, BOTH, "z.0@key", before, control=NOISE)
    assert np.isnan(none.summary()["effect"])
    with pytest.raises(ModelError, match=r"predicted answers from -1 to 40; .* tokens 0 to 39"):
        interchange(model, INPUTS, BOTH, "z.0@key", np.r_[-1, before[1:-1], 40], control=NOISE)
