"""Readings of the anchor study: which probe reads which member, at which stage, on which inputs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from rb_interp import probes
from rb_interp.interventions.circuits import anchor_routes
from rb_interp.interventions.sites import Site
from rb_interp.models.arrays import ActivationSource
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.variance import component_hooks
from rb_interp.runs import Run, StudyResult, Sweep
from rb_interp.runs.member_models import MemberModels, measure_members
from rb_interp.settings import SMALL
from rb_interp.tasks.anchor import GROUPS
from rb_interp.tasks.inputs import Inputs
from rb_interp.training.member_group import Member

REASONING, MEMORY, WEIGHTS = "rsn_train", "mem", ""
"""Sets of inputs that are read; WEIGHTS is for probes that need no input."""


class ProbeCall(NamedTuple):
    """What is read."""

    probe: Callable[..., probes.Reading]
    set: str
    """The inputs that it sees; WEIGHTS for none."""
    options: Mapping[str, Any]


OPTIONS: dict[Callable[..., probes.Reading], dict[str, Any]] = {
    probes.value_alignment: {"groups": GROUPS, "contrast": ("reasoning", "memory")},
    probes.geometry: {
        "groups": GROUPS,
        "alike": ("memory", "reasoning"),
        "ordered": ("key", "reasoning"),
    },
}
"""Which tokens a probe compares."""


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


def own_stage(sweep: Sweep, member: Member) -> str:
    """The stage at which L0 is read: ``half`` at gamma .8, else ``matched``, the same step."""
    return "matched" if SMALL in sweep.config.gammas and member.gamma != SMALL else "half"


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

    for stage in _stages(models.sweep, member):
        models.load(member, stage)
        sources = _sources(models.model, inputs)
        n_calls = 1 if stage == "leaving" else len(calls)
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


def _stages(sweep: Sweep, member: Member) -> list[str]:
    """The stages at which a trained member is read, each once."""
    stages = ["half", own_stage(sweep, member), "final"]
    if "leaving" in sweep.config.train.stages:
        stages.insert(0, "leaving")
    return list(dict.fromkeys(stages))


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


def one_pass(model: HookedModel, inputs: Inputs, components: bool = True) -> ActivationSource:
    """All that the probes read of some rows: the patterns, and what the components write."""
    hooks = [Site("pattern", layer).hook for layer in range(model.cfg.n_layers)]
    if components:
        hooks += component_hooks(model).values()
    return probes.captured(model, inputs.tokens, hooks)
