"""The forward pass with exchanges is the trainer's own, and an exchange takes exactly what it names."""

import pytest
import torch

from rb_interp.errors import ModelError
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.exchange import Exchange, run_with_exchanges
from rb_interp.training.last_group import LastGroup
from rb_interp.training.member_group import Member
from rb_interp.training.stacked import stacked_logits

TASK = AnchorTask.preset("smoke")
SITES = ("resid_pre.0", "attn_out.0", "resid_pre.1")


def group(**model):
    config = ModelConfig(d_model=12, d_head=6, d_mlp=20, **model)
    found = LastGroup([Member(0.3, 0), Member(0.5, 1)], config, TASK, TrainConfig(dtype="float64"))
    generator = torch.Generator().manual_seed(0)
    for weight in found.weights.values():
        weight.data += 0.1 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return found, torch.from_numpy(TASK.dataset(0).tokens[:20]).expand(2, -1, -1)


@pytest.mark.parametrize("norm", ["none", "pre", "post"])
@pytest.mark.parametrize("shape", [{}, {"n_heads": 3, "train_biases": True}])
def test_without_exchanges_it_is_the_trainers_pass(norm, shape):
    members, tokens = group(norm=norm, **shape)
    found = run_with_exchanges(members.weights, tokens, members.model)
    expected = stacked_logits(members.weights, tokens, members.model)
    torch.testing.assert_close(found["logits"], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_an_exchange_moves_what_it_names_and_nothing_before_it(norm):
    members, tokens = group(norm=norm)
    plain = run_with_exchanges(members.weights, tokens, members.model)
    everywhere = torch.ones(tokens.shape, dtype=torch.bool)
    first = everywhere & (torch.arange(tokens.shape[2]) == 0)
    for site in SITES:
        other = plain[site].roll(1, 1)
        whole = run_with_exchanges(members.weights, tokens, members.model, {site: Exchange(everywhere, other)})
        if site != "attn_out.0":  # all of a residual stream from another row: the other row's answer
            torch.testing.assert_close(whole["logits"], plain["logits"].roll(1, 1), rtol=0, atol=1e-10)
        part = run_with_exchanges(members.weights, tokens, members.model, {site: Exchange(first, other)})
        torch.testing.assert_close(part[site][:, :, 0], other[:, :, 0])
        torch.testing.assert_close(part[site][:, :, 1:], plain[site][:, :, 1:])
        for before in SITES[: SITES.index(site)]:
            torch.testing.assert_close(part[before], plain[before])
        assert (part["logits"] - plain["logits"]).abs().max() > 1e-3


def test_another_depth_is_refused():
    with pytest.raises(ModelError, match="a transformer with 3 layers; interchange training needs"):
        run_with_exchanges({}, torch.zeros(1, 1, 3).long(), ModelConfig(n_layers=3))
