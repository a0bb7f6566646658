"""Everything that figures and report may look at: tables, arrays, claims and settings, no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.errors import RbInterpError
from rb_interp.tasks import AnchorDataset, AnchorTask

LARGE, MIDDLE, SMALL = 0.3, 0.5, 0.8
"""The initialisation rates that the paper's claims are about (a larger rate is a smaller initialisation)."""


TABLES = {
    "effects": "effects of interventions",
    "ablations": "ablations",
    "patching": "patched activations",
    "events": "events along training",
    "dynamics": "readings along training",
    "drift": "predicted and measured drifts of embeddings",
    "agreement": "where theory and measurement part",
    "value_flow": "predicted and measured changes of W_V",
    "inner_products": "inner products beside Eq. 13",
    "exponents": "exponents of Eq. 13",
    "lemma_1": "attention at initialisation",
    "label_distributions": "label distributions",
    "in_range": "probability inside the label ranges",
    "outputs": "output distributions",
    "skills": "accuracies on held-out PrOntoQA",
    "tokens": "tokens typical of each corpus",
    "similarity": "cosines of token embeddings along training",
}
"""Tables beyond curves and readings, in words. Runs that were probed by an earlier version have none of them."""


class MissingEvidenceError(RbInterpError):
    """A figure needs something that this run does not have; the message is a sentence for its reader."""


@dataclass(frozen=True)
class Evidence:
    """The outcome of a study.

    Attributes:
        config: the whole configuration as a plain nested dict (it becomes the TOML of the report).
        tier: ``smoke``, ``quick`` or ``paper``.
        curves: gamma, seed, step, set, loss, accuracy.
        readings: gamma, seed, stage, step, rows, probe, layer, head, quantity, value, twin, null, null_mean, ...
        circuits: gamma, seed, circuit, and the numbers it was derived from.
        arrays: ``{gamma}/{seed}/{stage}/{rows}/{probe}/{array}`` -> array.
        claims: the objects of claims.json.
        sample: rows for the figure of sample sequences, or the task to draw them from; None for a study of language.
        meta: all optional: versions (dict), wall_seconds, host, command, circuit_thresholds (name -> rule in words),
            expected_holds_by_chance, calibration (``family``, and ``rates``: rows of its table of error rates), text
            (what a study of language has read; see figures/language_evidence.py).
        tables: causal evidence, or theory beside measurement, by name (see TABLES); an absent one counts as empty.
        causes: the objects of causes.json, one for each mechanism claim that an intervention can refute.
        study: ``anchor``, ``emb-mlp``, ``labels`` or ``language``.
        parts: the parts of a study of several, each with what its own run shows; curves, readings and tables of the
            study name theirs in a column ``part``.
    """

    config: Mapping[str, Any]
    tier: str
    curves: pd.DataFrame
    readings: pd.DataFrame
    circuits: pd.DataFrame
    arrays: Mapping[str, np.ndarray]
    claims: Sequence[Mapping[str, Any]]
    sample: AnchorDataset | AnchorTask | None
    meta: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    causes: Sequence[Mapping[str, Any]] = ()
    study: str = "anchor"
    parts: Mapping[str, Evidence] = field(default_factory=dict)

    @property
    def task(self) -> AnchorTask:
        """The task that the members were trained on. Raises MissingEvidenceError for a study of language."""
        if self.sample is None:
            raise MissingEvidenceError("This study has no anchor task.")
        return self.sample if isinstance(self.sample, AnchorTask) else self.sample.task

    @cached_property
    def gammas(self) -> list[float]:
        """Initialisation rates in the run, ascending."""
        return sorted(self.curves["gamma"].astype(float).unique().tolist())

    @cached_property
    def seeds(self) -> list[int]:
        """Seeds in the run, ascending."""
        return sorted(self.curves["seed"].astype(int).unique().tolist())

    @cached_property
    def _places(self) -> dict[Any, np.ndarray]:
        """Row numbers of the readings by probe, quantity, gamma, stage and rows; looking each up anew is slow."""
        table = self.readings.assign(rows=self.readings["rows"].fillna(""), gamma=self.readings["gamma"].astype(float))
        return dict(table.groupby(["probe", "quantity", "gamma", "stage", "rows"]).indices)

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables of TABLES; MissingEvidenceError says what makes it where it is absent or empty."""
        found = self.tables.get(name)
        if found is None or found.empty:
            raise MissingEvidenceError(f"This run has no table of {TABLES[name]}; “rb-interp probe RUN” makes it.")
        return found

    def effects(self, intervention: str, quantity: str, gamma: float, *, stage: str, rows: str) -> pd.DataFrame:
        """Effect, placebo and difference of an intervention by seed (index, ascending), seeds without effect left out.

        Raises MissingEvidenceError where there is none.
        """
        table = self.table("effects")
        wanted = {"intervention": intervention, "quantity": quantity, "stage": stage, "rows": rows}
        here = table.loc[np.isclose(table["gamma"].astype(float), gamma)]
        for column, value in wanted.items():
            here = here.loc[here[column] == value]
        found = here.drop_duplicates("seed").set_index("seed").sort_index()[["effect", "placebo", "difference"]]
        found = found.astype(float).dropna(subset="effect")
        if found.empty:
            raise MissingEvidenceError(f"No effect of {intervention} at γ = {gamma:g}, stage {stage}.")
        return found

    def lacks(self, gamma: float) -> str:
        """A sentence where no member of this run has the given gamma, else nothing."""
        if gamma in self.gammas:
            return ""
        there = ", ".join(f"{g:g}" for g in self.gammas) or "nothing"
        return (
            f"This run has no member at γ\u00a0=\u00a0{gamma:g}, which this would show; it has γ\u00a0=\u00a0{there}."
        )

    def require(self, gamma: float) -> None:
        """Raise MissingEvidenceError where no member of this run has the given gamma."""
        if self.lacks(gamma):
            raise MissingEvidenceError(self.lacks(gamma))

    def values(
        self,
        probe: str,
        quantity: str,
        gamma: float,
        *,
        stage: str = "final",
        rows: str = "",
        column: str = "value",
        deepest: bool = False,
    ) -> pd.Series:
        """One number per seed (index: seed, ascending), without NaN.

        Where several layers or heads were read: the first head of the first layer, or of the last one (``deepest``).

        Raises MissingEvidenceError where there is none.
        """
        self.require(gamma)
        places = self._places.get((probe, quantity, float(gamma), stage, rows), np.array([], dtype=int))
        here = self.readings.iloc[places].sort_values("layer", ascending=not deepest, kind="stable")
        found = here.drop_duplicates("seed").set_index("seed").sort_index()[column].astype(float).dropna()
        if found.empty:
            raise MissingEvidenceError(f"No reading of {probe} ({quantity}) at γ = {gamma:g}, stage {stage}.")
        return found

    def value(self, probe: str, quantity: str, gamma: float, seed: int, *, stage: str, rows: str = "") -> float:
        """One member's number; NaN where it was not read."""
        try:
            found = self.values(probe, quantity, gamma, stage=stage, rows=rows)
        except MissingEvidenceError:
            return float("nan")
        return float(found.to_dict().get(seed, float("nan")))

    def twin(self, probe: str, quantity: str, gamma: float, *, stage: str = "final", rows: str = "") -> float:
        """Mean over seeds of the untrained twins' value; NaN where none was read."""
        try:
            return float(self.values(probe, quantity, gamma, stage=stage, rows=rows, column="twin").mean())
        except MissingEvidenceError:
            return float("nan")

    def array(self, probe: str, name: str, gamma: float, *, stage: str, rows: str = "") -> dict[int, np.ndarray]:
        """Seed -> array, seeds ascending.

        Raises MissingEvidenceError where no seed has it.
        """
        self.require(gamma)
        keys = {seed: f"{gamma}/{seed}/{stage}/{rows}/{probe}/{name}" for seed in self.seeds}
        found = {seed: np.asarray(self.arrays[key]) for seed, key in keys.items() if key in self.arrays}
        if not found:
            raise MissingEvidenceError(f"No array {name} of {probe} at γ = {gamma:g}, stage {stage}.")
        return found

    def first(self, probe: str, name: str, gamma: float, *, stage: str, rows: str = "") -> tuple[int, np.ndarray]:
        """The array of the lowest seed that has it, the one that figures of a single member show."""
        return next(iter(self.array(probe, name, gamma, stage=stage, rows=rows).items()))

    def step(self, gamma: float, seed: int, stage: str) -> int | None:
        """Training step of a stage, or None where no reading tells it."""
        table = self.readings
        rows = table[(table["gamma"] == gamma) & (table["seed"] == seed) & (table["stage"] == stage)]
        steps = [step for step in rows["step"].tolist() if step == step]
        return int(steps[0]) if steps else None
