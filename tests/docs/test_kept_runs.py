"""Kept runs are drawn with what they have."""

from pathlib import Path

from rb_interp.runs.run import Run
from rb_interp.studies.composite.figures import draw_map

ROOT = Path(__file__).parents[2]


def test_a_map_is_drawn_with_what_it_has():
    evidence = Run.open(ROOT / "results/composite_map_quick").evidence
    panels = {axes.get_title(): axes for axes in draw_map(evidence).axes}
    from_top = [label.get_text() for label in panels["layers"].get_yticklabels()][::-1]
    assert from_top == ["4", "2"]
