"""The table's z is in standard errors, and making it needs neither torch nor TransformerLens."""

import math
import subprocess
import sys

import numpy as np
import pytest

from rb_interp.models.config import ModelConfig
from rb_interp.models.table import drawn_table
from rb_interp.tasks.anchor import AnchorTask

SMOKE = AnchorTask.preset("smoke")


@pytest.mark.parametrize("scheme", ["fan_in", "torch_default"])
def test_z_is_standard_normal_over_seeds(scheme):
    config = ModelConfig(d_model=16, d_head=8, d_mlp=24, scheme=scheme)
    z = np.concatenate([drawn_table(SMOKE, config, 0.8, seed).z.dropna() for seed in range(40)])
    assert len(z) == 40 * (3 + 6 * 2)
    assert abs(np.mean(z**2) - 1) < 4 * math.sqrt(2 / len(z))


def test_rows_by_hand():
    config = ModelConfig(n_heads=2, norm="pre")
    table = drawn_table(AnchorTask(), config, gamma=0.5, seed=1).set_index("parameter")
    out, bias, scale = table.loc["blocks.1.attn.W_O"], table.loc["blocks.0.mlp.b_in"], table.loc["ln_final.w"]
    assert (out["shape"], out.d_in, out.intended_at_init, out.trained) == ((2, 32, 64), 64, 0.125, True)
    assert out.measured_std == pytest.approx(0.125 * (1 + out.z / math.sqrt(2 * 2 * 32 * 64)), rel=1e-12)
    assert (bias.d_in, bias.intended_at_init, bias.measured_std, bias.trained) == (0, 0, 0, False)
    assert math.isnan(bias.z)
    assert (scale.measured_std, scale.trained, table.loc["unembed.b_U"].trained) == (0, True, True)
    assert drawn_table(AnchorTask(), ModelConfig(train_biases=True), 0.5).trained.all()


def test_needs_neither_torch_nor_transformer_lens():
    code = (
        "import sys; from rb_interp.models import ModelConfig; from rb_interp.models.table import drawn_table as table;"
        "from rb_interp.tasks.anchor import AnchorTask; table(AnchorTask(), ModelConfig(), 0.8);"
        "assert not {'torch', 'transformer_lens'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
