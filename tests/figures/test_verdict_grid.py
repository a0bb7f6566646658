"""Verdicts of several runs side by side: the right cell has the right verdict, and nothing is made up."""

import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from rb_interp.errors import ConfigError
from rb_interp.figures.verdict_grid import LOOKS, verdict_grid


def table(**outcomes):
    rows = [{"id": id, "outcome": outcome, "n_meeting": k, "n_seeds": n} for id, (outcome, k, n) in outcomes.items()]
    return pd.DataFrame(rows)


def test_a_cell_has_its_own_runs_verdict():
    found = {
        "1e-3": table(A1=("HOLDS", 8, 8), A2=("NOT JUDGED", 0, 0)),
        "own": table(A2=("FAILS", 1, 8), A1=("OPEN", 5, 8)),
    }
    axes = verdict_grid(found, "learning rate", marked="own").axes[0]
    cells = {(round(patch.get_x() + 0.46), round(patch.get_y() + 0.43)): patch for patch in axes.patches if patch.fill}
    outcomes = {place: to_hex(patch.get_facecolor()) for place, patch in cells.items()}
    holds, fails, is_open, unjudged = (look[0] for look in LOOKS.values())
    assert outcomes == {(0, 0): holds, (0, 1): unjudged, (1, 0): is_open, (1, 1): fails}
    said = {(round(text.get_position()[0]), round(text.get_position()[1])): text.get_text() for text in axes.texts}
    assert said == {(0, 0): "8/8", (0, 1): "-", (1, 0): "5/8", (1, 1): "1/8"}
    (frame,) = (patch for patch in axes.patches if isinstance(patch, Rectangle) and not patch.fill)
    assert frame.get_x() == 0.5
    assert [label.get_text() for label in axes.get_yticklabels()] == ["A1", "A2"]


def test_what_is_no_table_of_verdicts_is_refused():
    with pytest.raises(ConfigError, match="got no run; give at least one"):
        verdict_grid({}, "rate")
    with pytest.raises(ConfigError, match=r"the verdicts of 'x' lack \['n_seeds'\]; give what Verdicts"):
        verdict_grid({"x": table(A1=("HOLDS", 8, 8)).drop(columns="n_seeds")}, "rate")
