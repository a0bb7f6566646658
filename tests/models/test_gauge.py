"""Gauge copies: other weights, the same logits, for every norm and every gauge."""

import numpy as np
import pytest
import torch

from rb_interp.errors import ModelError
from rb_interp.models import ModelConfig
from rb_interp.models.build import lens_model
from rb_interp.models.gauge import GAUGES, gauge_copy, gauges_of
from rb_interp.models.generations import write_weights
from rb_interp.models.schemes import parameters

CONFIGS = {
    norm: ModelConfig(norm=norm, n_layers=3, n_heads=4, d_model=12, d_head=5, d_mlp=20)
    for norm in ("none", "pre", "post")
}
CASES = [(norm, name) for norm, config in CONFIGS.items() for name in gauges_of(config)]


@pytest.mark.lens
@pytest.mark.parametrize(("norm", "name"), CASES)
def test_a_copy_has_other_weights_and_the_same_logits(norm, name):
    config, rng = CONFIGS[norm], np.random.default_rng(0)
    weights = {p.name: torch.from_numpy(0.4 * rng.standard_normal(p.shape)) for p in parameters(config, 23, 7)}
    before = {at: weight.clone() for at, weight in weights.items()}
    model = lens_model(config, 23, 7, weights, torch.float64)
    tokens = torch.randint(0, 23, (6, 7), generator=torch.Generator().manual_seed(1))

    def logits(held) -> torch.Tensor:
        write_weights(model, held)
        with torch.no_grad():
            return model(tokens)

    copy = gauge_copy(weights, name, config, seed=3)
    assert (logits(copy) - logits(weights)).abs().max() < 1e-10
    assert all(torch.equal(weights[at], before[at]) for at in weights)
    changed = {at: float((copy[at] - weights[at]).abs().max()) for at in weights if copy[at] is not weights[at]}
    assert changed
    assert min(changed.values()) > 1e-3
    again, other = gauge_copy(weights, name, config, seed=3), gauge_copy(weights, name, config, seed=4)
    assert all(torch.equal(again[at], copy[at]) for at in weights)
    assert name == "residual_scale" or any(not torch.equal(other[at], copy[at]) for at in weights)


def test_which_gauges_are_exact():
    assert set(GAUGES) - set(gauges_of(CONFIGS["none"])) == {"mean_shift"}
    for norm in ("pre", "post"):
        assert set(GAUGES) - set(gauges_of(CONFIGS[norm])) == {"rotation", "residual_scale"}
    with pytest.raises(ModelError, match="no gauge 'rotations'; did you mean 'rotation'?"):
        gauge_copy({}, "rotations", CONFIGS["none"])
    with pytest.raises(
        ModelError, match="gauge 'rotation' is not exact for a model with norm='pre', act='relu'; exact"
    ):
        gauge_copy({}, "rotation", CONFIGS["pre"])
