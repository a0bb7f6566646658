"""Numbers and intervals as text for readers, the same in figures, reports and the terminal."""

import math
from collections.abc import Callable

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
