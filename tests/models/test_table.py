"""The table's z is in standard errors."""

import math

import numpy as np
import pytest

from rb_interp import build_model, initialisation_table
from rb_interp.tasks.anchor import AnchorTask

SMOKE = AnchorTask.preset("smoke")


@pytest.mark.parametrize("scheme", ["fan_in", "torch_default"])
def test_z_is_standard_normal_over_seeds(scheme):
    sizes = {"d_model": 16, "d_head": 8, "d_mlp": 24}
    models = (build_model(SMOKE, 0.8, scheme=scheme, seed=seed, **sizes) for seed in range(40))
    z = np.concatenate([initialisation_table(model).z.dropna() for model in models])
    assert len(z) == 40 * (3 + 6 * 2)
    assert abs(np.mean(z**2) - 1) < 4 * math.sqrt(2 / len(z))


def test_rows_by_hand():
    model = build_model(AnchorTask(), gamma=0.5, norm="pre", seed=1, n_heads=2)
    table = initialisation_table(model).set_index("parameter")
    out, bias, scale = table.loc["blocks.1.attn.W_O"], table.loc["blocks.0.mlp.b_in"], table.loc["ln_final.w"]
    assert (out["shape"], out.d_in, out.intended_at_init, out.trained) == ((2, 32, 64), 64, 0.125, True)
    assert out.measured_std == pytest.approx(0.125 * (1 + out.z / math.sqrt(2 * 2 * 32 * 64)), rel=1e-5)  # float32
    assert (bias.d_in, bias.intended_at_init, bias.measured_std, bias.trained) == (0, 0, 0, False)
    assert math.isnan(bias.z)
    assert (scale.measured_std, scale.trained, table.loc["unembed.b_U"].trained) == (0, True, True)
    assert initialisation_table(build_model(AnchorTask(), 0.5, train_biases=True)).trained.all()
