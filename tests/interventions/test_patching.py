"""A patching matrix has generic_activation_patch's numbers, and finds the circuits of models
written by hand."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from interventions.rows import CLEAN as FEW
from interventions.rows import CORRUPTED as OTHER
from interventions.rows import DATA, TASK, by_hooks, patched
from interventions.rows import ROLES as PLACES
from probes.lens_models import bridged, hooks_on, lens_model, transformers_model
from transformer_lens import patching as peer

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions import ablation
from rb_interp.interventions.ablating import ablate, patch, patching_effect
from rb_interp.interventions.attribution import COMPONENTS, attribution_matrix
from rb_interp.interventions.edits import last_logits
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.path import path_patch
from rb_interp.interventions.sites import Site, positions
from rb_interp.models.build import build_model
from rb_interp.models.reference import reference
from rb_interp.probes.activations import capture
from rb_interp.tasks import AnchorTask, Inputs

ROWS = DATA.sample("rsn_train", 24)


CLEAN = DATA.inputs(ROWS)


KEY, BOTH, NOISE = (TASK.counterfactual(DATA, ROWS, change) for change in ("key", "both", "noise"))


SMALL = {"d_model": 16, "d_head": 8, "d_mlp": 24, "n_heads": 2}


MODELS = {
    "none": lambda: build_model(TASK, gamma=0.4, norm="none", **SMALL),
    "pre": lambda: build_model(TASK, gamma=0.4, norm="pre", n_layers=3, train_biases=True, **SMALL),
    "post": lambda: build_model(TASK, gamma=0.4, norm="post", **SMALL),
    "gpt2": lambda: lens_model("gpt2", d_vocab=40, n_layers=2, n_heads=2),
    "rotary": lambda: lens_model("rotary", d_vocab=40, n_layers=2, n_heads=2),
}


def row_metric(logits, clean=CLEAN, corrupted=BOTH):
    rows, found = np.arange(len(logits)), logits.double().numpy()
    return found[rows, clean.labels] - found[rows, corrupted.labels]


def by_peer(model, clean, corrupted, components, roles):
    """Mean metric of each cell by TransformerLens's own function, ``[component, layer, role]``."""
    tokens, others = (torch.from_numpy(rows.tokens).long() for rows in (clean, corrupted))
    at = [torch.from_numpy(positions(clean, role)) for role in roles]
    row, n_layers = torch.arange(len(tokens))[:, None], model.cfg.n_layers

    def setter(activation, index, source, axis):
        here = at[int(index[1])]
        activation.movedim(axis, 1)[row, here] = source.movedim(axis, 1)[row, here]
        return activation

    def metric(logits):
        return torch.tensor(row_metric(logits[:, -1], clean, corrupted).mean())

    cells = pd.DataFrame([(layer, role) for layer in range(n_layers) for role in range(len(roles))])
    model.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, cache = model.run_with_cache(tokens)
        found = [
            peer.generic_activation_patch(
                model,
                others,
                cache,
                metric,
                partial(setter, axis=2 if name == "pattern" else 1),
                name,
                index_df=cells,
            )
            for name in components
        ]
    return torch.stack(found).reshape(len(components), n_layers, len(roles)).numpy()


@pytest.mark.lens
@pytest.mark.wide
@pytest.mark.parametrize("kind", ["pre", "post", "rotary"])
def test_every_cell_has_the_number_of_generic_activation_patch(kind, monkeypatch):
    monkeypatch.setattr(peer, "tqdm", lambda items, **_: items)
    model, roles = MODELS[kind](), ("key", "anchor", "last")
    matrix = patching_matrix(model, CLEAN, BOTH, roles=roles)
    expected = by_peer(model, CLEAN, BOTH, COMPONENTS, roles)
    np.testing.assert_allclose(
        matrix.patched.mean(-1), expected, atol=1e-5 * max(1.0, np.abs(expected).max())
    )
    assert np.unique(expected.round(5)).size > 20
    assert hooks_on(model) == []


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("pre", "grouped")]


@pytest.mark.wide
@pytest.mark.parametrize("kind", ["post", "gpt2", *SLOW])
def test_cells_side_by_side_are_cells_run_one_by_one(kind, monkeypatch):
    """Whole runs, which a caller's hook forces, and passes of few rows give the same rows; each
    head by itself."""
    model = MODELS[kind]() if kind in MODELS else lens_model(kind, d_vocab=40, n_layers=2)
    pair, other = (
        (CLEAN.take(np.arange(6)), BOTH.take(np.arange(6))),
        NOISE.take(np.arange(6)[::-1]),
    )
    for head, components in ((None, ["resid_pre", "k", "z", "mlp_out"]), (1, ["q", "v"])):
        wanted = {
            "components": components,
            "head": head,
            "control": other,
            "roles": ("key", "anchor", "noise"),
        }
        fast = patching_matrix(model, *pair, **wanted)
        close = 1e-5 * np.abs(fast.patched).max()
        for values in (1, 3_000):
            monkeypatch.setattr("rb_interp.interventions.patching.PASS_VALUES", values)
            few = patching_matrix(
                model,
                *pair,
                components=components,
                head=head,
                layers=[1],
                roles=("anchor", "noise"),
            )
            np.testing.assert_allclose(few.patched[:, 0], fast.patched[:, 1, 1:], atol=close)
        monkeypatch.undo()
        with model.hooks(
            fwd_hooks=[("blocks.0.hook_mlp_out", lambda activation, hook: activation)]
        ):
            there = hooks_on(model)
            whole = patching_matrix(model, *pair, **wanted)
            assert hooks_on(model) == there
        np.testing.assert_allclose(fast.patched, whole.patched, atol=close)
        np.testing.assert_allclose(fast.control_patched, whole.control_patched, atol=close)
        one = patched(model, pair[1], other, Site(components[1], 1, "key", head))
        np.testing.assert_allclose(
            fast.control_patched[1, 1, 0], row_metric(one, *pair), atol=close
        )


@pytest.mark.lens
def test_what_the_callers_hooks_do_is_part_of_the_model():
    model, wanted = (
        MODELS["pre"](),
        {"components": ["attn_out", "z", "k"], "roles": ("last", "key")},
    )

    def half_of_one_row(activation, hook):
        return torch.cat([activation[:1] / 2, activation[1:]])

    without = patching_matrix(model, CLEAN, BOTH, **wanted)
    with model.hooks(fwd_hooks=[("blocks.1.hook_attn_out", half_of_one_row)]):
        found = patching_matrix(model, CLEAN, BOTH, **wanted)
        expected = row_metric(patched(model, BOTH, CLEAN, "k.1@key"))
        np.testing.assert_allclose(found.patched[2, 1, 1], expected, atol=1e-5)
        np.testing.assert_allclose(
            found.clean, row_metric(last_logits(model, CLEAN.tokens)), atol=1e-5
        )
    assert not np.allclose(found.patched[..., 0], without.patched[..., 0], atol=1e-3)
    np.testing.assert_allclose(found.patched[..., 1:], without.patched[..., 1:], atol=1e-5)


def test_runs_begin_at_a_block_only_where_the_forward_is_transformer_lens_own():
    """One that bounds its input leaves tokens as they are, and a stream of the rows that run, but
    not a patched one."""
    model, pair, hook = (
        MODELS["gpt2"](),
        (BOTH.take(np.arange(4)), CLEAN.take(np.arange(4))),
        "blocks.1.hook_resid_pre",
    )
    wanted, low = (
        {"components": ["resid_pre"], "layers": [1]},
        capture(model, pair[1].tokens, [hook])[hook].min(),
    )

    class Bounded(type(model)):
        def forward(self, input, *args, **kwargs):
            return super().forward(input.maximum(low.to(input)), *args, **kwargs)

    plain = patching_matrix(model, *pair, **wanted).patched
    model.__class__ = Bounded
    np.testing.assert_allclose(patching_matrix(model, *pair, **wanted).patched, plain, atol=1e-5)


def test_all_of_the_stream_recovers_everything_and_what_is_the_same_recovers_nothing():
    matrix = patching_matrix(MODELS["post"](), CLEAN, KEY, roles=("all", "key", "noise", "anchor"))
    cells = matrix.to_frame().set_index(["component", "layer", "role"])
    for name in ("resid_pre", "resid_mid", "resid_post"):
        assert cells.loc[(name, 1, "all"), "recovered"] == pytest.approx(1, abs=1e-5)
    assert cells.loc[("resid_pre", 0, "key"), "recovered"] == pytest.approx(1, abs=1e-5)
    for role, name in (("noise", "resid_pre"), ("anchor", "v"), ("noise", "q")):
        assert cells.loc[(name, 0, role), "recovered"] == 0
    assert list(cells.columns) == ["recovered", "low", "high", "control", "n"]
    assert (cells.n == len(ROWS)).all()
    assert cells.control.isna().all()


def test_patches_go_from_role_to_role():
    """The averager adds the key that it finds to the sum of the anchors: with another row's key,
    its answer moves."""
    model, data = reference("averager").model(), AnchorTask().dataset(0)
    rows = data.sample("rsn_test", 120)
    base, source = data.inputs(rows[:60]), data.inputs(rows[60:])
    apart = (base.roles.positions["key"] != source.roles.positions["key"])[:, 0]
    assert apart.mean() > 0.5
    key, other = (
        rows.tokens[np.arange(60), rows.roles.positions["key"][:, 0]] for rows in (base, source)
    )
    found = patched(model, base, source, "v.1@key").argmax(1)
    assert (found.numpy() == base.labels - key + other).all()
    both = patched(model, base, source, ["v.1@key", "attn_out.0@last"]).argmax(1)
    assert (both.numpy() == source.labels).all()


EXACT = {
    ("averager", "key"): {
        "resid_pre.0@key": 1,
        "resid_pre.1@key": 1,
        "attn_out.1@last": 1,
        "z.1@last": 1,
        "v.1@key": 1,
        "k.1@key": 0,
        "attn_out.0@last": 0,
        "attn_out.0@anchor": 0,
        "pattern.1@last": 0,
        "q.1@last": 0,
        "resid_pre.0@noise": 0,
    },
    ("averager", "anchors"): {
        "resid_pre.0@anchor": 1,
        "attn_out.0@last": 1,
        "attn_out.1@last": 0,
        "v.0@anchor": 1,
        "k.0@anchor": 0,
    },
    ("carrier", "key"): {
        "resid_pre.0@key": 1,
        "attn_out.0@anchor": 1,
        "v.1@anchor": 1,
        "v.1@key": 0,
        "attn_out.0@last": 0,
        "attn_out.1@last": 1,
        "k.1@anchor": 0,
    },
    ("carrier", "anchors"): {
        "resid_pre.0@anchor": 1,
        "attn_out.0@anchor": 0,
        "v.1@anchor": 1,
        "attn_out.1@last": 1,
    },
}


@pytest.mark.wide
@pytest.mark.parametrize(("name", "change"), EXACT)
def test_circuits_written_by_hand_are_found(name, change):
    data, model = AnchorTask().dataset(0), reference(name).model()
    rows = data.sample("rsn_train", 40)
    rows = rows[data.anchor_positions[rows, -1] < 8]  # else the last position is that of an anchor
    clean, corrupted = data.inputs(rows), data.task.counterfactual(data, rows, change)
    redrawn = corrupted.with_tokens_of(data.task.counterfactual(data, rows, "noise"), "noise")
    sites = {text: Site.parse(text) for text in EXACT[name, change]}
    wanted = {
        "components": list(dict.fromkeys(site.component for site in sites.values())),
        "control": redrawn,
    }
    cells = (
        patching_matrix(model, clean, corrupted, **wanted)
        .to_frame()
        .set_index(["component", "layer", "role"])
    )
    for text, expected in EXACT[name, change].items():
        site = sites[text]
        cell = cells.loc[(site.component, site.layer, site.role)]
        assert cell.recovered == pytest.approx(expected, abs=0.03), text
        assert (
            cell.low - 1e-12 <= cell.recovered <= cell.high + 1e-12
        )  # rounding, where all rows are equal
        if site.role != "noise":
            assert cell.control == pytest.approx(0, abs=0.03), text


def test_a_control_made_of_the_rows_that_activations_are_taken_from_is_refused():
    """It would read as much as the effect, which would then look like nothing."""
    model, right = MODELS["none"](), BOTH.with_tokens_of(NOISE, "noise")
    few = {"components": ("attn_out",), "roles": ("key",)}
    matrices = (partial(call, **few) for call in (patching_matrix, attribution_matrix))
    for call in (*matrices, partial(patching_effect, sites="attn_out.0")):
        with pytest.raises(
            ModelError,
            match=r"control with the right answers of the rows that activations are taken",
        ):
            call(model, CLEAN, BOTH, control=NOISE)
        with pytest.raises(ModelError, match="make it of the rows that run"):
            call(model, CLEAN, BOTH, control=right, direction="noise")
        call(model, CLEAN, BOTH, control=right)
        call(model, CLEAN, BOTH, control=NOISE, direction="noise")
    with pytest.raises(
        ModelError, match=r"tokens \[24, 9\] and the rows that run \[2, 9\]; give as"
    ):
        patching_matrix(model, CLEAN, BOTH.take(np.arange(2)))
    with pytest.raises(ModelError, match="got a control with the right answers"):
        path_patch(model, BOTH, CLEAN, "attn_out.0@anchor", "v.1@anchor", control=NOISE)


LAST = torch.full((3,), 5)


def test_several_sites_are_hooks_by_hand_at_once():
    model = lens_model("gpt2", n_layers=2)
    sites, by_hand = (
        ["z.0.2@key", "mlp_out.1@last"],
        [("z", 0, 2, "key"), ("mlp_out", 1, None, "last")],
    )
    with ablate(model, FEW, sites, method="zero"), torch.no_grad():
        found = model(torch.from_numpy(FEW.tokens))[:, -1]
    torch.testing.assert_close(
        found, by_hooks(model, FEW, None, by_hand, LAST), atol=1e-5, rtol=1e-5
    )
    expected = by_hooks(model, OTHER, FEW, by_hand, LAST)
    with patch(model, OTHER, FEW, sites), torch.no_grad():
        torch.testing.assert_close(
            model(torch.from_numpy(OTHER.tokens))[:, -1], expected, atol=1e-5, rtol=1e-5
        )
    assert hooks_on(model) == []


def test_one_name_is_a_list_of_it():
    model = lens_model("gpt2")
    for matrix in (patching_matrix, attribution_matrix):
        found = matrix(model, FEW, OTHER, components="attn_out", roles="key").to_frame()
        listed = matrix(model, FEW, OTHER, components=["attn_out"], roles=["key"]).to_frame()
        pd.testing.assert_frame_equal(found, listed)


def test_noising_is_denoising_with_the_rows_exchanged():
    """Corrupted cells in clean rows: the same runs, of which the share lost is what the exchange
    recovers."""
    model, order = lens_model("gpt2", n_layers=2), [1, 2, 0]
    control = Inputs(FEW.tokens[order], FEW.labels[order], PLACES.take(np.array(order)))
    given = {"control": control, "components": ("resid_pre", "v", "z")}
    noise = patching_matrix(model, FEW, OTHER, direction="noise", **given)
    exchanged = patching_matrix(model, OTHER, FEW, **given)
    np.testing.assert_allclose(noise.values, exchanged.values, atol=1e-5)
    np.testing.assert_allclose(noise.control, exchanged.control, atol=1e-5)
    np.testing.assert_allclose(noise.clean, -exchanged.corrupted, atol=1e-5)
    for mine, other in zip(noise.ends, exchanged.ends, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-3)
    assert "lost" in noise.to_frame().columns
    logits = by_hooks(model, FEW, OTHER, [("z", 1, None, "key")], LAST).double().numpy()
    rows, cell = np.arange(3), noise.cell("z", 1, "key")
    np.testing.assert_allclose(
        noise.patched[cell], logits[rows, FEW.labels] - logits[rows, OTHER.labels], atol=1e-4
    )


LENS = {
    "gpt2": lambda: lens_model("gpt2", n_layers=2),
    "Gemma2": lambda: bridged(transformers_model("Gemma2")),
    "side by side": lambda: bridged(transformers_model("GPTNeoX")),
}


@pytest.mark.lens
@pytest.mark.parametrize("kind", LENS)
def test_embeddings_and_neurons_are_hooks_by_hand(kind):
    model = LENS[kind]()
    sites = {
        "embed@key": ("hook_embed", 0, None, "key"),
        "mlp_post.0@key": ("mlp_post", 0, None, "key"),
    }
    sites |= {
        "mlp_post.1.7@last": ("mlp_post", 1, 7, "last"),
        "mlp_post.0.31@key": ("mlp_post", 0, 31, "key"),
    }
    if kind == "gpt2":
        sites["pos_embed@key"] = ("hook_pos_embed", 0, None, "key")
    else:
        with pytest.raises(ModelError, match="'pos_embed@key' is not in this model"):
            ablation(model, FEW, "pos_embed@key")
    changed = []
    for text, by_hand in sites.items():
        assert str(Site.parse(text)) == text
        expected = by_hooks(model, OTHER, FEW, [by_hand], LAST)
        torch.testing.assert_close(patched(model, OTHER, FEW, text), expected, atol=1e-4, rtol=1e-4)
        with ablate(model, FEW, text, method="zero"), torch.no_grad():
            found = model(torch.from_numpy(FEW.tokens))[:, -1]
        torch.testing.assert_close(
            found, by_hooks(model, FEW, None, [by_hand], LAST), atol=1e-4, rtol=1e-4
        )
        changed.append((expected - by_hooks(model, OTHER, FEW, [], LAST)).abs().max())
    assert (
        sum(change > 1e-3 for change in changed) >= 3
    )  # the same position has the same embedding in all rows
    matrix = patching_matrix(
        model, FEW, OTHER, components=["mlp_post", "embed"], roles=("key", "last")
    )
    expected = by_hooks(model, OTHER, FEW, [("mlp_post", 1, None, "last")], LAST)
    expected = (expected[np.arange(3), FEW.labels] - expected[np.arange(3), OTHER.labels]).numpy()
    np.testing.assert_allclose(
        matrix.patched[0, 1, 1], expected, atol=1e-4 * np.abs(expected).max() + 1e-5
    )
    assert np.isnan(matrix.patched[1, 1]).all()
    assert matrix.notes["embed"] == "stands before the first layer, and has cells in layer 0 alone."


@pytest.mark.parametrize("make", [patching_matrix, attribution_matrix])
def test_all_positions_and_all_heads_are_the_single_cells(make):
    model = MODELS["gpt2"]()
    by_position = make(model, CLEAN, BOTH, components=["resid_mid", "v"], roles="positions")
    assert list(by_position.axes) == ["component", "layer", "position"]
    by_head = make(model, CLEAN, BOTH, head="all")
    assert list(by_head.axes) == ["component", "layer", "head", "role"]
    length = CLEAN.tokens.shape[1]
    assert by_position.values.shape == (2, 2, length)
    assert by_head.values.shape == (1, 2, 2, 1)
    singles = [str(position) for position in range(length)]
    alone = make(model, CLEAN, BOTH, components=["resid_mid", "v"], roles=singles)
    np.testing.assert_array_equal(by_position.values, alone.values)
    both = make(model, CLEAN, BOTH, head="all", components=["v", "z"], roles="positions")
    for head in range(2):
        of_head = make(model, CLEAN, BOTH, head=head, components=["z"], roles=["all"])
        np.testing.assert_allclose(by_head.values[:, :, head], of_head.values, rtol=1e-5, atol=1e-6)
        one = make(model, CLEAN, BOTH, head=head, components=["v", "z"], roles=singles)
        np.testing.assert_allclose(both.values[:, :, head], one.values, rtol=1e-5, atol=1e-6)
    if make is patching_matrix:
        single = patching_effect(model, CLEAN, BOTH, "z.1.1")
        assert by_head.values[by_head.cell("z", 1, 1, "all")] == pytest.approx(single.values.mean())
        at_key = patching_effect(model, CLEAN, BOTH, "resid_mid.0@3")
        cell = by_position.values[by_position.cell("resid_mid", 0, "3")]
        assert cell == pytest.approx(at_key.values.mean(), abs=1e-6)


def test_positions_behind_the_answer_have_no_cells_and_one_note():
    matrix = patching_matrix(MODELS["gpt2"](), CLEAN, BOTH, roles="positions", answer_at=6)
    assert np.isnan(matrix.values[..., 7:]).all()
    assert np.isfinite(matrix.values[..., :7]).all()
    assert matrix.notes["7, 8"] == "no cells: it stands behind the answer, which sees none of it."
    with pytest.raises(RolesError, match="'9'.*the positions 0 to 8"):
        patching_matrix(MODELS["gpt2"](), CLEAN, BOTH, roles="9")
