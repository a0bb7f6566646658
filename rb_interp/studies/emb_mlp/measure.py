"""Measurements of the Emb-MLP study: learning order, geometry, drift, and fresh models.

Some tables need no training: label distributions, Eq. 13 on growing models, and Lemma 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pandas as pd

from rb_interp import theory
from rb_interp.models.config import ModelConfig
from rb_interp.probes import geometry
from rb_interp.probes.embeddings import cosines
from rb_interp.runs import MemberModels, Run, StudyResult, readings_table
from rb_interp.runs.measurement import measure_members
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.statistics.learning_order import learning_order_of
from rb_interp.statistics.reading import Reading
from rb_interp.studies.emb_mlp.config import EARLY, LATE, EmbMLPConfig, Scaling
from rb_interp.studies.emb_mlp.drift import agreement_table, compare
from rb_interp.tasks import AnchorDataset, AnchorTask
from rb_interp.tasks.anchor import GROUPS
from rb_interp.theory.theorem_1 import max_deviations
from rb_interp.training.config import step_at
from rb_interp.training.member_group import Member

GEOMETRY = {"groups": GROUPS, "clusters": ("memory", "reasoning"), "ordered": ("key", "reasoning")}


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Readings, tables and arrays of a trained run.

    Raises RunError if a checkpoint is missing or broken.
    """
    adamw = run.sweeps["adamw"]
    config = cast(EmbMLPConfig, run.config)
    members = measure_members(run, partial(_geometry, n_null=config.n_null), ["adamw"], progress)
    comparisons = [compare(sweep, progress) for sweep in run.sweeps.values()]
    drift = _concatenate([comparison.drift for comparison in comparisons])
    tables = {
        "drift": drift,
        "agreement": agreement_table(drift),
        "value_flow": _concatenate([comparison.value_flow for comparison in comparisons]),
        **label_tables(adamw.dataset(config.seeds[0])),
        **scaling_tables(config.one_layer.task, config.scaling, config.seeds),
    }
    data = {seed: adamw.dataset(seed) for seed in adamw.seeds}
    order = learning_order_of(adamw.curves(), adamw.config.task.d_vocab, data).assign(sweep="adamw")
    leaving = [comparison.leaving for comparison in comparisons]
    readings = readings_table(order, members.readings, *leaving)
    return StudyResult(readings, tables, members.arrays)


def _concatenate(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([table for table in tables if len(table)], ignore_index=True)


def _geometry(
    models: MemberModels, member: Member, n_null: int
) -> Iterator[tuple[str, str, Reading]]:
    """The geometry of a member's embedding, at the stages of Fig. 4A and others."""
    data = models.sweep.dataset(member.seed)
    train = models.sweep.config.train
    inputs = data.inputs(data.sample("rsn_train", 1))
    steps = {"early": step_at(EARLY, train), "late": step_at(LATE, train)}
    for stage in ("init", "half", "early", "late", "final"):
        models.load(member, steps.get(stage, stage))
        untrained = models.untrained
        yield (
            stage,
            "",
            geometry(models.model, inputs, untrained=untrained, n_null=n_null, **GEOMETRY),
        )


ANCHORS = ("memory_anchor", "reasoning_anchor")


def label_tables(data: AnchorDataset) -> dict[str, pd.DataFrame]:
    """P^s and P^s - u of every anchor and key, and cosines of P^s - u between anchors.

    ``label_distributions``: one row per token and label. ``label_cosines``: one row per pair of
    anchors of a group and ``labels`` (population or empirical). ``label_cosines_summary``: their
    mean over distinct anchors.
    """
    distributions = []
    n = data.task.d_vocab
    for group in (*ANCHORS, "key"):
        tokens = data.task.tokens(group)
        columns = {
            "token": np.repeat(tokens, n),
            "group": group,
            "label": np.tile(np.arange(n), len(tokens)),
            "population": theory.population(data.task, group).ravel(),
            "empirical": theory.empirical(data, tokens)[1].ravel(),
        }
        distributions.append(pd.DataFrame(columns))
    table = pd.concat(distributions, ignore_index=True)
    table["population_excess"] = table["population"] - 1 / n
    table["empirical_excess"] = table["empirical"] - 1 / n
    table["seed"] = data.seed
    parts = []
    for group, labels in product(ANCHORS, ("population", "empirical")):
        of_group = table.query("group == @group")
        excess = of_group.pivot(index="token", columns="label", values=f"{labels}_excess")
        tokens = excess.index.to_numpy()
        columns = {
            "group": group,
            "labels": labels,
            "token": np.repeat(tokens, len(tokens)),
            "other": np.tile(tokens, len(tokens)),
            "cos": cosines(excess.to_numpy()).ravel(),
        }
        parts.append(pd.DataFrame(columns))
    pairs = pd.concat(parts, ignore_index=True)
    distinct = pairs.query("token != other")
    by_group = distinct.groupby(["group", "labels"], sort=False)["cos"]
    summary = by_group.agg(mean="mean", n="size").reset_index()
    return {"label_distributions": table, "label_cosines": pairs, "label_cosines_summary": summary}


def scaling_tables(
    task: AnchorTask, scaling: Scaling, seeds: tuple[int, ...]
) -> dict[str, pd.DataFrame]:
    """Eq. 13's error against width with its exponent, Lemma 1's probability, and summaries."""
    rows = []
    exponents = []
    for gamma, seed in product(scaling.gammas, seeds):
        errors = []
        for d_model in scaling.d_models:
            error = theory.inner_product_error(task, gamma, d_model, seed)
            errors.append(error.error)
            rows.append({"gamma": gamma, "seed": seed, "d_model": d_model, **error._asdict()})
        exponent = float(theory.exponent(scaling.d_models, np.array(errors)))
        exponents.append(
            {"gamma": gamma, "seed": seed, "exponent": exponent, "predicted": 1 - gamma}
        )
    table = pd.DataFrame(rows)
    lemma = lemma_1_table(scaling)
    return {
        "inner_products": table,
        "inner_products_summary": errors_over_seeds(table),
        "exponents": pd.DataFrame(exponents),
        "lemma_1": lemma,
        "lemma_1_reached": lemma_1_reached(lemma),
    }


def lemma_1_table(scaling: Scaling, tolerance: float = 0.05) -> pd.DataFrame:
    """Share of initialisations within the tolerance (eps) at every gamma and width.

    The interval is Clopper and Pearson's. Columns: gamma, d_model, n_init, n_within, share, low,
    high, tolerance.
    """
    gammas = scaling.lemma_gammas
    rows = []
    for d_model in scaling.lemma_d_models:
        model = ModelConfig(d_model=d_model)
        deviations = max_deviations(model, AnchorTask(), gammas, scaling.n_init)
        counts = (deviations <= tolerance).sum(1).tolist()
        for gamma, n_within in zip(gammas, counts, strict=True):
            share = proportion_interval(n_within, scaling.n_init)
            rows.append((gamma, d_model, scaling.n_init, n_within, *share, tolerance))
    columns = "gamma d_model n_init n_within share low high tolerance"
    return pd.DataFrame(rows, columns=columns.split())


def errors_over_seeds(errors: pd.DataFrame) -> pd.DataFrame:
    """Mean errors by gamma and width, beside those of Eq. 13 from the first width on.

    Columns: gamma, d_model, ``mean`` (geometric), ``by_eq_13``, ``relative`` (mean of error / size),
    ``n``.
    """
    sizes = errors.assign(log=np.log(errors["error"]), relative=errors["error"] / errors["size"])
    groups = sizes.groupby(["gamma", "d_model"], as_index=False)
    table = groups.agg(log=("log", "mean"), relative=("relative", "mean"), n=("error", "size"))
    table["mean"] = np.exp(table["log"])
    first = table.groupby("gamma")[["d_model", "mean"]].transform("first")
    growth = (table["d_model"] / first["d_model"]) ** (1 - table["gamma"])
    table["by_eq_13"] = first["mean"] * growth
    return pd.DataFrame(table[["gamma", "d_model", "mean", "by_eq_13", "relative", "n"]])


def lemma_1_reached(lemma: pd.DataFrame) -> pd.DataFrame:
    """The smallest gamma of each width from which on the share is at least 1 - eps.

    The whole interval of the share counts; NaN if there is no such gamma.
    """
    rows = []
    for d_model, of_width in lemma.sort_values("gamma").groupby("d_model"):
        below = of_width.query("low < 1 - tolerance")["gamma"]
        later = of_width.loc[~(of_width["gamma"] <= below.max()), "gamma"]
        rows.append((d_model, later.min()))
    return pd.DataFrame(rows, columns=["d_model", "gamma"])
