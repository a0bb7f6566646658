"""Measure the composite study: phase, flow, vectors and complexity of every member at its last
step.

What is read, of one member and of several together, is told in ``phase``, ``flow`` and
``representation``; beside it stands ``attention_between_roles`` of every head, on early rows of
seen_test whose pair is no exception, and of unseen. Members of another number of layers than two
have no flow, and no reading of vectors; those of several heads have no attention criterion. In the
sweep both_unseen only the phase is read.

The map reads the phase of every member, and per seed what claims C7 to C12 compare:

    order        Spearman's correlation of gamma and I - S, with six gammas or more from .5 to 1.0
    gamma_fit    smallest gamma with seen_test >= .90; NaN where there is none
    unfit        how many members along gamma have seen_test < .90
    gamma_star, crosses     the boundary, and whether there is one inside the grid
    fit_rise     gamma_fit at depth 6 less that at depth 2
    distance     |gamma* at depth 4 - gamma* at depth 2|
    rate_order, decay_order     Spearman's correlation of the setting and I, of C10 and C11, with five or more
    rate_gain, decay_gain       I at the highest setting that is fitted, less I at the lowest one
    A number that a seed has no value of, such as the smallest fitted gamma where none is fitted, is
    NaN.

The boundary between symmetric and inferential answers on a grid of gammas:

    gamma*      where I - S first crosses 0, linear between the points of the grid; if it never does, the grid's end on
                that side: the upper one where answers are symmetric throughout, the lower one where
                inferential
    bracket     the two points of the grid between which it does

One seed's boundary is known no closer than its bracket. So the interval of the mean over seeds
reaches from the lower end of Student's t interval of the brackets' lower ends to the upper end of
that of their upper ends. It covers the mean boundary of all seeds with 95 % or more, where
boundaries lie inside the grid. Below two seeds its ends are NaN.

How it can mislead: where hardly anything is learned, I - S is near 0 and crosses it by chance. The
counts of ``unfit`` in the cells show that. A boundary at the grid's end may mean that there is
none.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Int
from scipy.stats import spearmanr

from rb_interp.models.protocol import HookedModel
from rb_interp.probes._attention import EXCESS, attention
from rb_interp.probes.activations import captured
from rb_interp.runs import Run, Sweep
from rb_interp.runs.member_models import MemberModels, measure_members
from rb_interp.runs.results import StudyResult, arrays_over_seeds, frame, readings_table
from rb_interp.statistics.intervals import Interval, interval_or_nan, proportion_interval
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite import flow
from rb_interp.studies.composite import representation as vectors
from rb_interp.studies.composite.map import CompositeMapConfig, Place
from rb_interp.studies.composite.phase import (
    PHASE_VALUES,
    PHASES,
    UNFIT,
    Placed,
    early,
    memorising,
    phase_table,
    read_phase,
    two_phases,
)
from rb_interp.studies.composite.task import FITTED, CompositeDataset
from rb_interp.training.member_group import Member

FEWEST_GAMMAS, FROM, TO = 6, 0.5, 1.0
"""Gammas of claim C7."""
FEWEST_SETTINGS = 5
"""Learning rates of claim C10, and weight decays of C11. A map with fewer, as ``quick``, says
nothing of them."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Read phase and flow of the members of a finished run; docs/tables.md has the tables.

    Raises RunError where a checkpoint is missing or broken.
    """
    sweep = run.sweep()
    found = measure_members(run, partial(read_member, main=sweep), progress=progress)
    own = found.readings.loc[found.readings["sweep"] == ""]
    phases = flow.with_flows(phase_table(own), own)
    eigenvalues = vectors.eigenvalue_table(sweep.spectra(), sweep.sound_members)
    several = [*of_members(own, phases, sweep.curves()), *vectors.growth_order(eigenvalues)]
    several += [
        *vectors.complexity_contrast(own, sweep.members),
        *vectors.phase_by_complexity(own, phases),
    ]
    readings = readings_table(found.readings, placed(several, sweep.config.train.steps))
    cosines = {key: array for key, array in found.arrays.items() if "/grid/" in key}
    means = {name: array.astype("float32") for name, array in arrays_over_seeds(cosines).items()}
    tables = {**found.tables, "phases": phases, "eigenvalues": eigenvalues}
    return StudyResult(readings, tables, {**found.arrays, **means})


def of_members(readings: pd.DataFrame, phases: pd.DataFrame, curves: pd.DataFrame) -> Placed:
    """Readings of members by their phase and attention, most of them of no single gamma."""
    yield from flow.unseen_attention(readings)
    yield from chain(flow.flow_match(phases), two_phases(phases), memorising(phases, curves))


def placed(several: list[tuple[float, int, str, Reading]], step: int) -> list[dict]:
    """Rows of readings at the last step."""
    return [
        {"gamma": gamma, "seed": seed, "stage": "final", "step": step, "set": set, **row}
        for gamma, seed, set, reading in several
        for row in reading.rows()
    ]


def read_member(
    models: MemberModels, member: Member, main: Sweep
) -> Iterator[tuple[str, str, Reading]]:
    """Every reading of a member at its last step; of the control its phase on rows of the main
    sweep."""
    models.load(member, "final")
    data, asked = models.sweep.dataset(member.seed), main.dataset(member.seed)
    if models.sweep.name != main.name:
        yield "final", "", read_phase(models.model, data, asked=asked, untrained=models.untrained)
    else:
        yield from (
            ("final", set, reading)
            for set, reading in read_model(models.model, data, models.untrained)
        )


def read_model(
    model: HookedModel, data: CompositeDataset, untrained: HookedModel
) -> list[tuple[str, Reading]]:
    """Every reading of a model, with its set."""
    found = [("", read_phase(model, data, untrained=untrained))]
    unseen = data.rows("unseen")
    for set, rows in {
        "seen_test": flow.inferential_rows(data),
        "unseen": unseen[early(data, unseen)],
    }.items():
        found += [(set, reading) for reading in read_attention(model, data, rows, untrained)]
    if model.cfg.n_layers == flow.LAYERS:
        told = [
            read(model, data, untrained=untrained)
            for read in (flow.read_interchange, flow.read_knock_out)
        ]
        told += vectors.read_shares(model, data, untrained=untrained)
        found += [("seen_test", reading) for reading in told]
        grid = vectors.read_grid(model, data, untrained=untrained) if vectors.has_grid(data) else ()
        found += [("grid", reading) for reading in grid]
    return found + [("", reading) for reading in vectors.read_complexity(model, data, untrained)]


def read_attention(
    model: HookedModel,
    data: CompositeDataset,
    rows: Int[np.ndarray, " row"],
    untrained: HookedModel,
) -> list[Reading]:
    """Attention between roles of every head, layer by layer, with ``last_to_anchors``, the sum over
    both anchors."""
    inputs, layers = flow.one_role_each(data.inputs(rows)), range(model.cfg.n_layers)
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in layers]
    now, before = (captured(one, inputs.tokens, hooks) for one in (model, untrained))
    found = []
    for layer in layers:
        for head in range(model.cfg.n_heads):
            where = {"query": flow.ROLES, "to": flow.ROLES, "layer": layer, "head": head}
            read = attention(now, inputs, **where, untrained=before, n_null=0)
            values, start = (
                {name: value for name, value in both.items() if not name.endswith(EXCESS)}
                | {"last_to_anchors": both["last_to_a1"] + both["last_to_a2"]}
                for both in (read.values, read.untrained)
            )
            found.append(Reading("attention_between_roles", values, layer, head, start, n=read.n))
    return found


def measure_map(run: Run, progress: bool = True) -> StudyResult:
    """Read the phase of every member of a finished map; RunError where a checkpoint is missing or
    broken."""
    config = cast(CompositeMapConfig, run.config)
    main = next(sweep for sweep in run.sweeps.values() if sweep.config.task == config.task)

    def read(models: MemberModels, member: Member) -> Iterator[tuple[str, str, Reading]]:
        models.load(member, "final")
        asked = main.dataset(member.seed) if models.sweep.config.task != config.task else None
        data = models.sweep.dataset(member.seed)
        yield "final", "", read_phase(models.model, data, asked=asked, untrained=models.untrained)

    found = measure_members(run, read, progress=progress).readings
    known = phase_table(found).to_dict("records")
    for name, sweep in run.sweeps.items():
        known += [
            {"sweep": name, "gamma": one.gamma, "seed": one.seed, "phase": UNFIT}
            for one in sweep.diverged
        ]
    members = frame(known, f"sweep gamma seed phase:str {PHASE_VALUES}")
    tables = {
        "members": members,
        "cells": cells(members, config),
        "boundaries": boundaries(members, config),
    }
    return StudyResult(readings_table(found, map_readings(found, config)), tables)


def cells(members: pd.DataFrame, config: CompositeMapConfig) -> pd.DataFrame:
    """Phases of the members of every cell: count, share and its Clopper-Pearson interval."""
    rows: list[dict[str, Any]] = []
    for place in config.places:
        here = at_place(members, place, config)
        for gamma in sorted(set(here["gamma"])):
            phases = here.loc[here["gamma"] == gamma, "phase"]
            for phase in PHASES:
                n, total = int((phases == phase).sum()), len(phases)
                share, low, high = proportion_interval(n, total)
                found = {"gamma": gamma, "phase": phase, "n": n, "total": total}
                rows.append({**place._asdict(), **found, "share": share, "low": low, "high": high})
    return frame(rows, "axis:str point gamma phase:str label:str sweep n total:int share low high")


def at_place(members: pd.DataFrame, place: Place, config: CompositeMapConfig) -> pd.DataFrame:
    """The members of a point of an axis."""
    wanted = members["sweep"] == place.sweep
    if place.axis == "rate":  # the preset's own rate is read off a sweep with more gammas
        wanted &= members["gamma"].isin(config.coarse_gammas)
    return members.loc[wanted]


def differences(members: pd.DataFrame) -> dict[float, float]:
    """Gamma -> I - S of the members of one seed and sweep; those that diverged are left out."""
    sound = members.dropna(subset=["I", "S"]).sort_values("gamma")
    return dict(zip(sound["gamma"], sound["I"] - sound["S"], strict=True))


def boundaries(members: pd.DataFrame, config: CompositeMapConfig) -> pd.DataFrame:
    """Boundary of every point that has two gammas or more, over seeds."""
    rows = []
    for place in config.places:
        by_seed = [differences(own) for _, own in at_place(members, place, config).groupby("seed")]
        found = [boundary(values) for values in by_seed if len(values) > 1]
        if found:
            mean, low, high = boundary_interval(found, sorted(set().union(*by_seed)))
            count = {"crossing": sum(one.crosses for one in found), "n": len(found)}
            rows.append({**place._asdict(), "gamma_star": mean, "low": low, "high": high, **count})
    return frame(rows, "axis:str point label:str sweep gamma_star low high crossing:int n:int")


class Boundary(NamedTuple):
    """Where I - S first crosses 0, the points of the grid around it, and whether it does so at
    all."""

    gamma: float
    low: float
    high: float
    crosses: bool


def boundary(difference: Mapping[float, float]) -> Boundary:
    """The boundary of one seed.

    Args:
        difference: gamma -> I - S. A value of exactly 0 lies on neither side.

    >>> boundary({0.5: -1.0, 0.6: -0.5, 0.7: 0.5}).gamma
    0.65
    >>> boundary({0.5: -1.0, 0.6: -0.5})
    Boundary(gamma=0.6, low=0.6, high=0.6, crosses=False)
    >>> boundary({0.5: 1.0, 0.6: 0.5}).gamma
    0.5
    """
    ends = sorted(difference)
    sided = [(gamma, difference[gamma]) for gamma in ends if difference[gamma]]
    for (low, before), (high, after) in pairwise(sided):
        if (before < 0) != (after < 0):
            found = low + (high - low) * before / (before - after)
            return Boundary(round(found, 12), low, high, True)
    end = ends[0] if sided and sided[0][1] > 0 else ends[-1]
    return Boundary(end, end, end, False)


def boundary_interval(found: Sequence[Boundary], grid: Sequence[float]) -> Interval:
    """Mean boundary over seeds with its 95 % interval, inside the grid; NaN throughout without
    seeds.

    >>> boundary_interval([Boundary(0.65, 0.6, 0.7, True)] * 8, [0.5, 0.6, 0.7, 0.8])
    Interval(estimate=0.65, low=0.6, high=0.7)
    """
    middle, low, high = (
        interval_or_nan([getattr(one, name) for one in found]) for name in ("gamma", "low", "high")
    )
    return Interval(
        middle.estimate,
        float(np.maximum(low.low, min(grid))),
        float(np.minimum(high.high, max(grid))),
    )


def order(values: Mapping[float, float]) -> float:
    """Spearman's correlation of places and values, in [-1, 1]; 0 where all values are equal, NaN
    below two places."""
    if len(values) < 2 or len({*values.values()}) == 1:
        return np.nan if len(values) < 2 else 0.0
    return float(cast(Any, spearmanr([*values], [*values.values()])).statistic)


def map_readings(readings: pd.DataFrame, config: CompositeMapConfig) -> pd.DataFrame:
    """What claims speak of, one number a seed, of trained members and beside it of untrained
    ones."""
    now, before, found = phase_table(readings), phase_table(readings, "untrained"), []
    for seed in sorted(set(now["seed"])):
        values, first = (
            _of_seed(table.loc[table["seed"] == seed], config) for table in (now, before)
        )
        for (sweep, quantity), value in values.items():
            untrained = {quantity: first.get((sweep, quantity), np.nan)}
            rows = placed(
                [(np.nan, seed, "", Reading("map", {quantity: value}, untrained=untrained))],
                config.train.steps,
            )
            found += [{**row, "sweep": sweep} for row in rows]
    return readings_table(found)


def _of_seed(members: pd.DataFrame, config: CompositeMapConfig) -> dict[tuple[str, str], float]:
    """(sweep, quantity) -> number of one seed; sweep "" for what compares several."""
    found: dict[tuple[str, str], float] = {}
    for place in config.places:
        if place.axis in ("depth", "gpt2"):
            own = members.loc[members["sweep"] == place.sweep]
            found |= {(place.sweep, name): value for name, value in _along_gamma(own).items()}
    for name, quantity, deep in (
        ("fit_rise", "gamma_fit", "depth_6"),
        ("distance", "gamma_star", "depth_4"),
    ):
        ends = [found[sweep, quantity] for sweep in (deep, "depth_2") if (sweep, quantity) in found]
        if len(ends) == 2:
            found["", name] = (
                round(ends[0] - ends[1], 9) if name == "fit_rise" else abs(ends[0] - ends[1])
            )
    for axis in ("rate", "decay"):
        sweeps = sorted(
            (place.point, place.sweep) for place in config.places if place.axis == f"unseen_{axis}"
        )
        own = {
            point: members.loc[members["sweep"] == sweep].to_dict("records")
            for point, sweep in sweeps
        }
        answered = {point: float(rows[0]["I"]) for point, rows in own.items() if rows}
        if len(answered) < FEWEST_SETTINGS:
            continue
        fitted = [
            point for point, rows in own.items() if rows and rows[0]["acc_seen_test"] >= FITTED
        ]
        gain = answered[fitted[-1]] - answered[min(answered)] if fitted else np.nan
        found |= {("", f"{axis}_order"): order(answered), ("", f"{axis}_gain"): gain}
    return found


def _along_gamma(members: pd.DataFrame) -> dict[str, float]:
    """What the members of one seed and sweep say along gamma."""
    along = differences(members)
    if len(along) < 2:
        return {}
    fitted = members.loc[members["acc_seen_test"] >= FITTED, "gamma"]
    upper = {gamma: value for gamma, value in along.items() if FROM <= gamma <= TO}
    at = boundary(along)
    return {
        **({"order": order(upper)} if len(upper) >= FEWEST_GAMMAS else {}),
        "gamma_fit": float(fitted.min()) if len(fitted) else np.nan,
        "unfit": float(len(members) - len(fitted)),
        "gamma_star": at.gamma,
        "crosses": float(at.crosses),
    }
