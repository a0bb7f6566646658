"""How long prediction and measurement agree: by seed, over seeds, and as curves over training.

first fall      the first kept step at which R^2 (or the cosine) is below AGREES, and the loss left there
at first        whether that is the first kept step, so that no fall was seen; where agreement comes back later, when
middle seed     the seed in the middle of the order: at first, then by step (or by the loss left), then never; of an
                even number the earlier of the two
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.runs import over_seeds
from rb_interp.studies.emb_mlp.claims import BY_ID

AGREES = BY_ID["T1"].conditions[0].threshold
"""Agreement below this counts as lost: what T1 asks of R^2."""
FLOOR = -1.0
"""R^2 below this counts as it in means over seeds: a prediction a hundred times too long has about -10,000."""
PLACE = ["sweep", "gamma", "group", "prediction"]
METRICS = ["r2", "cos"]


def agreement_table(drift: pd.DataFrame) -> pd.DataFrame:
    """Where agreement is first below AGREES: step and f by member, group, prediction and metric; NaN for never.

    ``at_first`` says whether it is so at the first kept step, ``back`` and ``again`` then the steps at which it first
    is not and is so again (NaN where that never happens). A metric that nothing defines at any step has no row, as the
    cosine of a prediction that moves all tokens alike.
    """
    rows, keys = [], ["sweep", "gamma", "seed", "group", "prediction"]
    for place, member in drift.loc[drift["step"] > 0].sort_values("step", kind="stable").groupby(keys, sort=False):
        named = dict(zip(keys, place, strict=True))  # type: ignore[arg-type]
        for metric in ("cos", "r2"):
            if member[metric].isna().all():
                continue
            lost = member.loc[~(member[metric] >= AGREES)]
            first = lost.iloc[0] if len(lost) else {"step": math.nan, "fraction": math.nan}
            found = {"step": float(first["step"]), "fraction": float(first["fraction"])}
            found |= {"last_step": int(member["step"].max()), **_return(member.dropna(subset=[metric]), metric)}
            rows.append({**named, "metric": metric, **found})
    return pd.DataFrame(rows)


def _return(member: pd.DataFrame, metric: str) -> dict[str, float | bool]:
    steps, held = member["step"].to_numpy(dtype=float), member[metric].to_numpy(dtype=float) >= AGREES
    at_first = not held[0]
    back = steps[held][0] if held.any() and at_first else math.nan
    again = steps[~held & (steps > back)]
    return {"at_first": at_first, "back": back, "again": again[0] if len(again) else math.nan}


def agreement_summary(agreement: pd.DataFrame) -> pd.DataFrame:
    """First falls over seeds: counts, medians of the seeds that fall, and the middle seed.

    Columns: those of PLACE, ``metric``, ``n`` seeds, ``never``, ``at_first`` (seeds); ``step``, ``fraction`` (medians
    over the seeds that fall); ``n_back``, ``back``, ``n_again``, ``again`` (seeds that come back and fall again, with
    median steps); ``middle_step``, ``middle_fraction``, ``middle_at_first``.
    """
    rows = []
    for place, here in agreement.groupby([*PLACE, "metric"], sort=False):
        step, fraction, first = (pd.Series(here[name]) for name in ("step", "fraction", "at_first"))
        early = here.loc[step.notna() & first]
        counts = (len(here), len(here) - step.count(), len(early))
        returns = [number for name in ("back", "again") for number in (early[name].count(), early[name].median())]
        middle = (_middle(here, step, "step"), _middle(here, -fraction, "fraction"), _middle(here, step, "at_first"))
        rows.append((*place, *counts, step.median(), fraction.median(), *returns, *middle))  # type: ignore[misc]
    columns = [*PLACE, "metric", "n", "never", "at_first", "step", "fraction", "n_back", "back", "n_again", "again"]
    return pd.DataFrame(rows, columns=[*columns, "middle_step", "middle_fraction", "middle_at_first"])


def _middle(seeds: pd.DataFrame, order: pd.Series, column: str) -> Any:
    """A column of the seed in the middle: first those that are below at first, then by ``order``, NaN (never) last."""
    placed = seeds.assign(late=~seeds["at_first"], order=order.fillna(math.inf)).sort_values(["late", "order"])
    return placed[column].iloc[(len(placed) - 1) // 2]


def curves_over_seeds(table: pd.DataFrame, by: list[str], columns: list[str]) -> pd.DataFrame:
    """Mean over seeds with its 95 % interval at each step after 0 that all seeds of a place have.

    Columns: ``by``, ``step``, ``quantity``, ``mean``, ``low``, ``high``, ``n``.
    """
    moved = table.loc[table["step"] > 0]
    found = over_seeds(moved, [*by, "step"], columns)
    known = moved.melt([*by, "seed"], columns, "quantity").dropna(subset=["value"])
    seeds = known.groupby([*by, "quantity"])["seed"].nunique().rename("seeds").reset_index()
    found = found.merge(seeds, on=[*by, "quantity"])
    shared = found["n"] == found["seeds"]
    return found.loc[shared].drop(columns="seeds").sort_values([*by, "quantity", "step"], ignore_index=True)


def agreement_curves(drift: pd.DataFrame) -> pd.DataFrame:
    """Agreement of all anchors along training, over seeds; R^2 no lower than FLOOR."""
    anchors = drift.loc[drift["group"] == "anchor"]
    return curves_over_seeds(anchors.assign(r2=np.maximum(anchors["r2"], FLOOR)), PLACE, METRICS)
