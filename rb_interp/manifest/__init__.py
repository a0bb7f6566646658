"""The manifest of a folder: what each of its files is, and what it was made from."""

from rb_interp.manifest.content import FILE, code_version
from rb_interp.manifest.manifest import PROBE, REPORT, START, TRAIN, Manifest

__all__ = ["FILE", "PROBE", "REPORT", "START", "TRAIN", "Manifest", "code_version"]
