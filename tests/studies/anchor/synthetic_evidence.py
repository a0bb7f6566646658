"""A made-up run of the anchor study, plausible and always the same, so that figures need no training."""

from __future__ import annotations

import math
from functools import cache, partial
from itertools import product

import numpy as np
import pandas as pd
from made_up import MadeUp
from synthetic_causes import STAGES, STEPS, add_causes, paper_like
from table_columns import check_tables

from rb_interp.figures.evidence import Evidence
from rb_interp.interventions.circuits import NEEDED, ROUTES
from rb_interp.probes import from_arrays, geometry, uniformity
from rb_interp.probes._attention import average_operator
from rb_interp.probes.values import numbered
from rb_interp.runs.measured import Measured, readings_table
from rb_interp.statistics.learning_order import learning_order_table
from rb_interp.studies.anchor import ANCHOR
from rb_interp.studies.anchor.causes import effect_readings
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.studies.anchor.measure import compare, summaries
from rb_interp.tasks import SETS, Inputs, batteries
from rb_interp.tasks.anchor import GROUPS

COMPONENTS = ("resid_pre.0", "attn_out.0", "mlp_out.0", "attn_out.1", "mlp_out.1", "resid_post.1")
STRONG = {("attn_out.1", "key"), ("attn_out.0", "anchor_sum"), ("resid_post.1", "key_and_sum")}
D_MODEL, D_HEAD = 64, 32
META = {"versions": {"python": "3.11.2"}, "command": "rb-interp reproduce anchor", "toml": 'study = "anchor"'}


@cache
def make_evidence(gammas: tuple[float, ...] = (0.3, 0.5, 0.8), seeds: int = 5) -> Evidence:
    """Evidence of a run in which most, not all, of the paper's claims would hold."""
    made = MadeUp(ANCHOR, AnchorConfig(gammas=gammas, seeds=tuple(range(seeds))))
    for gamma, seed in product(gammas, range(seeds)):
        _add_member(made, gamma, seed)
        add_causes(made, gamma, seed)
    made.extend("readings", readings_table(effect_readings(made.tables()["effects"])))
    compared = _equivalence(made.config.task, range(seeds) if 0.8 in gammas else ())
    made.extend("readings", compared.readings)
    return made.evidence(lambda evidence: compared.tables | statistics(evidence.tables), **META)


def statistics(tables) -> dict[str, pd.DataFrame]:
    return summaries(tables["circuits"], tables["events"])


def _equivalence(task, seeds) -> Measured:
    """Members are right but for a few rows; those of the paper's circuit fail on short rows, each in its own way."""
    battery = batteries(task, rows=200) if seeds else {}
    answers = {name: {seed: _answers(name, rows, seed) for seed in seeds} for name, rows in battery.items()}
    untrained = {name: {seed: 0 * given[seed] + seed for seed in seeds} for name, given in answers.items()}
    names = {seed: "average-then-key" if paper_like(0.8, seed) else "key-to-anchors" for seed in seeds}
    return compare(battery, answers, untrained, names, STEPS[-1])


def _answers(name, rows, seed):
    rng, labels = np.random.default_rng([seed, 9]), rows.inputs.labels
    wrong = 0.9 if name.startswith("length_") and paper_like(0.8, seed) else 0.02
    return np.where(rng.random(len(labels)) < wrong, rng.integers(0, 100, len(labels)), labels)


def with_tables(evidence: Evidence, **changed: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables of a run with some changed, and their statistics made anew."""
    tables = {**evidence.tables, **changed}
    made = tables | statistics(tables)
    check_tables(ANCHOR, made)
    return made


def _add_member(made: MadeUp, gamma: float, seed: int) -> None:
    """One member's curves, readings and arrays."""
    rng, task, paper = np.random.default_rng([seed, int(100 * gamma)]), made.config.task, paper_like(gamma, seed)
    for name in SETS:
        curve = partial(_curve, rng, math.log(task.d_vocab), rng.uniform(0.9, 1.12))
        made.fill("curves", curve, gamma=[gamma], seed=[seed], set=[name], step=STEPS)
    order = learning_order_table(pd.DataFrame(made.rows["curves"][-len(SETS) * len(STEPS) :]), task.d_vocab, {})
    made.extend("readings", order)
    half = int(order.set_index("quantity").at["half_step", "value"])
    for stage, step in zip(STAGES, (0, half, int(half * 0.9), STEPS[-1]), strict=True):
        read, trained = partial(made.reading, gamma=gamma, seed=seed, stage=stage, step=step), stage != "init"
        noisy = (0.02 if paper else 0.5 if gamma < 0.4 else 0.22) if trained else 0.01
        _attention(partial(read, set="rsn_train", layer=0, head=0), rng, task.length, noisy)
        read("geometry", *_geometry(task, gamma, seed, trained), untrained=0.1)
        _alignment(partial(read, layer=0, head=0), rng, task, gamma > 0.4 and trained)
    _roles_and_shares(read, rng, task, gamma, paper)
    _routes(read, paper)


def _routes(read, paper):
    """Everything by the paper's routes, or from the anchors."""
    for change, route in (("key", "from_key"), ("anchors", "L0_at_last")):
        other = {"key": (0.5, 0.5), "anchors": (0.55, 0.45)}[change]
        parts = dict.fromkeys(ROUTES, 0.0) | ({route: 1.0} if paper else {"from_anchors": 1.0})
        if not paper:
            parts |= dict(zip(("from_first_anchors", "from_last_anchor"), other, strict=True))
        for end in ("", NEEDED):
            values = {f"{change}:{name}{end}": value for name, value in parts.items()}
            read("routes", values, set="rsn_train", untrained=math.nan)


def _curve(rng, top, pace, gamma, seed, set, step):
    slow = {"mem": 1800 + 900 * (gamma > 0.4), "rsn_train": 1700 - 1100 * (gamma > 0.4) - 150 * (gamma > 0.7)}
    fall = 1 / (1 + (step / (pace * slow.get(set, 1.25 * slow["rsn_train"]))) ** 3)
    low = 0.9 if (set == "mem" and gamma > 0.7) else 0.05
    fails = set == "rsn_test" and (gamma < 0.4 or (gamma < 0.7 and seed % 2))
    loss = low + (top - low) * fall if not fails else top + 1.6 * (1 - fall)
    accuracy = np.clip((1 - fall) ** 2 * (0.05 if fails else 1 - low / 4), 0, 1)
    return {"loss": max(loss + rng.normal(0, 0.02), 0.001), "accuracy": accuracy}


def _roles_and_shares(read, rng, task, gamma, paper):
    for inputs in ("rsn_train", "mem"):
        key = rng.uniform(0.9, 0.99) if paper else rng.uniform(0.1, 0.3)
        rest = rng.dirichlet([1 if paper else 6, 1, 3]) * (1 - key)
        shares = dict(zip(("key", "anchors", "self", "noise"), (key, *rest), strict=True))
        read("attention_by_role", shares, set=inputs, layer=1, head=0, untrained=1 / task.length)
    anchors = [f"anchor_{i}" for i in range(1, task.q + 1)]
    for place in product(COMPONENTS, ("key", "anchor_sum", *anchors, "anchors", "key_and_sum", "interaction")):
        value = rng.uniform(0.75, 0.95) if place in STRONG and gamma > 0.4 else rng.uniform(-0.02, 0.3)
        read("variance_explained", {":".join(place): value}, set="rsn_train", untrained=0.02)


def _groups(task):
    return {name: task.tokens(tokens) for name, tokens in GROUPS.items()}


def _attention(read, rng, length, noisy):
    pattern = average_operator(length)
    for i in range(1, length):
        pattern[i, : i + 1] = (1 - noisy) * pattern[i, : i + 1] + noisy * rng.dirichlet(np.full(i + 1, 0.6))
    found = uniformity(from_arrays(pattern=pattern[None, None, None]), Inputs(np.zeros((1, length), int)), n_null=0)
    read("uniformity", found.values, found.arrays)


@cache
def _geometry(task, gamma, seed, trained):
    """What the probe reads of noise, and for a trained small initialisation of a curve ordered by value."""
    rng, (tokens, group) = np.random.default_rng([seed, 7]), numbered(_groups(task))
    rows, on_curve = rng.normal(0, D_MODEL**-gamma, (len(tokens), D_MODEL)), np.array([1, 0, 1])[group]
    if trained and gamma >= 0.4:
        basis, place = np.linalg.qr(rng.normal(size=(D_MODEL, 4)))[0], np.zeros(len(tokens))
        for which in (0, 2):
            place[group == which] = np.linspace(-1, 1, (group == which).sum())
        angle = place + 0.1 * rng.normal(size=len(place))
        shared = [np.array([0.1, 1.2, 0.8])[group], np.array([1, 0, 0.2])[group]]
        curve = [on_curve * np.sin(angle), on_curve * 0.5 * np.cos(2 * angle)]
        rows = np.stack([*curve, *shared], 1) @ basis.T + 2.2 * rows
    embedding = np.zeros((task.d_vocab, D_MODEL))
    embedding[tokens] = rows
    asked = {"alike": ("memory", "reasoning"), "ordered": ("key", "reasoning"), "n_null": 0}
    found = geometry(from_arrays(W_E=embedding), groups=_groups(task), **asked)
    return found.values, found.arrays


def _alignment(read, rng, task, strong):
    tokens, group = numbered(_groups(task))
    singular = np.sort(np.abs(rng.normal(1, 0.3, D_HEAD)))[::-1]
    singular[0] *= 2.2 if strong else 1
    strength = np.array([0.1, 0.12, 0.85 if strong else 0.1])[group]
    cosines = np.clip(strength + rng.normal(0, 0.07, (3, len(tokens))), -1, 1)
    values = {f"cos_{name}": np.abs(cosines[0, group == at]).mean() for at, name in ((1, "memory"), (2, "reasoning"))}
    values |= {"spectrum_ratio": singular[0] / singular[1], "cos_gap": 0.6}
    values |= {f"ov_{name}": value * (1.5 if name == "spectrum_ratio" else 1) for name, value in values.items()}
    read("value_alignment", values, {"singular_values": singular, "cosines": cosines, "tokens": tokens, "group": group})
