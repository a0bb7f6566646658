"""One tiny run of the anchor study, trained and measured once, that tests of several folders look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
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
def anchor_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run, trained and measured, without figures. Whoever damages it works on a copy."""
    from tiny_anchor import TINY

    from rb_interp.runs.run import Run
    from rb_interp.studies.anchor import ANCHOR

    study = replace(ANCHOR, figures={})
    run = Run.start(tmp_path_factory.mktemp("anchor") / "run", study, study.preset("smoke", **TINY))
    run.train(progress=False)
    with _few():
        run.probe(progress=False)
    return run
