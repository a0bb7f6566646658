"""The golden runs, each trained and measured once, that tests of several folders look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rb_interp.runs.run import Run


@contextmanager
def _few() -> Iterator[None]:
    from tiny_anchor import FEW

    from rb_interp.studies.anchor import causes

    with pytest.MonkeyPatch.context() as patched:
        for name, few in FEW.items():
            patched.setattr(causes, name, few)
        yield


@pytest.fixture
def few_interventions() -> Iterator[None]:
    """Interventions as few as those of `anchor_run`, for whoever measures it again."""
    with _few():
        yield


@pytest.fixture(scope="session")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Study -> its golden run, trained and measured once."""
    from golden.calls import smoke

    return cache(lambda study: smoke(study, tmp_path_factory.mktemp(study) / "run"))


@pytest.fixture(scope="session")
def anchor_run(smoke_run: Callable[[str], Run]) -> Run:
    """The golden run of the anchor study. Whoever damages it works on a copy."""
    return smoke_run("anchor")
