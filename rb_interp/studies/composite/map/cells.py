"""Tables of the map: phases of every cell, and the boundary along every axis.

members       one row a member: its phase, I, S, both on early keys, and accuracies; a diverged member is unfit
cells         how many members of a cell are in each phase, with Clopper-Pearson intervals; never a mean accuracy
boundaries    gamma* of every point of an axis, with its interval over seeds; see ``boundary``
best_of_lr    the paper's statistic: of one seed, the highest I of any learning rate and the highest S of any, which are
              those of different models

The boundary between symmetric and inferential answers on a grid of gammas:

    gamma*      where I - S first crosses 0, linear between the points of the grid; if it never does, the grid's end on
                that side: the upper one where answers are symmetric throughout, the lower one where inferential
    bracket     the two points of the grid between which it does

One seed's boundary is known no closer than its bracket. So the interval of the mean over seeds reaches from the lower
end of Student's t interval of the brackets' lower ends to the upper end of that of their upper ends. It covers the mean
boundary of all seeds with 95 % or more, where boundaries lie inside the grid. Below two seeds its ends are NaN.

How it can mislead: where hardly anything is learned, I - S is near 0 and crosses it by chance. The counts of ``unfit``
in the cells show that. A boundary at the grid's end may mean that there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rb_interp.runs.measured import frame
from rb_interp.statistics.intervals import Interval, interval_or_nan, proportion_interval
from rb_interp.studies.composite.map.config import CompositeMapConfig, Place
from rb_interp.studies.composite.phase import PHASES


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


def best_of_lr(members: pd.DataFrame, config: CompositeMapConfig) -> pd.DataFrame:
    """The highest I and the highest S among the learning rates of the axis rate, of one gamma and seed; the lower rate
    of two that are equal. A diverged member has none."""
    places = sorted((place.point, place) for place in config.places if place.axis == "rate")
    found = pd.concat([at_place(members, place, config).assign(lr=lr) for lr, place in places])
    rows, sound = [], found.dropna(subset=["I", "S"])
    for gamma, seed in dict.fromkeys(zip(sound["gamma"], sound["seed"], strict=True)):
        own = sound.loc[(sound["gamma"] == gamma) & (sound["seed"] == seed)]
        best = {name: own.iloc[int(own[name].argmax())] for name in ("I", "S")}
        values = {"I": best["I"]["I"], "lr_I": best["I"]["lr"], "S": best["S"]["S"], "lr_S": best["S"]["lr"]}
        rows.append({"gamma": gamma, "seed": seed, "rates": len(own), **values})
    return frame(rows, "gamma seed rates:int I lr_I S lr_S")


class Boundary(NamedTuple):
    """Where I - S first crosses 0, the points of the grid around it, and whether it does so at all."""

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
    """Mean boundary over seeds with its 95 % interval, inside the grid; NaN throughout without seeds.

    >>> boundary_interval([Boundary(0.65, 0.6, 0.7, True)] * 8, [0.5, 0.6, 0.7, 0.8])
    Interval(estimate=0.65, low=0.6, high=0.7)
    """
    middle, low, high = (interval_or_nan([getattr(one, name) for one in found]) for name in ("gamma", "low", "high"))
    return Interval(middle.estimate, float(np.maximum(low.low, min(grid))), float(np.minimum(high.high, max(grid))))


def order(values: Mapping[float, float]) -> float:
    """Spearman's correlation of places and values, in [-1, 1]; 0 where all values are equal, NaN below two places."""
    from scipy.stats import rankdata

    if len(values) < 2:
        return float("nan")
    ranks = [rankdata(side) for side in (list(values), list(values.values()))]
    return 0.0 if np.ptp(ranks[1]) == 0 else float(np.corrcoef(*ranks)[0, 1])
