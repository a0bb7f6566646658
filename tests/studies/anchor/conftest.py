"""The run that the tests of this folder look at, and its evidence."""

import pytest

from rb_interp.figures.evidence import Evidence
from rb_interp.runs.run import Run


@pytest.fixture(scope="session")
def run(anchor_run: Run) -> Run:
    """The golden run."""
    return anchor_run


@pytest.fixture(scope="session")
def evidence(run: Run) -> Evidence:
    return run.evidence
