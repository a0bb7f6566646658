"""Threads: as many as asked for, and the caller's number afterwards, whatever happens."""

import pytest
import torch

from rb_interp.torch_threads import few_threads, threads


@few_threads
def number() -> int:
    """How many threads torch uses."""
    return torch.get_num_threads()


def test_one_unless_more_are_asked_for_and_the_caller_s_number_comes_back():
    before = torch.get_num_threads()
    assert number() == 1
    with threads(3):
        assert number() == 3
        with threads(2):
            assert number() == 2
        assert number() == torch.get_num_threads() == 3
    assert torch.get_num_threads() == before
    with pytest.raises(KeyError), threads(3):
        raise KeyError
    assert (number(), torch.get_num_threads()) == (1, before)
    assert number.__doc__ == "How many threads torch uses."
