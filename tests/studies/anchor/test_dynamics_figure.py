"""The order of events as drawn is that of the tables."""

from dataclasses import replace

import numpy as np
import pytest
from made_up import MadeUp
from matplotlib.text import Text
from synthetic_evidence import make_evidence, with_tables

from rb_interp.figures.style import INK, SET_COLOURS, SETS, draw
from rb_interp.studies.anchor import ANCHOR
from rb_interp.studies.anchor.figures_causes import (
    CRITERIA,
    MARKS,
    OFFSET,
    draw_dynamics,
)

KEPT = [0, 75, 375, 1575]
KEY, CARRY, SUM = "the last layer looks at the key", "L0 carries the key", "L0 writes the anchor sum"
PLANTED = {
    "rsn_train": [375.0, 175.0, 575.0],
    "rsn_test": [375.0, 175.0, 575.0],
    "L0 stops averaging": [0.0, 0.0, 100.0],
    KEY: [75.0, np.nan, 775.0],
    CARRY: [np.nan, 100.0, np.nan],
    SUM: [500.0, np.nan, 600.0],
}
CIRCUITS = ["average-then-key", "key-to-anchors", "average-then-key"]


@pytest.fixture(scope="module")
def evidence():
    """Three seeds at gamma .8; every event that is not planted never happens."""
    base = make_evidence(gammas=(0.8,), seeds=1)
    made, members = MadeUp(ANCHOR, base.config), {"gamma": [0.8], "seed": range(3)}
    made.fill("events", _event, **members, event=CRITERIA)
    made.fill("dynamics", _value, **members, step=[*KEPT, 100, 101, 102], quantity=["attention_by_role/key"])
    made.fill("circuits", lambda gamma, seed: {"circuit": "mixed", "cause": CIRCUITS[seed]}, **members)
    tables = with_tables(base, **made.tables())
    return replace(base, tables=tables | {"events": tables["events"].sample(frac=1, random_state=0)})


def _event(gamma, seed, event):
    step = PLANTED.get(event, [np.nan] * 3)[seed]
    return {"event_of": "loss" if event in SETS else "mechanism", "step": step, "censored": bool(np.isnan(step))}


def _value(gamma, seed, step, quantity):
    """At the steps that all seeds share, and at one more of each seed's own."""
    return {"value": 0.0} if step in (*KEPT, 100 + seed) else None


def lines_of(axes, row, colour):
    """Lines of one row whose colour is the event's."""
    near = [line for line in axes.lines if all(abs(y - row) < 0.5 for y in np.atleast_1d(line.get_ydata()))]
    return [line for line in near if line.get_color() == colour or line.get_markeredgecolor() == colour]


def test_every_seed_mean_and_interval_stand_at_their_step(evidence):
    axes = draw_dynamics(evidence).axes[0]
    for row, event in enumerate(CRITERIA):
        found = lines_of(axes, row, SET_COLOURS.get(event, INK))
        steps = np.array(PLANTED.get(event, [np.nan] * 3))
        during = np.isfinite(steps) & (steps > 0)
        marks = [(line.get_xdata()[0] - OFFSET, line.get_marker()) for line in found if line.get_marker() != "None"]
        shown = np.where(np.isfinite(steps), steps, 2.5 * (KEPT[-1] + OFFSET) - OFFSET)
        assert marks == [(step, MARKS[circuit]) for step, circuit in zip(shown, CIRCUITS, strict=True)]
        spans = [line.get_xdata() for line in found if line.get_marker() == "None"]
        if not during.any():
            assert not np.isfinite(spans).any()
            continue
        logs = np.log(steps[during] + OFFSET)
        np.testing.assert_allclose(spans[0], np.exp(logs.mean()))
        if during.sum() == 3:
            half = 4.302653 * logs.std(ddof=1) / np.sqrt(3)  # t of 2 degrees of freedom at .975
            np.testing.assert_allclose(spans[1], np.exp([logs.mean() - half, logs.mean() + half]), rtol=1e-5)


@pytest.mark.parametrize("missing", ["dynamics", "events"])
def test_a_run_without_the_tables_says_so(evidence, missing):
    bare = replace(evidence, tables={name: table for name, table in evidence.tables.items() if name != missing})
    figure = draw(draw_dynamics, bare)
    said = " ".join(text.get_text() for text in figure.findobj(Text)).replace("\n", " ")
    assert f"This run has no table “{missing}”" in said


def test_rows_without_a_date_say_why(evidence):
    dated = evidence.tables["events"].query("event_of == 'loss'")
    figure = draw_dynamics(replace(evidence, tables={**evidence.tables, "events": dated}))
    assert [text.get_text()[:9] for text in figure.axes[0].texts] == ["not dated"]
