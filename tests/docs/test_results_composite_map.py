"""The page of results of the phase map quotes the tables that are kept."""

import re
from pathlib import Path

import pandas as pd
import pytest

from rb_interp.runs.run import Run
from rb_interp.statistics.intervals import proportion_interval, t_interval
from rb_interp.studies.composite.figures import draw_map
from rb_interp.studies.composite.map import AXES
from rb_interp.studies.composite.phase import PHASES

ROOT = Path(__file__).parents[2]
MAP, REFINEMENT, PARTS = re.split(
    "^## .*$", (ROOT / "docs" / "results_composite_map.md").read_text(), flags=re.MULTILINE
)


@pytest.fixture(scope="module")
def run():
    return Run.open(ROOT / "results" / "composite_map_quick")


def test_every_cell_is_quoted(run):
    quoted = re.findall(r"^\| ([\w\s,-]+) \| (\w[\w.]*) \| ([\d.]+) \| (.*) \|$", MAP, re.MULTILINE)
    cells = run.table("cells").assign(axis=lambda table: table["axis"].map(AXES).str.replace("learning rate", "rate"))
    counts = cells.set_index(["axis", "label", "gamma", "phase"])["n"]
    told = {
        (axis, label, float(gamma), phase): int(n)
        for axis, label, gamma, numbers in quoted
        for phase, n in zip(PHASES, numbers.split(" | "), strict=True)
    }
    assert told == counts.to_dict()
    assert [verdict.outcome for verdict in run.verdicts] == [*["NOT JUDGED"] * 3, "OPEN", "OPEN", "NOT JUDGED"]


SWEEPS = {
    "4 layers": "depth_4",
    "peak rate 0.0015": "rate_0.5",
    "peak rate 0.006": "rate_2",
    "weight decay 0.0065": "decay_0.00647",
    "weight decay 0.65": "decay_0.647",
    "GPT-2 block, norm before": "gpt2_pre",
}


def is_quoted(phases, numbers, shares):
    """Whether a row of the page has these members: their number in each phase, and the share inferential."""
    told = dict(zip((PHASES[1], PHASES[2], PHASES[0], PHASES[3]), map(int, numbers.split(" | ")), strict=True))
    inferential = proportion_interval(int((phases == "inferential").sum()), len(phases))
    return told == {phase: (phases == phase).sum() for phase in PHASES} and [float(share) for share in shares] == (
        pytest.approx(list(inferential), abs=0.0051)
    )


def test_the_refinement_is_quoted():
    members = pd.read_csv(ROOT / "results" / "composite_map_refined.csv")
    quoted = re.findall(r"^\| (.*) \| (0\.\d) \| (.*) \| (\S+) \[(\S+), (\S+)\] \|$", REFINEMENT, re.MULTILINE)
    cells = dict(tuple(members.groupby(["sweep", "gamma"])["phase"]))
    assert len(quoted) == len(cells)
    for name, gamma, numbers, *shares in quoted:
        assert is_quoted(cells[SWEEPS[name], float(gamma)], numbers, shares)
    members = members.set_index("sweep")
    assert members.loc["gpt2_pre", "I"].min() >= 0.72
    assert sorted(members.loc["gpt2_pre", "S"].round(2)) == [0] * 7 + [0.2]
    deep = members.loc["depth_4"]
    neither = deep.query("phase == 'mixed' and S < .005")["I"].round(2)
    assert (len(neither), neither.min(), neither.max()) == (6, 0, 0.76)
    assert "(I .00 to .76, S .00)" in REFINEMENT
    assert ((deep["S"] < 0.005).sum(), ((deep["S"] < 0.005) & (deep["phase"] == "mixed")).sum()) == (7, 6)


NAMES = {"norm before instead of after": "norm", "four heads instead of one": "heads", "GELU instead of ReLU": "act"}


def test_the_parts_of_the_block_are_quoted():
    members = pd.read_csv(ROOT / "results" / "composite_map_changes.csv")
    cells = dict(tuple(members.groupby("changed")["phase"]))
    quoted = re.findall(r"^\| (\S+) \| (\d .*) \| (\S+) \[(\S+), (\S+)\] \|$", PARTS, re.MULTILINE)
    assert len(quoted) == len(cells) == 16
    for name, numbers, *shares in quoted:
        assert is_quoted(cells[name], numbers, shares)
    assert (members["phase"] != "unfit").all()
    number, count = r" (\S+) \[(\S+), (\S+)\] \|", r" (\d+) of 64 \|"
    quoted = re.findall(rf"^\| ([\w ]+) \|{2 * number}{4 * count}$", PARTS, re.MULTILINE)
    assert len(quoted) == 4
    for name, *numbers in quoted:
        changed = members["changed"].str.contains(NAMES.get(name, name))
        means = members.groupby(["seed", changed])[["I", "S"]].mean().unstack()
        told = iter(map(int, numbers[6:]))
        for phase in PHASES[1:3]:
            for rows in (changed, ~changed):
                assert next(told) == (rows & (members["phase"] == phase)).sum()
        for letter, quote in zip("IS", (numbers[:3], numbers[3:6]), strict=True):
            interval = t_interval((means[letter][True] - means[letter][False]).to_numpy())
            assert [float(value) for value in quote] == pytest.approx(list(interval), abs=0.0051)
    before = members["changed"].str.contains("norm")
    means = members.groupby(["seed", before])[["I", "S"]].mean()
    assert means.groupby(level=1).mean().round(2).to_numpy().tolist() == [[0.16, 0.76], [0.64, 0.23]]
    differences = means.unstack()
    assert (differences["I"][True] > differences["I"][False]).all()
    assert (differences["S"][True] < differences["S"][False]).all()


def test_a_map_is_drawn_with_what_it_has(run):
    panels = {axes.get_title(): axes for axes in draw_map(run.evidence).axes}
    from_top = [label.get_text() for label in panels["layers"].get_yticklabels()][::-1]
    assert from_top == ["4", "2"]
