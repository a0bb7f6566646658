"""The numbers that a claim speaks of, found in a table of readings by their address, a `Term`.

Figures and pages find their numbers by the same rows, so they show what the claim was judged on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Int

from rb_interp.claims.claim import Condition, Term
from rb_interp.statistics.intervals import paired_differences

SeedValues = dict[int, float]
"""A number for each seed, seeds ascending."""
NUMBERS = ("gamma", "layer", "value", "untrained")
COLUMNS = (*NUMBERS, "seed", "stage", "set", "probe", "quantity")
"""Columns of the readings that claims need."""


class TermIndex:
    """The rows of readings, or of their summary over seeds, by term.

    They are grouped once by probe and quantity, since looking each term up anew is slow. A table
    without the column ``sweep`` is of the main sweep; without ``head`` no row is tied to one.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self._groups = table.groupby(["probe", "quantity"], sort=False).indices
        names = [name for name in ("sweep", "stage", "set") if name in table]
        self._names = {name: table[name].to_numpy() for name in names}
        places = [name for name in ("gamma", "layer", "head") if name in table]
        self._numbers = {name: table[name].astype(float).to_numpy() for name in places}

    def rows(self, term: Term) -> Int[np.ndarray, " row"]:
        """Row numbers in the order of the table, of every layer or head that the term leaves open."""
        rows = self._groups.get((term.probe, term.quantity), np.array([], dtype=int))
        gammas = self._numbers["gamma"][rows]
        fits = np.isnan(gammas) if term.gamma is None else np.isclose(gammas, term.gamma)
        for column, names in self._names.items():
            fits &= names[rows] == getattr(term, column)
        for column in ("layer", "head"):
            target = getattr(term, column)
            if target is not None and column in self._numbers:
                fits &= self._numbers[column][rows] == target
        return rows[fits]

    def n_sites(self, rows: Int[np.ndarray, " row"]) -> int:
        """How many pairs of a layer and a head rows are of."""
        sites = [self._numbers[name][rows] for name in ("layer", "head") if name in self._numbers]
        return len(np.unique(np.nan_to_num(sites, nan=-1), axis=1).T)


class Sample(NamedTuple):
    """The finite values of one term by seed, and the untrained models' values.

    ``problem`` says what is wrong; ``unreached`` are the seeds whose member never came to the stage.
    """

    values: SeedValues
    untrained: SeedValues
    problem: str
    unreached: frozenset[int] = frozenset()


class ConditionSample(NamedTuple):
    """The statistic of one condition by seed, in trained and in untrained models.

    ``samples`` are those of its terms; ``ends`` the ends of the interval that a number has itself.
    """

    condition: Condition
    values: SeedValues
    untrained: SeedValues
    samples: list[Sample]
    ends: tuple[SeedValues, ...]

    @property
    def problem(self) -> str:
        """What is wrong with its terms."""
        return joined_text(sample.problem for sample in self.samples)

    def among(self, seeds: Collection[int]) -> ConditionSample:
        """The same of some seeds alone."""
        values = {seed: value for seed, value in self.values.items() if seed in seeds}
        untrained = {seed: value for seed, value in self.untrained.items() if seed in seeds}
        return self._replace(values=values, untrained=untrained)


class ReadingsTable:
    """Readings from which terms and conditions take their samples."""

    def __init__(self, readings: pd.DataFrame) -> None:
        self._index = TermIndex(readings)
        self._seeds = readings["seed"].to_numpy()
        self._values = readings["value"].astype(float).to_numpy()
        self._untrained = readings["untrained"].astype(float).to_numpy()
        self._reached = np.ones(len(readings), dtype=bool)
        if "reached" in readings:
            self._reached = readings["reached"].astype(bool).to_numpy()

    def sample(self, term: Term) -> Sample:
        """The sample of one term; a seed with several readings has no value."""
        rows = self._index.rows(term)
        if not len(rows):
            return Sample({}, {}, f"no reading of {address(term)}")
        rows = rows[np.argsort(self._seeds[rows], kind="stable")]
        seeds = self._seeds[rows]
        if len(set(seeds)) < len(rows):
            name = f"{term.probe}/{term.quantity}"
            return Sample({}, {}, f"several readings of {name} per seed (heads?), one is needed")
        finite = np.isfinite(self._values[rows])
        values = _by_seed(seeds[finite], self._values[rows][finite])
        untrained = _by_seed(seeds[finite], self._untrained[rows][finite])
        problem = ""
        if n_lost := len(rows) - int(finite.sum()):
            alone = term.gamma is None and len(rows) == 1
            seeds_text = "" if alone else f"{n_lost} of {len(rows)} seeds have "
            problem = f"{seeds_text}no finite {term.quantity}"
        unreached = frozenset(seeds[~self._reached[rows]].tolist())
        return Sample(values, untrained, problem, unreached)

    def condition_sample(self, condition: Condition, unit: str) -> ConditionSample:
        """The sample of a condition; for the unit ``interval`` with the ends of each number's."""
        first = self.sample(condition.of)
        samples = [first]
        values = first.values
        untrained = first.untrained
        if condition.minus:
            second = self.sample(condition.minus)
            samples.append(second)
            values = paired_differences(first.values, second.values)
            untrained = paired_differences(first.untrained, second.untrained)
        finite = {s: x for s, x in untrained.items() if s in values and np.isfinite(x)}
        ends = []
        for end in ("low", "high") if unit == "interval" else ():
            term = replace(condition.of, quantity=f"{condition.of.quantity}:{end}")
            ends.append(self.sample(term).values)
        return ConditionSample(condition, values, finite, samples, tuple(ends))


def address(term: Term) -> str:
    """Where a term is read, as messages say it.

    >>> address(Term("attention_by_role", "key", 0.8, "final", "mem", layer=1))
    "attention_by_role/key at gamma 0.8, stage 'final', set 'mem', L1"
    """
    parts = [f"{term.probe}/{term.quantity} at {term.gamma_text}"]
    for column in ("sweep", "stage", "set"):
        if name := getattr(term, column):
            parts.append(f"{column} '{name}'")
    if term.layer is not None:
        parts.append(f"L{term.layer}")
    if term.head is not None:
        parts.append(f"head {term.head}")
    return ", ".join(parts)


def joined_text(parts: Iterable[str]) -> str:
    """Sentences in their order, each once, empty ones left out."""
    return "; ".join(dict.fromkeys(filter(None, parts)))


def _by_seed(seeds: np.ndarray, values: np.ndarray) -> SeedValues:
    return {int(seed): float(value) for seed, value in zip(seeds, values, strict=True)}
