"""The runs of this folder's own studies, made once."""

import pytest
from own_studies import ONE, TWO


@pytest.fixture(scope="session")
def one(tmp_path_factory):
    return ONE.run(preset="smoke", out=tmp_path_factory.mktemp("one") / "run", progress=False)


@pytest.fixture(scope="session")
def two(tmp_path_factory):
    return TWO.run(preset="smoke", seeds=(0, 1), out=tmp_path_factory.mktemp("two") / "run", progress=False)
