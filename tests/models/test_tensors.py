"""Every tensor of a model is described under its name in TransformerLens, or by its axes."""

import numpy as np
import pytest
import torch
from lens_models import encoder, lens_model
from torch import nn

import rb_interp as rb
from rb_interp.errors import ModelError
from rb_interp.models.schemes import lens_parameter, standard_draw
from rb_interp.models.tensors import tensors_of

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["gpt2", "folded", "rotary", "grouped"])
def test_draws_belong_to_the_names_of_transformer_lens(kind):
    """So a HookedTransformer and a native bridge of the same shape hold the same numbers, on either
    generation."""
    model = rb.scale_init(lens_model(kind), 0.5, seed=2)
    held = {each.parameter.name: each for each in tensors_of(model)}
    for name, shape in {
        "W_Q": (4, 16, 4),
        "W_K": (2 if kind == "grouped" else 4, 16, 4),
        "W_O": (4, 4, 16),
    }.items():
        name = f"blocks.3.attn.{name}"
        drawn = torch.from_numpy(
            standard_draw(lens_parameter(name, shape, 16, True), "fan_in", 2) / 4
        ).float()
        assert torch.equal(held[name].tensor, drawn)
    W_K = held[
        "blocks.3.attn.W_K"
    ].tensor  # HookedTransformer repeats grouped keys, a bridge does not
    assert torch.equal(model.W_K[3], W_K.repeat_interleave(len(model.W_K[3]) // len(W_K), 0))


def test_an_encoder_s_heads_are_matrices_like_others():
    """x W: d_in is the first axis; a W of a module of somebody else may be turned round, and is
    refused."""
    model = rb.scale_init(encoder(), gamma=0.8)
    table = rb.initialisation_table(model).set_index("parameter")
    heads = table.loc[["mlm_head.W", "nsp_head.W", "pooler.W"]]
    assert [*heads.d_in, *heads.group] == [16] * 3 + ["other"] * 3
    assert table.z.dropna().abs().max() < 4
    assert np.isfinite(model(torch.zeros(2, 5).long()).detach().numpy()).all()
    foreign = nn.Module()
    foreign.W, foreign.cfg = nn.Parameter(torch.zeros(16, 2)), model.cfg
    with pytest.raises(ModelError, match="no weight or bias of a linear layer"):
        rb.scale_init(foreign, gamma=0.8)
