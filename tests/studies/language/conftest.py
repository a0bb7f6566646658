"""The golden run of the language study, that the tests of this folder look at."""

import pytest


@pytest.fixture(scope="session")
def run(smoke_run):
    return smoke_run("language")


@pytest.fixture(scope="session")
def evidence(run):
    return run.evidence
