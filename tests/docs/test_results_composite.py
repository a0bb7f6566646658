"""The page of results of the composite study quotes the tables that are kept."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rb_interp.runs.run import Run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results_composite.md").read_text()
NUMBER = r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]"


@pytest.fixture(scope="module")
def run():
    return Run.open(ROOT / "results" / "composite_quick")


def test_every_verdict_is_quoted_with_its_number(run):
    rows = re.findall(r"^\| ([A-Z]\d+m?) .*? \| ([A-Z ]+): (\d+)/(\d+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert [(name, outcome, int(k), int(n)) for name, outcome, k, n, _ in rows] == [
        (verdict.id, verdict.outcome, verdict.n_meeting, verdict.n_seeds) for verdict in run.verdicts
    ]
    for name, *_, number in rows:
        fewest = min(run.verdicts[name].conditions, key=lambda condition: condition.n_meeting)
        if number == "n/a":
            assert fewest.effect is None
        else:
            told = [float(part) for part in re.findall(NUMBER, number)[-1]]
            assert told == pytest.approx([fewest.effect, fewest.low, fewest.high], abs=0.0051), name


def test_phases_and_flows_are_quoted(run):
    rows = re.findall(r"^\| ([\d.]+) \| (\w+) \| ([\w ]+) \| (\d+) \|$", PAGE, re.MULTILINE)
    counts = run.table("phases").groupby(["gamma", "phase", "flow"]).size()
    assert {(float(gamma), phase, flow): int(n) for gamma, phase, flow, n in rows} == counts.to_dict()


def test_the_control_of_fresh_seeds_is_quoted():
    rows = re.findall(
        r"^\| (\d+) \| ([a-z ]+) \| ([\d.]+) \| ([a-z ]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE
    )
    kept = pd.read_csv(ROOT / "results/composite_control.csv").set_index(["sweep", "seed"])
    control, main = kept.loc["both_unseen"], kept.loc["main"]
    assert [int(row[0]) for row in rows] == list(control.index) == list(range(8, 16))
    assert [row[1] for row in rows] == list(control["flow"])
    assert [row[3] for row in rows] == list(main["flow"])
    told = [[float(number) for number in (row[2], row[4], row[5])] for row in rows]
    found = [[control["I"][seed], main["I"][seed], main["S"][seed]] for seed in control.index]
    assert np.abs(np.array(told) - found).max() <= 0.0051


@pytest.fixture(scope="module")
def sizes():
    spec = importlib.util.spec_from_file_location("composite_sizes", ROOT / "experiments/composite_sizes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sizes_are_quoted(sizes):
    kept = pd.read_csv(sizes.TABLE)
    assert sizes.page_table(kept) in PAGE, "run 'python experiments/composite_sizes.py --table'"
    assert set(kept["setting"]) <= set(sizes.CHANGES)
