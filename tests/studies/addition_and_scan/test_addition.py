"""The addition task: its rules on every row, each worked out here again from tokens alone."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rb_interp.errors import RbInterpError
from rb_interp.studies.addition_and_scan.addition import SETS, AdditionTask
from rb_interp.tasks import Task


@pytest.mark.parametrize(("operands", "block"), [((0, 9), (5, 4)), ((0, 9), (4, 10)), ((0, 9), (0, 9))])
def test_a_block_stands_within_the_operands_and_leaves_sums_to_train_on(operands, block):
    with pytest.raises(RbInterpError):
        AdditionTask(operands, block)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 2**31))
def test_every_row_obeys_the_definition(draw, seed):
    low = draw.draw(st.integers(0, 30))
    high = draw.draw(st.integers(low + 3, low + 14))
    first = draw.draw(st.integers(low, high - 2))
    last = draw.draw(st.integers(first, high - 1))
    share = draw.draw(st.sampled_from([0.0, 0.1, 0.4]))
    task = AdditionTask((low, high), (first, last), share)
    data = task.dataset(seed)
    numbers = range(low, high + 1)
    found = {}
    for (a, plus, b, equals), answer, name in zip(
        data.tokens.tolist(), data.labels.tolist(), data.roles().set, strict=True
    ):
        assert (plus, equals) == (2 * high + 1, 2 * high + 2)
        assert answer == a + b
        inside = first <= a <= last and first <= b <= last
        assert inside == (name == "block")
        found[(a, b)] = name
    assert set(found) == set(product(numbers, numbers))
    assert len(found) == len(data)
    assert tuple(len(data.rows(name)) for name in SETS) == task.counts
    others = len(data) - task.counts[2]
    assert task.counts[1] == round(share * others)
    assert data.rows("train").tolist() == np.flatnonzero(data.set == 0).tolist()
    assert task.d_vocab == data.tokens.max() + 1 > data.labels.max()


def test_a_seed_draws_the_same_rows_and_another_seed_other_test_rows_alone():
    task = AdditionTask()
    one, again, other = task.dataset(3), task.dataset(3), task.dataset(4)
    np.testing.assert_array_equal(one.set, again.set)
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_array_equal(one.rows("block"), other.rows("block"))
    assert set(one.rows("seen_test")) != set(other.rows("seen_test"))
    for role, token in (("a", 0), ("b", 2), ("last", 3)):
        assert (one.positions[role] == token).all()


def test_presets_have_the_sizes_of_claim_and_paper():
    assert isinstance(AdditionTask(), Task)
    quick, paper = (AdditionTask.preset(name) for name in ("quick", "paper"))
    assert (quick.operands, quick.block, quick.counts[2]) == ((0, 99), (40, 60), 21**2)
    assert (paper.operands, paper.block, sum(paper.counts)) == ((0, 999), (400, 600), 1_000_000)
