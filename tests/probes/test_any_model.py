"""Every probe on models that somebody else trained: many layers and heads, no rb_interp in how they are built."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from lens_models import hooks_on, lens_model

from rb_interp import probes
from rb_interp.errors import ModelError
from rb_interp.probes import composition, geometry, routing, scan, uniformity, value_alignment
from rb_interp.tasks import AnchorTask

TASK = AnchorTask(
    length=9, keys=(11, 20), memory_anchors=(1, 3), reasoning_anchors=(5, 8), masked=(), d_vocab=40, n_sequences=400
)
DATA = TASK.dataset(0)
ROWS = DATA.rows("rsn_train")
BY_HEAD = (uniformity, value_alignment, routing)


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["plain", "gpt2", "folded", "rotary", "grouped"])
def test_every_probe_runs_on_every_layer_and_head(kind):
    model, twin = lens_model(kind, d_vocab=40), lens_model(kind, seed=1, d_vocab=40)
    weights = {name: p.clone() for name, p in model.named_parameters()}
    for probe in BY_HEAD:
        table = scan(probe, model, DATA.tokens[ROWS], DATA.roles(ROWS), twin=twin, n_null=20)
        assert table.groupby(["layer", "head"]).ngroups == 16
        assert np.isfinite(table[["value", "twin"]]).all(axis=None)
        averages = table[table["quantity"] != "max_deviation"]  # which saturates where heads look at one position
        assert averages.groupby(["layer", "quantity"])["value"].nunique().min() > 1  # heads differ
    for probe in (composition, geometry):
        assert np.isfinite(list(probe(model, DATA.tokens[ROWS], DATA.roles(ROWS), n_null=20).values.values())).any()
    assert hooks_on(model) == hooks_on(twin) == []
    assert all(torch.equal(weights[name], p) for name, p in model.named_parameters())


@pytest.mark.lens
@pytest.mark.parametrize("probe", [*BY_HEAD, composition, geometry], ids=lambda probe: probe.__name__)
def test_the_order_of_rows_changes_nothing(probe):
    model = lens_model("gpt2", d_vocab=40)
    shuffled = np.random.default_rng(0).permutation(ROWS)
    first = probe(model, DATA.tokens[ROWS], DATA.roles(ROWS), n_null=0).values
    second = probe(model, DATA.tokens[shuffled], DATA.roles(shuffled), n_null=0).values
    assert first == pytest.approx(second, rel=1e-5, abs=1e-7, nan_ok=True)


@pytest.mark.lens
def test_scan_takes_some_layers_and_refuses_probes_without_heads():
    model, roles = lens_model("plain", d_vocab=40), DATA.roles(ROWS)
    table = scan(uniformity, model, DATA.tokens[ROWS], roles, layers=[1, 3], heads=[2], n_null=0)
    assert table[["layer", "head"]].drop_duplicates().values.tolist() == [[1, 2], [3, 2]]
    direct = uniformity(model, DATA.tokens[ROWS], roles, layer=3, head=2, n_null=0)
    assert table.query("layer == 3 and quantity == 'tv'")["value"].item() == direct.values["tv"]

    def whole(model, tokens, roles):
        raise AssertionError("scan must refuse before it calls")

    with pytest.raises(ModelError, match=r"whole does not look at single layers and heads; call whole\("):
        scan(whole, model, DATA.tokens[ROWS], roles)


def test_names_are_probes_whichever_is_imported_first():
    """The package's names are functions, although their files have the same names; TransformerLens is not imported."""
    code = (
        "import sys; import rb_interp.probes as p;"
        "import rb_interp.probes.routing; assert callable(p.routing);"
        "from rb_interp.probes import uniformity; assert callable(uniformity) and callable(p.uniformity);"
        "assert 'transformer_lens' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert all(callable(getattr(probes, name)) for name in probes.__all__)
