"""Threads: as many as asked for, and the caller's number afterwards, whatever happens."""

from threading import Thread

import pytest
import torch
from threadpoolctl import threadpool_info

from rb_interp._threads import single_threaded, threads


@single_threaded
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


def blas() -> set[int]:
    """How many threads each BLAS library of this process has."""
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


@pytest.mark.skipif(not blas(), reason="this numpy has a BLAS whose threads cannot be set")
def test_numpy_s_blas_has_as_many_and_gets_its_own_number_back():
    own = blas()

    def beside() -> None:
        with threads(1):
            pass

    with threads(2):
        assert blas() == {2}
        with threads(3):
            assert blas() == {3}
        other = Thread(target=beside)
        other.start()
        other.join()
        assert blas() == {2}
    with pytest.raises(KeyError), threads(3):
        raise KeyError
    assert blas() == own
