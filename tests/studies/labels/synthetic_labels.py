"""A made-up label study: labels near the key sooner, and outputs in their range before memory is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from rb_interp.claims import judge
from rb_interp.figures.evidence import Evidence
from rb_interp.machine.measured import readings_table, summary_table
from rb_interp.probes.label_range import pooled_inside
from rb_interp.statistics.learning_order import learning_order_table
from rb_interp.statistics.reading import Reading
from rb_interp.studies.labels.claims import CLAIMS
from rb_interp.studies.labels.config import LabelsConfig
from rb_interp.studies.labels.summaries import summaries

STEPS = np.arange(0, 6001, 300)
LAST = 6000


def make_labels(seeds: int = 3) -> Evidence:
    """Evidence of a study at ``quick``'s tasks with made-up curves of 6,000 steps."""
    config = LabelsConfig.from_preset("quick", seeds=tuple(range(seeds)))
    curves = pd.concat([_curves(name, seeds) for name in config.sweeps], ignore_index=True)
    orders = [
        learning_order_table(here.drop(columns="sweep"), 200, {}).assign(sweep=name)
        for name, here in curves.groupby("sweep", sort=False)
    ]
    in_range, outputs, inside = _ranges(config.ranges.task.label_ranges, seeds)
    tables = {"in_range": in_range, "outputs": outputs}
    return evidence_of(config, curves, readings_table(*orders, *_speeds(seeds), *inside), tables)


def evidence_of(config: LabelsConfig, curves: pd.DataFrame, readings: pd.DataFrame, tables: dict) -> Evidence:
    """Evidence with the statistics that measuring would make of these tables."""
    made = summaries(curves, readings, tables, LAST) if len(readings) else {}
    return Evidence(
        config=config,
        scale="quick",
        curves=curves,
        readings=readings,
        summary=summary_table(readings),
        arrays={},
        verdicts=judge(readings, CLAIMS, scale="quick"),
        tables={**tables, **made},
        claims=CLAIMS,
        meta={"command": "rb-interp reproduce --study labels", "toml": "", "versions": {}, "host": {}},
    )


def with_readings(evidence: Evidence, readings: pd.DataFrame) -> Evidence:
    """The same study with other readings, and the statistics of these."""
    tables = {name: evidence.tables[name] for name in ("in_range", "outputs")}
    return evidence_of(evidence.config, evidence.curves, readings, tables)


def bare(evidence: Evidence) -> Evidence:
    """The same study, of which nothing was measured."""
    nothing = {name: getattr(evidence, name).iloc[:0] for name in ("readings", "summary")}
    return replace(evidence, tables={}, verdicts=judge(nothing["readings"], CLAIMS), **nothing)


def _curves(sweep: str, seeds: int) -> pd.DataFrame:
    rows, sooner = [], 1.8 if sweep == "near_sum" else 1.0
    for seed in range(seeds):
        for set, centre in (("mem", 3500 / sooner), ("rsn_train", 1500), ("rsn_test", 2000)):
            left = 1 / (1 + (STEPS / (centre * (1 + 0.05 * seed))) ** 4)
            at = {"sweep": sweep, "gamma": 0.8, "seed": seed, "set": set}
            rows.append(pd.DataFrame({**at, "step": STEPS, "loss": 5.3 * left + 0.1, "accuracy": 0.97 - 0.96 * left}))
    return pd.concat(rows, ignore_index=True)


def _speeds(seeds: int) -> list[pd.DataFrame]:
    found, rng = [], np.random.default_rng(5)
    for seed in range(seeds):
        one, two = 0.61 + 0.02 * rng.normal(), 0.44 + 0.02 * rng.normal()
        values = {"bias": (one - two) / (one + two), "bias_per_entropy": 0.003 * seed - 0.004}
        reading = Reading("label_speed", {**values, "area_mem1": one, "area_mem2": two}, n=21)
        found.append(_placed(reading, "", seed, "final", LAST, ""))
    return found


def _placed(reading: Reading, sweep: str, seed: int, stage: str, step: int, set: str) -> pd.DataFrame:
    place = {"sweep": sweep, "gamma": 0.8, "seed": seed, "stage": stage, "step": step, "set": set}
    return reading.table().assign(**place)


def _ranges(ranges, seeds: int) -> tuple[pd.DataFrame, pd.DataFrame, list[pd.DataFrame]]:
    in_range, outputs, readings, pooled = [], [], [], pooled_inside(ranges)
    for seed in range(seeds):
        before = 1200 + 150 * seed
        for step in np.unique([*STEPS, before]).tolist():
            accuracy = float(np.clip((step - 1000) / 4000, 0.02, 0.95))
            least = 0.1 * np.arange(1, 5)
            inside = least + (0.97 - least) / (1 + (500 / max(step, 1)) ** 3) - 0.01 * seed
            for group, ((low, high), share) in enumerate(zip(ranges, inside, strict=True), start=1):
                at = {"sweep": "ranges", "gamma": 0.8, "seed": seed, "step": step, "group": group}
                span = {"low": low, "high": high, "inside": share, "pooled": pooled[group - 1]}
                in_range.append({**at, **span, "accuracy": accuracy})
            if step == before:
                values = {f"inside_{g}": float(value) for g, value in enumerate(inside, start=1)}
                values |= {"lowest_inside": min(inside), "pooled": min(pooled), "accuracy": accuracy}
                reading = Reading("label_range", values, n=400)
                readings.append(_placed(reading, "ranges", seed, "before_memory", step, "mem"))
        for group, (low, high) in enumerate(ranges, start=1):
            soft = 1 / (1 + np.exp(-(np.arange(200) - low) / 1.5)) / (1 + np.exp((np.arange(200) - high) / 1.5))
            soft = soft * np.exp(0.1 * np.random.default_rng([seed, group]).normal(size=200))
            at = {"gamma": 0.8, "seed": seed, "group": group, "low": low, "high": high, "step": before}
            outputs.append(pd.DataFrame({**at, "label": np.arange(200), "probability": soft / soft.sum()}))
    return pd.DataFrame(in_range), pd.concat(outputs, ignore_index=True), readings
