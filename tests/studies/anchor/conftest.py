"""The run that the tests of this folder look at."""

import pytest

from rb_interp.runs.run import Run


@pytest.fixture(scope="session")
def run(anchor_run: Run) -> Run:
    """The golden run."""
    return anchor_run
