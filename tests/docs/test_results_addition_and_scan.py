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


def test_contrasts_are_quoted(run):
    table = run.table("contrasts_summary").set_index(["task", "contrast"])
    own = table.loc[("addition", "both")]
    assert own[["median", "lowest", "highest"]].tolist() == pytest.approx([0.22, -0.26, 0.54], abs=0.005)
    assert own[["mean", "low", "high"]].tolist() == pytest.approx([0.13, -0.11, 0.37], abs=0.0051)
    contrast = run.verdicts["P1"].conditions[0]
    assert (contrast.n_meeting, contrast.n_seeds, contrast.outcome) == (4, 8, "OPEN")
    decay = [
        table.loc[("addition", f"decay_{init}_init"), ["mean", "low", "high"]].tolist() for init in ("large", "small")
    ]
    assert np.ravel(decay).tolist() == pytest.approx([0.04, -0.03, 0.12, -0.01, -0.19, 0.18], abs=0.0051)
    block = run.readings.query("set == 'block' and gamma == .8").set_index(["sweep", "seed"])["value"]
    for sweep in ("addition_low", "addition_high"):
        order = block.loc[sweep].sort_values().index.tolist()
        assert (order[0], set(order[-2:])) == (6, {2, 5})
    commands = table.loc[[place for place in table.index if "scan" in place[0] and "decay_" in place[1][:6]], "mean"]
    assert -0.001 < commands.min() < commands.max() < 0.0035
    jump = run.readings.query("set == 'composites' and probe == 'answers'").groupby("gamma")["value"].max()
    assert jump.round(3).to_dict() == {0.3: pytest.approx(0.11, abs=0.005), 0.8: 0.002}
    assert "at most .11 at gamma .3, .002 at gamma .8" in PAGE
