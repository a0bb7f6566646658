"""What is measured without training: label distributions, Eq. 13 on models of growing width, Lemma 1."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd

from rb_interp.models.config import ModelConfig
from rb_interp.probes.vectors import cosines
from rb_interp.studies.emb_mlp.config import Scaling
from rb_interp.tasks import AnchorDataset, AnchorTask
from rb_interp.theory.label_distributions import empirical, population
from rb_interp.theory.lemma_1 import lemma_1_table
from rb_interp.theory.theorem_1 import exponent, inner_product_error


def label_tables(data: AnchorDataset) -> dict[str, pd.DataFrame]:
    """P^s and P^s - u of every anchor and key, cosines of P^s - u between anchors, and their means off the diagonal.

    ``label_distributions``: one row per token and label. ``label_cosines``: one row per pair of anchors of a group and
    ``labels`` (population or empirical). ``label_cosines_summary``: their mean over distinct anchors.
    """
    anchors = ("memory_anchor", "reasoning_anchor")
    table = pd.concat([_distributions(data, group) for group in (*anchors, "key")], ignore_index=True)
    table = table.assign(seed=data.seed)
    parts = [_cosines(table, group, labels) for group in anchors for labels in ("population", "empirical")]
    pairs = pd.concat(parts, ignore_index=True)
    off = pairs.loc[pairs["token"] != pairs["other"]]
    summary = off.groupby(["group", "labels"], sort=False)["cos"].agg(mean="mean", n="size").reset_index()
    return {"label_distributions": table, "label_cosines": pairs, "label_cosines_summary": summary}


def _distributions(data: AnchorDataset, group: str) -> pd.DataFrame:
    tokens, n = data.task.tokens(group), data.task.d_vocab
    table = pd.DataFrame(
        {
            "token": np.repeat(tokens, n),
            "group": group,
            "label": np.tile(np.arange(n), len(tokens)),
            "population": population(data.task, group).ravel(),
            "empirical": empirical(data, tokens)[1].ravel(),
        }
    )
    return table.assign(**{f"{kind}_excess": table[kind] - 1 / n for kind in ("population", "empirical")})


def _cosines(table: pd.DataFrame, group: str, labels: str) -> pd.DataFrame:
    excess = table.loc[table["group"] == group].pivot(index="token", columns="label", values=f"{labels}_excess")
    found, tokens = cosines(excess.to_numpy()), excess.index.to_numpy()
    place = {"group": group, "labels": labels, "token": np.repeat(tokens, len(tokens))}
    return pd.DataFrame({**place, "other": np.tile(tokens, len(tokens)), "cos": found.ravel()})


def scaling_tables(task: AnchorTask, scaling: Scaling, seeds: tuple[int, ...]) -> dict[str, pd.DataFrame]:
    """Eq. 13's error against width with its exponent, Lemma 1's probability against gamma and width, and summaries."""
    rows, exponents = [], []
    for gamma, seed in product(scaling.gammas, seeds):
        found = {d_model: inner_product_error(task, gamma, d_model, seed) for d_model in scaling.d_models}
        at = {"gamma": gamma, "seed": seed}
        rows += [{**at, "d_model": d_model, **f._asdict()} for d_model, f in found.items()]
        slope = float(exponent(scaling.d_models, np.array([f.error for f in found.values()])))
        exponents.append({**at, "exponent": slope, "predicted": 1 - gamma})
    errors, slopes = pd.DataFrame(rows), pd.DataFrame(exponents)
    where = (scaling.lemma_gammas, scaling.lemma_d_models, scaling.n_init)
    lemma = lemma_1_table(ModelConfig(), AnchorTask(), *where)
    return {
        "inner_products": errors,
        "inner_products_summary": errors_over_seeds(errors),
        "exponents": slopes,
        "lemma_1": lemma,
        "lemma_1_reached": lemma_1_reached(lemma),
    }


def errors_over_seeds(errors: pd.DataFrame) -> pd.DataFrame:
    """By gamma and width: geometric mean of the error, that mean by Eq. 13 from the first width on, error over size.

    Columns: gamma, d_model, ``mean``, ``by_eq_13``, ``relative`` (mean of error / size), ``n``.
    """
    sizes = errors.assign(log=np.log(errors["error"]), relative=errors["error"] / errors["size"])
    place = sizes.groupby(["gamma", "d_model"], as_index=False)
    found = place.agg(log=("log", "mean"), relative=("relative", "mean"), n=("error", "size"))
    found["mean"] = np.exp(found["log"])
    first = found.groupby("gamma")[["d_model", "mean"]].transform("first")
    found["by_eq_13"] = first["mean"] * (found["d_model"] / first["d_model"]) ** (1 - found["gamma"])
    return found.loc[:, ["gamma", "d_model", "mean", "by_eq_13", "relative", "n"]]


def lemma_1_reached(lemma: pd.DataFrame) -> pd.DataFrame:
    """By width the smallest gamma from which on the whole interval of the share is at least 1 - eps; NaN for none."""
    rows = []
    for d_model, here in lemma.sort_values("gamma").groupby("d_model"):
        below = here.loc[here["low"] < 1 - here["tolerance"], "gamma"]
        later = here if below.empty else here.loc[here["gamma"] > below.max()]
        rows.append((d_model, math.nan if later.empty else float(later["gamma"].iloc[0])))
    return pd.DataFrame(rows, columns=["d_model", "gamma"])
