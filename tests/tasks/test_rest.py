"""The positions that no role names: a role `rest`, and a note that says how many there are."""

import numpy as np
import pytest
from lens_models import lens_model

from rb_interp.errors import RolesError
from rb_interp.interventions import (
    ablation,
    patching_effect,
    patching_matrix,
    path_matrix,
    path_patch,
)
from rb_interp.interventions.sites import positions
from rb_interp.probes import attention, cosines_by_target
from rb_interp.tasks import Inputs, Roles

RNG = np.random.default_rng(0)
TOKENS = RNG.integers(0, 30, (6, 5))
ROLES = Roles({"key": RNG.integers(0, 4, (6, 1)), "end": np.full((6, 1), 4)})
OTHERS = np.array([[at for at in range(4) if at != key] for key in ROLES.position("key")[:, 0]])
INPUTS = Inputs(TOKENS, TOKENS[:, 0], ROLES)
NAMED = Inputs(TOKENS, TOKENS[:, 0], Roles({**ROLES.positions, "others": OTHERS}))
NOTE = "positions without a role: 3 of 5; the role 'rest' names them."


def test_rest_is_what_a_role_of_these_positions_is():
    model = lens_model("gpt2")
    look = {"query": "end", "layer": 1, "n_null": 9}
    found, named = (
        attention(model, INPUTS, to="rest", **look),
        attention(model, NAMED, to="others", **look),
    )
    np.testing.assert_array_equal([*found.values.values()], [*named.values.values()])
    read = {"hook": "blocks.1.hook_resid_pre", "targets": np.arange(6) % 2, "n_null": 0}
    found, named = (
        cosines_by_target(model, rows, role=role, **read)
        for rows, role in ((INPUTS, "rest"), (NAMED, "others"))
    )
    assert dict(found.values) == dict(named.values)
    np.testing.assert_array_equal(positions(INPUTS, "rest"), OTHERS)
    cut, whole = (
        ablation(model, rows, f"z.0@{role}", metric="loss").values
        for rows, role in ((INPUTS, "rest"), (NAMED, "others"))
    )
    np.testing.assert_array_equal(cut, whole)


def test_positions_without_a_role_have_a_note():
    model = lens_model("gpt2")
    assert attention(model, INPUTS, n_null=0).notes["roles"] == NOTE
    assert "roles" not in attention(model, NAMED, n_null=0).notes
    assert (
        "roles" not in attention(model, INPUTS, to="key", n_null=0).notes
    )  # they were not asked for
    other = Inputs(np.roll(TOKENS, 1, 0), np.roll(TOKENS[:, 0], 1), ROLES)
    matrix = patching_matrix(
        model, INPUTS, other, components=("z",), layers=(0,), roles=("key", "rest")
    )
    assert matrix.notes == {"roles": NOTE}
    for found in (
        ablation(model, INPUTS, "z.0@key", metric="loss"),
        patching_effect(model, INPUTS, other, "z.0@key"),
        path_patch(model, INPUTS, other, "z.0@key", "v.1@end"),
        path_matrix(model, INPUTS, other, ["z.0@key"], ["v.1@end"]),
    ):
        assert found.notes["roles"] == NOTE
    assert (
        "roles" not in ablation(model, INPUTS, "z.0", metric="loss").notes
    )  # no role was asked for
    full = Inputs(other.tokens, other.labels, NAMED.roles)
    assert "roles" not in path_matrix(model, NAMED, full, ["z.0@key"], ["v.1@end"]).notes
    assert (
        patching_matrix(model, NAMED, full, components=("z",), layers=(0,), roles=("key",)).notes
        == {}
    )


def test_a_rest_of_uneven_size_is_refused_where_rows_need_as_many():
    uneven = Roles({"key": np.array([[0], [1]]), "other": np.array([[0], [2]])})
    assert uneven.without_a_role(4).startswith("positions without a role: 2 to 3 of 4;")
    with pytest.raises(
        RolesError, match="the role 'rest' has 2 to 3 positions in a row; expected as many in every"
    ):
        positions(Inputs(TOKENS[:2, :4], None, uneven), "rest")
    with pytest.raises(RolesError, match="the role 'rest' has 0 to 0 positions in a row"):
        positions(Inputs([[5, 6]], None, Roles({"all of them": np.array([[0, 1]])})), "rest")
    own = Inputs(TOKENS[:1], None, Roles({"rest": np.array([[1]])}))
    assert positions(own, "rest").tolist() == [[1]]  # the caller's own
