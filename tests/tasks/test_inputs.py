"""Rows of tokens, a label for each, and roles that say what is missing and who needs it."""

import numpy as np
import pytest
import torch
from lens_models import lens_model

from rb_interp.errors import ArgumentError, RolesError
from rb_interp.interventions import (
    ablation,
    patching_effect,
    patching_matrix,
    path_matrix,
    path_patch,
)
from rb_interp.interventions.sites import positions
from rb_interp.probes import attention, cosines_by_target
from rb_interp.probes.embeddings import token_groups
from rb_interp.tasks import AnchorTask, Dataset, Inputs, Roles


def test_rows_have_whole_tokens_and_a_label_each():
    assert Inputs(torch.tensor([[1, 2]]), torch.tensor([3.0])).labels.tolist() == [3]
    assert len(Inputs(np.empty((0, 4)))) == 0
    for labels in (np.arange(3), np.zeros((64, 1), dtype=int)):
        with pytest.raises(
            RolesError, match=r"got 64 rows .* labels of shape \[.*; expected \[row"
        ):
            Inputs(np.zeros((64, 5), dtype=int), labels)
    for labels in (["yes"], [0.5]):
        with pytest.raises(RolesError, match="'labels' holds values of type .*; expected whole"):
            Inputs([[1, 2]], labels)
    for tokens in ([[0.5, 1.0]], [[True, False]], [["a"]], [1, 2], [[[1]]]):
        with pytest.raises(
            RolesError, match="got tokens of type .*; expected whole numbers of shape"
        ):
            Inputs(tokens)


@pytest.mark.parametrize(
    "ids", [None, object(), [[1], [2, 3]], [10**30], [11.7, 12.2], [True], [2**63], float("nan")]
)
def test_token_ids_of_a_group_are_whole_numbers(ids):
    with pytest.raises(
        RolesError, match="geometry got the group 'a' with .*; expected a list of token ids"
    ):
        token_groups({"a": ids}, Roles(), "geometry")


def test_rows_that_disagree_are_refused():
    with pytest.raises(RolesError, match="disagree on the number of rows"):
        Roles({"key": np.zeros((2, 1)), "anchor": np.zeros((3, 1))})
    with pytest.raises(
        RolesError, match=r"role 'key' has positions of shape \[1, 2, 1\]; expected \[row, n\]"
    ):
        Roles({"key": np.zeros((1, 2, 1))})


TOKENS = np.array([[3, 7, 3, 7], [7, 3, 7, 5], [1, 7, 2, 7]])


@pytest.mark.parametrize("form", [np.asarray, torch.as_tensor, np.ndarray.tolist])
def test_a_mask_gives_the_positions_where_it_is_true(form):
    assert Roles({"sevens": form(TOKENS == 7)}).position("sevens").tolist() == [
        [1, 3],
        [0, 2],
        [1, 3],
    ]
    assert Roles({"nines": form(TOKENS == 9)}).position("nines").shape == (3, 0)
    data = Dataset(
        0, TOKENS, TOKENS[:, 0], np.zeros(3, int), ("all",), ("all",), {"sevens": TOKENS == 7}
    )
    assert data.roles(np.array([1])).position("sevens").tolist() == [[0, 2]]
    assert Roles(tokens={"odd": form(np.arange(6) % 2 == 1)}).group("odd").tolist() == [1, 3, 5]


def test_one_position_a_row_needs_no_second_dimension():
    assert Roles({"io": [1, 0, 3]}).position("io").tolist() == [[1], [0], [3]]


def test_ones_and_zeros_are_no_token_ids_and_no_row_lacks_its_noise():
    with pytest.raises(RolesError, match="'odd' has a token twice; give each once, or a mask"):
        Roles(tokens={"odd": np.arange(6) % 2})
    rows = Inputs(TOKENS, None, Roles({"noise": np.array([[1], [-1], [0]])}))
    with pytest.raises(RolesError, match="with_tokens_of got rows without the role 'noise'"):
        rows.with_tokens_of(rows, "noise")


def test_a_mask_that_differs_between_rows_is_refused():
    with pytest.raises(
        RolesError,
        match="role 'threes' is a mask of 0 to 2 positions a row; expected as many in each",
    ):
        Roles({"threes": TOKENS == 3})
    with pytest.raises(
        RolesError, match="role 'io' holds a position twice in a row; a mask is of booleans"
    ):
        Roles({"io": [[0, 1, 0, 1]]})
    with pytest.raises(
        RolesError, match=r"role 'io' has a mask of shape \[4\]; expected .* a mask \[row, pos\]"
    ):
        Roles({"io": TOKENS[0] == 7})
    with pytest.raises(
        RolesError, match=r"'odd' is a mask of shape \[3, 4\]; expected .* a mask \[d_vocab\]"
    ):
        Roles(tokens={"odd": TOKENS == 7})


def test_take_selects_rows_of_everything():
    roles = Roles(
        {"key": np.arange(4)[:, None]}, {}, np.array(["mem", "mem", "rsn_train", "rsn_test"])
    )
    taken = roles.take(np.array([2, 0]))
    assert taken.position("key").tolist() == [[2], [0]]
    assert taken.set.tolist() == ["rsn_train", "mem"]
    assert len(taken) == 2


RNG = np.random.default_rng(0)
REST_TOKENS = RNG.integers(0, 30, (6, 5))
ROLES = Roles({"key": RNG.integers(0, 4, (6, 1)), "end": np.full((6, 1), 4)})
OTHERS = np.array([[at for at in range(4) if at != key] for key in ROLES.position("key")[:, 0]])
INPUTS = Inputs(REST_TOKENS, REST_TOKENS[:, 0], ROLES)
NAMED = Inputs(REST_TOKENS, REST_TOKENS[:, 0], Roles({**ROLES.positions, "others": OTHERS}))
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
    other = Inputs(np.roll(REST_TOKENS, 1, 0), np.roll(REST_TOKENS[:, 0], 1), ROLES)
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
        positions(Inputs(REST_TOKENS[:2, :4], None, uneven), "rest")
    with pytest.raises(RolesError, match="the role 'rest' has 0 to 0 positions in a row"):
        positions(Inputs([[5, 6]], None, Roles({"all of them": np.array([[0, 1]])})), "rest")
    own = Inputs(REST_TOKENS[:1], None, Roles({"rest": np.array([[1]])}))
    assert positions(own, "rest").tolist() == [[1]]  # the caller's own


def test_without_roles_the_rest_is_every_position():
    model, bare = lens_model("gpt2"), Inputs(REST_TOKENS, REST_TOKENS[:, 0])
    found = attention(model, bare, query="last", to="rest", n_null=0)
    assert found.values["last_to_rest"] == pytest.approx(1)
    whole, rest = (
        ablation(model, bare, f"z.0@{role}", metric="loss").values for role in ("all", "rest")
    )
    np.testing.assert_array_equal(rest, whole)


@pytest.mark.parametrize(
    "positions", [np.full((6, 1), 5), np.full((6, 1), -2), np.zeros((5, 1), int)]
)
def test_roles_of_other_rows_are_refused(positions):
    with pytest.raises(
        RolesError, match="role 'key' has . rows, .* there are 6 rows with .* 0 to 4"
    ):
        Inputs(REST_TOKENS, roles=Roles({"key": positions}))


def test_rows_are_chosen_by_a_list_an_array_or_a_mask():
    task = AnchorTask.preset("smoke")
    data = task.dataset(seed=0)
    array = data.inputs(np.array([3, 1]))
    for rows in ([3, 1], (3, 1), torch.tensor([3, 1])):
        chosen = data.inputs(rows)
        np.testing.assert_array_equal(chosen.tokens, array.tokens)
        np.testing.assert_array_equal(chosen.roles.position("key"), array.roles.position("key"))
        changed = task.counterfactual(data, rows, "key")
        np.testing.assert_array_equal(
            changed.tokens, task.counterfactual(data, np.array([3, 1]), "key").tokens
        )
    for rows in ([1], [False, True], np.array([1]), np.array([False, True])):
        np.testing.assert_array_equal(array.take(rows).tokens, data.inputs([1]).tokens)
    assert len(data.inputs([])) == 0
    for rows in ([True, False], [0.5], "01"):
        with pytest.raises(ArgumentError, match=r"Dataset.inputs got rows="):
            data.inputs(rows)
    with pytest.raises(RolesError, match="there are 3200 rows"):
        data.inputs([3200])


def test_a_row_that_lacks_a_role_is_shown_without_it(capsys):
    rows = Inputs([[7, 8], [9, 6]], [1, 2], Roles({"key": [[0], [-1]], "end": [[1], [1]]}))
    rows.show(1)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [["0", "'9'"], ["1", "'6'", "end"], ["answer:", "2"]]
