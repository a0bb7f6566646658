"""A made-up study, plausible and always the same, so that figures and report can be looked at without training."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from synthetic_causes import make_causes, make_rates, make_tables, paper_like

from rb_interp.figures.evidence import Evidence
from rb_interp.tasks import AnchorTask

COMPONENTS = ("resid_pre.0", "attn_out.0", "mlp_out.0", "attn_out.1", "mlp_out.1", "resid_post.1")
D_MODEL, D_HEAD = 64, 32


def make_evidence(gammas=(0.3, 0.5, 0.8), seeds=5, task=None, tier="quick", steps=6000) -> Evidence:
    """Evidence of a study in which most, not all, of the paper's claims would hold."""
    task = task or AnchorTask()
    tables = make_tables(gammas, seeds, steps)
    readings, arrays, circuits, curves = [], {}, [], []
    for gamma in gammas:
        for seed in range(seeds):
            rng = np.random.default_rng([seed, int(100 * gamma)])
            circuit = "average-then-key" if paper_like(gamma, seed) else ("none" if gamma < 0.4 else "key-to-anchors")
            half, table = _curves(gamma, seed, task, rng, steps)
            curves += table
            found, extra = _member(gamma, seed, task, rng, steps, half, paper_like(gamma, seed))
            readings += found
            arrays.update(extra)
            circuits.append({"gamma": gamma, "seed": seed, "circuit": circuit, "tv_half": 0.05, "key_final": 0.9})
    return Evidence(
        config={
            "preset": tier,
            "gammas": list(gammas),
            "seeds": list(range(seeds)),
            "task": {"q": task.q, "keys": task.keys},
            "model": {"d_model": D_MODEL, "norm": "none", "gammas": {"embedding": None}},
            "train": {"steps": steps, "lr": 1e-3},
        },
        tier=tier,
        curves=pd.DataFrame(curves),
        readings=pd.DataFrame(readings),
        circuits=pd.DataFrame(circuits),
        arrays=arrays,
        claims=make_claims(seeds, tier),
        sample=task.dataset(seed=0),
        meta={
            "versions": {"python": "3.11.2", "torch": "2.13.0", "rb_interp": "0.1.0"},
            "wall_seconds": 271.4,
            "host": "2 cores",
            "command": "rb-interp reproduce --preset quick",
            "expected_holds_by_chance": 0.42,
            "circuit_thresholds": {
                "average-then-key": "TV at half <= .20 and final layer-2 attention on the key >= .50",
                "none": "nothing else applies",
            },
            "calibration": {"family": "norm none, 2 layers, learned positions", "rates": make_rates()},
        },
        tables=tables,
        causes=make_causes(tables["effects"], tier),
    )


def make_claims(seeds: int = 5, tier: str = "quick") -> list[dict]:
    """Claims with every verdict, a claim of two parts, a missing value, and text that must be escaped."""
    base = {
        "gamma": "0.8",
        "stage": "final",
        "tier": tier,
        "calibrated": False,
        "n_seeds": seeds,
        "met_at_initialisation": False,
    }
    a1 = base | {
        "id": "A1",
        "statement": "Small initialisation learns reasoning before memory.",
        "source": "Fig. 3A right",
        "statistic": "B and B_test",
        "criterion": "B >= .10 and B_test >= .10",
        "verdict": "HOLDS",
        "effect": 0.312,
        "low": 0.271,
        "high": 0.353,
        "n_meeting": seeds,
        "twin": 0.0,
    }
    a1["parts"] = [
        {
            "statistic": "B",
            "criterion": ">= .10",
            "effect": 0.312,
            "low": 0.271,
            "high": 0.353,
            "n_seeds": seeds,
            "n_meeting": seeds,
            "twin": 0.0,
            "verdict": "HOLDS",
        },
        {
            "statistic": "B_test",
            "criterion": ">= .10",
            "effect": 0.29,
            "low": 0.2,
            "high": 0.38,
            "n_seeds": seeds,
            "n_meeting": seeds,
            "twin": 0.0,
            "verdict": "HOLDS",
        },
    ]
    m1 = base | {
        "id": "M1",
        "statement": "The first layer's attention averages <all> tokens & nothing else.",
        "source": "Fig. 6, attention",
        "statistic": "mean TV of layer-1 rows 2..L from 1/i",
        "criterion": "<= .10",
        "stage": "half",
        "verdict": "UNDECIDED",
        "effect": 0.0841,
        "low": -0.021,
        "high": 0.189,
        "n_meeting": seeds - 2,
        "twin": 0.0003,
        "met_at_initialisation": True,
    }
    a5 = base | {
        "id": "A5",
        "statement": "The rule extends to anchors never seen together.",
        "source": "Fig. 3A right",
        "statistic": "accuracy on rsn_test",
        "criterion": ">= .90",
        "verdict": "FAILS",
        "effect": 0.412,
        "low": 0.2,
        "high": 0.62,
        "n_meeting": 0,
        "twin": None,
    }
    m7b = base | {
        "id": "M7b",
        "statement": "On memory inputs too, layer 2 fetches the key.",
        "source": "second attention",
        "statistic": "attention to the key",
        "criterion": ">= .90",
        "verdict": "UNDECIDED",
        "effect": float("nan"),
        "low": float("nan"),
        "high": float("nan"),
        "n_meeting": 0,
        "twin": 0.11,
        "n_seeds": 0,
    }
    return [a1, a5, m1, m7b]


def _curves(gamma, seed, task, rng, steps):
    grid = np.arange(0, steps + 1, max(25, steps // 2000))
    top, out, half = math.log(task.d_vocab), [], 0
    speed = {"mem": 1800 + 900 * (gamma > 0.4), "rsn_train": 1700 - 1100 * (gamma > 0.4) - 150 * (gamma > 0.7)}
    speed["rsn_test"] = speed["rsn_train"] * 1.25
    for name in ("mem", "rsn_train", "rsn_test"):
        centre = speed[name] * rng.uniform(0.9, 1.12) / (6000 / steps)
        fall = 1 / (1 + (grid / centre) ** 3)
        low = 0.9 if (name == "mem" and gamma > 0.7) else 0.05
        fails = name == "rsn_test" and (gamma < 0.4 or (gamma < 0.7 and seed % 2))
        loss = low + (top - low) * fall if not fails else top + 1.6 * (1 - fall)
        loss = np.maximum(loss + rng.normal(0, 0.02, len(grid)), 0.001)
        accuracy = np.clip((1 - fall) ** 2 * (0.05 if fails else 1 - low / 4), 0, 1)
        if name == "rsn_train":
            half = int(grid[np.argmax(loss <= top / 2)])
        out += [
            {"gamma": gamma, "seed": seed, "step": int(s), "set": name, "loss": x, "accuracy": a}
            for s, x, a in zip(grid, loss, accuracy, strict=True)
        ]
    return half, out


def _embedding(gamma, task, rng, trained):
    """Embedding of all used tokens: noise, and for a trained small initialisation a curve ordered by value."""
    tokens = np.concatenate([task.tokens(g) for g in ("key", "memory_anchor", "reasoning_anchor")])
    group = np.repeat([0, 1, 2], [len(task.tokens(g)) for g in ("key", "memory_anchor", "reasoning_anchor")])
    noise = rng.normal(0, D_MODEL**-gamma, (len(tokens), D_MODEL))
    if not trained or gamma < 0.4:
        return tokens, group, noise
    basis = np.linalg.qr(rng.normal(size=(D_MODEL, 4)))[0].T
    place = np.zeros(len(tokens))
    for which in (0, 2):
        of = group == which
        place[of] = np.linspace(-1, 1, of.sum())
    angle = 1.0 * place + 0.1 * rng.normal(size=len(place))
    curve = np.outer(np.sin(angle), basis[0]) + np.outer(0.5 * np.cos(2 * angle), basis[1])
    shared = np.outer(np.array([0.1, 1.2, 0.8])[group], basis[2]) + np.outer(np.array([1, 0, 0.2])[group], basis[3])
    curve[group == 1] = 0
    return tokens, group, curve + shared + 2.2 * noise


def _cosines(matrix):
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit @ unit.T


def _member(gamma, seed, task, rng, steps, half, paper_like):
    rows, arrays = [], {}
    length, stages = task.length, {"init": 0, "half": half, "matched": int(half * 0.9), "final": steps}

    def add(stage, probe, quantity, value, inputs="", layer=None, twin=math.nan):
        rows.append(
            {
                "gamma": gamma,
                "seed": seed,
                "stage": stage,
                "step": stages[stage],
                "rows": inputs,
                "probe": probe,
                "layer": layer,
                "head": None if layer is None else 0,
                "quantity": quantity,
                "value": float(value),
                "twin": twin,
                "null": None,
                "null_mean": math.nan,
                "null_sd": math.nan,
                "p_value": math.nan,
                "n": 400,
            }
        )

    def keep(stage, probe, name, array, inputs=""):
        arrays[f"{gamma}/{seed}/{stage}/{inputs}/{probe}/{name}"] = np.asarray(array)

    noisy = 0.02 if paper_like else (0.5 if gamma < 0.4 else 0.22)
    for stage in stages:
        trained = stage != "init"
        _attention(add, keep, stage, rng, length, noisy if trained else 0.01)
        _geometry(add, keep, stage, gamma, task, np.random.default_rng([seed, 7]), trained)
        _alignment(add, keep, stage, gamma, task, rng, trained)
    for inputs in ("rsn_train", "mem"):
        key = rng.uniform(0.9, 0.99) if paper_like else rng.uniform(0.1, 0.3)
        rest = rng.dirichlet([6 if not paper_like else 1, 1, 3]) * (1 - key)
        names = ("key", "anchors", "self", "noise", *(f"anchor_{i}" for i in range(1, task.q + 1)))
        for name, value in zip(names, (key, *rest, *([rest[0] / task.q] * task.q)), strict=True):
            add("final", "routing", name, value, inputs, 1, 1 / length)
    for component in COMPONENTS:
        for grouping in (
            "key",
            "anchor_sum",
            *(f"anchor_{i}" for i in range(1, task.q + 1)),
            "anchors",
            "key_and_sum",
            "interaction",
        ):
            strong = (component, grouping) in {
                ("attn_out.1", "key"),
                ("attn_out.0", "anchor_sum"),
                ("resid_post.1", "key_and_sum"),
            }
            add(
                "final",
                "composition",
                f"{component}:{grouping}",
                rng.uniform(0.75, 0.95) if strong and gamma > 0.4 else rng.uniform(-0.02, 0.3),
                "rsn_train",
                twin=0.02,
            )
    bias = {0.3: 0.02, 0.5: 0.2}.get(gamma, 0.33) + rng.normal(0, 0.02)
    for name, value in (
        ("bias", bias),
        ("bias_test", bias - (0.4 if gamma < 0.4 else 0.04)),
        ("half_step", half),
        ("acc_mem", 0.7),
        ("acc_rsn_train", 0.99),
        ("acc_rsn_test", 0.05 if gamma < 0.4 else 0.93),
        ("abs_bias", abs(bias)),
    ):
        add("final", "learning_order", name, value)
    return rows, arrays


def _attention(add, keep, stage, rng, length, noisy):
    mean = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
    for i in range(1, length):
        mean[i, : i + 1] = (1 - noisy) * mean[i, : i + 1] + noisy * rng.dirichlet(np.full(i + 1, 0.6))
    average = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
    distance = 0.5 * np.abs(mean - average).sum(1)[1:]
    add(stage, "uniformity", "tv", distance.mean(), "rsn_train", 0)
    keep(stage, "uniformity", "tv_per_row", distance, "rsn_train")
    keep(stage, "uniformity", "mean_pattern", mean, "rsn_train")


def _geometry(add, keep, stage, gamma, task, rng, trained):
    tokens, group, matrix = _embedding(gamma, task, rng, trained)
    memory, reasoning = matrix[group == 1], matrix[group == 2]
    centred = matrix - matrix.mean(0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    cosines = _cosines(matrix)
    expected = math.gamma(D_MODEL / 2) / (math.sqrt(math.pi) * math.gamma((D_MODEL + 1) / 2))
    off = ~np.eye(len(matrix), dtype=bool)
    s = task.tokens("reasoning_anchor")
    theory = np.exp(-((np.arange(task.d_vocab) - s[:, None]) ** 2) / 12) - 1 / task.d_vocab
    used = np.concatenate([s, task.tokens("key")])
    both = np.exp(-((np.arange(task.d_vocab) - used[:, None]) ** 2) / 12)
    pc = np.linalg.svd(both - both.mean(0), full_matrices=False)
    for name, value in (
        ("cos_memory", _cosines(memory)[~np.eye(len(memory), dtype=bool)].mean()),
        ("order_rho", -0.9 if trained else 0.1),
        ("abs_cos", np.abs(cosines[off]).mean()),
        ("abs_cos_ratio", np.abs(cosines[off]).mean() / expected),
        ("pc1_key", 0.97),
        ("pc1_reasoning", 0.98),
        ("theory", 0.93),
    ):
        add(stage, "geometry", name, value, twin=0.1)
    for name, array in (
        ("cos_memory_matrix", _cosines(memory)),
        ("cos_reasoning_matrix", _cosines(reasoning)),
        ("cos_all_matrix", cosines),
        ("tokens", tokens),
        ("group", group),
        ("pca", (left * values)[:, :3]),
        ("explained", values**2 / (values**2).sum()),
        ("theory_cos_matrix", _cosines(theory)),
        ("pca_theory", (pc[0] * pc[1])[:, :2]),
        ("pca_theory_tokens", used),
        ("pca_theory_group", np.repeat([2, 0], [len(s), len(used) - len(s)])),
    ):
        keep(stage, "geometry", name, array)


def _alignment(add, keep, stage, gamma, task, rng, trained):
    values = np.sort(np.abs(rng.normal(1, 0.3, D_HEAD)))[::-1]
    if trained and gamma > 0.4:
        values[0] *= 2.2
    groups = np.repeat([0, 1, 2], [len(task.tokens(g)) for g in ("key", "memory_anchor", "reasoning_anchor")])
    strength = np.array([0.1, 0.12, 0.85 if trained and gamma > 0.4 else 0.1])[groups]
    cosines = np.clip(strength + rng.normal(0, 0.07, (3, len(groups))), -1, 1)
    for name, value in (
        ("spectrum_ratio", values[0] / values[1]),
        ("cos_reasoning", np.abs(cosines[0, groups == 2]).mean()),
        ("cos_memory", np.abs(cosines[0, groups == 1]).mean()),
        ("cos_gap", 0.6),
    ):
        add(stage, "value_alignment", name, value, layer=0)
    keep(stage, "value_alignment", "singular_values", values)
    keep(stage, "value_alignment", "cosines", cosines)
    keep(
        stage,
        "value_alignment",
        "tokens",
        np.concatenate([task.tokens(g) for g in ("key", "memory_anchor", "reasoning_anchor")]),
    )
    keep(stage, "value_alignment", "group", groups)
