"""The page on transformers and nnsight: its block of nnsight runs as it stands, and gives the
readings of TransformerLens's bridge around the same model."""

import importlib.util
import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from probes.lens_models import bridged
from transformers import GPT2Config, GPT2LMHeadModel

import rb_interp as rb

PAGE = Path(__file__).parents[2] / "docs/other_libraries.md"


@pytest.mark.lens
@pytest.mark.wide
@pytest.mark.skipif(
    not importlib.util.find_spec("nnsight"),
    reason="nnsight is no dependency of this package, so tests of its page run where it is installed",
)
@pytest.mark.filterwarnings("default")  # nnsight's own
def test_what_nnsight_reads_is_what_the_bridge_reads(tmp_path):
    sizes = {"n_layer": 2, "n_head": 4, "n_embd": 32, "vocab_size": 50, "n_positions": 16}
    config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, attn_implementation="eager")
    model = rb.scale_init(GPT2LMHeadModel(config), gamma=0.3, seed=1).eval()
    rng = np.random.default_rng(0)
    key = rng.integers(7, size=(60, 1))
    inputs = rb.Inputs(rng.integers(50, size=(60, 8)), roles=rb.Roles({"key": key}))
    given = {"np": np, "torch": torch, "rb": rb, "model": model, "inputs": inputs, "key": key}
    [block] = re.findall(r"^```py\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    script = tmp_path / "block.py"  # a trace reads its own source
    script.write_text(block, "utf-8")
    read = runpy.run_path(str(script), given)

    bridge = bridged(model)
    looks = rb.scan(rb.probes.attention, bridge, inputs, query="last", to="key")
    pd.testing.assert_frame_equal(read["looks"], looks, rtol=1e-5, atol=1e-6)
    for head, found in zip((None, 2), read["shares"], strict=True):
        shares = rb.probes.variance_explained(
            bridge, inputs, groupings={"key": key[:, 0]}, layer=1, head=head
        )
        assert found.values == pytest.approx(dict(shares.values), abs=1e-5)
