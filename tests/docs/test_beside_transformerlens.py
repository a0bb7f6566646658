"""The page of everyday tasks: both ways give the same numbers, and its lines are those of the
functions."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def everyday():
    spec = importlib.util.spec_from_file_location(
        "everyday_tasks", ROOT / "benchmarks/everyday_tasks.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


@pytest.mark.wide
def test_both_ways_give_the_same_numbers_and_print_nothing(everyday, capfd):
    world = everyday.world(64)
    for alone, here in everyday.TASKS:
        assert np.abs(alone(world) - here(world)).max() < 1e-5, alone.__doc__
    assert capfd.readouterr() == ("", "")
