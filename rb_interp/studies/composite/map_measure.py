"""Measure the phase map: the phase of every member, and per seed what claims C7 to C12 compare.

    order        Spearman's correlation of gamma and I - S, with six gammas or more from .5 to 1.0
    gamma_fit    smallest gamma with seen_test >= .90; NaN if there is none
    unfit        how many sound members along gamma have seen_test < .90
    gamma_star, crosses     the boundary, and whether there is one inside the grid
    fit_rise     gamma_fit at depth 6 less that at depth 2
    distance     |gamma* at depth 4 - gamma* at depth 2|
    rate_order, decay_order     Spearman's correlation of the setting and I, of C10 and C11, with
                                five settings or more
    rate_gain, decay_gain       I at the highest setting that is fitted, less I at the lowest one

A number that a seed has no value of, such as the smallest fitted gamma if none is fitted, is NaN.

The boundary between symmetric and inferential answers on a grid of gammas:

    gamma*      where I - S first crosses 0, linear between the points of the grid; if it never
                does, the grid's end on that side: the upper one if answers are symmetric
                throughout, the lower one if inferential
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
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from rb_interp.runs import Run
from rb_interp.runs.measurement import MemberModels, measure_members
from rb_interp.runs.results import StudyResult, frame, readings_table
from rb_interp.statistics.intervals import Interval, interval_or_nan, proportion_interval
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.map import AxisPoint, CompositeMapConfig
from rb_interp.studies.composite.phase import (
    PHASE_VALUES,
    PHASES,
    UNFIT,
    phase_table,
    read_phase,
)
from rb_interp.studies.composite.task import FITTED
from rb_interp.training.member_group import Member

ORDER_GAMMAS = (0.5, 1.0)
"""Lowest and highest gamma of claim C7."""
MIN_GAMMAS = 6
"""Gammas that claim C7 needs."""
MIN_SETTINGS = 5
"""Learning rates that claim C10 needs, and weight decays that C11 needs.

A map with fewer, as ``quick``, has no reading of them.
"""


def measure_map(run: Run, progress: bool = True) -> StudyResult:
    """Read the phase of every member of a finished map.

    Raises RunError if a checkpoint is missing or broken.
    """
    config = cast(CompositeMapConfig, run.config)
    main = next(sweep for sweep in run.sweeps.values() if sweep.config.task == config.task)

    def read(models: MemberModels, member: Member) -> Iterator[tuple[str, str, Reading]]:
        models.load(member, "final")
        data = models.sweep.dataset(member.seed)
        unseen = None
        if models.sweep.config.task != config.task:
            unseen = main.dataset(member.seed)
        phase = read_phase(models.model, data, unseen_data=unseen, untrained=models.untrained)
        yield "final", "", phase

    readings = measure_members(run, read, progress=progress).readings
    rows = phase_table(readings).to_dict("records")
    for name, sweep in run.sweeps.items():
        for member in sweep.diverged:
            row = {"sweep": name, "gamma": member.gamma, "seed": member.seed, "phase": UNFIT}
            rows.append(row)
    members = frame(rows, f"sweep gamma seed phase:str {PHASE_VALUES}")
    tables = {
        "members": members,
        "cells": cells(members, config),
        "boundaries": boundaries(members, config),
    }
    return StudyResult(readings_table(readings, map_readings(readings, config)), tables)


def cells(members: pd.DataFrame, config: CompositeMapConfig) -> pd.DataFrame:
    """Phases of the members of every cell: count, share and its Clopper-Pearson interval."""
    rows = []
    for point in config.axis_points:
        at_point = members_at(point, members, config)
        for gamma in sorted(set(at_point["gamma"])):
            phases = list(at_point.query("gamma == @gamma")["phase"])
            total = len(phases)
            for phase in PHASES:
                n = phases.count(phase)
                row: dict[str, Any] = point._asdict()
                row |= {"gamma": gamma, "phase": phase, "n": n, "total": total}
                row |= proportion_interval(n, total)._asdict()
                rows.append(row)
    table = pd.DataFrame(rows).rename(columns={"estimate": "share"})
    return frame(table, "axis:str point gamma phase:str label:str sweep n total:int share low high")


def members_at(point: AxisPoint, members: pd.DataFrame, config: CompositeMapConfig) -> pd.DataFrame:
    """The members of a point of an axis."""
    at_point = members.query("sweep == @point.sweep")
    if point.axis == "rate":  # the preset's own rate is read off a sweep with more gammas
        at_point = at_point.loc[at_point["gamma"].isin(config.coarse_gammas)]
    return at_point


def differences(members: pd.DataFrame) -> dict[float, float]:
    """Gamma -> I - S of the members of one seed and sweep; those that diverged are left out."""
    sound = members.dropna(subset=["I", "S"]).sort_values("gamma")
    return dict(zip(sound["gamma"], sound["I"] - sound["S"], strict=True))


def boundaries(members: pd.DataFrame, config: CompositeMapConfig) -> pd.DataFrame:
    """Boundary of every point that has two gammas or more, over seeds."""
    rows = []
    for point in config.axis_points:
        gammas: set[float] = set()
        by_seed = []
        for _, seed_members in members_at(point, members, config).groupby("seed"):
            along = differences(seed_members)
            gammas.update(along)
            if len(along) > 1:
                by_seed.append(boundary(along))
        if by_seed:
            row: dict[str, Any] = point._asdict()
            row |= boundary_interval(by_seed, sorted(gammas))._asdict()
            row["crossing"] = sum(seed.crosses for seed in by_seed)
            row["n"] = len(by_seed)
            rows.append(row)
    table = pd.DataFrame(rows).rename(columns={"estimate": "gamma_star"})
    return frame(table, "axis:str point label:str sweep gamma_star low high crossing:int n:int")


class Boundary(NamedTuple):
    """A boundary between symmetric and inferential answers."""

    gamma: float
    """Where I - S first crosses 0."""
    low: float
    """The point of the grid below."""
    high: float
    """The point of the grid above."""
    crosses: bool
    """Whether it crosses 0 inside the grid."""


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
    gammas = sorted(difference)
    sided = [gamma for gamma in gammas if difference[gamma]]
    for low, high in pairwise(sided):
        before = difference[low]
        after = difference[high]
        if (before < 0) != (after < 0):
            crossing = low + (high - low) * before / (before - after)
            return Boundary(round(crossing, 12), low, high, True)
    inferential = bool(sided) and difference[sided[0]] > 0
    end = gammas[0] if inferential else gammas[-1]
    return Boundary(end, end, end, False)


def boundary_interval(by_seed: Sequence[Boundary], grid: Sequence[float]) -> Interval:
    """Mean boundary over seeds with its 95 % interval, inside the grid; NaN without seeds.

    >>> boundary_interval([Boundary(0.65, 0.6, 0.7, True)] * 8, [0.5, 0.6, 0.7, 0.8])
    Interval(estimate=0.65, low=0.6, high=0.7)
    """
    mean = interval_or_nan([seed.gamma for seed in by_seed]).estimate
    low = interval_or_nan([seed.low for seed in by_seed]).low
    high = interval_or_nan([seed.high for seed in by_seed]).high
    return Interval(mean, float(np.maximum(low, min(grid))), float(np.minimum(high, max(grid))))


def order(values: Mapping[float, float]) -> float:
    """Spearman's correlation of settings and values, in [-1, 1].

    It is 0 if all values are equal, NaN below two settings.
    """
    if len(values) < 2:
        return np.nan
    if len(set(values.values())) == 1:
        return 0.0
    return float(cast(Any, spearmanr(list(values), list(values.values()))).statistic)


def map_readings(readings: pd.DataFrame, config: CompositeMapConfig) -> pd.DataFrame:
    """Readings ``map``, one number a seed, of trained members and beside it of untrained ones."""
    now = phase_table(readings)
    before = phase_table(readings, "untrained")
    rows = []
    for seed in sorted(set(now["seed"])):
        values = seed_values(now.query("seed == @seed"), config)
        start = seed_values(before.query("seed == @seed"), config)
        for (sweep, quantity), value in values.items():
            untrained = {quantity: start.get((sweep, quantity), np.nan)}
            reading = Reading("map", {quantity: value}, untrained=untrained)
            columns = {"sweep": sweep, "gamma": np.nan, "seed": seed, "set": ""}
            rows += reading.rows(**columns, stage="final", step=config.train.steps)
    return readings_table(rows)


def seed_values(members: pd.DataFrame, config: CompositeMapConfig) -> dict[tuple[str, str], float]:
    """(sweep, quantity) -> number of one seed; sweep "" for a comparison of several."""
    values: dict[tuple[str, str], float] = {}
    known = set()
    for point in config.axis_points:
        if point.axis not in ("depth", "gpt2"):
            continue
        along = along_gamma(members.query("sweep == @point.sweep"))
        if along:
            known.add(point.sweep)
        for name, value in along.items():
            values[point.sweep, name] = value
    if {"depth_2", "depth_6"} <= known:
        rise = values["depth_6", "gamma_fit"] - values["depth_2", "gamma_fit"]
        values["", "fit_rise"] = round(rise, 9)
    if {"depth_2", "depth_4"} <= known:
        distance = values["depth_4", "gamma_star"] - values["depth_2", "gamma_star"]
        values["", "distance"] = abs(distance)
    for axis in ("rate", "decay"):
        points = [point for point in config.axis_points if point.axis == f"unseen_{axis}"]
        for name, value in along_setting(members, points).items():
            values["", f"{axis}_{name}"] = value
    return values


def along_gamma(members: pd.DataFrame) -> dict[str, float]:
    """Quantities of the members of one seed and sweep along gamma; none below two gammas."""
    along = differences(members)
    if len(along) < 2:
        return {}
    values = {}
    low, high = ORDER_GAMMAS
    upper = {gamma: value for gamma, value in along.items() if low <= gamma <= high}
    if len(upper) >= MIN_GAMMAS:
        values["order"] = order(upper)
    fitted = list(members.query("acc_seen_test >= @FITTED")["gamma"])
    values["gamma_fit"] = float(min(fitted, default=np.nan))
    values["unfit"] = float(len(members) - len(fitted))
    crossing = boundary(along)
    values["gamma_star"] = crossing.gamma
    values["crosses"] = float(crossing.crosses)
    return values


def along_setting(members: pd.DataFrame, points: Sequence[AxisPoint]) -> dict[str, float]:
    """``order`` and ``gain`` of one seed along a setting; none below MIN_SETTINGS settings.

    Each point has one member of the seed, at most.
    """
    inferential = {}
    fitted = []
    for point in sorted(points, key=lambda point: point.point):
        for member in members.query("sweep == @point.sweep").to_dict("records"):
            inferential[point.point] = float(member["I"])
            if member["acc_seen_test"] >= FITTED:
                fitted.append(point.point)
    if len(inferential) < MIN_SETTINGS:
        return {}
    gain = np.nan
    if fitted:
        gain = inferential[fitted[-1]] - inferential[min(inferential)]
    return {"order": order(inferential), "gain": gain}
