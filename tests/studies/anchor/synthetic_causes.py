"""Made-up causal evidence to go with `synthetic_evidence`: every member behaves as its circuit would."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from rb_interp.studies.anchor.causes import Causes
from rb_interp.studies.anchor.checks import INTERVENTIONS
from rb_interp.studies.anchor.figures.cause_criteria import stage_of
from rb_interp.studies.anchor.figures.dynamics import CRITERIA

# Effect and control at large, middle and small initialisation; the member of another circuit has the last pair.
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
QUANTITIES = {"key_blocked_answers": "accuracy_drop"}


def make_tables(gammas, seeds, steps) -> tuple[dict[str, pd.DataFrame], list[dict]]:
    """The tables of the members of a run, and the effects as rows of readings."""
    tables: dict[str, list] = {
        name: [] for name in ("circuits", "effects", "ablations", "patching", "dynamics", "events")
    }
    for gamma in gammas:
        for seed in range(seeds):
            place, rng = {"gamma": gamma, "seed": seed}, np.random.default_rng([seed, int(100 * gamma), 5])
            circuit = "average-then-key" if paper_like(gamma, seed) else "none" if gamma < 0.4 else "key-to-anchors"
            tables["circuits"].append({**place, "circuit": circuit})
            tables["effects"] += _effects(place, rng, gammas)
            tables["ablations"] += _ablations(place, rng)
            tables["patching"] += _patching(place, rng)
            tables["events"] += _events(place, rng)
            tables["dynamics"] += [{**place, "step": s, "quantity": "attention_by_role/key"} for s in (0, steps)]
    made = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    causes = Causes(made["effects"], made["ablations"], made["patching"])
    return made, [{"sweep": "", **row} for row in causes.readings()]


def _which(gamma, seed):
    return 0 if gamma < 0.4 else 1 if gamma < 0.7 else 2 if paper_like(gamma, seed) else 3


def _effects(place, rng, gammas):
    gamma, rows = place["gamma"], []
    for name, pairs in (NATS | SHARES).items():
        for inputs in ("rsn_train", "mem") if name.startswith("key_blocked") else ("rsn_train",):
            for stage in ("init", stage_of(name, gamma, gammas)):
                pair = pairs[_which(gamma, place["seed"])] if stage != "init" else (0.001, 0.001)
                effect, control = (float(x * rng.uniform(0.85, 1.02) + rng.normal(0, 0.003)) for x in pair)
                if name in SHARES:
                    effect, control = np.clip([effect, control], 0, 1)
                where = {**place, "stage": stage, "step": 100, "set": inputs, "intervention": name}
                unit = QUANTITIES.get(name, "loss_increase" if name in NATS else "moved_as_predicted")
                numbers = {"quantity": unit, "effect": effect, "control": control, "difference": effect - control}
                rows.append({**where, **numbers, "p_value": 0.05, "control_name": INTERVENTIONS[name][1], "n": 400})
    return rows


def _ablations(place, rng):
    rows, gamma = [], place["gamma"]
    for inputs, whole in (("mem", 0.7), ("rsn_train", 0.99), ("rsn_test", 0.05 if gamma < 0.4 else 0.93)):
        for component, need in (("attn_out.0", 0.95), ("mlp_out.0", 0.3), ("attn_out.1", 0.9), ("mlp_out.1", 0.6)):
            need = need * (0.5 if component == "mlp_out.0" and inputs != "mem" else 1)
            control = abs(rng.normal(0, 0.2 if gamma < 0.4 else 0.02)) * whole
            for method, factor in (("zero", 1.0), ("mean", 0.7), ("resample", 0.97)):
                lost = whole * min(need * factor * rng.uniform(0.85, 1.05), 1)
                numbers = {"accuracy": whole - lost, "accuracy_drop": lost, "loss_increase": 5 * lost}
                beside = {"control_accuracy_drop": control, "control_loss_increase": 5 * control, "n": 400}
                where = {"stage": "final", "set": inputs, "component": component, "method": method}
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
                    where = {"counterfactual": change, "component": component, "layer": layer, "role": role}
                    ends = {"low": value - 0.05, "high": value + 0.05}
                    beside = {"control": rng.normal(0, 0.01), "n": 64}
                    rows.append({**place, "stage": "final", **where, "recovered": value, **ends, **beside})
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
    """One event a row of the figure of events, some of which never happen."""
    rows = []
    for number, event in enumerate(CRITERIA):
        step = float(rng.integers(50, 200) * (1 + number)) if (number + place["seed"]) % 4 else math.nan
        rows.append({**place, "event": event, "kind": "loss" if number < 3 else "mechanism", "step": step})
    return rows


def paper_like(gamma: float, seed: int) -> bool:
    """Whether the made-up member has the paper's circuit."""
    return gamma >= 0.7 and seed % 5 not in (1, 3)
