"""Drift and agreement of a tiny study are those of its raw files."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rb_interp.studies.emb_mlp.drift import _predictions, agreement_table
from rb_interp.training.member_group import Member

pytestmark = pytest.mark.wide


def drifts(run, **where) -> pd.DataFrame:
    table = run.table("drift")
    for name, value in where.items():
        table = table[table[name] == value]
    return table.set_index("prediction")


def r_squared(measured, predicted) -> float:
    m, p = measured - measured.mean(0), predicted - predicted.mean(0)
    return 1 - ((m - p) ** 2).sum() / (m**2).sum()


def anchors_of(task) -> np.ndarray:
    return np.r_[task.tokens("memory_anchor"), task.tokens("reasoning_anchor")]


def moved(sweep, checkpoint, seed) -> np.ndarray:
    start = sweep.weights(0.8, seed, "init")["embed.W_E"].double()
    return (checkpoint.member(0.8, seed)["embed.W_E"].double() - start).numpy()[
        anchors_of(sweep.config.task)
    ]


def test_measured_drift_is_what_the_checkpoints_say(run):
    """R^2 at a member's own step, from the raw files, with the formula written out again."""
    sweep = run.sweep("descent")
    task, step, data = (
        sweep.config.task,
        sweep.stage_steps("leaving")[Member(0.8, 0)],
        sweep.dataset(0),
    )
    assert 0 < step < 100
    assert step not in sweep.checkpoint_steps
    rows, anchors = data.rows("train"), anchors_of(task)
    pull = np.zeros((task.d_vocab, task.d_vocab))
    for tokens, label in zip(data.tokens[rows], data.labels[rows], strict=True):
        for token in tokens:
            pull[token] -= 1 / task.d_vocab / len(rows)
            pull[token, label] += 1 / len(rows)
    kept, start = sweep.checkpoint("leaving", 0.8, 0), sweep.weights(0.8, 0, "init")
    fixed = 0.3 * step * (start["mlp.W_in"].double() @ start["mlp.W_out"].double()).T.numpy()
    found = drifts(run, sweep="descent", gamma=0.8, seed=0, step=step, group="anchor")
    assert found.leaving.all()
    measured, sums = moved(sweep, kept, 0), kept.drift(0.8, 0)["map"].double().numpy()
    for prediction, maps in (("each_step", sums), ("step_0", fixed)):
        assert found.r2[prediction] == pytest.approx(
            r_squared(measured, (pull @ maps)[anchors]), abs=1e-6
        )
    assert found.r2["each_step"] > 0.9
    predicted, rng, draws = (pull @ sums)[anchors], np.random.default_rng(0), []
    for _ in range(1000):
        order = np.r_[rng.permutation(4), 4 + rng.permutation(4)]
        draws.append(r_squared(measured, predicted[order]))
    error = np.std(draws) / math.sqrt(len(draws))
    assert found.r2_permuted["each_step"] == pytest.approx(np.mean(draws), abs=4 * error)


def test_each_member_has_its_own_learning_rate(run, monkeypatch):
    sweep = run.sweep("descent")
    twice = ((0.8, 2 * sweep.config.train.lr),)
    before = _predictions(sweep)
    monkeypatch.setattr(sweep, "config", replace(sweep.config, rates=twice))
    for one, prediction in zip(before, _predictions(sweep), strict=True):
        factor = 2 if prediction.member.gamma == 0.8 else 1
        assert prediction.rates == pytest.approx(factor * one.rates)


def test_positions_give_each_occurrence_at_the_end_its_own_way(run):
    """The one-layer prediction by position, from the raw files: the residual stream carries the
    last token alone."""
    sweep = run.sweep("one_layer")
    task, data, anchors = sweep.config.task, sweep.dataset(1), anchors_of(sweep.config.task)
    rows = data.rows("train")
    excess, seen = (
        np.eye(task.d_vocab)[data.labels[rows]] - 1 / task.d_vocab,
        np.eye(task.d_vocab)[data.tokens[rows]],
    )
    pull, last = seen.sum(1).T @ excess / len(rows), seen[:, -1].T @ excess / len(rows)
    kept = sweep.checkpoint(10, 0.8, 1)
    sums = {name: value.double().numpy() for name, value in kept.drift(0.8, 1).items()}
    found = drifts(run, sweep="one_layer", gamma=0.8, seed=1, step=10, group="anchor").r2
    printed = pull / 3 @ (sums["attention"] + sums["direct"])
    by_position = pull / 3 @ sums["attention"] + last @ sums["direct"]
    for prediction, predicted in (("each_step", printed), ("positions", by_position)):
        assert found[prediction] == pytest.approx(
            r_squared(moved(sweep, kept, 1), predicted[anchors]), abs=1e-6
        )
    assert found["positions"] > 0.99 > 0.95 > found["each_step"]


def made(values: dict[int, float], seed: int = 0) -> pd.DataFrame:
    """The drift of one member with R² by step, a cosine of .99, and f = 1 - step / 100."""
    named = {
        "sweep": "descent",
        "gamma": 0.8,
        "seed": seed,
        "group": "anchor",
        "prediction": "each_step",
    }
    rows = [{"step": 0, "cos": math.nan, "r2": math.nan, "fraction": 1.0}]
    rows += [{"step": s, "cos": 0.99, "r2": v, "fraction": 1 - s / 100} for s, v in values.items()]
    return pd.DataFrame([{**named, **row} for row in rows])


def test_agreement_is_lost_where_it_first_falls_below():
    fell = agreement_table(made({10: 0.95, 20: 0.89, 40: 0.97, 80: -3.0})).set_index("metric")
    assert (fell.step["r2"], fell.fraction["r2"], fell.at_first["r2"]) == (20, 0.8, False)
    assert math.isnan(fell.back["r2"])  # of seeds that are below at first alone
    assert math.isnan(fell.step["cos"])
    low = agreement_table(made({10: 0.5, 20: 0.95, 40: 0.1})).set_index("metric").loc["r2"]
    assert (low.step, low.at_first, low.back) == (10, True, 20)
    assert len(agreement_table(made({10: math.nan}))) == 1  # the cosine alone
    assert (
        agreement_table(made({10: 0.95, 20: 0.95, 40: math.nan})).set_index("metric").step["r2"]
        == 40
    )
