"""More members where the seeds of a cell disagree.

A refinement is a run of its own, with seeds that the first run did not use. Cells were chosen by what the first seeds
showed, so their counts and those of the fresh seeds are not added up: the fresh ones alone tell the share of a phase.
"""

from __future__ import annotations

from dataclasses import replace

from rb_interp.checks import checked
from rb_interp.errors import RunError
from rb_interp.runs.run import Run
from rb_interp.studies.composite.map.config import CompositeMapConfig


@checked
def refinement(run: Run, members: int = 8) -> CompositeMapConfig:
    """The configuration of a run with fresh seeds in the cells whose members are not all in one phase.

    Args:
        run: a map that is measured. members: fresh seeds of each cell.

    Raises RunError where all members of each cell agree, and where no tables are there yet.

        run = Run.open("runs/composite-map-quick")
        COMPOSITE_MAP.run(config=refinement(run), out="runs/composite-map-refined")
    """
    config, table = run.config, run.table("members")
    assert isinstance(config, CompositeMapConfig)
    found: dict[tuple[str, float], set[str]] = {}
    for row in table.to_dict("records"):
        found.setdefault((row["sweep"], row["gamma"]), set()).add(row["phase"])
    cells = tuple(place for place, phases in found.items() if len(phases) > 1)
    if not cells:
        raise RunError(f"{run.folder}: the members of every cell are in one phase; there is nothing to refine.")
    first = max(table["seed"].tolist()) + 1
    return replace(config, cells=cells, seeds=tuple(range(first, first + members)))
