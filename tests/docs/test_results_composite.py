"""The page of results of the composite study quotes the tables that are kept."""

import re
from pathlib import Path

import pytest

from rb_interp.machine.run import Run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results_composite.md").read_text()
NUMBER = r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]"


@pytest.fixture(scope="module")
def run():
    return Run.open(ROOT / "results" / "composite_quick")


def test_every_verdict_is_quoted_with_its_number(run):
    rows = re.findall(r"^\| ([A-Z]\d+m?) .*? \| (\w+): (\d+)/(\d+) \| (.*) \|$", PAGE, re.MULTILINE)
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
    counts = run.table("phase_counts")
    assert [(float(gamma), phase, flow, int(n)) for gamma, phase, flow, n in rows] == list(
        counts[["gamma", "phase", "flow", "n"]].itertuples(index=False, name=None)
    )


def test_what_the_text_says_of_members_is_so(run):
    members = run.table("phases").set_index(["gamma", "seed"])
    fitted = members.loc[members["phase"] != "unfit"]
    assert len(fitted) == 10
    assert fitted.loc[0.8, "S_early"].round(2).to_list() == [0.98, 0.98]
    mixed = fitted.loc[fitted["phase"] == "mixed"].loc[0.5]
    assert sorted(mixed["S_early"].round(2)) == [0.58, 1, 1, 1]
    assert (fitted["I_early"] < 0.005).all()
    anchors = members.loc[members["flow"] == "via anchors"]
    assert anchors.index.to_list() == [(0.5, 6), (0.8, 6), (0.5, 7)]
    moved = run.table("interchange").set_index(["gamma", "seed", "roles"])["source"]
    assert [round(moved[(*member, "a1+a2")], 2) for member in anchors.index] == [0.94, 0.87, 0.96]
    assert max(moved[(*member, role)] for member in anchors.index for role in ("a1", "a2")) <= 0.105
    assert set(run.table("exception_places").query("phase != 'unfit'")["place"]) == {"none"}


def test_the_control_is_quoted(run):
    readings = run.readings.query("sweep == 'both_unseen' and probe == 'phase'")
    values = readings.set_index(["quantity", "gamma"])["value"]
    assert values["S", 0.5].max() < 0.005
    assert values["S", 0.8].max() <= 0.02
    inferred = sorted(values["I", 0.5])
    assert (sum(value >= 0.94 for value in inferred), [round(value, 2) for value in inferred[:3]]) == (5, [0, 0, 0.41])
