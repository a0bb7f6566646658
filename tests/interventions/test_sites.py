"""Sites name places, read them and write them; hooks are gone afterwards, whatever happens."""

from functools import partial

import numpy as np
import pytest
import torch
from interventions.rows import read_at, write_at
from probes.lens_models import hooks_on, lens_model

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions.edits import Edit, last_logits, with_edits
from rb_interp.interventions.sites import (
    EMBEDDINGS,
    HOOKS,
    PER_HEAD,
    Site,
    positions,
    site_positions,
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


def test_names_can_be_read_back():
    for text in ("attn_out.1@last", "z.0.2@key", "pattern.3@anchor_2", "resid_pre.0", "q.1.0"):
        assert str(Site.parse(text)) == text
    assert Site.parse("z.10.2@key") == Site("z", 10, "key", 2)
    assert [Site.parse(name).position_axis for name in ("pattern.0", "q.0")] == [2, 1]


@pytest.mark.parametrize(
    "text",
    [
        "z.01",
        "z.-1",
        "z.+1",
        "z.1.0.0",
        "z.²",
        "z.٣",
        "z",
        " z.1",
        "embed.0",
        "embed@",
        "z.1@",
        "z.last",
    ],
)
def test_a_text_of_another_form_is_refused(text):
    with pytest.raises(ModelError, match=r"cannot read the site|there is no component"):
        Site.parse(text)


def test_positions_of_special_roles():
    found = {
        role: positions(ROWS, role).tolist()
        for role in ("first_anchor", "last_anchor", "anchor_2", "last")
    }
    second = [[2], [5], [7]]
    assert found == {
        "first_anchor": [[1], [4], [6]],
        "last_anchor": second,
        "anchor_2": second,
        "last": [[7]] * 3,
    }
    assert positions(ROWS, "all").tolist() == [list(range(8))] * 3
    own = Inputs(np.zeros((1, 8), int), roles=Roles({"last": np.array([[3]])}))
    assert site_positions(Site("z", 0, "last"), own).tolist() == [[3]]
    with pytest.raises(
        RolesError,
        match=r"needs the role 'anchr'; the test has no such role .*: did you mean 'anch",
    ):
        positions(ROWS, "anchr")


def test_roles_of_other_rows_are_refused():
    model = lens_model("grouped")
    with pytest.raises(
        RolesError,
        match="'key' has 2 rows.*; there are 3 rows with the positions 0 to 7. Pass roles",
    ):
        read_at(model, TOKENS, "q.0@key", ROLES.take(np.arange(2)))
    with pytest.raises(RolesError, match=r"role 'anchor' has 3 rows, at positions \[1, 2, 4"):
        read_at(model, TOKENS[:, :6], "q.0@anchor", ROLES)


@pytest.mark.lens
def test_reading_gives_the_activation_at_each_rows_own_positions():
    model = lens_model("plain")
    _, cache = model.run_with_cache(TOKENS)
    for row in range(3):
        for i, at in enumerate(ROLES.positions["anchor"][row]):
            for component in ("resid_mid", "z", "mlp_out"):
                found = read_at(model, TOKENS, f"{component}.1@anchor", ROLES)[row, i]
                torch.testing.assert_close(found, cache[Site(component, 1).hook][row, at])
            pattern = read_at(model, TOKENS, "pattern.2.3@anchor", ROLES)[row, i]
            torch.testing.assert_close(pattern, cache["blocks.2.attn.hook_pattern"][row, 3, at])
            torch.testing.assert_close(
                read_at(model, TOKENS, "k.2.1@anchor", ROLES)[row, i],
                cache["blocks.2.attn.hook_k"][row, at, 1],
            )


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
