"""The golden runs, each trained and measured once, that tests of several folders look at."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rb_interp.runs.run import Run


@pytest.fixture(scope="session")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Study -> its golden run, trained and measured once."""
    from golden.calls import smoke

    return cache(lambda study: smoke(study, tmp_path_factory.mktemp(study) / "run"))


@pytest.fixture(scope="session")
def anchor_run(smoke_run: Callable[[str], Run]) -> Run:
    """The golden run of the anchor study. Whoever damages it works on a copy."""
    return smoke_run("anchor")


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of a small study that tests define, made once."""
    from own_studies import ONE

    return ONE.run(preset="smoke", out=tmp_path_factory.mktemp("one") / "run", progress=False)


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The study `one` as a distribution installs it, for this process and those of jobs."""
    site = tmp_path_factory.mktemp("site")
    folder = site / "own-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 0\n")
    (folder / "entry_points.txt").write_text("[rb_interp.studies]\none = own_studies:ONE\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{Path(__file__).parent / 'runs'}")
