"""Measure the composite study: phase and flow of every member at its last step (paper 2, Figs. 2 and 3).

    phase                     accuracies, I, S, O; see ``phase``. In the sweep both_unseen: the control
    attention_between_roles   every head, on early rows of seen_test whose pair is no exception, and of unseen
    interchange_roles         what roles carry after L0, and the flow that this makes; see ``flow``
    knock_out                 accuracy without an edge of L0's attention
    answer_cosines, step_cosines, variance_shares    what vectors stand for; see ``representation``
    weight_spectra, condensation, lattice            see ``complexity``

and, of several members together, ``two_phases``, ``memorising`` (see ``phase``), ``unseen_attention``, ``flow_match``
(``flow``), ``eigenvalue_growth``, ``complexity_contrast``, ``phase_by_complexity`` (``complexity``).

Members of another number of layers than two have no flow, and no reading of vectors; those of several heads have no
attention criterion.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Int

from rb_interp.models.protocol import HookedModel
from rb_interp.probes._attention import EXCESS, attention
from rb_interp.probes.capturing import captured
from rb_interp.runs.measured import Measured, arrays_over_seeds, readings_table
from rb_interp.runs.members import MemberModels, measure_members
from rb_interp.runs.run import Run
from rb_interp.runs.sweep import Sweep
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.flow import (
    LAYERS,
    ROLES,
    flow_match,
    inferential_rows,
    read_interchange,
    read_knock_out,
    unseen_attention,
    with_flows,
)
from rb_interp.studies.composite.phase import Placed, early, memorising, phase_table, read_phase, two_phases
from rb_interp.studies.composite.representation import (
    complexity_contrast,
    eigenvalue_table,
    growth_order,
    has_grid,
    phase_by_complexity,
    read_complexity,
    read_grid,
    read_shares,
)
from rb_interp.studies.composite.rows import CompositeDataset
from rb_interp.training.member_group import Member


def measure(run: Run, progress: bool = True) -> Measured:
    """Read phase and flow of the members of a finished run; docs/tables.md has the tables.

    Raises RunError where a checkpoint is missing or broken.
    """
    sweep = run.sweep()
    found = measure_members(run, partial(read_member, main=sweep), progress=progress)
    own = found.readings.loc[found.readings["sweep"] == ""]
    phases = with_flows(phase_table(own), own)
    eigenvalues = eigenvalue_table(sweep.spectra(), sweep.sound_members)
    several = [*of_members(phases, sweep.curves()), *growth_order(eigenvalues)]
    several += [*complexity_contrast(own, sweep.members), *phase_by_complexity(own, phases)]
    readings = readings_table(found.readings, placed(several, sweep.config.train.steps))
    cosines = {key: array for key, array in found.arrays.items() if "/grid/" in key}
    means = {name: array.astype("float32") for name, array in arrays_over_seeds(cosines).items()}
    tables = {**found.tables, "phases": phases, "eigenvalues": eigenvalues}
    return Measured(readings, tables, {**found.arrays, **means})


def of_members(phases: pd.DataFrame, curves: pd.DataFrame) -> Placed:
    """Readings of members by their phase, most of them of no single gamma."""
    for several in (unseen_attention(phases), flow_match(phases), two_phases(phases), memorising(phases, curves)):
        yield from several


def placed(several: list[tuple[float, int, str, Reading]], step: int) -> list[dict]:
    """Rows of readings at the last step."""
    return [
        {"gamma": gamma, "seed": seed, "stage": "final", "step": step, "set": set, **row}
        for gamma, seed, set, reading in several
        for row in reading.rows()
    ]


def read_member(models: MemberModels, member: Member, main: Sweep) -> Iterator[tuple[str, str, Reading]]:
    """Every reading of a member at its last step; of the control its phase on rows of the main sweep."""
    models.load(member, "final")
    data, asked = models.sweep.dataset(member.seed), main.dataset(member.seed)
    if models.sweep.name != main.name:
        yield "final", "", read_phase(models.model, data, asked=asked, untrained=models.untrained)
    else:
        yield from (("final", set, reading) for set, reading in read_model(models.model, data, models.untrained))


def read_model(model: HookedModel, data: CompositeDataset, untrained: HookedModel) -> list[tuple[str, Reading]]:
    """Every reading of a model, with its set."""
    found = [("", read_phase(model, data, untrained=untrained))]
    unseen = data.rows("unseen")
    for set, rows in {"seen_test": inferential_rows(data), "unseen": unseen[early(data, unseen)]}.items():
        found += [(set, reading) for reading in read_attention(model, data, rows, untrained)]
    if model.cfg.n_layers == LAYERS:
        found += [("seen_test", read(model, data, untrained=untrained)) for read in (read_interchange, read_knock_out)]
        found += [("seen_test", reading) for reading in read_shares(model, data, untrained=untrained)]
        grid = read_grid(model, data, untrained=untrained) if has_grid(data) else ()
        found += [("grid", reading) for reading in grid]
    return found + [("", reading) for reading in read_complexity(model, data, untrained)]


def read_attention(
    model: HookedModel, data: CompositeDataset, rows: Int[np.ndarray, " row"], untrained: HookedModel
) -> list[Reading]:
    """Attention between roles of every head, layer by layer, with ``last_to_anchors``, the sum over both anchors."""
    inputs, layers = data.inputs(rows), range(model.cfg.n_layers)
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in layers]
    now, before = (captured(one, inputs.tokens, hooks) for one in (model, untrained))
    found = []
    for layer in layers:
        for head in range(model.cfg.n_heads):
            where = {"query": ROLES, "to": ROLES, "layer": layer, "head": head}
            read = attention(now, inputs, **where, untrained=before, n_null=0)
            values, start = (
                {name: value for name, value in both.items() if not name.endswith(EXCESS)}
                | {"last_to_anchors": both["last_to_a1"] + both["last_to_a2"]}
                for both in (read.values, read.untrained)
            )
            found.append(Reading("attention_between_roles", values, layer, head, start, n=read.n))
    return found
