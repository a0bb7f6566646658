"""Rows of tokens, a label for each, and roles that say what is missing and who needs it."""

import numpy as np
import pytest
import torch

from rb_interp.errors import RolesError
from rb_interp.probes.embeddings import token_groups
from rb_interp.tasks import Dataset, Inputs, Roles


def test_rows_have_whole_tokens_and_a_label_each():
    assert Inputs(torch.tensor([[1, 2]]), ["yes"]).labels.tolist() == ["yes"]
    assert len(Inputs(np.empty((0, 4)))) == 0
    with pytest.raises(
        RolesError, match="got 64 rows of tokens and 3 labels; expected one for each row"
    ):
        Inputs(np.zeros((64, 5), dtype=int), np.arange(3))
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
