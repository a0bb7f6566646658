"""Rows of tokens, and a label for each."""

import numpy as np
import pytest
import torch

from rb_interp.errors import RolesError
from rb_interp.probes.values import token_groups
from rb_interp.tasks import Inputs, Roles


def test_rows_have_whole_tokens_and_a_label_each():
    assert Inputs(torch.tensor([[1, 2]]), ["yes"]).labels.tolist() == ["yes"]
    assert len(Inputs(np.empty((0, 4)))) == 0
    with pytest.raises(RolesError, match="got 64 rows of tokens and 3 labels; expected one for each row"):
        Inputs(np.zeros((64, 5), dtype=int), np.arange(3))
    for tokens in ([[0.5, 1.0]], [[True, False]], [["a"]]):
        with pytest.raises(RolesError, match="got tokens of type .*; expected whole numbers of shape"):
            Inputs(tokens)


@pytest.mark.parametrize("ids", [None, object(), [[1], [2, 3]], [10**30], [11.7, 12.2], [True], [2**63], float("nan")])
def test_token_ids_of_a_group_are_whole_numbers(ids):
    with pytest.raises(RolesError, match="geometry got the group 'a' with .*; expected a list of token ids"):
        token_groups({"a": ids}, Roles(), "geometry")


def test_token_ids_of_a_group_come_in_any_array():
    for ids in ([3, 4], (3, 4), torch.tensor([3, 4]), np.array([[3], [4]], dtype=np.uint8)):
        assert token_groups({"a": ids}, Roles(), "geometry")["a"].tolist() == [3, 4]
    assert token_groups({"a": []}, Roles(), "geometry")["a"].tolist() == []


def test_no_roles_are_none_or_left_out():
    rows = np.ones((2, 3), dtype=int)
    for some in (Inputs(rows, None, None), Inputs(rows), Inputs(rows, None, None).take([0])):
        assert some.labels is None
        assert not len(some.roles)
    with pytest.raises(RolesError, match=r"Inputs got roles=3; expected Roles\(positions, tokens\), or None\."):
        Inputs(rows, None, 3)
