"""A file of the study `one` with axes."""

from pathlib import Path

TEXT = """
study = "one"
members = 4
[axes]
train.lr = [0.01, 0.02]
seeds = [0, 1, 2]
"""


def write(folder: Path, text: str = TEXT) -> Path:
    path = folder / "rates.toml"
    path.write_text(text)
    return path
