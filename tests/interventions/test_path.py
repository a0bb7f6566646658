"""A path patch is the effect along one path: identities, sums over paths, and circuits written by
hand."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from interventions.rows import (
    CLEAN,
    CORRUPTED,
    DATA,
    TASK,
    patched,
    read_at,
    without,
    write_at,
)
from probes.lens_models import bridged, hooks_on, lens_model, transformers_model

from rb_interp.errors import ModelError
from rb_interp.interventions.ablating import patching_effect
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
    paths = Paths(model, ["z.0"], ["q.1@last"], "frozen", "logit_diff", None, SOURCE, BASE, None)
    paths.pair.activations[1] = paths.pair.activations[0]  # sent is what is there
    close(paths.logits(0, *paths.senders, paths.receivers)[0], last_logits(model, BASE.tokens))
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


Z, MLP_OUT = "blocks.{}.attn.hook_z", "blocks.{}.hook_mlp_out"


def ran(model, rows, hooks=()):
    """Logits at the last position, and z, mlp_out, q, k and v, under hooks written by hand."""
    cache = {}
    ends = (".hook_z", ".hook_mlp_out", ".hook_q", ".hook_k", ".hook_v", ".hook_post")

    def read(activation, hook, name):
        cache[name] = activation.clone()

    names = [name for name in model.hook_dict if name.endswith(ends)]
    reads = [(name, partial(read, name=name)) for name in names]
    with torch.no_grad():
        logits = model.run_with_hooks(torch.from_numpy(rows.tokens), fwd_hooks=[*reads, *hooks])
    return logits[:, -1], cache


def put(name, values, *index):
    """A hook that writes values, or one unit's."""

    def write(activation, hook):
        new = activation.clone()
        new[(..., *index)] = values[(..., *index)]
        return new

    return name, write


def three_passes(model, base, z, mlp_out, receivers, logits, mlps):
    """Path patching as the paper has it, in hooks of its own.

    Every head's z and, frozen, every MLP is what it was, save senders, ``(layer, head) -> z`` and
    ``layer -> mlp_out``; receivers ``(name, layer, head)`` are read, then written; for the logits the
    first pass is made again, with the heads and MLPs of the second.
    """
    layers = range(model.cfg.n_layers)

    def sent(cache):
        hooks = []
        for layer in layers:
            hooks.append(put(Z.format(layer), cache[Z.format(layer)]))
            hooks += [
                put(Z.format(i), new, slice(head, head + 1), slice(None))
                for (i, head), new in z.items()
                if i == layer
            ]
            held = mlp_out.get(layer, cache.get(MLP_OUT.format(layer)))
            if mlps == "frozen" and held is not None:
                hooks.append(put(MLP_OUT.format(layer), held))
        return hooks

    untouched = ran(model, base)[1]
    out, arrived = ran(model, base, sent(untouched))
    if receivers:
        writes = []
        for name, layer, head in receivers:
            hook = f"blocks.{layer}.attn.hook_{name}"
            writes.append(put(hook, arrived[hook], slice(head, head + 1), slice(None)))
        out, after = ran(model, base, writes)
        if logits:
            out, _ = ran(model, base, sent(after))
    return out


ARCHITECTURES = {
    "no norm": lambda: lens_model("plain"),
    "pre-norm": lambda: lens_model("gpt2"),
    "rotary, RMS": lambda: lens_model("rotary"),
    "grouped": lambda: lens_model("grouped"),
    "parallel": lambda: lens_model("gpt2", parallel_attn_mlp=True),
    "post-norm": lambda: model_of("post", n_layers=4, n_heads=4, dtype=torch.float32),
}
QKV = [(name, 2, 3) for name in "qkv"]
GROUPS = [
    ([(0, 1)], QKV, False),
    ([(0, 1)], [], True),
    ([(0, 0), (0, 2), (1, 3)], QKV, False),
    ([(0, 1), (1, 2), (2, 0)], [("q", 1, 1), ("k", 3, 2), *QKV], True),
    ([(1, 1)], [("v", 3, 0), ("q", 2, 2)], True),
]


@pytest.mark.lens
@pytest.mark.parametrize("mlps", ["frozen", "recomputed"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_several_senders_and_receivers_at_once_are_those_of_plain_hooks(name, mlps):
    model = ARCHITECTURES[name]()
    rows = (BASE, SOURCE) if name == "post-norm" else (CORRUPTED, CLEAN)
    base, source = rows
    z = ran(model, source)[1]
    group = model.cfg.n_heads // (getattr(model.cfg, "n_key_value_heads", None) or 4)
    untouched = ran(model, base)[0]
    for heads, receivers, logits in GROUPS:
        by_hook = [(n, layer, head if n == "q" else head // group) for n, layer, head in receivers]
        sent = {head: z[Z.format(head[0])] for head in heads}
        expected = three_passes(model, base, sent, {}, by_hook, logits, mlps)
        senders = [f"z.{layer}.{head}" for layer, head in heads]
        names = [f"{n}.{layer}.{head}" for n, layer, head in receivers] + ["logits"] * logits
        actual = along(model, senders, names, mlps, base, source, "logit")
        scale = (expected - untouched).abs().max()
        assert scale > 1e-3
        torch.testing.assert_close(actual, expected, atol=2e-4 * float(scale), rtol=0)


@pytest.mark.lens
def test_a_sender_inside_a_sublayer_sends_its_own_change_alone():
    """Queries and a neuron send what their layer writes with them alone, also behind a sender."""
    model = lens_model("gpt2")
    query, neuron = "blocks.2.attn.hook_q", "blocks.1.mlp.hook_post"
    source = ran(model, CLEAN)[1]
    q = put(query, source[query], slice(1, 2), slice(None))
    inside = ran(model, CORRUPTED, [q])[1][Z.format(2)]
    mlp_out = ran(model, CORRUPTED, [put(neuron, source[neuron], 5)])[1][MLP_OUT.format(1)]
    sent = {(0, 1): source[Z.format(0)], (2, 1): inside}
    given = [(name, 3, 2) for name in "qkv"], True, "frozen"
    expected = three_passes(model, CORRUPTED, sent, {1: mlp_out}, *given)
    senders, receivers = ["z.0.1", "q.2.1", "mlp_post.1.5"], ["q.3.2", "k.3.2", "v.3.2", "logits"]
    actual = along(model, senders, receivers, "frozen", CORRUPTED, CLEAN, "logit")
    torch.testing.assert_close(actual, expected, atol=1e-4 * float(expected.abs().max()), rtol=0)
    without_q = along(model, senders[::2], receivers, "frozen", CORRUPTED, CLEAN, "logit")
    assert (without_q - expected).abs().max() > 1e-2 * expected.abs().max()
    for component in ("z", "attn_out"):
        with pytest.raises(
            ModelError, match=f"receiver '{component}.2' follows from one sender in"
        ):
            path_patch(model, CORRUPTED, CLEAN, senders[:2], [f"{component}.2", "logits"])


@pytest.mark.lens
@pytest.mark.parametrize(("family", "components"), [("GPTNeoX", "qkv"), ("Qwen3", "q")])
def test_one_edge_is_that_of_transformer_lens(family, components):
    patching = pytest.importorskip("transformer_lens.patching")
    if not hasattr(patching, "get_act_patch_direct_path"):
        pytest.skip("this TransformerLens holds LayerNorm's scale")
    model, labels = bridged(transformers_model(family)), torch.from_numpy(CLEAN.labels)
    corrupted = torch.from_numpy(CORRUPTED.tokens)
    caches = [
        model.run_with_cache(tokens)[1] for tokens in (torch.from_numpy(CLEAN.tokens), corrupted)
    ]

    def metric(logits):
        return logits[torch.arange(3), -1, labels].mean()

    for component in components:
        given = (model, corrupted, *caches, metric, 0, 2, component, False)
        expected = patching.get_act_patch_direct_path(*given)[1]
        receivers = [f"{component}.1.{head}" for head in range(4)]
        matrix = path_matrix(model, CORRUPTED, CLEAN, "z.0.2", receivers, metric="logit")
        actual = torch.from_numpy(matrix.patched[0].mean(-1))
        scale = (actual - matrix.corrupted.mean()).abs().max()
        torch.testing.assert_close(actual, expected.double(), atol=1e-3 * float(scale), rtol=0)


HEADS = ["z.0.0", "z.0.1"]
QKV_OF_ALL = ["q.1", "k.1", "v.1"]


@pytest.mark.lens
@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_all_paths_at_once_are_a_plain_patch(norm):
    """In two layers all that L0's heads write goes into L1's queries, keys and values, or by MLPs to
    the logits."""
    model = model_of(norm)
    given = (model, BASE, SOURCE, HEADS, [*QKV_OF_ALL, "logits"])
    plain_patch = patching_effect(model, SOURCE, BASE, "z.0").values.mean()
    outputs = path_matrix(*given[:4], ["attn_out.1", "logits"], together=True, mlps="recomputed")
    assert outputs.values[0, 0] == pytest.approx(plain_patch, abs=1e-9)
    whole = path_matrix(*given, together=True, mlps="recomputed", control=NOISE)
    assert whole.values.shape == (1, 1)
    assert whole.values[0, 0] == pytest.approx(plain_patch, abs=1e-9)
    frozen = path_matrix(*given, together=True)
    assert abs(frozen.values[0, 0] - plain_patch) > 1e-3  # paths through MLPs are missing
    assert frozen.axes == {"sender": ["z.0.0 + z.0.1"], "receiver": ["q.1 + k.1 + v.1 + logits"]}
    assert frozen.notes["held"] == "attention between sender and receiver; MLPs there are frozen."
    effect = path_patch(*given, mlps="recomputed", control=NOISE)
    assert effect.values.mean() == pytest.approx(plain_patch, abs=1e-9)
    assert effect.control.mean() == pytest.approx(whole.control[0, 0], abs=1e-9)
    assert effect.site == "z.0.0 + z.0.1 -> q.1 + k.1 + v.1 + logits"
    assert "MLPs there are recomputed" in str(effect)


def test_in_a_linear_model_paths_at_once_are_the_sum_of_each():
    model = model_of()
    names = [f"blocks.{layer}.{name}" for layer in (0, 1) for name in ("attn.W_Q", "mlp.W_in")]
    with without(model, names):
        given = (model, BASE, SOURCE, HEADS, [QKV_OF_ALL, "logits"])
        parts, whole = path_matrix(*given), path_matrix(*given, together=True)
        plain_patch = patching_effect(model, SOURCE, BASE, "z.0").values.mean()
    assert parts.axes["receiver"] == ["q.1 + k.1 + v.1", "logits"]
    assert whole.values[0, 0] == pytest.approx(parts.values.sum(), abs=1e-9)
    assert whole.values[0, 0] == pytest.approx(plain_patch, abs=1e-9)
    assert np.abs(parts.values).min() > 1e-3


def test_groups_that_mean_nothing_are_refused():
    model = model_of()
    with pytest.raises(
        ModelError, match="'resid_post.0@last' is the whole stream, and overwrites w"
    ):
        path_matrix(model, BASE, SOURCE, "embed", [["v.0@key", "resid_post.0@last"], "logits"])
    with pytest.raises(ModelError, match="at least one site"):
        path_matrix(model, BASE, SOURCE, "embed", [])
    with pytest.raises(ModelError, match="at least one site"):
        path_matrix(model, BASE, SOURCE, [[]], "logits", together=True)
    matrix = path_matrix(model, BASE, SOURCE, ["z.0@key", "z.0@last"], "logits")
    assert np.isnan(matrix.values).tolist() == [[True], [False]]  # the answer is read at the last
    assert matrix.notes["z.0@key -> logits"].startswith("no path: no position of the receiver sees")


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
    assert (
        "share of the kl recovered, by path patching, activations of the source in the base rows, n = 24"
        in str(matrix)
    )


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
