"""Measure the composite study: every member at its last step.

``phase``, ``flow`` and ``representation`` say what is read of one member and of several together.
Beside it stands ``attention_between_roles`` of every head, on early rows of seen_test whose pair is
no exception, and of unseen. Members of another number of layers than two
have no flow, and no reading of vectors; those of several heads have no attention criterion. In the
sweep both_unseen only the phase is read.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from jaxtyping import Int

from rb_interp.models.protocol import HookedModel
from rb_interp.probes._attention import EXCESS, attention
from rb_interp.probes.activations import captured
from rb_interp.runs import Run, Sweep
from rb_interp.runs.measurement import MemberModels, measure_members
from rb_interp.runs.results import StudyResult, arrays_over_seeds, readings_table
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite import flow, representation
from rb_interp.studies.composite.phase import (
    MemberReading,
    early,
    final_rows,
    memorising,
    phase_table,
    read_phase,
    two_phases,
)
from rb_interp.studies.composite.task import CompositeDataset
from rb_interp.training.member_group import Member


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Read phase and flow of the members of a finished run; docs/tables.md has the tables.

    Raises RunError if a checkpoint is missing or broken.
    """
    sweep = run.sweep()
    result = measure_members(run, partial(read_member, main=sweep), progress=progress)
    main = result.readings.query("sweep == ''")
    phases = flow.with_flows(phase_table(main), main)
    eigenvalues = representation.eigenvalue_table(sweep.spectra(), sweep.sound_members)
    several = list(of_members(main, phases, sweep.curves()))
    several += representation.growth_order(eigenvalues)
    several += representation.complexity_contrast(main, sweep.members)
    several += representation.phase_by_complexity(main, phases)
    readings = readings_table(result.readings, final_rows(several, sweep.config.train.steps))
    arrays = dict(result.arrays)
    cosines = {name: array for name, array in arrays.items() if "/grid/" in name}
    for name, array in arrays_over_seeds(cosines).items():
        arrays[name] = array.astype("float32")
    tables = {**result.tables, "phases": phases, "eigenvalues": eigenvalues}
    return StudyResult(readings, tables, arrays)


def of_members(
    readings: pd.DataFrame, phases: pd.DataFrame, curves: pd.DataFrame
) -> Iterator[MemberReading]:
    """Readings of members by their phase and attention, most of them of no single gamma."""
    yield from flow.unseen_attention(readings)
    yield from flow.flow_match(phases)
    yield from two_phases(phases)
    yield from memorising(phases, curves)


def read_member(
    models: MemberModels, member: Member, main: Sweep
) -> Iterator[tuple[str, str, Reading]]:
    """Every reading of a member at its last step, with stage and set.

    Of the control only the phase is read, on rows of the main sweep.
    """
    models.load(member, "final")
    model = models.model
    data = models.sweep.dataset(member.seed)
    if models.sweep.name == main.name:
        for set, reading in read_model(model, data, models.untrained):
            yield "final", set, reading
    else:
        unseen = main.dataset(member.seed)
        phase = read_phase(model, data, unseen_data=unseen, untrained=models.untrained)
        yield "final", "", phase


def read_model(
    model: HookedModel, data: CompositeDataset, untrained: HookedModel
) -> Iterator[tuple[str, Reading]]:
    """Every reading of a model, with its set."""
    yield "", read_phase(model, data, untrained=untrained)
    unseen = data.rows("unseen")
    rows_by_set = {"seen_test": flow.inferential_rows(data), "unseen": unseen[early(data, unseen)]}
    for set, rows in rows_by_set.items():
        for reading in read_attention(model, data, rows, untrained):
            yield set, reading
    if model.cfg.n_layers == flow.LAYERS:
        yield "seen_test", flow.read_interchange(model, data, untrained=untrained)
        yield "seen_test", flow.read_knock_out(model, data, untrained=untrained)
        for reading in representation.read_shares(model, data, untrained=untrained):
            yield "seen_test", reading
        if representation.has_grid(data):
            for reading in representation.read_grid(model, data, untrained=untrained):
                yield "grid", reading
    for reading in representation.read_complexity(model, data, untrained):
        yield "", reading


def read_attention(
    model: HookedModel,
    data: CompositeDataset,
    rows: Int[np.ndarray, " row"],
    untrained: HookedModel,
) -> Iterator[Reading]:
    """Attention between roles of every head, layer by layer.

    ``last_to_anchors`` is the sum over the two anchors.
    """
    inputs = flow.with_distinct_roles(data.inputs(rows))
    now = captured(model, inputs.tokens)
    before = captured(untrained, inputs.tokens)
    roles = flow.ROLES
    for layer, head in product(range(model.cfg.n_layers), range(model.cfg.n_heads)):
        reading = attention(
            now, inputs, query=roles, to=roles, layer=layer, head=head, untrained=before, n_null=0
        )
        values = _shares(reading.values)
        start = _shares(reading.untrained)
        yield Reading("attention_between_roles", values, layer, head, start, n=reading.n)


def _shares(attention: Mapping[str, float]) -> dict[str, float]:
    """Shares of attention without their excess over the null, and ``last_to_anchors``."""
    shares = {name: value for name, value in attention.items() if not name.endswith(EXCESS)}
    shares["last_to_anchors"] = attention["last_to_a1"] + attention["last_to_a2"]
    return shares
