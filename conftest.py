"""Test settings: shapes are checked while testing, and tutorials run on both TransformerLens
generations."""

import gc
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import pytest
from shapes import Finder

os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # threads that wait for each other cost more than a second one gains
ROOT = Path(__file__).parent
WITH_SHAPES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "rb_interp").rglob("*.py"))
    if "from jaxtyping import" in path.read_text("utf-8")
    and path.name not in ("arguments.py", "inputs.py")
]  # Inputs and Roles are made from lists; pyright checks other types, and words are drawn by the hundred thousand
if not os.environ.get("JAXTYPING_DISABLE"):
    sys.meta_path.insert(0, Finder(WITH_SHAPES))

collect_ignore = ["docs/conf.py"]
collect_ignore_glob = ["docs/notebooks/*.py"]

WIDE = ("tutorial_any_model.md",)
LENS = ("tutorial_any_model.md", "models.md", "interventions.md", "other_libraries.md")
TRAINS = ("models.md", "training.md", "tutorial_any_model.md", "tutorial_own_study.md")


def pytest_configure(config: pytest.Config) -> None:
    """What docstrings, pages and libraries leave in temporary folders goes when the tests end."""
    os.environ.setdefault(
        "PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir()
    )  # tests that fail keep theirs
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    tempfile.tempdir = os.environ["TMPDIR"] = folder.name


def pytest_collection(session: pytest.Session) -> None:
    """Processes that collect tests import the large packages first.

    A package that a hooked module is the first to import would be compiled again in every process,
    as its bytecode is looked for under the hook's name. That took 20 s a process.
    """
    if not session.config.getoption("numprocesses", None):
        # until tests are collected: millions of objects are made, and hardly one is garbage
        gc.disable()
        names = (
            "transformer_lens",
            "pandas",
            "scipy.stats",
            "matplotlib.pyplot",
            "pyarrow.parquet",
        )
        # in a fresh environment what one process compiles the other one reads
        second = os.environ.get("PYTEST_XDIST_WORKER") == "gw1"
        for name in reversed(names) if second else names:
            import_module(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # the packages stay, so no later collection looks at them again
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_is_short)  # a long group that begins last leaves the other process idle
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
        tutorial = item.path.name in WIDE and item.path.parent.name == "docs"
        if tutorial or "anchor_run" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.wide)
        if (
            item.path.name in TRAINS and item.path.parent.name == "docs"
        ) or "crossed_seeds" in item.path.parts:
            item.add_marker(pytest.mark.trains)
        if item.path.name in LENS and item.path.parent.name == "docs":
            item.add_marker(pytest.mark.lens)
            # Readers of the 3.x generation see this notice too; it is no fault of the tutorial.
            item.add_marker(
                pytest.mark.filterwarnings(
                    "ignore:HookedTransformer is deprecated:DeprecationWarning"
                )
            )


def _is_short(item: pytest.Item) -> bool:
    return not {"anchor_run", "studies", "notebooks", "golden"} & {
        *getattr(item, "fixturenames", ()),
        *item.path.parts,
        item.path.stem.removeprefix("test_"),
    }


def _group(item: pytest.Item) -> str:
    """What runs in one process, so that a trained run or a module's fixtures are made once."""
    if "anchor_run" in getattr(item, "fixturenames", ()):
        return str(ROOT / "tests/studies/anchor")
    folder = item.path.parent
    if folder.name == "golden":  # the golden run of a study is that study's tests' too
        folder = (
            ROOT / "tests" / "studies" / item.name.partition("[")[2].rstrip("]").replace("-", "_")
        )
        return str(folder) if folder.is_dir() else item.nodeid
    return str(folder if folder.parent.name == "studies" else item.path)
