"""Made-up evidence of the studies of several parts: theory over measurement, and label ranges."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from synthetic_evidence import make_evidence

from rb_interp.claims import judge
from rb_interp.claims.studies import claims_of
from rb_interp.figures.evidence import Evidence
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.tasks import AnchorTask

ALL_GAMMAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SOME_GAMMAS = (0.3, 0.5, 0.8, 1.0)
EMB_TASK = AnchorTask(length=3, n_sequences=2000, unordered=True, balanced_keys=True)
RANGES = tuple((30, 29 + 20 * group) for group in (1, 2, 3, 4))
LABEL_TASKS = {
    "keys": AnchorTask(),
    "near_sum": AnchorTask(memory_labels="near_sum"),
    "ranges": AnchorTask(
        memory_anchors=(1, 8), reasoning_anchors=(11, 15), memory_labels="ranges", label_ranges=RANGES
    ),
}
GROUPS = {"anchor": 0.0, "memory_anchor": 0.25, "reasoning_anchor": -0.1, "key": 0.12}
PREDICTIONS = {"each_step": 1.0, "step_0": 3.0, "population": 1.6, "positions": 0.2}


def make_emb_mlp(seeds: int = 3, gammas=SOME_GAMMAS, all_gammas=ALL_GAMMAS, tier: str = "quick") -> Evidence:
    """Emb-MLP and the one-layer model: the smaller the initialisation, the longer the theory holds."""
    parts = {
        "sweep": _part(gammas, seeds, EMB_TASK, tier, "adamw"),
        "descent": _part(all_gammas, seeds, EMB_TASK, tier, "sgd"),
        "one_layer": _part(gammas, seeds, replace(EMB_TASK, d_vocab=100), tier, "sgd"),
    }
    drift = pd.concat([_drift(name, part) for name, part in parts.items()], ignore_index=True)
    inner, exponents = _inner_products(all_gammas, seeds)
    tables = {
        "drift": drift,
        "agreement": _agreement(drift),
        "value_flow": _value_flow(parts["one_layer"]),
        "inner_products": inner,
        "exponents": exponents,
        "lemma_1": _lemma_1(all_gammas),
        "label_distributions": _label_distributions(EMB_TASK),
    }
    readings = [_stages_of_fig_4(parts["sweep"])]
    readings += [part.readings.assign(part=name) for name, part in parts.items() if name != "sweep"]
    readings += [_drift_readings(drift, name, part) for name, part in parts.items()]
    parts["sweep"] = replace(parts["sweep"], arrays=_arrays_of_fig_4(parts["sweep"].arrays))
    return _series("emb-mlp", parts, pd.concat(readings, ignore_index=True), tables, tier)


def make_labels(seeds: int = 3, tier: str = "quick") -> Evidence:
    """Labels near the key are learned sooner, and outputs lie in their range before memory is learned."""
    parts = {name: _part((0.8,), seeds, task, tier, "adamw") for name, task in LABEL_TASKS.items()}
    curves = parts["near_sum"].curves.copy()
    memory = curves["set"] == "mem"
    steps = curves.loc[memory, "step"].to_numpy(dtype=float)
    curves.loc[memory, "loss"] = np.interp(steps * 1.8, np.sort(steps), np.sort(curves.loc[memory, "loss"])[::-1]) * 0.9
    parts["near_sum"] = replace(parts["near_sum"], curves=curves)
    in_range, outputs, found = _ranges(seeds)
    tables = {"in_range": in_range, "outputs": outputs}
    readings = [part.readings.assign(part=name) for name, part in parts.items()]
    rng = np.random.default_rng(5)
    for seed in range(seeds):
        mem1, mem2 = 0.61 + 0.02 * rng.normal(), 0.44 + 0.02 * rng.normal()
        fair = (mem1 / 3.7 - mem2 / 2.6) / (mem1 / 3.7 + mem2 / 2.6)
        speed = {"bias": (mem1 - mem2) / (mem1 + mem2), "bias_per_entropy": fair, "area_mem1": mem1, "area_mem2": mem2}
        for name, value in speed.items():
            found.append(_row("", 0.8, seed, "final", 6000, "label_speed", name, value, twin=0.001))
    return _series("labels", parts, pd.concat([*readings, pd.DataFrame(found)], ignore_index=True), tables, tier)


def _part(gammas, seeds, task, tier, optimiser) -> Evidence:
    base = make_evidence(gammas=gammas, seeds=seeds, task=task, tier=tier)
    config = {**base.config, "train": {**base.config["train"], "optimiser": optimiser}}
    bare = {"claims": [], "causes": (), "tables": {}, "circuits": base.circuits.iloc[:0]}
    return replace(base, config=config, **bare)


def _series(study, parts, readings, tables, tier) -> Evidence:
    first = next(iter(parts.values()))
    curves = pd.concat([part.curves.assign(part=name) for name, part in parts.items()], ignore_index=True)
    arrays = {f"{name}/{key}": array for name, part in parts.items() for key, array in part.arrays.items()}
    meta = {name: value for name, value in first.meta.items() if name not in ("circuit_thresholds", "calibration")}
    return Evidence(
        config={"study": study, "preset": tier, **{name: part.config for name, part in parts.items()}},
        tier=tier,
        curves=curves,
        readings=readings,
        circuits=first.circuits,
        arrays=arrays,
        claims=judge(readings, tier, claims=claims_of(study)),
        sample=first.sample,
        meta={**meta, "command": f"rb-interp reproduce --study {study}"},
        tables=tables,
        study=study,
        parts=parts,
    )


def _row(part, gamma, seed, stage, step, probe, quantity, value, rows="", twin=math.nan) -> dict:
    place = {"part": part, "gamma": gamma, "seed": seed, "stage": stage, "step": step, "rows": rows}
    nothing = {"layer": math.nan, "head": math.nan, "null": None, "null_mean": math.nan, "null_sd": math.nan}
    return {**place, "probe": probe, "quantity": quantity, "value": value, "twin": twin, "n": 400, **nothing}


def _stages_of_fig_4(sweep: Evidence) -> pd.DataFrame:
    """The sweep's readings with the stages of Fig. 4A, taken from ``half`` and ``final``."""
    found = [sweep.readings]
    for stage, source, step in (("early", "half", 300), ("late", "final", 5400)):
        found.append(sweep.readings[sweep.readings["stage"] == source].assign(stage=stage, step=step))
    return pd.concat(found, ignore_index=True).assign(part="sweep")


def _arrays_of_fig_4(arrays: dict) -> dict:
    more = {}
    for stage, source in (("early", "half"), ("late", "final")):
        more |= {key.replace(f"/{source}/", f"/{stage}/"): a for key, a in arrays.items() if f"/{source}/" in key}
    return {**arrays, **more}


def _kept(gamma: float, seed: int) -> tuple[np.ndarray, int, float]:
    """Kept steps, the step of ``leaving`` among them, and the step around which the loss falls."""
    centre = 60 * 8 ** (2 * (gamma - 0.3)) * (1 + 0.08 * seed)
    leaving = int(0.22 * centre) + 1
    return np.unique([0, *np.round(np.geomspace(1, 6000, 28)), leaving]).astype(int), leaving, centre


def _drift(name: str, part: Evidence) -> pd.DataFrame:
    rows = []
    for gamma in part.gammas:
        for seed in part.seeds:
            rng = np.random.default_rng([seed, int(100 * gamma), len(name)])
            steps, _, centre = _kept(gamma, seed)
            fraction = np.minimum(1.02 - 0.95 / (1 + (centre / np.maximum(steps, 1e-9)) ** 3), 1)
            hold = {"sweep": 0.5, "descent": 1.0, "one_layer": 0.8}[name] * 3.0 ** (4 * (gamma - 0.7))
            for group, ease in GROUPS.items():
                for prediction, worse in PREDICTIONS.items():
                    if prediction == "positions" and name != "one_layer":
                        continue
                    wrong = worse * (steps / centre / hold) ** 2 * (1 - ease) * np.exp(0.2 * rng.normal())
                    wrong += 0.004 + (0.25 if name == "sweep" else 0) + (0.4 if gamma < 0.35 else 0)
                    place = {"part": name, "gamma": gamma, "seed": seed, "group": group, "prediction": prediction}
                    for step, f, w in zip(steps, fraction, wrong, strict=True):
                        at = {"step": int(step), "fraction": float(f)}
                        nothing = step == 0
                        rows.append(
                            {
                                **place,
                                **at,
                                "cos": math.nan if nothing else 1 / math.sqrt(1 + w),
                                "r2": math.nan if nothing else 1 - w,
                                "cos_raw": math.nan if nothing else 1 / math.sqrt(1 + 0.7 * w),
                                "r2_raw": math.nan if nothing else 1 - 0.7 * w,
                                "r2_permuted": 0.35 - 1.1 * w if prediction == "each_step" and step else math.nan,
                            }
                        )
    return pd.DataFrame(rows)


def _agreement(drift: pd.DataFrame) -> pd.DataFrame:
    rows, keys = [], ["part", "gamma", "seed", "group", "prediction"]
    for place, table in drift[drift["step"] > 0].sort_values("step").groupby(keys):
        for metric in ("cos", "r2"):
            low = table[table[metric] < 0.9]
            step, fraction = (math.nan, math.nan) if low.empty else (low["step"].iloc[0], low["fraction"].iloc[0])
            at = {"metric": metric, "step": step, "fraction": fraction, "last_step": table["step"].max()}
            rows.append({**dict(zip(keys, place, strict=True)), **at})
    return pd.DataFrame(rows)


def _drift_readings(drift: pd.DataFrame, name: str, part: Evidence) -> pd.DataFrame:
    rows = []
    for gamma in part.gammas:
        for seed in part.seeds:
            _, leaving, _ = _kept(gamma, seed)
            for group in GROUPS:
                here = drift[(drift["part"] == name) & (drift["gamma"] == gamma) & (drift["seed"] == seed)]
                here = here[(here["group"] == group) & (here["step"] == leaving)].set_index("prediction")
                at = here.loc["each_step"]
                values = {"r2": at["r2"], "r2_excess": at["r2"] - at["r2_permuted"], "cos": at["cos"]}
                if name == "one_layer":
                    values |= {"r2_positions": here.loc["positions", "r2"]}
                values["r2_sequences"] = at["r2"] - 0.01
                place = (name, gamma, seed, "leaving", leaving, "drift")
                rows += [_row(*place, quantity, float(value), group) for quantity, value in values.items()]
    return pd.DataFrame(rows)


def _value_flow(part: Evidence) -> pd.DataFrame:
    rows = []
    for gamma in part.gammas:
        for seed in part.seeds:
            steps, _, centre = _kept(gamma, seed)
            for step in steps:
                w = 0.3 * (step / centre / 3 ** (4 * (gamma - 0.7))) ** 2 + (0.8 if gamma < 0.4 else 0.02) * (
                    1 + seed / 9
                )
                cos = 1 / math.sqrt(1 + w) if step else math.nan
                place = {"part": "one_layer", "gamma": gamma, "seed": seed, "step": int(step), "fraction": 1.0}
                rest = {"cos": cos, "r2": 1 - w if step else math.nan, "cos_direction": cos**0.5}
                rows.append({**place, **rest, "share_leading": cos**2 if step else 0.0})
    return pd.DataFrame(rows)


def _inner_products(gammas, seeds) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng, inner, exponents = np.random.default_rng(3), [], []
    for gamma in gammas:
        for seed in range(seeds):
            slope = (1 - gamma) * 0.9 - 0.1 + 0.03 * rng.normal()
            place = {"gamma": gamma, "seed": seed}
            for d_model in (100, 200, 400, 800):
                error = 4 * 100 ** (0.5 - 1.4 * gamma) * (d_model / 100) ** slope * math.exp(0.05 * rng.normal())
                inner.append({**place, "d_model": d_model, "error": error, "scale": error * 1.7})
            exponents.append({**place, "exponent": slope, "predicted": 1 - gamma})
    return pd.DataFrame(inner), pd.DataFrame(exponents)


def _lemma_1(gammas, n=100) -> pd.DataFrame:
    rows = []
    for d_model in (100, 200, 400, 800):
        for gamma in gammas:
            share = 1 / (1 + math.exp(-(gamma - 0.62 + 0.02 * math.log2(d_model / 100)) * 40))
            within = round(n * share)
            found = proportion_interval(within, n)
            ends = {"share": found.estimate, "low": found.low, "high": found.high, "tolerance": 0.05}
            rows.append({"gamma": gamma, "d_model": d_model, "n_init": n, "n_within": within, **ends})
    return pd.DataFrame(rows)


def _label_distributions(task: AnchorTask) -> pd.DataFrame:
    """Eqs. 7 and 8 for two anchors, and counts with made-up noise."""
    rng, rows, labels = np.random.default_rng(1), [], np.arange(task.d_vocab)
    keys, reasoning = task.tokens("key"), task.tokens("reasoning_anchor")
    sums = [keys[:, None] + reasoning[None, :], keys[:, None]]
    for group in ("memory_anchor", "reasoning_anchor", "key"):
        for token in task.tokens(group):
            at = sums[1] if group == "memory_anchor" else sums[0] + token
            population = np.bincount(at.ravel(), minlength=task.d_vocab)[: task.d_vocab].astype(float)
            population /= population.sum()
            counts = rng.multinomial(400 if group != "reasoning_anchor" else 4000, population)
            for label in labels:
                place = {"seed": 0, "token": int(token), "group": group, "label": int(label)}
                rows.append({**place, "population": population[label], "empirical": counts[label] / counts.sum()})
    return pd.DataFrame(rows)


def _ranges(seeds: int) -> tuple[pd.DataFrame, pd.DataFrame, list[dict]]:
    in_range, outputs, readings = [], [], []
    pooled = [sum(min(high - 29, other - 29) / (other - 29) for _, other in RANGES) / 4 for _, high in RANGES]
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        before = 1200 + 150 * seed
        for step in np.unique([*range(0, 6001, 300), before]):
            accuracy = float(np.clip((step - 1000) / 4000, 0.02, 0.95))
            inside = [0.1 * (g + 1) + (0.97 - 0.1 * (g + 1)) / (1 + (500 / max(step, 1)) ** 3) for g in range(4)]
            inside = [value - 0.01 * seed for value in inside]
            for group, ((low, high), share) in enumerate(zip(RANGES, inside, strict=True), start=1):
                place = {"part": "ranges", "gamma": 0.8, "seed": seed, "step": int(step), "group": group}
                span = {"low": low, "high": high, "inside": share, "pooled": pooled[group - 1]}
                in_range.append({**place, **span, "accuracy": accuracy})
            if step == before:
                told = {f"inside_{g}": value for g, value in enumerate(inside, start=1)}
                told |= {"lowest_inside": min(inside), "pooled": min(pooled), "accuracy": accuracy}
                place = ("ranges", 0.8, seed, "before_memory", int(step), "label_range")
                readings += [_row(*place, name, value, "mem", twin=0.1) for name, value in told.items()]
        for group, (low, high) in enumerate(RANGES, start=1):
            soft = 1 / (1 + np.exp(-(np.arange(200) - low) / 1.5)) / (1 + np.exp((np.arange(200) - high) / 1.5))
            soft = soft * np.exp(0.1 * rng.normal(size=200))
            for label, probability in enumerate(soft / soft.sum()):
                place = {"gamma": 0.8, "seed": seed, "group": group, "label": label, "probability": probability}
                outputs.append({**place, "low": low, "high": high, "step": before})
    return pd.DataFrame(in_range), pd.DataFrame(outputs), readings
