"""Measure the composite study: phase and flow of every member at its last step (paper 2, Figs. 2 and 3).

    phase                     accuracies, I, S, O; see ``phase``
    attention_between_roles   every head, on early rows of seen_test whose pair is no exception, and of unseen
    interchange_roles         what roles carry after L0, and the flow that this makes; see ``flow``
    knock_out                 accuracy without an edge of L0's attention
    exception_edges           the exception and the rest without each such edge; see ``exception``
    answer_cosines, step_cosines, variance_shares    what vectors stand for; see ``representation``
    phase, sweep both_unseen  the control: members that were trained on neither pair; see ``phase.read_control``
    unseen_attention          of all gammas together, see ``tables.unseen_attention``
    flow_match                of all gammas together, whether the flow tells the phase; see ``tables.flow_match``
    two_phases                of all gammas together, the seed's members that are in one of two phases
    memorising                members unfit on seen_test on the rows that they were trained on
    weight_spectra, condensation, lattice, eigenvalue_growth, complexity_contrast, phase_by_complexity
                              see ``complexity``

Members of another number of layers than two have no flow, and no reading of vectors; those of several heads have no
attention criterion. Arrays are the matrices of cosines and the singular values of every matrix, of each member and
their means over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jaxtyping import Int
from numpy import ndarray
from pandas import DataFrame

from rb_interp.models.protocol import HookedModel
from rb_interp.probes._attention import EXCESS, attention
from rb_interp.probes.capturing import captured
from rb_interp.runs.measured import Measured, arrays_over_seeds, readings_table
from rb_interp.runs.members import MemberModels, each_member
from rb_interp.runs.run import Run
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.complexity import (
    complexity_arrays,
    contrast_readings,
    eigenvalue_table,
    growth_readings,
    phase_readings,
    read_complexity,
)
from rb_interp.studies.composite.config import BOTH_UNSEEN
from rb_interp.studies.composite.exception import read_exception
from rb_interp.studies.composite.flow import LAYERS, ROLES, inferential_rows, read_interchange, read_knock_out
from rb_interp.studies.composite.phase import early, read_control, read_phase
from rb_interp.studies.composite.representation import has_grid, read_grid, read_shares
from rb_interp.studies.composite.rows import CompositeDataset
from rb_interp.studies.composite.tables import (
    MemberFound,
    flow_readings,
    member_tables,
    memorising,
    summaries,
    two_phases,
    unseen_attention,
)
from rb_interp.training.member_group import Member

BETWEEN = "attention_between_roles"
"""What the study's tables call the readings of ``attention``, without the excess; kept results have the name."""


def measure_control(run: Run, progress: bool = True) -> DataFrame:
    """Readings of the members that were trained on neither pair, see ``phase.read_control``."""
    sweep, main = run.sweep(BOTH_UNSEEN), run.sweep()

    def read(models: MemberModels, member: Member) -> MemberFound:
        step, seed = models.load(member, "final").step, member.seed
        reading = read_control(models.model, sweep.dataset(seed), main.dataset(seed), untrained=models.untrained)
        return MemberFound(member, step, [("", reading)])

    found = each_member(sweep, sweep.sound_members, read, progress=progress, desc="probing the control")
    return readings_table([row for one in found for row in one.rows()], sweep=BOTH_UNSEEN)


def measure(run: Run, progress: bool = True) -> Measured:
    """Read phase and flow of the members of a finished run; docs/tables.md has the tables.

    Raises RunError where a checkpoint is missing or broken.
    """
    sweep = run.sweep()
    found = each_member(sweep, sweep.sound_members, read_member, progress=progress, desc="probing")
    tables = member_tables(found)
    tables["eigenvalues"] = eigenvalue_table(sweep.spectra(), sweep.sound_members)
    tables |= summaries(tables, run.curves)
    own = [row for one in found for row in one.rows()]
    step = sweep.config.train.steps
    of_all = *of_members(tables, sweep.curves(), step), *of_complexity(tables, sweep.members, step)
    control = [measure_control(run, progress)] if BOTH_UNSEEN in run.sweeps else []
    readings = readings_table(own, *of_all, *control)
    cosines = cosine_arrays(found)
    arrays = complexity_arrays([(one.member, reading) for one in found for _, reading in one.readings])
    averaged = cosines | {name: array for name, array in arrays.items() if "/weight_spectra/" in name}
    means = {name: array.astype("float32") for name, array in arrays_over_seeds(averaged).items()}
    return Measured(readings, tables, arrays | cosines | means)


def of_members(tables: Mapping[str, DataFrame], curves: DataFrame, step: int) -> tuple[DataFrame, ...]:
    """Readings of members by their phase, most of them of no single gamma."""
    phases, match = tables["phases"], flow_readings(tables["flow_match"], step)
    return unseen_attention(phases, step), match, two_phases(phases, step), memorising(phases, curves, step)


def of_complexity(tables: Mapping[str, DataFrame], members: Sequence[Member], step: int) -> tuple[DataFrame, ...]:
    """Readings of spectra of several evaluations, or of several members."""
    return (
        growth_readings(tables["growth"], step),
        contrast_readings(tables["matrices"], members, step),
        phase_readings(tables["phases"], tables["matrices"], step),
    )


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
        readers = (read_interchange, read_knock_out, read_exception)
        found += [("seen_test", read(model, data, untrained=untrained)) for read in readers]
        found += [("seen_test", reading) for reading in read_shares(model, data, untrained=untrained)]
        grid = read_grid(model, data, untrained=untrained) if has_grid(data) else ()
        found += [("grid", reading) for reading in grid]
    return found + [("", reading) for reading in read_complexity(model, data, untrained)]


def cosine_arrays(found: Sequence[MemberFound]) -> dict[str, ndarray]:
    """The matrices of cosines of every member, by place."""
    return {
        f"{one.member.gamma}/{one.member.seed}/final/grid/{reading.probe}/{name}": array
        for one in found
        for probe in ("answer_cosines", "step_cosines")
        for reading in one.of(probe, "grid")
        for name, array in reading.arrays.items()
    }


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
        attention(now, inputs, query=ROLES, to=ROLES, layer=layer, head=head, untrained=before, n_null=0)
        for layer in layers
        for head in heads
    ]
    return [
        replace(one, probe=BETWEEN, values=_with_sum(one.values), untrained=_with_sum(one.untrained), notes={})
        for one in read
    ]


def _with_sum(values: Mapping[str, float]) -> dict[str, float]:
    shares = {name: value for name, value in values.items() if not name.endswith(EXCESS)}
    return {**shares, "last_to_anchors": values["last_to_a1"] + values["last_to_a2"]}
