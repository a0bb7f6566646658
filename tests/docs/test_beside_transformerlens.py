"""The page beside TransformerLens: both ways give the same numbers."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.wide
@pytest.mark.parametrize("tasks", ["everyday_tasks", "demo_tasks"])
def test_both_ways_give_the_same_numbers_and_print_nothing(tasks, monkeypatch, capfd):
    monkeypatch.syspath_prepend(BENCHMARKS)
    world = import_module("everyday_tasks").world(64)
    for alone, here in import_module(tasks).TASKS:
        assert np.abs(alone(world) - here(world)).max() < 1e-5, alone.__doc__
    assert capfd.readouterr() == ("", "")
