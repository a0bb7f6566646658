"""What the Emb-MLP study measures: learning order, geometry, predicted and measured motion,
scaling.

Predicted and measured motion of the weights, at every kept step of a sweep.

Predictions of the embedding's drift W_E(t) - W_E(0), one for each way of leaving something out:

    each_step    R M summed over the steps with the weights that each step began with, R from the training rows
    step_0       the same with the weights of step 0 throughout
    population   as each_step, with R from infinitely many rows of the combinations that are trained on (Eqs. 6 to 8)
    positions    one layer alone: as each_step, with each token's actual share of occurrences at the last position,
                 which Propositions 2 and 3 take as 1 / L
    sequences    as each_step, where a row counts once however often it holds a token, as Eq. 4 is printed

How long prediction and measurement agree:

    first fall      the first kept step at which R^2 (or the cosine) is below AGREES, and the loss left there
    at first        whether that is the first kept step, so that no fall was seen; where it comes back later, when

What is measured without training: label distributions, Eq. 13 on models of growing width, Lemma 1.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from rb_interp import theory
from rb_interp.models.config import ModelConfig
from rb_interp.probes import geometry
from rb_interp.probes.vectors import cosines
from rb_interp.runs import MemberModels, Run, StudyResult, Sweep, readings_table
from rb_interp.runs.member_models import measure_members
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.statistics.learning_order import fraction_left, learning_order_of
from rb_interp.statistics.reading import Reading
from rb_interp.studies.emb_mlp.config import AGREES, EARLY, LATE, EmbMLPConfig, Scaling
from rb_interp.tasks import AnchorDataset, AnchorTask
from rb_interp.tasks.anchor_settings import GROUPS
from rb_interp.theory._lemma_1 import max_deviations
from rb_interp.training.config import learning_rate, step_at
from rb_interp.training.member_group import Member
from rb_interp.training.store import Checkpoint

GEOMETRY = {"groups": GROUPS, "alike": ("memory", "reasoning"), "ordered": ("key", "reasoning")}


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Readings, tables and arrays of a trained run.

    Raises RunError where a checkpoint is missing or broken.
    """
    adamw, config = run.sweeps["adamw"], cast(EmbMLPConfig, run.config)
    found = measure_members(run, partial(_geometry, n_null=config.n_null), ["adamw"], progress)
    drifts, flows, leaving = zip(
        *(compare(sweep, progress) for sweep in run.sweeps.values()), strict=True
    )
    drift, flow = (
        pd.concat([t for t in tables if len(t)], ignore_index=True) for tables in (drifts, flows)
    )
    tables = {
        "drift": drift,
        "agreement": agreement_table(drift),
        "value_flow": flow,
        **label_tables(adamw.dataset(config.seeds[0])),
        **scaling_tables(config.one_layer.task, config.scaling, config.seeds),
    }
    data = {seed: adamw.dataset(seed) for seed in adamw.seeds}
    order = learning_order_of(adamw.curves(), adamw.config.task.d_vocab, data).assign(sweep="adamw")
    return StudyResult(readings_table(order, found.readings, *leaving), tables, found.arrays)


def _geometry(
    models: MemberModels, member: Member, n_null: int
) -> Iterator[tuple[str, str, Reading]]:
    """The member's embedding, at the stages of Fig. 4A and others."""
    data, train = models.sweep.dataset(member.seed), models.sweep.config.train
    inputs = data.inputs(data.sample("rsn_train", 1))
    early, late = (step_at(share, train) for share in (EARLY, LATE))
    for stage, place in {
        "init": "init",
        "half": "half",
        "early": early,
        "late": late,
        "final": "final",
    }.items():
        models.load(member, place)
        yield (
            stage,
            "",
            geometry(models.model, inputs, untrained=models.untrained, n_null=n_null, **GEOMETRY),
        )


MOVING = {
    "anchor": ("memory_anchor", "reasoning_anchor"),
    "memory_anchor": ("memory_anchor",),
    "reasoning_anchor": ("reasoning_anchor",),
    "key": ("key",),
}


def compare(
    sweep: Sweep, progress: bool = True
) -> tuple[pd.DataFrame, pd.DataFrame, list[dict[str, Any]]]:
    """Drift of the embedding, change of W_V, and the readings of the probe ``drift`` at the stage
    ``leaving``.

    The first two have a row for every kept step and for each member's step of ``leaving``, where
    ``leaving`` is True. The second is empty for Emb-MLP, which has no W_V.
    """
    reached, train, curves = sweep.stage_steps("leaving"), sweep.config.train, sweep.curves()
    chosen = curves.loc[curves["set"] == "rsn_train"].set_index(["gamma", "seed", "step"])
    left = fraction_left(chosen["loss"].to_numpy(), sweep.config.task.d_vocab)
    fractions = dict(zip(chosen.index, left.tolist(), strict=True))
    rates = np.cumsum([0.0, *(learning_rate(step, train) for step in range(train.steps))])
    seeds = {seed: _Seed(sweep.config.task, sweep.dataset(seed)) for seed in sweep.seeds}
    one_layer = sweep.config.model.architecture == "one_layer"
    predictions = [
        Prediction(
            member,
            one_layer,
            seeds[member.seed],
            sweep.weights(member.gamma, member.seed, "init"),
            rates,
        )
        for member in sweep.members
    ]
    drifts: list[dict] = []
    flows: list[dict] = []
    leaving: dict[Member, list[dict]] = {}
    with closing(_checkpoints(sweep, predictions, progress)) as checkpoints:
        for prediction, checkpoint in checkpoints:
            member, step = prediction.member, checkpoint.step
            at = {"sweep": sweep.name, "gamma": member.gamma, "seed": member.seed, "step": step}
            at |= {
                "leaving": step == reached[member],
                "fraction": fractions[member.gamma, member.seed, step],
            }
            compared = list(prediction.compare(checkpoint))
            drifts += [{**at, **row} for row in compared if row["prediction"] != "sequences"]
            flows += [{**at, **row} for row in prediction.compare_values(checkpoint)]
            if at["leaving"]:
                leaving[member] = leaving_readings(sweep.name, member, step, compared)
    readings = [row for member in sweep.members for row in leaving[member]]
    return pd.DataFrame(drifts), pd.DataFrame(flows), readings


def _checkpoints(
    sweep: Sweep, predictions: list[Prediction], progress: bool
) -> Generator[tuple[Prediction, Checkpoint], None, None]:
    """Every prediction with every kept checkpoint, then with its member's own at ``leaving`` where
    none was kept."""
    kept = sweep.checkpoint_steps
    for step in tqdm(
        kept, disable=not progress, unit="checkpoint", desc=f"theory beside {sweep.name}"
    ):
        checkpoint = sweep.whole_checkpoint(step)
        yield from ((prediction, checkpoint) for prediction in predictions)
    for prediction in predictions:
        checkpoint = sweep.checkpoint("leaving", *prediction.place)
        if checkpoint.step not in kept:
            yield prediction, checkpoint


@dataclass(frozen=True)
class _Seed:
    """What a seed's rows pull at, by name of the count, and the tokens of each group with their
    kinds."""

    task: AnchorTask
    data: AnchorDataset

    @cached_property
    def pulls(self) -> dict[str, Tensor]:
        rows, n = self.data.rows("train"), self.task.d_vocab
        tokens, labels = (
            torch.from_numpy(self.data.tokens[rows]),
            torch.from_numpy(self.data.labels[rows]),
        )
        counted = {
            c: theory.pull(tokens, labels, n, c, dtype=torch.float64)
            for c in ("occurrences", "sequences")
        }
        last = theory.pull(tokens, labels, n, last=True, dtype=torch.float64)
        return {
            **counted,
            "population": torch.from_numpy(theory.population_pull(self.task, masked=True)),
            "last": last,
        }

    @cached_property
    def groups(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        tokens = {kind: self.task.tokens(kind) for kinds in MOVING.values() for kind in kinds}
        return {
            name: (
                np.concatenate([tokens[k] for k in kinds]),
                np.repeat(kinds, [len(tokens[k]) for k in kinds]),
            )
            for name, kinds in MOVING.items()
        }


class Prediction:
    """What theory says of one member, and how it compares with a checkpoint of it."""

    def __init__(
        self,
        member: Member,
        one_layer: bool,
        seed: _Seed,
        start: Mapping[str, Tensor],
        rates: np.ndarray,
    ) -> None:
        self.member, self.place = member, (member.gamma, member.seed)
        self.one_layer, self.seed, self.rates = one_layer, seed, rates
        self.start = {name: value.double() for name, value in start.items()}

    def drifts(self, checkpoint: Checkpoint) -> dict[str, Tensor]:
        """Predicted change of W_E, ``[d_vocab d_model]``, by prediction."""
        pulls = self.seed.pulls
        sums = {name: value.double() for name, value in checkpoint.drift(*self.place).items()}
        fixed = {name: value * self.rates[checkpoint.step] for name, value in self._maps().items()}
        found = {
            "each_step": self._drift(pulls["occurrences"], sums),
            "step_0": self._drift(pulls["occurrences"], fixed),
            "population": self._drift(pulls["population"], sums),
            "sequences": self._drift(pulls["sequences"], sums),
        }
        if self.one_layer:
            found["positions"] = self._drift(pulls["occurrences"], sums, pulls["last"])
        return found

    def _maps(self) -> dict[str, Tensor]:
        """The maps from pull to drift with the weights of step 0."""
        start = self.start
        if not self.one_layer:
            return {"map": theory.emb_mlp_map(start["mlp.W_in"], start["mlp.W_out"])}
        w_v, w_o = (start[f"blocks.0.attn.W_{name}"][0] for name in "VO")
        w_in, w_out = (start[f"blocks.0.mlp.W_{name}"] for name in ("in", "out"))
        return dict(
            zip(("attention", "direct"), theory.one_layer_maps(w_v, w_o, w_in, w_out), strict=True)
        )

    def _drift(
        self, pull: Tensor, maps: Mapping[str, Tensor], last: Tensor | None = None
    ) -> Tensor:
        if not self.one_layer:
            return pull @ maps["map"]
        return theory.one_layer_drift(
            pull, maps["attention"], maps["direct"], self.seed.task.length, last
        )

    def compare(self, checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
        """One row per group and prediction; NaN at step 0, where nothing has moved."""
        moved = self._moved(checkpoint, "embed.W_E")
        for prediction, drift in self.drifts(checkpoint).items():
            for group, (tokens, kinds) in self.seed.groups.items():
                m, p = moved[tokens], drift[tokens]
                cos, r2 = theory.agreement(p, m)
                cos_raw, r2_raw = theory.agreement(p, m, centred=False)
                null = (
                    theory.permuted_r2(p, m, kinds)
                    if prediction == "each_step"
                    else torch.tensor(math.nan)
                )
                values = {
                    "cos": cos,
                    "r2": r2,
                    "cos_raw": cos_raw,
                    "r2_raw": r2_raw,
                    "r2_permuted": null,
                }
                yield {
                    "group": group,
                    "prediction": prediction,
                    **{k: _finite(v) for k, v in values.items()},
                }

    def compare_values(self, checkpoint: Checkpoint) -> Iterator[dict[str, float]]:
        """Predicted against measured change of W_V; nothing at step 0 and for models without
        one."""
        if not self.one_layer or checkpoint.step == 0:
            return
        predicted = checkpoint.drift(*self.place)["value"].double()
        moved = self._moved(checkpoint, "blocks.0.attn.W_V")[0]
        cos, r2 = theory.agreement(predicted, moved, centred=False)
        (real, share), (ideal, _) = (
            theory.leading_direction(moved),
            theory.leading_direction(predicted),
        )
        along = abs(float(real @ ideal))
        yield {
            "cos": _finite(cos),
            "r2": _finite(r2),
            "cos_direction": along,
            "share_leading": float(share),
        }

    def _moved(self, checkpoint: Checkpoint, name: str) -> Tensor:
        return checkpoint.member(*self.place)[name].double() - self.start[name]


def leaving_readings(
    sweep: str, member: Member, step: int, compared: Iterable[dict[str, Any]]
) -> list[dict]:
    """Readings of the probe ``drift`` at the stage ``leaving``, one for each group and quantity."""
    found: dict[str, dict[str, float]] = {}
    for row in compared:
        name = "" if row["prediction"] == "each_step" else f"_{row['prediction']}"
        values = found.setdefault(row["group"], {})
        values |= {f"r2{name}": row["r2"], f"cos{name}": row["cos"]}
        if not name:
            values |= {
                "r2_permuted": row["r2_permuted"],
                "r2_excess": row["r2"] - row["r2_permuted"],
            }
    place = {
        "sweep": sweep,
        "gamma": member.gamma,
        "seed": member.seed,
        "stage": "leaving",
        "step": step,
    }
    return [
        {**place, "set": group, **row}
        for group, values in found.items()
        for row in Reading("drift", values).rows()
    ]


def _finite(value: Tensor) -> float:
    found = float(value)
    return found if math.isfinite(found) else math.nan


FLOOR = -1.0
"""R^2 below this counts as it in means over seeds: a prediction a hundred times too long has about
-10,000."""


def agreement_table(drift: pd.DataFrame) -> pd.DataFrame:
    """Where agreement is first below AGREES: step and f by member, group, prediction and metric;
    NaN for never.

    ``at_first`` says whether it is so at the first kept step, and ``back`` then the step at which
    it first is not, NaN where that never happens. A metric that nothing defines at any step has no
    row, as the cosine of a prediction that moves all tokens alike.
    """
    rows, keys = [], ["sweep", "gamma", "seed", "group", "prediction"]
    for place, member in (
        drift.loc[drift["step"] > 0].sort_values("step", kind="stable").groupby(keys, sort=False)
    ):
        for metric in ("cos", "r2"):
            known = member.dropna(subset=[metric])
            if known.empty:
                continue
            lost, held = member.loc[~(member[metric] >= AGREES)], known[metric].to_numpy() >= AGREES
            first = lost.iloc[0] if len(lost) else {"step": math.nan, "fraction": math.nan}
            back = (
                float(known["step"].to_numpy()[held][0]) if held.any() and not held[0] else math.nan
            )
            found = {
                "step": float(first["step"]),
                "fraction": float(first["fraction"]),
                "at_first": not held[0],
            }
            rows.append(
                {
                    **dict(zip(keys, cast(tuple, place), strict=True)),
                    "metric": metric,
                    **found,
                    "back": back,
                }
            )
    return pd.DataFrame(rows)


def label_tables(data: AnchorDataset) -> dict[str, pd.DataFrame]:
    """P^s and P^s - u of every anchor and key, cosines of P^s - u between anchors, and their means
    off the diagonal.

    ``label_distributions``: one row per token and label. ``label_cosines``: one row per pair of
    anchors of a group and ``labels`` (population or empirical). ``label_cosines_summary``: their
    mean over distinct anchors.
    """
    anchors = MOVING["anchor"]
    table = pd.concat(
        [_distributions(data, group) for group in (*anchors, "key")], ignore_index=True
    )
    table = table.assign(seed=data.seed)
    parts = [
        _cosines(table, group, labels)
        for group in anchors
        for labels in ("population", "empirical")
    ]
    pairs = pd.concat(parts, ignore_index=True)
    off = pairs.loc[pairs["token"] != pairs["other"]]
    summary = (
        off.groupby(["group", "labels"], sort=False)["cos"].agg(mean="mean", n="size").reset_index()
    )
    return {"label_distributions": table, "label_cosines": pairs, "label_cosines_summary": summary}


def _distributions(data: AnchorDataset, group: str) -> pd.DataFrame:
    tokens, n = data.task.tokens(group), data.task.d_vocab
    place = {
        "token": np.repeat(tokens, n),
        "group": group,
        "label": np.tile(np.arange(n), len(tokens)),
    }
    found = {
        "population": theory.population(data.task, group).ravel(),
        "empirical": theory.empirical(data, tokens)[1].ravel(),
    }
    return pd.DataFrame(
        {**place, **found, **{f"{kind}_excess": share - 1 / n for kind, share in found.items()}}
    )


def _cosines(table: pd.DataFrame, group: str, labels: str) -> pd.DataFrame:
    excess = table.loc[table["group"] == group].pivot(
        index="token", columns="label", values=f"{labels}_excess"
    )
    found, tokens = cosines(excess.to_numpy()), excess.index.to_numpy()
    place = {"group": group, "labels": labels, "token": np.repeat(tokens, len(tokens))}
    return pd.DataFrame({**place, "other": np.tile(tokens, len(tokens)), "cos": found.ravel()})


def scaling_tables(
    task: AnchorTask, scaling: Scaling, seeds: tuple[int, ...]
) -> dict[str, pd.DataFrame]:
    """Eq. 13's error against width with its exponent, Lemma 1's probability against gamma and
    width, and summaries."""
    rows, exponents = [], []
    for gamma, seed in product(scaling.gammas, seeds):
        found = {
            d_model: theory.inner_product_error(task, gamma, d_model, seed)
            for d_model in scaling.d_models
        }
        at = {"gamma": gamma, "seed": seed}
        rows += [{**at, "d_model": d_model, **f._asdict()} for d_model, f in found.items()]
        slope = float(
            theory.exponent(scaling.d_models, np.array([f.error for f in found.values()]))
        )
        exponents.append({**at, "exponent": slope, "predicted": 1 - gamma})
    errors, slopes = pd.DataFrame(rows), pd.DataFrame(exponents)
    lemma = lemma_1_table(scaling)
    return {
        "inner_products": errors,
        "inner_products_summary": errors_over_seeds(errors),
        "exponents": slopes,
        "lemma_1": lemma,
        "lemma_1_reached": lemma_1_reached(lemma),
    }


def lemma_1_table(scaling: Scaling, tolerance: float = 0.05) -> pd.DataFrame:
    """Share of initialisations within the tolerance (eps) at every gamma and width, with
    Clopper-Pearson intervals.

    Columns: gamma, d_model, n_init, n_within, share, low, high, tolerance.
    """
    rows = []
    for d_model in scaling.lemma_d_models:
        found = max_deviations(
            ModelConfig(d_model=d_model), AnchorTask(), scaling.lemma_gammas, scaling.n_init
        )
        for gamma, within in zip(
            scaling.lemma_gammas, (found <= tolerance).sum(1).tolist(), strict=True
        ):
            share = proportion_interval(within, scaling.n_init)
            at = {"gamma": gamma, "d_model": d_model, "n_init": scaling.n_init, "n_within": within}
            rows.append(
                {
                    **at,
                    "share": share.estimate,
                    "low": share.low,
                    "high": share.high,
                    "tolerance": tolerance,
                }
            )
    return pd.DataFrame(rows)


def errors_over_seeds(errors: pd.DataFrame) -> pd.DataFrame:
    """By gamma and width: geometric mean of the error, that mean by Eq. 13 from the first width on,
    error over size.

    Columns: gamma, d_model, ``mean``, ``by_eq_13``, ``relative`` (mean of error / size), ``n``.
    """
    sizes = errors.assign(log=np.log(errors["error"]), relative=errors["error"] / errors["size"])
    place = sizes.groupby(["gamma", "d_model"], as_index=False)
    found = place.agg(log=("log", "mean"), relative=("relative", "mean"), n=("error", "size"))
    found["mean"] = np.exp(found["log"])
    first = found.groupby("gamma")[["d_model", "mean"]].transform("first")
    found["by_eq_13"] = first["mean"] * (found["d_model"] / first["d_model"]) ** (
        1 - found["gamma"]
    )
    return found.loc[:, ["gamma", "d_model", "mean", "by_eq_13", "relative", "n"]]


def lemma_1_reached(lemma: pd.DataFrame) -> pd.DataFrame:
    """By width the smallest gamma from which on the whole interval of the share is at least 1 -
    eps; NaN for none."""
    rows = []
    for d_model, here in lemma.sort_values("gamma").groupby("d_model"):
        below = here.loc[here["low"] < 1 - here["tolerance"], "gamma"]
        later = here if below.empty else here.loc[here["gamma"] > below.max()]
        rows.append((d_model, math.nan if later.empty else float(later["gamma"].iloc[0])))
    return pd.DataFrame(rows, columns=["d_model", "gamma"])
