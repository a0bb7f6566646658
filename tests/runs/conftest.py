"""The runs of this folder's own studies, made once."""

import gc
import shutil
import signal
from pathlib import Path

import pytest
from own_studies import TWO


@pytest.fixture(scope="session")
def two(tmp_path_factory):
    return TWO.run(
        preset="smoke", seeds=(0, 1), out=tmp_path_factory.mktemp("two") / "run", progress=False
    )


@pytest.fixture(scope="session")
def exported(one, tmp_path_factory):
    """A member of a run, shared."""
    return one.export(gamma=0.8, seed=1, path=tmp_path_factory.mktemp("shared") / "one")


@pytest.fixture
def copy(exported, tmp_path):
    """The folder of that member, which a test may damage."""
    return Path(shutil.copytree(exported.folder, tmp_path / "copy"))


@pytest.fixture
def ctrl_c():
    """Python's own answer to Ctrl-C, which a shell takes from what it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    # Python drops what is raised inside a callback of its collector, and test tools have one
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)
