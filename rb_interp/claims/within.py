"""Verdicts within groups of seeds: the same rule, on the seeds of one group alone.

A study may group its seeds by an outcome, such as the circuit that a member learned. Where seeds differ in kind, a
verdict over all of them says how the kinds are mixed; a verdict within a group says what one kind does.

How it can mislead. The groups are themselves an outcome of the runs, and what names a group may be what a claim reads:
such a claim holds within the group by its definition. So verdicts within groups describe and do not test. Groups are
smaller than the run, and one with fewer than 8 seeds is never decided; its count of seeds and its median say what there
is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from rb_interp.claims.criterion import Claim
from rb_interp.claims.judging import judge
from rb_interp.claims.verdict import Standing, Verdicts
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.typed import typed


@typed
@dataclass(frozen=True)
class Grouping:
    """How a study groups its seeds, and what is read within the groups.

    Attributes:
        by: what tells groups apart, in words. groups: seed -> name of its group; a seed may be in none.
        claims: those that are judged within each group.
    """

    by: str
    groups: Mapping[int, str]
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Group:
    """One group of seeds and its verdicts.

    Attributes:
        name: of the group. seeds: in it, ascending. total: seeds in all groups together.
        share, low, high: of the group among these, with its Clopper-Pearson interval.
        verdicts: one a claim, by the seeds of this group alone.
    """

    name: str
    seeds: tuple[int, ...]
    total: int
    share: float
    low: float
    high: float
    verdicts: Verdicts


@typed
@dataclass(frozen=True)
class Within:
    """Verdicts within groups of seeds, the largest group first. ``by``: what tells groups apart, in words."""

    by: str
    groups: tuple[Group, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads."""
        groups = [{**asdict(group), "verdicts": group.verdicts.to_json()} for group in self.groups]
        return {"by": self.by, "groups": groups}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Within:
        """The verdicts that `to_json` wrote; raises KeyError or TypeError for other data."""
        made = [
            Group(**{**row, "seeds": tuple(row["seeds"]), "verdicts": Verdicts.from_json(row["verdicts"])})
            for row in data["groups"]
        ]
        return Within(data["by"], tuple(made))


@typed
def judge_within(
    readings: pd.DataFrame,
    grouping: Grouping,
    *,
    scale: str = "custom",
    standings: Mapping[str, Standing] = {},
    diverged: Collection[tuple[str, float, int]] = (),
) -> Within:
    """Judge the claims of a grouping on the seeds of each of its groups alone; arguments as of `judge`.

    >>> from rb_interp.claims import Condition, Term
    >>> place = {"gamma": 0.8, "stage": "final", "set": "", "probe": "p", "layer": None, "quantity": "q"}
    >>> rows = [{**place, "seed": seed, "value": seed % 2, "untrained": 0.0} for seed in range(16)]
    >>> claim = Claim("X", "It is 1.", "here", (Condition(Term("p", "q", 0.8, "final"), ">=", 1.0),))
    >>> groups = {seed: "odd" if seed % 2 else "even" for seed in range(16)}
    >>> within = judge_within(pd.DataFrame(rows), Grouping("parity", groups, (claim,)))
    >>> [(group.name, len(group.seeds), group.verdicts["X"].outcome) for group in within.groups]
    [('even', 8, 'FAILS'), ('odd', 8, 'HOLDS')]
    """
    sizes, made = Counter(grouping.groups.values()), []
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        seeds = tuple(sorted(seed for seed, group in grouping.groups.items() if group == name))
        verdicts = judge(
            readings.loc[readings["seed"].isin(seeds)],
            grouping.claims,
            scale=scale,
            standings=standings,
            diverged=[member for member in diverged if member[2] in seeds],
        )
        share = proportion_interval(len(seeds), sizes.total())
        made.append(Group(name, seeds, sizes.total(), *share, verdicts))
    return Within(grouping.by, tuple(made))
