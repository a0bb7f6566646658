"""Numbers of each seed, from the tables of members.

A member *infers* where its accuracy on rsn_test, a mean of ten evaluations, is .90 at least.
``mixed`` and ``none`` are no circuits. A difference is of the same seed:

    rho              Spearman, over the seed's inferring members, of a setting and "is average-then-key"
    two_circuits     1 in a cell (gamma, rate, norm; its number stands as seed) where two circuits have two
                     inferring members each; cells with six inferring members at least
    gap_by_circuit   key-to-anchors less average-then-key, mean over pairs of inferring members of one norm
                     and rate
    gap_NORM         gamma .3 less gamma .8, at the rate with the lowest training loss of both together
    bias_by_eps      |B(1e-12) - B(1e-8)| - |B(1.01e-8) - B(1e-8)|, gamma .8
    gap_by_average   L0 fixed at 1/i less free, mean over the seed's settings

The effects of ``groups`` are of the factorial: the mean at .8 less that at .5, over all else, of one seed;
a pair is half the difference of such a difference. Mean and t-interval are over seeds.

How it can mislead. Members of one cell differ in their data, too. A member's gap may be missing, if
it never came to the loss; then the seed's mean is of the others. Cells are no sample of settings,
so the interval of N3 is about cells like these.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from census.claims import NORMS
from rb_interp.runs import Run, StudyResult, readings_table
from rb_interp.statistics import t_interval

PAPERS = "average-then-key"
OTHER = "key-to-anchors"
INFERS = 0.9
GROUPS = ("embedding", "qk", "vo", "mlp", "unembedding")
NUMBERS = ("bias", "gap", "tv_half", PAPERS, OTHER)
"""What effects are of: bias index, mean gap at both losses (nats), TV of L0, and shares of two
circuits."""
Numbers = Iterator[tuple[int, str, float]]
"""Seed, quantity, value."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    tables = {}
    for name in ("map", "factorial", "optimiser"):
        path = Path(run.config.members) / f"{name}.parquet"
        tables[name] = pd.read_parquet(path) if path.is_file() else empty(run.study.tables[name])
    readings = readings_table(*map(rows, numbers(**tables)))
    made = {"groups": groups(tables["factorial"]), "optimisers": optimisers(tables["optimiser"])}
    return StudyResult(readings, {**tables, **made})


def empty(keys: str) -> pd.DataFrame:
    return pd.DataFrame(columns=keys.split())


def numbers(
    map: pd.DataFrame, factorial: pd.DataFrame, optimiser: pd.DataFrame
) -> Iterator[Numbers]:
    """All that there are tables for."""
    if len(map):
        free = map[map["L0"] == "free"]
        inferring = free[free["accuracy_rsn_test"] >= INFERS]
        yield rank_correlations(inferring)
        yield cells(inferring)
        yield of_one_sign("gap_by_circuit", by_circuit(inferring))
        yield of_one_sign("gap_by_average", by_average(map))
        yield equal_loss(free)
    if len(optimiser):
        yield by_epsilon(optimiser)


def rows(numbers: Numbers) -> Iterator[dict]:
    unread = ("gamma", "layer", "head", "untrained", "null_mean", "null_sd", "p_value")
    place = {"stage": "final", "step": 0, "set": "", "probe": "census", "null": "", "n": 1}
    for seed, quantity, value in numbers:
        found = {"seed": seed, "quantity": quantity, "value": value}
        yield {**dict.fromkeys(unread, np.nan), **place, **found}


def rank_correlations(inferring: pd.DataFrame) -> Numbers:
    for seed, here in inferring.groupby("seed"):
        papers = here["circuit"] == PAPERS
        for quantity, setting in (("rho_gamma", "gamma"), ("rho_rate", "lr")):
            varies = papers.nunique() > 1 and here[setting].nunique() > 1
            rho = stats.spearmanr(here[setting], papers).statistic if varies else np.nan
            yield int(seed), quantity, rho


def cells(inferring: pd.DataFrame) -> Numbers:
    groups = inferring.groupby(["norm", "lr", "gamma"])["circuit"]
    large = [circuits for _, circuits in groups if len(circuits) >= 6]
    for number, circuits in enumerate(large):
        counts = circuits[~circuits.isin(["mixed", "none"])].value_counts()
        yield number, "two_circuits", float((counts >= 2).sum() >= 2)


def by_circuit(inferring: pd.DataFrame) -> dict[int, float]:
    """Seed -> mean difference of the gap at 2.65 nats."""
    table = inferring.dropna(subset=["gap_2.65"])
    first, second = (table[table["circuit"] == name] for name in (OTHER, PAPERS))
    pairs = first.merge(second, on=["seed", "norm", "lr"])
    return (pairs["gap_2.65_x"] - pairs["gap_2.65_y"]).groupby(pairs["seed"]).mean().to_dict()


def by_average(map: pd.DataFrame) -> dict[int, float]:
    """Seed -> mean difference of the gap at 3 nats."""
    gaps = map.pivot_table("gap_3", ["seed", "norm", "lr", "gamma"], "L0")
    if "fixed" not in gaps:
        return {}
    return (gaps["fixed"] - gaps["free"]).dropna().groupby("seed").mean().to_dict()


def of_one_sign(quantity: str, differences: dict[int, float]) -> Numbers:
    one_sign = len(set(np.sign(list(differences.values())))) == 1
    for seed, difference in differences.items():
        yield seed, quantity, difference
        yield seed, f"{quantity}_size", abs(difference)
        yield seed, f"{quantity}_has_one_sign", float(one_sign)


def best_rates(free: pd.DataFrame) -> dict[str, float]:
    """Norm -> the rate with the lowest training loss of gammas .3 and .8 together."""
    both = free[free["gamma"].isin([0.3, 0.8])]
    losses = both.assign(loss=both["loss_rsn_train"] + both["loss_mem"])
    means = losses.groupby(["norm", "lr", "gamma"])["loss"].mean().unstack().dropna()
    return {norm: here.sum(axis=1).idxmin()[1] for norm, here in means.groupby("norm")}


def equal_loss(free: pd.DataFrame) -> Numbers:
    for norm, rate in best_rates(free).items():
        here = with_gap(free[(free["norm"] == norm) & (free["lr"] == rate)])
        for quantity in ("gap", "acc_gap_3", "acc_gap_2.65"):
            gaps = here.pivot_table(quantity, "seed", "gamma")
            if {0.3, 0.8} <= set(gaps):
                for seed, difference in (gaps[0.3] - gaps[0.8]).items():
                    yield int(seed), f"{quantity}_{norm}", difference


def with_gap(members: pd.DataFrame) -> pd.DataFrame:
    """With the column ``gap``, as A6 has it: missing where one of the losses was not reached."""
    return members.assign(gap=(members["gap_3"] + members["gap_2.65"]) / 2)


def by_epsilon(optimiser: pd.DataFrame) -> Numbers:
    usual = optimiser.query(
        "L0 == 'free' and gamma == .8 and weight_decay == .01 and batch_size == 128"
    )
    for norm, here in usual.groupby("norm"):
        bias = here.pivot_table("bias", "seed", "eps")
        if {1e-12, 1e-8, 1.01e-8} <= set(bias):
            change = (bias[1e-12] - bias[1e-8]).abs() - (bias[1.01e-8] - bias[1e-8]).abs()
            for seed, value in change.items():
                yield int(seed), f"bias_by_eps_{norm}", value


def groups(factorial: pd.DataFrame) -> pd.DataFrame:
    """Norm, number, term, mean, low, high, n (seeds): main effects and pairs."""
    columns = ["norm", "number", "term", "mean", "low", "high", "n"]
    if not len(factorial):
        return pd.DataFrame(columns=columns)
    table = with_gap(factorial[factorial["L0"] == "free"])
    for name in (PAPERS, OTHER):
        table[name] = (table["circuit"] == name).astype(float)
    signs = {group: np.where(table[f"gammas.{group}"] == 0.8, 1, -1) for group in GROUPS}
    signs |= {f"{a} x {b}": signs[a] * signs[b] for a, b in combinations(GROUPS, 2)}
    found = []
    for norm in (name for name in NORMS if name in set(table["norm"])):
        here = table["norm"] == norm
        for number in NUMBERS:
            for term, sign in signs.items():
                means = table[here].groupby(["seed", sign[here]])[number].mean().unstack()
                difference = (means[1] - means[-1]).dropna().to_numpy()
                found.append([norm, number, term, *t_interval(difference), len(difference)])
    return pd.DataFrame(found, columns=columns)


def optimisers(optimiser: pd.DataFrame) -> pd.DataFrame:
    """Means of each norm, gamma and optimiser; ``members``, and those with the paper's circuit."""
    settings = ["norm", "gamma", "eps", "weight_decay", "batch_size"]
    means = ["bias", "gap", "tv_half"]
    if not len(optimiser):
        return pd.DataFrame(columns=[*settings, "members", PAPERS, *means])
    table = with_gap(optimiser[optimiser["L0"] == "free"])
    table = table.assign(members=1, **{PAPERS: table["circuit"] == PAPERS})
    how = {"members": "sum", PAPERS: "sum", **dict.fromkeys(means, "mean")}
    return table.groupby(settings).agg(how).reset_index()
