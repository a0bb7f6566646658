"""Readings of members whose phase and flow are known."""

import pytest


@pytest.fixture(scope="session")
def read():
    from known_members import read_known

    return read_known()
