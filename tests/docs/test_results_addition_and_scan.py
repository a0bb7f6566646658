"""The page of results of addition and commands quotes the tables that are kept."""

import re
from pathlib import Path

import numpy as np
import pytest

from rb_interp.runs.run import Run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results_addition_and_scan.md").read_text()
SPREAD = r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]"


@pytest.fixture(scope="module")
def run():
    return Run.open(ROOT / "results" / "addition_and_scan_quick")


def test_verdicts_are_quoted(run):
    rows = re.findall(r"^\| (P\d) .*? \| ([A-Z ]+): (\d+)/(\d+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert [(name, outcome, int(k), int(n)) for name, outcome, k, n, _ in rows] == [
        (verdict.id, verdict.outcome, verdict.n_meeting, verdict.n_seeds) for verdict in run.verdicts
    ]
    for name, *_, number in rows:
        verdict = run.verdicts[name]
        if number == "n/a":
            assert verdict.effect is None
        else:
            told = [float(part) for part in re.findall(SPREAD, number)[-1]]
            assert told == pytest.approx([verdict.effect, verdict.low, verdict.high], abs=0.00051)


def test_shares_are_quoted(run):
    cells = r" \| ".join([SPREAD] * 3)
    rows = re.findall(r"^\| (\w+) \| (\.\d+) \| (\.\d) \| " + cells + r" \|$", PAGE, re.MULTILINE)
    assert len(rows) == 16
    found = run.readings.query("probe == 'answers'").groupby(["sweep", "gamma", "set"])["value"]
    of = found.agg(["median", "min", "max"])
    for task, decay, gamma, *numbers in rows:
        sweep = f"{task}_{'low' if decay == '.01' else 'high'}"
        held_out = "block" if task == "addition" else "composites"
        wanted = np.ravel([of.loc[(sweep, float(gamma), name)].tolist() for name in ("train", "seen_test", held_out)])
        wanted = wanted.tolist()
        assert [float(number) for number in numbers] == pytest.approx(wanted, abs=0.0051)
