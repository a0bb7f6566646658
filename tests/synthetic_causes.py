"""Made-up causal evidence to go with `synthetic_evidence`: every member behaves as its circuit would."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from rb_interp.claims.causes import WORDS
from rb_interp.claims.judging_causes import judge_causes
from rb_interp.figures.cause_criteria import stage_of

# Effect and placebo at large, middle and small initialisation; the member of another circuit has the last pair.
NATS = {
    "forced_average": ((14.0, 17.0), (1.2, 1.4), (0.02, 1.1), (0.9, 1.6)),
    "leading_direction_only": ((9.0, 11.0), (0.7, 1.9), (0.05, 2.4), (0.4, 2.6)),
    "without_reasoning": ((4.0, 1.5), (1.1, 0.2), (2.2, 0.02), (1.8, 0.03)),
    "without_memory": ((3.0, 1.5), (0.3, 0.2), (0.04, 0.02), (-0.03, 0.03)),
    "key_blocked": ((0.8, 0.6), (0.9, 0.05), (3.9, 0.01), (0.05, 0.02)),
}
SHARES = {
    "number_line": ((0.01, 0.8), (0.05, 0.3), (0.62, 0.1), (0.4, 0.12)),
    "key_blocked_answers": ((0.1, 0.1), (0.15, 0.02), (0.96, 0.0), (0.02, 0.01)),
    "swap_key": ((0.02, 0.4), (0.2, 0.05), (0.97, 0.01), (0.1, 0.02)),
    "swap_sum": ((0.01, 0.5), (0.1, 0.04), (0.93, 0.03), (0.05, 0.05)),
    "number_line_component": ((0.01, 0.8), (0.1, 0.3), (0.7, 0.1), (0.5, 0.12)),
    "swap_key_in_place": ((0.02, 0.4), (0.2, 0.05), (0.99, 0.0), (0.12, 0.02)),
    "swap_sum_in_place": ((0.01, 0.5), (0.1, 0.04), (0.96, 0.01), (0.06, 0.05)),
    "swap_key_carried": ((0.02, 0.3), (0.7, 0.05), (0.05, 0.02), (0.95, 0.01)),
    "swap_sum_carried": ((0.02, 0.3), (0.6, 0.05), (0.04, 0.02), (0.9, 0.02)),
}
QUANTITIES = {"key_blocked_answers": "accuracy_lost"}


def make_tables(gammas, seeds, steps) -> dict[str, pd.DataFrame]:
    """The tables of the causal evidence, in which every member behaves as its circuit would."""
    tables = {name: [] for name in ("effects", "ablations", "patching", "dynamics", "events")}
    for gamma in gammas:
        for seed in range(seeds):
            rng = np.random.default_rng([seed, int(100 * gamma), 5])
            place = {"gamma": gamma, "seed": seed}
            tables["effects"] += _effects(place, rng, gammas)
            tables["ablations"] += _ablations(place, rng)
            tables["patching"] += _patching(place, rng)
            tables["events"] += _events(place, rng)
            tables["dynamics"] += [{**place, "step": s, "quantity": "key_attention", "value": 0.5} for s in (0, steps)]
    return {name: pd.DataFrame(rows) for name, rows in tables.items()}


def _which(gamma, seed):
    return 0 if gamma < 0.4 else 1 if gamma < 0.7 else 2 if paper_like(gamma, seed) else 3


def _effects(place, rng, gammas):
    gamma, rows = place["gamma"], []
    for name, pairs in (NATS | SHARES).items():
        for inputs in ("rsn_train", "mem") if name.startswith("key_blocked") else ("rsn_train",):
            for stage in ("init", stage_of(name, gamma, gammas)):
                effect, placebo = pairs[_which(gamma, place["seed"])] if stage != "init" else (0.001, 0.001)
                effect, placebo = (float(x * rng.uniform(0.85, 1.02) + rng.normal(0, 0.003)) for x in (effect, placebo))
                if name in SHARES:
                    effect, placebo = np.clip([effect, placebo], 0, 1)
                numbers = {"effect": effect, "placebo": placebo, "difference": effect - placebo}
                ends = {
                    f"{key.replace('effect_', '')}": value + side
                    for column, value in numbers.items()
                    for key, side in ((f"{column}_low", -0.02), (f"{column}_high", 0.02))
                }
                rows.append(
                    {
                        **place, "stage": stage, "step": 100, "rows": inputs, "claim": "",
                        "intervention": name, "site": "attn_out.1@last",
                        "quantity": QUANTITIES.get(name, "nats_lost" if name in NATS else "moved_as_predicted"),
                        **numbers, **ends, "p_value": 0.05, "placebo_name": WORDS[name][1], "n": 400,
                    }
                )  # fmt: skip
    return rows


def _ablations(place, rng):
    rows, gamma = [], place["gamma"]
    for inputs, whole in (("mem", 0.7), ("rsn_train", 0.99), ("rsn_test", 0.05 if gamma < 0.4 else 0.93)):
        for component, need in (("attn_out.0", 0.95), ("mlp_out.0", 0.3), ("attn_out.1", 0.9), ("mlp_out.1", 0.6)):
            need = need * (0.5 if component == "mlp_out.0" and inputs != "mem" else 1)
            placebo = abs(rng.normal(0, 0.2 if gamma < 0.4 else 0.02)) * whole
            for method, factor in (("zero", 1.0), ("mean", 0.7), ("resample", 0.97)):
                lost = whole * min(need * factor * rng.uniform(0.85, 1.05), 1)
                numbers = {"accuracy": whole - lost, "accuracy_lost": lost, "nats_lost": 5 * lost}
                beside = {"placebo_accuracy_lost": placebo, "placebo_nats_lost": 5 * placebo, "n": 400}
                where = {"stage": "final", "rows": inputs, "component": component, "method": method}
                rows.append({**place, **where, **numbers, **beside})
    return rows


PATCHED = ("resid_pre", "attn_out", "mlp_out", "resid_post")


def _patching(place, rng):
    rows, paper = [], paper_like(place["gamma"], place["seed"])
    for change in ("key", "anchors"):
        for layer in range(2):
            for component in PATCHED:
                for role in ("key", "first_anchor", "last_anchor", "noise", "last"):
                    value = _carried(change, component, layer, role, paper) + rng.normal(0, 0.02)
                    where = {"stage": "final", "change": change, "component": component, "layer": layer, "role": role}
                    ends = {"low": value - 0.05, "high": value + 0.05}
                    beside = {"placebo": rng.normal(0, 0.01), "n": 64}
                    rows.append({**place, **where, "recovered": value, **ends, **beside})
    return rows


def _carried(change, component, layer, role, paper):
    """Share of what differs that a cell carries, roughly as in the two circuits."""
    if (component, layer, role) == ("resid_post", 1, "last"):
        return 1.0
    if (component, role) == ("mlp_out", "last"):
        return -0.4 if layer else 0.1
    early = {("resid_pre", 0), *([("resid_post", 0), ("resid_pre", 1)] if paper else [])}
    if (component, layer) in early and role == ("key" if change == "key" else "first_anchor"):
        return 1.0 if change == "key" else 0.5
    if (component, layer, role) == ("attn_out", 1, "last"):
        return 1.1 if change == "key" or not paper else 0.05
    if (component, layer, role) == ("attn_out", 0, "last" if change == "anchors" else "last_anchor"):
        return float(paper == (change == "anchors"))
    return 0.0


def _events(place, rng):
    """One event a row of the figure of events; what a member's circuit lacks never happens."""
    from rb_interp.figures.dynamics import CRITERIA

    rows = []
    for number, event in enumerate(CRITERIA):
        step = float(rng.integers(50, 200) * (1 + number)) if (number + place["seed"]) % 4 else math.nan
        rows.append({**place, "event": event, "kind": "loss" if number < 3 else "mechanism", "step": step})
    return rows


def make_causes(effects: pd.DataFrame, tier: str = "quick") -> list[dict]:
    """The objects of causes.json, judged by the package's own rule."""
    return judge_causes(_as_readings(effects), effects, tier)


def _as_readings(effects: pd.DataFrame) -> pd.DataFrame:
    """The effects as rows of the table of readings, and the accuracy on memory, which a claim's gate asks for."""
    columns = ["gamma", "seed", "stage", "rows", "intervention"]
    long = effects.melt(columns, ["effect", "placebo", "difference"], "quantity", "value").rename(
        columns={"intervention": "probe"}
    )
    members = effects[["gamma", "seed"]].drop_duplicates()
    memory = members.assign(stage="final", rows="", probe="learning_order", quantity="acc_mem", value=0.7)
    return pd.concat([long, memory], ignore_index=True).assign(layer=math.nan, twin=0.001)


def make_rates() -> list[dict]:
    """Error rates of three detectors: one good, one that misses, one that was never run on a positive."""
    base = {
        "family": "norm none, 2 layers, learned positions", "n_positive": 240, "true_positive_rate": 0.992,
        "true_positive_low": 0.97, "true_positive_high": 0.999, "n_negative": 480, "false_positive_rate": 0.004,
        "false_positive_low": 0.0005, "false_positive_high": 0.015, "auc": 0.999, "youden_threshold": -0.02,
        "youden_tpr": 1.0, "youden_fpr": 0.0, "worst_positive": "averager", "worst_positive_rate": 0.98,
        "worst_negative": "condensed", "worst_negative_rate": 0.02, "n_untrained": 60, "untrained_rate": 0.0,
        "untrained_low": 0.0, "untrained_high": 0.06, "n_label_shuffled": 15, "label_shuffled_rate": 0.07,
        "label_shuffled_low": 0.002, "label_shuffled_high": 0.32, "calibrated": True,
    }  # fmt: skip
    missed = {"true_positive_rate": 0.71, "true_positive_low": 0.65, "true_positive_high": 0.77}
    missed |= {"worst_positive": "peaked averager", "worst_positive_rate": 0.1, "calibrated": False, "auc": 0.88}
    none = {"n_positive": 0, "worst_positive": "", "worst_positive_rate": math.nan, "auc": math.nan}
    none |= {"true_positive_rate": math.nan, "true_positive_low": 0.0, "true_positive_high": 1.0, "calibrated": False}
    return [base | {"detector": "M1"}, base | missed | {"detector": "M4"}, base | none | {"detector": "key-to-anchors"}]


def paper_like(gamma: float, seed: int) -> bool:
    """Whether the made-up member has the paper's circuit."""
    return gamma >= 0.7 and seed % 5 not in (1, 3)
