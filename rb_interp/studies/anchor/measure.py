"""Measure a trained run, once: probes, then interventions and answers by circuit, then dynamics.

`plan` says which probe reads which member, and on which inputs.

docs/tables.md has the tables with their columns. Arrays are
``{gamma}/{seed}/{stage}/{set}/{probe}.L{layer}.H{head}/{array}``, of the first head of the layer that the paper
speaks of.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rb_interp import probes
from rb_interp.interventions.circuits import CAUSES, anchor_routes
from rb_interp.models.arrays import ActivationSource
from rb_interp.models.protocol import HookedModel
from rb_interp.runs import Run, StudyResult
from rb_interp.runs.measurement import MemberModels, measure_members
from rb_interp.runs.results import frame, readings_table
from rb_interp.statistics.equal_loss import equal_loss_table
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.studies.anchor.causes import MEMORY, REASONING, measure_causes, own_stage
from rb_interp.studies.anchor.circuits import CIRCUITS, circuit_table, measure_equivalence
from rb_interp.studies.anchor.dynamics import OPTIONS, dynamics, one_pass, order_table
from rb_interp.studies.anchor.equal_loss import LOWEST_MEMORY
from rb_interp.tasks.inputs import Inputs
from rb_interp.theory.theorem_1 import lemma_1
from rb_interp.training.member_group import Member

NAMED_BY = {"cause": ("cause", CAUSES), "attention": ("circuit", CIRCUITS)}
"""How a circuit is named -> the column of ``circuits`` with that name, and the known names."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Probe all members of a finished run, intervene on them, and date what happened when.

    Raises RunError if a checkpoint that a stage needs is missing or broken.
    """
    config: Any = run.config
    main = run.sweep()
    data = {seed: main.dataset(seed) for seed in main.seeds}
    orders = []  # members whose L0 attends 1/i throughout are read by their learning curves alone
    for name in run.sweeps:
        order = learning_order_of(run.sweep(name).curves(), config.task.d_vocab, data)
        orders.append(readings_table(order, sweep=name))
    lemma = []
    for gamma in config.gammas:
        lemma.append(lemma_1(config.model, config.task, gamma, n_init=config.n_init))
    probed = read_members(run, progress)
    circuits = circuit_table(readings_table(probed.readings, orders[0]))
    causes = measure_causes(run, circuits, progress)
    equivalence = measure_equivalence(run, circuits, progress)
    changes = dynamics(run, progress)
    memory = orders[0].loc[orders[0]["quantity"] == "acc_mem"]
    lowest = memory.sort_values("value", na_position="first").drop_duplicates("seed")
    lowest = lowest.sort_values("seed").assign(gamma=np.nan, quantity=LOWEST_MEMORY)
    equal = readings_table(equal_loss_table(main.curves()), sweep="")
    readings = readings_table(
        probed.readings,
        *lemma,
        orders[0],
        lowest,
        equal,
        causes.readings,
        equivalence.readings,
        *orders[1:],
    )
    tables = {"circuits": circuits, **causes.tables, **equivalence.tables, **changes.tables}
    tables["circuit_counts"] = circuit_counts(circuits)
    by_cause = circuits[["gamma", "seed"]].assign(circuit=circuits["cause"])
    tables["event_order"] = order_table(changes.tables["events"], by_cause)
    return StudyResult(readings, tables, probed.arrays)


def circuit_counts(circuits: pd.DataFrame) -> pd.DataFrame:
    """How many seeds learned each circuit at each gamma, by cause and by attention.

    The intervals are Clopper-Pearson's.
    """
    rows = []
    for gamma, members in circuits.groupby("gamma", sort=True):
        for named_by, (column, known) in NAMED_BY.items():
            other_names = sorted(set(circuits[column]) - set(known))
            total = len(members)
            for name in (*known, *other_names):
                n = members[column].to_list().count(name)
                rows.append((gamma, named_by, name, n, total, *proportion_interval(n, total)))
    return frame(rows, "gamma named_by:str circuit:str n total:int share low high")


UNIFORMITY_ALONE = ("leaving", "informed")
"""Stages at which L0's distance from 1/i is read, and nothing else."""
WEIGHTS = ""
"""In place of the name of a set: for probes that need no input."""


class ProbeCall(NamedTuple):
    """What is read."""

    probe: Callable[..., probes.Reading]
    set: str
    """The inputs that it sees; WEIGHTS for none."""
    options: Mapping[str, Any]


def plan(n_layers: int, n_heads: int) -> list[ProbeCall]:
    """What is read: the heads of L0, of L1, and of the last layer.

    >>> len(plan(n_layers=2, n_heads=1)), len(plan(n_layers=3, n_heads=2))
    (7, 16)
    """
    by_layer = [
        (probes.uniformity, REASONING, 0),
        (probes.attention_to_key, REASONING, 0),
        (probes.value_alignment, WEIGHTS, 0),
    ]
    for layer in sorted({1, n_layers - 1}):
        by_layer.append((probes.attention_by_role, REASONING, layer))
        by_layer.append((probes.attention_by_role, MEMORY, layer))
    calls = []
    for probe, set, layer in by_layer:
        for head in range(n_heads):
            options = {"layer": layer, "head": head, **OPTIONS.get(probe, {})}
            calls.append(ProbeCall(probe, set, options))
    calls.append(ProbeCall(probes.variance_explained, REASONING, {}))
    calls.append(ProbeCall(probes.geometry, WEIGHTS, OPTIONS[probes.geometry]))
    return calls


def read_members(run: Run, progress: bool = True) -> StudyResult:
    """Readings of all members at init, half, matched and final, and their arrays."""
    config: Any = run.config
    return measure_members(run, partial(_read, config=config), [""], progress)


def _read(
    models: MemberModels, member: Member, config: Any
) -> Iterator[tuple[str, str, probes.Reading]]:
    """Stage, set and reading of all probes; each reading carries the untrained model's values.

    Routes are an intervention on the finished circuit, and are read of the untrained and of the
    final model.
    """
    data = models.sweep.dataset(member.seed)
    calls = plan(config.model.n_layers, config.model.n_heads)
    inputs = {}
    for set in (REASONING, MEMORY):
        inputs[set] = data.inputs(data.sample(set, config.probe_rows))
    inputs[WEIGHTS] = inputs[REASONING]

    models.load(member, "init")
    sources = _sources(models.untrained, inputs)
    start = []
    for call in calls:
        reading = _call(call, sources, inputs, n_null=config.n_null)
        start.append(reading)
        yield "init", call.set, reading
    routes_at_start = anchor_routes(models.untrained, data, set=REASONING, n=config.probe_rows)
    yield "init", REASONING, routes_at_start

    stages = [stage for stage in UNIFORMITY_ALONE if stage in models.sweep.config.train.stages]
    for stage in dict.fromkeys([*stages, "half", own_stage(models.sweep, member), "final"]):
        models.load(member, stage)
        sources = _sources(models.model, inputs)
        n_calls = 1 if stage in UNIFORMITY_ALONE else len(calls)
        for call, untrained in zip(calls[:n_calls], start[:n_calls], strict=True):
            options = {"n_null": config.n_null}
            if (
                call.probe is probes.geometry
            ):  # participation_ratio needs the untrained model itself
                options["untrained"] = models.untrained
            reading = _call(call, sources, inputs, **options)
            if call.probe is not probes.geometry:
                reading = replace(reading, untrained=untrained.values)
            yield stage, call.set, reading
    routes = anchor_routes(models.model, data, set=REASONING, n=config.probe_rows)
    yield "final", REASONING, replace(routes, untrained=routes_at_start.values)


def _sources(model: HookedModel, inputs: Mapping[str, Inputs]) -> dict[str, ActivationSource]:
    """What the probes read, by set of inputs."""
    reasoning = one_pass(model, inputs[REASONING])
    memory = one_pass(model, inputs[MEMORY], components=False)
    return {REASONING: reasoning, MEMORY: memory, WEIGHTS: model}


def _call(
    call: ProbeCall,
    sources: Mapping[str, ActivationSource],
    inputs: Mapping[str, Inputs],
    **options: Any,
) -> probes.Reading:
    """The reading of a probe, with arrays for the first head of the layer that figures draw."""
    reading = call.probe(sources[call.set], inputs[call.set], **call.options, **options)
    layer = 1 if call.probe is probes.attention_by_role else 0
    if reading.head in (None, 0) and reading.layer in (None, layer):
        return reading
    return replace(reading, arrays={})
