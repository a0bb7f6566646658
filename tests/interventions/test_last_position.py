"""The last block cut to the last position gives the same answer; a model of which that is not true runs whole."""

import pytest
import torch
from probes.lens_models import KINDS, lens_model

from rb_interp.interventions.hooking import last_logits, with_edits
from rb_interp.interventions.last_position import CUTS, cuts, last_block_cuts
from rb_interp.interventions.sites import Edit
from rb_interp.models.build import build_model
from rb_interp.tasks.anchor import AnchorTask

pytestmark = pytest.mark.lens
TOKENS = torch.randint(0, 30, (5, 8), generator=torch.Generator().manual_seed(0))
HOOKS = ("hook_resid_pre", "attn.hook_v", "attn.hook_pattern", "attn.hook_z", "hook_attn_out", "hook_mlp_out")
HOOKS += ("hook_resid_post",)


def post_norm():
    task = AnchorTask(keys=(11, 20), memory_anchors=(1, 3), reasoning_anchors=(5, 8), masked=(), d_vocab=37)
    return build_model(task, gamma=0.2, norm="post", n_heads=4, n_layers=4, d_model=16, d_head=4, d_mlp=8)


@pytest.mark.parametrize("kind", [*KINDS, "post"])
def test_logits_are_those_of_the_whole_model_wherever_an_edit_acts(kind):
    """Each edit moves every position to another, so that one which is given a part of its activation would show."""
    model = post_norm() if kind == "post" else lens_model(kind)

    def turned(activation, rows):
        return activation.flip(2 if activation.shape[2] == activation.shape[-1] == TOKENS.shape[1] else 1)

    edits = [[], *([Edit(f"blocks.{layer}.{hook}", turned)] for layer in (1, 3) for hook in HOOKS)]
    if kind != "post":  # there the shapes that tests check forbid the cuts, so that it runs whole
        assert len(cuts(model, TOKENS)) == len(last_block_cuts(model)) >= len(CUTS) - 1
    for each in edits:
        with torch.no_grad(), with_edits(model, each):
            whole = model(TOKENS)[:, -1]
        found = last_logits(model, TOKENS, each, batch=None if each else 3)
        torch.testing.assert_close(found, whole, rtol=0, atol=1e-5 * float(whole.abs().max()))


def test_a_model_whose_answer_reads_other_positions_runs_whole():
    model = lens_model("plain")
    unembed = model.unembed.forward
    model.unembed.forward = lambda resid: unembed(resid + resid.mean(1, keepdim=True))
    assert cuts(model, TOKENS) == []
    torch.testing.assert_close(last_logits(model, TOKENS), model(TOKENS)[:, -1].detach())


def test_hooks_of_the_caller_see_whole_activations():
    model, seen = lens_model("plain"), []
    with model.hooks(fwd_hooks=[("blocks.3.hook_mlp_out", lambda x, hook: seen.append(x.shape[1]))]):
        last_logits(model, TOKENS)
    assert seen == [TOKENS.shape[1]]
