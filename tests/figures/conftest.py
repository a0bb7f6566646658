"""What the figures of the tests of this folder draw."""

import pytest

from rb_interp.figures.evidence import Evidence
from rb_interp.runs.run import Run


@pytest.fixture(scope="session")
def evidence(anchor_run: Run) -> Evidence:
    """Of the golden run of the anchor study."""
    return anchor_run.evidence
