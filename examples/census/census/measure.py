"""Numbers of each seed, from the tables of members.

A member *infers* where its accuracy on rsn_test, a mean of ten evaluations, is .90 at least.
``mixed`` and ``none`` are no circuits. N1 to N4 and N8 are of norms whose members are all there, N5
of norms with all members at gamma .3 and .8. A difference is of the same seed:

    rho              Spearman, over the seed's inferring members, of a setting and "is
                     average-then-key"; 0 where all or none of them have that circuit
    two_circuits     1 in a cell (gamma, rate, norm; its number stands as seed) where two circuits
                     have two inferring members each; cells with six inferring members at least
    gap_by_circuit   key-to-anchors less average-then-key, mean over pairs of inferring members of
                     one norm and rate, times the sign that most seeds have
    gap_NORM         gamma .3 less gamma .8, at the rate with the lowest training loss of both
                     together at step 1,000, which all members have
    bias_by_eps      |B(1e-12) - B(1e-8)| - |B(1.01e-8) - B(1e-8)|, gamma .8
    gap_by_average   L0 fixed at 1/i less free, mean over norms and rates at gamma .8, times the
                     sign that most seeds have
    same_from_0      share of the seed's forks from step 0 whose copy has the member's circuit
    same_late        that of its forks from sealed_loss on, the largest loss on rsn_train at which,
                     and below which, .95 of the other seeds' forks have it; 0 where there is no
                     such loss, or no fork of the seed at or below it
    agreement        share of pairs of the seed's members, of two rates at one norm and gamma, that
                     are alike, less what is expected if each cell's circuits are dealt to its
                     seeds by chance; of members with one of the two circuits, without gamma .8,
                     where it was seen first, and without pairs of cells where all are alike

Beside them stand, and decide nothing: rho within one norm and rate (N1) and within one norm and
gamma (N2), means over those where the circuit varies; two_circuits with gather-at-last-anchor
counted as key-to-anchors, whose rule its members mostly meet too; gap_by_circuit over pairs that
are one step of gamma apart; both terms of bias_by_eps; sealed_loss, and late_forks, the seed's forks
from it on.

``groups`` is of the factorial: the mean at .8 less that at .5, over all else, of one seed; a pair is
half the difference of two such differences. Mean and t-interval are over the seeds of which all 32
members have the number. ``agreements`` has, for each norm and gamma, the pairs that ``agreement`` is
of, those alike, and what permuting the seeds within each rate gives. ``stopped`` says how many
members, trained to the last step, have another circuit there than where they were settled;
``norms``, what the map has.

How it can mislead. Within a seed, members of one norm and rate differ in gamma, so gap_by_circuit
holds the effect of gamma on the gap, too. Members of one cell differ in their data. A gap is missing
where the member never came to the loss or diverged; then the seed's mean is of the others. Cells are
no sample of settings, so the interval of N3 is about cells like these.
"""

from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from census.claims import NORMS
from rb_interp import RbInterpError
from rb_interp.interventions.circuits import CAUSES
from rb_interp.runs import Run, StudyResult, readings_table
from rb_interp.statistics import proportion_interval, t_interval

PAPERS = "average-then-key"
OTHER = "key-to-anchors"
INFERS = 0.9
N_GAMMAS, MEMBERS_A_GAMMA = 8, 40
"""Of the map, for each norm."""
GROUPS = ("embedding", "qk", "vo", "mlp", "unembedding")
MEANS = ("bias", "gap", "tv_half")
NUMBERS = (*MEANS, *CAUSES)
"""What effects are of: bias index, mean gap at both losses (nats), TV of L0, share of each
circuit."""
N_FORKS = 128
N_DRAWS = 10_000
SEALED = 0.95
SETTINGS = "norm seed L0"
GAPS = "circuit gap_3 gap_2.65"
TABLES = {
    "map": f"{SETTINGS} gamma lr {GAPS} acc_gap_3 acc_gap_2.65 loss_1000 accuracy_rsn_test",
    "factorial": f"{SETTINGS} {' '.join(f'gammas.{group}' for group in GROUPS)} {GAPS} bias tv_half",
    "optimiser": f"{SETTINGS} gamma optimiser lr eps weight_decay batch_size {GAPS} bias tv_half "
    "half_step",
    "forks": "gamma seed fork loss circuit sibling",
}
"""Columns without which a table is not one of members."""
Numbers = Iterator[tuple[int, str, float]]
"""Seed, quantity, value."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    folder = Path(run.config.members)
    tables = {name: read(folder / f"{name}.parquet") for name in TABLES}
    if not any(map(len, tables.values())):
        raise RbInterpError(f"{folder} has none of {', '.join(TABLES)} (.parquet); give --members.")
    readings = readings_table(*map(rows, numbers(**tables)))
    made = {
        "norms": norms(tables["map"]),
        "agreements": agreements(tables["map"]),
        "groups": groups(tables["factorial"]),
        **optimisers(tables["optimiser"]),
        "stopped": stopped(tables["factorial"], tables["optimiser"]),
    }
    return StudyResult(readings, {**tables, **made})


def read(path: Path) -> pd.DataFrame:
    """A table of members, empty if there is none; RbInterpError if it is not what its name says."""
    columns = TABLES[path.stem].split()
    if not path.is_file():
        return pd.DataFrame(columns=[*dict.fromkeys(["L0", "run", "gamma", *columns])])
    table = pd.read_parquet(path)
    missing = [column for column in columns if column not in table]
    if missing:
        raise RbInterpError(f"{path} lacks {', '.join(missing)}; experiments/census makes it.")
    read = ("circuit", "loss", "sibling", "bias", "tv_half", "half_step", "acc", "gap_")
    settings = [column for column in columns if not column.startswith(read)]
    twice = table[table.duplicated(settings)]
    if len(twice):
        raise RbInterpError(f"{path} has a member twice: {twice[settings].iloc[0].to_dict()}.")
    return table


def numbers(
    map: pd.DataFrame, factorial: pd.DataFrame, optimiser: pd.DataFrame, forks: pd.DataFrame
) -> Iterator[Numbers]:
    """All that there are whole tables for."""
    if len(map):
        both = map[map["gamma"].isin([0.3, 0.8]) & (map["L0"] == "free")]
        yield equal_loss(whole(both, 2 * MEMBERS_A_GAMMA))
        free = whole(map[map["L0"] == "free"], N_GAMMAS * MEMBERS_A_GAMMA)
        inferring = free[free["accuracy_rsn_test"] >= INFERS]
        yield rank_correlations(inferring)
        yield cells(inferring)
        yield from by_circuit(inferring)
        yield agreement(free[free["gamma"] != 0.8])
        fixed = whole(map[map["L0"] == "fixed"], MEMBERS_A_GAMMA)
        yield by_average(pd.concat([free, fixed]))
    if len(optimiser):
        yield by_epsilon(optimiser)
    if len(forks) == N_FORKS:
        yield sealing(forks)


def whole(members: pd.DataFrame, n: int) -> pd.DataFrame:
    """Members of the norms that have n of them."""
    return members[members.groupby("norm")["norm"].transform("size") >= n]


def rows(numbers: Numbers) -> Iterator[dict]:
    unread = ("gamma", "layer", "head", "untrained", "null_mean", "null_sd", "p_value")
    place = {"stage": "final", "step": 0, "set": "", "probe": "census", "null": "", "n": 1}
    for seed, quantity, value in numbers:
        found = {"seed": seed, "quantity": quantity, "value": value}
        yield {**dict.fromkeys(unread, np.nan), **place, **found}


def rank_correlations(inferring: pd.DataFrame) -> Numbers:
    for seed, here in inferring.groupby("seed"):
        for name, setting, other in (("gamma", "gamma", "lr"), ("rate", "lr", "gamma")):
            yield int(seed), f"rho_{name}", spearman(here, setting)
            groups = [group for _, group in here.groupby(["norm", other])]
            varying = [group for group in groups if (group["circuit"] == PAPERS).nunique() > 1]
            within = [spearman(group, setting) for group in varying]
            yield int(seed), f"rho_{name}_within", float(np.mean(within)) if within else np.nan


def spearman(members: pd.DataFrame, setting: str) -> float:
    papers = members["circuit"] == PAPERS
    if papers.nunique() < 2:
        return 0.0
    if members[setting].nunique() < 2:
        return np.nan
    return float(stats.spearmanr(members[setting], papers).statistic)


def cells(inferring: pd.DataFrame) -> Numbers:
    groups = inferring.groupby(["norm", "lr", "gamma"])["circuit"]
    large = [circuits for _, circuits in groups if len(circuits) >= 6]
    for number, circuits in enumerate(large):
        named = circuits[~circuits.isin(["mixed", "none"])]
        for quantity, names in (
            ("two_circuits", named),
            ("two_circuits_merged", named.replace("gather-at-last-anchor", OTHER)),
        ):
            yield number, quantity, float((names.value_counts() >= 2).sum() >= 2)


def by_circuit(inferring: pd.DataFrame) -> Iterator[Numbers]:
    """Mean difference of the gap at 2.65 nats, of all pairs and of those one step of gamma apart."""
    table = inferring.dropna(subset=["gap_2.65"])
    first, second = (table[table["circuit"] == name] for name in (OTHER, PAPERS))
    pairs = first.merge(second, on=["seed", "norm", "lr"])
    pairs["difference"] = pairs["gap_2.65_x"] - pairs["gap_2.65_y"]
    near = (pairs["gamma_x"] - pairs["gamma_y"]).abs() < 0.15
    yield along_most("gap_by_circuit", pairs.groupby("seed")["difference"].mean())
    yield along_most("gap_by_circuit_near", pairs[near].groupby("seed")["difference"].mean())


def agreement(members: pd.DataFrame) -> Numbers:
    named = members[members["circuit"].isin([PAPERS, OTHER])]
    cells = ["norm", "gamma", "lr"]
    papers = (named["circuit"] == PAPERS).astype(float)
    named = named.assign(
        papers=papers, share=papers.groupby([named[key] for key in cells]).transform("mean")
    )
    pairs = named.merge(named, on=["norm", "gamma", "seed"]).query("lr_x < lr_y")
    alike = (pairs["papers_x"] == pairs["papers_y"]).astype(float)
    expected = pairs["share_x"] * pairs["share_y"] + (1 - pairs["share_x"]) * (1 - pairs["share_y"])
    excess = (alike - expected)[expected < 1]
    for seed, mean in excess.groupby(pairs["seed"]).mean().items():
        yield int(seed), "agreement", mean


def by_average(map: pd.DataFrame) -> Numbers:
    """Mean difference of the gap at 3 nats."""
    gaps = map.pivot_table("gap_3", ["seed", "norm", "lr", "gamma"], "L0")
    if {"fixed", "free"} <= set(gaps):
        differences = (gaps["fixed"] - gaps["free"]).dropna()
        yield from along_most("gap_by_average", differences.groupby("seed").mean())


def along_most(quantity: str, differences: pd.Series) -> Numbers:
    """Each seed's difference, and that times the sign that most seeds have."""
    sign = 1.0 if (differences > 0).sum() >= len(differences) / 2 else -1.0
    for seed, difference in differences.items():
        yield seed, f"{quantity}_signed", difference
        yield seed, quantity, sign * difference


def best_rates(free: pd.DataFrame) -> dict[str, float]:
    """Norm -> the rate with the lowest training loss at step 1,000, of all members together."""
    losses = free.assign(loss=free["loss_1000"].fillna(np.inf))  # of a member that diverged
    means = losses.groupby(["norm", "lr"])["loss"].mean()
    return {norm: here.idxmin()[1] for norm, here in means.groupby("norm")}


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
        "L0 == 'free' and optimiser == 'adamw' and gamma == .8 and weight_decay == .01 "
        "and batch_size == 128"
    )
    for norm, here in usual.groupby("norm"):
        bias = here.pivot_table("bias", "seed", "eps")
        if {1e-12, 1e-8, 1.01e-8} <= set(bias):
            by_eps, by_chaos = ((bias[eps] - bias[1e-8]).abs() for eps in (1e-12, 1.01e-8))
            parts = {"": by_eps - by_chaos, "_alone": by_eps, "_control": by_chaos}
            for part, change in parts.items():
                for seed, value in change.items():
                    yield int(seed), f"bias_by_eps_{norm}{part}", value


def sealing(forks: pd.DataFrame) -> Numbers:
    """The loss from which on copies agree is fixed for each seed by the others."""
    forks = forks.assign(same=forks["circuit"] == forks["sibling"]).sort_values("loss")
    for seed, own in forks.groupby("seed"):
        others = forks[forks["seed"] != seed]
        by_loss = others.groupby("loss")["same"].agg(["sum", "size"]).cumsum()
        level = by_loss.index[by_loss["sum"] >= SEALED * by_loss["size"]].max()
        late = own[own["loss"] <= level]["same"]
        yield int(seed), "same_from_0", own[own["fork"] == 0]["same"].mean()
        yield int(seed), "same_late", late.mean() if len(late) else 0.0
        yield int(seed), "sealed_loss", level
        yield int(seed), "late_forks", len(late)


def norms(map: pd.DataFrame) -> pd.DataFrame:
    """Norm, members of the map and with L0 fixed, members that infer, and those of each circuit."""
    found = []
    for norm in NORMS:
        free = map[(map["norm"] == norm) & (map["L0"] == "free")]
        fixed = (map["norm"] == norm) & (map["L0"] == "fixed")
        circuits = [(free["circuit"] == name).sum() for name in CAUSES]
        inferring = (free["accuracy_rsn_test"] >= INFERS).sum()
        found.append([norm, len(free), fixed.sum(), inferring, *circuits])
    return pd.DataFrame(found, columns=["norm", "members", "fixed", "infer", *CAUSES])


def agreements(map: pd.DataFrame) -> pd.DataFrame:
    """Norm, gamma, pairs, alike, and by chance: mean, 97.5th percentile, p."""
    rng, found = np.random.default_rng(0), []
    named = map[(map["L0"] == "free") & map["circuit"].isin([PAPERS, OTHER])]
    papers = named.assign(papers=(named["circuit"] == PAPERS).astype(float))
    for keys, here in papers.groupby(["norm", "gamma"]):
        circuits = here.pivot_table("papers", "seed", "lr").to_numpy()
        drawn = np.repeat(circuits[None], N_DRAWS + 1, axis=0)  # the first stays as it is
        for rate, column in enumerate(circuits.T):
            there = np.flatnonzero(~np.isnan(column))
            drawn[1:, there, rate] = rng.permuted(drawn[1:, there, rate], axis=1)
        pairs = list(combinations(range(circuits.shape[1]), 2))
        alike = sum((drawn[..., a] == drawn[..., b]).sum(axis=1) for a, b in pairs)
        n = sum((~np.isnan(circuits[:, a] + circuits[:, b])).sum() for a, b in pairs)
        high, p = np.quantile(alike[1:], 0.975), np.mean(alike >= alike[0])
        found.append([*keys, n, alike[0], alike[1:].mean(), high, p])
    return pd.DataFrame(found, columns=["norm", "gamma", "pairs", "alike", "chance", "high", "p"])


def groups(factorial: pd.DataFrame) -> pd.DataFrame:
    """Norm, number, term, mean, low, high, n (seeds): main effects and pairs."""
    table = with_gap(factorial[factorial["L0"] == "free"]).reset_index(drop=True)
    for name in CAUSES:
        table[name] = (table["circuit"] == name).astype(float)
    signs = {group: np.where(table[f"gammas.{group}"] == 0.8, 1, -1) for group in GROUPS}
    signs |= {f"{a} x {b}": signs[a] * signs[b] for a, b in combinations(GROUPS, 2)}
    found = []
    for norm, number in product(NORMS, NUMBERS):
        read = table[(table["norm"] == norm) & table[number].notna()]
        read = read[read.groupby("seed")["seed"].transform("size") == 2 ** len(GROUPS)]
        if not len(read):
            continue
        for term, sign in signs.items():
            effects = 2 * (read[number] * sign[read.index]).groupby(read["seed"]).mean()
            found.append([norm, number, term, *t_interval(effects.to_numpy()), len(effects)])
    return pd.DataFrame(found, columns=["norm", "number", "term", "mean", "low", "high", "n"])


def optimisers(optimiser: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """``optimisers``: members, those that came to half, and circuits of each norm, gamma and
    optimiser; ``optimiser_means``: norm, gamma, optimiser, number, mean, low, high, n (seeds)."""
    table = with_gap(optimiser[optimiser["L0"] == "free"])
    table["optimiser"] = [label(row) for row in table.to_dict("records")]
    counts, means = [], []
    for keys, here in table.groupby(["norm", "gamma", "optimiser"]):
        circuits = here["circuit"].value_counts()
        half = here["half_step"].notna().sum()
        counts.append([*keys, len(here), half, *(circuits.get(name, 0) for name in CAUSES)])
        for number in MEANS:
            values = here[number].dropna()
            means.append([*keys, number, *t_interval(values.to_numpy()), len(values)])
    keys = ["norm", "gamma", "optimiser"]
    return {
        "optimisers": pd.DataFrame(counts, columns=[*keys, "members", "half", *CAUSES]),
        "optimiser_means": pd.DataFrame(
            means, columns=[*keys, "number", "mean", "low", "high", "n"]
        ),
    }


def label(row: dict) -> str:
    """What a member's optimiser has beside the preset's."""
    usual = {"eps": 1e-8, "weight_decay": 0.01, "batch_size": 128}
    words = {"eps": "eps", "weight_decay": "decay", "batch_size": "batch"}
    if row["optimiser"] != "adamw":
        return f"{row['optimiser']}, rate {row['lr']:g}"
    parts = [f"{words[name]} {row[name]:g}" for name, value in usual.items() if row[name] != value]
    return ", ".join(parts) or "as the preset"


def stopped(*tables: pd.DataFrame) -> pd.DataFrame:
    """Members trained to the end that were settled before: n, changed, share, low, high."""
    read = [table for table in tables if "circuit_at_end" in table]
    if not read:
        return pd.DataFrame(columns=["n", "changed", "share", "low", "high"])
    members = pd.concat(read).query("L0 == 'free' and settled").dropna(subset="circuit_at_end")
    changed = int((members["circuit"] != members["circuit_at_end"]).sum())
    row = [len(members), changed, *proportion_interval(changed, len(members))]
    return pd.DataFrame([row], columns=["n", "changed", "share", "low", "high"])
