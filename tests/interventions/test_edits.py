"""Edits write what they say and nothing else; hooks are gone afterwards, whatever happens."""

from functools import partial

import numpy as np
import pytest
import torch
from interventions.rows import read_at, write_at
from probes.lens_models import hooks_on, lens_model

from rb_interp.interventions.edits import Edit, last_logits, with_edits
from rb_interp.interventions.sites import (
    EMBEDDINGS,
    HOOKS,
    PER_HEAD,
    Site,
)
from rb_interp.models.build import build_model
from rb_interp.tasks.anchor import AnchorTask
from rb_interp.tasks.inputs import Inputs, Roles

KEY = np.array([[0], [3], [5]])
ROLES = Roles(
    {"key": KEY, "anchor": KEY + np.arange(1, 3), "noise": (KEY + np.arange(3, 7)) % 8},
    task="the test",
)
TOKENS = torch.randint(0, 30, (3, 8), generator=torch.Generator().manual_seed(0))
OTHERS = torch.randint(0, 30, (3, 8), generator=torch.Generator().manual_seed(1))
ROWS = Inputs(TOKENS, None, ROLES)


def post_norm():
    task = AnchorTask(
        keys=(11, 20), memory_anchors=(1, 3), reasoning_anchors=(5, 8), masked=(), d_vocab=37
    )
    return build_model(
        task, gamma=0.2, norm="post", n_heads=4, n_layers=4, d_model=16, d_head=4, d_mlp=8
    )


MODELS = {"gpt2": lambda: lens_model("gpt2"), "post": post_norm}


@pytest.mark.lens
@pytest.mark.wide
@pytest.mark.parametrize("kind", ["gpt2", "post"])
def test_writing_back_changes_nothing_and_writing_all_of_a_state_changes_everything(
    kind, monkeypatch
):
    model = MODELS[kind]()
    before, wanted = last_logits(model, TOKENS), last_logits(model, OTHERS)
    close = partial(
        torch.testing.assert_close, rtol=0, atol=1e-5 * float(before.abs().max())
    )  # logits reach 1,000
    for component in HOOKS:
        layer, unit = (
            int(component not in EMBEDDINGS),
            2 if component in (*PER_HEAD, "mlp_post") else None,
        )
        for site in (Site(component, layer, "anchor"), Site(component, layer, "noise", unit)):
            own = write_at(model, site, read_at(model, TOKENS, site, ROLES), ROWS)
            close(last_logits(model, TOKENS, own), before)
            other = write_at(model, site, read_at(model, OTHERS, site, ROLES), ROWS)
            same = component in (
                "pos_embed",
                "mlp_post",
            )  # positions are equal, and one neuron may be off
            whole = last_logits(model, TOKENS, other)
            assert same or (whole - before).abs().max() > 1e-3
            with monkeypatch.context() as by_two:
                by_two.setattr("rb_interp.models.structure.PASS_ROWS", 2)
                close(last_logits(model, TOKENS, other), whole)
    for component in ("resid_pre", "resid_mid", "resid_post"):
        values = read_at(model, OTHERS, Site(component, 1), ROLES)
        found = last_logits(model, TOKENS, write_at(model, Site(component, 1), values, ROWS))
        close(found, wanted)
    assert hooks_on(model) == []


@pytest.mark.lens
def test_hooks_are_gone_after_an_error_and_the_callers_stay_and_act():
    model = lens_model("gpt2")
    seen = []
    zero = Edit("blocks.0.hook_mlp_out", lambda activation, rows: activation * 0)

    def caller(activation, hook):
        seen.append(activation.detach().abs().max().item())

    with model.hooks(fwd_hooks=[("blocks.0.hook_mlp_out", caller)]):
        before = hooks_on(model)
        with with_edits(model, [zero]):
            model(TOKENS)
        with pytest.raises(RuntimeError, match="oops"), with_edits(model, [zero]):
            raise RuntimeError("oops")
        assert hooks_on(model) == before
        model(TOKENS)
    assert hooks_on(model) == []
    assert len(seen) == 2
    assert min(seen) > 0
