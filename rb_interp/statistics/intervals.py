"""Numbers over seeds with their intervals, and both as text for readers.

Student t for a mean, Clopper-Pearson for a proportion, median and range, paired differences. Over
the inputs of one model, ``difference_of_paired_shares`` says how far an accuracy changed.

    mean:        m -/+ t(n - 1, 1 - a/2) * s / sqrt(n)
    proportion:  [Beta(a/2; k, n - k + 1), Beta(1 - a/2; k + 1, n - k)]   (Clopper and Pearson, 1934)

The mean's interval covers exactly 1 - a for normal seeds; the proportion's covers at least 1 - a
for any n.

How well a number tells two groups apart: the area under the ROC curve, over several strata, with an
interval.

    AUC = sum over strata of (pairs with first < second + ties / 2) / sum over strata of pairs

One of the pair is of the first group, the other of the second, both of the same stratum. The pairs
are not independent: n_1 and n_2 members make n_1 n_2 pairs, of which min(n_1, n_2) can be disjoint.
The AUC of a stratum is the mean, over all ways to match members, of the mean over k = min(n_1, n_2)
independent pairs, so Chernoff's bound for k independent pairs holds for it (Hoeffding 1963, Sec.
5). With weights w_g, the shares of all pairs, it holds for the weighted mean of strata with K =
min_g k_g / w_g. The interval has every t with

    K (a ln(a / t) + (1 - a) ln((1 - a) / (1 - t))) <= ln(2 / (1 - confidence)),    a the AUC

It covers the expected AUC with at least the given confidence, for any distribution and any number
of members, where strata are independent. It is too narrow where they share seeds.

Text is the same in figures, reports and the terminal.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import special
from scipy.optimize import brentq
from scipy.special import rel_entr

from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError

OVER_SEEDS = "mean low high n median lowest highest"
"""Columns of every table over seeds: mean with its 95 % interval, number, median and range."""


class Interval(NamedTuple):
    """An estimate and the ends of its interval, in the unit of what was estimated."""

    estimate: float
    low: float
    high: float


NO_INTERVAL = Interval(np.nan, np.nan, np.nan)


@checked
def t_interval(values: Sequence[float] | np.ndarray, confidence: float = 0.95) -> Interval:
    """Student t interval of the mean of independent values, one a seed.

    Equal values give a point. One value says nothing about its spread, so its interval is the whole
    line; no value gives NaN throughout, and so does a value that is not finite. Raises
    ArgumentError for values that are not one number a seed.

    >>> [round(x, 3) for x in t_interval([1.0, 2.0, 3.0, 4.0, 5.0])]
    [3.0, 1.037, 4.963]
    >>> t_interval([0.1, 0.1, 0.1])
    Interval(estimate=0.1, low=0.1, high=0.1)
    >>> t_interval([2.0])
    Interval(estimate=2.0, low=-inf, high=inf)
    """
    x = np.asarray(values, dtype=float)
    if x.ndim != 1:
        raise ArgumentError(f"t_interval got shape {list(x.shape)}; give one number per seed.")
    if len(x) == 0 or not np.isfinite(x).all():
        return NO_INTERVAL
    if len(x) == 1:
        return Interval(float(x[0]), -np.inf, np.inf)
    if np.all(x == x[0]):
        # the mean of equal floats can be off by an ulp, which matters at a threshold
        value = float(x[0])
        return Interval(value, value, value)
    mean = float(x.mean())
    quantile = special.stdtrit(len(x) - 1, (1 + confidence) / 2)
    half = float(quantile * x.std(ddof=1) / np.sqrt(len(x)))
    return Interval(mean, mean - half, mean + half)


def median_and_range(values: Sequence[float] | np.ndarray) -> Interval:
    """Median of values, one a seed, with the smallest and the largest; NaN without values.

    >>> median_and_range([3.0, 1.0, 2.0])
    Interval(estimate=2.0, low=1.0, high=3.0)
    """
    x = np.asarray(values, dtype=float)
    if len(x) == 0:
        return NO_INTERVAL
    return Interval(float(np.median(x)), float(x.min()), float(x.max()))


def interval_or_nan(values: Sequence[float] | np.ndarray) -> Interval:
    """`t_interval` of the finite values; its ends are NaN for fewer than two.

    >>> interval_or_nan([2.0, np.nan])
    Interval(estimate=2.0, low=nan, high=nan)
    """
    x = np.asarray(values, dtype=float)
    interval = t_interval(x[np.isfinite(x)])
    if np.isfinite(interval.low):
        return interval
    return Interval(interval.estimate, np.nan, np.nan)


def intervals_or_nan(values: np.ndarray) -> np.ndarray:
    """`interval_or_nan` of every row: estimate, low and high as three columns.

    Values have a row for each cell and a column for each seed.

    >>> intervals_or_nan(np.array([[1.0, 2.0, 3.0], [4.0, np.nan, np.nan]])).round(3).tolist()
    [[2.0, -0.484, 4.484], [4.0, nan, nan]]
    """
    x = np.ascontiguousarray(values, dtype=float)
    n = x.shape[1]
    regular = np.isfinite(x).all(axis=1) & (x != x[:, :1]).any(axis=1)  # so of two seeds or more
    intervals = np.full((len(x), 3), np.nan)
    for row in np.flatnonzero(~regular):
        intervals[row] = interval_or_nan(x[row])
    if regular.any():
        mean = x[regular].mean(axis=1)
        half = special.stdtrit(n - 1, 0.975) * x[regular].std(axis=1, ddof=1) / np.sqrt(n)
        intervals[regular] = np.stack([mean, mean - half, mean + half], axis=1)
    return intervals


@checked
def proportion_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Clopper-Pearson interval of a proportion in [0, 1]; without trials it is [0, 1] around NaN.

    >>> [round(x, 4) for x in proportion_interval(9, 10)]
    [0.9, 0.555, 0.9975]
    """
    if n == 0:
        return Interval(np.nan, 0.0, 1.0)
    tail = (1 - confidence) / 2
    failures = n - successes
    low = 0.0
    high = 1.0
    if successes:
        low = float(special.betaincinv(successes, failures + 1, tail))
    if failures:
        high = float(special.betaincinv(successes + 1, failures, 1 - tail))
    return Interval(successes / n, low, high)


def difference_of_paired_shares(lost: int, gained: int, n: int) -> Interval:
    """Difference of two shares of the same n trials, in [-1, 1], with Tango's score interval (95 %).

    It does not shrink to a point where all trials agree: there it reaches z^2 / (n + z^2) to both
    sides. Its coverage is near 95 %: of 10 trials or 20, from 94 % on. Without trials it
    is [-1, 1] around NaN.

    Args:
        lost: trials that count for the first share alone.
        gained: trials that count for the second share alone.
        n: trials.

    Source: Tango (1998, Statistics in Medicine 17, 891-908).

    >>> [[round(x, 3) for x in difference_of_paired_shares(lost, 0, 10)] for lost in (9, 0)]
    [[0.9, 0.373, 0.982], [0.0, -0.278, 0.278]]
    """
    if n == 0:
        return Interval(np.nan, -1.0, 1.0)
    square = special.ndtri(0.975) ** 2
    estimate = (lost - gained) / n
    margin = 1e-9

    def excess(difference: float) -> float:
        """Above 0 if the score test rejects a difference, with the other share at its most likely
        value."""
        linear = (2 * n - lost + gained) * difference - lost - gained
        root = np.sqrt(max(linear**2 + 8 * n * gained * difference * (1 - difference), 0.0))
        other = (root - linear) / (4 * n)
        variance = 2 * other + difference * (1 - difference)
        return float((lost - gained - n * difference) ** 2 - square * n * variance)

    low: Any = -1.0
    high: Any = 1.0
    if estimate > -1:
        low = brentq(excess, -1, estimate - margin)
    if estimate < 1:
        high = brentq(excess, estimate + margin, 1)
    return Interval(estimate, low, high)


def mean_of_shares(counts: Sequence[tuple[int, int]]) -> Interval:
    """Mean of shares of independent groups, such as a balanced accuracy, with an interval.

    Each of m groups gets a Clopper-Pearson interval of confidence 1 - .05 / m; the ends are
    the means of their ends. By Bonferroni each end errs with probability .025 at most,
    whatever the shares are. It is wider than it need be. NaN if a group is empty, whose ends are
    0 and 1. ``counts`` are successes and trials of each group.

    >>> [round(x, 3) for x in mean_of_shares([(20, 20), (19, 20)])]
    [0.975, 0.762, 1.0]
    """
    confidence = 1 - 0.05 / len(counts)
    intervals = [proportion_interval(successes, n, confidence) for successes, n in counts]
    estimates, lows, highs = zip(*intervals, strict=True)
    return Interval(float(np.mean(estimates)), float(np.mean(lows)), float(np.mean(highs)))


def ratio_interval(
    part: Float[np.ndarray, "*cell row"], whole: Float[np.ndarray, " row"]
) -> tuple[Float[np.ndarray, "*cell"], Float[np.ndarray, "*cell"]]:
    """Ends of the 95 % interval of mean(part) / mean(whole) over paired inputs (Fieller, 1954).

    It holds every ratio r for which the mean of ``part - r whole`` is within t standard errors of
    0. Where the mean of ``whole`` itself is within t standard errors of 0, any ratio may be true:
       the interval is the whole line.

    >>> low, high = ratio_interval(np.array([[0.0, 1.0, 2.0, 1.0]]), np.array([2.0, 2.0, 2.0, 2.0]))
    >>> low.round(2).tolist(), high.round(2).tolist()
    ([-0.15], [1.15])
    """
    n = len(whole)
    mean_part = np.asarray(part.mean(-1))
    mean_whole = whole.mean()
    unbounded = (np.full(mean_part.shape, -np.inf), np.full(mean_part.shape, np.inf))
    if n < 2:
        return unbounded
    part = part - mean_part[..., None]
    whole = whole - mean_whole
    scale = special.stdtrit(n - 1, 0.975) ** 2 / (n * (n - 1))
    # the ratios r for which square r^2 - 2 middle r + constant is at most 0
    square = mean_whole * mean_whole - scale * (whole * whole).sum()
    if square <= 0:
        return unbounded
    middle = mean_part * mean_whole - scale * (part * whole).sum(-1)
    constant = mean_part * mean_part - scale * (part * part).sum(-1)
    half = np.sqrt(np.maximum(middle**2 - square * constant, 0))
    ratio = mean_part / mean_whole  # lies between the two, save for rounding
    low = np.minimum(ratio, (middle - half) / square)
    high = np.maximum(ratio, (middle + half) / square)
    return np.asarray(low), np.asarray(high)


@checked
def paired_differences(first: Mapping[int, float], second: Mapping[int, float]) -> dict[int, float]:
    """First less second for each seed that both have, in the order of the seeds.

    >>> paired_differences({1: 5.0, 0: 3.0, 7: 1.0}, {0: 1.0, 1: 1.0})
    {0: 2.0, 1: 4.0}
    """
    seeds = sorted(first.keys() & second.keys())
    return {seed: first[seed] - second[seed] for seed in seeds}


@checked
def over_seeds(table: pd.DataFrame, by: list[str], columns: list[str]) -> pd.DataFrame:
    """The columns OVER_SEEDS of each of a table's columns, at each place that ``by`` names."""
    rows = []
    for keys, group in table.groupby(by, sort=False, dropna=False):
        for column in columns:
            spread = spread_over_seeds(group[column].to_numpy(dtype=float))
            rows.append((*cast(tuple, keys), column, *spread))
    return pd.DataFrame(rows, columns=[*by, "quantity", *OVER_SEEDS.split()])


def spread_over_seeds(values: np.ndarray) -> tuple[float, ...]:
    """The columns OVER_SEEDS of values, one a seed."""
    finite = values[np.isfinite(values)]
    return (*interval_or_nan(values), len(finite), *median_and_range(finite))


Observations = Sequence[float | int] | np.ndarray


class Auc(NamedTuple):
    """An area under the ROC curve with its interval."""

    value: float
    """Chance that a number of the first group is the lower one."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    n_pairs: int
    """Pairs of one stratum."""
    n_independent: float
    """Independent pairs that these are worth."""


def stratified_auc(
    strata: Sequence[tuple[Observations, Observations]],
) -> Auc:
    """Chance that a number of the first group is the lower one, within strata.

    It is NaN in [0, 1] without pairs.

    Args:
        strata: the numbers of the first and of the second group in each. A stratum in which either
            group has none has no pairs.

    Raises ArgumentError for NaN among the numbers.

    >>> auc = stratified_auc([([1.0, 2.0], [3.0, 4.0]), ([5.0], [5.0]), ([1.0], [])])
    >>> auc.value, auc.n_pairs
    (0.9, 5)
    >>> [round(end, 2) for end in stratified_auc([(range(17), range(20, 37))])[:3]]
    [1.0, 0.8, 1.0]
    """
    n_pairs = 0
    wins = 0.0
    larger_groups = []
    for first, second in strata:
        lower = np.asarray(first, dtype=float)
        higher = np.asarray(second, dtype=float)
        if np.isnan(lower).any() or np.isnan(higher).any():
            raise ArgumentError(
                "stratified_auc got NaN among the numbers; leave out members without a number."
            )
        if len(lower) and len(higher):
            n_pairs += len(lower) * len(higher)
            ties = (lower[:, None] == higher).sum()
            wins += float((lower[:, None] < higher).sum() + ties / 2)
            larger_groups.append(max(len(lower), len(higher)))
    if not n_pairs:
        return Auc(math.nan, 0.0, 1.0, 0, 0.0)
    # of each stratum min(n_1, n_2) / (n_1 n_2 / n_pairs)
    independent = min(n_pairs / larger for larger in larger_groups)
    value = wins / n_pairs

    def excess(t: float) -> float:
        divergence = float(rel_entr([value, 1 - value], [t, 1 - t]).sum())
        return independent * divergence - math.log(2 / (1 - 0.95))

    tiny = 1e-12
    low: Any = 0.0
    high: Any = 1.0
    if value > tiny and excess(tiny) > 0:
        low = brentq(excess, tiny, value)
    if value < 1 - tiny and excess(1 - tiny) > 0:
        high = brentq(excess, value, 1 - tiny)
    return Auc(value, low, high, n_pairs, independent)


SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | int | None) -> str:
    """A number for readers: three significant digits, integers whole, a true minus sign; ``n/a``
    where there is none.

    >>> number(-0.12345), number(1234.6), number(7), number(float("nan")), number(0.00012)
    ('−0.123', '1,235', '7', 'n/a', '1.20×10⁻⁴')
    """
    if value is None or not math.isfinite(value):
        return "n/a"
    if float(value) == int(value) and not isinstance(value, float):
        text = f"{int(value):,}"
    elif abs(value) < 1e-12:
        text = "0"
    elif abs(value) < 1e-3:
        digits, power = f"{value:.2e}".split("e")
        text = f"{digits}×10{str(int(power)).translate(SUPERSCRIPTS)}"
    elif abs(value) >= 999.5:
        text = f"{value:,.0f}"
    else:
        text = f"{value:#.3g}".rstrip(".")
    return text.replace("-", "−")


def two_digits(value: float) -> str:
    """Two decimals without a leading zero, for cells and thresholds of the order of 1.

    >>> two_digits(0.93), two_digits(-0.08), two_digits(1.0), two_digits(1.5)
    ('.93', '−.08', '1', '1.50')
    """
    text = f"{value:.2f}".replace("-0.00", "0.00")
    if text in ("1.00", "-1.00", "0.00"):
        return text.removesuffix(".00").replace("-", "−")
    return text.removeprefix("0").replace("-0.", "−.").replace("-", "−")


def interval_text(
    mean: float, low: float, high: float, write: Callable[[float], str] = number
) -> str:
    """``mean [low, high]``, the mean alone without an interval, or ``n/a``.

    >>> interval_text(0.5, 0.25, 0.75), interval_text(0.5, 0.25, math.nan)
    ('0.500 [0.250, 0.750]', '0.500')
    """
    if not math.isfinite(mean):
        return "n/a"
    if not math.isfinite(low) or not math.isfinite(high):
        return write(mean)
    return f"{write(mean)} [{write(low)}, {write(high)}]"


def share_text(mean: float, low: float, high: float, digits: int = 2) -> str:
    """``mean [low, high]`` with a fixed number of decimals, for numbers of the order of 1.

    >>> share_text(-0.2, -0.301, -0.1)
    '−0.20 [−0.30, −0.10]'
    """
    zero = f"{0:.{digits}f}"

    def write(value: float) -> str:
        return f"{value:,.{digits}f}".replace(f"-{zero}", zero).replace("-", "−")

    return interval_text(mean, low, high, write)


def mean_text(mean: float, low: float, high: float) -> str:
    """``mean [low, high]`` with two decimals up to 100, three below .1 in size.

    >>> mean_text(0.6, -0.671, 1.871), mean_text(0.0712, math.nan, math.nan), mean_text(math.nan, 0.0, 0.0)
    ('0.60 [−0.67, 1.87]', '0.071', 'n/a')
    """
    size = abs(mean)
    whole = size > 1 and all(float(end).is_integer() for end in (mean, low, high))
    digits = 2 if size >= 0.1 else 3
    if whole or size >= 100:
        digits = 0
    return share_text(mean, low, high, digits)


def seeds_text(n: int) -> str:
    """``1 seed`` or ``n seeds``."""
    return f"{n} seed" if n == 1 else f"{n} seeds"
