"""Attribution is the exact matrix where the model is linear, and a gradient times a difference
everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from interventions.rows import CLEAN, CORRUPTED, DATA, ROLES, TASK, patched, without
from probes.lens_models import bridged, hooks_on, lens_model, transformers_model

from rb_interp.errors import ModelError
from rb_interp.interventions.attribution import COMPONENTS, attribution_matrix
from rb_interp.interventions.metrics import logit_diff
from rb_interp.interventions.patching import patching_matrix
from rb_interp.models.build import build_model
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

MOVED = Inputs(CLEAN.tokens[[1, 2, 0]], CLEAN.labels[[1, 2, 0]], ROLES.take(np.array([1, 2, 0])))
WITHOUT_PATTERN = (
    "resid_pre",
    "resid_mid",
    "resid_post",
    "attn_out",
    "mlp_out",
    "v",
    "z",
    "embed",
    "pos_embed",
)


def linear(model, layers):
    """A context in which attention of some layers is uniform and no MLP answers."""
    names = [f"blocks.{layer}.attn.W_Q" for layer in layers] + [
        f"blocks.{layer}.mlp.W_in" for layer in (0, 1)
    ]
    return without(model, names)


@pytest.mark.parametrize("direction", ["denoise", "noise"])
def test_in_a_linear_model_every_cell_is_the_exact_one(direction):
    model = build_model(
        TASK, gamma=0.4, d_model=16, d_head=8, d_mlp=24, n_heads=2, dtype=torch.float64
    )
    wanted = {"direction": direction, "control": MOVED, "answer_at": np.array([5, 3, 4])}
    with linear(model, (0, 1)):
        given = {
            **wanted,
            "components": WITHOUT_PATTERN,
            "roles": ("key", "query", "noise", "last"),
        }
        exact, found = (
            call(model, CLEAN, CORRUPTED, **given) for call in (patching_matrix, attribution_matrix)
        )
        np.testing.assert_allclose(found.patched, exact.patched, atol=1e-10)
        np.testing.assert_allclose(found.control_patched, exact.control_patched, atol=1e-10)
        assert np.unique(exact.patched.round(6)).size > 30
        assert found.notes["embed"].startswith("stands before the first layer")
        heads = [
            call(model, CLEAN, CORRUPTED, head=1, **wanted)
            for call in (patching_matrix, attribution_matrix)
        ]
        np.testing.assert_allclose(heads[0].patched, heads[1].patched, atol=1e-10)
    with linear(model, (1,)):  # a pattern of L0 mixes values linearly, whatever made it
        given = {
            "direction": direction,
            "components": ("pattern", "v", "z", "mlp_out"),
            "layers": [0],
        }
        exact = patching_matrix(model, CLEAN, CORRUPTED, **given)
        found = attribution_matrix(model, CLEAN, CORRUPTED, **given)
        np.testing.assert_allclose(found.patched, exact.patched, atol=1e-10)
        assert np.abs(exact.values[0]).max() > 1e-3


MODELS = {
    "gpt2": lambda: lens_model("gpt2", n_layers=2),
    "Qwen3": lambda: bridged(transformers_model("Qwen3")),
    "side by side": lambda: bridged(transformers_model("GPTNeoX")),
}


def by_hand(model, component, layer, role):
    """Gradient times difference in each row, from TransformerLens's own hooks and torch's
    backward."""
    rows, query = torch.arange(3), torch.from_numpy(ROLES.positions["query"][:, 0])
    name = f"blocks.{layer}." + (
        "hook_mlp_out" if component == "mlp_out" else f"attn.hook_{component}"
    )
    seen, leaf = [], []

    def hold(activation, hook):
        leaf.append(activation.detach().requires_grad_())
        return leaf[0]

    for some in (CORRUPTED, CLEAN):
        look = (name, lambda a, hook: seen.append(a.detach().clone()))
        model.run_with_hooks(torch.from_numpy(some.tokens), fwd_hooks=[look])
    at = model.run_with_hooks(torch.from_numpy(CORRUPTED.tokens), fwd_hooks=[(name, hold)])[
        rows, query
    ]
    (at[:, 4] - at[rows, rows + 1]).sum().backward()
    change = (leaf[0].grad * (seen[1] - seen[0]))[
        rows, torch.from_numpy(ROLES.positions[role][:, 0])
    ]
    return change.flatten(1).sum(1).numpy()


@pytest.mark.lens
@pytest.mark.parametrize("kind", MODELS)
def test_a_cell_is_a_gradient_by_hand_times_the_difference(kind):
    model = MODELS[kind]()
    found = attribution_matrix(
        model, CLEAN, CORRUPTED, metric=logit_diff(4, [1, 2, 3]), answer_at="query"
    )
    for component, layer, role in (("v", 0, "key"), ("mlp_out", 0, "key"), ("z", 1, "query")):
        expected = by_hand(model, component, layer, role)
        cell = found.patched[found.cell(component, layer, role)]
        np.testing.assert_allclose(
            cell - found.corrupted, expected, atol=1e-3 * np.abs(expected).max() + 1e-5
        )


def test_the_model_comes_back_as_it_was():
    model, wanted = lens_model("gpt2", n_layers=2), {"components": ("z", "mlp_out")}
    model.train()
    parameters = list(model.parameters())
    parameters[0].requires_grad_(False)
    parameters[1].grad = torch.ones_like(parameters[1])
    before = [p.detach().clone() for p in parameters]
    with torch.no_grad(), model.hooks(fwd_hooks=[("blocks.0.hook_mlp_out", lambda a, hook: a)]):
        there = hooks_on(model)
        first = attribution_matrix(model, CLEAN, CORRUPTED, **wanted).patched
        assert hooks_on(model) == there
        assert not torch.is_grad_enabled()
    assert model.training
    assert [p.requires_grad for p in parameters] == [False] + [True] * (len(parameters) - 1)
    assert [p.grad is None for p in parameters] == [
        number != 1 for number in range(len(parameters))
    ]
    assert (parameters[1].grad == 1).all()
    assert all(torch.equal(p, old) for p, old in zip(parameters, before, strict=True))
    model.requires_grad_(False)
    with torch.inference_mode():
        np.testing.assert_allclose(
            attribution_matrix(model, CLEAN, CORRUPTED, **wanted).patched, first, atol=1e-5
        )


def test_rows_in_several_passes_and_metrics_without_a_gradient(monkeypatch):
    model = lens_model("gpt2", n_layers=2)
    whole = attribution_matrix(model, CLEAN, CORRUPTED, metric="kl", control=MOVED)
    monkeypatch.setattr("rb_interp.interventions.attribution.CAPTURE_VALUES", 1)
    np.testing.assert_allclose(
        attribution_matrix(model, CLEAN, CORRUPTED, metric="kl", control=MOVED).patched,
        whole.patched,
        atol=1e-5,
    )
    for metric in ("rank", "accuracy", lambda logits, clean, corrupted: logits.argmax(1) + 0.0):
        with pytest.raises(
            ModelError, match="has no gradient; use one that has, such as logit_diff|the mean .* is"
        ):
            attribution_matrix(model, CLEAN, CORRUPTED, metric=metric)


ROWS = DATA.sample("rsn_train", 24)


SAMPLED = DATA.inputs(ROWS)


KEY, BOTH, NOISE = (TASK.counterfactual(DATA, ROWS, change) for change in ("key", "both", "noise"))


SMALL = {"d_model": 16, "d_head": 8, "d_mlp": 24, "n_heads": 2}


SMALL_MODELS = {
    "none": lambda: build_model(TASK, gamma=0.4, norm="none", **SMALL),
    "pre": lambda: build_model(TASK, gamma=0.4, norm="pre", n_layers=3, train_biases=True, **SMALL),
    "post": lambda: build_model(TASK, gamma=0.4, norm="post", **SMALL),
    "gpt2": lambda: lens_model("gpt2", d_vocab=40, n_layers=2, n_heads=2),
    "rotary": lambda: lens_model("rotary", d_vocab=40, n_layers=2, n_heads=2),
}


def row_metric(logits, clean=SAMPLED, corrupted=BOTH):
    rows, found = np.arange(len(logits)), logits.double().numpy()
    return found[rows, clean.labels] - found[rows, corrupted.labels]


def test_roles_without_positions_and_cells_that_nobody_reads_are_no_silent_zeros():
    """No position gives no cell, alone or beside others; a cell of the last layer that the answer
    does not read is 0 in any model, as in generic_activation_patch, and a note names it."""
    model = SMALL_MODELS["none"]()
    positions = {**SAMPLED.roles.positions, "nobody": np.zeros((24, 0), dtype=int)}
    pair = [Inputs(rows.tokens, rows.labels, Roles(positions)) for rows in (SAMPLED, BOTH)]
    wanted = {"components": ("k", "mlp_out"), "roles": ("nobody", "key", "last")}
    for call in (patching_matrix, attribution_matrix):
        matrix = call(model, *pair, **wanted)
        assert np.isnan(matrix.values[..., 0]).all()
        assert not np.isnan(matrix.values[..., 1:]).any()
        assert matrix.values[1, 1, 1] == 0
        assert matrix.notes == {
            "nobody": "no cells: it has no position in these rows.",
            "mlp_out of L1": "no path leads from key to the answer, so these shares are 0 in any "
            "model.",
        }
        alone = call(model, *pair, components=["z"], roles=["nobody"])
        assert np.isnan(alone.values).all()


def test_a_matrix_of_roles_that_stand_elsewhere_has_every_component_but_the_pattern():
    """The rows in another order, role to role: the cells of the matrix are those asked for one by
    one."""
    model, order = SMALL_MODELS["none"](), np.arange(24)[::-1]
    turned = SAMPLED.take(order)
    assert not np.array_equal(turned.roles.positions["key"], BOTH.roles.positions["key"])
    matrix = patching_matrix(model, turned, BOTH)
    assert matrix.axes["component"] == tuple(name for name in COMPONENTS if name != "pattern")
    unread = "resid_mid, resid_post, attn_out, mlp_out, q, z of L1"
    assert set(matrix.notes) == {"pattern", unread}
    logits = patched(model, BOTH, turned, "attn_out.0@key")
    cell = matrix.patched[matrix.cell("attn_out", 0, "key")]
    np.testing.assert_allclose(cell, row_metric(logits, turned), atol=1e-4)
    assert (
        "pattern"
        in patching_matrix(model, turned, BOTH, roles=("last",), layers=[1]).axes["component"]
    )
    moved_control = patching_matrix(model, SAMPLED, BOTH, control=NOISE.take(order), layers=[0])
    assert "pattern" not in moved_control.axes["component"]
    noise = BOTH.with_tokens_of(BOTH.take(order), "noise")
    found = patching_matrix(
        model, SAMPLED, BOTH, control=noise, components=["resid_pre"], layers=[0], roles=["key"]
    )
    assert found.notes["control"] == "in 1 of the 1 cells that do something it changes nothing."
    with pytest.raises(
        ModelError,
        match=r"site 'pattern.0@key' stands elsewhere in the source; a pattern is over",
    ):
        patched(model, BOTH, turned, "pattern.0@key")


def test_a_matrix_has_the_callers_own_roles():
    own = Roles({"subject": [[0]] * 3, "verb": [[2]] * 3})
    pair = [Inputs(rows.tokens, rows.labels, own) for rows in (CLEAN, CORRUPTED)]
    model = lens_model("plain", n_layers=1)
    assert patching_matrix(model, *pair).axes["role"] == ("subject", "verb", "last")
    fewer = Inputs(CLEAN.tokens, CLEAN.labels, Roles({"verb": [[2]] * 3}))
    assert patching_matrix(model, fewer, pair[1]).axes["role"] == ("verb", "last")
    of_the_task = ("key", "first_anchor", "last_anchor", "anchor", "last", "noise")
    assert (
        patching_matrix(SMALL_MODELS["none"](), SAMPLED, BOTH, layers=[0], components=["z"]).axes[
            "role"
        ]
        == of_the_task
    )
