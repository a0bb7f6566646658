"""A few cases of each campaign; all of them by ``cd tests && python -m campaigns``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from campaigns import NAMES


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_every_case_ends_in_equal_results_or_one_sentence(name: str) -> None:
    """In a process of its own: a campaign forks, and must not have computed before."""
    asked = [sys.executable, "-m", "campaigns", name, "--short"]
    ended = subprocess.run(asked, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
