"""Predicted and measured motion of the weights, at every stored step of a sweep.

Predictions of the embedding's drift W_E(t) - W_E(0), each of which leaves something out:

    each_step    R M summed over the steps with the weights that each step began with, R from the training rows
    step_0       the same with the weights of step 0 throughout
    population   as each_step, with R from infinitely many rows of the combinations that are trained on (Eqs. 6 to 8)
    positions    one layer alone: as each_step, with each token's actual share of occurrences at the last position,
                 which Propositions 2 and 3 take as 1 / L
    sequences    as each_step, with a row counted once for all occurrences of a token, as Eq. 4 is printed

How long prediction and measurement agree:

    first fall      the first stored step at which R^2 (or the cosine) is below AGREES, and the loss left there
    at first        whether that is the first stored step, so that no fall was seen; if it comes back later, when
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from rb_interp import theory
from rb_interp.runs import Sweep
from rb_interp.statistics.learning_order import fraction_left
from rb_interp.statistics.reading import Reading
from rb_interp.studies.emb_mlp.config import AGREES
from rb_interp.tasks import AnchorDataset
from rb_interp.training.config import learning_rate
from rb_interp.training.member_group import Member
from rb_interp.training.store import Checkpoint

MOVING = {
    "anchor": ("memory_anchor", "reasoning_anchor"),
    "memory_anchor": ("memory_anchor",),
    "reasoning_anchor": ("reasoning_anchor",),
    "key": ("key",),
}
"""Group of tokens whose drift is compared -> kinds of tokens in it."""
FLOOR = -1.0
"""R^2 below this counts as it in means over seeds; one far too long prediction has about -10,000."""


class DriftTables(NamedTuple):
    """Theory beside one sweep.

    Attributes:
        drift: of the embedding; a row for every stored step, and for each member's step of the
            stage ``leaving``, where the column ``leaving`` is True.
        value_flow: likewise the change of W_V; empty for Emb-MLP, which has none.
        leaving: readings of the probe ``drift`` at the stage ``leaving``.
    """

    drift: pd.DataFrame
    value_flow: pd.DataFrame
    leaving: list[dict[str, Any]]


def compare(sweep: Sweep, progress: bool = True) -> DriftTables:
    """Compare predicted and measured motion at every stored step of a sweep."""
    leaving_steps = sweep.stage_steps("leaving")
    curve = sweep.curves().query("set == 'rsn_train'").set_index(["gamma", "seed", "step"])
    left = fraction_left(curve["loss"].to_numpy(), sweep.config.task.d_vocab)
    fractions = dict(zip(curve.index, left.tolist(), strict=True))
    drifts = []
    flows = []
    leaving = {}
    with closing(_checkpoints(sweep, _predictions(sweep), progress)) as checkpoints:
        for prediction, checkpoint in checkpoints:
            member = prediction.member
            step = checkpoint.step
            is_leaving = step == leaving_steps[member]
            keys = {"sweep": sweep.name, "gamma": member.gamma, "seed": member.seed, "step": step}
            keys["leaving"] = is_leaving
            keys["fraction"] = fractions[member.gamma, member.seed, step]
            rows = list(prediction.compare(checkpoint))
            drifts += [{**keys, **row} for row in rows if row["prediction"] != "sequences"]
            flows += [{**keys, **row} for row in prediction.compare_values(checkpoint)]
            if is_leaving:
                leaving[member] = leaving_readings(sweep.name, member, step, rows)
    readings = []
    for member in sweep.members:
        readings += leaving[member]
    return DriftTables(pd.DataFrame(drifts), pd.DataFrame(flows), readings)


def _predictions(sweep: Sweep) -> list[Prediction]:
    train = sweep.config.train
    total_rates = {}
    for gamma in sweep.config.gammas:
        lr = dict(sweep.config.rates).get(gamma, train.lr)
        rates = [learning_rate(step, train, lr) for step in range(train.steps)]
        total_rates[gamma] = np.cumsum([0.0, *rates])
    pulls = {seed: _pulls(sweep.dataset(seed)) for seed in sweep.seeds}
    predictions = []
    for member in sweep.members:
        start = sweep.weights(member.gamma, member.seed, "init")
        rates = total_rates[member.gamma]
        prediction = Prediction(member, sweep, pulls[member.seed], start, rates)
        predictions.append(prediction)
    return predictions


def _checkpoints(
    sweep: Sweep, predictions: list[Prediction], progress: bool
) -> Generator[tuple[Prediction, Checkpoint], None, None]:
    """Every prediction with every stored checkpoint, then with its member's of ``leaving``."""
    steps = sweep.checkpoint_steps
    title = f"theory beside {sweep.name}"
    for step in tqdm(steps, disable=not progress, unit="checkpoint", desc=title):
        checkpoint = sweep.whole_checkpoint(step)
        for prediction in predictions:
            yield prediction, checkpoint
    for prediction in predictions:
        checkpoint = sweep.checkpoint("leaving", *prediction.gamma_seed)
        if checkpoint.step not in steps:
            yield prediction, checkpoint


def _pulls(data: AnchorDataset) -> dict[str, Tensor]:
    """R of the training rows by the way of counting."""
    rows = data.rows("train")
    d_vocab = data.task.d_vocab
    tokens = torch.from_numpy(data.tokens[rows])
    labels = torch.from_numpy(data.labels[rows])
    float64 = torch.float64
    population = theory.population_pull(data.task, masked=True)
    return {
        "occurrences": theory.pull(tokens, labels, d_vocab, "occurrences", dtype=float64),
        "sequences": theory.pull(tokens, labels, d_vocab, "sequences", dtype=float64),
        "population": torch.from_numpy(population),
        "last": theory.pull(tokens, labels, d_vocab, last=True, dtype=float64),
    }


class Prediction:
    """Theory's predictions for one member, and their comparison with a checkpoint of it."""

    def __init__(
        self,
        member: Member,
        sweep: Sweep,
        pulls: Mapping[str, Tensor],
        start: Mapping[str, Tensor],
        rates: np.ndarray,
    ) -> None:
        self.member = member
        self.gamma_seed = (member.gamma, member.seed)
        self.one_layer = sweep.config.model.architecture == "one_layer"
        self.task = sweep.config.task
        self.pulls = pulls
        self.rates = rates
        self.start = {name: value.double() for name, value in start.items()}

    def drifts(self, checkpoint: Checkpoint) -> dict[str, Tensor]:
        """Predicted change of W_E, ``[d_vocab d_model]``, by prediction."""
        pulls = self.pulls
        rate = self.rates[checkpoint.step]
        sums = checkpoint.drift(*self.gamma_seed)
        sums = {name: value.double() for name, value in sums.items()}
        fixed = {name: value * rate for name, value in self._maps().items()}
        drifts = {
            "each_step": self._drift(pulls["occurrences"], sums),
            "step_0": self._drift(pulls["occurrences"], fixed),
            "population": self._drift(pulls["population"], sums),
            "sequences": self._drift(pulls["sequences"], sums),
        }
        if self.one_layer:
            drifts["positions"] = self._drift(pulls["occurrences"], sums, pulls["last"])
        return drifts

    def _maps(self) -> dict[str, Tensor]:
        """The maps from pull to drift with the weights of step 0."""
        start = self.start
        if not self.one_layer:
            return {"map": theory.emb_mlp_map(start["mlp.W_in"], start["mlp.W_out"])}
        attention, direct = theory.one_layer_maps(
            start["blocks.0.attn.W_V"][0],
            start["blocks.0.attn.W_O"][0],
            start["blocks.0.mlp.W_in"],
            start["blocks.0.mlp.W_out"],
        )
        return {"attention": attention, "direct": direct}

    def _drift(
        self, pull: Tensor, maps: Mapping[str, Tensor], last: Tensor | None = None
    ) -> Tensor:
        if not self.one_layer:
            return pull @ maps["map"]
        attention = maps["attention"]
        return theory.one_layer_drift(pull, attention, maps["direct"], self.task.length, last)

    def compare(self, checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
        """One row per group and prediction; NaN at step 0, where nothing has moved."""
        change = self._weight_change(checkpoint, "embed.W_E")
        for prediction, drift in self.drifts(checkpoint).items():
            for group, kinds in MOVING.items():
                tokens = [self.task.tokens(kind) for kind in kinds]
                kind_of_token = np.repeat(kinds, [len(ids) for ids in tokens])
                measured = change[np.concatenate(tokens)]
                predicted = drift[np.concatenate(tokens)]
                cos, r2 = theory.agreement(predicted, measured)
                cos_raw, r2_raw = theory.agreement(predicted, measured, centred=False)
                r2_permuted = math.nan
                if prediction == "each_step":
                    r2_permuted = _finite(theory.permuted_r2(predicted, measured, kind_of_token))
                yield {
                    "group": group,
                    "prediction": prediction,
                    "cos": _finite(cos),
                    "r2": _finite(r2),
                    "cos_raw": _finite(cos_raw),
                    "r2_raw": _finite(r2_raw),
                    "r2_permuted": r2_permuted,
                }

    def compare_values(self, checkpoint: Checkpoint) -> Iterator[dict[str, float]]:
        """Predicted against measured change of W_V; nothing at step 0 and without a W_V."""
        if not self.one_layer or checkpoint.step == 0:
            return
        predicted = checkpoint.drift(*self.gamma_seed)["value"].double()
        change = self._weight_change(checkpoint, "blocks.0.attn.W_V")[0]
        cos, r2 = theory.agreement(predicted, change, centred=False)
        direction, share = theory.leading_direction(change)
        predicted_direction, _ = theory.leading_direction(predicted)
        yield {
            "cos": _finite(cos),
            "r2": _finite(r2),
            "cos_direction": abs(float(direction @ predicted_direction)),
            "share_leading": float(share),
        }

    def _weight_change(self, checkpoint: Checkpoint, name: str) -> Tensor:
        return checkpoint.member(*self.gamma_seed)[name].double() - self.start[name]


def leaving_readings(
    sweep: str, member: Member, step: int, rows: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Readings of the probe ``drift`` at the stage ``leaving``, for each group and quantity."""
    values_of = {}
    for row in rows:
        values = values_of.setdefault(row["group"], {})
        prediction = row["prediction"]
        suffix = "" if prediction == "each_step" else f"_{prediction}"
        values[f"r2{suffix}"] = row["r2"]
        values[f"cos{suffix}"] = row["cos"]
        if not suffix:
            values["r2_permuted"] = row["r2_permuted"]
            values["r2_excess"] = row["r2"] - row["r2_permuted"]
    columns = {"sweep": sweep, "gamma": member.gamma, "seed": member.seed, "stage": "leaving"}
    readings = []
    for group, values in values_of.items():
        readings += Reading("drift", values).rows(**columns, step=step, set=group)
    return readings


def _finite(value: Tensor) -> float:
    number = float(value)
    return number if math.isfinite(number) else math.nan


def agreement_table(drift: pd.DataFrame) -> pd.DataFrame:
    """The step at which agreement is first below AGREES, and f there; NaN for never.

    One row per member, group, prediction and metric. ``at_first`` says whether it is the first
    stored step, and ``back`` then the first step at which agreement is not below, NaN if there is
    none. A metric that is NaN at every step has no row, as the cosine of a prediction that moves all
    tokens alike.
    """
    keys = ["sweep", "gamma", "seed", "group", "prediction"]
    later = drift.query("step > 0").sort_values("step", kind="stable")
    rows = []
    for values, member in later.groupby(keys, sort=False):
        for metric in ("cos", "r2"):
            defined = member.dropna(subset=[metric])
            if defined.empty:
                continue
            agrees = defined[metric].to_numpy() >= AGREES
            disagreeing = member.loc[~(member[metric] >= AGREES)]
            step, fraction = (math.nan, math.nan)
            if len(disagreeing):
                step, fraction = disagreeing[["step", "fraction"]].iloc[0]
            back = math.nan
            if not agrees[0]:
                back = float(min(defined["step"].to_numpy()[agrees], default=math.nan))
            rows.append((*cast(tuple, values), metric, step, fraction, not agrees[0], back))
    return pd.DataFrame(rows, columns=[*keys, "metric", "step", "fraction", "at_first", "back"])
