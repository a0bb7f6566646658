"""Numbers over seeds: Student t for a mean, Clopper-Pearson for a proportion, median and range, paired differences.

Over the inputs of one model, ``difference_of_paired_shares`` says how far an accuracy changed.

    mean:        m -/+ t(n - 1, 1 - a/2) * s / sqrt(n)
    proportion:  [Beta(a/2; k, n - k + 1), Beta(1 - a/2; k + 1, n - k)]   (Clopper and Pearson, 1934)

The mean's interval covers exactly 1 - a for normal seeds; the proportion's covers at least 1 - a for any n.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from scipy import special

from rb_interp.errors import ArgumentError
from rb_interp.typed import typed

OVER_SEEDS = "mean low high n median lowest highest"
"""Columns of every table over seeds: mean with its 95 % interval, number, median and range."""


class Interval(NamedTuple):
    """An estimate and the ends of its interval, in the unit of what was estimated."""

    estimate: float
    low: float
    high: float


@typed
def t_interval(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> Interval:
    """Student t interval of the mean of independent values, one a seed.

    Equal values give a point. One value says nothing about its spread, so its interval is the whole line;
    no value gives NaN throughout, and so does a value that is not finite. Raises ArgumentError for values that are not
    one number a seed, and for a confidence that is not between 0 and 1.

    >>> [round(x, 3) for x in t_interval([1.0, 2.0, 3.0, 4.0, 5.0])]
    [3.0, 1.037, 4.963]
    >>> t_interval([0.1, 0.1, 0.1])
    Interval(estimate=0.1, low=0.1, high=0.1)
    >>> t_interval([2.0])
    Interval(estimate=2.0, low=-inf, high=inf)
    """
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or not 0 < confidence < 1:
        raise ArgumentError(f"t_interval got shape {list(x.shape)} and confidence={confidence:g}; give one per seed.")
    if len(x) == 0:
        return Interval(np.nan, np.nan, np.nan)
    if len(x) == 1:
        return Interval(float(x[0]), -np.inf, np.inf)
    if np.all(x == x[0]):  # the mean of equal floats can be off by an ulp, which matters at a threshold
        return Interval(*[float(x[0])] * 3)
    mean = float(x.mean())
    half = float(special.stdtrit(len(x) - 1, (1 + confidence) / 2) * x.std(ddof=1) / np.sqrt(len(x)))
    return Interval(mean, mean - half, mean + half)


def median_and_range(values: Sequence[float] | np.ndarray) -> Interval:
    """Median of values, one a seed, with the smallest and the largest; NaN throughout where there is none.

    >>> median_and_range([3.0, 1.0, 2.0])
    Interval(estimate=2.0, low=1.0, high=3.0)
    """
    x = np.asarray(values, dtype=float)
    return Interval(float(np.median(x)), float(x.min()), float(x.max())) if len(x) else Interval(*[np.nan] * 3)


def interval_or_nan(values: Sequence[float] | np.ndarray) -> Interval:
    """`t_interval` of the finite values for a table: its ends are NaN where there are fewer than two.

    >>> interval_or_nan([2.0, np.nan])
    Interval(estimate=2.0, low=nan, high=nan)
    """
    x = np.asarray(values, dtype=float)
    found = t_interval(x[np.isfinite(x)])
    return found if np.isfinite(found.low) else Interval(found.estimate, np.nan, np.nan)


def intervals_or_nan(values: np.ndarray) -> np.ndarray:
    """`interval_or_nan` of every row at once.

    Args:
        values: one row a cell, one column a seed.

    Returns estimate, low and high as three columns, one row a cell, with the digits of the single call.

    >>> intervals_or_nan(np.array([[1.0, 2.0, 3.0], [4.0, np.nan, np.nan]])).round(3).tolist()
    [[2.0, -0.484, 4.484], [4.0, nan, nan]]
    """
    x = np.ascontiguousarray(values, dtype=float)
    n = x.shape[1]
    whole = np.isfinite(x).all(axis=1) & (x != x[:, :1]).any(axis=1)  # so of two seeds or more
    found = np.full((len(x), 3), np.nan)
    found[~whole] = [interval_or_nan(row) for row in x[~whole]] or np.empty((0, 3))
    if whole.any():
        mean = x[whole].mean(axis=1)
        half = special.stdtrit(n - 1, 0.975) * x[whole].std(axis=1, ddof=1) / np.sqrt(n)
        found[whole] = np.stack([mean, mean - half, mean + half], axis=1)
    return found


@typed
def proportion_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Clopper-Pearson interval of a proportion in [0, 1]; without trials it is [0, 1] around NaN.

    Raises ArgumentError for more successes than trials, and for a confidence that is not between 0 and 1.

    >>> [round(x, 4) for x in proportion_interval(9, 10)]
    [0.9, 0.555, 0.9975]
    """
    if successes > n or not 0 < confidence < 1:
        raise ArgumentError(
            f"proportion_interval got {successes} successes of {n} and confidence={confidence:g}; expected at most as "
            f"many successes as trials, and a share between 0 and 1."
        )
    if n == 0:
        return Interval(np.nan, 0.0, 1.0)
    tail = (1 - confidence) / 2
    low = special.betaincinv(successes, n - successes + 1, tail) if successes else 0.0
    high = special.betaincinv(successes + 1, n - successes, 1 - tail) if successes < n else 1.0
    return Interval(successes / n, float(low), float(high))


def difference_of_paired_shares(lost: int, gained: int, n: int, confidence: float = 0.95) -> Interval:
    """Difference of two shares of the same n trials, in [-1, 1], with Tango's score interval.

    It rests on the trials that count for one share alone, and does not shrink to a point where all of them agree: with
    no such trial it reaches z^2 / (n + z^2) to both sides. Its coverage is near the confidence: of 10 trials
    or 20, from 94 % on for shares all over the range. Without trials it is [-1, 1] around NaN.

    Args:
        lost: trials that count for the first share alone. gained: those that count for the second alone.

    Source: Tango (1998, Statistics in Medicine 17, 891-908).

    >>> [[round(x, 3) for x in difference_of_paired_shares(lost, 0, 10)] for lost in (9, 0)]
    [[0.9, 0.373, 0.982], [0.0, -0.278, 0.278]]
    """
    if n == 0:
        return Interval(np.nan, -1.0, 1.0)
    from scipy import optimize

    solve: Any = optimize.brentq
    square, found, margin = special.ndtri((1 + confidence) / 2) ** 2, (lost - gained) / n, 1e-9

    def beyond(difference: float) -> float:
        """Above 0 where the score test rejects a difference; the other share is then its most likely one."""
        linear = (2 * n - lost + gained) * difference - lost - gained
        root = np.sqrt(max(linear**2 + 8 * n * gained * difference * (1 - difference), 0.0))
        other = (root - linear) / (4 * n)
        variance = 2 * other + difference * (1 - difference)
        return float((lost - gained - n * difference) ** 2 - square * n * variance)

    low = -1.0 if found == -1 else solve(beyond, -1, found - margin)
    high = 1.0 if found == 1 else solve(beyond, found + margin, 1)
    return Interval(found, float(low), float(high))


def mean_of_shares(counts: Sequence[tuple[int, int]], confidence: float = 0.95) -> Interval:
    """Mean of shares of independent groups, such as a balanced accuracy, with an interval that covers at least this.

    Each of m groups gets a Clopper-Pearson interval of confidence 1 - (1 - confidence) / m; the ends are the means of
    their ends. By Bonferroni each end errs with (1 - confidence) / 2 at most, whatever the shares are. It is wider than
    it need be, since the groups would have to err together. NaN, with its whole range, where a group is empty.

    Args:
        counts: successes and trials of each group, one or more.

    >>> [round(x, 3) for x in mean_of_shares([(20, 20), (19, 20)])]
    [0.975, 0.762, 1.0]
    """
    inner = 1 - (1 - confidence) / len(counts)
    found = [proportion_interval(successes, n, inner) for successes, n in counts]
    return Interval(*(float(np.mean(ends)) for ends in zip(*found, strict=True)))


@typed
def paired_differences(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """First less second for each seed that both have, in the order of the seeds; NaN where one of them is.

    >>> paired_differences({1: 5.0, 0: 3.0, 7: 1.0}, {0: 1.0, 1: 1.0})
    {0: 2.0, 1: 4.0}
    """
    return {seed: first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())}


def check_columns(asker: str, table: pd.DataFrame, columns: Iterable[str]) -> None:
    """Raise ArgumentError where a table lacks a column."""
    missing = [column for column in columns if column not in table]
    if missing:
        raise ArgumentError(
            f"{asker} got a table without the column{'s' * (len(missing) > 1)} {', '.join(missing)}; its columns are "
            f"{', '.join(map(str, table.columns)) or 'none'}."
        )


@typed
def over_seeds(table: pd.DataFrame, by: list[str], columns: list[str]) -> pd.DataFrame:
    """Mean (95 % interval, Student t) and median over seeds of a table's columns, for tables that are no readings.

    Args:
        table: one row a seed and place. by: columns that name a place. columns: what is averaged.

    Returns a table of ``by``, ``quantity`` (the column's name), ``mean``, ``low``, ``high``, ``n``, ``median``,
    ``lowest`` and ``highest``. Raises ArgumentError for no column of ``by``, and for a table that lacks one.
    """
    if not by:
        raise ArgumentError("over_seeds got by=[]; expected the columns that name a place, at least one.")
    check_columns("over_seeds", table, (*by, *columns))
    rows = []
    for place, here in table.groupby(by, sort=False, dropna=False):
        for column in columns:
            values = here[column].to_numpy(dtype=float)
            rows.append((*cast(tuple, place), column, *spread_over_seeds(values)))
    return pd.DataFrame(rows, columns=[*by, "quantity", *OVER_SEEDS.split()])


def spread_over_seeds(values: np.ndarray) -> tuple[float, ...]:
    """The columns OVER_SEEDS of values, one a seed."""
    finite = values[np.isfinite(values)]
    return (*interval_or_nan(values), len(finite), *median_and_range(finite))
