"""What the Emb-MLP study reads: learning order, geometry, and predicted beside measured motion of the weights.

Predictions of the embedding's drift W_E(t) - W_E(0), one for each way of leaving something out:

    each_step    R M summed over the steps with the weights that each step began with, R from the training rows
    step_0       the same with the weights of step 0 throughout
    population   as each_step, with R from infinitely many rows of the combinations that are trained on (Eqs. 6 to 8)
    positions    one layer alone: as each_step, with each token's actual share of occurrences at the last position,
                 which Propositions 2 and 3 take as 1 / L
    sequences    as each_step, where a row counts once however often it holds a token, as Eq. 4 is printed
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from rb_interp.models.config import ModelConfig
from rb_interp.probes import geometry
from rb_interp.probes.learning_order import fraction_left, label_entropy, learning_order_table
from rb_interp.probes.lemma_1 import lemma_1_table
from rb_interp.study.measure import joined, typed
from rb_interp.study.models import MemberModels
from rb_interp.study.run import Run
from rb_interp.study.series import SeriesMeasured
from rb_interp.study.series_config import EARLY, LATE, Scaling
from rb_interp.tasks import SETS, AnchorDataset, AnchorTask
from rb_interp.theory.agreement import agreement, permuted_r2
from rb_interp.theory.drift import emb_mlp_map, leading_direction, one_layer_drift, one_layer_maps, pull
from rb_interp.theory.inner_products import exponent, inner_product_error
from rb_interp.theory.label_distributions import empirical, population, population_pull
from rb_interp.training.member_group import Member
from rb_interp.training.schedule import checkpoint_steps, learning_rate, step_at
from rb_interp.training.store import Checkpoint

AGREES = 0.9
"""Agreement below this counts as lost."""
GROUPS = {
    "anchor": ("memory_anchor", "reasoning_anchor"),
    "memory_anchor": ("memory_anchor",),
    "reasoning_anchor": ("reasoning_anchor",),
    "key": ("key",),
}
KEYS = ["part", "gamma", "seed", "group", "prediction"]


def measure_emb_mlp(parts: Mapping[str, Run], scaling: Scaling | None, progress: bool = True) -> SeriesMeasured:
    """Readings, tables and arrays of a trained Emb-MLP study.

    Raises RunError where a checkpoint is missing or broken.
    """
    readings, arrays = [_learning_order(parts["sweep"]).assign(part="sweep")], {}
    for row, found in _geometry(parts["sweep"], progress):
        readings.append(pd.DataFrame(row))
        arrays |= found
    drifts, flows = [], []
    for name, run in parts.items():
        rows, leaving, flow = measure_drift(run, progress, name)
        drifts.append(rows.assign(part=name))
        readings.append(leaving.assign(part=name))
        flows.append(flow.assign(part=name))
    drift = joined(*drifts)
    sweep = parts["sweep"].config
    tables = {
        "drift": drift,
        "agreement": agreement_table(drift),
        "value_flow": joined(*(flow for flow in flows if len(flow))),
        "label_distributions": label_distribution_table(sweep.task, sweep.seeds[0]),
    }
    if scaling is not None:
        tables |= scaling_tables(parts["one_layer"].config.task, scaling, sweep.seeds)
    table = typed(joined(*readings))
    table.insert(0, "part", table.pop("part"))
    return SeriesMeasured(table, tables, arrays)


def _learning_order(run: Run) -> pd.DataFrame:
    config = run.config
    data = {seed: config.task.dataset(seed) for seed in config.seeds}
    entropies = {(s, kind): label_entropy(d.labels[d.rows(kind)]) for s, d in data.items() for kind in SETS}
    return learning_order_table(run.curves(), config.task.d_vocab, entropies)


def _geometry(run: Run, progress: bool) -> Iterator[tuple[list[dict], dict[str, np.ndarray]]]:
    """Geometry of every member's embedding, with the untrained twin beside it, at the stages of Fig. 4A and others."""
    train, models = run.config.train, MemberModels(run)
    stages = {"init": "init", "half": "half", "early": step_at(EARLY, train), "late": step_at(LATE, train)}
    for member in tqdm(run.members, disable=not progress, unit="member", desc="probing embeddings"):
        data = run.config.task.dataset(member.seed)
        rows = data.sample("rsn_train", 1)
        for stage, place in {**stages, "final": "final"}.items():
            checkpoint = models.load(member, place)
            reading = geometry(
                models.model, data.tokens[rows], data.roles(rows), twin=models.twin, n_null=run.config.n_null
            )
            where = {"gamma": member.gamma, "seed": member.seed, "stage": stage, "step": checkpoint.step, "rows": ""}
            prefix = f"sweep/{member.gamma}/{member.seed}/{stage}//geometry"
            found = {f"{prefix}/{name}": np.asarray(array) for name, array in reading.arrays.items()}
            yield [{"part": "sweep", **where, **row} for row in reading.table()], found


def measure_drift(run: Run, progress: bool = True, name: str = "") -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Predicted against measured motion at every kept step, the readings at ``leaving``, and the flow of W_V.

    The last table is empty for Emb-MLP, which has no W_V.
    """
    predictions = {member: _Predictions(run, member) for member in run.members}
    fractions = _fractions(run)
    rows, flows, leaving = [], [], []
    steps = checkpoint_steps(run.config.train)
    for step in tqdm(steps, disable=not progress, unit="checkpoint", desc=f"theory beside {name}"):
        checkpoint = run.store.read(f"step_{step:08d}")
        for member, prediction in predictions.items():
            at = {"gamma": member.gamma, "seed": member.seed, "step": step, "fraction": fractions[member][step]}
            rows += [{**at, **row} for row in _kept(prediction.compare(checkpoint))]
            flows += [{**at, **row} for row in prediction.compare_values(checkpoint)]
    for member, prediction in predictions.items():
        checkpoint = run.checkpoint("leaving", member.gamma, member.seed)
        step, compared = checkpoint.step, list(prediction.compare(checkpoint))
        leaving += leaving_readings(member, step, compared)
        if step not in steps:  # every member has its own row where claims are read
            at = {"gamma": member.gamma, "seed": member.seed, "step": step, "fraction": fractions[member][step]}
            rows += [{**at, **row} for row in _kept(compared)]
            flows += [{**at, **row} for row in prediction.compare_values(checkpoint)]
    return pd.DataFrame(rows), pd.DataFrame(leaving), pd.DataFrame(flows)


def _kept(compared: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows for the table of drifts, which leaves out how Eq. 4 is printed."""
    return (row for row in compared if row["prediction"] != "sequences")


def _fractions(run: Run) -> dict[Member, dict[int, float]]:
    """f_rsn_train of every member by evaluated step."""
    curves, d_vocab = run.curves(), run.config.task.d_vocab
    chosen = curves.loc[curves["set"] == "rsn_train"]
    values = chosen.assign(fraction=fraction_left(chosen["loss"].to_numpy(), d_vocab))
    return {
        Member(float(gamma), int(seed)): dict(zip(rows["step"].tolist(), rows["fraction"].tolist(), strict=True))
        for (gamma, seed), rows in values.groupby(["gamma", "seed"])  # type: ignore[misc]
    }


class _Predictions:
    """What theory says of one member, and how it compares with a checkpoint of it."""

    def __init__(self, run: Run, member: Member) -> None:
        self.member, self.config = member, run.config
        task, data = self.config.task, self.config.task.dataset(member.seed)
        rows = data.rows("train")
        tokens, labels = torch.from_numpy(data.tokens[rows]), torch.from_numpy(data.labels[rows])
        self.groups = {name: np.concatenate([task.tokens(kind) for kind in kinds]) for name, kinds in GROUPS.items()}
        self.kinds = {name: np.repeat(kinds, [len(task.tokens(k)) for k in kinds]) for name, kinds in GROUPS.items()}
        self.pulls = {
            count: pull(tokens, labels, task.d_vocab, count, dtype=torch.float64)
            for count in ("occurrences", "sequences")
        }
        self.pulls["population"] = torch.from_numpy(population_pull(task, masked=True))
        self.pulls["last"] = pull(tokens, labels, task.d_vocab, last=True, dtype=torch.float64)
        self.start = {k: v.double() for k, v in run.weights(member.gamma, member.seed, "init").items()}
        self.rates = np.cumsum(
            [0.0, *(learning_rate(step, self.config.train) for step in range(self.config.train.steps))]
        )

    @property
    def one_layer(self) -> bool:
        return self.config.model.architecture == "one_layer"

    def drifts(self, checkpoint: Checkpoint) -> dict[str, Tensor]:
        """Predicted change of W_E, ``[d_vocab d_model]``, by prediction."""
        sums = {k: v.double() for k, v in checkpoint.drift(self.member.gamma, self.member.seed).items()}
        fixed = {name: value * self.rates[checkpoint.step] for name, value in self._maps(self.start).items()}
        of = lambda name, maps: self._drift(self.pulls[name], maps)  # noqa: E731
        found = {
            "each_step": of("occurrences", sums),
            "step_0": of("occurrences", fixed),
            "population": of("population", sums),
            "sequences": of("sequences", sums),
        }
        if self.one_layer:
            found["positions"] = self._drift(self.pulls["occurrences"], sums, self.pulls["last"])
        return found

    def _maps(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if not self.one_layer:
            return {"map": emb_mlp_map(weights["mlp.W_in"], weights["mlp.W_out"])}
        w_v, w_o = (weights[f"blocks.0.attn.W_{name}"][0] for name in "VO")
        w_in, w_out = (weights[f"blocks.0.mlp.W_{name}"] for name in ("in", "out"))
        return dict(zip(("attention", "direct"), one_layer_maps(w_v, w_o, w_in, w_out), strict=True))

    def _drift(self, pull: Tensor, maps: Mapping[str, Tensor], last: Tensor | None = None) -> Tensor:
        if not self.one_layer:
            return pull @ maps["map"]
        return one_layer_drift(pull, maps["attention"], maps["direct"], self.config.task.length, last)

    def compare(self, checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
        """One row per group and prediction; nan at step 0, where nothing has moved."""
        weights = checkpoint.member(self.member.gamma, self.member.seed)
        moved = weights["embed.W_E"].double() - self.start["embed.W_E"]
        for prediction, drift in self.drifts(checkpoint).items():
            for group, tokens in self.groups.items():
                m, p = moved[tokens], drift[tokens]
                cos, r2 = agreement(p, m)
                cos_raw, r2_raw = agreement(p, m, centred=False)
                null = permuted_r2(p, m, self.kinds[group]) if prediction == "each_step" else torch.tensor(math.nan)
                values = {"cos": cos, "r2": r2, "cos_raw": cos_raw, "r2_raw": r2_raw, "r2_permuted": null}
                yield {"group": group, "prediction": prediction, **{k: _finite(v) for k, v in values.items()}}

    def compare_values(self, checkpoint: Checkpoint) -> Iterator[dict[str, float]]:
        """Predicted against measured change of W_V; nothing at step 0 and for models without one."""
        if not self.one_layer or checkpoint.step == 0:
            return
        predicted = checkpoint.drift(self.member.gamma, self.member.seed)["value"].double()
        name = "blocks.0.attn.W_V"
        moved = (checkpoint.member(self.member.gamma, self.member.seed)[name].double() - self.start[name])[0]
        cos, r2 = agreement(predicted, moved, centred=False)
        (real, share), (ideal, _) = leading_direction(moved), leading_direction(predicted)
        yield {
            "cos": _finite(cos),
            "r2": _finite(r2),
            "cos_direction": abs(float(real @ ideal)),
            "share_leading": float(share),
        }


def leaving_readings(member: Member, step: int, compared: Iterable[dict[str, Any]]) -> list[dict]:
    """Readings of the probe ``drift`` at the stage ``leaving``, one for each group and quantity."""
    found: dict[str, dict[str, float]] = {}
    for row in compared:
        name = "" if row["prediction"] == "each_step" else f"_{row['prediction']}"
        values = found.setdefault(row["group"], {})
        values |= {f"r2{name}": row["r2"], f"cos{name}": row["cos"]}
        if not name:
            values |= {"r2_permuted": row["r2_permuted"], "r2_excess": row["r2"] - row["r2_permuted"]}
    empty = {"layer": None, "head": None, "twin": math.nan, "null": None, "null_mean": math.nan}
    empty |= {"null_sd": math.nan, "p_value": math.nan, "n": 0}
    place = {"gamma": member.gamma, "seed": member.seed, "stage": "leaving", "step": step, "probe": "drift"}
    return [
        {**place, **empty, "rows": group, "quantity": quantity, "value": value}
        for group, values in found.items()
        for quantity, value in values.items()
    ]


def agreement_table(drift: pd.DataFrame) -> pd.DataFrame:
    """Where agreement is first below AGREES: step and f by member, group, prediction and metric; nan for never.

    A metric that nothing defines at any step has no row, as the cosine of a prediction that moves all tokens alike.
    """
    rows = []
    for place, member in drift.loc[drift["step"] > 0].sort_values("step").groupby(KEYS, sort=False):
        named = dict(zip(KEYS, place, strict=True))  # type: ignore[arg-type]
        for metric in ("cos", "r2"):
            if member[metric].isna().all():
                continue
            lost = member.loc[~(member[metric] >= AGREES)]
            first = lost.iloc[0] if len(lost) else {"step": math.nan, "fraction": math.nan}
            found = {"step": float(first["step"]), "fraction": float(first["fraction"])}
            rows.append({**named, "metric": metric, **found, "last_step": int(member["step"].max())})
    return pd.DataFrame(rows)


def label_distribution_table(task: AnchorTask, seed: int) -> pd.DataFrame:
    """P^s of every anchor and key, population and empirical: one row per token and label."""
    data, rows = task.dataset(seed), []
    for group in ("memory_anchor", "reasoning_anchor", "key"):
        rows.append(_distributions(data, group))
    return pd.concat(rows, ignore_index=True).assign(seed=seed)


def _distributions(data: AnchorDataset, group: str) -> pd.DataFrame:
    tokens, n = data.task.tokens(group), data.task.d_vocab
    return pd.DataFrame(
        {
            "token": np.repeat(tokens, n),
            "group": group,
            "label": np.tile(np.arange(n), len(tokens)),
            "population": population(data.task, group).ravel(),
            "empirical": empirical(data, tokens)[1].ravel(),
        }
    )


def scaling_tables(task: AnchorTask, scaling: Scaling, seeds: tuple[int, ...]) -> dict[str, pd.DataFrame]:
    """Eq. 13's error against width with its exponent, and Lemma 1's probability against gamma and width."""
    rows, exponents = [], []
    for gamma in scaling.gammas:
        for seed in seeds:
            found = [inner_product_error(task, gamma, d, seed) for d in scaling.d_models]
            at = {"gamma": gamma, "seed": seed}
            rows += [{**at, "d_model": d, **f._asdict()} for d, f in zip(scaling.d_models, found, strict=True)]
            slope = float(exponent(scaling.d_models, np.array([f.error for f in found])))
            exponents.append({**at, "exponent": slope, "predicted": 1 - gamma})
    where = (scaling.lemma_gammas, scaling.lemma_d_models, scaling.n_init)
    lemma = lemma_1_table(ModelConfig(), AnchorTask(), *where)
    return {"inner_products": pd.DataFrame(rows), "exponents": pd.DataFrame(exponents), "lemma_1": lemma}


def _finite(value: Tensor) -> float:
    found = float(value)
    return found if math.isfinite(found) else math.nan
