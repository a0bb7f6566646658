"""Tables of the map: phases of every cell, and the boundary along every axis.

members       one row a member: its phase, I, S, both on early keys, and accuracies; a diverged member is unfit
cells         how many members of a cell are in each phase, with Clopper-Pearson intervals; never a mean accuracy
boundaries    gamma* of every point of an axis, with its interval over seeds; see ``boundary``
best_of_lr    the paper's statistic: of one seed, the highest I of any learning rate and the highest S of any, which are
              those of different models
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from rb_interp.runs.measured import frame
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.studies.composite.map.boundary import boundary, boundary_interval
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
