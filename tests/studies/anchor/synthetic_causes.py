"""Made-up causal evidence to go with `synthetic_evidence`: every member behaves as its circuit would."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from made_up import MadeUp

from rb_interp.studies.anchor.causes import COMPONENTS, INTERVENTIONS, ROLES
from rb_interp.studies.anchor.figures_causes import CRITERIA, stage_of
from rb_interp.tasks import SETS

STAGES, STEPS = ("init", "half", "matched", "final"), range(0, 6001, 100)
# Effect and control at large, middle and small initialisation; the member of another circuit has the last pair.
NATS = {
    "forced_average": ((14.0, 17.0), (1.2, 1.4), (0.02, 1.1), (0.9, 1.6)),
    "leading_direction_only": ((9.0, 11.0), (0.7, 1.9), (0.05, 2.4), (0.4, 2.6)),
    "without_reasoning": ((4.0, 1.5), (1.1, 0.2), (2.2, 0.02), (1.8, 0.03)),
    "without_memory": ((3.0, 1.5), (0.3, 0.2), (0.04, 0.02), (-0.03, 0.03)),
    "forced_average_matched": ((14.0, 12.0), (1.2, 0.5), (0.02, 0.03), (0.9, 0.1)),
    "leading_direction_only_matched": ((9.0, 10.0), (0.7, 1.5), (0.05, 1.9), (0.4, 1.8)),
    "without_reasoning_matched": ((4.0, 3.0), (1.1, 0.9), (2.2, 0.7), (1.8, 2.4)),
    "without_memory_matched": ((3.0, 3.0), (0.3, 0.8), (0.04, 0.6), (-0.03, 2.3)),
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
UNTRAINED = ("forced_average", "swap_")  # interventions whose claims look at the untrained model too
ABLATED = {"attn_out.0": 0.95, "mlp_out.0": 0.3, "attn_out.1": 0.9, "mlp_out.1": 0.6}  # share of accuracy that it holds
METHODS = {"zero": 1.0, "mean": 0.7, "resample": 0.97}
SITES = {"layer": range(2), "component": COMPONENTS, "role": ROLES}


def paper_like(gamma: float, seed: int) -> bool:
    """Whether the made-up member has the paper's circuit."""
    return gamma >= 0.7 and seed % 5 not in (1, 3)


def add_causes(made: MadeUp, gamma: float, seed: int) -> None:
    """A member's circuit, interventions and events."""
    rng, member = np.random.default_rng([seed, int(100 * gamma), 5]), {"gamma": [gamma], "seed": [seed]}
    made.fill("circuits", _circuit, **member)
    effect = partial(_effect, rng, made.config.gammas)
    made.fill("effects", effect, **member, intervention=NATS | SHARES, set=("rsn_train", "mem"), stage=STAGES)
    made.fill("events", partial(_event, rng), **member, event=CRITERIA)
    watched = {"step": (0, STEPS[-1]), "quantity": ["attention_by_role/key"]}
    made.fill("dynamics", lambda step, **place: {"value": 0.9 * step / STEPS[-1]}, **member, **watched)
    member["stage"] = ["final"]
    made.fill("ablations", partial(_ablation, rng), **member, set=SETS, component=ABLATED, method=METHODS)
    made.fill("patching", partial(_patched, rng), **member, counterfactual=("key", "anchors"), **SITES)


def _circuit(gamma, seed):
    name = "average-then-key" if paper_like(gamma, seed) else "none" if gamma < 0.4 else "key-to-anchors"
    return {"circuit": "mixed" if seed == 4 and gamma < 0.7 else name, "cause": name}


def _effect(rng, gammas, gamma, seed, intervention, set, stage):
    read = {stage_of(intervention, gamma, gammas), *(["init"] if _compared(intervention) else [])}
    if stage not in read or (set == "mem" and not intervention.startswith("key_blocked")):
        return None
    kind = 0 if gamma < 0.4 else 1 if gamma < 0.7 else 2 if paper_like(gamma, seed) else 3
    pair = (0.001, 0.001) if stage == "init" else (NATS | SHARES)[intervention][kind]
    effect, control = (float(x * rng.uniform(0.85, 1.02) + rng.normal(0, 0.003)) for x in pair)
    if intervention in SHARES:
        effect, control = np.clip([effect, control], 0, 1)
    unit = QUANTITIES.get(intervention, "loss_increase" if intervention in NATS else "moved_as_predicted")
    about = {"quantity": unit, "step": 100, "p_value": 0.05, "control_name": INTERVENTIONS[intervention][1], "n": 400}
    return {**about, "effect": effect, "control": control, "difference": effect - control}


def _compared(intervention):
    return intervention.startswith(UNTRAINED) and not intervention.endswith("_matched")


def _ablation(rng, gamma, seed, stage, set, component, method):
    whole = {"mem": 0.7, "rsn_train": 0.99, "rsn_test": 0.05 if gamma < 0.4 else 0.93}[set]
    need = ABLATED[component] * (0.5 if component == "mlp_out.0" and set != "mem" else 1)
    lost = whole * min(need * METHODS[method] * rng.uniform(0.85, 1.05), 1)
    control = whole * abs(rng.normal(0, 0.2 if gamma < 0.4 else 0.02))
    beside = {"control_accuracy_drop": control, "control_loss_increase": 5 * control, "n": 400}
    return {"accuracy": whole - lost, "accuracy_drop": lost, "loss_increase": 5 * lost, **beside}


def _patched(rng, gamma, seed, stage, counterfactual, layer, component, role):
    value = _carried(counterfactual, component, layer, role, paper_like(gamma, seed)) + rng.normal(0, 0.02)
    return {"recovered": value, "low": value - 0.05, "high": value + 0.05, "control": rng.normal(0, 0.01), "n": 64}


def _carried(counterfactual, component, layer, role, paper):
    """Share of what differs that a cell carries, roughly as in the two circuits."""
    if (component, layer, role) == ("resid_post", 1, "last"):
        return 1.0
    if (component, role) == ("mlp_out", "last"):
        return -0.4 if layer else 0.1
    early = {("resid_pre", 0), *([("resid_post", 0), ("resid_pre", 1)] if paper else [])}
    if (component, layer) in early and role == ("key" if counterfactual == "key" else "first_anchor"):
        return 1.0 if counterfactual == "key" else 0.5
    if (component, layer, role) == ("attn_out", 1, "last"):
        return 1.1 if counterfactual == "key" or not paper else 0.05
    if (component, layer, role) == ("attn_out", 0, "last" if counterfactual == "anchors" else "last_anchor"):
        return float(paper == (counterfactual == "anchors"))
    return 0.0


def _event(rng, gamma, seed, event):
    """Some events never happen."""
    number = list(CRITERIA).index(event)
    step = float(rng.integers(50, 200) * (1 + number)) if (number + seed) % 4 else math.nan
    return {"event_of": "loss" if event in SETS else "mechanism", "step": step, "censored": math.isnan(step)}
