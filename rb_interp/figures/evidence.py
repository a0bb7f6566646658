"""Everything that figures and report may look at: tables, arrays, verdicts and settings. No model,
no statistics."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.claims import CheckedCause, Verdicts, Within
from rb_interp.claims.claim import Claim, Condition, Term
from rb_interp.claims.samples import TermIndex, address
from rb_interp.errors import RbInterpError
from rb_interp.statistics.intervals import NO_INTERVAL, Interval, over_seeds

__all__ = ["Evidence", "MissingEvidenceError"]

ARRAY_KEY = re.compile(r"(.*?)(?:\.L(\d+))?(?:\.H(\d+))?/([^/]+)")
"""Place, layer, head and name of an array."""


class MissingEvidenceError(RbInterpError):
    """This run lacks something that a figure or a sentence needs; the message is a sentence for the
    reader."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The outcome of a run.

    A number is asked for by its `Term`, and so is an array, whose name stands as the term's
    quantity. A term finds the same rows here as where its claim is judged.

    Attributes:
        config: the study's configuration; of a single sweep, that sweep's configuration. scale: see
            `Run.scale`.
        curves, readings, summary, tables: by name, see docs/tables.md. keys: table -> columns that
            tell its rows apart.
        arrays: ``{gamma}/{seed}/{stage}/{set}/{probe}.L{layer}.H{head}/{array}`` -> array, without
            layer and head where the reading has none, ``{sweep}/`` in front where there are
            several; ``mean``, ``low`` and ``high`` in place of the seed where they were averaged.
        verdicts: one a claim. within: the same within groups of seeds, None where the study has
            none. checks: one a causal check. claims: the claims themselves, for their thresholds.
        meta: versions, host, command, created, expected_by_chance, calibration.
        requests: sweeps, stages and rates that were looked at, for `unreached`.
        name: of the sweep that this is the evidence of. whole: that of all sweeps; None if this is.
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
    requests: Any = field(default_factory=set)
    name: str = ""
    whole: Evidence | None = None

    @cached_property
    def _unreached_counts(self) -> pd.DataFrame:
        """Stage, rate, ``late`` and ``n``: how many members never came to a stage, for stages with
        such members."""
        columns = ["sweep", "stage", "gamma", "seed", "reached"]
        parts = [pd.DataFrame(columns=columns)]
        for table in (self.readings, *self.tables.values()):
            if len(table) and {*columns[1:]} <= {*table}:
                parts.append(pd.DataFrame(self._labelled(table)[columns]))
        members = pd.concat(parts[1:] or parts).drop_duplicates()
        members["late"] = 1 - members["reached"].astype(float)
        by_stage = members.groupby(["sweep", "stage", "gamma"], sort=False)["late"]
        counts = by_stage.agg(late="sum", n="size").astype(int).reset_index()
        return counts.query("late > 0")

    def unreached(self, places: Collection[tuple[str, str, float]] | None = None) -> str:
        """A sentence on members that never came to a stage, of some sweeps, stages and rates or all;
        "" without any."""
        counts = []
        for row in self._unreached_counts.to_dict("records"):
            sweep, stage, gamma = row["sweep"], row["stage"], float(row["gamma"])
            if places is None or (sweep, stage, gamma) in places:
                where = f"{sweep}, {stage}" if sweep else stage
                counts.append(f"{where} at γ = {gamma:g}: {row['late']} of {row['n']} members")
        text = "; ".join(counts)
        return f"Stage not reached, shown at the last step: {text}." if counts else ""

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
        """Seeds in the run, ascending; those of the configuration in a study without members."""
        return sorted(self.curves["seed"].astype(int).unique().tolist() or self.config.seeds)

    def sweep(self, name: str) -> Evidence:
        """The evidence of one sweep, as if it were alone; that itself for an empty name.

        Raises MissingEvidenceError if the run has no such sweep.
        """
        if name in ("", self.name):
            return self
        whole = self.whole or self
        if name not in whole.config.sweeps:
            raise MissingEvidenceError(f"This run has no sweep “{name}”.")
        if name not in whole._sweeps:
            prefix = f"{name}/"
            keys = [key for key in whole.arrays if key.startswith(prefix)]
            arrays = {key.removeprefix(prefix): whole.arrays[key] for key in keys}
            config = whole.config.sweeps[name]
            whole._sweeps[name] = replace(whole._of_sweep(name), config=config, arrays=arrays)
        return whole._sweeps[name]

    @property
    def main(self) -> Evidence:
        """The evidence of the main sweep, in a study that has others beside it."""
        return self._of_sweep("")

    def _of_sweep(self, name: str) -> Evidence:
        """The rows of one sweep alone, as in a study that has no other."""
        main_tables = {}
        for part in ("curves", "readings", "summary"):
            table = getattr(self, part)
            rows = table.query("sweep == @name")
            main_tables[part] = rows.assign(sweep="").reset_index(drop=True)
        tables = {}
        for key, table in self.tables.items():
            tables[key] = table.query("sweep == @name") if "sweep" in table else table
        return replace(self, **main_tables, tables=tables, name=name, whole=self)

    def _labelled(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table with the name of each row's sweep."""
        names = table["sweep"].replace("", self.name) if "sweep" in table else self.name
        return table.assign(sweep=names)

    @cached_property
    def _sweeps(self) -> dict[str, Evidence]:
        return {}

    def condition(self, claim: str, number: int = 0) -> Condition:
        """One condition of a claim, for its threshold; MissingEvidenceError where no such claim is
        judged here."""
        for candidate in self.claims:
            if candidate.id == claim:
                return candidate.conditions[number]
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
        base = name.removesuffix("_summary")
        has_seeds = "seed" in self.keys.get(base, "").split()
        if name not in self.tables and base != name and has_seeds:
            quantity = where.pop("quantity", None)
            rows = self.table(base, **where)
            keys = self.keys[base].split()
            numbers = rows.select_dtypes("number").columns.difference(keys, sort=False).tolist()
            keys.remove("seed")
            return over_seeds(rows, keys, [quantity] if quantity else numbers)
        if name not in self.tables:
            raise MissingEvidenceError(f"This run has no table “{name}”.")
        rows = self.tables[name]
        if rows.empty:
            raise MissingEvidenceError(f"This run has no rows in the table “{name}”.")
        for column, value in where.items():
            equal = np.isclose(rows[column], value) if column == "gamma" else rows[column] == value
            rows = rows.loc[equal]
        if {"stage", "gamma", "reached"} <= {*rows}:
            places = self._labelled(rows)[["sweep", "stage", "gamma"]].astype({"gamma": float})
            self.requests.update(places.itertuples(index=False, name=None))
        if rows.empty:
            filters = ", ".join(f"{column} = {value}" for column, value in where.items())
            raise MissingEvidenceError(f"The table “{name}” has no row with {filters}.")
        return rows

    def records(self, name: str, **where: Any) -> list[dict[Any, Any]]:
        """Those rows of a further table as dictionaries; none where the run lacks them."""
        try:
            return self.table(name, **where).to_dict("records")
        except MissingEvidenceError:
            return []

    def require(self, gamma: float) -> None:
        """Raise MissingEvidenceError where no member of this run has the given gamma."""
        if gamma not in self.gammas:
            present = ", ".join(f"{g:g}" for g in self.gammas) or "nothing"
            absent = f"This run has no member at γ\u00a0=\u00a0{gamma:g}, which this would show"
            raise MissingEvidenceError(f"{absent}; it has γ\u00a0=\u00a0{present}.")

    @cached_property
    def _indices(self) -> dict[str, TermIndex]:
        return {"readings": TermIndex(self.readings), "summary": TermIndex(self.summary)}

    def _rows(self, table: str, term: Term) -> pd.DataFrame:
        """Rows of ``readings`` or ``summary`` of a term.

        Raises MissingEvidenceError if the term fits several layers or heads: a claim takes no
        number of these either.
        """
        evidence = self.sweep(term.sweep)
        index = evidence._indices[table]
        numbers = index.rows(replace(term, sweep=""))
        rows = getattr(evidence, table).iloc[numbers]
        if len(rows):
            evidence._ask(term)
        if index.n_sites(numbers) > 1:
            raise MissingEvidenceError(
                f"Several layers or heads have a reading of {address(term)}; no claim takes one."
            )
        return rows

    def _ask(self, term: Term) -> None:
        """Note which stage was looked at, and raise MissingEvidenceError without such members."""
        if term.gamma is not None:
            self.require(term.gamma)
            self.requests.add((self.name, term.stage, float(term.gamma)))

    def rows(self, term: Term) -> pd.DataFrame:
        """Readings of a term, one row a seed, ascending; MissingEvidenceError if there are none."""
        if term.gamma is not None:
            self.sweep(term.sweep).require(term.gamma)
        rows = self._rows("readings", term)
        if rows.empty:
            raise MissingEvidenceError(f"This run has no reading of {address(term)}.")
        return rows.sort_values("seed", kind="stable")

    def values(self, term: Term, column: str = "value") -> pd.Series:
        """One number per seed (index: seed, ascending), without NaN.

        Raises MissingEvidenceError if there is none.
        """
        rows = self.rows(term)
        numbers = pd.Series(rows[column].to_numpy(float), index=rows["seed"]).dropna()
        if numbers.empty:
            raise MissingEvidenceError(f"This run has no reading of {address(term)}.")
        return numbers

    def value(self, term: Term, seed: int) -> float:
        """One member's number; NaN if it was not read."""
        rows = self._rows("readings", term)
        numbers = rows.query("seed == @seed")["value"]
        return float(numbers.iloc[0]) if len(numbers) else float("nan")

    def interval(self, term: Term) -> Interval:
        """Mean over seeds of a reading with its 95 % interval; NaN if it was not read."""
        return self._over_seeds(term, "mean", "low", "high")

    def spread(self, term: Term) -> Interval:
        """Median over seeds of a reading with the smallest and the largest; NaN if not read."""
        return self._over_seeds(term, "median", "lowest", "highest")

    def untrained(self, term: Term) -> float:
        """Mean over seeds of the untrained models' value; NaN if none was read."""
        return self._over_seeds(term, "untrained", "untrained", "untrained").estimate

    def _over_seeds(self, term: Term, *columns: str) -> Interval:
        rows = self._rows("summary", term)
        return Interval(*rows[[*columns]].iloc[0].astype(float)) if len(rows) else NO_INTERVAL

    def array(self, term: Term) -> dict[int, np.ndarray]:
        """Seed -> array, seeds ascending; MissingEvidenceError if no seed has it."""
        evidence = self.sweep(term.sweep)
        evidence._ask(term)
        arrays = {}
        for seed in evidence.seeds:
            array = evidence._array(term, seed)
            if array is not None:
                arrays[seed] = np.asarray(array)
        if not arrays:
            raise MissingEvidenceError(f"No array {address(term)}.")
        return arrays

    def _array(self, term: Term, member: int | str) -> np.ndarray | None:
        """The array of a member, or of the mean over seeds; None where none or several fit.

        Runs that were measured before keys had layer and head have those of the only layer read.
        """
        prefix = (term.gamma, member, term.stage, term.set, term.probe)
        candidates = self._array_keys.get(("/".join(map(str, prefix)), term.quantity), ())
        keys = []
        for layer, head, key in candidates:
            if layer is None and term.layer is not None:
                rows = self.readings.query("probe == @term.probe and stage == @term.stage")
                fits = set(rows["layer"].dropna()) <= {term.layer}
            else:
                fits = term.layer in (None, layer) and term.head in (None, head)
            if fits:
                keys.append(key)
        return self.arrays[keys[0]] if len(keys) == 1 else None

    @cached_property
    def _array_keys(self) -> dict[tuple[str, str], list[tuple[int | None, int | None, str]]]:
        """Prefix and name of an array -> layer, head and key of each array that has them."""
        keys: dict[tuple[str, str], list[tuple[int | None, int | None, str]]] = {}
        for key in self.arrays:
            parts = ARRAY_KEY.fullmatch(key)
            if parts:
                prefix, layer, head, name = parts.groups()
                site = (int(layer) if layer else None, int(head) if head else None, key)
                keys.setdefault((prefix, name), []).append(site)
        return keys

    def first(self, term: Term) -> tuple[int, np.ndarray]:
        """The array that figures of a single member show, with its seed.

        It is that of the lowest seed whose circuit has a name, or of the lowest of all.
        """
        arrays = self.array(term)
        members = self.records("circuits", gamma=term.gamma)
        named_seeds = {
            member["seed"] for member in members if member["cause"] not in ("none", "mixed")
        }
        seed = min(arrays, key=lambda seed: (seed not in named_seeds, seed))
        return seed, arrays[seed]

    def mean_array(self, term: Term) -> np.ndarray:
        """Mean over seeds of an array; MissingEvidenceError if the run has none."""
        evidence = self.sweep(term.sweep)
        evidence._ask(term)
        array = evidence._array(term, "mean")
        if array is None:
            raise MissingEvidenceError(f"No mean over seeds of {address(term)}.")
        return np.asarray(array)

    def step(self, gamma: float, seed: int, stage: str) -> int | None:
        """Training step of a stage, or None where no reading tells it."""
        rows = self.readings.query("gamma == @gamma and seed == @seed and stage == @stage")
        steps = rows["step"].dropna()
        return int(steps.iloc[0]) if len(steps) else None
