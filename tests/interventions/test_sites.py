"""Sites name places and read them."""

import numpy as np
import pytest
import torch
from interventions.rows import read_at
from probes.lens_models import lens_model

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions.sites import (
    Site,
    positions,
    site_positions,
)
from rb_interp.tasks.inputs import Inputs, Roles

KEY = np.array([[0], [3], [5]])
ROLES = Roles(
    {"key": KEY, "anchor": KEY + np.arange(1, 3), "noise": (KEY + np.arange(3, 7)) % 8},
    task="the test",
)
TOKENS = torch.randint(0, 30, (3, 8), generator=torch.Generator().manual_seed(0))
ROWS = Inputs(TOKENS, None, ROLES)


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
