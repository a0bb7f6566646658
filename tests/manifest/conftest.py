"""A manifest in a folder of its own."""

from pathlib import Path

import pytest

from rb_interp.manifest import Manifest


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    made = Manifest(tmp_path / "run", "abc", {"train": "Train again.", "probe": "Probe again."})
    made.write_bytes(made.folder / "weights" / "a", b"one", "train")
    made.write_bytes(made.folder / "weights" / "b", b"two", "train")
    made.finish("train")
    with made.making("probe", "train"):
        made.write_bytes(made.folder / "table", b"numbers", "probe")
    return made
