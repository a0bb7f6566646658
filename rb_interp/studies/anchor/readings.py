"""Every reading of the anchor study: which probe reads which member, at which stage, on which
inputs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rb_interp import probes
from rb_interp.interventions.circuits import anchor_routes
from rb_interp.interventions.sites import Site
from rb_interp.models.arrays import ActivationSource
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.variance import component_hooks
from rb_interp.runs import Run, StudyResult, Sweep
from rb_interp.runs.member_models import MemberModels, measure_members
from rb_interp.settings import SMALL
from rb_interp.tasks.anchor_settings import GROUPS
from rb_interp.tasks.inputs import Inputs
from rb_interp.training.member_group import Member

REASONING, MEMORY, WEIGHTS = "rsn_train", "mem", ""
"""Sets of inputs that are read; WEIGHTS is for probes that need no input."""

Step = tuple[Callable[..., probes.Reading], str, dict[str, Any]]
"""Probe, the set that it sees (WEIGHTS for none), and its options."""
OPTIONS: dict[Callable[..., probes.Reading], dict[str, Any]] = {
    probes.value_alignment: {"groups": GROUPS, "contrast": ("reasoning", "memory")},
    probes.geometry: {
        "groups": GROUPS,
        "alike": ("memory", "reasoning"),
        "ordered": ("key", "reasoning"),
    },
}
"""Which tokens a probe compares."""


def plan(n_layers: int, n_heads: int) -> list[Step]:
    """What is read: every head of L0, of L1, and of the last layer.

    >>> len(plan(n_layers=2, n_heads=1)), len(plan(n_layers=3, n_heads=2))
    (7, 16)
    """
    places = [
        (probes.uniformity, REASONING, 0),
        (probes.attention_to_key, REASONING, 0),
        (probes.value_alignment, WEIGHTS, 0),
    ]
    places += [
        (probes.attention_by_role, set, layer)
        for layer in sorted({1, n_layers - 1})
        for set in (REASONING, MEMORY)
    ]
    steps: list[Step] = [
        (probe, set, {"layer": at, "head": h}) for probe, set, at in places for h in range(n_heads)
    ]
    steps += [(probes.variance_explained, REASONING, {}), (probes.geometry, WEIGHTS, {})]
    return [(probe, set, {**where, **OPTIONS.get(probe, {})}) for probe, set, where in steps]


def own_stage(sweep: Sweep, member: Member) -> str:
    """The stage at which L0 is read: ``half`` at gamma .8, at other gammas the same step,
    ``matched``."""
    return "matched" if SMALL in sweep.config.gammas and member.gamma != SMALL else "half"


def read_members(run: Run, progress: bool = True) -> StudyResult:
    """Readings of all members at init, half, matched and final, and their arrays."""
    return measure_members(
        run, lambda models, member: _read(models, member, run.config), [""], progress
    )


def _read(
    models: MemberModels, member: Member, config: Any
) -> Iterator[tuple[str, str, probes.Reading]]:
    """Stage, set and reading of every probe; each reading carries the untrained model's values.

    Routes are an intervention on the finished circuit, and are read of the untrained and of the
    final model.
    """
    sweep, data = models.sweep, models.sweep.dataset(member.seed)
    steps = plan(config.model.n_layers, config.model.n_heads)
    inputs = {set: data.inputs(data.sample(set, config.probe_rows)) for set in (REASONING, MEMORY)}
    inputs[WEIGHTS] = inputs[REASONING]

    def read(sources: Mapping[str, ActivationSource], step: Step, **options: Any) -> probes.Reading:
        probe, set, where = step
        found = probe(sources[set], inputs[set], n_null=config.n_null, **where, **options)
        usual = {None, 0} >= {found.head} and found.layer in (
            None,
            1 if probe is probes.attention_by_role else 0,
        )
        return found if usual else replace(found, arrays={})

    def sources(model: HookedModel) -> dict[str, ActivationSource]:
        reasoning, memory = (
            one_pass(model, inputs[set], set == REASONING) for set in (REASONING, MEMORY)
        )
        return {REASONING: reasoning, MEMORY: memory, WEIGHTS: model}

    models.load(member, "init")
    at_start = sources(models.untrained)
    before = [read(at_start, step) for step in steps]
    yield from (("init", set, reading) for (_, set, _), reading in zip(steps, before, strict=True))
    routes_before = anchor_routes(models.untrained, data, set=REASONING, n=config.probe_rows)
    yield "init", REASONING, routes_before
    stages = ["leaving"] if "leaving" in sweep.config.train.stages else []
    for stage in dict.fromkeys((*stages, "half", own_stage(sweep, member), "final")):
        models.load(member, stage)
        now = sources(models.model)
        for step, untrained in zip(
            steps[:1] if stage == "leaving" else steps, before, strict=stage != "leaving"
        ):
            if step[0] is probes.geometry:  # participation_ratio needs the untrained model itself
                yield stage, step[1], read(now, step, untrained=models.untrained)
            else:
                yield stage, step[1], replace(read(now, step), untrained=untrained.values)
    routes = anchor_routes(models.model, data, set=REASONING, n=config.probe_rows)
    yield "final", REASONING, replace(routes, untrained=routes_before.values)


def one_pass(model: HookedModel, inputs: Inputs, components: bool = True) -> ActivationSource:
    """All that the probes read of some rows: the attention patterns, and what the components
    write."""
    hooks = [Site("pattern", layer).hook for layer in range(model.cfg.n_layers)]
    return probes.captured(
        model, inputs.tokens, [*hooks, *(component_hooks(model).values() if components else ())]
    )
