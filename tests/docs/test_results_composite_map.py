"""The page of results of the phase map quotes the tables that are kept."""

import re
from pathlib import Path

import pytest

from rb_interp.machine.run import Run
from rb_interp.studies.composite.map.config import AXES
from rb_interp.studies.composite.phase import PHASES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results_composite_map.md").read_text()


@pytest.fixture(scope="module")
def run():
    return Run.open(ROOT / "results" / "composite_map_quick")


def test_every_cell_is_quoted(run):
    quoted = re.findall(r"^\| ([\w\s,-]+) \| (\w[\w.]*) \| ([\d.]+) \| (.*) \|$", PAGE, re.MULTILINE)
    cells = run.table("cells").assign(axis=lambda table: table["axis"].map(AXES).str.replace("learning rate", "rate"))
    counts = cells.set_index(["axis", "label", "gamma", "phase"])["n"]
    told = {
        (axis, label, float(gamma), phase): int(n)
        for axis, label, gamma, numbers in quoted
        for phase, n in zip(PHASES, numbers.split(" | "), strict=True)
    }
    assert told == counts.to_dict()
    assert [verdict.outcome for verdict in run.verdicts] == ["UNDECIDED"] * 6


def test_what_the_text_says_of_members_is_so(run):
    members = run.table("members").set_index(["sweep", "gamma", "seed"])

    def both(sweep, gamma, name):
        return [round(members.loc[(sweep, gamma, seed), name], 2) for seed in (0, 1)]

    assert (len(members), both("depth_2", 0.5, "S")) == (54, [0.96, 1.0])
    assert (both("depth_4", 0.5, "I"), both("depth_4", 0.5, "S")) == ([0.74, 0.94], [0.11, 0.0])
    assert (both("gpt2_pre", 0.5, "I"), both("gpt2_pre", 0.5, "S")) == ([0.88, 0.95], [0.0, 0.0])
    assert (both("gpt2_post", 0.5, "S"), both("gpt2_pre", 0.8, "I")) == ([0.99, 0.97], [0.32, 0.52])
    assert (both("depth_4", 0.8, "I"), both("depth_4", 0.8, "S")) == ([0.68, 0.0], [0.01, 0.0])
    unseen = members.loc[[name for name in members.index.levels[0] if name.startswith("unseen")], "I"]
    assert (round(unseen.min(), 2), round(unseen.max(), 2)) == (0.28, 0.88)
    falls = [both("depth_2", gamma, "I")[1] - both("depth_2", gamma, "S")[1] for gamma in (0.3, 0.5)]
    assert falls[0] > 0 > falls[1]
