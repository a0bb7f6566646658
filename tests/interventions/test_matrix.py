"""A matrix says which rows ran, where its shares mean nothing, and where positions are unlike."""

from types import SimpleNamespace

import numpy as np
import pytest
from probes.lens_models import lens_model

from rb_interp import AnchorTask, build_model
from rb_interp.interventions import ablation, ablations, patching_matrix
from rb_interp.interventions.matrix import Matrix
from rb_interp.tasks import Inputs, Roles


@pytest.mark.parametrize(("gap", "says"), [(0.1, True), (5.0, False)])
def test_a_matrix_says_where_its_shares_mean_nothing(gap, says):
    corrupted = np.array([0.0, 1.0, -1.0, 0.5])
    clean = corrupted[::-1] + gap
    matrix = Matrix(
        {"component": ["z"], "layer": [0], "role": ["last"]},
        "logit",
        clean,
        corrupted,
        clean[None, None, None],
        None,
    )
    assert ("mean nothing here" in str(matrix)) == says
    assert "share of the logit recovered, clean activations in corrupted rows, n = 4" in str(matrix)


def test_one_row_has_no_interval():
    axes = {"component": ["q"], "layer": [0], "role": ["key"]}
    one = Matrix(axes, "logit_diff", np.ones(1), np.zeros(1), np.full((1, 1, 1, 1), 0.5), None)
    assert one.to_frame()[["recovered", "low", "high"]].values.tolist() == [[0.5, -np.inf, np.inf]]


def test_a_cell_that_changes_nothing_reads_0_if_the_metric_falls_on_the_way():
    axes = {"component": ["q"], "layer": [0], "role": ["key"]}
    run = np.zeros((1, 1, 1, 3))
    assert "-0" not in str(Matrix(axes, "logit", -np.ones(3), np.zeros(3), run, run))


def test_a_single_row_is_patched():
    """numpy would take a tensor of one number for the number."""
    model, task = build_model(AnchorTask(), gamma=0.5), AnchorTask()
    data = task.dataset(seed=0)
    rows = data.sample("rsn_test", 1)
    pair = data.inputs(rows), task.counterfactual(data, rows, "both")
    matrix = patching_matrix(model, *pair, components="resid_pre", roles=["key", "anchor"])
    assert matrix.values.shape == (1, 2, 2)
    assert np.isfinite(matrix.values).all()


def test_rows_that_end_at_unlike_positions_are_named():
    """Where positions stand by themselves, where a mean takes them all in, and where no role says
    where answers are read."""
    model = lens_model("gpt2", n_layers=1)
    tokens = np.random.default_rng(0).integers(1, 30, (4, 6))
    tokens[:2, -1] = 0
    roles = Roles({"last": [[4], [4], [5], [5]], "key": [[0]] * 4})
    labels = np.arange(4)
    clean = Inputs(tokens, labels, roles)
    other = Inputs((tokens + 1) % 30, labels + 1, roles)
    says = "rows end at positions 4 to 5"
    matrix = patching_matrix(model, clean, other, components="resid_pre", roles="positions")
    assert says in matrix.notes["padding"]
    by_role = patching_matrix(model, clean, other, components="resid_pre", roles="key")
    assert "padding" not in by_role.notes
    for method, site, noted in (
        ("mean", "z.0", True),
        ("zero", "z.0", False),
        ("mean", "z.0@key", False),
    ):
        effect = ablation(model, clean, site, method=method, metric="loss")
        assert ("padding" in effect.notes) == noted
    assert says in ablations(model, clean, ["z.0"], metric="loss").note[0]
    model.tokenizer = SimpleNamespace(pad_token_id=0, padding_side="right")
    effect = ablation(model, Inputs(tokens, labels), "z.0", metric="loss")
    assert effect.notes["answers"].startswith("2 of 4 rows end in the padding token")
