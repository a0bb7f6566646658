"""Everything that figures and report may look at: tables, arrays, verdicts and settings. No model,
no statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.claims import CheckedCause, Verdicts, Within
from rb_interp.claims.rule import Claim, Condition
from rb_interp.errors import RbInterpError
from rb_interp.statistics.formatting import interval_text
from rb_interp.statistics.intervals import Interval, over_seeds

__all__ = ["Evidence", "MissingEvidenceError"]

NOTHING = Interval(float("nan"), float("nan"), float("nan"))


class MissingEvidenceError(RbInterpError):
    """This run lacks something that a figure or a sentence needs; the message is a sentence for the
    reader."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The outcome of a run.

    Attributes:
        config: the study's configuration; of a single sweep, that sweep's configuration. scale: see
            `Run.scale`.
        curves, readings, summary, tables: by name, see docs/tables.md. keys: table -> columns that
            tell its rows apart.
        arrays: ``{gamma}/{seed}/{stage}/{set}/{probe}/{array}`` -> array, ``{sweep}/`` in front
            where there are several; ``mean``, ``low`` and ``high`` in place of the seed where they
            were averaged over seeds.
        verdicts: one a claim. within: the same within groups of seeds, None where the study has
            none. checks: one a causal check. claims: the claims themselves, for their thresholds.
        meta: versions, host, command, created, expected_by_chance, calibration.
        asked: stages and rates that were looked at, for `unreached`.
    """

    config: Any
    scale: str
    curves: pd.DataFrame
    readings: pd.DataFrame
    summary: pd.DataFrame
    arrays: Mapping[str, np.ndarray]
    verdicts: Verdicts
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    checks: Sequence[CheckedCause] = ()
    claims: Sequence[Claim] = ()
    within: Within | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    asked: Any = field(default_factory=set)

    @cached_property
    def _late(self) -> pd.DataFrame:
        """Stage, rate, ``late`` and ``n``: how many members never came to a stage, for stages with
        such members."""
        columns = ["sweep", "stage", "gamma", "seed", "reached"]
        every = [
            table for table in (self.readings, *self.tables.values()) if {*columns[1:]} <= {*table}
        ]
        parts = [
            table.assign(sweep=table.get("sweep", ""))[columns].drop_duplicates() for table in every
        ]
        of = pd.concat(
            [part for part in parts if len(part)] or [pd.DataFrame(columns=columns)]
        ).drop_duplicates()
        members = of.assign(late=1 - of["reached"].astype(float)).groupby(
            ["stage", "gamma"], sort=False
        )["late"]
        counts = members.agg(late="sum", n="size").astype(int).reset_index()
        return counts.loc[counts["late"] > 0]

    def unreached(self, places: Collection[tuple[str, float]] | None = None) -> str:
        """A sentence on members that never came to a stage, of some stages and rates or all; ""
        without any."""
        every: Any = self._late.itertuples()
        rows = [row for row in every if places is None or (row.stage, float(row.gamma)) in places]
        told = "; ".join(
            f"{row.stage} at γ = {row.gamma:g}: {row.late} of {row.n} members" for row in rows
        )
        return f"Never at the stage, so shown at the last step: {told}." if told else ""

    @property
    def task(self) -> Any:
        """The task of a study with a single sweep, or of this sweep."""
        return self.config.task

    @cached_property
    def gammas(self) -> list[float]:
        """Initialisation rates in the run, ascending."""
        return sorted(self.curves["gamma"].astype(float).unique().tolist())

    @property
    def shown_gammas(self) -> list[float]:
        """`gammas`, for a figure that needs one at least; MissingEvidenceError in a run without
        members."""
        if not self.gammas:
            raise MissingEvidenceError("This run has no members.")
        return self.gammas

    @cached_property
    def seeds(self) -> list[int]:
        """Seeds in the run, ascending."""
        return sorted(self.curves["seed"].astype(int).unique().tolist())

    def sweep(self, name: str) -> Evidence:
        """What one sweep of the run shows, as if it were alone; MissingEvidenceError where the run
        has none such."""
        if not name:
            return self
        if name not in self.config.sweeps:
            raise MissingEvidenceError(f"This run has no sweep “{name}”.")
        if name not in self._sweeps:
            prefix = f"{name}/"
            arrays = {
                k.removeprefix(prefix): a for k, a in self.arrays.items() if k.startswith(prefix)
            }
            self._sweeps[name] = replace(
                self, **self._rows_of(name), config=self.config.sweeps[name], arrays=arrays
            )
        return self._sweeps[name]

    @property
    def main(self) -> Evidence:
        """What the main sweep shows, of a study that has others beside it."""
        return replace(self, **self._rows_of(""))

    def _rows_of(self, sweep: str) -> dict[str, Any]:
        """The tables with the rows of one sweep alone, as in a study that has no other."""
        own = {part: getattr(self, part) for part in ("curves", "readings", "summary")}
        own = {part: table.loc[table["sweep"] == sweep] for part, table in own.items()}
        return {
            **{part: table.assign(sweep="").reset_index(drop=True) for part, table in own.items()},
            "tables": {
                t: d.loc[d["sweep"] == sweep] if "sweep" in d else d for t, d in self.tables.items()
            },
        }

    @cached_property
    def _sweeps(self) -> dict[str, Evidence]:
        return {}

    def condition(self, claim: str, number: int = 0) -> Condition:
        """One condition of a claim, for its threshold; MissingEvidenceError where no such claim is
        judged here."""
        for found in self.claims:
            if found.id == claim:
                return found.conditions[number]
        raise MissingEvidenceError(f"No claim {claim} is judged here.")

    def threshold(self, claim: str, number: int = 0) -> float:
        """Threshold of one condition of a claim."""
        return self.condition(claim, number).threshold

    def table(self, name: str, **where: Any) -> pd.DataFrame:
        """A further table, or its rows where columns have the given values; MissingEvidenceError if
        there are none.

        ``NAME_summary`` of a table whose keys have a seed is `over_seeds` of its other columns, or
        of ``quantity``.
        """
        found, base = self.tables.get(name), name.removesuffix("_summary")
        if found is None and base != name and "seed" in self.keys.get(base, "").split():
            quantity = where.pop("quantity", "")
            rows, keys = self.table(base, **where), self.keys[base].split()
            numbers = rows.select_dtypes("number").columns.difference(keys, sort=False).tolist()
            columns = [quantity] if quantity else numbers
            return over_seeds(rows, [key for key in keys if key != "seed"], columns)
        if found is None or found.empty:
            raise MissingEvidenceError(
                f"This run has no {'table' if found is None else 'rows in the table'} “{name}”."
            )
        for column, value in where.items():
            found = found.loc[
                np.isclose(found[column], value) if column == "gamma" else found[column] == value
            ]
        if {"stage", "gamma", "reached"} <= {*found}:
            self.asked.update(zip(found["stage"], found["gamma"].astype(float), strict=True))
        if found.empty:
            place = ", ".join(f"{column} = {value}" for column, value in where.items())
            raise MissingEvidenceError(f"The table “{name}” has no row with {place}.")
        return found

    def records(self, name: str, **where: Any) -> list[dict[Any, Any]]:
        """Those rows of a further table as dictionaries; none where the run lacks them."""
        try:
            return self.table(name, **where).to_dict("records")
        except MissingEvidenceError:
            return []

    def require(self, gamma: float) -> None:
        """Raise MissingEvidenceError where no member of this run has the given gamma."""
        if gamma not in self.gammas:
            there = ", ".join(f"{g:g}" for g in self.gammas) or "nothing"
            here = f"This run has no member at γ\u00a0=\u00a0{gamma:g}, which this would show"
            raise MissingEvidenceError(f"{here}; it has γ\u00a0=\u00a0{there}.")

    @cached_property
    def _places(self) -> dict[str, dict[Any, np.ndarray]]:
        """Row numbers of both tables by place. Looking each place up anew is slow."""
        tables = {"readings": self.readings, "summary": self.summary}
        by = ["probe", "quantity", "gamma", "stage", "set"]
        return {
            name: dict(t.assign(gamma=t["gamma"].astype(float)).groupby(by).indices)
            for name, t in tables.items()
        }

    def _rows(
        self,
        table: str,
        probe: str,
        quantity: str,
        gamma: float,
        stage: str = "final",
        set: str = "",
        deepest: bool = False,
    ) -> pd.DataFrame:
        """Rows of ``readings`` or ``summary`` at a place: lowest layer first, or highest
        (``deepest``)."""
        found = self._places[table].get(
            (probe, quantity, float(gamma), stage, set), np.array([], dtype=int)
        )
        if len(found):
            self.asked.add((stage, float(gamma)))
        rows = getattr(self, table).iloc[found]
        return rows.sort_values(["layer", "head"], ascending=[not deepest, True], kind="stable")

    def values(
        self,
        probe: str,
        quantity: str,
        gamma: float,
        *,
        stage: str = "final",
        column: str = "value",
        **where: Any,
    ) -> pd.Series:
        """One number per seed (index: seed, ascending), without NaN; MissingEvidenceError where
        there is none.

        Of several layers or heads: the first head of the lowest layer, or of the highest
        (``deepest``).
        """
        self.require(gamma)
        here = self._rows("readings", probe, quantity, gamma, stage, **where)
        found: Any = (
            here.drop_duplicates("seed")
            .set_index("seed")
            .sort_index()[column]
            .astype(float)
            .dropna()
        )
        if found.empty:
            raise MissingEvidenceError(
                f"No reading of {probe} ({quantity}) at γ = {gamma:g}, stage {stage}."
            )
        return found

    def _over_seeds(self, columns: Sequence[str], *place: Any, **where: Any) -> Interval:
        here = self._rows("summary", *place, **where)
        return Interval(*here[[*columns]].iloc[0].astype(float)) if len(here) else NOTHING

    def interval(self, probe: str, quantity: str, gamma: float, **where: Any) -> Interval:
        """Mean over seeds of a reading with its 95 % interval; NaN where it was not read; ``where``
        as of `values`."""
        return self._over_seeds(("mean", "low", "high"), probe, quantity, gamma, **where)

    def spread(self, probe: str, quantity: str, gamma: float, **where: Any) -> Interval:
        """Median over seeds of a reading with the smallest and the largest; NaN where it was not
        read."""
        return self._over_seeds(("median", "lowest", "highest"), probe, quantity, gamma, **where)

    def untrained(self, probe: str, quantity: str, gamma: float, **where: Any) -> float:
        """Mean over seeds of the untrained models' value; NaN where none was read."""
        return self._over_seeds(("untrained",) * 3, probe, quantity, gamma, **where).estimate

    def value(
        self, probe: str, quantity: str, gamma: float, seed: int, *, stage: str, set: str = ""
    ) -> float:
        """One member's number; NaN where it was not read."""
        try:
            found = self.values(probe, quantity, gamma, stage=stage, set=set)
        except MissingEvidenceError:
            return float("nan")
        return float(found.to_dict().get(seed, float("nan")))

    def array(
        self, probe: str, name: str, gamma: float, *, stage: str, set: str = ""
    ) -> dict[int, np.ndarray]:
        """Seed -> array, seeds ascending; MissingEvidenceError where no seed has it."""
        self.require(gamma)
        self.asked.add((stage, float(gamma)))
        keys = {seed: f"{gamma}/{seed}/{stage}/{set}/{probe}/{name}" for seed in self.seeds}
        found = {
            seed: np.asarray(self.arrays[key]) for seed, key in keys.items() if key in self.arrays
        }
        if not found:
            raise MissingEvidenceError(
                f"No array {name} of {probe} at γ = {gamma:g}, stage {stage}."
            )
        return found

    def first(
        self, probe: str, name: str, gamma: float, *, stage: str, set: str = ""
    ) -> tuple[int, np.ndarray]:
        """The array that figures of a single member show: of the lowest seed, if any whose circuit
        has a name."""
        found, members = (
            self.array(probe, name, gamma, stage=stage, set=set),
            self.records("circuits", gamma=gamma),
        )
        named = {member["seed"] for member in members if member["cause"] not in ("none", "mixed")}
        seed = min(found, key=lambda seed: (seed not in named, seed))
        return seed, found[seed]

    def mean_array(
        self, probe: str, name: str, gamma: float, *, stage: str, set: str = ""
    ) -> np.ndarray:
        """Mean over seeds of an array; MissingEvidenceError where the run was not measured for
        it."""
        self.require(gamma)
        self.asked.add((stage, float(gamma)))
        found = self.arrays.get(f"{gamma}/mean/{stage}/{set}/{probe}/{name}")
        if found is None:
            raise MissingEvidenceError(
                f"No mean over seeds of {name} of {probe} at γ = {gamma:g}, stage {stage}."
            )
        return np.asarray(found)

    def step(self, gamma: float, seed: int, stage: str) -> int | None:
        """Training step of a stage, or None where no reading tells it."""
        rows = self.readings.query("gamma == @gamma and seed == @seed and stage == @stage")
        steps = rows["step"].dropna()
        return int(steps.iloc[0]) if len(steps) else None


def effect_text(judged: Any) -> str:
    """Median and range of what was judged."""
    mean, low, high = (
        np.nan if end is None else end for end in (judged.effect, judged.low, judged.high)
    )
    return interval_text(mean, low, high)


def notes(verdicts: Verdicts) -> Iterator[str]:
    """What a reader must not overlook: verdicts by probes that mislead, of what was not learned, or
    met untrained."""
    found = {
        "Not calibrated, so nobody knows how often the probe misleads": [
            v.id for v in verdicts if v.calibrated is False and not v.withheld
        ],
        "Withheld, because the probe misleads too often on models whose mechanism is known": [
            v.id for v in verdicts if v.withheld and "the probe misleads" in v.reason
        ],
        "Not judged, because fewer than half of the seeds have learned the mapping": [
            v.id for v in verdicts if v.learned is False and v.outcome == "NOT JUDGED"
        ],
        "Already met by untrained models": [
            v.id for v in verdicts if v.met_at_initialisation and v.outcome == "HOLDS"
        ],
    }
    for v in verdicts:
        if v.first_seed and (v.n_decisive < v.n_seeds or not v.n_seeds):
            words = (
                f"Decided by seeds from {v.first_seed} on alone, since earlier seeds had been read"
            )
            found.setdefault(words, []).append(v.id)
    yield from (f"{words}: {', '.join(ids)}." for words, ids in found.items() if ids)
