"""Run every probe on every member at every stage, and collect the tables that claims and figures read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from rb_interp.errors import RunError
from rb_interp.probes import (
    Reading,
    carrying,
    composition,
    geometry,
    lemma_1,
    routing,
    uniformity,
    value_alignment,
)
from rb_interp.probes.circuit import circuit_table
from rb_interp.probes.learning_order import label_entropy, learning_order_table
from rb_interp.study.config import StudyConfig
from rb_interp.study.models import MemberModels
from rb_interp.study.run import MATCHED_GAMMA, Run
from rb_interp.tasks import SETS, AnchorDataset
from rb_interp.training.member_group import Member

REASONING, MEMORY, WEIGHTS = "rsn_train", "mem", ""

Step = tuple[Callable[..., Reading], str, dict[str, int]]
"""Probe, the set whose rows it sees ("" for weights alone), and where it looks."""


def plan(n_layers: int, n_heads: int) -> list[Step]:
    """What is read: every head of the first layer, of the second, and of the last.

    >>> len(plan(n_layers=2, n_heads=1)), len(plan(n_layers=3, n_heads=2))
    (7, 16)
    """
    places = [(uniformity, REASONING, 0), (carrying, REASONING, 0), (value_alignment, WEIGHTS, 0)]
    places += [(routing, rows, layer) for layer in sorted({1, n_layers - 1}) for rows in (REASONING, MEMORY)]
    steps = [(probe, rows, {"layer": layer, "head": h}) for probe, rows, layer in places for h in range(n_heads)]
    return [*steps, (composition, REASONING, {}), (geometry, WEIGHTS, {})]


@dataclass(frozen=True)
class Measured:
    """What probing a run gives; the column formats are in docs/tables.md.

    Attributes:
        readings: one row per member, stage, probe and quantity. circuits: one row per member.
        arrays: ``{gamma}/{seed}/{stage}/{rows}/{probe}/{array}`` -> array.
    """

    readings: pd.DataFrame
    circuits: pd.DataFrame
    arrays: dict[str, np.ndarray]


def measure(run: Run, progress: bool = True) -> Measured:
    """Probe all members of a finished run at init, half, matched and final.

    Raises RunError where a checkpoint that a stage needs is missing or broken.
    """
    config, tables, arrays = run.config, [], {}
    data = {seed: config.task.dataset(seed) for seed in config.seeds}
    probes = _MemberProbes(run)
    for member in tqdm(run.members, disable=not progress, unit="member", desc="probing"):
        for stage, step, rows, reading in probes.read(member, data[member.seed]):
            place = {"gamma": member.gamma, "seed": member.seed, "stage": stage, "step": step, "rows": rows}
            tables += [{**place, **row} for row in reading.table()]
            prefix = f"{member.gamma}/{member.seed}/{stage}/{rows}/{reading.probe}{_place(reading)}"
            arrays |= {f"{prefix}/{name}": np.asarray(array) for name, array in reading.arrays.items()}
    for gamma in config.gammas:
        tables += lemma_1(config.model, config.task, gamma, n_init=config.n_init).table()
    entropies = {(s, kind): label_entropy(d.labels[d.rows(kind)]) for s, d in data.items() for kind in SETS}
    order = learning_order_table(run.curves(), config.task.d_vocab, entropies)
    readings = joined(typed(pd.DataFrame(tables)), typed(order))
    return Measured(readings, circuit_table(readings), arrays)


def _place(reading: Reading) -> str:
    """Nothing for the first head of the layer that the paper speaks of, else ``.layer.head``."""
    first = {"routing": 1}.get(reading.probe, 0)
    usual = reading.head in (None, 0) and reading.layer in (None, first)
    return "" if usual else f".{reading.layer}.{reading.head}"


def probe_members(
    run: Run, probe: Callable[..., Reading], stage: str | int = "final", rows: str = REASONING, **options: Any
) -> pd.DataFrame:
    """Readings table of one probe on every member, at a stage or at any step that was kept.

    ``rows`` is the set whose rows the probe sees; ``options`` (layer, head, ...) go to the probe. Raises RunError where
    the run did not keep that step.
    """
    if not isinstance(run.config, StudyConfig):
        raise RunError(
            f"{run.folder} holds language models, which have no anchor task to draw rows from; call the probe on "
            f"run.model(gamma, seed, stage) and run.text(seed)."
        )
    models, tables = MemberModels(run), []
    for member in run.members:
        data = run.config.task.dataset(member.seed)
        chosen = data.sample(rows, run.config.probe_rows)
        checkpoint = models.load(member, stage)
        reading = probe(models.model, data.tokens[chosen], data.roles(chosen), twin=models.twin, **options)
        place = {"gamma": member.gamma, "seed": member.seed, "stage": str(stage), "step": checkpoint.step, "rows": rows}
        tables += [{**place, **row} for row in reading.table()]
    return typed(pd.DataFrame(tables))


def joined(*readings: pd.DataFrame) -> pd.DataFrame:
    """Tables of readings below each other."""
    return pd.concat(readings, ignore_index=True)


def typed(readings: pd.DataFrame) -> pd.DataFrame:
    """One type per column, whatever rows a table happens to hold."""
    numbers = ("gamma", "layer", "head", "value", "twin", "null_mean", "null_sd", "p_value")
    return readings.astype(dict.fromkeys(numbers, "float64") | dict.fromkeys(("seed", "step", "n"), "int64"))


class _MemberProbes(MemberModels):
    """Every reading of the plan, member by member."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.plan = plan(run.config.model.n_layers, run.config.model.n_heads)

    def read(self, member: Member, data: AnchorDataset) -> Iterator[tuple[str, int, str, Reading]]:
        """Stage, step, rows and reading of every probe; each reading carries the untrained twin's values."""
        self.load(member, "init")
        inputs = {kind: data.sample(kind, self.run.config.probe_rows) for kind in (REASONING, MEMORY)}
        untrained = [self._reading(self.twin, probe, rows, where, inputs, data) for probe, rows, where in self.plan]
        for (_, rows, _), reading in zip(self.plan, untrained, strict=True):
            yield "init", 0, rows, reading
        for stage in self._stages(member):
            checkpoint = self.load(member, stage)
            for (probe, rows, where), before in zip(self.plan, untrained, strict=True):
                options = {"twin": self.twin} if probe is geometry else {}
                reading = self._reading(self.model, probe, rows, {**where, **options}, inputs, data)
                yield stage, checkpoint.step, rows, reading if options else replace(reading, twin=before.values)

    def _stages(self, member: Member) -> list[str]:
        matched = MATCHED_GAMMA in self.run.config.gammas and member.gamma != MATCHED_GAMMA
        return ["half", *(["matched"] if matched else []), "final"]

    def _reading(
        self, model: Any, probe: Callable, rows: str, options: dict, inputs: dict, data: AnchorDataset
    ) -> Reading:
        chosen = inputs[rows or REASONING]
        return probe(model, data.tokens[chosen], data.roles(chosen), n_null=self.run.config.n_null, **options)
