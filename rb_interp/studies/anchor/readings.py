"""Every reading of the anchor study: which probe reads which member, at which stage, on which inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rb_interp.interventions.circuits import anchor_routes
from rb_interp.interventions.sites import Site
from rb_interp.models.protocol import HookedModel
from rb_interp.probes import (
    Reading,
    attention_by_role,
    attention_to_key,
    captured,
    geometry,
    uniformity,
    value_alignment,
    variance_explained,
)
from rb_interp.probes.capturing import Source
from rb_interp.probes.labels import component_hooks
from rb_interp.runs.members import MemberModels, each_member
from rb_interp.runs.run import Run
from rb_interp.runs.sweep import Sweep
from rb_interp.settings import SMALL
from rb_interp.tasks.anchor import GROUPS
from rb_interp.tasks.inputs import Inputs
from rb_interp.theory.theorem_1 import lemma_1
from rb_interp.training.member_group import Member

REASONING, MEMORY, WEIGHTS = "rsn_train", "mem", ""
"""Sets of inputs that are read; WEIGHTS is for probes that need no input."""

Step = tuple[Callable[..., Reading], str, dict[str, Any]]
"""Probe, the set that it sees (WEIGHTS for none), and its options."""
OPTIONS: dict[Callable[..., Reading], dict[str, Any]] = {
    value_alignment: {"groups": GROUPS, "contrast": ("reasoning", "memory")},
    geometry: {"groups": GROUPS, "alike": ("memory", "reasoning"), "ordered": ("key", "reasoning")},
}
"""Which tokens a probe compares."""


def plan(n_layers: int, n_heads: int) -> list[Step]:
    """What is read: every head of L0, of L1, and of the last layer.

    >>> len(plan(n_layers=2, n_heads=1)), len(plan(n_layers=3, n_heads=2))
    (7, 16)
    """
    places = [(uniformity, REASONING, 0), (attention_to_key, REASONING, 0), (value_alignment, WEIGHTS, 0)]
    places += [(attention_by_role, set, layer) for layer in sorted({1, n_layers - 1}) for set in (REASONING, MEMORY)]
    steps: list[Step] = [(probe, set, {"layer": at, "head": h}) for probe, set, at in places for h in range(n_heads)]
    steps += [(variance_explained, REASONING, {}), (geometry, WEIGHTS, {})]
    return [(probe, set, {**where, **OPTIONS.get(probe, {})}) for probe, set, where in steps]


def own_stage(sweep: Sweep, member: Member) -> str:
    """The stage at which L0 is read: ``half`` at gamma .8, at other gammas the same step, ``matched``."""
    return "matched" if SMALL in sweep.config.gammas and member.gamma != SMALL else "half"


def read_members(run: Run, progress: bool = True) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Rows of readings of all members at init, half, matched and final, and their arrays."""
    config: Any = run.config
    sweep, rows, arrays = run.sweep(), [], {}

    def read(models: MemberModels, member: Member) -> list[tuple[str, int, str, Reading]]:
        return list(_member_readings(models, member, config))

    members = sweep.sound_members
    found = each_member(sweep, members, read, progress=progress, desc="probing")
    for member, readings in zip(members, found, strict=True):
        for stage, step, set, reading in readings:
            place = {"gamma": member.gamma, "seed": member.seed, "stage": stage, "step": step, "set": set}
            rows += [{**place, **row} for row in reading.rows()]
            prefix = f"{member.gamma}/{member.seed}/{stage}/{set}/{reading.probe}{_place(reading)}"
            arrays |= {f"{prefix}/{name}": np.asarray(array) for name, array in reading.arrays.items()}
    for gamma in config.gammas:
        rows += lemma_1(config.model, config.task, gamma, n_init=config.n_init).to_dict("records")
    return rows, arrays


def _member_readings(models: MemberModels, member: Member, config: Any) -> Iterator[tuple[str, int, str, Reading]]:
    """Stage, step, set and reading of every probe; each reading carries the untrained model's values.

    Routes are an intervention on the finished circuit, and are read of the untrained and of the final model.
    """
    sweep, data = models.sweep, models.sweep.dataset(member.seed)
    steps = plan(config.model.n_layers, config.model.n_heads)
    inputs = {set: data.inputs(data.sample(set, config.probe_rows)) for set in (REASONING, MEMORY)}
    inputs[WEIGHTS] = inputs[REASONING]

    def read(sources: Mapping[str, Source], step: Step, **options: Any) -> Reading:
        probe, set, where = step
        return probe(sources[set], inputs[set], n_null=config.n_null, **where, **options)

    def sources(model: HookedModel) -> dict[str, Source]:
        reasoning, memory = (one_pass(model, inputs[set], set == REASONING) for set in (REASONING, MEMORY))
        return {REASONING: reasoning, MEMORY: memory, WEIGHTS: model}

    models.load(member, "init")
    at_start = sources(models.untrained)
    before = [read(at_start, step) for step in steps]
    for (_, set, _), reading in zip(steps, before, strict=True):
        yield "init", 0, set, reading
    routes_before = anchor_routes(models.untrained, data, set=REASONING, n=config.probe_rows)
    yield "init", 0, REASONING, routes_before
    for stage in dict.fromkeys(("half", own_stage(sweep, member), "final")):
        at, now = models.load(member, stage).step, sources(models.model)
        for step, untrained in zip(steps, before, strict=True):
            if step[0] is geometry:  # participation_ratio needs the untrained model itself
                yield stage, at, step[1], read(now, step, untrained=models.untrained)
            else:
                yield stage, at, step[1], replace(read(now, step), untrained=untrained.values)
    if "leaving" in sweep.config.train.stages:
        at_leaving = models.load(member, "leaving").step
        (step, untrained), *_ = zip(steps, before, strict=True)
        yield "leaving", at_leaving, REASONING, replace(read(sources(models.model), step), untrained=untrained.values)
        models.load(member, "final")
    routes = anchor_routes(models.model, data, set=REASONING, n=config.probe_rows)
    yield "final", at, REASONING, replace(routes, untrained=routes_before.values)


def one_pass(model: HookedModel, inputs: Inputs, components: bool = True) -> Source:
    """All that the probes read of some rows: the attention patterns, and what the components write."""
    hooks = [Site("pattern", layer).hook for layer in range(model.cfg.n_layers)]
    return captured(model, inputs.tokens, [*hooks, *(component_hooks(model).values() if components else ())])


def _place(reading: Reading) -> str:
    """Nothing for the first head of the layer that the paper speaks of, else ``.layer.head``."""
    first = {"attention_by_role": 1}.get(reading.probe, 0)
    usual = reading.head in (None, 0) and reading.layer in (None, first)
    return "" if usual else f".{reading.layer}.{reading.head}"
