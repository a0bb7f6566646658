"""Roles say what is missing and who needs it."""

import numpy as np
import pytest

from rb_interp.errors import RbInterpError, RolesError
from rb_interp.tasks import Roles


def test_a_missing_role_names_the_probe_and_what_there_is():
    roles = Roles({"key": np.zeros((2, 1))}, {"key": np.arange(3)}, task="task 'modular_addition'")
    with pytest.raises(RolesError) as caught:
        roles.group("reasoning_anchor", "probe 'value_alignment'")
    assert str(caught.value) == (
        "probe 'value_alignment' needs the token group 'reasoning_anchor'; task 'modular_addition' provides {key}. "
        "Add it to the Roles that you pass."
    )


def test_rows_that_disagree_are_refused():
    with pytest.raises(RolesError, match="disagree on the number of rows"):
        Roles({"key": np.zeros((2, 1)), "anchor": np.zeros((3, 2))})
    with pytest.raises(RolesError, match=r"expected \[row, n\]"):
        Roles({"key": np.zeros(2)})


def test_take_selects_rows_of_everything():
    roles = Roles({"key": np.arange(4)[:, None]}, {}, np.array(["mem", "mem", "rsn_train", "rsn_test"]))
    taken = roles.take(np.array([2, 0]))
    assert taken.position("key").tolist() == [[2], [0]]
    assert taken.set.tolist() == ["rsn_train", "mem"]
    assert len(taken) == 2


@pytest.mark.parametrize("given", [1, 1.5, "x", None, [[1], [2, 3]]])
def test_places_that_are_no_array_are_refused(given):
    with pytest.raises(RbInterpError, match="'a'|expected an array, all rows of one length"):
        Roles({"key": np.zeros((2, 1)), "a": given})
