"""A model in half precision stays as it is, and what is read off it is near what its float32 copy
gives."""

from typing import Any

import numpy as np
import pytest
import torch

import rb_interp as rb
from rb_interp import interventions, probes

TASK = rb.AnchorTask.preset("smoke")
DATA = TASK.dataset(0)
ROWS = DATA.sample("rsn_train", 60)
INPUTS, KEY = DATA.inputs(ROWS), TASK.counterfactual(DATA, ROWS, "key")
SIZES: dict[str, Any] = {"n_heads": 2, "d_model": 32, "d_head": 16, "d_mlp": 64, "norm": "pre"}
PROBES: dict[str, dict] = {
    "attention": {"layer": 0, "head": 0},
    "attention_by_role": {"layer": 1, "head": 1},
    "attention_to_key": {"layer": 0, "head": 0},
    "condensation": {"layer": 0},
    "cosines_by_target": {
        "hook": "blocks.0.hook_mlp_out",
        "role": "key",
        "targets": np.arange(60) % 4,
        "pairs": np.array([[0, 1], [2, 3]]),
    },
    "geometry": {"layer": 0},
    "head_circuits": {"layer": 1, "head": 1},
    "label_range": {"groups": np.arange(60) % 2, "ranges": ((21, 40), (41, 60))},
    "lattice": {"tokens": "key"},
    "uniformity": {"layer": 1},
    "value_alignment": {"layer": 0},
    "variance_explained": {"layer": 1},
    "weight_rank": {"layer": 0},
    "weight_spectra": {"layer": 0},
}


def model(dtype: torch.dtype) -> Any:
    """Weights that bfloat16 holds exactly, so that only the arithmetic differs."""
    made = rb.build_model(TASK, 0.4, dtype=torch.bfloat16, **SIZES)
    return made.to(dtype)


@pytest.mark.parametrize("name", PROBES)
def test_probes(name):
    probe, given = getattr(probes, name), {"n_null": 5, **PROBES[name]}
    half, single = model(torch.bfloat16), model(torch.float32)
    found, expected = (probe(each, INPUTS, untrained=each, **given) for each in (half, single))
    assert {parameter.dtype for parameter in half.parameters()} == {torch.bfloat16}
    assert expected.values
    for key, value in expected.values.items():
        assert np.isfinite(found.values[key]) == np.isfinite(value), key
        np.testing.assert_allclose(found.values[key], value, rtol=0.03, atol=0.03, err_msg=key)


@pytest.mark.lens
def test_patching_matrix():
    half, single = (
        interventions.patching_matrix(model(each), INPUTS, KEY)
        for each in (torch.float16, torch.float32)
    )
    assert np.isfinite(half.patched).all()
    spread = single.clean.std()
    np.testing.assert_allclose(half.patched, single.patched, atol=0.1 * spread)
