"""A made-up run of the anchor study, plausible and always the same, so that figures need no training.

Readings and statistics over seeds go through the machine's own functions and have the schema of real runs.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
from synthetic_causes import make_tables, paper_like

from rb_interp.claims import Verdicts, judge, judge_checks
from rb_interp.figures.evidence import Evidence
from rb_interp.machine.measured import readings_table, summary_table
from rb_interp.studies.anchor.checks import CHECKS
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.studies.anchor.summaries import array_means, summaries
from rb_interp.tasks import AnchorTask

COMPONENTS = ("resid_pre.0", "attn_out.0", "mlp_out.0", "attn_out.1", "mlp_out.1", "resid_post.1")
STRONG = {("attn_out.1", "key"), ("attn_out.0", "anchor_sum"), ("resid_post.1", "key_and_sum")}
D_MODEL, D_HEAD, EVALUATIONS = 64, 32, 60


@cache
def make_evidence(
    gammas: tuple[float, ...] = (0.3, 0.5, 0.8), seeds: int = 5, steps: int = 6000, task: AnchorTask | None = None
) -> Evidence:
    """Evidence of a run in which most, not all, of the paper's claims would hold."""
    config = AnchorConfig(gammas=gammas, seeds=tuple(range(seeds)), task=task or AnchorTask())
    members = [Member(gamma, seed, config.task, steps) for gamma in gammas for seed in range(seeds)]
    curves = pd.DataFrame([row for member in members for row in member.curves]).assign(sweep="")
    tables, effects = make_tables(gammas, seeds, steps)
    readings = readings_table([row for member in members for row in member.rows], effects)
    arrays = {key: array for member in members for key, array in member.arrays.items()}
    siblings = config.sibling_stages
    return Evidence(
        config=config,
        scale="custom",
        curves=curves,
        readings=readings,
        summary=summary_table(readings),
        arrays=arrays | array_means(arrays),
        verdicts=Verdicts(judge(readings, CLAIMS)),
        tables=tables | summaries(tables, curves),
        checks=judge_checks(readings, tables["effects"], CHECKS, sibling_stages=siblings),
        claims=CLAIMS,
        meta={"versions": {"python": "3.11.2"}, "command": "rb-interp reproduce anchor", "toml": 'study = "anchor"'},
    )


def with_tables(evidence: Evidence, **changed: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables of a run with some changed, and their statistics made anew."""
    tables = {**evidence.tables, **changed}
    return tables | summaries(tables, evidence.curves)


class Member:
    """One member's curves, readings and arrays."""

    def __init__(self, gamma: float, seed: int, task: AnchorTask, steps: int) -> None:
        self.gamma, self.seed, self.task = gamma, seed, task
        self.rng = np.random.default_rng([seed, int(100 * gamma)])
        self.rows: list[dict] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.curves, half = _curves(gamma, seed, task, self.rng, steps)
        self.stages = {"init": 0, "half": half, "matched": int(half * 0.9), "final": steps}
        for stage in self.stages:
            trained = stage != "init"
            noisy = 0.02 if paper_like(gamma, seed) else 0.5 if gamma < 0.4 else 0.22
            _attention(self.add, self.keep, stage, self.rng, task.length, noisy if trained else 0.01)
            _geometry(self.add, self.keep, stage, gamma, task, np.random.default_rng([seed, 7]), trained)
            _alignment(self.add, self.keep, stage, gamma, task, self.rng, trained)
        _roles_and_shares(self.add, self.rng, task, gamma, paper_like(gamma, seed))
        bias = {0.3: 0.02, 0.5: 0.2}.get(gamma, 0.33) + self.rng.normal(0, 0.02)
        tests = {"acc_mem": 0.7, "acc_rsn_train": 0.99, "acc_rsn_test": 0.05 if gamma < 0.4 else 0.93}
        found = {"bias": bias, "bias_test": bias - (0.4 if gamma < 0.4 else 0.04), "abs_bias": abs(bias), **tests}
        for name, value in {**found, "half_step": half}.items():
            self.add("final", "learning_order", name, value)

    def add(self, stage, probe, quantity, value, inputs="", layer=math.nan, untrained=math.nan):
        """A reading."""
        place = {"sweep": "", "gamma": self.gamma, "seed": self.seed, "stage": stage, "step": self.stages[stage]}
        nothing = {"null": None, "null_mean": math.nan, "null_sd": math.nan, "p_value": math.nan, "n": 400}
        what = {"probe": probe, "layer": layer, "head": 0 * layer, "quantity": quantity, "value": float(value)}
        self.rows.append({**place, "set": inputs, **what, "untrained": untrained, **nothing})

    def keep(self, stage, probe, name, array, inputs=""):
        """An array."""
        self.arrays[f"{self.gamma}/{self.seed}/{stage}/{inputs}/{probe}/{name}"] = np.asarray(array)


def _curves(gamma, seed, task, rng, steps):
    grid = np.linspace(0, steps, EVALUATIONS + 1).astype(int)
    top, out, half = math.log(task.d_vocab), [], 0
    speed = {"mem": 1800 + 900 * (gamma > 0.4), "rsn_train": 1700 - 1100 * (gamma > 0.4) - 150 * (gamma > 0.7)}
    speed["rsn_test"] = speed["rsn_train"] * 1.25
    for name in ("mem", "rsn_train", "rsn_test"):
        fall = 1 / (1 + (grid / (speed[name] * rng.uniform(0.9, 1.12) / (6000 / steps))) ** 3)
        low = 0.9 if (name == "mem" and gamma > 0.7) else 0.05
        fails = name == "rsn_test" and (gamma < 0.4 or (gamma < 0.7 and seed % 2))
        loss = low + (top - low) * fall if not fails else top + 1.6 * (1 - fall)
        loss = np.maximum(loss + rng.normal(0, 0.02, len(grid)), 0.001)
        accuracy = np.clip((1 - fall) ** 2 * (0.05 if fails else 1 - low / 4), 0, 1)
        half = int(grid[np.argmax(loss <= top / 2)]) if name == "rsn_train" else half
        out += [
            {"gamma": gamma, "seed": seed, "step": int(s), "set": name, "loss": x, "accuracy": a}
            for s, x, a in zip(grid, loss, accuracy, strict=True)
        ]
    return out, half


def _roles_and_shares(add, rng, task, gamma, paper):
    anchors = [f"anchor_{i}" for i in range(1, task.q + 1)]
    for inputs in ("rsn_train", "mem"):
        key = rng.uniform(0.9, 0.99) if paper else rng.uniform(0.1, 0.3)
        rest = rng.dirichlet([1 if paper else 6, 1, 3]) * (1 - key)
        for name, value in zip(("key", "anchors", "self", "noise"), (key, *rest), strict=True):
            add("final", "attention_by_role", name, value, inputs, 1, 1 / task.length)
    for component in COMPONENTS:
        for grouping in ("key", "anchor_sum", *anchors, "anchors", "key_and_sum", "interaction"):
            strong = (component, grouping) in STRONG and gamma > 0.4
            value = rng.uniform(0.75, 0.95) if strong else rng.uniform(-0.02, 0.3)
            add("final", "variance_explained", f"{component}:{grouping}", value, "rsn_train", untrained=0.02)


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
        add(stage, "geometry", name, value, untrained=0.1)
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
    strong = trained and gamma > 0.4
    values = np.sort(np.abs(rng.normal(1, 0.3, D_HEAD)))[::-1]
    values[0] *= 2.2 if strong else 1
    names = ("key", "memory_anchor", "reasoning_anchor")
    groups = np.repeat([0, 1, 2], [len(task.tokens(name)) for name in names])
    strength = np.array([0.1, 0.12, 0.85 if strong else 0.1])[groups]
    cosines = np.clip(strength + rng.normal(0, 0.07, (3, len(groups))), -1, 1)
    leading = {name: np.abs(cosines[0, groups == at]).mean() for at, name in ((1, "cos_memory"), (2, "cos_reasoning"))}
    for name, value in {"spectrum_ratio": values[0] / values[1], **leading, "cos_gap": 0.6}.items():
        add(stage, "value_alignment", name, value, layer=0)
    tokens = np.concatenate([task.tokens(name) for name in names])
    arrays = {"singular_values": values, "cosines": cosines, "tokens": tokens, "group": groups}
    for name, array in arrays.items():
        keep(stage, "value_alignment", name, array)
