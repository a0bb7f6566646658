"""The golden run of the label study, that the tests of this folder look at."""

import pytest


@pytest.fixture(scope="session")
def run(smoke_run):
    return smoke_run("labels")


@pytest.fixture(scope="session")
def measured(run):
    return run.evidence
