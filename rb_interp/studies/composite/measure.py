"""Measure the composite study: phase and flow of every member at its last step (paper 2, Figs. 2 and 3).

    phase                     accuracies, I, S, O; see ``phase``
    attention_between_roles   every head, on early rows of seen_test whose pair is no exception, and of unseen
    interchange_roles         what roles carry after L0, and the flow that this makes; see ``flow``
    knock_out                 accuracy without an edge of L0's attention
    unseen_attention          of all gammas together, see ``tables.unseen_attention``
    weight_spectra, condensation, lattice, eigenvalue_growth, complexity_contrast, phase_by_complexity
                              see ``complexity``

Members of another number of layers than two have no flow; those of several heads have no attention criterion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jaxtyping import Int
from numpy import ndarray

from rb_interp.machine.measured import Measured, readings_table
from rb_interp.machine.members import MemberModels, each_member
from rb_interp.machine.run import Run
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.attention_between_roles import attention_between_roles
from rb_interp.probes.capture import captured
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.complexity import (
    complexity_arrays,
    contrast_readings,
    eigenvalue_table,
    growth_readings,
    phase_readings,
    read_complexity,
)
from rb_interp.studies.composite.flow import LAYERS, ROLES, inferential_rows, read_interchange, read_knock_out
from rb_interp.studies.composite.phase import early, read_phase
from rb_interp.studies.composite.rows import CompositeDataset
from rb_interp.studies.composite.tables import MemberFound, member_tables, summaries, unseen_attention
from rb_interp.training.member_group import Member


def measure(run: Run, progress: bool = True) -> Measured:
    """Read phase and flow of the members of a finished run; tables are those of ``schema``.

    Raises RunError where a checkpoint is missing or broken.
    """
    sweep = run.sweep()
    found = each_member(sweep, sweep.sound_members, read_member, progress=progress, desc="probing")
    tables = member_tables(found)
    tables["eigenvalues"] = eigenvalue_table(sweep.spectra(), sweep.sound_members)
    tables |= summaries(tables, run.curves)
    own, step = [row for one in found for row in one.rows()], sweep.config.train.steps
    readings = readings_table(
        own,
        unseen_attention(tables["phases"], step),
        growth_readings(tables["growth"], step),
        contrast_readings(tables["matrices"], sweep.members, step),
        phase_readings(tables["phases"], tables["matrices"], step),
    )
    arrays = complexity_arrays([(one.member, reading) for one in found for _, reading in one.readings])
    return Measured(readings, tables, arrays)


def read_member(models: MemberModels, member: Member) -> MemberFound:
    """Every reading of a member at its last step."""
    data, step = models.sweep.dataset(member.seed), models.load(member, "final").step
    return MemberFound(member, step, tuple(read_model(models.model, data, models.untrained)))


def read_model(model: HookedModel, data: CompositeDataset, untrained: HookedModel) -> list[tuple[str, Reading]]:
    """Every reading of a model, with its set."""
    found = [("", read_phase(model, data, untrained=untrained))]
    for set, rows in attention_rows(data).items():
        found += [(set, reading) for reading in read_attention(model, data, rows, untrained)]
    if model.cfg.n_layers == LAYERS:
        found += [("seen_test", read(model, data, untrained=untrained)) for read in (read_interchange, read_knock_out)]
    return found + [("", reading) for reading in read_complexity(model, data, untrained)]


def attention_rows(data: CompositeDataset) -> dict[str, Int[ndarray, " row"]]:
    """Set -> the rows that attention is read on."""
    unseen = data.rows("unseen")
    return {"seen_test": inferential_rows(data), "unseen": unseen[early(data, unseen)]}


def read_attention(
    model: HookedModel, data: CompositeDataset, rows: Int[ndarray, " row"], untrained: HookedModel
) -> list[Reading]:
    """Attention between roles of every head, layer by layer, with ``last_to_anchors``, the sum over both anchors."""
    inputs, layers, heads = data.inputs(rows), range(model.cfg.n_layers), range(model.cfg.n_heads)
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in layers]
    now, before = (captured(one, inputs.tokens, hooks) for one in (model, untrained))
    read = [
        attention_between_roles(now, inputs, roles=ROLES, layer=layer, head=head, untrained=before, n_null=0)
        for layer in layers
        for head in heads
    ]
    return [replace(one, values=_with_sum(one.values), untrained=_with_sum(one.untrained)) for one in read]


def _with_sum(values: Mapping[str, float]) -> dict[str, float]:
    return {**values, "last_to_anchors": values["last_to_a1"] + values["last_to_a2"]}
