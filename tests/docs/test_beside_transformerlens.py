"""The page of everyday tasks: both ways give the same numbers, and its lines are those of the functions."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def everyday():
    spec = importlib.util.spec_from_file_location("everyday_tasks", ROOT / "benchmarks/everyday_tasks.py")
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


@pytest.mark.wide
def test_the_code_on_the_page_is_that_of_one_task_both_ways(everyday):
    page = (ROOT / "docs/beside_transformerlens.md").read_text("utf-8")
    shown = [getattr(everyday, name) for name in re.findall(r"^:pyobject: (\w+)$", page, re.MULTILINE)]
    tasks = [(everyday.SHARED.get(alone, alone), here) for alone, here in everyday.TASKS]
    assert len(shown) >= 8
    assert set(zip(shown[::2], shown[1::2], strict=True)) <= set(tasks)


@pytest.mark.wide
def test_the_page_has_every_task_with_its_lines(everyday):
    page = (ROOT / "docs/beside_transformerlens.md").read_text("utf-8")
    rows = re.findall(r"^\| (.*\?) \| (\d+) \| (\d+) \|", page, re.MULTILINE)
    assert rows == [
        (alone.__doc__, *(str(everyday.lines(way)) for way in (alone, here))) for alone, here in everyday.TASKS
    ]
