"""A path patch is the effect along one path: identities, sums over paths, and circuits written by
hand."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from interventions.rows import DATA, TASK, patched, read_at, without, write_at
from probes.lens_models import hooks_on

from rb_interp.errors import ModelError
from rb_interp.interventions.edits import edits_of, last_logits, values_at
from rb_interp.interventions.path import Paths, path_matrix, path_patch
from rb_interp.interventions.sites import Site
from rb_interp.models.build import build_model
from rb_interp.models.reference import reference
from rb_interp.tasks.anchor import AnchorTask

ROWS = DATA.sample("rsn_train", 24)
BASE = DATA.inputs(ROWS)
SOURCE, NOISE = (TASK.counterfactual(DATA, ROWS, change) for change in ("both", "noise"))
close = partial(torch.testing.assert_close, atol=1e-8, rtol=1e-8)
SMALL = {
    "d_model": 16,
    "d_head": 8,
    "d_mlp": 24,
    "n_heads": 2,
    "gamma": 0.4,
    "dtype": torch.float64,
}


def model_of(norm="none", **given):
    return build_model(TASK, norm=norm, **{**SMALL, **given})


def plain(model, sites, source=SOURCE):
    return patched(model, BASE, source, sites)


def along(model, sender, receiver, mlps="frozen", base=BASE, source=SOURCE, metric="logit_diff"):
    """Logits along a path, of senders and receivers at once where these are lists."""
    paths = Paths(model, [sender], [receiver], mlps, metric, None, source, base, None)
    return paths.logits(0, paths.senders[0], paths.receivers)[0]


@pytest.mark.lens
@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_with_nothing_between_a_path_patch_is_a_plain_patch(norm):
    model = model_of(norm)
    for sender, receiver, same_as in (
        ("resid_pre.0", "attn_out.0@key", "attn_out.0@key"),
        ("resid_pre.1", "v.1@anchor", "v.1@anchor"),
        ("resid_mid.0", "mlp_out.0", "mlp_out.0"),
        ("z.0.1@anchor", "attn_out.0@anchor", "z.0.1@anchor"),
        ("mlp_out.0@anchor", "resid_post.0@anchor", "mlp_out.0@anchor"),
        ("attn_out.1@last", "resid_mid.1@last", "attn_out.1@last"),
        ("pattern.1", "attn_out.1@last", "pattern.1@last"),
    ):
        close(along(model, sender, receiver), plain(model, same_as))
    untouched = along(model, "attn_out.0@anchor", "q.1@last", base=SOURCE, source=BASE)
    assert not torch.equal(untouched, last_logits(model, BASE.tokens))
    assert hooks_on(model) == []


@pytest.mark.lens
def test_a_head_reaches_another_heads_queries_through_two_matrices():
    """In a model of three layers without norm, q changes by (z' - z) W_O W_Q, whatever lies
    between."""
    model = model_of(n_layers=3)
    z, other = (read_at(model, rows.tokens, "z.0.1@anchor", rows.roles) for rows in (BASE, SOURCE))
    q = read_at(model, BASE.tokens, "q.2.0@anchor", BASE.roles)
    q = q + (other - z) @ model.W_O[0, 1].detach() @ model.W_Q[2, 0].detach()
    expected = last_logits(model, BASE.tokens, write_at(model, "q.2.0@anchor", q, BASE))
    close(along(model, "z.0.1@anchor", "q.2.0@anchor"), expected)
    k_at_last = along(
        model, "z.0.1@anchor", "k.2.0@last"
    )  # written at the anchors, read at the last position
    expected = last_logits(model, BASE.tokens)
    apart = ~(BASE.roles.positions["anchor"] == 8).any(1)
    close(k_at_last[apart], expected[apart])


def test_in_a_linear_model_the_effects_of_all_paths_add_up():
    """No MLP and uniform attention: attn_out.0 reaches the logits directly, and through the values
    of layer 1."""
    model = model_of()
    names = [f"blocks.{layer}.{name}" for layer in (0, 1) for name in ("attn.W_Q", "mlp.W_in")]
    with without(model, names):
        base = last_logits(model, BASE.tokens)
        total = plain(model, "attn_out.0") - base
        paths = [along(model, "attn_out.0", to) - base for to in ("v.1", "resid_post.1@last")]
        close(sum(paths), total)
        assert min(path.abs().max() for path in paths) > 1e-2
        close(along(model, "attn_out.0", "k.1"), base)
        heads = [along(model, "attn_out.0", f"v.1.{head}") - base for head in (0, 1)]
        close(sum(heads), paths[0])


def test_rows_keep_their_own_values_over_many_passes(monkeypatch):
    model = model_of()
    once = path_patch(model, BASE, SOURCE, "resid_pre.0@key", "k.1@anchor", control=NOISE)
    monkeypatch.setattr("rb_interp.models.structure.PASS_ROWS", 7)
    many = path_patch(model, BASE, SOURCE, "resid_pre.0@key", "k.1@anchor", control=NOISE)
    np.testing.assert_allclose(many.values, once.values, atol=1e-9)
    np.testing.assert_allclose(many.control, once.control, atol=1e-9)


def test_the_carriers_key_travels_in_the_anchors_values_and_not_in_their_keys():
    data, model = AnchorTask().dataset(0), reference("carrier").model()
    rows = data.sample("rsn_test", 40)
    rows = rows[data.anchor_positions[rows, -1] < 8]
    base = data.inputs(rows)
    source, noise = (data.task.counterfactual(data, rows, change) for change in ("key", "noise"))
    moved = {"v.1@anchor": 1, "k.1@anchor": 0, "v.1@key": 0, "q.1@last": 0, "resid_post.1@last": 0}
    matrix = path_matrix(model, base, source, ["attn_out.0@anchor"], [*moved], control=noise)
    none = [
        float("nan")
    ] * 3  # a position apart, with no attention between the two that is not held
    assert matrix.values[0].tolist() == pytest.approx([1, 0, *none], abs=0.02, nan_ok=True)
    for receiver, share in moved.items():
        effect = path_patch(model, base, source, "attn_out.0@anchor", receiver, control=noise)
        assert (effect.values.mean(), effect.control.mean()) == pytest.approx((share, 0), abs=0.02)
        assert ("path" in effect.notes) == (
            receiver[4:] in ("key", "last") or receiver.startswith("resid")
        )
        assert (effect.site, len(effect.values)) == (f"attn_out.0@anchor -> {receiver}", len(rows))
    direct = path_patch(model, base, source, "resid_pre.0@key", "attn_out.0@anchor")
    assert direct.values.mean() == pytest.approx(1, abs=0.02)
    assert np.isnan(direct.summary()["control"])


SENDERS, RECEIVERS = ["resid_pre.0@key", "z.0.1@anchor"], ["v.0@key", "q.1.0@last", "mlp_out.1"]


@pytest.mark.parametrize(("norm", "mlps"), [("none", "frozen"), ("pre", "recomputed")])
def test_a_matrix_of_paths_is_each_path_by_itself(norm, mlps):
    model = model_of(norm)
    given = {"mlps": mlps, "control": NOISE, "answer_at": -2, "metric": "kl"}
    matrix = path_matrix(model, BASE, SOURCE, SENDERS, RECEIVERS, **given)
    table = matrix.to_frame().set_index(["sender", "receiver"])
    for sender, receiver in product(SENDERS, RECEIVERS):
        cell = table.loc[(sender, receiver)]
        if f"{sender} -> {receiver}" in matrix.notes:
            assert cell[["recovered", "low", "high", "control"]].isna().all()
            continue
        path = path_patch(model, BASE, SOURCE, sender, receiver, **given)
        assert cell.recovered == pytest.approx(path.values.mean(), abs=1e-9)
        assert cell.control == pytest.approx(path.control.mean(), abs=1e-9)
        assert cell.low <= cell.recovered <= cell.high
    assert set(matrix.notes) == {
        "held",
        "z.0.1@anchor -> v.0@key",
        *(f"{sender} -> q.1.0@last" for sender in SENDERS),
    }
    assert len(matrix) == len(BASE)
    assert "share of the kl recovered, by path patching, n = 24" in str(matrix)


def test_mlps_between_are_held_or_follow_the_sender():
    """From L0's head to the last state, by hand: attention after it held, MLPs held or left to
    answer."""
    model, sender, found = model_of("pre"), Site.parse("z.0.1@anchor"), {}
    for mlps, names in (
        ("recomputed", ["attn_out.1"]),
        ("frozen", ["attn_out.1", "mlp_out.0", "mlp_out.1"]),
    ):
        values = values_at(model, BASE, names) | values_at(model, SOURCE, sender)
        found[mlps] = along(model, sender, "logits", mlps)
        close(found[mlps], last_logits(model, BASE.tokens, edits_of(model, BASE, values)))
    assert not torch.allclose(found["frozen"], found["recomputed"], atol=1e-4)


def test_embeddings_send_and_neurons_do_both():
    model = model_of()
    close(along(model, "embed@key", "attn_out.0"), along(model, "resid_pre.0@key", "attn_out.0"))
    close(along(model, "mlp_post.0@key", "mlp_out.0"), plain(model, "mlp_post.0@key"))
    close(along(model, "resid_mid.0@key", "mlp_post.0@key"), plain(model, "mlp_post.0@key"))
    for sender, receiver in (
        ("mlp_post.0", "embed"),
        ("v.1@key", "attn_out.0@key"),
        ("resid_post.0", "mlp_out.0"),
    ):
        with pytest.raises(
            ModelError,
            match=f"does not act on the receiver in '{sender} -> {receiver}': a sender comes",
        ):
            path_patch(model, BASE, SOURCE, sender, receiver)
