"""Which cells a matrix has: roles at other positions, without positions, and of the caller."""

import numpy as np
import pytest
from interventions.rows import CLEAN as FEW
from interventions.rows import CORRUPTED as OTHER
from interventions.rows import DATA, TASK, patched
from probes.lens_models import lens_model

from rb_interp.errors import ModelError
from rb_interp.interventions.attribution import attribution_matrix
from rb_interp.interventions.cells import COMPONENTS
from rb_interp.interventions.patching import patching_matrix
from rb_interp.models.build import build_model
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

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


def test_roles_without_positions_and_cells_that_nobody_reads_are_no_silent_zeros():
    """No position gives no cell, alone or beside others; a cell of the last layer that the answer
    does not read is 0 in any model, as in generic_activation_patch, and a note names it."""
    model = MODELS["none"]()
    positions = {**CLEAN.roles.positions, "nobody": np.zeros((24, 0), dtype=int)}
    pair = [Inputs(rows.tokens, rows.labels, Roles(positions)) for rows in (CLEAN, BOTH)]
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
    model, order = MODELS["none"](), np.arange(24)[::-1]
    turned = CLEAN.take(order)
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
    moved_control = patching_matrix(model, CLEAN, BOTH, control=NOISE.take(order), layers=[0])
    assert "pattern" not in moved_control.axes["component"]
    noise = BOTH.with_tokens_of(BOTH.take(order), "noise")
    found = patching_matrix(
        model, CLEAN, BOTH, control=noise, components=["resid_pre"], layers=[0], roles=["key"]
    )
    assert found.notes["control"] == "in 1 of the 1 cells that do something it changes nothing."
    with pytest.raises(
        ModelError,
        match=r"site 'pattern.0@key' stands elsewhere in the source; a pattern is over",
    ):
        patched(model, BOTH, turned, "pattern.0@key")


def test_a_matrix_has_the_callers_own_roles():
    own = Roles({"subject": [[0]] * 3, "verb": [[2]] * 3})
    pair = [Inputs(rows.tokens, rows.labels, own) for rows in (FEW, OTHER)]
    model = lens_model("plain", n_layers=1)
    assert patching_matrix(model, *pair).axes["role"] == ("subject", "verb", "last")
    fewer = Inputs(FEW.tokens, FEW.labels, Roles({"verb": [[2]] * 3}))
    assert patching_matrix(model, fewer, pair[1]).axes["role"] == ("verb", "last")
    of_the_task = ("key", "first_anchor", "last_anchor", "anchor", "last", "noise")
    assert (
        patching_matrix(MODELS["none"](), CLEAN, BOTH, layers=[0], components=["z"]).axes["role"]
        == of_the_task
    )
